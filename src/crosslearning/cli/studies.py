"""Commands that make many runs and draw conclusions from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli.application import announce_compilation, app, console
from crosslearning.errors import InputError


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
