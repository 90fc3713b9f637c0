"""The length of learning, in iterations or in environment steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from crosslearning.errors import InputError
from crosslearning.learner.settings import LARGEST_COUNT

if TYPE_CHECKING:
    from crosslearning.learner.cross_learner import CrossLearner

#: Names by which users give a length in the wrong place, and the argument of ``learn``.
_ELSEWHERE = {"iterations": "", "steps": "steps=", "total_timesteps": "steps="}


def refuse_lengths(given: Mapping[str, Any]) -> None:
    """Refuse a length among other arguments, with the remedy."""
    for name, written in _ELSEWHERE.items():
        if name in given:
            raise InputError(
                f"{name} = {given[name]!r} is not taken here; say how long when it learns: "
                f"learner.learn({written}{given[name]!r})"
            )


class Length(NamedTuple):
    """An amount of iterations, or of environment steps over all tasks."""

    unit: Literal["iterations", "steps"]
    amount: int

    @classmethod
    def of(cls, iterations: Any, steps: Any, least: int = 0) -> Length:
        """Return the length from one of two numbers, checked."""
        if (iterations is None) == (steps is None):
            raise InputError(
                f"iterations is {iterations!r} and steps is {steps!r}; give one of the two"
            )
        unit: Literal["iterations", "steps"] = "iterations" if steps is None else "steps"
        given = iterations if steps is None else steps
        try:
            whole = not isinstance(given, bool) and int(given) == given and given >= least
        except (TypeError, ValueError, OverflowError):
            whole = False
        if not whole:
            raise InputError(f"{unit} must be a whole number of at least {least}, got {given!r}")
        if given > LARGEST_COUNT:
            raise InputError(
                f"{unit} is {given!r}, which no run comes to; give at most {LARGEST_COUNT}"
            )
        return cls(unit, int(given))

    @property
    def field(self) -> str:
        """The field of the metrics that counts this unit."""
        return "steps" if self.unit == "steps" else "iteration"

    def made(self, learner: CrossLearner) -> int:
        """Return a learner's count of this unit."""
        return learner.steps if self.unit == "steps" else learner.iteration

    def begun(self, learner: CrossLearner) -> int:
        """Return the count from which ``learn`` counts; initial exploration is part of learning."""
        return self.made(learner) if learner.iteration else 0

    def reached(self, learner: CrossLearner) -> bool:
        """Return whether a learner has this length; a round is completed first."""
        if self.unit == "steps" and not learner.method.round_finished:
            return False
        return self.made(learner) >= self.amount

    def left(self, learner: CrossLearner) -> dict[str, int]:
        """Return the arguments of ``learn`` for the rest of this length."""
        return {self.unit: max(0, self.amount - self.begun(learner))}
