"""Natural policy gradients in the RKHS, from whole episodes, with steps as long as they are sure.

One iteration is :meth:`TrustRegionMethod.improve`; the core then moves the policies, projects and
prunes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from crosslearning.learner import core
from crosslearning.learner.critic import Critic
from crosslearning.learner.limits import Limits
from crosslearning.learner.reliability import (
    Agreement,
    Reliability,
    correlation_of,
    task_agreement,
)
from crosslearning.learner.settings import TrustRegion
from crosslearning.learner.steps import Steps, noise_and_densities, pack, unpack
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.program import Expansion
from crosslearning.rkhs.regression import FamilyRegression
from crosslearning.rollouts import Episodes, Executor, Noise

#: The share of their usual length that the last episodes before a limit of steps have at least.
_SHORTEST_LAST = 0.25
#: Iterations without any difference of rewards that end learning: of one policy, and of random
#: ones, which are as far from zero as up to so many standard deviations of the noise.
_PATIENCE, _TRIES, _AMPLITUDE = 3, 100, 10.0
#: Parts of a task's episodes, whose directions are compared.
_PARTS = 8
#: Evidence makes iterations have at most so many times the first episodes.
_LARGEST_GROWTH = 4.0
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
    spread: float  #: the standard deviation of the newest advantages


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
        #: The largest spread of every task's advantages so far, and the last steps' shares of δ.
        self.spreads, self.step_shares = np.zeros(N), np.ones(N)
        assert settings.episode_steps is not None
        assert settings.updates is not None
        #: Updates with the same episodes, and how many of these are left; what was seen in them.
        self.updates, self.updates_left = settings.updates, 0
        self._seen: dict[str, Floats] = {}
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

        The last ones before a limit may be shorter, unless their returns are compared. None are
        needed while policies are updated with episodes of earlier iterations.
        """
        return 0 if self.updates_left else self._fewest_steps(iterate)

    def _fewest_steps(self, iterate: core.Iterate) -> int:
        needed = len(self.executor.tasks) * self.settings.fewest_episodes * self.longest
        whole = iterate.keeper is not None or not self.batches
        return needed if whole else math.ceil(_SHORTEST_LAST * needed)

    def improve(self, iterate: core.Iterate) -> core.Improvement:
        """Return a step along every task's natural gradient: one iteration of this method."""
        tasks, std = self.executor.tasks, self.noise.std
        steps = episodes = 0
        # 1. Run episodes of every task (Algorithm 2, line 3), or use the last ones again.
        if self.updates_left == 0:
            steps, episodes = self._act(iterate)
        # 2. Regress the natural gradients and scale them to the divergence (lines 4 and 5).
        exploring = self.explores and not self._varied
        knots, weights = self._random_step(iterate) if exploring else self._step(iterate)
        self.updates_left = 0 if exploring else self.updates_left - 1
        # 3. Fit the critic to all batches, unless it was. The core applies the step and projects
        # (line 6).
        if exploring or not self._corrects:
            self.critic.learn_from(self.batches)
        numbers = {
            "entropy": np.full(len(tasks), np.sum(np.log(std) + _ENTROPY)),
            "reliability": np.full(len(tasks), self.reliability.value),
        }
        if len(tasks) > 1:
            numbers["correlation"] = np.full(len(tasks), self.correlation)
            numbers["critic_correlation"] = np.full(len(tasks), self.critic.correlation)
        if self._corrects:
            numbers["step_share"] = self.step_shares
        seen = {name: array.copy() for name, array in self._seen.items()}
        returns = seen.pop("return")
        return core.Improvement(knots, weights, steps, episodes, returns, {**seen, **numbers})

    @property
    def _corrects(self) -> bool:
        """Whether the critic judges the policies as they are, rather than those that acted."""
        return self.updates > 1

    def _act(self, iterate: core.Iterate) -> tuple[int, int]:
        """Run episodes of every task; return the steps and the episodes."""
        settings, tasks, std = self.settings, self.executor.tasks, self.noise.std
        longest = self.longest
        if iterate.keeper is None:
            fitting = iterate.steps_left // (settings.fewest_episodes * len(tasks))
            longest = int(min(longest, fitting))
        count, least = self._episodes(longest)
        plan, episodes = self.executor.episodes_within(
            iterate.policies, iterate.generator, count, longest, std, iterate.steps_left, least
        )
        core.refuse_huge_rewards(self.executor, episodes)
        there = np.arange(episodes.rewards.shape[2]) < episodes.lengths[..., None]
        ends = bool(episodes.terminated.any())
        steps = int(episodes.lengths.sum())
        patience = _TRIES if self.explores else _PATIENCE
        if iterate.steps_left - steps < self._fewest_steps(iterate):
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
        for regression in (self.critic, self.regression):
            regression.push([steps.states for steps in newest])
        # A critic that is fitted to the newest steps explains away part of their advantages, so
        # it is fitted to them after the step, unless there is no other (reuse = 1, or the first
        # iteration).
        if len(self.batches) == 1 and not self.critic.knows and not self._corrects:
            self.critic.learn_from(self.batches)
        self.updates_left = self.updates
        self._seen = {
            "return": returns.mean(axis=1),
            "total_return": episodes.rewards.sum(axis=2).mean(axis=1),
            "length": episodes.lengths.mean(axis=1),
            "explained_variance": np.array(explained),
            **outcome_rates(episodes),
            **numbers,
        }
        return steps + tested, episodes.lengths.size

    def _limited(self, episodes: Episodes) -> tuple[Episodes, dict[str, Floats]]:
        """Return episodes with penalties near limits, and the numbers of the limits."""
        limits = self.limits
        if not len(limits):
            return episodes, {}
        limits.measure(episodes.observations.reshape(-1, episodes.observations.shape[3]))
        crossed = limits.saw(episodes)
        limits.update(crossed, float(episodes.rewards.std()) or 1.0)
        return limits.penalised(episodes), limits.numbers(crossed)

    def _episodes(self, longest: int) -> tuple[int, int]:
        """Return how many episodes of each task to run, and the fewest steps of all in all."""
        settings = self.settings
        if self.batches and self.explores and not self._varied:
            return 1, 0  # nothing is compared
        last = [steps.lengths for steps in self.batches[0]] if self.batches else []
        length = float(np.mean(np.concatenate(last))) if last else float(longest)
        assert settings.episodes is not None
        assert settings.reliable is not None
        assert settings.least_steps is not None
        wanted = float(settings.episodes)
        if last and settings.reliable > 0.0 and settings.batch_growth > 1.0:
            # As few as give reliable directions; the last ones may have been cut by a limit.
            before = max(map(len, last))
            growth = self.reliability.episodes_for(settings.reliable)
            most = settings.batch_growth
            wanted = before * min(max(growth, 1.0 / most), most)
            wanted = min(wanted, _LARGEST_GROWTH * settings.episodes)
        steps, least = wanted * length, 0
        if self.updates > 1:
            # So few that the length of the last ones says little: run them, and then more.
            least = len(self.executor.tasks) * settings.least_steps
        else:
            steps = max(steps, settings.least_steps)
        steps = min(steps, settings.most_steps)
        return max(settings.fewest_episodes, math.ceil(round(steps / length, 6))), least

    def _step(self, iterate: core.Iterate) -> tuple[Floats, Floats]:
        """Return the knots and weights of the step, and update the noise."""
        settings, N, std = self.settings, len(self.executor.tasks), self.noise.std
        regression = self.regression
        knots, means = self._with_new_knots(iterate)
        if self._corrects:
            self.critic.learn_from(self.batches, self._shares(means))
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
        shares = self._shares_of_step(targets) if self._corrects else np.ones(N)
        mean = float(np.mean(shares))
        lengths, new_std = step_lengths(np.array(squares), growth, std, least, mean * length)
        lengths *= np.sqrt(shares / max(mean, _TINY))
        if self._corrects:
            # What differs where all steps were paid alike is the critic's error.
            lengths[[steps.paid_alike for steps in self.batches[0]]] = 0.0
        self.step_shares = shares
        self.noise = Noise(new_std**2)
        return knots, parts.sum(axis=2) * lengths[:, None]

    def _shares_of_step(self, targets: Sequence[Targets]) -> Floats:
        """Return every task's share of δ, shape (N,), for one of several updates.

        Where policies are as good as they get, advantages differ by the critic's errors. These are
        small, and so is a step in proportion to them. What is noise in episodes stays the same in
        every update with them.
        """
        spreads = np.array([one.spread for one in targets])
        self.spreads = np.maximum(self.spreads, spreads)
        update = 1 + self.updates - self.updates_left
        return np.asarray((spreads / np.maximum(self.spreads, _TINY)) ** 2 / math.sqrt(update))

    def _with_new_knots(self, iterate: core.Iterate) -> tuple[Floats, Floats]:
        """Return the knots with the newest states that are novel, and the policies' weights."""
        settings, N, dictionary = self.settings, len(self.executor.tasks), iterate.dictionary
        regression = self.regression
        states = np.concatenate([steps.states for steps in self.batches[0]])
        new = states[dictionary.novel(states, settings.novelty, settings.new_knots)]
        knots = np.concatenate([dictionary.knots, new])
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
        parts, wider, centre, spread, before = [], [], 0.0, 0.0, 0
        for b, batch in enumerate(self.batches):
            steps = batch[task]
            advantages = self.critic.advantages(b, task, steps)
            if b == 0:
                centre, spread = float(advantages.mean()), float(advantages.std())
            means = self.regression.values(b, task, mean)
            deviations, densities = noise_and_densities(steps.actions, means, std, self.choices)
            ratios = np.exp(np.minimum(densities - steps.densities, _HUGE))
            scaled = (np.minimum(ratios, clip) * (advantages - centre) / (spread or 1.0))[:, None]
            # Where all actions are clipped, none is better than another: pull the mean back.
            target = scaled * deviations - (means - np.clip(means, low, high))
            episodes = np.repeat(before + np.arange(len(steps.lengths)), steps.lengths)
            mine = episodes[:, None] % _PARTS == np.arange(_PARTS)
            parts.append((target[:, None] * mine[..., None]).reshape(len(target), -1))
            wider.append(scaled * ((deviations / std) ** 2 - 1.0))
            before += len(steps.lengths)
        growth = 0.5 * np.concatenate(wider).mean(axis=0)
        # Only the ratio of scores to their noise matters, so the noise of choices stays.
        return Targets(parts, growth if self.choices is None else np.zeros_like(growth), spread)

    def _shares(self, means: Floats) -> list[list[Floats]]:
        """Return min(1, ρ) of every step of all batches and tasks, from the policies' weights.

        ρ is the likelihood of the action by now, relative to when it was taken.
        """
        shares: list[list[Floats]] = []
        for b, batch in enumerate(self.batches):
            shares.append([])
            for i, steps in enumerate(batch):
                values = self.regression.values(b, i, means[:, i])
                how = steps.actions, values, self.noise.std, self.choices
                densities = noise_and_densities(*how)[1]
                shares[b].append(np.exp(np.minimum(densities - steps.densities, 0.0)))
        return shares

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
            "spreads": self.spreads.copy(),
        }
        if len(self.limits):
            arrays |= self.limits.state()
        arrays |= core.prefixed("batches", pack(self.batches)) | core.prefixed("critic", critic)
        plain = {"critic": numbers, "longest": self.longest}
        if self.updates_left:
            arrays |= core.prefixed("seen", self._seen)
            plain["updates_left"] = self.updates_left
        plain |= {"varied": self._varied, "reward": self._reward}
        return arrays | core.prefixed("step", self.regression.state()), plain

    def restore(self, arrays: core.Arrays, numbers: Mapping[str, Any]) -> None:
        """Restore a state."""
        variance = arrays["variance"]
        if variance.shape != (self.outputs,) or not np.all(variance > 0.0):
            raise core.misfit("variance")
        # Files of version 0.3 have none of these.
        known = arrays.get("reliability", np.array(Reliability()))
        agreement = arrays.get("task_agreement", np.zeros(2))
        N, q = len(self.executor.tasks), self.kernel.dimension
        spreads = arrays.get("spreads", np.zeros(N))
        given = {"reliability": (known, 2), "task_agreement": (agreement, 2)}
        for name, (array, size) in {**given, "spreads": (spreads, N)}.items():
            if array.shape != (size,) or not np.all(np.isfinite(array)):
                raise core.misfit(name)
        batches = unpack(core.part_of(arrays, "batches"), N, q, self.outputs)
        states = [[steps.states for steps in batch] for batch in batches]
        self.critic.restore(core.part_of(arrays, "critic"), numbers["critic"], states)
        self.regression.restore(core.part_of(arrays, "step"), states)
        if len(self.limits):
            self.limits.restore(arrays)
        self.batches, self.noise = batches, Noise(variance.copy())
        self.reliability, self.task_agreement = Reliability(*known.tolist()), agreement.copy()
        self.spreads = spreads.copy()
        longest, varied = numbers.get("longest", self.longest), numbers.get("varied", True)
        reward = numbers.get("reward")
        if type(longest) is not int or longest < 1:
            raise core.misfit("longest")
        if type(varied) is not bool or not isinstance(reward, float | None):
            raise core.misfit("reward")
        self.longest, self._varied, self._reward = longest, varied, reward
        left, seen = numbers.get("updates_left", 0), core.part_of(arrays, "seen")
        whole = type(left) is int and 0 <= left < self.updates
        if not whole or any(array.shape != (N,) for array in seen.values()):
            raise core.misfit("updates_left")
        if left and ("return" not in seen or not batches):
            raise core.misfit("seen")
        self.updates_left, self._seen = left, seen


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
