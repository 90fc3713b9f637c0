"""Commands that make many runs and draw conclusions from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from crosslearning.cli.application import announce_compilation, app, console
from crosslearning.cli.fields import ConfigOption, read_fields, with_config_options
from crosslearning.errors import InputError
from crosslearning.runs import make_config

if TYPE_CHECKING:
    from crosslearning.sweep.request import Origin


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for everything.")] = Path("runs/reproduce"),
    quick: Annotated[bool, typer.Option(help="A small version, in about two minutes.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Default: 10 (5 for readings); quick: 3 (2).")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Draw only this figure.")] = None,
    readings: Annotated[
        bool, typer.Option(help="Instead: which claims depend on what the paper leaves unsaid.")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: all.")] = None,
) -> None:
    """Reproduce the paper's numerical section: every figure, every claim with an interval."""
    from crosslearning.paper import readings as other_readings
    from crosslearning.paper import reproduce as numerical_section

    if readings and only:
        raise InputError("--readings draws one figure of its own; drop --only")
    folder = out / ("readings" if readings else "") / ("quick" if quick else "full")
    processes = workers or os.cpu_count() or 1
    announce_compilation()
    if readings:
        scale = other_readings.QUICK if quick else other_readings.FULL
        count = seeds or (2 if quick else 5)
        finished = other_readings.compare_readings(folder, count, scale, processes, console)
    else:
        scale = numerical_section.QUICK if quick else numerical_section.FULL
        count = seeds or (3 if quick else 10)
        finished = numerical_section.reproduce(folder, count, scale, processes, console, only)
    if not finished:
        console.print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130)


@app.command()
@with_config_options("epsilon", "seed", "workers")
def sweep(
    *,
    out: Annotated[Path, typer.Option(help="Folder for everything; gone on from if begun.")],
    config: ConfigOption = None,
    epsilons: Annotated[
        str, typer.Option(help="Radii in ascending order, with commas; inf allowed.")
    ] = "0,0.5,1,2,4,8",
    seeds: Annotated[int, typer.Option(min=1, help="Paths, with the seeds 0, 1, ….")] = 5,
    stage_iterations: Annotated[
        int | None, typer.Option(min=1, help="Of every later stage; default: half the first's.")
    ] = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="A task set, or random:50; default: random:50 for paper, else none."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Episodes per training task.")] = 200,
    steps: Annotated[int, typer.Option(min=1, help="Most steps of an episode.")] = 50,
    origin: Annotated[
        str, typer.Option(help="Where a stage starts: previous, common or zero.")
    ] = "previous",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: all.")] = None,
    **fields: Any,
) -> None:
    """Learn a path of radii ε, measure what each gives, and recommend one."""
    from crosslearning.sweep import SweepRequest, run_sweep
    from crosslearning.sweep.request import DEFAULT_HELD_OUT, OWN_FIELDS, read_epsilons

    values = read_fields(config, fields)
    for name in OWN_FIELDS:
        if name in values:
            raise InputError(f"{config}: a sweep sets {name} itself; leave it out")
    checked = make_config(values, source=str(config) if config is not None else "the flags")
    request = SweepRequest(
        checked,
        read_epsilons(epsilons),
        stage_iterations or max(1, checked.iterations // 2),
        held_out or DEFAULT_HELD_OUT.get(checked.tasks),
        trials,
        steps,
        cast("Origin", origin),
    )
    announce_compilation()
    result = run_sweep(out, request, seeds, workers or os.cpu_count() or 1, console)
    if result is None:
        console.print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130)
    console.print((out / "sweep.md").read_text(), highlight=False, markup=False, soft_wrap=True)
    console.print(f"Figure: {out / 'sweep.png'}", highlight=False, markup=False, soft_wrap=True)
