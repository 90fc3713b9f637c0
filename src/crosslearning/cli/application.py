"""The application, its consoles, and how errors are shown."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from crosslearning import __version__
from crosslearning.errors import CrossLearningError, visible

app = typer.Typer(
    name="crosslearning",
    help="Multi-task reinforcement learning with kernel policies.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@dataclass
class _Visible:
    """A renderable whose control characters are shown: names may come from a stranger's files."""

    shown: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.shown, options):
            text = "\n".join(map(visible, segment.text.split("\n")))
            yield segment if segment.control else Segment(text, segment.style)


class _Escaping(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Visible(one) for one in renderables]


console, errors = Console(), Console(stderr=True)
for _one in (console, errors):
    _one.push_render_hook(_Escaping())


@contextmanager
def interruptible(quiet: bool = False, text: str = "; nothing was written.") -> Iterator[None]:
    """Announce compilation unless ``quiet``; end a command with one line at Ctrl-C."""
    announce_compilation(quiet)
    try:
        yield
    except KeyboardInterrupt:
        errors.print(f"Interrupted{text}")
        raise typer.Exit(130) from None


def main() -> None:
    """Run the command line; warnings and errors of the library become one clear line each."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file's name may not be valid in the terminal's encoding.
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app()
    except CrossLearningError as problem:
        _fail(str(problem))
    except OSError as problem:
        where = f" {visible(problem.filename, 100)}" if problem.filename is not None else ""
        _fail(f"cannot use{where}: {problem.strerror or problem}; choose another")
    except MemoryError as problem:
        _fail(f"there is not enough memory ({problem}); ask for fewer samples, steps or trials")
    except KeyboardInterrupt:
        errors.print("Interrupted before anything was saved.")
        sys.exit(130)
    except Exception:
        traceback.print_exc()
        _fail(
            "this is a fault of crosslearning itself, not of what you gave; please report it with "
            "the lines above and the command. What was saved before is whole"
        )


def _fail(text: str) -> NoReturn:
    errors.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)
    sys.exit(1)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    errors.print(Text.assemble(("warning: ", "bold yellow"), str(message)), soft_wrap=True)


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        console.print(f"crosslearning {__version__}", highlight=False)
        raise typer.Exit


def announce_compilation(quiet: bool = False) -> None:
    """Print on first use that compiling takes a while."""
    package = Path(__file__).parent.parent
    places = [package, Path(os.environ.get("NUMBA_CACHE_DIR", package))]
    # Every learner inserts knots.
    if not quiet and not any(next(place.rglob("*insert_knots*.nbi"), None) for place in places):
        console.print("First use: compiling for about 20 seconds; later runs start at once.")
