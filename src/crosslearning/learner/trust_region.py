"""Natural policy gradients in the RKHS, from whole episodes, with steps as long as they are sure.

One iteration is :meth:`TrustRegionMethod.improve`; the core then moves the policies, projects and
prunes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from crosslearning._base.choices import Choices
from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.learner import core
from crosslearning.learner.choosing import choice_statistics
from crosslearning.learner.limits import Limits
from crosslearning.learner.reliability import (
    Agreement,
    Reliability,
    correlation_of,
    task_agreement,
)
from crosslearning.learner.settings import FEWEST_EPISODES, TrustRegion
from crosslearning.learner.values import ValueFunctions
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.program import Expansion
from crosslearning.rkhs.regression import FamilyRegression
from crosslearning.rollouts import Episodes, Executor, Noise

#: The share of their usual length that the last episodes before a limit of steps have at least.
_SHORTEST_LAST = 0.25
#: How often the critic's returns are computed from the values that were fitted to them.
_SWEEPS = 2
#: Iterations without any difference of rewards that end learning: of one policy, and of random
#: ones, which are as far from zero as up to so many standard deviations of the noise.
_PATIENCE, _TRIES, _AMPLITUDE = 3, 100, 10.0
#: Parts of a task's episodes, whose directions are compared.
_PARTS = 8
#: The weight of earlier iterations in the agreement of the tasks, one iteration later.
_MEMORY = 0.7
#: The largest share of a step's divergence that the noise may take.
_NOISE_SHARE = 0.5
#: A mean action so many standard deviations beyond its bounds is nearly always clipped.
_MARGIN = 2.0
#: The entropy of a normal distribution is ln σ + ½ ln 2πe.
_ENTROPY = 0.5 * math.log(2.0 * math.pi * math.e)
#: Log-ratios are clipped to this before exp, the ratios after it.
_HUGE = 50.0
_TINY = float(np.finfo(np.float64).tiny)


class Targets(NamedTuple):
    """What the natural gradient of one task is regressed on, in units of the advantages."""

    parts: list[Floats]  #: of the mean action, from every part of the episodes: (n, K·p) a batch
    growth: Floats  #: the natural gradient of ln σ, shape (p,)
    unit: float  #: the standard deviation of the newest advantages


class TrustRegionMethod(core.Method):
    """A natural gradient for every task by regression, and a step by its reliability."""

    settings: TrustRegion

    def __init__(self, executor: Executor, settings: TrustRegion, kernel: Kernel) -> None:
        super().__init__(executor, settings, kernel, "action_std")
        N = len(executor.tasks)
        self.limits = Limits(executor.tasks)
        #: Between what the actions choose, if they are scores.
        self.choices = executor.tasks[0].choices
        self.critic = Critic(kernel, N, settings)
        self.regression = FamilyRegression(kernel, N, settings.reuse)
        #: Recent batches, newest first: the steps of every task.
        self.batches: list[list[Steps]] = []
        #: Bounds of the action space, shape (2, p), in the policies' units.
        self.bounds = executor.scale.bounds(executor.tasks[0].action_space)
        #: What is known of the share of signal in the directions.
        self.reliability = Reliability()
        #: The correlation with which the last directions were regressed together, and what it is
        #: estimated from: products of signals between tasks and within a task, over iterations.
        self.correlation = 0.0
        self.task_agreement: Floats = np.zeros(2)
        assert settings.episode_steps is not None
        #: The most steps of an episode.
        self.longest = settings.episode_steps
        #: Whether random policies may look for a reward: a machine with a controller is in use.
        self.explores = not len(self.limits) and all(
            task.controller is None for task in executor.tasks
        )
        #: Before the last step: every task's mean actions at the newest states, and the noise.
        self._before: tuple[list[Floats], Floats] = [], self.noise.std

    def steps_needed(self, iterate: core.Iterate) -> int:
        """Return the steps of the fewest episodes, if none of them ends early.

        The last ones before a limit may be shorter, unless their returns are compared.
        """
        needed = len(self.executor.tasks) * FEWEST_EPISODES * self.longest
        whole = iterate.keeper is not None or not self.batches
        return needed if whole else math.ceil(_SHORTEST_LAST * needed)

    def improve(self, iterate: core.Iterate) -> core.Improvement:
        """Return a step along every task's natural gradient: one iteration of this method."""
        settings, tasks, std = self.settings, self.executor.tasks, self.noise.std
        # 1. Run episodes of every task (Algorithm 2, line 3).
        longest = self.longest
        if iterate.keeper is None:
            fitting = iterate.steps_left // (FEWEST_EPISODES * len(tasks))
            longest = int(min(longest, fitting))
        sizes = self._episodes(longest), longest
        plan, episodes = self.executor.episodes_within(
            iterate.policies, iterate.generator, *sizes, std, iterate.steps_left
        )
        core.refuse_huge_rewards(self.executor, episodes)
        there = np.arange(episodes.rewards.shape[2]) < episodes.lengths[..., None]
        ends = bool(episodes.terminated.any())
        steps = int(episodes.lengths.sum())
        patience = _TRIES if self.explores else _PATIENCE
        if iterate.steps_left - steps < self.steps_needed(iterate):
            patience = min(patience, iterate.iteration + 1)
        self.watch_rewards(iterate.iteration, episodes.rewards[there], ends, patience)
        learned, numbers = self._limited(episodes)
        discounts = settings.gamma ** np.arange(longest)
        returns = episodes.rewards @ discounts

        def again(policies: Expansion) -> tuple[Floats, int]:
            others = self.executor.episodes(policies, plan)
            return others.rewards @ discounts, int(others.lengths.sum())

        may_test = plan.most_steps <= iterate.steps_left - steps
        tested = iterate.saw(returns, again if may_test else None)
        newest = []
        for i in range(len(tasks)):
            mean = partial(_function, iterate.policies, i)
            newest.append(Steps.of(learned.of_task(i), plan.noise[i], std, mean, self.choices))
        explained = [self.critic.explained(i, steps) for i, steps in enumerate(newest)]
        self.batches = [newest, *self.batches][: settings.reuse]
        self.critic.push([steps.states for steps in newest])
        # A critic that is fitted to the newest steps explains away part of their advantages, so
        # it is fitted to them after the step, unless there is no other (reuse = 1, or the first
        # iteration).
        if len(self.batches) == 1 and not self.critic.knows:
            self.critic.learn_from(self.batches)
        # 2. Regress the natural gradients and scale them to the divergence (lines 4 and 5).
        exploring = self.explores and not self._varied
        knots, weights = self._random_step(iterate) if exploring else self._step(iterate)
        # 3. Fit the critic to all batches. The core applies the step and projects (line 6).
        self.critic.learn_from(self.batches)
        return core.Improvement(
            knots=knots,
            weights=weights,
            steps=steps + tested,
            episodes=episodes.lengths.size,
            returns=returns.mean(axis=1),
            numbers={
                "total_return": episodes.rewards.sum(axis=2).mean(axis=1),
                "length": episodes.lengths.mean(axis=1),
                "explained_variance": np.array(explained),
                "entropy": np.full(len(tasks), np.sum(np.log(std) + _ENTROPY)),
                "reliability": np.full(len(tasks), self.reliability.value),
                "correlation": np.full(len(tasks), self.correlation),
                "critic_correlation": np.full(len(tasks), self.critic.correlation),
                **outcome_rates(episodes),
                **numbers,
            },
        )

    def _limited(self, episodes: Episodes) -> tuple[Episodes, dict[str, Floats]]:
        """Return episodes with penalties near limits, and the numbers of the limits."""
        limits = self.limits
        if not len(limits):
            return episodes, {}
        limits.measure(episodes.observations.reshape(-1, episodes.observations.shape[3]))
        crossed = limits.saw(episodes)
        limits.update(crossed, float(episodes.rewards.std()) or 1.0)
        return limits.penalised(episodes), limits.numbers(crossed)

    def _episodes(self, longest: int) -> int:
        """Return how many episodes of each task to run, from the length of the last ones."""
        settings = self.settings
        if self.batches and self.explores and not self._varied:
            return 1  # nothing is compared
        last = [steps.lengths for steps in self.batches[0]] if self.batches else []
        length = float(np.mean(np.concatenate(last))) if last else float(longest)
        assert settings.episodes is not None
        assert settings.reliable is not None
        wanted = float(settings.episodes)
        if last and settings.reliable > 0.0 and settings.batch_growth > 1.0:
            # As few as give reliable directions; the last ones may have been cut by a limit.
            before = max(map(len, last))
            growth = self.reliability.episodes_for(settings.reliable)
            most = settings.batch_growth
            wanted = before * min(max(growth, 1.0 / most), most)
        steps = min(max(wanted * length, settings.least_steps), settings.most_steps)
        return max(FEWEST_EPISODES, math.ceil(round(steps / length, 6)))

    def _step(self, iterate: core.Iterate) -> tuple[Floats, Floats]:
        """Return the knots and weights of the step, and update the noise."""
        settings, N, std = self.settings, len(self.executor.tasks), self.noise.std
        regression = self.regression
        knots, means = self._with_new_knots(iterate)
        targets = [self.targets(i, means[:, i]) for i in range(N)]
        parts = self.directions([one.parts for one in targets])
        values = [regression.values(0, i, parts[:, i].reshape(len(knots), -1)) for i in range(N)]
        values = [value.reshape(-1, _PARTS, self.outputs) for value in values]
        agreement = Agreement.together(np.array([_products(value, std) for value in values]))
        self.reliability = self.reliability.after(agreement)
        squares = [np.mean(value.sum(axis=1) ** 2, axis=0) for value in values]
        growth = np.mean([one.growth for one in targets], axis=0)
        least = np.minimum(settings.least_std, std)
        length = settings.step_length(iterate.iteration, self.reliability.value)
        lengths, new_std = step_lengths(np.array(squares), growth, std, least, length)
        self.noise = Noise(new_std**2)
        return knots, parts.sum(axis=2) * lengths[:, None]

    def _with_new_knots(self, iterate: core.Iterate) -> tuple[Floats, Floats]:
        """Return the knots with the newest states that are novel, and the policies' weights."""
        settings, N, dictionary = self.settings, len(self.executor.tasks), iterate.dictionary
        regression = self.regression
        states = np.concatenate([steps.states for steps in self.batches[0]])
        new = states[dictionary.novel(states, settings.novelty, settings.new_knots)]
        knots = np.concatenate([dictionary.knots, new])
        regression.push([steps.states for steps in self.batches[0]])
        regression.use(knots)
        means = np.zeros((len(knots), N, self.outputs))
        means[: len(dictionary)] = dictionary.weights[:, :N]
        before = [regression.values(0, i, means[:, i]) for i in range(N)]
        self._before = before, self.noise.std
        return knots, means

    def _random_step(self, iterate: core.Iterate) -> tuple[Floats, Floats]:
        """Return a step of all functions to a random one, while no reward has differed.

        Noise on its own goes nowhere: what reaches a goal is acting alike in like states, for long.
        So each iteration has another function with normal weights on the knots, and its episodes
        are as long as the tasks'.
        """
        generator, N, old = iterate.generator, len(self.executor.tasks), iterate.dictionary.weights
        self.longest = max(self.longest, min(task.horizon for task in self.executor.tasks))
        knots, _ = self._with_new_knots(iterate)
        weights = generator.normal(size=(len(knots), self.outputs))
        values = np.concatenate([self.regression.values(0, i, weights) for i in range(N)])
        size = self.noise.std * math.exp(generator.uniform(0.0, math.log(_AMPLITUDE)))
        weights *= size / np.maximum(np.sqrt(np.mean(values**2, axis=0)), _TINY)
        steps = np.repeat(weights[:, None], N + 1, axis=1)
        steps[: len(old)] -= old[:, : N + 1]
        return knots, steps

    def targets(self, task: int, mean: Floats) -> Targets:
        """Return the targets of a task whose mean action has the given weights (m, p).

        The regression of Â · (a − h(s)) on s is the natural gradient of the mean action; that of
        ln σ is ½ E[Â ((a − h(s))²/σ² − 1)]. Â are the advantages divided by their standard
        deviation.
        """
        std, clip = self.noise.std, self.settings.ratio_clip
        low, high = self.bounds + _MARGIN * np.array([-std, std])
        parts, wider, centre, unit, before = [], [], 0.0, 1.0, 0
        for b, batch in enumerate(self.batches):
            steps = batch[task]
            advantages = self.critic.advantages(b, task, steps)
            if b == 0:
                centre, unit = float(advantages.mean()), float(advantages.std()) or 1.0
            means = self.regression.values(b, task, mean)
            deviations, densities = noise_and_densities(steps.actions, means, std, self.choices)
            ratios = np.exp(np.minimum(densities - steps.densities, _HUGE))
            scaled = (np.minimum(ratios, clip) * (advantages - centre) / unit)[:, None]
            # Where all actions are clipped, none is better than another: pull the mean back.
            target = scaled * deviations - (means - np.clip(means, low, high))
            episodes = np.repeat(before + np.arange(len(steps.lengths)), steps.lengths)
            mine = episodes[:, None] % _PARTS == np.arange(_PARTS)
            parts.append((target[:, None] * mine[..., None]).reshape(len(target), -1))
            wider.append(scaled * ((deviations / std) ** 2 - 1.0))
            before += len(steps.lengths)
        growth = 0.5 * np.concatenate(wider).mean(axis=0)
        # Only the ratio of scores to their noise matters, so the noise of choices stays.
        return Targets(parts, growth if self.choices is None else np.zeros_like(growth), unit)

    def directions(self, targets: Sequence[Sequence[Floats]]) -> Floats:
        """Return the parts of all tasks' directions, shape (m, N, K, p), from all their targets.

        A direction is the sum of its parts. The tasks are regressed together, as far as separate
        regressions agree.
        """
        regression, given = self.regression, self.settings.task_correlation
        shape = (len(self.regression.knots), len(targets), _PARTS, self.outputs)
        how = targets, self.settings.ridge
        if not regression.couples:
            return regression.solve_all(*how, 0.0).reshape(shape)
        self.correlation = given or 0.0
        if given is None:
            parts = regression.solve_all(*how, 0.0).reshape(shape) / self.noise.std
            products = regression.inner_products(parts.reshape(shape[0], -1))
            products = np.einsum("ikpjlp->ikjl", products.reshape(shape[1:] * 2))
            self.task_agreement = _MEMORY * self.task_agreement + task_agreement(products)
            self.correlation = correlation_of(*self.task_agreement)
        return regression.solve_all(*how, self.correlation).reshape(shape)

    def stop_decision(
        self, iterate: core.Iterate, improvement: core.Improvement
    ) -> core.StopDecision:
        """Report the divergence of the whole iteration, projection and pruning included."""
        means, old = self._before
        divergences = []
        for i, steps in enumerate(self.batches[0]):
            moved = _function(iterate.policies, i, steps.states) - means[i]
            divergences.append(mean_divergence(moved, old, self.noise.std))
        return core.StopDecision(numbers={"kl": np.array(divergences)})

    def use_data_of(self, other: core.Method) -> None:
        """Start from the mean of another method's critics, whose tasks are related."""
        if isinstance(other, TrustRegionMethod):
            self.critic.start_from(other.critic)

    def transfer_settings(self) -> dict[str, Any]:
        """Return the noise of the policies."""
        return {"action_std": tuple(self.noise.std.tolist())}

    def state(self) -> core.State:
        """Return the recent batches, the critic, the regression and the noise."""
        critic, numbers = self.critic.state()
        arrays = {
            "variance": self.noise.variance.copy(),
            "reliability": np.array(self.reliability),
            "task_agreement": self.task_agreement.copy(),
        }
        if len(self.limits):
            arrays |= self.limits.state()
        arrays |= core.prefixed("batches", pack(self.batches)) | core.prefixed("critic", critic)
        plain = {"critic": numbers, "longest": self.longest}
        plain |= {"varied": self._varied, "reward": self._reward}
        return arrays | core.prefixed("step", self.regression.state()), plain

    def restore(self, arrays: core.Arrays, numbers: Mapping[str, Any]) -> None:
        """Restore a state."""
        variance = arrays["variance"]
        if variance.shape != (self.outputs,) or not np.all(variance > 0.0):
            raise core.misfit("variance")
        # Files of version 0.3 have neither.
        known = arrays.get("reliability", np.array(Reliability()))
        agreement = arrays.get("task_agreement", np.zeros(2))
        for name, array in (("reliability", known), ("task_agreement", agreement)):
            if array.shape != (2,) or not np.all(np.isfinite(array)):
                raise core.misfit(name)
        N, q = len(self.executor.tasks), self.kernel.dimension
        batches = unpack(core.part_of(arrays, "batches"), N, q, self.outputs)
        states = [[steps.states for steps in batch] for batch in batches]
        self.critic.restore(core.part_of(arrays, "critic"), numbers["critic"], states)
        self.regression.restore(core.part_of(arrays, "step"), states)
        if len(self.limits):
            self.limits.restore(arrays)
        self.batches, self.noise = batches, Noise(variance.copy())
        self.reliability, self.task_agreement = Reliability(*known.tolist()), agreement.copy()
        longest, varied = numbers.get("longest", self.longest), numbers.get("varied", True)
        reward = numbers.get("reward")
        if type(longest) is not int or longest < 1:
            raise core.misfit("longest")
        if type(varied) is not bool or not isinstance(reward, float | None):
            raise core.misfit("reward")
        self.longest, self._varied, self._reward = longest, varied, reward


def _products(values: Floats, std: Floats) -> Floats:
    """Return the mean products of functions (n, K, p), relative to the noise: shape (K, K)."""
    rows = (values / std).transpose(1, 0, 2).reshape(values.shape[1], -1)
    return np.asarray(rows @ rows.T) / len(values)


def step_lengths(
    squares: Floats, growth: Floats, std: Floats, least: Floats, divergence: float
) -> tuple[Floats, Floats]:
    """Return η of every task (N,) and the new σ' (p,) for a step of a given divergence δ.

    The divergence from N(h, σ²) to N(h + ηf, σ'²), averaged over states, is
    c + ½ η² Σ_j mean(f_j²)/σ'_j², with c = Σ_j ln(σ'_j/σ_j) + ½ (σ_j/σ'_j)² − ½; η follows from
    δ − c. ``squares``, shape (N, p), are mean(f_j²); ``growth``, shape (p,), is the direction of
    ln σ, which the tasks share; ``least`` is the lower bound of σ'.
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
    """Return each task's mean of every scalar outcome by name; NaN where it is unknown."""
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


# The critic -------------------------------------------------------------------------------


class Critic(ValueFunctions):
    """Value functions that are fitted to the λ-returns of steps.

    After step t the sum of l rewards and γˡ V of the state after them estimates the return of the
    step, with less bias and more noise the larger l is. The λ-return is their mean with weights
    (1 − λ) λ^(l−1) (Sutton 1988; Schulman et al. 2016), which a sweep from the end of the episode
    computes: G_t = r_t + γ ((1 − λ) V(s_{t+1}) + λ G_{t+1}).
    """

    def __init__(self, kernel: Kernel, tasks: int, settings: TrustRegion) -> None:
        super().__init__(kernel, tasks, settings, settings.task_correlation)
        self.settings: TrustRegion = settings

    def learn_from(self, batches: Sequence[Sequence[Steps]]) -> None:
        """Fit the functions to the batches that were pushed, newest first."""
        new = np.concatenate([steps.states for steps in batches[0]])

        def returns(block: int, task: int) -> Floats:
            return self._returns(task, batches[block][task], self.kept_values(block, task))

        self.learn(new, returns, _SWEEPS)

    def advantages(self, block: int, task: int, steps: Steps) -> Floats:
        """Return λ-return minus value for the steps of a kept batch, shape (n,)."""
        values = self.kept_values(block, task)
        return self._returns(task, steps, values) - values

    def explained(self, task: int, steps: Steps) -> float:
        """Return the explained variance of the λ-returns of steps not yet fitted, at most 1."""
        if not self.knows:
            return 0.0
        values = self.values(task, steps.states)
        returns = self._returns(task, steps, values)
        spread = float(np.var(returns))
        return 1.0 - float(np.var(returns - values)) / spread if spread > 0.0 else 0.0

    def _returns(self, task: int, steps: Steps, values: Floats) -> Floats:
        last = steps.bootstrap_mask * self.values(task, steps.last)
        how = self.settings.gamma, self.settings.trace
        return lambda_returns(steps.rewards, values, steps.lengths, last, *how)


@compiled
def fill_lambda_returns(
    rewards: Floats,
    values: Floats,
    lengths: Integers,
    last: Floats,
    discount: float,
    trace: float,
    out: Floats,
) -> None:
    """Fill ``out``, shape (n,), with the λ-returns of episodes laid end to end."""
    end = 0
    for e in range(len(lengths)):
        begin, end = end, end + lengths[e]
        value = last[e]
        after = last[e]
        for t in range(end - 1, begin - 1, -1):
            after = rewards[t] + discount * ((1.0 - trace) * value + trace * after)
            out[t] = after
            value = values[t]


_fill = FastEntry(fill_lambda_returns)


def lambda_returns(
    rewards: Floats, values: Floats, lengths: Integers, last: Floats, discount: float, trace: float
) -> Floats:
    """Return the λ-return of every step, shape (n,), of episodes laid end to end.

    ``values`` are the critic's at the states before the steps, and ``last``, shape (E,), those
    after the episodes: zero where they terminated.
    """
    out = np.empty(len(rewards))
    _fill(rewards, values, lengths, last, float(discount), float(trace), out)
    return out


# Steps of recent episodes ------------------------------------------------------------------


class Steps(NamedTuple):
    """All steps, n, of some episodes, E, of one task, one episode after the other."""

    states: Floats  #: where the actions were taken, shape (n, q)
    actions: Floats  #: shape (n, p), in the policies' units
    densities: Floats  #: their log-densities up to a common constant, or those of choices, (n,)
    rewards: Floats  #: shape (n,)
    last: Floats  #: the observation after each episode, shape (E, q)
    lengths: Integers  #: shape (E,)
    bootstrap_mask: Floats  #: 1 where an episode was truncated, 0 where it terminated, shape (E,)

    @classmethod
    def of(
        cls,
        episodes: Episodes,
        noise: Floats,
        std: Floats,
        mean: Callable[[Floats], Floats],
        choices: Choices | None = None,
    ) -> Steps:
        """Lay episodes end to end; their actions were ``mean(states)`` plus ``noise``."""
        E, horizon = episodes.rewards.shape
        there = np.arange(horizon) < episodes.lengths[:, None]
        states = episodes.observations[:, :-1][there]
        means = mean(states)
        actions = means + noise[there]
        densities = log_densities(noise[there], std)
        if choices is not None:
            densities = noise_and_densities(actions, means, std, choices)[1]
        return cls(
            states=states,
            actions=actions,
            densities=densities,
            rewards=episodes.rewards[there],
            last=episodes.observations[np.arange(E), episodes.lengths],
            lengths=episodes.lengths.copy(),
            bootstrap_mask=np.where(episodes.terminated, 0.0, 1.0),
        )


def noise_and_densities(
    actions: Floats, means: Floats, std: Floats, choices: Choices | None
) -> tuple[Floats, Floats]:
    """Return the noise of actions (n, p) and their log-densities (n,), up to a constant.

    If they are scores, these are the mean noise given what they choose, and the log-probability
    of that.
    """
    if choices is None:
        deviations = actions - means
        return deviations, log_densities(deviations, std)
    densities, deviations = choice_statistics(choices, choices.taken(actions), means, std)
    return deviations, densities


def log_densities(deviations: Floats, std: Floats) -> Floats:
    """Return Σ_j (−½ (n_j/σ_j)² − ln σ_j) for every row n of the deviations."""
    return np.asarray(-0.5 * np.sum((deviations / std) ** 2, axis=1) - np.sum(np.log(std)))


def pack(batches: Sequence[Sequence[Steps]]) -> dict[str, Floats]:
    """Return the steps of every batch and task as a few arrays."""
    flat = [steps for batch in batches for steps in batch]
    if not flat:
        return {}
    columns = zip(Steps._fields, zip(*flat, strict=True), strict=True)
    parts = {name: np.concatenate(arrays).astype(np.float64) for name, arrays in columns}
    counts = np.array([[len(steps.lengths) for steps in batch] for batch in batches])
    return {**parts, "episodes": counts.astype(np.float64)}


def unpack(arrays: core.Arrays, tasks: int, q: int, p: int) -> list[list[Steps]]:
    """Return what :func:`pack` packed, or raise FileFormatError if it does not fit together."""
    if "episodes" not in arrays:
        return []
    # Files of version 0.2 have another name for it.
    arrays = {"bootstrap_mask" if k == "goes_on" else k: v for k, v in arrays.items()}
    counts, lengths = arrays["episodes"], arrays["lengths"]
    whole = all(np.all((a >= 1) & (a % 1 == 0) & np.isfinite(a)) for a in (counts, lengths))
    fits = whole and counts.ndim == 2 and counts.shape[1] == tasks and len(counts) > 0
    if not fits or lengths.shape != (int(counts.sum()),):
        raise core.misfit("episodes")
    n, E = int(lengths.sum()), len(lengths)
    per_step = {"states": (n, q), "actions": (n, p), "densities": (n,), "rewards": (n,)}
    core.check_shapes(arrays, {**per_step, "last": (E, q), "bootstrap_mask": (E,)})
    arrays["lengths"] = lengths.astype(np.int64)
    episodes = np.cumsum(counts.astype(np.int64))
    rows = np.cumsum(arrays["lengths"])[episodes - 1]
    columns = [
        np.split(arrays[name].copy(), (rows if name in per_step else episodes)[:-1])
        for name in Steps._fields
    ]
    steps = [Steps(*parts) for parts in zip(*columns, strict=True)]
    return [steps[k : k + tasks] for k in range(0, len(steps), tasks)]
