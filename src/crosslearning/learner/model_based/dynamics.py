"""Cross-learned dynamics models: each task's model is kept near a central one.

From an observation s and an action a a model predicts the change of every coordinate of s and the
reward. If episodes were seen to end, these are of steps that do not end one. From where such a step
would lead, and a, the model then predicts the log odds of an end and the reward at an end: most
ends depend on the next state alone. Each output is a separate regression
(:mod:`crosslearning.rkhs.cross_regression`), the log odds a classification, with separate kernel
widths and a separate similarity of the tasks: rewards are often the same function for all, unlike
dynamics.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from crosslearning.errors import InputError
from crosslearning.learner.core import misfit
from crosslearning.learner.limits import NO_PENALTIES, Penalties
from crosslearning.learner.model_based.data import EMPTY, PseudoData, Transitions
from crosslearning.learner.model_based.ends import ROUGHEST, choose_classifier, classifier
from crosslearning.learner.model_based.imagination import Controlled, Outputs, World, uncontrolled
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.cross_classification import CrossClassifier
from crosslearning.rkhs.cross_fit import CrossFit
from crosslearning.rkhs.cross_regression import CrossRegression
from crosslearning.rkhs.evidence import Hyperparameters, most_likely
from crosslearning.rkhs.family import Family
from crosslearning.tasks.loop_spec import KnownChange

#: Imagined observations may exceed the range of the data by this share of it.
_MARGIN = 0.1
#: A spread below this share of the values is rounding.
_CONSTANT = 1e-12
#: The default cap on knots: a share of the points, within bounds.
_KNOTS_SHARE, _KNOTS = 1.0 / 3.0, (200, 600)
#: So wide is a kernel in coordinates on which a function does not depend.
_BLIND = 1e15
#: The least weight of a change of the observation that is far off.
_LEAST_WEIGHT = 1e-6
#: How often the weights of points are set anew, and the change of them that does not matter.
_REWEIGHED, _SAME_WEIGHTS = 3, 0.5
#: Knots of the models of motion for the choice of a classifier.
_MOTION_KNOTS = 200


class Frame(NamedTuple):
    """The normalisation of the models' outputs, and the limits of imagined rollouts."""

    #: Mean and standard deviation of every output over all tasks, shape (outputs,).
    centre: Floats
    unit: Floats
    #: Of imagined observations and both rewards, shape (2, q + 1 + ends): the bounds of the space,
    #: and the range of the data with a margin.
    limits: Floats
    is_angle: Integers  #: 1 for coordinates that are angles, shape (q,)
    ends: int  #: 1 if an episode was seen to terminate
    known: tuple[KnownChange, ...] = ()  #: coordinates whose changes are not learned
    odds: float = 0.0  #: log odds of an end where nothing is known: those of the data
    unread: tuple[int, ...] = ()  #: coordinates on which nothing depends that is learned
    exogenous: tuple[int, ...] = ()  #: coordinates that no action changes

    @classmethod
    def of(
        cls,
        data: Sequence[Transitions],
        low: Floats,
        high: Floats,
        is_angle: Sequence[int],
        pseudo: PseudoData = EMPTY,
        known: Sequence[KnownChange] = (),
        unread: Sequence[int] = (),
        exogenous: Sequence[int] = (),
    ) -> Frame:
        """Return the frame of the transitions of all tasks, in a space from low to high."""
        learned = _learned(len(low), known)
        q = len(learned)
        turn = np.zeros(len(low), dtype=np.int64)
        turn[list(is_angle)] = 1
        ends = int(any(np.any(steps.terminated) for steps in pseudo.beside(data, q + 1, q)))
        raw = [
            np.concatenate(
                [_raw(steps, turn, ends, learned)[:, o] for steps in _of(data, o, q, ends, pseudo)]
            )
            for o in range(q + 1 + 2 * ends)
        ]
        centre, unit = (np.array([f(values) for values in raw]) for f in (np.mean, np.std))
        odds = 0.0
        if ends:
            # Labels are not normalised.
            labels, centre[q + 1], unit[q + 1] = raw[q + 1], 0.0, 1.0
            odds = math.log((labels.sum() + 0.5) / (len(labels) - labels.sum() + 0.5))
        size = np.maximum(np.abs(centre), 1.0)
        seen = np.concatenate([np.concatenate([steps.states, steps.after]) for steps in data])
        least, most = seen.min(axis=0), seen.max(axis=0)
        margin = _MARGIN * (most - least)
        rewards = [raw[q], *([raw[q + 2]] if ends else [])]
        limits = np.array(
            [
                [*np.where(turn, low, np.maximum(low, least - margin)), *map(np.min, rewards)],
                [*np.where(turn, high, np.minimum(high, most + margin)), *map(np.max, rewards)],
            ]
        )
        unit = np.where(unit > _CONSTANT * size, unit, 1.0)
        rest = tuple(known), odds, tuple(unread), tuple(exogenous)
        return cls(centre, unit, limits, turn, ends, *rest)

    @property
    def learned(self) -> Integers:
        """The coordinates whose changes are learned: the first outputs; the reward is next."""
        return _learned(len(self.is_angle), self.known)

    def blind_to(self, output: int, inputs: int) -> list[int]:
        """Return which of the inputs (s, a) an output does not depend on.

        The controllers' memories; for what no action changes all else, too. Around a controller
        the rest may well predict it: rooms that cool say that it became colder outside. But the
        weather does not change when another policy warms them.
        """
        learned = self.learned
        if output < len(learned) and learned[output] in self.exogenous:
            return [d for d in range(inputs) if d not in self.exogenous]
        return list(self.unread)

    def of_coordinates(self, values: Floats, otherwise: float) -> Floats:
        """Return numbers of the learned outputs for every coordinate, shape (q,)."""
        every = np.full(len(self.is_angle), otherwise)
        every[self.learned] = values[: len(self.learned)]
        return every

    def beyond(self, coordinates: Integers, low: Floats, high: Floats) -> Frame:
        """Return a frame in which some observations may leave the data: limits may lie there."""
        limits = self.limits.copy()
        width = limits[1, coordinates] - limits[0, coordinates]
        limits[0, coordinates] = np.maximum(low[coordinates], limits[0, coordinates] - width)
        limits[1, coordinates] = np.minimum(high[coordinates], limits[1, coordinates] + width)
        return self._replace(limits=limits)

    def targets(self, data: Transitions) -> Floats:
        """Return the normalised targets of the regressions, shape (n, outputs)."""
        raw = _raw(data, self.is_angle, self.ends, self.learned)
        return np.asarray((raw - self.centre) / self.unit)

    @property
    def names(self) -> list[str]:
        """Names of the outputs."""
        changes = [f"observation {d}" for d in self.learned]
        return [*changes, "reward", *(["end", "reward at an end"] if self.ends else [])]


def _learned(coordinates: int, known: Sequence[KnownChange]) -> Integers:
    without = [change.coordinate for change in known]
    return np.setdiff1d(np.arange(coordinates), without).astype(np.int64)


def _raw(data: Transitions, is_angle: Integers, ends: int, learned: Integers) -> Floats:
    """Return the targets before normalisation, shape (n, outputs)."""
    change = data.after - data.states
    wrapped = (change + np.pi) % (2.0 * np.pi) - np.pi
    parts = [np.where(is_angle == 1, wrapped, change)[:, learned], data.rewards[:, None]]
    if ends:
        parts += [data.terminated[:, None], data.rewards[:, None]]
    return np.concatenate(parts, axis=1)


def _of(
    data: Sequence[Transitions], output: int, q: int, ends: int, pseudo: PseudoData
) -> list[Transitions]:
    """Return the steps to which an output is fitted, of every task.

    All for the log odds of an end, those that end for the reward at one, the others for the rest.
    """
    steps = pseudo.beside(data, output, q)
    if not ends or output == q + 1:
        return steps
    some = [one.where(one.terminated == float(output == q + 2)) for one in steps]
    # Where every step ends, it tells of the rest as well.
    return some if any(len(one.rewards) for one in some) else steps


class Dynamics(NamedTuple):
    """Fitted models of N tasks: the hyperparameters and the fit of every output."""

    frame: Frame
    chosen: list[Hyperparameters]
    fits: list[CrossFit]

    @property
    def distances(self) -> Floats:
        """Distance of every task's model from the central one, shape (N,)."""
        return np.asarray(np.sqrt(sum(fit.distances**2 for fit in self.fits)))

    @property
    def multipliers(self) -> Floats:
        """The largest multiplier of every task over the outputs, shape (N,)."""
        return np.asarray(np.max([fit.multipliers for fit in self.fits], axis=0))

    def functions(self, tasks: int, normal: Sequence[Floats] | None = None) -> list[Family]:
        """Return each output's functions of the first ``tasks``, without normalisation.

        ``normal``, of shape (S, N + 1, m, 1) for each output, are standard normal numbers for S
        posterior samples; without it these are the means.
        """
        families = []
        for o, fit in enumerate(self.fits):
            drawn = fit.functions()
            if normal is not None and isinstance(fit, CrossClassifier):
                # Few ends are seen, and samples of their log odds would put ends anywhere.
                drawn = np.tile(drawn, (len(normal[o]), 1, 1))
            elif normal is not None:
                drawn = fit.samples(fit.calibration * normal[o])
            N = len(fit.distances)
            wanted = drawn.reshape(-1, N, *drawn.shape[1:])[:, :tasks]
            weights = fit.weights(wanted.reshape(-1, *drawn.shape[1:]) * self.frame.unit[o])
            families.append(Family(fit.family.kernel, fit.family.knots, weights))
        return families

    def predict(self, task: int, states: Floats, actions: Floats) -> Floats:
        """Return the outputs of a task's mean model at (s, a), shape (n, outputs).

        The probability of an end in place of its log odds.
        """
        both, end = np.concatenate([states, actions], axis=1), len(self.frame.learned) + 1
        plain, ending = self.fits[:end], self.fits[end:]
        values = np.stack([fit.family(both)[:, task, 0] for fit in plain], axis=1)
        values = values * self.frame.unit[: len(plain)] + self.frame.centre[: len(plain)]
        if not ending:
            return np.asarray(values)
        reached = np.concatenate([self._moved(states, actions, values), actions], axis=1)
        last = np.stack([fit.family(reached)[:, task, 0] for fit in ending], axis=1)
        last = last * self.frame.unit[end:] + self.frame.centre[end:]
        last[:, 0] = expit(last[:, 0] + self.frame.odds)
        return np.concatenate([values, last], axis=1)

    def reached(self, task: int, steps: Transitions) -> Floats:
        """Return the states to which steps would lead without an end, and actions, (n, q + p)."""
        values = self._replace(fits=self.fits[: len(self.frame.learned)])
        changes = values.predict(task, steps.states, steps.actions)
        moved = self._moved(steps.states, steps.actions, changes)
        return np.concatenate([moved, steps.actions], axis=1)

    def _moved(self, states: Floats, actions: Floats, values: Floats) -> Floats:
        """Return the next states for predictions of the learned changes, not clipped."""
        frame, change = self.frame, np.zeros(states.shape)
        change[:, frame.learned] = values[:, : len(frame.learned)]
        for j, source, gain, slope in frame.known:
            change[:, j] = slope[0] + np.hstack([states, actions]) @ slope[1:]
            change[:, j] += gain * change[:, source] if source >= 0 else 0.0
        return np.asarray(states + change)

    def mean_squares(self, task: int, steps: Transitions) -> Floats:
        """Return the mean squared error of every output of a task's mean model, (outputs,).

        Of the steps that tell of the output; 0 if there are none.
        """
        raw = _raw(steps, self.frame.is_angle, self.frame.ends, self.frame.learned)
        squares = (self.predict(task, steps.states, steps.actions) - raw) ** 2
        q = len(self.frame.learned)
        for o in range(q + 1 + 2 * self.frame.ends):
            if self.frame.ends and o != q + 1:
                squares[steps.terminated != float(o == q + 2), o] = np.nan
        counts = np.sum(np.isfinite(squares), axis=0)
        return np.asarray(np.nansum(squares, axis=0) / np.maximum(counts, 1))

    def follow(self, task: int, states: Floats, actions: Floats) -> Floats:
        """Return the observations after (s, a) in a task's mean model, shape (n, q)."""
        low, high = self.frame.limits[:, : len(self.frame.is_angle)]
        after = self._moved(states, actions, self.predict(task, states, actions))
        with np.errstate(invalid="ignore"):
            round_again = low + (after - low) % (high - low)
        return np.clip(np.where(self.frame.is_angle == 1, round_again, after), low, high)


def choose(
    data: Sequence[Transitions],
    frame: Frame,
    epsilon: float | None,
    before: Sequence[Hyperparameters] = (),
    pseudo: PseudoData = EMPTY,
    outputs: Sequence[int] | None = None,
    motion: Dynamics | None = None,
) -> list[Hyperparameters]:
    """Return the hyperparameters of the ``outputs``, by default all, from the evidence.

    The search starts from those ``before``, of fewer data. If ``epsilon`` is 0 or infinite, it
    and not the data decides how alike the tasks are. Without all outputs, those of ends need the
    models of ``motion``.
    """
    is_angle = np.flatnonzero(frame.is_angle).tolist()
    alike = None if epsilon is None else {0.0: 1.0, math.inf: 0.0}.get(epsilon)
    chosen: list[Hyperparameters] = []
    for o in range(len(frame.unit)) if outputs is None else outputs:
        start = before[o] if o < len(before) else None
        if frame.ends and o > len(frame.learned) and motion is None:
            motion = fit(data, frame, chosen[: len(frame.learned)], epsilon, _MOTION_KNOTS)
        inputs, targets = _points(data, frame, o, pseudo, motion)
        if frame.ends and o == len(frame.learned) + 1:
            found = choose_classifier(inputs, targets, is_angle, frame.odds, start, alike)
        else:
            found = most_likely(
                inputs,
                targets,
                periodic=is_angle,
                start=start,
                alike=alike,
                least_weight=_least_weight(frame, o),
            )
        for values in (found.widths, found.units):
            values[frame.blind_to(o, len(values))] = _BLIND
        chosen.append(found)
    return chosen


def fit(
    data: Sequence[Transitions],
    frame: Frame,
    chosen: Sequence[Hyperparameters],
    epsilon: float | None,
    max_knots: int | None,
    pseudo: PseudoData = EMPTY,
) -> Dynamics:
    """Fit the models; ``epsilon`` None takes each output's radius from its hyperparameters.

    Only the outputs with hyperparameters are fitted, which are the first ones. The noise of
    changes is Student's t: where a machine hits a stop, a few points far off would bend smooth
    functions everywhere.
    """
    N, is_angle = len(data), np.flatnonzero(frame.is_angle).tolist()
    fits: list[CrossFit] = []
    if max_knots is None:
        points = sum(len(steps.rewards) for steps in data)
        max_knots = int(np.clip(_KNOTS_SHARE * points, *_KNOTS))
    for o, choice in enumerate(chosen):
        kernel = choice.kernel(is_angle)
        inputs, targets = _points(data, frame, o, pseudo, Dynamics(frame, [], fits))
        if frame.ends and o == len(frame.learned) + 1:
            how = choice, is_angle, frame.odds, max_knots, epsilon
            fits.append(classifier(inputs, targets, *how))
            continue
        # The knots may leave no more of the kernel unexplained than the noise.
        size = choice.signal * float(np.mean(kernel.diagonal(np.concatenate(inputs)[:200])))
        tolerance = float(np.clip(choice.noise[0] ** 2 / size, 1e-9, ROUGHEST))
        regression = CrossRegression(
            kernel,
            N,
            1,
            noise=choice.noise,
            ridge=choice.ridge(N),
            max_knots=max_knots,
            tolerance=tolerance,
        )
        for i in range(N):
            regression.add(i, inputs[i], targets[i])
        with warnings.catch_warnings():
            # A task that hardly moved is no sign of other units.
            warnings.filterwarnings("ignore", message=".*are they in the same unit")
            least = _least_weight(frame, o)
            fits.append(_robust(regression, choice.multiplier(N), epsilon, least))
    return Dynamics(frame, list(chosen), fits)


def _least_weight(frame: Frame, output: int) -> float:
    """Return the least weight of a point far off; rare rewards and ends are what tasks are for."""
    return _LEAST_WEIGHT if output < len(frame.learned) else 1.0


def _robust(
    regression: CrossRegression, multiplier: float, epsilon: float | None, least: float
) -> CrossFit:
    """Return the fit with weights of the points that fit it."""
    for made in range(_REWEIGHED + 1):
        if epsilon is None:
            fitted = regression.at(multiplier)
        else:
            fitted = regression.fit(epsilon, "relaxed")
        weights = fitted.robust_weights(least)
        every = zip(weights, regression.weights, strict=True)
        changed = max(np.max(np.abs(new - old), initial=0.0) for new, old in every)
        if made == _REWEIGHED or changed <= _SAME_WEIGHTS:
            break
        regression.weigh(weights)
    return fitted


def _points(
    data: Sequence[Transitions],
    frame: Frame,
    output: int,
    pseudo: PseudoData,
    motion: Dynamics | None,
) -> tuple[list[Floats], list[Floats]]:
    """Return inputs (n, q + p) and targets (n, 1) of every task for one output."""
    known = _of(data, output, len(frame.learned), frame.ends, pseudo)
    if frame.ends and output > len(frame.learned):
        assert motion is not None
        inputs = [motion.reached(i, steps) for i, steps in enumerate(known)]
    else:
        inputs = [np.concatenate([steps.states, steps.actions], axis=1) for steps in known]
    for one in inputs:
        one[:, frame.blind_to(output, one.shape[1])] = 0.0
    return inputs, [frame.targets(steps)[:, output : output + 1] for steps in known]


def world_of(
    functions: Sequence[Family],
    frame: Frame,
    actions: Floats,
    penalties: Penalties = NO_PENALTIES,
    controlled: Controlled | None = None,
) -> World:
    """Return :meth:`Dynamics.functions` for compiled code; ``actions`` are bounds, shape (2, p)."""
    rest, centre = (frame.limits, actions, frame.is_angle, frame.ends, penalties), frame.centre
    q, plain = len(frame.is_angle), len(frame.learned) + 1
    controlled = controlled or uncontrolled()
    ending = uncontrolled().functions
    if frame.ends:
        ending = Outputs.of(functions[plain:])
        centre = centre.copy()
        centre[plain] = frame.odds
    functions = functions[:plain]
    if not frame.known:
        return World(Outputs.of(functions), centre, *rest, controlled, ending)
    # A known change is an affine function, beside a multiple of the function of its source.
    place = {int(d): o for o, d in enumerate(frame.learned)}
    rules = {change.coordinate: change for change in frame.known}
    families, slopes, offsets = [], [], []
    for d in range(q):
        change = rules.get(d)
        o = place[d] if change is None else place.get(change.source, 0)
        gain = 1.0 if change is None else change.gain
        family = functions[o]
        if gain == 0.0:
            family = Family(family.kernel, family.knots[:1], 0.0 * family.weights[:1])
        elif gain != 1.0:
            family = Family(family.kernel, family.knots, gain * family.weights)
        families.append(family)
        slopes.append(None if change is None else change.slope)
        offsets.append(gain * centre[o])
    outputs = Outputs.of([*families, functions[-1]], [*slopes, None])
    return World(outputs, np.append(offsets, centre[plain - 1 :]), *rest, controlled, ending)


# Files ------------------------------------------------------------------------------------


def pack_choices(chosen: Sequence[Hyperparameters]) -> dict[str, Floats]:
    """Return the hyperparameters as one table."""
    rows = [np.concatenate([np.ravel(field) for field in choice]) for choice in chosen]
    return {"choices": np.array(rows)} if rows else {}


def unpack_choices(arrays: Mapping[str, Floats], inputs: int) -> list[Hyperparameters]:
    """Return what :func:`pack_choices` packed."""
    if "choices" not in arrays:
        return []
    table = arrays["choices"]
    if table.ndim != 2 or table.shape[1] != 2 * inputs + 5 or not np.all(np.isfinite(table)):
        raise misfit("choices")
    chosen = []
    for row in table:
        widths, units = row[: 2 * inputs].reshape(2, inputs).copy()
        linear, signal, alike, noise, evidence = row[2 * inputs :].tolist()
        std = np.array([noise])
        chosen.append(Hyperparameters(widths, units, linear, signal, alike, std, evidence))
    return chosen


def unpack_models(
    arrays: Mapping[str, Floats],
    chosen: Sequence[Hyperparameters],
    angles: Sequence[int],
    functions: int,
) -> list[Family]:
    """Return the functions of every output, if there are any yet."""
    if not arrays:
        return []
    try:
        families = [
            Family(choice.kernel(angles), arrays[f"{o}.knots"], arrays[f"{o}.weights"])
            for o, choice in enumerate(chosen)
        ]
    except (KeyError, InputError) as problem:
        raise misfit("the models") from problem
    same = all(family.weights.shape[1:] == (functions, 1) for family in families)
    if not same or len(arrays) != 2 * len(families):
        raise misfit("the models")
    return families
