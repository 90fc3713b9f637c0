"""What is logged: the episodes of every machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError

Floats = NDArray[np.float64]


class Episode(NamedTuple):
    """One episode of T steps.

    Attributes
    ----------
    observations : array, shape (T + 1, q)
    actions : array, shape (T, p)
        In the machine's own units.
    rewards : array, shape (T,)
    terminated : array of bool, shape (T,)
        Whether the step ended the episode; one that was cut off has none that did.
    """

    observations: Floats
    actions: Floats
    rewards: Floats
    terminated: NDArray[np.bool_]


#: The episodes of every machine, by its name.
Log = dict[str, list[Episode]]


def check_log(log: Log) -> None:
    """Refuse machines without data, and machines that do not fit together."""
    if not log:
        raise InputError("there are no machines in the data")
    first, sizes = "", (0, 0)
    for machine, episodes in log.items():
        if not any(len(one.rewards) for one in episodes):
            raise InputError(
                f"machine {machine!r} has no data; leave it out, and adapt to it later with "
                "learner.adapt(task, steps=50)"
            )
        for number, one in enumerate(episodes):
            found = one.observations.shape[1], one.actions.shape[1]
            first, sizes = (first, sizes) if first else (machine, found)
            if found != sizes:
                raise InputError(
                    f"machine {machine!r}, episode {number} has {found[0]} observations and "
                    f"{found[1]} actions a step, but machine {first!r} has {sizes[0]} and "
                    f"{sizes[1]}; machines that learn together must match"
                )
