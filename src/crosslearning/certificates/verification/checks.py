"""What one check found, and how checks are gathered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from crosslearning.errors import CrossLearningError

Status = Literal["pass", "fail", "not possible"]

#: What content that is not as it should be may raise.
_UNREADABLE = (
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    ArithmeticError,
    OSError,
    RecursionError,
)


@dataclass(frozen=True)
class Check:
    """One check of a run's files.

    Attributes
    ----------
    name : str
        What was checked, such as ``"model: checksum"``.
    status : {"pass", "fail", "not possible"}
        ``"not possible"`` neither speaks for the run nor against it.
    found, expected : str
        What was found and what should have been, for people.
    """

    name: str
    status: Status
    found: str
    expected: str


class Checks:
    """Gathers checks; a check that cannot even be made because a file is wrong has failed."""

    def __init__(self) -> None:
        self.made: list[Check] = []

    def expect(self, name: str, fine: bool, found: str, expected: str) -> bool:
        """Note a check, and return whether it passed."""
        self.made.append(Check(name, "pass" if fine else "fail", found, expected))
        return bool(fine)

    def impossible(self, name: str, reason: str, remedy: str) -> None:
        """Note a check that could not be made, why, and what would make it possible."""
        self.made.append(Check(name, "not possible", reason, remedy))

    def guarding(self, name: str, expected: str) -> Guard:
        """Return a context in which whatever unreadable content raises is a failed check."""
        return Guard(self, name, expected)


class Guard:
    """A ``with`` block that turns errors of reading into a failed check.

    A file may hold anything; a certificate must come out whatever it holds.
    """

    def __init__(self, checks: Checks, name: str, expected: str) -> None:
        self._checks, self._name, self._expected = checks, name, expected

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: object
    ) -> bool:
        """Note a failed check in the place of an error of reading."""
        if isinstance(problem, CrossLearningError):
            found = str(problem)
        elif isinstance(problem, _UNREADABLE):
            found = f"its content cannot be read ({type(problem).__name__}: {problem})"
        else:
            return False
        self._checks.expect(self._name, False, found, self._expected)
        return True
