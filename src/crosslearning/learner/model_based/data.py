"""The data of dynamics models: observed steps of the tasks, and known rewards and terminations.

A user often knows the reward of a task, though not its dynamics. The formula is evaluated at points
all over the box of the observed data, with the dynamics model's next observation, and its values
are fitted like data. So the models stay kernel expansions, with their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.learner.core import Arrays, check_shapes, misfit
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import ActionScale, Episodes
from crosslearning.tasks import Task

if TYPE_CHECKING:
    from crosslearning.learner.model_based.dynamics import Dynamics

#: ``formula(observations, actions, next_observations)`` returns a number for each of n steps, from
#: arrays of shapes (n, q), (n, p) and (n, q), actions in the task's units.
Formula = Callable[[Floats, Floats, Floats], Any]

#: Points over all tasks, and the fewest of each, at which formulas are evaluated.
_POINTS, _FEWEST = 240, 40
#: So many steps in a row, of differing actions, must change nothing in an absorbing state.
_STUCK = 5


class Transitions(NamedTuple):
    """Steps of one task, its episodes laid end to end."""

    states: Floats  #: observations before, shape (n, q)
    actions: Floats  #: as applied: clipped, in the policies' units, shape (n, p)
    after: Floats  #: observations after, shape (n, q)
    rewards: Floats  #: shape (n,)
    terminated: Floats  #: 1 where the step terminated its episode, shape (n,)
    first: Floats  #: 1 where it began one, shape (n,)

    @classmethod
    def none(cls, q: int, p: int) -> Transitions:
        """Return no transitions."""
        numbers = (np.empty(0) for _ in range(3))
        return cls(np.empty((0, q)), np.empty((0, p)), np.empty((0, q)), *numbers)

    @classmethod
    def of(cls, episodes: Episodes, scale: ActionScale, bounds: Floats) -> Transitions:
        """Lay the episodes of one task end to end; ``bounds``, shape (2, p), in policies' units."""
        E, horizon = episodes.rewards.shape
        step = np.arange(horizon)
        there = step < episodes.lengths[:, None]
        last = there & (step == episodes.lengths[:, None] - 1)
        return cls(
            states=episodes.observations[:, :-1][there],
            actions=np.clip(scale.inverse(episodes.actions), *bounds)[there],
            after=episodes.observations[:, 1:][there],
            rewards=episodes.rewards[there],
            terminated=(last & episodes.terminated[:, None])[there].astype(np.float64),
            first=np.broadcast_to(step == 0, (E, horizon))[there].astype(np.float64),
        )

    def where(self, rows: NDArray[np.bool_]) -> Transitions:
        """Return some of the steps."""
        return Transitions(*(array[rows] for array in self))

    @classmethod
    def joined(cls, parts: Sequence[Transitions]) -> Transitions:
        """Concatenate transitions."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    @classmethod
    def pack(cls, data: Sequence[Transitions]) -> dict[str, Floats]:
        """Return the transitions of all tasks as arrays for a file."""
        counts = np.array([len(steps.rewards) for steps in data], dtype=np.float64)
        return {**cls.joined(data)._asdict(), "counts": counts}

    @classmethod
    def unpack(cls, arrays: Arrays, tasks: int, q: int, p: int) -> list[Transitions]:
        """Return what :meth:`pack` packed, or refuse it."""
        counts = arrays["counts"]
        if counts.shape != (tasks,) or np.any(counts < 0) or np.any(counts % 1):
            raise misfit("transitions")
        empty, ends = cls.none(q, p)._asdict(), np.cumsum(counts.astype(np.int64))
        check_shapes(arrays, {name: (int(ends[-1]), *a.shape[1:]) for name, a in empty.items()})
        columns = [np.split(arrays[name].copy(), ends[:-1]) for name in cls._fields]
        return [cls(*parts) for parts in zip(*columns, strict=True)]


class PseudoData(NamedTuple):
    """Steps that were not taken, at which formulas give the targets."""

    points: list[Transitions]  #: of the first tasks
    reward: bool  #: whether formulas give the rewards
    end: bool  #: whether they give the terminations

    def beside(self, data: Sequence[Transitions], output: int, q: int) -> list[Transitions]:
        """Return the data of one output, joined with the points if a formula gives it."""
        if not ((output in (q, q + 2) and self.reward) or (output == q + 1 and self.end)):
            return list(data)
        first = [Transitions.joined(both) for both in zip(data, self.points, strict=False)]
        return [*first, *data[len(first) :]]


#: No formulas.
EMPTY = PseudoData([], False, False)


def end_absorbed(data: Sequence[Transitions], discount: float) -> list[Transitions]:
    """Return the steps of all tasks with absorbing states made ends.

    An episode that stays in one observation with one reward c, whatever is done, until it is cut
    off is over: its steps there are left out, and the step into it becomes an end, with c for ever
    after, discounted, added to its reward. The return is the same, and no observation behaves
    unlike all near it. A reward c that was not seen elsewhere shows that also the episodes were
    over that were cut off soon after.
    """
    still = [np.all(steps.states == steps.after, axis=1) for steps in data]
    if not any(map(np.any, still)):
        return list(data)
    runs = [_still_runs(steps, rows) for steps, rows in zip(data, still, strict=True)]
    sure = [
        [_is_absorbed(steps, *run) for run in found]
        for steps, found in zip(data, runs, strict=True)
    ]
    absorbing, elsewhere = set[float](), set[float]()
    for steps, found, certain in zip(data, runs, sure, strict=True):
        for (begin, entry, last), yes in zip(found, certain, strict=True):
            if yes:
                absorbing.add(float(steps.rewards[last]))
            elsewhere.update(steps.rewards[begin : entry if yes else min(entry, last)].tolist())
    telling = absorbing - elsewhere
    result = []
    for steps, found, certain in zip(data, runs, sure, strict=True):
        kept, rewards = np.ones(len(steps.rewards), dtype=np.bool_), steps.rewards.copy()
        terminated = steps.terminated.copy()
        for (_, entry, last), yes in zip(found, certain, strict=True):
            constant = float(steps.rewards[last])
            if (yes or constant in telling) and not terminated[last]:
                kept[entry + 1 : last + 1] = False
                terminated[entry] = 1.0
                rewards[entry] += discount / (1.0 - discount) * constant
        result.append(steps._replace(rewards=rewards, terminated=terminated).where(kept))
    return result


def _still_runs(steps: Transitions, still: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Return of every episode its first step, the one before it stays still, and its last."""
    firsts = np.flatnonzero(steps.first).tolist()
    runs = []
    for begin, stop in zip(firsts, [*firsts[1:], len(still)], strict=True):
        entry = last = stop - 1
        while entry > begin and still[entry] and steps.rewards[entry] == steps.rewards[last]:
            entry -= 1
        runs.append((begin, entry, last))
    return runs


def _is_absorbed(steps: Transitions, begin: int, entry: int, last: int) -> bool:
    """Return whether an episode surely ends in an absorbing state."""
    if last - entry < _STUCK or not np.ptp(steps.actions[entry + 1 : last + 1], axis=0).any():
        return False
    there = np.all(steps.states == steps.states[last], axis=1)
    return bool(np.all(steps.after[there] == steps.states[last]))


class Formulas:
    """The formulas of tasks: rewards, terminations, both or neither; the same for all tasks."""

    def __init__(self, tasks: Sequence[Task], scale: ActionScale, bounds: Floats) -> None:
        self.tasks, self.scale, self.bounds = tasks, scale, bounds
        self.reward, self.end = (self._all(kind) for kind in ("reward", "terminated"))

    def _all(self, kind: str) -> bool:
        without = [task.name for task in self.tasks if getattr(task, kind) is None]
        if without and len(without) < len(self.tasks):
            raise InputError(
                f"some tasks have a {kind} formula and others do not "
                f"({', '.join(without[:3])}); give all of them a formula, or none"
            )
        return not without

    def __bool__(self) -> bool:
        return self.reward or self.end

    def pseudo_data(
        self, generator: np.random.Generator, motion: Dynamics, data: Sequence[Transitions]
    ) -> PseudoData:
        """Evaluate the formulas at random points of the box of ``data``, moved by the models."""
        q = len(motion.frame.is_angle)
        n = max(_FEWEST, _POINTS // len(self.tasks))
        low, high = motion.frame.limits[:, :q]
        done = np.concatenate([steps.actions for steps in data])
        ends = np.where(np.isfinite(self.bounds), self.bounds, [done.min(axis=0), done.max(axis=0)])
        points = []
        for i, task in enumerate(self.tasks):
            states = generator.uniform(low, high, (n, q))
            actions = generator.uniform(ends[0], ends[1], (n, len(ends[0])))
            steps = states, self.scale(actions), motion.follow(i, states, actions)
            rewards, ended = (_evaluate(task, kind, steps) for kind in ("reward", "terminated"))
            ended = (ended != 0.0).astype(np.float64)
            points.append(Transitions(states, actions, steps[2], rewards, ended, np.zeros(n)))
        return PseudoData(points, self.reward, self.end)


def _evaluate(task: Task, kind: str, steps: tuple[Floats, Floats, Floats]) -> Floats:
    """Return the values of a task's formula, checked; zeros without a formula."""
    formula: Formula | None = getattr(task, kind)
    if formula is None:
        return np.zeros(len(steps[0]))
    name, n = f"the {kind} of task {task.name!r}", len(steps[0])
    try:
        values = np.asarray(formula(*steps), dtype=np.float64)
    except (TypeError, ValueError, IndexError) as problem:
        raise InputError(
            f"{name} cannot be evaluated: {problem}; it takes observations (n, q), actions (n, p) "
            "and next observations (n, q), and returns n numbers"
        ) from problem
    if values.shape != (n,):
        raise InputError(
            f"{name} returned an array of shape {values.shape} for {n} steps; it must return {n} "
            "numbers"
        )
    if not np.all(np.isfinite(values)):
        step = int(np.argmax(~np.isfinite(values)))
        where = ", ".join(str(part[step]) for part in steps)
        raise InputError(
            f"{name} returned {values[step]} for the step {where}; it must be finite wherever "
            "observations may be"
        )
    return values
