"""What one check found, and how checks are gathered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from crosslearning.errors import CrossLearningError, visible

Topic = Literal["files", "constraint"]

#: What content that is not as it should be may raise.
_ODD_VALUES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_UNREADABLE = (*_ODD_VALUES, OSError, RecursionError, MemoryError)
#: A text of a check may quote the files, which may hold anything of any length.
_LONGEST = 2000


@dataclass(frozen=True)
class Check:
    """One check of a run's files; one that is not possible speaks neither for it nor against it."""

    name: str  #: what was checked, such as ``"model: checksum"``
    status: Literal["pass", "fail", "not possible"]
    found: str  #: for people, as is what should have been found
    expected: str
    topic: Topic = "files"  #: the files as such, or how the policies keep to ε


class Checks:
    """Gathers checks; a check that cannot even be made because a file is wrong has failed."""

    def __init__(self) -> None:
        self.made: list[Check] = []

    def expect(
        self, name: str, fine: bool, found: str, expected: str, topic: Topic = "files"
    ) -> bool:
        """Note a check, and return whether it passed."""
        texts = visible(name, _LONGEST), visible(found, _LONGEST), visible(expected, _LONGEST)
        self.made.append(Check(texts[0], "pass" if fine else "fail", *texts[1:], topic))
        return bool(fine)

    def impossible(self, name: str, reason: str, remedy: str) -> None:
        """Note a check that could not be made, why, and what would make it possible."""
        texts = visible(name, _LONGEST), visible(reason, _LONGEST), visible(remedy, _LONGEST)
        self.made.append(Check(texts[0], "not possible", *texts[1:]))

    @contextmanager
    def guarding(self, name: str, expected: str) -> Iterator[None]:
        """Turn whatever unreadable content raises into a failed check: files may hold anything."""
        try:
            yield
        except CrossLearningError as problem:
            self.expect(name, False, str(problem), expected)
        except _UNREADABLE as problem:
            found = f"its content cannot be read ({type(problem).__name__}: {problem})"
            self.expect(name, False, found, expected)
