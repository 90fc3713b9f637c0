"""Model errors: how well dynamics models predict held-out episodes.

A learner's policies act in its tasks again, with fresh noise. Models of three kinds, fitted to the
same data, predict one step ahead, and many steps ahead in an open loop with the actions taken.
Errors are relative: root mean squares in units of the spread of the data, so that predicting the
mean has the error 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crosslearning._base.plain_data import to_plain
from crosslearning._base.statistics import Interval, student
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.model_based.data import Transitions, end_absorbed
from crosslearning.learner.model_based.dynamics import Dynamics, choose, fit, world_of
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.rkhs import Family, Gaussian
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rollouts import Episodes, plan_episodes
from crosslearning.runs import RunFolder

#: ε_m of every kind of models; None lets the data choose.
KINDS: dict[str, float | None] = {"cross-learned": None, "pooled": 0.0, "separate": math.inf}
#: The mean square of all outputs together.
OVERALL = "overall"
#: Open-loop paths begin every so many steps of an episode.
_STRIDE = 5
#: Posterior samples of a band, and the share of them inside.
_SAMPLES, BAND = 60, 0.9
#: Tasks whose paths are kept, and radii of the curves.
_PATHS, _RADII = 4, 13
#: The curves reach this factor beyond the chosen radii.
_BEYOND = 30.0


@dataclass(frozen=True)
class OutputChoice:
    """The hyperparameters of one output of the cross-learned models, chosen from the data."""

    output: str
    alike: float  #: c: the covariance of two tasks' functions, 1 if they are the same
    epsilon: float  #: ε_m: the root mean squared distance to the central model
    noise: float  #: standard deviation, as a share of the output's spread
    knots: int


@dataclass(frozen=True)
class KindErrors:
    """The relative errors of one kind of models, means over tasks with 95 % intervals."""

    kind: str
    one_step: Mapping[str, Interval]  #: by output, and overall
    ahead: Mapping[str, Interval]  #: after H steps, by observation, reward, and overall
    growth: tuple[Interval, ...]  #: of the observation after 1, 2, … H steps


@dataclass(frozen=True, eq=False)
class TaskPath:
    """One path of a task and its predictions from the first observation on."""

    task: str
    real: Floats  #: shape (H + 1, q)
    told: Mapping[str, Floats]  #: predictions of every kind of models, shape (H + 1, q)
    low: Floats  #: nine in ten posterior samples lie between low and high, shape (H + 1, q)
    high: Floats


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """The one-step error of an output over ε_m, with all else as the data chose it."""

    output: str
    radii: Floats  #: shape (R,), from 0 to infinity
    errors: Floats  #: shape (R,)
    chosen: float  #: the radius that the data chose
    error: float  #: the error there


@dataclass(frozen=True, eq=False)
class ModelErrors:
    """The errors of a learner's dynamics models on held-out episodes."""

    tasks: tuple[str, ...]
    seen: int  #: steps of all tasks in the training data
    held_out: int  #: steps of all tasks in the held-out data
    steps: int  #: H, the length of the open loop
    outputs: tuple[OutputChoice, ...]
    kinds: tuple[KindErrors, ...]
    paths: tuple[TaskPath, ...]
    curves: tuple[ErrorCurve, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with null for numbers that are not finite."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def model_errors(
    source: CrossLearner | RunFolder | str | Path,
    episodes: int = 5,
    horizon: int = 50,
    steps: int = 25,
    seed: int = 0,
) -> ModelErrors:
    """Run fresh episodes of a learner, and measure the errors of its dynamics models.

    Parameters
    ----------
    source : CrossLearner, RunFolder, str or Path
        A learner of the method ``models``, or a run of it.
    episodes, horizon : int
        Episodes of every task, and the most steps of one.
    steps : int
        H, the length of the open loop; less if the episodes are shorter.
    seed : int
        Of starts and noise.
    """
    for name, value in (("episodes", episodes), ("horizon", horizon), ("steps", steps)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    folder = RunFolder.open(source) if isinstance(source, str | Path) else source
    learner = folder.load() if isinstance(folder, RunFolder) else folder
    what = str(folder.path) if isinstance(folder, RunFolder) else "the learner"
    if learner.settings.method != "models":
        raise InputError(
            f"{what} was learned by the method {learner.settings.method}, which learns no models; "
            "give a run that was trained with --method models"
        )
    method: Any = learner.method
    if method.frame is None:
        raise InputError(f"{what} has not fitted its models yet; let it learn for an iteration")
    generator = np.random.default_rng([seed, 1])
    plan = plan_episodes(generator, learner.tasks, episodes, horizon, method.noise.std)
    held = _HeldOut(method.executor.episodes(learner.family.expansion, plan), method, steps)
    models = _models(method)
    cross = models["cross-learned"]
    return ModelErrors(
        tasks=held.names,
        seen=sum(len(part.rewards) for part in method.data),
        held_out=sum(len(part.rewards) for part in held.data),
        steps=held.steps,
        outputs=tuple(
            OutputChoice(
                name, chosen.alike, one.epsilon, float(chosen.noise[0]), len(one.family.knots)
            )
            for name, chosen, one in zip(held.frame.names, cross.chosen, cross.fits, strict=True)
        ),
        kinds=tuple(held.errors(kind, dynamics) for kind, dynamics in models.items()),
        paths=held.paths(models, generator),
        curves=_curves(method, held, cross),
    )


def _models(method: Any) -> dict[str, Dynamics]:
    """Return models of every kind and of the learner's radius, fitted to the same data."""
    chosen, knots, frame = method.settings.model_epsilon, method.settings.model_knots, method.frame
    kinds = dict(KINDS)
    if chosen not in kinds.values():
        kinds[f"ε_m = {chosen:g}"] = chosen
    data = method.machine_steps
    return {
        kind: method.dynamics
        if radius == chosen
        else fit(data, frame, choose(data, frame, radius), radius, knots)
        for kind, radius in kinds.items()
    }


class _HeldOut:
    """Fresh episodes: the transitions of every task, and n paths of H steps from them."""

    def __init__(self, fresh: Episodes, method: Any, steps: int) -> None:
        scale, self.frame, controllers = method.executor.scale, method.frame, method.controllers
        self.bounds = controllers.limits if controllers.used else method.bounds
        self.names = tuple(task.name for task in method.executor.tasks)
        N = len(self.names)
        steps_of = [Transitions.of(fresh.of_task(i), scale, method.bounds) for i in range(N)]
        self.data = end_absorbed(controllers.machine_steps(steps_of), method.settings.gamma)
        # The spreads of the outputs (outputs,), and of observations and rewards (q + 1,).
        targets = np.concatenate([self.frame.targets(part) for part in self.data])
        self.unit = _positive(targets.std(axis=0)) * self.frame.unit
        seen = np.concatenate([np.column_stack([part.after, part.rewards]) for part in self.data])
        self.spread = _positive(seen.std(axis=0))
        # Paths of so many steps, or of the longest length that every task has.
        self.steps = H = min(steps, int(fresh.lengths.max(axis=1).min()))
        places = [
            (i, e, t)
            for i, e in np.ndindex(*fresh.lengths.shape)
            for t in range(0, fresh.lengths[i, e] - H + 1, _STRIDE)
        ]
        self.task, e, t = np.array(places).T  # of every path, (n,)
        episode, path = (self.task[:, None], e[:, None]), t[:, None] + np.arange(H + 1)
        self.observations = fresh.observations[*episode, path]  # (n, H + 1, q)
        taken = np.clip(scale.inverse(fresh.actions), *method.bounds)[*episode, path[:, :-1]]
        self.actions = np.array(  # (n, H, p)
            [
                controllers.machine_actions(i, seen[:-1], actions)
                for i, seen, actions in zip(self.task, self.observations, taken, strict=True)
            ]
        )
        self.rewards = fresh.rewards[*episode, path[:, :-1]]  # (n, H)

    def one_step(self, dynamics: Dynamics) -> Floats:
        """Return mean squares of relative errors, shape (N, outputs)."""
        squares = [dynamics.mean_squares(i, part) for i, part in enumerate(self.data)]
        return np.asarray(np.array(squares) / self.unit**2)

    def open_loop(
        self, functions: Sequence[Family], which: Integers, path: Integers
    ) -> tuple[Floats, Floats]:
        """Return predictions of paths: observations (n, H + 1, q), rewards (n, H)."""
        q, p = self.observations.shape[2], self.actions.shape[2]
        # A zero policy: the recorded actions enter as its noise.
        kernel = Gaussian(std=np.ones(q))
        policy = Family(kernel, np.zeros((1, q)), np.zeros((1, 1, p))).expansion
        world = world_of(functions, self.frame, self.bounds)
        starts, zero = self.observations[path, 0], np.zeros(len(path), dtype=np.int64)
        # Compiled code needs contiguous arrays.
        which, actions = np.ascontiguousarray(which), np.ascontiguousarray(self.actions[path])
        imagined = imagine(policy, world, starts, zero, which, actions)
        return imagined.states, imagined.rewards

    def ahead(self, dynamics: Dynamics) -> Floats:
        """Return mean squares of relative errors after 1 … H steps, shape (N, H, q + 1)."""
        N = len(self.data)
        every = np.arange(len(self.task))
        states, rewards = self.open_loop(dynamics.functions(N), self.task, every)
        error = states[:, 1:] - self.observations[:, 1:]
        wrapped = (error + np.pi) % (2.0 * np.pi) - np.pi
        error = np.where(self.frame.is_angle == 1, wrapped, error)
        both = np.concatenate([error, (rewards - self.rewards)[..., None]], axis=2)
        squares = (both / self.spread) ** 2
        return np.array([squares[self.task == i].mean(axis=0) for i in range(N)])

    def errors(self, kind: str, dynamics: Dynamics) -> KindErrors:
        """Return the errors of one kind of models."""
        now, later = self.one_step(dynamics), self.ahead(dynamics)
        q = len(self.frame.is_angle)
        every = [*(f"observation {d}" for d in range(q)), "reward"]
        return KindErrors(
            kind,
            one_step=_by_output(self.frame.names, now),
            ahead=_by_output(every, later[:, -1]),
            growth=tuple(_roots(later[:, k, :q].mean(axis=1)) for k in range(self.steps)),
        )

    def paths(
        self, models: Mapping[str, Dynamics], generator: np.random.Generator
    ) -> tuple[TaskPath, ...]:
        """Return the first paths of some tasks, with the predictions of every kind of models."""
        N, cross = len(self.data), models["cross-learned"]
        tasks = np.unique(np.linspace(0, N - 1, min(N, _PATHS)).round().astype(np.int64))
        first = np.array([np.flatnonzero(self.task == i)[0] for i in tasks])
        predicted = {
            kind: self.open_loop(dynamics.functions(N), tasks, first)[0]
            for kind, dynamics in models.items()
        }
        total = len(cross.fits[0].distances)
        shapes = [(_SAMPLES, total + 1, len(one.family.knots), 1) for one in cross.fits]
        drawn = cross.functions(N, [generator.standard_normal(shape) for shape in shapes])
        which = (np.arange(_SAMPLES)[:, None] * N + tasks).ravel()
        bundle = self.open_loop(drawn, which, np.tile(first, _SAMPLES))[0]
        bundle = bundle.reshape(_SAMPLES, len(tasks), *bundle.shape[1:])
        low, high = np.quantile(bundle, [0.5 - 0.5 * BAND, 0.5 + 0.5 * BAND], axis=0)
        return tuple(
            TaskPath(
                self.names[task],
                self.observations[path],
                {kind: states[k] for kind, states in predicted.items()},
                low[k],
                high[k],
            )
            for k, (task, path) in enumerate(zip(tasks, first, strict=True))
        )


def _curves(method: Any, held: _HeldOut, cross: Dynamics) -> tuple[ErrorCurve, ...]:
    """Return the one-step errors over radii, with the cross-learned hyperparameters."""
    data = method.machine_steps
    chosen = np.array([one.epsilon for one in cross.fits])
    known = chosen[np.isfinite(chosen) & (chosen > 0.0)]
    low, high = (known.min(), known.max()) if len(known) else (1.0, 1.0)
    between = np.geomspace(low / _BEYOND, high * _BEYOND, _RADII)
    radii = np.array([0.0, *between, math.inf])
    errors = []
    for radius in radii:
        fitted = fit(data, held.frame, cross.chosen, float(radius), method.settings.model_knots)
        errors.append(np.sqrt(held.one_step(fitted)).mean(axis=0))
    there = np.sqrt(held.one_step(cross)).mean(axis=0)
    table = np.array(errors)
    return tuple(
        ErrorCurve(name, radii, table[:, o], float(chosen[o]), float(there[o]))
        for o, name in enumerate(held.frame.names)
    )


def _by_output(names: Sequence[str], squares: Floats) -> dict[str, Interval]:
    """Return root mean squares of errors (N, outputs) over tasks, by output and overall."""
    by_output = {name: _roots(squares[:, o]) for o, name in enumerate(names)}
    return {**by_output, OVERALL: _roots(squares.mean(axis=1))}


def _roots(squares: Floats) -> Interval:
    """Return the mean of roots over tasks, which is not negative."""
    interval = student(np.sqrt(squares))
    return interval.within(0.0) if interval.known else interval


def _positive(spread: Floats) -> Floats:
    """Return spreads to divide by, 1 where nothing varies."""
    return np.where(spread > 0.0, spread, 1.0)
