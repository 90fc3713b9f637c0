"""Commands that show runs, to whoever has many of them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosslearning import runs
from crosslearning.cli.application import (
    MOST,
    HorizonOption,
    RunArgument,
    announce_compilation,
    app,
    console,
    errors,
)
from crosslearning.cli.output import print_json, show_line, show_table
from crosslearning.errors import unknown_name

if TYPE_CHECKING:
    from crosslearning.learner import CrossLearner
    from crosslearning.runs.listing import RunSummary
    from crosslearning.tasks import Task


@app.command("runs")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, also within.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs of a folder: how each stands, what to do next."""
    from crosslearning.runs.listing import summarise_runs

    found = summarise_runs(folder)
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    if not found:
        begin = f"crosslearning train --out {shlex.quote(str(folder / 'first'))}"
        show_line(f"There are no runs in {folder}. Begin one: {begin}")
        return
    count = "1 run" if len(found) == 1 else f"{len(found)} runs"
    headings = ["run", "state", "method", "tasks", "steps", "return", "ε", "knots"]
    show_table(f"{folder}: {count}", headings, [_cells(one, folder) for one in found])
    show_line("")
    if any(one.best_return is None and one.recent_return is not None for one in found):
        show_line("Returns with ~ are of the last iterations, while exploring; others are the best")
        show_line("of the evaluations on the way (--evaluate-every).")
    show_line("What next:")
    for one in found:
        remark = one.problem or (f"written by {one.writer}" if one.writer else "")
        show_line(f"  {one.next}" + (f"    # {remark}" if remark else ""))


def _cells(one: RunSummary, folder: Path) -> list[str]:
    """Return the cells of a run's row; what is not known is a dash."""
    name = Path(one.run).relative_to(folder).as_posix()
    tasks = one.tasks
    if tasks is not None and one.task_count is not None:
        tasks = f"{tasks} ({one.task_count})"
    numbers = [
        None if one.steps is None else f"{one.steps:,}",
        _return(one),
        None if one.epsilon is None else f"{one.epsilon:g}".replace("inf", "∞"),
        None if one.knots is None else str(one.knots),
    ]
    cells = [one.run if name == "." else name, one.state, one.method, tasks, *numbers]
    return [cell or "–" for cell in cells]


def _return(one: RunSummary) -> str | None:
    from crosslearning._base.statistics import readable

    number = one.recent_return if one.best_return is None else one.best_return
    if number is None:
        return None
    return f"{'~' if one.best_return is None else ''}{number:{readable(number)}}"


@app.command()
def render(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="A film, .gif or .mp4, or a still, .png; default: figures/film.gif."),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="central, average, or a task by name or number.")
    ] = "central",
    task: Annotated[
        str | None, typer.Option(help="The task to act in; default: the policy's, or the first.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, max=MOST, help="One after the other.")] = 1,
    horizon: HorizonOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the starts.")] = 0,
    best: Annotated[
        bool, typer.Option(help="The best policies of a run with evaluations on the way.")
    ] = False,
    tasks: Annotated[
        str | None, typer.Option(help="The run's tasks, if they are not found: as for training.")
    ] = None,
) -> None:
    """Film a policy at work, or draw moments of it."""
    from crosslearning._base.progress import progress_bar
    from crosslearning._base.statistics import readable
    from crosslearning.analysis.recording import record
    from crosslearning.export.sources import find_policy
    from crosslearning.figures.animation import check_format, save_recording

    folder = runs.RunFolder.open(run)
    path = out or folder.figures / "film.gif"
    check_format(path)
    learner = folder.load(best=best, tasks=tasks)
    acting = find_policy(learner, policy)
    place = _task_of(learner, task, acting.name)
    announce_compilation()
    with progress_bar(errors, "{task.completed} pictures") as shown:
        bar = shown.add_task("filming", total=episodes * ((horizon or place.horizon) + 1))
        found = record(acting, place, episodes, horizon, seed, lambda: shown.advance(bar))
    save_recording(found, path)
    numbers = ", ".join(f"{total:{readable(total)}}" for total in found.returns)
    lengths = ", ".join(str(len(own) - 1) for own in found.episodes)
    show_line(
        f"The {found.policy} policy in task {found.task}: {lengths} steps, total return {numbers}"
    )
    show_line(f"  {path}")


def _task_of(learner: CrossLearner, given: str | None, policy: str) -> Task:
    """Return a task by its name or number; by default that of a policy, or else the first."""
    names = [task.name for task in learner.tasks]
    if given is None:
        given = policy if policy in names else names[0]
    if given.isdecimal() and given not in names and int(given) < len(names):
        return learner.tasks[int(given)]
    if given not in names:
        raise unknown_name("task", given, names)
    return learner.tasks[names.index(given)]


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    out: Annotated[
        Path | None, typer.Option(help="The page; default: report.html, of one run in its folder.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, help="Episodes per policy and task; default: 500; of many tasks 20."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=2, max=MOST, help="Fresh samples per task, if not yet certified.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the starts and samples.")] = 0,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Show it in a browser, on a terminal.")
    ] = True,
) -> None:
    """Write what is known of runs as one page."""
    import webbrowser

    from crosslearning._base.files import check_page, write_atomically
    from crosslearning.figures.report import PAGE_MARK, gather, report_page

    path = out or (folders[0] if len(folders) == 1 else Path()) / "report.html"
    check_page(path, PAGE_MARK, "report")
    # All are looked at before any is measured.
    for folder in folders:
        runs.RunFolder.open(folder)
    announce_compilation()
    try:
        found = [gather(folder, trials, seed, samples, errors) for folder in folders]
    except KeyboardInterrupt:
        errors.print("Interrupted. The same command goes on with what is measured already.")
        raise typer.Exit(130) from None
    write_atomically(path, report_page(found).encode("utf-8", "backslashreplace"))
    show_line(f"  {path}")
    if open_it and console.is_terminal:
        webbrowser.open(path.resolve().as_uri())
