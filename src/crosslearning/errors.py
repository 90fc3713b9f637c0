"""The errors that users see.

Every message says what was given, what was expected and what to do about it.
"""

from __future__ import annotations

import difflib
import math
import re
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

#: Beyond it, squares and sums of squares overflow in float64.
LARGEST = 1e150

#: What a terminal obeys or a person cannot see: controls, directions of writing, lone surrogates.
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class CrossLearningError(Exception):
    """Base class of every error that this library raises on purpose.

    Examples
    --------
    >>> from crosslearning import task_set
    >>> from crosslearning.errors import CrossLearningError
    >>> try:
    ...     task_set("pendulum:2")
    ... except CrossLearningError as problem:
    ...     print(type(problem).__name__, "pendulums" in str(problem))
    InputError True
    """


class InputError(CrossLearningError, ValueError):
    """An argument has the wrong shape, type or value; nothing was changed."""


class NumericalError(CrossLearningError, ArithmeticError):
    """A computation cannot go on; the message names the remedy."""


class TaskError(CrossLearningError, RuntimeError):
    """A task's environment raised, or returned what it may not; nothing was changed."""


class FileFormatError(CrossLearningError, ValueError):
    """A file is damaged, edited, of another kind or of a newer version."""


class MissingFormulaError(InputError):
    """A file was saved with a kernel of its author's own, which must be given to load it."""


class StorageError(CrossLearningError, OSError):
    """A file or folder cannot be read, written or owned; what was there before is unchanged."""


class MissingExtraError(CrossLearningError, ImportError):
    """An optional package is needed; the message names the extra to install."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> InputError:
    """Return the error for a name of a kind, such as a task set, with the nearest known one."""
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
    return InputError(f"no such {kind} {given!r}; {hint}")


def visible(given: object, most: int | None = None) -> str:
    """Return any text in one line, cut to ``most`` characters; controls are written as escapes."""
    text = str(given)
    if most is not None and len(text) > most:
        text = f"{text[:most]}… ({len(text)} characters)"
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def describe_exception(problem: BaseException) -> str:
    """Return the message of an error in a user's code, and the line of theirs that raised it."""
    said = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    if isinstance(problem, ModuleNotFoundError) and problem.name:
        package = problem.name.partition(".")[0]
        said += f"; install what has it, most often by pip install {package}"
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    others = [Path(__file__).parent, *map(Path, installed)]
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        file = Path(frame.filename)
        if file.is_file() and not any(file.is_relative_to(other) for other in others):
            return f"{said} ({frame.filename}, line {frame.lineno})"
    return said


def refuse_huge(what: str, given: float) -> None:
    """Refuse a number, infinity aside, that cannot be squared."""
    if LARGEST < given < math.inf:
        raise InputError(
            f"{what} is {given:g}, and float64 cannot square it; give at most {LARGEST:g}, or inf "
            "for no bound"
        )
