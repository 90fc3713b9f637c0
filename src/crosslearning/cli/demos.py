"""Commands that show what the library is for, in about a minute each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosslearning.cli.application import MOST, announce_compilation, app, errors, folder_option
from crosslearning.cli.output import show_line, show_table
from crosslearning.errors import InputError

if TYPE_CHECKING:
    from crosslearning.analysis.fleet import Fleet

demo = typer.Typer(
    help="Show what the library is for, in about a minute.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(demo, name="demo")


@demo.callback()
def _demo() -> None:
    pass


@demo.command()
def fleet(
    out: Annotated[Path, folder_option("Folder of the pictures and numbers.")] = Path("fleet"),
    machines: Annotated[
        int, typer.Option(min=2, max=MOST, help="Pendulums; no two are alike.")
    ] = 8,
    steps: Annotated[
        int,
        typer.Option(
            min=1, max=MOST, help="Real steps of each machine, 20 a second; in rounds of 25."
        ),
    ] = 25,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the learners.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Learn a fleet of pendulums from seconds of operation.

    Under cross-learned, pooled and separate models; with a table and a moving picture.
    """
    from crosslearning._base.files import write_atomically
    from crosslearning.analysis.fleet import train_fleet

    _check_folder(out)
    if not as_json:
        show_line(
            f"{machines} pendulums that differ in gravity, mass and length learn to swing up, from "
            f"{steps} steps each."
        )
        announce_compilation()
    try:
        found = train_fleet(machines, steps, seed, console=errors)
        text = json.dumps(found.to_dict(), indent=2)
        write_atomically(out / "fleet.json", f"{text}\n".encode())
        if as_json:
            print(text)
        else:
            _show_fleet(found)
        written = _draw_fleet(found, out)
    except KeyboardInterrupt:
        errors.print("Interrupted. The same command begins again.")
        raise typer.Exit(130) from None
    for path in () if as_json else (out / "fleet.json", *written):
        show_line(f"  {path}")


def _check_folder(out: Path) -> None:
    """Say before a minute has passed if nothing can be written."""
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file; choose a folder with --out")
    if not os.access(there, os.W_OK):
        raise InputError(f"{there} cannot be written to; choose another folder with --out")


def _show_fleet(found: Fleet) -> None:
    rows = []
    for crew in found.results:
        means = crew.returns.mean(axis=1)
        worst = f"{means[crew.worst]:.0f} ({found.tasks[crew.worst].name.partition(' ')[2]})"
        upright = crew.share_upright.percent(".0f")
        rows.append([crew.kind, crew.mean_return.format(".0f"), worst, upright])
    headings = ["models", "mean return", "worst machine", "upright at the end"]
    title = (
        f"{len(found.tasks)} machines, {found.steps} steps ({found.seconds:g} s) each; "
        f"{found.results[0].returns.shape[1]} episodes each, 95 % intervals over machines"
    )
    show_table(title, headings, rows)


def _draw_fleet(found: Fleet, out: Path) -> list[Path]:
    from crosslearning._base.progress import progress_bar
    from crosslearning.figures.animation import save_animation
    from crosslearning.figures.fleet import FleetPicture
    from crosslearning.figures.style import save_figure

    picture = FleetPicture(found)
    with progress_bar(errors) as shown:
        bar = shown.add_task("drawing", total=len(picture.frames))
        moving = save_animation(
            picture.figure,
            picture.moving,
            picture.draw,
            picture.frames,
            out / "fleet",
            callback=lambda: shown.advance(bar),
        )
    return [moving, *save_figure(picture.figure, out / "fleet", ("png",))]
