"""How many lags machines need: the evidence of dynamics models with each number of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from gymnasium.spaces import Box

from crosslearning.errors import InputError
from crosslearning.rkhs import most_likely
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import Episodes
from crosslearning.tasks import Task
from crosslearning.tasks.loop import Loop
from crosslearning.tasks.loop_spec import LoopSpec
from crosslearning.tasks.signals import angles_of, ends_of, find_circles

#: The most lags that ``lags="auto"`` tries.
MOST_LAGS = 3
#: The least gain of evidence, in nats per step and observation, that a further lag is worth.
_WORTH = 0.05
#: Fewer steps tell nothing.
_FEWEST = 10
_TINY = 1e-12
_ANY = Box(-1.0, 1.0, (1,))


class LagEvidence(NamedTuple):
    """The logarithm of the evidence, per step and observation, with 0, 1, … lags."""

    evidence: tuple[float, ...]

    @property
    def chosen(self) -> int:
        """The fewest lags with nearly the greatest evidence."""
        best = max(self.evidence)
        return next(k for k, value in enumerate(self.evidence) if value >= best - _WORTH)

    def __str__(self) -> str:
        values = ", ".join(f"{value:.2f}" for value in self.evidence)
        last = len(self.evidence) - 1
        return f"Lags: {self.chosen}, by the evidence of models with 0 to {last} lags: {values}."


def lagged(seen: Floats, space: Box, circles: Sequence[tuple[int, int]], lags: int) -> Floats:
    """Return what a policy observes with lags, from an episode without them, shape (T + 1, ·).

    ``space`` is that of the machine's observations, which come first.
    """
    if not lags:
        return seen
    q = math.prod(space.shape)
    spec, _ = LoopSpec.of((space, _ANY), ((), ()), None, lags=lags, circles=circles)
    assert spec is not None
    changes, _ = Loop(spec).replay(seen[:, :q], np.zeros((len(seen) - 1, 1)))
    return np.hstack([changes, seen[:, q:]])


def evidence_of_lags(
    episodes: Sequence[Sequence[tuple[Floats, Floats]]],
    space: Box,
    circles: Sequence[tuple[int, int]],
    most: int = MOST_LAGS,
) -> LagEvidence:
    """Return how well models with 0 … ``most`` lags explain the next observation.

    The steps that are explained are the same for all of them: the first ones of an episode, whose
    lags are not known, are left out.

    Parameters
    ----------
    episodes : sequence over tasks
        Of each task pairs of what a policy observes without lags, shape (T + 1, ·), and of its
        actions, shape (T, p).
    space : Box
        Of the machine's observations.
    circles : sequence of pairs of int
        Observations that are a cosine and its sine.
    most : int
    """
    q, angles, found = math.prod(space.shape), angles_of(space), []
    targets = [
        np.concatenate([np.diff(seen[:, :q], axis=0)[most:] for seen, _ in task])
        for task in episodes
    ]
    every = np.concatenate(targets)
    if len(every) < _FEWEST:
        raise InputError(
            f"{len(every)} steps are left after the first {most} of each episode, too few to tell "
            "how many lags pay; log or explore more, or give their number"
        )
    centre, unit = every.mean(axis=0), np.maximum(every.std(axis=0), _TINY)
    for lags in range(most + 1):
        inputs = [
            np.concatenate(
                [
                    np.hstack([lagged(seen, space, circles, lags)[:-1], actions])[most:]
                    for seen, actions in task
                ]
            )
            for task in episodes
        ]
        total = 0.0
        for d in range(q):
            scaled = [(y[:, d : d + 1] - centre[d]) / unit[d] for y in targets]
            total += most_likely(inputs, scaled, periodic=angles).evidence
        found.append(total / every.size)
    return LagEvidence(tuple(found))


def is_left_open(tasks: Sequence[Task]) -> bool:
    """Return whether the lags are to be chosen; of all tasks or of none."""
    left = [task.lags == "auto" for task in tasks]
    if any(left) and not all(left):
        raise InputError(
            "lags is 'auto' for some tasks alone; tasks that learn together must match"
        )
    return any(left)


def choose_lags(
    tasks: Sequence[Task], parts: Sequence[Episodes]
) -> tuple[tuple[Task, ...], list[Episodes], LagEvidence]:
    """Return tasks with the lags that pay, episodes as their policies see them, and the evidence.

    The episodes are those of an exploration without lags.
    """
    logs = [
        [
            (seen[: n + 1], np.clip(actions[:n], *ends_of(task.action_space)))
            for one in (part.of_task(i) for part in parts)
            for seen, actions, n in zip(one.observations, one.actions, one.lengths, strict=True)
        ]
        for i, task in enumerate(tasks)
    ]
    space = tasks[0].machine_space
    q = math.prod(space.shape)
    every = np.concatenate([seen[:, :q] for task in logs for seen, _ in task])
    circles = tasks[0].circles
    if circles is None:
        circles = find_circles(every)
    evidence = evidence_of_lags(logs, space, circles)
    settled = tuple(task.with_lags(evidence.chosen, circles) for task in tasks)

    def shown(part: Episodes) -> Episodes:
        rows = [[lagged(o, space, circles, evidence.chosen) for o in r] for r in part.observations]
        # Compiled dynamics, which have states, know no lags.
        states = None if evidence.chosen else part.states
        return part._replace(observations=np.array(rows), states=states)

    return settled, [shown(part) for part in parts], evidence
