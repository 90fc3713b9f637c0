"""Natural policy gradients in the RKHS, from whole episodes, with steps of a given length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError
from crosslearning.learner.iterate import Iterate
from crosslearning.learner.method import Improvement, each_action, part_of, too_large
from crosslearning.learner.report import IterationReport, StopDecision
from crosslearning.learner.sampling import Sampling
from crosslearning.learner.trust_region.batches import Steps, log_densities, pack, unpack
from crosslearning.learner.trust_region.critic import Critic
from crosslearning.learner.trust_region.settings import TrustRegion
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.program import Expansion
from crosslearning.rkhs.regression import FamilyRegression
from crosslearning.rollouts import Episodes, Executor, Noise, plan_episodes

Floats = NDArray[np.float64]

#: Of one episode alone nothing could be told apart from where it happened to start.
_FEWEST = 2
#: The noise may take so much of a step's divergence at most.
_NOISE_SHARE = 0.5
#: A mean action so many standard deviations beyond its bounds is as good as always clipped.
_MARGIN = 2.0
#: The entropy of a normal distribution is ln σ + ½ ln 2πe.
_ENTROPY = 0.5 * math.log(2.0 * math.pi * math.e)
#: Ratios are clipped; before that, their logarithm, which exp must survive.
_HUGE = 50.0
#: Squares of sums of such rewards are still finite.
_LARGEST_REWARD = 1e100
_TINY = float(np.finfo(np.float64).tiny)


class Direction(NamedTuple):
    """The natural gradient of one task, for advantages in units of their standard deviation.

    Attributes
    ----------
    weights : array, shape (m, p)
        Of the mean action, on the knots.
    growth : array, shape (p,)
        Of ln σ.
    unit : float
        That standard deviation.
    """

    weights: Floats
    growth: Floats
    unit: float


class TrustRegionMethod:
    """A natural gradient for every task by regression, and a step of a given divergence."""

    functions = 0

    def __init__(self, executor: Executor, settings: TrustRegion, kernel: Kernel) -> None:
        self.executor = executor
        self.settings = settings
        N, self.outputs = len(executor.tasks), executor.tasks[0].action_size
        self.noise = Noise(each_action("action_std", settings.action_std, self.outputs) ** 2)
        self.critic = Critic(kernel, N, settings)
        self.regression = FamilyRegression(kernel, N, settings.reuse)
        #: Recent batches, newest first, of each the steps of every task.
        self.batches: list[list[Steps]] = []
        self.kernel = kernel
        #: The ends of the action space, shape (2, p), in the policies' units.
        self.bounds = executor.scale.bounds(executor.tasks[0].action_space)
        #: Mean actions at the newest states, of every task, and the noise, before the last step.
        self._before: tuple[list[Floats], Floats] = [], self.noise.std

    round_finished = True

    def begin(self, episodes: Episodes) -> None:
        """See what was looked at before: nothing that this method learns from."""

    def use_data_of(self, other: Any) -> None:
        """Know what another method can tell of its tasks: nothing that is of use to this one."""

    def improve(self, iterate: Iterate) -> Improvement:
        """Return a step along every task's natural gradient."""
        settings, tasks, std = self.settings, self.executor.tasks, self.noise.std
        assert settings.episode_steps is not None
        plan = plan_episodes(
            iterate.generator, tasks, self._episodes(), settings.episode_steps, std
        )
        episodes = self.executor.episodes(iterate.policies, plan)
        newest = []
        for i in range(len(tasks)):
            if np.max(np.abs(episodes.rewards[i])) > _LARGEST_REWARD:
                raise too_large(tasks[i].name)
            mean = partial(_function, iterate.policies, i)
            newest.append(Steps.of(episodes.of_task(i), plan.noise[i], std, mean))
        explained = [self.critic.explained(i, steps) for i, steps in enumerate(newest)]
        self.batches = [newest, *self.batches][: settings.reuse]
        self.critic.push([steps.states for steps in newest])
        if len(self.batches) == 1:
            self.critic.learn_from(self.batches)
        # The critic has not seen the newest steps yet: one that was fitted to them would explain
        # away, as if it were foreseen, what the actions brought about.
        knots, weights = self._step(iterate)
        self.critic.learn_from(self.batches)
        discounts = settings.gamma ** np.arange(settings.episode_steps)
        return Improvement(
            knots=knots,
            weights=weights,
            steps=int(episodes.lengths.sum()),
            episodes=episodes.lengths.size,
            returns=(episodes.rewards @ discounts).mean(axis=1),
            numbers={
                "total_return": episodes.rewards.sum(axis=2).mean(axis=1),
                "length": episodes.lengths.mean(axis=1),
                "explained_variance": np.array(explained),
                "entropy": np.full(len(tasks), np.sum(np.log(std) + _ENTROPY)),
                **outcome_rates(episodes),
            },
        )

    def _episodes(self) -> int:
        """Return how many episodes of each task to run, by how long the last ones were."""
        settings = self.settings
        assert settings.episode_steps is not None
        length = float(settings.episode_steps)
        if self.batches:
            length = float(np.mean(np.concatenate([s.lengths for s in self.batches[0]])))
        wanted = max(settings.episodes * length, settings.least_steps)
        return max(_FEWEST, math.ceil(min(wanted, settings.most_steps) / length))

    def _step(self, iterate: Iterate) -> tuple[Floats, Floats]:
        """Return where the policies should go, and change the noise."""
        settings, N = self.settings, len(self.executor.tasks)
        dictionary, regression = iterate.dictionary, self.regression
        states = np.concatenate([steps.states for steps in self.batches[0]])
        new = states[dictionary.novel(states, settings.novelty, settings.new_knots)]
        knots = np.concatenate([dictionary.knots, new])
        regression.push([steps.states for steps in self.batches[0]])
        regression.use(knots)
        means = np.zeros((len(knots), N, self.outputs))
        means[: len(dictionary)] = dictionary.weights[:, :N]
        found = [self.direction(i, means[:, i]) for i in range(N)]
        directions = np.stack([direction.weights for direction in found], axis=1)
        squares = [
            np.mean(regression.values(0, i, directions[:, i]) ** 2, axis=0) for i in range(N)
        ]
        growth = np.mean([direction.growth for direction in found], axis=0)
        least = np.minimum(settings.least_std, self.noise.std)
        length = self.settings.step_length(iterate.iteration)
        lengths, std = step_lengths(np.array(squares), growth, self.noise.std, least, length)
        self._before = [regression.values(0, i, means[:, i]) for i in range(N)], self.noise.std
        self.noise = Noise(std**2)
        return knots, directions * lengths[:, None]

    def direction(self, task: int, mean: Floats) -> Direction:
        """Return the natural gradient of a task whose mean action has the given weights (m, p).

        The regression of Â · (a − h(s)) on s is that of the mean action; that of ln σ is
        ½ E[Â ((a − h(s))²/σ² − 1)]. Â are the advantages divided by their standard deviation.
        """
        std, clip = self.noise.std, self.settings.ratio_clip
        low, high = self.bounds + _MARGIN * np.array([-std, std])
        targets, wider, centre, unit = [], [], 0.0, 1.0
        for b, batch in enumerate(self.batches):
            steps = batch[task]
            advantages = self.critic.advantages(b, task, steps)
            if b == 0:
                centre, unit = float(advantages.mean()), float(advantages.std()) or 1.0
            means = self.regression.values(b, task, mean)
            deviations = steps.actions - means
            ratios = np.exp(np.minimum(log_densities(deviations, std) - steps.densities, _HUGE))
            scaled = (np.minimum(ratios, clip) * (advantages - centre) / unit)[:, None]
            # Where all actions are clipped, none is better than another, and a mean that has got
            # there by chance would stay: it is led back.
            targets.append(scaled * deviations - (means - np.clip(means, low, high)))
            wider.append(scaled * ((deviations / std) ** 2 - 1.0))
        weights = self.regression.solve(task, targets, self.settings.ridge)
        return Direction(weights, 0.5 * np.concatenate(wider).mean(axis=0), unit)

    def stop_decision(self, iterate: Iterate, improvement: Improvement) -> StopDecision:
        """Tell how far the policies have moved, projection and pruning included."""
        means, old = self._before
        new = self.noise.std
        divergences = np.array(
            [
                mean_divergence(_function(iterate.policies, i, steps.states) - means[i], old, new)
                for i, steps in enumerate(self.batches[0])
            ]
        )
        return StopDecision(numbers={"kl": divergences})

    def why(self, report: IterationReport) -> str:
        """Return why the method stopped: it never does by itself."""
        return "the method has no rule to stop by."

    def transfer_settings(self) -> dict[str, Any]:
        """Return what a learner that goes on from these policies should keep: their noise."""
        return {"action_std": tuple(self.noise.std.tolist())}

    @property
    def sampling(self) -> Sampling:
        """How gradients are sampled outside of iterations: as the paper's method does."""
        return Sampling.as_in_the_paper(self.executor, self.kernel, self.noise, self.settings.gamma)

    # Checkpoints -----------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return the recent batches, the critic, the regression and the noise."""
        critic, numbers = self.critic.state()
        arrays = {"variance": self.noise.variance.copy()}
        arrays |= {f"batches.{name}": array for name, array in pack(self.batches).items()}
        arrays |= {f"critic.{name}": array for name, array in critic.items()}
        arrays |= {f"step.{name}": array for name, array in self.regression.state().items()}
        return arrays, {"critic": numbers}

    def restore(self, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> None:
        """Take a state back."""
        variance = arrays["variance"]
        if variance.shape != (self.outputs,) or not np.all(variance > 0.0):
            raise FileFormatError("its parts do not fit together: variance")
        N, q = len(self.executor.tasks), self.kernel.dimension
        batches = unpack(part_of(arrays, "batches"), N, q, self.outputs)
        states = [[steps.states for steps in batch] for batch in batches]
        self.critic.restore(part_of(arrays, "critic"), numbers["critic"], states)
        self.regression.restore(part_of(arrays, "step"), states)
        self.batches, self.noise = batches, Noise(variance.copy())


def step_lengths(
    squares: Floats, growth: Floats, std: Floats, least: Floats, divergence: float
) -> tuple[Floats, Floats]:
    """Scale directions, and the change of the noise, to a given divergence.

    The divergence from N(h, σ²) to N(h + ηf, σ'²), averaged over states, is
    c + ½ η² Σ_j mean(f_j²)/σ'_j², with c = Σ_j ln(σ'_j/σ_j) + ½ (σ_j/σ'_j)² − ½: f enters as a
    square, so that what c leaves decides η.

    Parameters
    ----------
    squares : array, shape (N, p)
        mean(f_j²) of every task's direction.
    growth : array, shape (p,)
        The direction of ln σ, which the tasks share.
    std, least : arrays, shape (p,)
        σ, and what it must not fall below.
    divergence : float
        δ.

    Returns
    -------
    lengths : array, shape (N,)
        η of every task.
    std : array, shape (p,)
        σ'.
    """
    # To second order c is |Δ ln σ|²: the length of a joint step, as if all were one function.
    joint = 0.5 * np.sum(squares / std**2, axis=1) + np.sum(growth**2)
    change = growth * float(np.mean(np.sqrt(divergence / np.maximum(joint, _TINY))))
    while True:
        new = np.maximum(std * np.exp(change), least)
        spent = mean_divergence(np.zeros((1, len(std))), std, new)
        if spent <= _NOISE_SHARE * divergence:
            break
        change = 0.8 * change
    each = 0.5 * np.sum(squares / new**2, axis=1)
    left = np.full(len(each), divergence - spent)
    lengths = np.sqrt(np.divide(left, each, out=np.zeros(len(each)), where=each > 0.0))
    return lengths, new


def mean_divergence(moved: Floats, old: Floats, new: Floats) -> float:
    """Return the mean KL divergence from N(h, σ²) to N(h + f, σ'²) over f's rows, (n, p)."""
    each = np.log(new / old) + (old**2 + moved**2) / (2.0 * new**2) - 0.5
    return float(np.mean(np.sum(each, axis=1)))


def outcome_rates(episodes: Episodes) -> dict[str, Floats]:
    """Return the mean of every outcome that a task tells, by its name; NaN where it is unknown.

    What is not one number an episode, such as a place, has no mean of interest.
    """
    rates: dict[str, Floats] = {}
    for i, outcomes in enumerate(episodes.outcomes):
        for name, values in outcomes.items():
            if values.ndim == 1:
                means = rates.setdefault(name, np.full(len(episodes.outcomes), np.nan))
                known = values[np.isfinite(values)]
                means[i] = np.mean(known) if len(known) else np.nan
    return dict(sorted(rates.items()))


def _function(policies: Expansion, which: int, states: Floats) -> Floats:
    return policies.each(states, np.full(len(states), which))
