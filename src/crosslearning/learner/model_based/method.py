"""Policies that are learned in cross-learned dynamics models of the tasks (model-based).

One iteration is :meth:`ModelBasedMethod.improve`. Iterations come in rounds: at the first of a
round the policies act in the real tasks for some steps and the models are fitted to all data; every
iteration then improves the policies in the models. Gradients in a model are pathwise: they are
propagated back along imagined rollouts, and regressed on the imagined states.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from crosslearning.errors import InputError
from crosslearning.learner import core
from crosslearning.learner.keeping import Candidate, seen_gain
from crosslearning.learner.limits import Limits, Penalties, with_range
from crosslearning.learner.model_based import dynamics as models
from crosslearning.learner.model_based.comparison import (
    expected_gain,
    imagined_returns,
    last_episode,
    least_gain,
    likely_gain,
    longest_episode,
)
from crosslearning.learner.model_based.controllers import Controllers
from crosslearning.learner.model_based.data import (
    EMPTY,
    Formulas,
    PseudoData,
    Transitions,
    end_absorbed,
)
from crosslearning.learner.model_based.disturbances import Disturbances
from crosslearning.learner.model_based.dynamics import Dynamics, Frame, choose, fit, world_of
from crosslearning.learner.model_based.exploration import explorers
from crosslearning.learner.model_based.imagination import (
    Controlled,
    Imagined,
    Values,
    World,
    backpropagate,
    imagine,
)
from crosslearning.learner.settings import ModelBased
from crosslearning.learner.values import ValueFunctions
from crosslearning.rkhs import Family, Kernel
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.evidence import Hyperparameters
from crosslearning.rkhs.program import Expansion
from crosslearning.rkhs.regression import FamilyRegression
from crosslearning.rollouts import Episodes, Executor
from crosslearning.tasks.loop_spec import KnownChange
from crosslearning.tasks.signals import angles_of, ends_of

#: Noise of policies that are still zero: actions fill most of [−1, 1].
_RESTLESS = 0.8
#: The share of the noise at every step that is left beside an exploring policy.
_WHITE = 0.5
#: Every so many imagined states is a candidate for a knot: neighbours in time are near copies.
_STRIDE = 13
#: Gradients are clipped to so many times their median length: of tasks that end, where long ones
#: lead away from an end, and with a penalty beyond the data.
_LONGEST_GRADIENT, _LONGEST_WITH_PENALTY = 10.0, 3.0
#: So many rounds in a row must change nothing before learning stops.
_PATIENCE = 2
#: Imagined episodes of each task for the chance that limits hold.
_EPISODES = 20
#: Shares of its policy and noise with which a task may be run to hold its limits.
_CAUTION = (1.0, 0.5, 0.25, 0.0)
#: Posterior samples, starts and the most steps of the episodes that decide which policy is kept.
_DRAWN, _COMPARED_STARTS, _LONGEST = 16, 8, 200
#: Distinguishes their random numbers from others that depend on seed and iteration.
_STREAM = 7
#: The same for the points at which controllers are asked.
_CONTROLLERS = 8
_TINY = 1e-12


class ModelBasedMethod(core.Method):
    """Rounds of acting, fitting models, and improving the policies in them."""

    settings: ModelBased

    def __init__(self, executor: Executor, settings: ModelBased, kernel: Kernel) -> None:
        super().__init__(executor, settings, kernel, "action_std")
        tasks = executor.tasks
        if tasks[0].choices is not None:
            raise InputError(
                f"the actions of task {tasks[0].name!r} are {tasks[0].choices}, and models learn "
                "what real actions do; take method='trust-region', or 'policy-gradient'"
            )
        self.bounds = executor.scale.bounds(tasks[0].action_space)
        self.is_angle = angles_of(tasks[0].observation_space)
        #: Changes of lags and the like, which need not be learned.
        self.known: list[KnownChange] = []
        if tasks[0].loop is not None:
            self.known = tasks[0].loop.known_changes(*executor.scale)
        #: Coordinates of what policies observe that no action of any task changes.
        self.exogenous = sorted(set.intersection(*(set(task.exogenous) for task in tasks)))
        #: Observed steps of every task, and of related ones, which have no policies here.
        self.data = [Transitions.none(tasks[0].observation_size, self.outputs) for _ in tasks]
        self.related: list[Transitions] = []
        #: Known rewards and terminations, and their values when the models were fitted.
        self.formulas = Formulas(tasks, executor.scale, self.bounds)
        self.pseudo = EMPTY
        self.controllers = Controllers(tasks, executor.scale)
        if self.controllers.used:
            self.known += self.controllers.known_changes(tasks[0].observation_size)
        self.limits = Limits(tasks)
        N = len(tasks)
        self.critic = ValueFunctions(kernel, N, settings)
        #: The returns of the batches that the critic holds, newest first.
        self.returns: list[list[Floats]] = []
        self.chosen: list[Hyperparameters] = []
        self.frame: Frame | None = None
        #: Posterior samples of the models, of every output.
        self.models: list[Family] = []
        #: Iterations of this round, and whether there are data not yet fitted.
        self.made, self.fresh = 0, False
        #: The actions at the visited states a round ago; rounds in a row that changed nothing.
        self.before: list[Floats] = []
        self.quiet = 0
        #: The real episodes of the last round, and the share of them that crossed a limit.
        self.seen = Seen(*np.full((4, N), np.nan))
        self.crossed = np.zeros((N, len(self.limits)))
        #: Rewards of every task in the first episodes here, in which the first policies acted; and
        #: after which iteration the policies acted last.
        self.first_rewards: list[Floats] = []
        self.acted = 0
        self._world: World | None = None
        #: The observations of all data; None if they are to be collected.
        self._range: Floats | None = None
        self._controlled: Controlled | None = None
        self._dynamics: Dynamics | None = None
        self._disturbances: Disturbances | None = None
        self._imagined: Imagined | None = None

    # Data ------------------------------------------------------------------------------

    def begin(self, parts: Sequence[Episodes]) -> None:
        """Add the episodes of a round to the data."""
        N, scale = len(self.data), self.executor.scale
        for part in parts:
            core.refuse_huge_rewards(self.executor, part)
            self.take_in([Transitions.of(part.of_task(i), scale, self.bounds) for i in range(N)])
        self.seen = Seen.of(parts, self.settings.gamma)
        self.crossed = np.mean([self.limits.saw(part) for part in parts], axis=0)
        if self.settings.compares and not self.first_rewards:
            self.first_rewards = [last_episode(steps).rewards for steps in self.data]

    def take_in(self, data: Sequence[Transitions]) -> None:
        """Add transitions of every task; the next iteration fits the models to them."""
        self.data = [Transitions.joined(both) for both in zip(self.data, data, strict=True)]
        self.fresh, self.made = True, 0

    def use_data_of(self, other: core.Method) -> None:
        """Fit models of another method's tasks beside those of the tasks here."""
        if isinstance(other, ModelBasedMethod):
            own = [*other.data, *other.related]
            self.related = other.machine_steps if self.controllers.used else own
            self.chosen = list(other.chosen)

    @property
    def round_finished(self) -> bool:
        """Whether a round is over."""
        return self.made % self.settings.updates_per_round == 0 and not self.fresh

    @property
    def dynamics(self) -> Dynamics:
        """The models as they were last fitted."""
        if self._dynamics is None:
            assert self.frame is not None
            self._dynamics = self._fit(self.frame, self.chosen, self.pseudo)
        return self._dynamics

    def _fit(
        self, frame: Frame, chosen: Sequence[Hyperparameters], pseudo: PseudoData = EMPTY
    ) -> Dynamics:
        settings, data = self.settings, self.machine_steps
        return fit(data, frame, chosen, settings.model_epsilon, settings.model_knots, pseudo)

    @property
    def machine_steps(self) -> list[Transitions]:
        """What the models are fitted to: the data with the machines' actions."""
        return end_absorbed(
            [*self.controllers.machine_steps(self.data), *self.related], self.settings.gamma
        )

    @property
    def visited(self) -> list[Transitions]:
        """The data with the policies' actions, and those of related tasks; none after an end."""
        return end_absorbed([*self.data, *self.related], self.settings.gamma)

    # Learning --------------------------------------------------------------------------

    def steps_needed(self, iterate: core.Iterate) -> int:
        """Return a step of every task if a round begins, else none."""
        begins = self.made % self.settings.updates_per_round == 0 and not self.fresh
        return len(self.data) if begins else 0

    def improve(self, iterate: core.Iterate) -> core.Improvement:
        """Return a step along every task's natural gradient: one iteration of this method."""
        steps = episodes = 0
        if self.made % self.settings.updates_per_round == 0:
            before = self.data, self.seen, self.first_rewards, self.made, self.fresh
            counts = self.limits.seen
            try:
                # 1. At the start of a round: act in the real tasks (Algorithm 2, line 3) ...
                if not self.fresh:
                    steps, episodes = self._act(iterate)
                # 2. ... and fit the models to all data.
                self._learn_models(iterate)
            except BaseException:
                self.data, self.seen, self.first_rewards, self.made, self.fresh = before
                self.limits.seen = counts
                raise
        # 3. Imagine rollouts from visited states, and propagate gradients back (line 4).
        self._imagined = imagined = self._imagine(iterate)
        # 4. Fit the critics to the imagined returns, and regress the steps (line 5). The core
        # applies them and projects the policies (line 6).
        knots, weights = self._step(iterate, imagined)
        self.made += 1
        N, dynamics = len(self.data), self.dynamics
        return core.Improvement(
            knots=knots,
            weights=weights,
            steps=steps,
            episodes=episodes,
            returns=self.seen.returns.copy(),
            numbers={
                "total_return": self.seen.total.copy(),
                "length": self.seen.length.copy(),
                "imagined_return": imagined.returns[:, 0].reshape(N, -1).mean(axis=1),
                "seen_reward": self.seen.reward.copy(),
                "imagined_reward": imagined.rewards.reshape(N, -1).mean(axis=1),
                "model_distance": dynamics.distances[:N],
                "model_multiplier": dynamics.multipliers[:N],
                **self.limits.numbers(self.crossed),
            },
        )

    def _act(self, iterate: core.Iterate) -> tuple[int, int]:
        """Run a round of every task; return the steps and the episodes."""
        settings, tasks = self.settings, self.executor.tasks
        policies, std = iterate.policies, self.noise.std
        seen = max(len(steps.rewards) for steps in self.data)
        horizon, left = max(task.horizon for task in tasks), iterate.steps_left / len(tasks)
        length = settings.next_round(seen, horizon, left)
        if len(iterate.dictionary) == 0:
            std = np.full(len(std), settings.noise_within(_RESTLESS))
        elif settings.explorers and self.models:
            assert self.frame is not None
            units = std, self.frame.of_coordinates(self.frame.unit, np.inf)
            policies = explorers(iterate, settings, self.data, self.world, units, length)
            std = _WHITE * std
        if len(self.limits) and self.models:
            policies, std = self._within_limits(policies, std, iterate.generator)
        parts = self.executor.collect_steps(policies, iterate.generator, length, std)
        self.begin(parts)
        self.acted = iterate.iteration
        lengths = np.concatenate([part.lengths for part in parts], axis=1)
        return int(lengths.sum()), lengths.size

    def _within_limits(
        self, policies: Expansion, std: Floats, generator: np.random.Generator
    ) -> tuple[Expansion, Floats]:
        """Return policies and noise of a round that the models expect to hold the limits.

        A task whose limits would be crossed too often gets a share of its policy and noise: it
        stays nearer to its controller.
        """
        N = len(self.data)
        shares, least = np.ones(N), np.full(N, np.inf)
        settled = np.zeros(N, dtype=np.bool_)
        for share in _CAUTION:
            trial = policies.rows.copy()
            trial[:N] *= share
            crossed = self._expected_crossings(
                policies._replace(rows=trial), generator, share * std
            ).max(axis=1)
            better = ~settled & (crossed < least)
            shares[better], least[better] = share, crossed[better]
            settled |= crossed <= self.limits.allowed
            if settled.all():
                break
        for i in np.flatnonzero(least > self.limits.allowed):
            warnings.warn(
                f"the models expect task {self.executor.tasks[i].name!r} to cross a limit in "
                f"{least[i]:.0%} of episodes, more than the {self.limits.allowed[i]:.0%} that are "
                f"allowed, even with {shares[i]:.0%} of its policy: its controller, its limits or "
                "its starts do not fit",
                stacklevel=2,
            )
        rows = policies.rows.copy()
        rows[:N] *= shares[:, None, None]
        return policies._replace(rows=rows), shares[:, None, None, None] * std

    def _new_frame(self, pseudo: PseudoData = EMPTY) -> Frame:
        low, high = ends_of(self.executor.tasks[0].observation_space)
        unread = self.controllers.memory(len(low))
        rest = pseudo, self.known, unread, self.exogenous
        frame = Frame.of(self.visited, low, high, self.is_angle, *rest)
        wide = self.limits.penalties.coordinate
        if self.settings.range_penalty:  # policies would lean on a wall where the data end
            wide = np.flatnonzero(frame.is_angle == 0)
        return frame.beyond(wide, low, high)

    def _learn_models(self, iterate: core.Iterate) -> None:
        """Fit the models, and draw posterior samples of them."""
        if not self.models and not self.formulas:
            every = Transitions.joined(self.data)
            self.watch_rewards(0, every.rewards, bool(every.terminated.any()))
        settings, data, frame = self.settings, self.machine_steps, self._new_frame()
        q, epsilon = len(frame.learned), settings.model_epsilon
        chosen = choose(data, frame, epsilon, self.chosen, outputs=range(q))
        pseudo, motion = EMPTY, None
        if self.formulas or frame.ends:
            motion = self._fit(frame, chosen)
        if self.formulas:
            assert motion is not None
            pseudo = self.formulas.pseudo_data(iterate.generator, motion, self.data)
            frame = self._new_frame(pseudo)
            motion = motion._replace(frame=frame)
        others = range(q, len(frame.unit))
        chosen += choose(data, frame, epsilon, self.chosen, pseudo, others, motion)
        dynamics = self._fit(frame, chosen, pseudo)
        normal = None
        if settings.samples:
            sizes = [len(fitted.family.knots) for fitted in dynamics.fits]
            shapes = [(settings.samples, len(data) + 1, m, 1) for m in sizes]
            normal = [iterate.generator.standard_normal(shape) for shape in shapes]
        self.limits.measure(np.concatenate([steps.after for steps in data]))
        self.models = dynamics.functions(len(self.data), normal)
        self.frame, self.chosen, self._dynamics = frame, chosen, dynamics
        self.pseudo = pseudo
        self._world = self._controlled = self._range = self._disturbances = None
        self.made, self.fresh = 0, False

    @property
    def controlled(self) -> Controlled:
        """The controllers that the policies correct, where the models know the machines."""
        if self._controlled is None:
            assert self.frame is not None
            generator = np.random.default_rng([self.settings.seed, _CONTROLLERS])
            states = np.concatenate([steps.states for steps in self.data])
            self._controlled = self.controllers.compiled(
                states, self.frame.limits, self.is_angle, generator
            )
        return self._controlled

    @property
    def world(self) -> World:
        """The sampled models, for compiled code."""
        if self._world is None:
            assert self.frame is not None
            self._world = world_of(
                self.models, self.frame, self.bounds, self.penalties, self.controlled
            )
        return self._world._replace(penalties=self.penalties)

    @property
    def disturbances(self) -> Disturbances | None:
        """What is replayed in imagined rollouts: around a controller the residuals of the data."""
        if self._disturbances is None and self.settings.controller_epsilon is not None:
            self._disturbances = self._residuals(self.world, self.visited)
        return self._disturbances

    def _residuals(self, world: World, steps: Sequence[Transitions]) -> Disturbances:
        return Disturbances(world, steps, len(self.data), self.kernel)

    @property
    def penalties(self) -> Penalties:
        """Those of limits and, with ``range_penalty``, of leaving the range of the data."""
        weight = self.settings.range_penalty or 0.0
        if not weight:
            return self.limits.penalties
        assert self.frame is not None
        if self._range is None:
            both = [np.concatenate([one.states, one.after]) for one in self.visited]
            self._range = np.concatenate(both)
        learned = self.frame.learned
        coordinates = learned[self.frame.is_angle[learned] == 0]
        weight *= float(self.frame.unit[len(learned)])
        return with_range(self.limits.penalties, len(self.data), coordinates, self._range, weight)

    def _imagine(self, iterate: core.Iterate) -> Imagined:
        """Imagine rollouts of every task, from states visited in any task."""
        settings, N = self.settings, len(self.data)
        generator, B = iterate.generator, settings.rollouts
        visited = np.concatenate([steps.states for steps in self.visited])
        starts = generator.integers(len(visited), size=N * B)
        assert settings.start_share is not None, "these settings were not resolved"
        if begin := round(settings.start_share * B):
            # A machine that fell lies still for most of the data: little is to be learned there.
            firsts = np.flatnonzero(np.concatenate([steps.first for steps in self.visited]))
            drawn = firsts[generator.integers(len(firsts), size=(N, begin))]
            starts.reshape(N, B)[:, :begin] = drawn
        policy = np.repeat(np.arange(N), B)
        # The posterior samples take turns.
        sample = np.tile(np.arange(B), N) % max(1, settings.samples)
        model = policy + N * sample
        shape = (N * B, settings.look_ahead, len(self.noise.variance))
        assert settings.imagined_std is not None, "these settings were not resolved"
        noise = settings.imagined_std * generator.standard_normal(shape)
        met, seen = None, self.disturbances
        if seen is not None:
            met = seen.along(sample, starts, settings.look_ahead)
        imagined = imagine(iterate.policies, self.world, visited[starts], policy, model, noise, met)
        critic = Values(self.critic.dictionary.expansion, self.critic.offsets)
        which, how = (policy, model), (settings.gamma, settings.trace)
        if len(self.limits):
            assert self.frame is not None
            shares = self._expected_crossings(iterate.policies, generator)
            self.limits.update(shares, float(self.frame.unit[len(self.frame.learned)]))
        backpropagate(imagined, iterate.policies, self.world, critic, *which, *how)
        return imagined

    def _expected_crossings(
        self, policies: Expansion, generator: np.random.Generator, std: Floats | float = 0.0
    ) -> Floats:
        """Return the share of imagined episodes that cross each limit, shape (N, L).

        Episodes begin near where real ones began, of any task; ``std`` is that of the noise, and
        the posterior samples take turns.
        """
        N, known = len(self.data), [*self.data, *self.related]
        firsts = np.concatenate([steps.states[steps.first == 1.0] for steps in known])
        starts = firsts[generator.integers(len(firsts), size=N * _EPISODES)]
        # A density of the starts: few were seen, and others will come.
        width = len(firsts) ** (-1.0 / (firsts.shape[1] + 4)) * firsts.std(axis=0)
        starts = starts + width * generator.standard_normal(starts.shape)
        assert self.frame is not None
        starts = np.clip(starts, *self.frame.limits[:, : starts.shape[1]])
        task = np.repeat(np.arange(N), _EPISODES)
        model = task + N * (np.tile(np.arange(_EPISODES), N) % max(1, self.settings.samples))
        horizon = min(max(one.horizon for one in self.executor.tasks), _LONGEST)
        noise = std * generator.standard_normal((len(task), horizon, len(self.noise.variance)))
        states = imagine(policies, self.world, starts, task, model, noise).states
        shares = np.zeros(self.limits.multipliers.shape)
        for i, paths in enumerate(states.reshape(N, _EPISODES, *states.shape[1:])):
            crossed = self.limits.crossed(i, paths)
            inside = ~crossed[:, 0]  # one that begins beyond a limit says nothing of it
            crossings = (crossed.any(axis=1) & inside).sum(axis=0)
            shares[i] = crossings / np.maximum(inside.sum(axis=0), 1)
        return shares

    def _step(self, iterate: core.Iterate, imagined: Imagined) -> tuple[Floats, Floats]:
        """Return the knots and weights of a step of the round's length at this iteration."""
        settings, N = self.settings, len(self.data)
        q, p = imagined.states.shape[2], imagined.actions.shape[2]
        states = imagined.states[:, :-1].reshape(N, -1, q)
        some = states.reshape(-1, q)[::_STRIDE]
        returns = list(imagined.returns.reshape(N, -1))
        self.returns = [returns, *self.returns][: settings.reuse]
        self.critic.push(list(states))
        self.critic.learn(some, lambda b, i: self.returns[b][i])
        dictionary = iterate.dictionary
        new = some[dictionary.novel(some, settings.novelty, settings.new_knots)]
        knots = np.concatenate([dictionary.knots, new])
        regression = FamilyRegression(self.kernel, N, 1)
        regression.use(knots)
        regression.push(list(states))
        gradients = imagined.gradients.reshape(N, -1, p)
        if self.world.ends or settings.range_penalty:
            # Near an end, or beyond the data, few gradients are far longer than all others.
            size = np.linalg.norm(gradients, axis=2, keepdims=True)
            longest = _LONGEST_WITH_PENALTY if settings.range_penalty else _LONGEST_GRADIENT
            most = longest * np.median(size, axis=1, keepdims=True)
            gradients = gradients * np.minimum(1.0, most / np.maximum(size, _TINY))
        weights = np.zeros((len(knots), N, p))
        length = settings.step_kl * (1.0 - self.made / settings.updates_per_round) ** 2
        for i in range(N):
            unit = float(gradients[i].std()) or 1.0
            direction = regression.solve(i, [gradients[i] / unit], settings.ridge)
            squares = np.mean(regression.values(0, i, direction) ** 2, axis=0)
            divergence = 0.5 * float(np.sum(squares / self.noise.variance))
            if divergence > 0.0:
                weights[:, i] = direction * math.sqrt(length / divergence)
        return knots, weights

    # Keeping ---------------------------------------------------------------------------

    def gains(self, iterate: core.Iterate, first: Family, kept: Candidate) -> Floats | None:
        """Return lower bounds of the gains in return that the newest models expect, or the gains.

        Whole episodes are imagined without noise, in models and from starts that are the same for
        all policies. The models are new samples of the posterior: the policies were fitted to
        those that they were learned in. A kept policy that acted in this round cannot gain more
        than what was seen, in a bound. The random numbers depend on the seed and the iteration
        alone, so that comparing does not change what is learned.
        """
        if not self.models or self.fresh:
            return None
        N, dynamics, known = len(self.data), self.dynamics, [*self.data, *self.related]
        firsts = self._firsts()
        starts = np.concatenate([steps.states for steps in known])[firsts]
        generator = np.random.default_rng([self.settings.seed, iterate.iteration, _STREAM])
        total = N + len(self.related)
        shapes = [(_DRAWN, total + 1, len(fit.family.knots), 1) for fit in dynamics.fits]
        drawn = dynamics.functions(N, [generator.standard_normal(shape) for shape in shapes])
        world = world_of(drawn, dynamics.frame, self.bounds, controlled=self.controlled)
        lengths = [min(_LONGEST, max(longest_episode(steps) for steps in self.data))]
        whole = min(_LONGEST, max(task.horizon for task in self.executor.tasks))
        if self.settings.keep == "expected":  # what short episodes rank first may fail later
            before, after = (
                imagined_returns(family, world, starts, [whole], self.limits)
                for family in (kept.family, iterate.family)
            )
            expected = [expected_gain(before[i], after[i]) for i in range(N)]
            return np.array([np.zeros(N), expected])
        if self.controllers.used:  # models of the machines themselves hold for whole episodes
            lengths.append(whole)
        met = None
        if self.settings.controller_epsilon is not None:
            met = self._residuals(world, known), firsts
        before, *returns = (
            imagined_returns(family, world, starts, lengths, self.limits, met)
            for family in (first, kept.family, iterate.family)
        )
        # With what disturbed them the machine's own episodes say more than those of other machines.
        own = [min(int(steps.first.sum()), firsts.shape[1]) for steps in self.data]
        gains = np.array(
            [[least_gain(before[i], after[i], own[i]) for i in range(N)] for after in returns]
        )
        # A bound that was found stays one, unless newer models expect less.
        expected = [likely_gain(before[i], returns[0][i]) for i in range(N)]
        gains[0] = np.maximum(gains[0], np.minimum(kept.gains, expected))
        for i, steps in enumerate(self.data):
            if self.first_rewards and 0 < kept.iterations[i] == self.acted:
                seen = seen_gain(self.first_rewards[i], last_episode(steps).rewards)
                gains[0, i] = min(gains[0, i], seen * lengths[-1])
        return gains

    def _firsts(self) -> Integers:
        """Return steps that began episodes: every task's newest, then others', (N, n).

        They are numbered in the data of all tasks and of related ones, end to end.
        """
        known = [*self.data, *self.related]
        edges = np.cumsum([0, *(len(steps.first) for steps in known)])
        firsts = [
            edge + np.flatnonzero(steps.first)[::-1]
            for edge, steps in zip(edges, known, strict=False)
        ]
        every = [
            np.concatenate([own, *(other for other in firsts if other is not own)])
            for own in firsts[: len(self.data)]
        ]
        return np.array([starts[:_COMPARED_STARTS] for starts in every])

    def stop_decision(
        self, iterate: core.Iterate, improvement: core.Improvement
    ) -> core.StopDecision:
        """Stop when the data of several rounds have not changed the policies."""
        if self.made % self.settings.updates_per_round or not self.settings.settled:
            return core.StopDecision()
        change = self._changes(iterate)
        self.quiet = self.quiet + 1 if change <= self.settings.settled else 0
        return core.StopDecision(stop=self.quiet >= _PATIENCE)

    def _changes(self, iterate: core.Iterate) -> float:
        """Return the root mean square change of actions since the last round's end."""
        now = [
            np.clip(
                iterate.policies.each(steps.states, np.full(len(steps.rewards), i)), *self.bounds
            )
            for i, steps in enumerate(self.data)
        ]
        before, self.before = self.before, now
        if not before:
            return math.inf
        moved = [new[: len(old)] - old for new, old in zip(now, before, strict=True)]
        return float(np.sqrt(np.mean(np.concatenate(moved) ** 2)))

    def why(self, report: core.IterationReport) -> str:
        """Return the sentence that explains the stop."""
        return (
            f"{_PATIENCE} rounds in a row changed the policies' actions by no more than "
            f"{self.settings.settled:g}: more data change nothing."
        )

    def transfer_settings(self) -> dict[str, Any]:
        """Return rounds of one length: a new task starts with good policies and little data.

        So little that they may get worse: the start is kept unless the models know better.
        """
        return {"longest_round": self.settings.round_steps, "keep": "best"}

    # Files -----------------------------------------------------------------------------

    def state(self) -> core.State:
        """Return the data, the models, the critic and how far the round is."""
        critic, numbers = self.critic.state()
        known = [*self.data, *self.related, *self.pseudo.points]
        arrays = core.prefixed("data", Transitions.pack(known)) | core.prefixed("critic", critic)
        arrays |= models.pack_choices(self.chosen)
        for b, block in enumerate(self.returns):
            states = [self.critic.regression.states(b, i) for i in range(len(self.data))]
            batch = {"states": np.array(states), "returns": np.array(block)}
            arrays |= core.prefixed(f"values.{b}", batch)
        for o, family in enumerate(self.models):
            function = {"knots": family.knots.copy(), "weights": family.weights.copy()}
            arrays |= core.prefixed(f"models.{o}", function)
        if np.all(np.isfinite(self.seen)):
            arrays["seen"] = np.array(self.seen)
        arrays |= {f"before.{i}": actions.copy() for i, actions in enumerate(self.before)}
        plain = {"critic": numbers, "related": len(self.related), "made": self.made}
        plain |= {"fresh": self.fresh, "quiet": self.quiet}
        if len(self.limits):
            arrays |= {**self.limits.state(), "crossed": self.crossed.copy()}
        if self.settings.compares:
            arrays |= {f"first_rewards.{i}": r.copy() for i, r in enumerate(self.first_rewards)}
            plain |= {"acted": self.acted}
        if self.pseudo.points:
            plain |= {"supposed": [self.pseudo.reward, self.pseudo.end]}
        return arrays, plain

    def restore(self, arrays: core.Arrays, numbers: Mapping[str, Any]) -> None:
        """Restore a state."""
        N, q, p = len(self.data), self.executor.tasks[0].observation_size, self.outputs
        formulas = numbers.get("supposed")
        known = N + int(numbers["related"])
        data = Transitions.unpack(
            core.part_of(arrays, "data"), known + (N if formulas else 0), q, p
        )
        pseudo = EMPTY
        if formulas:
            pseudo = PseudoData(data[known:], bool(formulas[0]), bool(formulas[1]))
        chosen = models.unpack_choices(arrays, q + p)
        states, returns = _unpack_values(core.part_of(arrays, "values"), N, q)
        functions = N * max(1, self.settings.samples)
        families = models.unpack_models(
            core.part_of(arrays, "models"), chosen, self.is_angle, functions
        )
        seen = arrays.get("seen", np.zeros((4, N)))
        before = core.part_of(arrays, "before")
        first = core.part_of(arrays, "first_rewards")
        damaged = [a.ndim != 1 or not a.size or not np.all(np.isfinite(a)) for a in first.values()]
        if len(first) not in (0, N) or any(damaged):
            raise core.misfit("first_rewards")
        core.check_shapes({"seen": seen}, {"seen": (4, N)})
        if any(a.size == 0 or not np.all(np.isfinite(a)) for a in before.values()):
            raise core.misfit("before")
        self.critic.restore(core.part_of(arrays, "critic"), numbers["critic"], states)
        self.returns, self.models, self.chosen = returns, families, chosen
        self.data, self.related, self.pseudo = data[:N], data[N:known], pseudo
        self.frame = self._new_frame(pseudo) if families else None
        # Earlier versions had no classifier of ends: fit the models anew.
        outdated = self.frame is not None and len(families) != len(self.frame.unit)
        if outdated:
            self.frame, self.models, self.chosen = None, [], []
        self.before = [before[str(i)].copy() for i in range(len(before))]
        self.seen = Seen(*(seen.copy() if "seen" in arrays else np.full((4, N), np.nan)))
        self.made, self.fresh = int(numbers["made"]), bool(numbers["fresh"])
        if outdated:
            self.made, self.fresh = 0, True
        if len(self.limits):
            self.limits.restore(arrays)
            self.crossed = arrays["crossed"].copy()
            if families:
                self.limits.measure(np.concatenate([one.after for one in data[:known]]))
        self.quiet, self.acted = int(numbers["quiet"]), int(numbers.get("acted", 0))
        self.first_rewards = [first[str(i)].copy() for i in range(len(first))]
        self._world = self._dynamics = self._controlled = self._range = None
        self._disturbances = None


class Seen(NamedTuple):
    """Means over the real episodes of a round, of every task, shape (N,)."""

    reward: Floats  #: of a step
    returns: Floats  #: discounted
    total: Floats  #: not discounted
    length: Floats

    @classmethod
    def of(cls, parts: Sequence[Episodes], gamma: float) -> Seen:
        """Return the means over all parts, whose episodes may have other horizons."""
        returns = [part.rewards @ gamma ** np.arange(part.rewards.shape[2]) for part in parts]
        every = returns, [part.rewards.sum(axis=2) for part in parts], [p.lengths for p in parts]
        discounted, total, length = (np.concatenate(one, axis=1) for one in every)
        means = (one.mean(axis=1) for one in (discounted, total, length))
        return cls(total.sum(axis=1) / length.sum(axis=1), *means)


def _unpack_values(
    arrays: core.Arrays, tasks: int, q: int
) -> tuple[list[list[Floats]], list[list[Floats]]]:
    """Return states and returns of every batch and task, from arrays ``0.states`` and so on."""
    states: list[list[Floats]] = []
    returns: list[list[Floats]] = []
    for b in range(len(arrays) // 2):
        seen, worth = arrays[f"{b}.states"], arrays[f"{b}.returns"]
        n = worth.size // tasks
        if not n:
            raise core.misfit("values")
        core.check_shapes(arrays, {f"{b}.states": (tasks, n, q), f"{b}.returns": (tasks, n)})
        states.append(list(seen.copy()))
        returns.append(list(worth.copy()))
    return states, returns
