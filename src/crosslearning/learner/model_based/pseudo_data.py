"""Points at which what pays, or what ends an episode, is told by a formula and not seen.

A user often knows what a machine is paid for, though not how it moves. The formula is asked at
points all over the box of what was seen, the next observation being the model's, and the answers
are fitted like data. So the models stay expansions of kernels, with their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.learner.model_based.transitions import Transitions

Floats = NDArray[np.float64]

#: ``formula(observations, actions, next_observations)`` returns a number for each of n steps, from
#: arrays of shapes (n, q), (n, p) and (n, q), actions in the task's own units.
Formula = Callable[[Floats, Floats, Floats], Any]


class PseudoData(NamedTuple):
    """Steps of the first tasks that were not taken.

    Attributes
    ----------
    points : list of Transitions
    reward, end : bool
        Whether their rewards, and their ends, are told by a formula.
    """

    points: list[Transitions]
    reward: bool
    end: bool

    def beside(self, data: Sequence[Transitions], output: int, q: int) -> list[Transitions]:
        """Return what an output is fitted to: the data, and the points if they tell of it."""
        told = (output == q and self.reward) or (output == q + 1 and self.end)
        if not told:
            return list(data)
        first = [Transitions.joined(both) for both in zip(data, self.points, strict=False)]
        return [*first, *data[len(first) :]]


#: All is as it was seen.
EMPTY = PseudoData([], False, False)


def ask(name: str, kind: str, formula: Formula, steps: tuple[Floats, Floats, Floats]) -> Floats:
    """Return what a task's formula tells of steps, or say what is wrong with it."""
    try:
        found = np.asarray(formula(*steps), dtype=np.float64)
    except (TypeError, ValueError, IndexError) as problem:
        raise InputError(
            f"the {kind} of task {name!r} cannot be asked: {problem}; it takes observations "
            "(n, q), actions (n, p) and next observations (n, q), and returns n numbers"
        ) from problem
    n = len(steps[0])
    if found.shape != (n,):
        raise InputError(
            f"the {kind} of task {name!r} returned an array of shape {found.shape} for {n} steps; "
            f"it must return {n} numbers"
        )
    if not np.all(np.isfinite(found)):
        step = int(np.argmax(~np.isfinite(found)))
        told = ", ".join(str(part[step]) for part in steps)
        raise InputError(
            f"the {kind} of task {name!r} returned {found[step]} for the step {told}; it must be "
            "finite wherever observations may be"
        )
    return found
