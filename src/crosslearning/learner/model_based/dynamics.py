"""Cross-learned dynamics: how each task moves, pays and ends, all kept near a central task.

From an observation s and an action a a model tells the change of every coordinate of s, the reward
and, where episodes were seen to end, the chance that this one does. Each of these outputs is a
regression of its own (:mod:`crosslearning.rkhs.cross_regression`): with a kernel whose widths the
data choose, and with its own likeness of the tasks. Rewards are often the same function for all,
while how fast a machine is_angle is not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.learner.model_based.imagination import Outputs, World
from crosslearning.learner.model_based.pseudo_data import EMPTY, PseudoData
from crosslearning.learner.model_based.transitions import Transitions
from crosslearning.rkhs.cross_regression import CrossFit, CrossRegression
from crosslearning.rkhs.evidence import Hyperparameters, most_likely
from crosslearning.rkhs.family import Family
from crosslearning.rkhs.kernels.base import Kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Imagined observations may leave what was seen by this share of its range.
_MARGIN = 0.1
#: A spread below this share of the values is rounding.
_CONSTANT = 1e-12
#: The largest share of the kernel that the knots may leave unexplained.
_ROUGHEST = 1e-3


class Frame(NamedTuple):
    """How the models' numbers are measured, and between which they stay.

    Attributes
    ----------
    centre, unit : arrays, shape (outputs,)
        Mean and spread of every output over all tasks: functions are fitted to what is left.
    limits : array, shape (2, q + 1)
        Imagined observations and rewards stay between these: the bounds of the space, and what
        was seen with a margin.
    is_angle : array of int, shape (q,)
        1 for coordinates that are angles.
    ends : int
        1 if an episode was seen to end.
    """

    centre: Floats
    unit: Floats
    limits: Floats
    is_angle: Integers
    ends: int

    @classmethod
    def of(
        cls,
        data: Sequence[Transitions],
        low: Floats,
        high: Floats,
        is_angle: Sequence[int],
        supposed: PseudoData = EMPTY,
    ) -> Frame:
        """Return the frame that suits transitions of all tasks, between the ends of a space."""
        q = len(low)
        turn = np.zeros(q, dtype=np.int64)
        turn[list(is_angle)] = 1
        ends = int(any(np.any(own.terminated) for own in supposed.beside(data, q + 1, q)))
        raw = [
            np.concatenate([_raw(own, turn, ends)[:, o] for own in supposed.beside(data, o, q)])
            for o in range(q + 1 + ends)
        ]
        centre, unit = (np.array([f(values) for values in raw]) for f in (np.mean, np.std))
        size = np.maximum(np.abs(centre), 1.0)
        seen = np.concatenate([np.concatenate([own.states, own.after]) for own in data])
        least, most = seen.min(axis=0), seen.max(axis=0)
        margin = _MARGIN * (most - least)
        rewards = raw[q]
        limits = np.array(
            [
                np.append(np.where(turn, low, np.maximum(low, least - margin)), rewards.min()),
                np.append(np.where(turn, high, np.minimum(high, most + margin)), rewards.max()),
            ]
        )
        return cls(centre, np.where(unit > _CONSTANT * size, unit, 1.0), limits, turn, ends)

    def targets(self, data: Transitions) -> Floats:
        """Return what the functions are fitted to, shape (n, outputs)."""
        return np.asarray((_raw(data, self.is_angle, self.ends) - self.centre) / self.unit)

    @property
    def names(self) -> list[str]:
        """Names of the outputs."""
        changes = [f"observation {d}" for d in range(len(self.is_angle))]
        return [*changes, "reward", *(["end"] if self.ends else [])]


def _raw(data: Transitions, is_angle: Integers, ends: int) -> Floats:
    """Return the outputs in their own units, shape (n, outputs)."""
    change = data.after - data.states
    wrapped = (change + np.pi) % (2.0 * np.pi) - np.pi
    parts = [np.where(is_angle == 1, wrapped, change), data.rewards[:, None]]
    return np.concatenate([*parts, data.terminated[:, None]] if ends else parts, axis=1)


class Dynamics(NamedTuple):
    """Models of N tasks, fitted.

    Attributes
    ----------
    frame : Frame
    chosen : sequence of Hyperparameters
        Of every output.
    fits : sequence of CrossFit
        The functions of every output.
    """

    frame: Frame
    chosen: list[Hyperparameters]
    fits: list[CrossFit]

    @property
    def distances(self) -> Floats:
        """How far every task's model is from the central one, shape (N,)."""
        return np.asarray(np.sqrt(sum(fit.distances**2 for fit in self.fits)))

    @property
    def multipliers(self) -> Floats:
        """The largest multiplier of every task over the outputs, shape (N,)."""
        return np.asarray(np.max([fit.multipliers for fit in self.fits], axis=0))

    def functions(self, tasks: int, normal: Sequence[Floats] | None = None) -> list[Family]:
        """Return the functions of every output in its own units, those of a sample together.

        Parameters
        ----------
        tasks : int
            The first so many tasks are wanted.
        normal : for each output an array of shape (S, N + 1, m, 1), optional
            Standard normal numbers, for S samples of what is possible after the data; without
            them the means.
        """
        families = []
        for o, fit in enumerate(self.fits):
            drawn = fit.functions() if normal is None else fit.samples(normal[o])
            N = len(fit.distances)
            wanted = drawn.reshape(-1, N, *drawn.shape[1:])[:, :tasks]
            weights = fit.weights(wanted.reshape(-1, *drawn.shape[1:]) * self.frame.unit[o])
            families.append(Family(fit.family.kernel, fit.family.knots, weights))
        return families

    def predict(self, task: int, states: Floats, actions: Floats) -> Floats:
        """Return the outputs of a task's mean model at (s, a), shape (n, outputs)."""
        both = np.concatenate([states, actions], axis=1)
        values = np.stack([fit.family(both)[:, task, 0] for fit in self.fits], axis=1)
        fitted = slice(len(self.fits))
        return np.asarray(values * self.frame.unit[fitted] + self.frame.centre[fitted])

    def follow(self, task: int, states: Floats, actions: Floats) -> Floats:
        """Return the observations after (s, a) in a task's mean model, shape (n, q)."""
        q = len(self.frame.is_angle)
        low, high = self.frame.limits[:, :q]
        after = states + self.predict(task, states, actions)[:, :q]
        with np.errstate(invalid="ignore"):
            round_again = low + (after - low) % (high - low)
        return np.clip(np.where(self.frame.is_angle == 1, round_again, after), low, high)


def choose(
    data: Sequence[Transitions],
    frame: Frame,
    epsilon: float | None,
    before: Sequence[Hyperparameters] = (),
    supposed: PseudoData = EMPTY,
    outputs: Sequence[int] | None = None,
) -> list[Hyperparameters]:
    """Return the hyperparameters of every output, from the evidence.

    Parameters
    ----------
    data : sequence of N Transitions
    frame : Frame
    epsilon : float, optional
        At its ends, 0 and infinity, how alike the tasks are is not for the data to say.
    before : sequence of Hyperparameters
        Those of fewer data, to begin with.
    supposed : PseudoData
        What is told of rewards and ends.
    outputs : sequence of int, optional
        Those that are wanted; by default all.
    """
    is_angle = np.flatnonzero(frame.is_angle).tolist()
    alike = None if epsilon is None else {0.0: 1.0, math.inf: 0.0}.get(epsilon)
    found = []
    for o in range(len(frame.unit)) if outputs is None else outputs:
        start = before[o] if o < len(before) else None
        inputs, own = _points(data, frame, o, supposed)
        found.append(most_likely(inputs, own, periodic=is_angle, start=start, alike=alike))
    return found


def fit(
    data: Sequence[Transitions],
    frame: Frame,
    chosen: Sequence[Hyperparameters],
    epsilon: float | None,
    max_knots: int,
    supposed: PseudoData = EMPTY,
) -> Dynamics:
    """Fit the models; ``epsilon`` None takes each output's radius from its hyperparameters.

    Of the outputs only the first are fitted, if hyperparameters are given of these alone.
    """
    N = len(data)
    is_angle = np.flatnonzero(frame.is_angle).tolist()
    fits = []
    for o, own in enumerate(chosen):
        kernel = own.kernel(is_angle)
        inputs, targets = _points(data, frame, o, supposed)
        regression = CrossRegression(
            kernel,
            N,
            1,
            noise=own.noise,
            ridge=own.ridge(N),
            max_knots=max_knots,
            tolerance=_tolerance(own, kernel, inputs),
        )
        for i in range(N):
            regression.add(i, inputs[i], targets[i])
        with warnings.catch_warnings():
            # A machine that hardly moved is no sign of other units.
            warnings.filterwarnings("ignore", message=".*are they in the same unit")
            if epsilon is None:
                fits.append(regression.at(own.multiplier(N)))
            else:
                fits.append(regression.fit(epsilon, "relaxed"))
    return Dynamics(frame, list(chosen), fits)


def _tolerance(chosen: Hyperparameters, kernel: Kernel, inputs: Sequence[Floats]) -> float:
    """Return how much of the kernel the knots may leave: what is no more than the noise."""
    size = chosen.signal * float(np.mean(kernel.diagonal(np.concatenate(inputs)[:200])))
    return float(np.clip(chosen.noise[0] ** 2 / size, 1e-9, _ROUGHEST))


def _points(
    data: Sequence[Transitions], frame: Frame, output: int, supposed: PseudoData
) -> tuple[list[Floats], list[Floats]]:
    """Return inputs (n, q + p) and targets (n, 1) of every task for one output."""
    known = supposed.beside(data, output, len(frame.is_angle))
    inputs = [np.concatenate([own.states, own.actions], axis=1) for own in known]
    return inputs, [frame.targets(own)[:, output : output + 1] for own in known]


def world_of(functions: Sequence[Family], frame: Frame, actions: Floats) -> World:
    """Return models in the form that compiled code takes.

    Parameters
    ----------
    functions : sequence of Family
        As :meth:`Dynamics.functions` returns them.
    frame : Frame
    actions : array, shape (2, p)
        The ends of the action space, in the policies' units.
    """
    return World(
        Outputs.of(functions), frame.centre, frame.limits, actions, frame.is_angle, frame.ends
    )
