"""The command that writes the playground and opens it."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli.application import app
from crosslearning.cli.output import show_line


@app.command()
def play(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Runs of navigation or of pendulums; by default policies that ship."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("playground.html"),
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Show the page in a browser.")
    ] = True,
) -> None:
    """Play with policies in a browser, and let some learn there.

    Writes one HTML file that needs no server and no network.
    """
    from crosslearning.playground import write_page

    page = write_page(out, [_family(run) for run in runs or ()])
    show_line(f"{page} ({page.stat().st_size / 1000:.0f} kB): open it in any browser, or send it.")
    if open_page and not webbrowser.open(page.resolve().as_uri()):
        show_line("No browser could be opened from here.")


def _family(run: Path) -> dict[str, object]:
    """Return what the page is told of a run."""
    from crosslearning.playground.families import family_of
    from crosslearning.runs import RunFolder

    return family_of(RunFolder.open(run).load(), run.name or str(run))
