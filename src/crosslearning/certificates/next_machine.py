"""What a policy will do on machines that nobody has seen, from a sample of such machines.

The mean over the sample says nothing of the next machine. An order statistic does: with a given
confidence a given share of all machines of the family returns at least so much, whatever the
distribution of their returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslearning._base.statistics import (
    CONFIDENCE,
    ToleranceBound,
    least_share,
    readable,
    tolerance_bound,
)
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.evaluation import AnyPolicy, EpisodeOptions, measure_episodes
from crosslearning.learner.internals import behind_controller
from crosslearning.tasks import Task, task_set, task_set_names


@dataclass(frozen=True)
class NextMachine:
    """The returns on a sample of machines, and what they say of the next one."""

    returns: tuple[float, ...]  #: the mean total return of every machine
    bound: ToleranceBound  #: the return that the share of all machines reaches
    adapted: int | None = None  #: environment steps of adaptation on each machine, if any

    def least_share(self, threshold: float) -> float:
        """Return a lower bound of the share of machines that return at least ``threshold``.

        It is exact (Clopper and Pearson) at the confidence of ``bound``, for a threshold that was
        chosen before the returns were known.
        """
        reached = int(np.count_nonzero(np.array(self.returns) >= threshold))
        return least_share(reached, len(self.returns), self.bound.confidence)

    def __str__(self) -> str:
        value, share, confidence, needed = self.bound
        after = "" if self.adapted is None else f" after adapting with {self.adapted} steps"
        how = f"at least {share:.0%} of machines never seen{after}"
        if np.isinf(value):
            return (
                f"{len(self.returns)} machines are too few to say what {how} return; "
                f"take {needed} or more."
            )
        return (
            f"With {confidence:.0%} confidence {how} return {value:{readable(value)}} or more "
            f"({len(self.returns)} of them were tried)."
        )


def next_machine(
    policy: AnyPolicy,
    tasks: Sequence[Task],
    share: float = 0.9,
    confidence: float = CONFIDENCE,
    *,
    steps: int | None = None,
    **options: Any,
) -> NextMachine:
    """Return the return that a share of machines never seen will reach, with a confidence.

    The bound is exact for any distribution of returns if the tasks are independent draws from the
    family of the next machine and nothing was learned or chosen on them. It is on the mean of a
    machine's episodes as measured here.

    Parameters
    ----------
    policy : CrossLearner or policy
        A learner, for its central policy, or whatever :func:`crosslearning.evaluate` takes.
    tasks : sequence of Task
        Unseen members of the family; for 90 % at a confidence of 95 % at least 29 are needed.
    share, confidence : float
    steps : int, optional
        Adapt the learner to each task with so many environment steps first.
    **options
        See :class:`crosslearning.learner.evaluation.EpisodeOptions`; by default 5 ``trials``.

    Examples
    --------
    >>> from crosslearning import task_set
    >>> from crosslearning.certificates.next_machine import next_machine
    >>> def damp(x):
    ...     return -2.0 * x[..., 1:]
    >>> found = next_machine(damp, task_set("pendulums:unseen:29"), trials=1)
    >>> found.bound.value == min(found.returns), found.bound.needed
    (True, 29)
    >>> round(found.least_share(min(found.returns)), 3)
    0.902
    """
    episodes = EpisodeOptions.of(options, trials=5)
    if steps is not None and not isinstance(policy, CrossLearner):
        raise InputError("only a learner can adapt; give the learner, or leave steps out")
    if isinstance(policy, CrossLearner):
        known = {task.name for task in policy.tasks}
        if seen := [task.name for task in tasks if task.name in known]:
            raise InputError(f"{', '.join(seen[:3])} were learned; give tasks never seen")
        tasks = behind_controller(policy, tasks)
    returns = []
    for task in tasks:
        acting = policy
        if isinstance(policy, CrossLearner) and steps is not None:
            with closing(policy.adapt(task, steps=steps)) as adapted:
                acting = adapted.policy(0)
        elif isinstance(policy, CrossLearner):
            acting = policy.central
        returns.append(float(measure_episodes(acting, task, episodes, 1.0).totals.mean()))
    return NextMachine(tuple(returns), tolerance_bound(returns, share, confidence), steps)


def unseen_machines(learner: CrossLearner, count: int) -> tuple[Task, ...]:
    """Return machines of the family that a learner's named task set draws, none of which it saw."""
    source = learner.source
    name = "" if source is None else source.given.partition(":")[0]
    drawn = {k: v for k, v in learner.task_options.items() if k not in ("count", "unseen")}
    if name not in task_set_names():
        raise InputError(
            "only a named set that draws members of a family, such as pendulums:8, tells of "
            "machines never seen; give them to next_machine, or to evaluate --next-machine --tasks"
        )
    return task_set(f"{name}:unseen:{count}", **drawn)
