"""Commands that train many runs and summarise them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from crosslearning._base.files import write_atomically
from crosslearning._base.plain_data import expecting, read_json
from crosslearning.cli import options
from crosslearning.cli.application import announce_compilation, app, console
from crosslearning.cli.options import option, whole
from crosslearning.cli.output import show_files, show_line, show_table
from crosslearning.errors import InputError

if TYPE_CHECKING:
    from crosslearning.analysis.sweep import Sweep
    from crosslearning.analysis.sweep.stages import Origin


@app.command()
def reproduce(
    out: Annotated[Path, options.folder("Folder for everything.")] = Path("runs/reproduce"),
    quick: Annotated[bool, option("A small version, in about two minutes.")] = False,
    seeds: Annotated[int | None, whole("Default: 10 (other studies: 5); quick: 3 (2).")] = None,
    only: Annotated[list[str] | None, option("Draw only this figure.")] = None,
    readings: Annotated[bool, option("Instead: claims under other readings of it.")] = False,
    search: Annotated[bool, option("Instead: search combinations of readings.")] = False,
    workers: options.Workers = None,
    on: options.On = "processes",
) -> None:
    """Reproduce the paper: every figure, every claim."""
    from crosslearning.figures.paper import check_names, draw
    from crosslearning.figures.paper.curves import readings_figure, search_figure
    from crosslearning.reproduction.paper import readings as other_readings
    from crosslearning.reproduction.paper import reproduce as section
    from crosslearning.reproduction.paper import search as searching
    from crosslearning.reproduction.paper.measure import scene_drives

    if readings and search:
        raise InputError("--readings and --search are two studies; give one of them")
    if (readings or search) and only:
        flag = "--readings" if readings else "--search"
        raise InputError(f"{flag} draws one figure of its own; drop --only")
    if search:
        plan = searching.QUICK if quick else searching.FULL
        folder = out / "search" / ("quick" if quick else "full")
        announce_compilation()
        found = _or_exit(
            searching.search(folder, seeds or plan.seeds, plan, workers, console, on=on)
        )
        _save(search_figure(found), folder / "figures" / "search")
        tried = f"{found['readings_tried']} of {found['combinations']} readings tried"
        show_line(f"{tried}: {folder / 'search.md'}")
        if not plan.confirm.converged:
            show_line(plan.confirm.warning)
        return
    check_names(only)
    folder = out / ("readings" if readings else "") / ("quick" if quick else "full")
    kind: Any = other_readings if readings else section
    scale = kind.QUICK if quick else kind.FULL
    study = other_readings.compare_readings if readings else section.reproduce
    count = seeds or ((2 if quick else 5) if readings else (3 if quick else 10))
    announce_compilation()
    result = _or_exit(study(folder, count, scale, workers, console, on=on))
    if readings:
        content = read_json(folder / "readings.json", dict[str, Any])
        _save(readings_figure(content), folder / "figures" / "readings")
        show_line(f"Readings: {folder / 'readings.md'}")
    else:
        for one in result:
            experiment = one.experiment
            figures = draw(
                experiment, one.measurements, one.adaptation, scene_drives(experiment), only
            )
            show_files(written[0] for written in figures)
            verdicts = [verdict.verdict for verdict in one.verdicts]
            counts = [verdicts.count(word) for word in ("holds", "does not hold", "undecided")]
            summary = "{} hold, {} do not, {} are undecided".format(*counts)
            reading = f"under the reading {experiment.reading.name}"
            table = experiment.path / "claims.md"
            show_line(f"Of {len(verdicts)} claims {summary} {reading}: {table}")
    if count == 1:
        show_line("One seed says nothing about others: every claim stays undecided.")
    if not scale.converged:
        show_line(scale.warning)


@app.command()
@options.with_config_options("epsilon", "seed", "workers", "on", "steps")
def sweep(
    *,
    out: Annotated[Path, options.folder("Folder for everything; gone on from if begun.")],
    config: options.Config = None,
    epsilons: Annotated[str, option("Ascending radii with commas; inf too.")] = "0,0.5,1,2,4,8",
    seeds: Annotated[int, whole("Paths, with the seeds 0, 1, ….")] = 5,
    stage_iterations: Annotated[int | None, whole("Of later stages; default: half.")] = None,
    held_out: Annotated[str | None, option("A task set; for paper: random:unseen:50.")] = None,
    trials: Annotated[int, whole("Episodes per training task.")] = 200,
    horizon: options.Horizon = None,
    origin: Annotated[str, option("Start of a stage: previous, common or zero.")] = "previous",
    against: Annotated[Path | None, option("Another sweep's folder, to compare with.")] = None,
    workers: options.Workers = None,
    on: options.On = "processes",
    **fields: Any,
) -> None:
    """Learn a path of radii ε, measure each, and recommend one."""
    from crosslearning.analysis.sweep import EpsilonPath, SweepRequest, read_epsilons, run_sweep
    from crosslearning.analysis.sweep.study import DEFAULT_HELD_OUT, OWN_FIELDS
    from crosslearning.figures.sweep import sweep_figure

    checked, radii = options.config_from(config, fields, OWN_FIELDS), read_epsilons(epsilons)
    learner = checked.replace(epsilon=radii[0]).learner()  # its tasks decide an open method
    checked = checked.chosen(learner.settings.method)
    first = checked.length.amount
    later = stage_iterations or max(1, first // 2)
    path = EpsilonPath(radii, first, later, cast("Origin", origin))
    held_out = held_out or DEFAULT_HELD_OUT.get(checked.tasks)
    request = SweepRequest(checked, path, held_out, trials, horizon)
    try:
        other = None if against is None else read_json(against / "sweep.json", dict[str, Any])
    except FileNotFoundError as problem:
        raise InputError(f"{against} holds no finished sweep to compare with") from problem
    announce_compilation()
    result = _or_exit(run_sweep(out, request, seeds, workers, console, on, learner))
    _show_sweep(result)
    if other is not None:
        _show_against(out, result, other, str(against))
    _save(sweep_figure(result.to_dict()), out / "sweep")


def _or_exit(result: Any) -> Any:
    """Return the result of a study, or exit if it was interrupted."""
    if result is None:
        console.print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130)
    return result


def _show_sweep(result: Sweep) -> None:
    """Print the returns of a sweep, then the other measurements."""
    from crosslearning.analysis.sweep.summary import HEADINGS, PLACES, heading

    returns = [name for name in PLACES if name in result.values]
    others = [name for name in HEADINGS if name in result.values and name not in returns]
    count = len(result.seeds)
    for title, names in (
        (f"Discounted returns: means over {count} seeds, 95 % Student intervals", returns),
        ("Geometry", others),
        ("Shares of episodes", result.rates),
    ):
        if names:
            headings = [heading(name).replace(", ", ",\n").replace(": ", ":\n") for name in names]
            show_table(title, ["ε", *headings], result.cells(names))
            console.print()
    show_line(f"Recommended: {result.recommendation.sentence}")


def _show_against(out: Path, result: Sweep, other: dict[str, Any], name: str) -> None:
    """Print and write the differences of two sweeps."""
    from crosslearning.analysis.sweep.summary import differences
    from crosslearning.runs.study import markdown

    with expecting(name):
        headings, rows = differences(result, other)
    title = f"{out} minus {name}, paired over seeds, 95 % Student intervals"
    write_atomically(out / "against.md", f"{title}.\n\n{markdown(headings, rows)}".encode())
    show_table(title, [heading.replace(", ", ",\n") for heading in headings], rows)


def _save(figure: Any, path: Path) -> None:
    from crosslearning.figures.style import save_figure

    show_files(save_figure(figure, path)[:1])
