"""The result of one check, and the list of all checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from crosslearning.certificates.verification.plain_files import ODD_VALUES
from crosslearning.errors import CrossLearningError, visible

Status = Literal["pass", "fail", "not possible"]
Topic = Literal["files", "constraint"]

#: The longest text of a check, which may quote a file of any content.
_LONGEST = 2000


@dataclass(frozen=True)
class Check:
    """One check of a run's files; "not possible" counts neither for the run nor against it."""

    name: str  #: what was checked, such as ``"model: checksum"``
    status: Status
    found: str  #: for people, as is ``expected``
    expected: str
    topic: Topic = "files"  #: the files as such, or whether the policies keep to ε


class Checks:
    """Collects checks; a check that a malformed file makes impossible has failed."""

    def __init__(self) -> None:
        self.made: list[Check] = []

    def _add(
        self, name: str, status: Status, found: str, expected: str, topic: Topic = "files"
    ) -> None:
        name, found, expected = (visible(text, _LONGEST) for text in (name, found, expected))
        self.made.append(Check(name, status, found, expected, topic))

    def expect(
        self, name: str, fine: bool, found: str, expected: str, topic: Topic = "files"
    ) -> bool:
        """Add a check, and return whether it passed."""
        self._add(name, "pass" if fine else "fail", found, expected, topic)
        return bool(fine)

    def impossible(self, name: str, reason: str, remedy: str) -> None:
        """Add a check that could not be made, why, and what would make it possible."""
        self._add(name, "not possible", reason, remedy)

    @contextmanager
    def guarding(self, name: str, expected: str) -> Iterator[None]:
        """Turn an exception that malformed content raises into a failed check."""
        try:
            yield
        except CrossLearningError as problem:
            self.expect(name, False, str(problem), expected)
        except (*ODD_VALUES, OSError, MemoryError) as problem:
            found = f"its content cannot be read ({type(problem).__name__}: {problem})"
            self.expect(name, False, found, expected)
