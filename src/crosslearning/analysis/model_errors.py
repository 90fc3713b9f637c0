"""Model errors: how well models tell what machines do that they have not seen.

The tasks of a learner are acted in afresh, by its policies and with noise of their own. Models of
three kinds, fitted to the same data, then tell what will come: one step ahead, and many steps ahead
in an open loop, with the actions that were taken and nothing else. Errors are relative: roots of
mean squares, in units of the spread of what happened. 1 is what telling the mean would give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.statistics import Interval, student
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.model_based.dynamics import Dynamics, Frame, choose, fit, world_of
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.learner.model_based.transitions import Transitions
from crosslearning.rkhs import Family, Gaussian
from crosslearning.rollouts import Episodes, plan_episodes
from crosslearning.runs import RunFolder

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: ε_m of every kind of models; None lets the data choose.
KINDS: dict[str, float | None] = {"cross-learned": None, "pooled": 0.0, "separate": math.inf}
#: The mean square of all outputs together.
OVERALL = "overall"
#: Every so many steps of an episode, a path into the future begins.
_STRIDE = 5
#: Models that are drawn for a band, and how much of them it holds.
_DRAWN, BAND = 60, 0.9
#: Tasks whose paths are kept, and radii of the curves.
_PATHS, _RADII = 4, 13
#: The curves reach so far beyond the radii that were chosen.
_BEYOND = 30.0


@dataclass(frozen=True)
class OutputChoice:
    """What the data chose for one output of the cross-learned models.

    Attributes
    ----------
    output : str
    alike : float
        c: the covariance of two tasks' functions, 1 if they are the same.
    epsilon : float
        ε_m: the root of the mean squared distance to the central model.
    noise : float
        Standard deviation, as a share of the output's spread.
    knots : int
    """

    output: str
    alike: float
    epsilon: float
    noise: float
    knots: int


@dataclass(frozen=True)
class KindErrors:
    """The relative errors of one kind of models, means over tasks with 95 % intervals.

    Attributes
    ----------
    kind : str
    one_step : mapping of str to Interval
        Of every output, and of all together.
    ahead : mapping of str to Interval
        The same after so many steps: of the observation and of the reward.
    growth : tuple of Interval
        Of the observation after 1, 2, … steps.
    """

    kind: str
    one_step: Mapping[str, Interval]
    ahead: Mapping[str, Interval]
    growth: tuple[Interval, ...]


@dataclass(frozen=True, eq=False)
class TaskPath:
    """One path of a task and what models told of it, from its first observation on.

    Attributes
    ----------
    task : str
    real : array, shape (H + 1, q)
    told : mapping of str to array, shape (H + 1, q)
        By every kind of models.
    low, high : arrays, shape (H + 1, q)
        Between these are nine in ten of the models that are possible after the data.
    """

    task: str
    real: Floats
    told: Mapping[str, Floats]
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """The one-step error of an output over ε_m, other things as the data chose them.

    Attributes
    ----------
    output : str
    radii, errors : arrays, shape (R,)
        The first radius is 0, the last infinite.
    chosen : float
        The radius that the data chose.
    error : float
        The error there.
    """

    output: str
    radii: Floats
    errors: Floats
    chosen: float
    error: float


@dataclass(frozen=True, eq=False)
class ModelErrors:
    """How well the models of a learner tell what they have not seen.

    Attributes
    ----------
    tasks : tuple of str
    seen, held_out : int
        Steps of all tasks that the models are fitted to, and that they are measured on.
    steps : int
        H: how far the open loop goes.
    outputs : tuple of OutputChoice
    kinds : tuple of KindErrors
    paths : tuple of TaskPath
    curves : tuple of ErrorCurve
    """

    tasks: tuple[str, ...]
    seen: int
    held_out: int
    steps: int
    outputs: tuple[OutputChoice, ...]
    kinds: tuple[KindErrors, ...]
    paths: tuple[TaskPath, ...]
    curves: tuple[ErrorCurve, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON, with null for what is not finite."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def model_errors(
    source: CrossLearner | RunFolder | str | Path,
    episodes: int = 5,
    horizon: int = 50,
    steps: int = 25,
    seed: int = 0,
) -> ModelErrors:
    """Act afresh in the tasks of a learner, and say how well models tell what happens.

    Parameters
    ----------
    source : CrossLearner, RunFolder, str or Path
        A learner of the method ``models``, or a run of it.
    episodes, horizon : int
        Episodes of every task, and the most steps of one.
    steps : int
        H: how far ahead; less if the episodes are shorter.
    seed : int
        Chooses starts and noise.
    """
    for name, value in (("episodes", episodes), ("horizon", horizon), ("steps", steps)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    learner = _learner_of(source)
    method: Any = learner.method
    generator = np.random.default_rng([seed, 1])
    plan = plan_episodes(generator, learner.tasks, episodes, horizon, method.noise.std)
    fresh = method.executor.episodes(learner.family.expansion, plan)
    held = _HeldOut.of(fresh, method, steps)
    models = _models(method)
    cross = models["cross-learned"]
    return ModelErrors(
        tasks=held.names,
        seen=sum(len(own.rewards) for own in method.data),
        held_out=sum(len(own.rewards) for own in held.data),
        steps=held.steps,
        outputs=tuple(
            OutputChoice(name, own.alike, one.epsilon, float(own.noise[0]), len(one.family.knots))
            for name, own, one in zip(held.frame.names, cross.chosen, cross.fits, strict=True)
        ),
        kinds=tuple(held.errors(kind, dynamics) for kind, dynamics in models.items()),
        paths=held.paths(models, generator),
        curves=_curves(method, held, cross),
    )


def _learner_of(source: CrossLearner | RunFolder | str | Path) -> CrossLearner:
    """Return a learner that has models, or say why there is none."""
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
    return learner


def _models(method: Any) -> dict[str, Dynamics]:
    """Return models of every kind, and those of the learner's own radius, on the same data."""
    own, knots, frame = method.settings.model_epsilon, method.settings.model_knots, method.frame
    kinds = dict(KINDS)
    if own not in kinds.values():
        kinds[f"ε_m = {own:g}"] = own
    data = [*method.data, *method.related]
    return {
        kind: method.dynamics
        if radius == own
        else fit(data, frame, choose(data, frame, radius), radius, knots)
        for kind, radius in kinds.items()
    }


class _HeldOut(NamedTuple):
    """Fresh episodes: transitions of every task, and paths of H steps that begin in them.

    Attributes
    ----------
    names : tuple of str
        Of the tasks.
    frame : Frame
    bounds : array, shape (2, p)
        The ends of the action space, in the policies' units.
    data : list of N Transitions
    unit, spread : arrays, shapes (outputs,) and (q + 1,)
        The spread of the outputs, and of observations and rewards, over all tasks.
    task : array of int, shape (n,)
        Whose path it is.
    observations : array, shape (n, H + 1, q)
    actions : array, shape (n, H, p)
    rewards : array, shape (n, H)
    """

    names: tuple[str, ...]
    frame: Frame
    bounds: Floats
    data: list[Transitions]
    unit: Floats
    spread: Floats
    task: Integers
    observations: Floats
    actions: Floats
    rewards: Floats

    @property
    def steps(self) -> int:
        """H."""
        return int(self.actions.shape[1])

    @classmethod
    def of(cls, fresh: Episodes, method: Any, steps: int) -> _HeldOut:
        """Cut episodes into paths of so many steps; of fewer, if none is so long."""
        scale, bounds, frame = method.executor.scale, method.bounds, method.frame
        N = len(fresh.lengths)
        data = [Transitions.of(fresh.of_task(i), scale, bounds) for i in range(N)]
        H = min(steps, int(fresh.lengths.max(axis=1).min()))
        places = [
            (i, e, t)
            for i, e in np.ndindex(*fresh.lengths.shape)
            for t in range(0, fresh.lengths[i, e] - H + 1, _STRIDE)
        ]
        i, e, t = np.array(places).T
        path = t[:, None] + np.arange(H + 1)
        taken = np.clip(scale.inverse(fresh.actions), *bounds)
        seen = np.concatenate([np.column_stack([own.after, own.rewards]) for own in data])
        told = np.concatenate([frame.targets(own) for own in data])
        return cls(
            tuple(task.name for task in method.executor.tasks),
            frame,
            bounds,
            data,
            unit=_positive(told.std(axis=0)) * frame.unit,
            spread=_positive(seen.std(axis=0)),
            task=i,
            observations=fresh.observations[i[:, None], e[:, None], path],
            actions=taken[i[:, None], e[:, None], path[:, :-1]],
            rewards=fresh.rewards[i[:, None], e[:, None], path[:, :-1]],
        )

    def one_step(self, dynamics: Dynamics) -> Floats:
        """Return mean squares of relative errors, shape (N, outputs)."""
        found = []
        for i, own in enumerate(self.data):
            real = self.frame.targets(own) * self.frame.unit + self.frame.centre
            missed = (dynamics.predict(i, own.states, own.actions) - real) / self.unit
            found.append(np.mean(missed**2, axis=0))
        return np.array(found)

    def open_loop(
        self, functions: Sequence[Family], which: Integers, path: Integers
    ) -> tuple[Floats, Floats]:
        """Return what functions tell of paths: observations (n, H + 1, q), rewards (n, H)."""
        q, p = self.observations.shape[2], self.actions.shape[2]
        # A policy that does nothing: all that acts is what is added to it.
        kernel = Gaussian(std=np.ones(q))
        still = Family(kernel, np.zeros((1, q)), np.zeros((1, 1, p))).expansion
        world = world_of(functions, self.frame, self.bounds)
        starts, nobody = self.observations[path, 0], np.zeros(len(path), dtype=np.int64)
        # Compiled code reads memory as it lies.
        whose, taken = np.ascontiguousarray(which), np.ascontiguousarray(self.actions[path])
        found = imagine(still, world, starts, nobody, whose, taken)
        return found.states, found.rewards

    def ahead(self, dynamics: Dynamics) -> Floats:
        """Return mean squares of relative errors after 1 … H steps, shape (N, H, q + 1)."""
        N = len(self.data)
        every = np.arange(len(self.task))
        states, rewards = self.open_loop(dynamics.functions(N), self.task, every)
        missed = states[:, 1:] - self.observations[:, 1:]
        turned = (missed + np.pi) % (2.0 * np.pi) - np.pi
        missed = np.where(self.frame.is_angle == 1, turned, missed)
        both = np.concatenate([missed, (rewards - self.rewards)[..., None]], axis=2)
        squares = (both / self.spread) ** 2
        return np.array([squares[self.task == i].mean(axis=0) for i in range(N)])

    def errors(self, kind: str, dynamics: Dynamics) -> KindErrors:
        """Return the errors of one kind of models."""
        now, later = self.one_step(dynamics), self.ahead(dynamics)
        names = self.frame.names
        q = len(self.frame.is_angle)
        return KindErrors(
            kind,
            one_step=_by_output(names, now),
            ahead=_by_output(names[: q + 1], later[:, -1]),
            growth=tuple(_roots(later[:, k, :q].mean(axis=1)) for k in range(self.steps)),
        )

    def paths(
        self, models: Mapping[str, Dynamics], generator: np.random.Generator
    ) -> tuple[TaskPath, ...]:
        """Return the first paths of some tasks, with what every kind of models tells of them."""
        N, cross = len(self.data), models["cross-learned"]
        tasks = np.unique(np.linspace(0, N - 1, min(N, _PATHS)).round().astype(np.int64))
        first = np.array([np.flatnonzero(self.task == i)[0] for i in tasks])
        told = {
            kind: self.open_loop(dynamics.functions(N), tasks, first)[0]
            for kind, dynamics in models.items()
        }
        total = len(cross.fits[0].distances)
        shapes = [(_DRAWN, total + 1, len(one.family.knots), 1) for one in cross.fits]
        drawn = cross.functions(N, [generator.standard_normal(shape) for shape in shapes])
        which = (np.arange(_DRAWN)[:, None] * N + tasks).ravel()
        bundle = self.open_loop(drawn, which, np.tile(first, _DRAWN))[0]
        bundle = bundle.reshape(_DRAWN, len(tasks), *bundle.shape[1:])
        low, high = np.quantile(bundle, [0.5 - 0.5 * BAND, 0.5 + 0.5 * BAND], axis=0)
        return tuple(
            TaskPath(
                self.names[task],
                self.observations[path],
                {kind: states[k] for kind, states in told.items()},
                low[k],
                high[k],
            )
            for k, (task, path) in enumerate(zip(tasks, first, strict=True))
        )


def _curves(method: Any, held: _HeldOut, cross: Dynamics) -> tuple[ErrorCurve, ...]:
    """Return the one-step error of every output over radii, as the cross-learned models are."""
    data = [*method.data, *method.related]
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
    """Return roots of mean squares (N, outputs) as means over tasks, by output and overall."""
    found = {name: _roots(squares[:, o]) for o, name in enumerate(names)}
    return {**found, OVERALL: _roots(squares.mean(axis=1))}


def _roots(squares: Floats) -> Interval:
    """Return the mean over tasks of roots, which are never negative."""
    interval = student(np.sqrt(squares))
    return interval.within(0.0) if interval.known else interval


def _positive(spread: Floats) -> Floats:
    """Return spreads to divide by: 1 where nothing varies."""
    return np.where(spread > 0.0, spread, 1.0)


def _plain(value: Any) -> Any:
    """Return data as JSON holds them: null for what is not finite."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
