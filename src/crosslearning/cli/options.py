"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

#: The largest number of trials, steps or samples; a larger one is a typing error.
MOST = 1_000_000_000


def whole(text: str, least: int = 1, most: int = MOST) -> Any:
    """Return the option of a whole number, with its help."""
    return typer.Option(min=least, max=most, help=text)


def folder(text: str) -> Any:
    """Return the option of a folder to write to, with its help; an empty name is refused."""

    def read(given: str | Path) -> Path:  # a default is a Path already
        if not str(given).strip():  # Path would take it for the current folder
            raise typer.BadParameter("it is empty; name a folder, such as runs/first")
        return Path(given)

    return typer.Option(parser=read, metavar="FOLDER", help=text)


Run = Annotated[Path, typer.Argument(help="The run's folder.")]
Horizon = Annotated[int | None, whole("Most steps of an episode; default: the task's own.")]
StartSeed = Annotated[int, typer.Option(min=0, help="Seed of the starts.")]
NoiseSeed = Annotated[int, typer.Option(min=0, help="Seed of the starts and the noise.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Best = Annotated[bool, typer.Option(help="The best policies of a run with evaluations on the way.")]
RunTasks = Annotated[
    str | None, typer.Option(help="The run's tasks, if they are not found: as for training.")
]
