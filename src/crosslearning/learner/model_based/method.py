"""Policies that are learned in cross-learned models of the tasks.

A round: act in the real tasks for some steps, fit the models anew, then improve the policies in
the models, once an iteration. Gradients in a model are pathwise: they come back along imagined
rollouts, and regressed on the imagined states they are natural ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError
from crosslearning.learner.iterate import Iterate
from crosslearning.learner.method import Improvement, each_action, part_of, too_large
from crosslearning.learner.model_based.dynamics import Dynamics, Frame, choose, fit, world_of
from crosslearning.learner.model_based.exploration import explorers
from crosslearning.learner.model_based.files import (
    pack_choices,
    pack_data,
    unpack_choices,
    unpack_data,
    unpack_models,
    unpack_values,
)
from crosslearning.learner.model_based.formulas import Formulas
from crosslearning.learner.model_based.imagination import (
    Imagined,
    Values,
    World,
    backpropagate,
    imagine,
)
from crosslearning.learner.model_based.pseudo_data import EMPTY, PseudoData
from crosslearning.learner.model_based.settings import ModelBased
from crosslearning.learner.model_based.transitions import Transitions
from crosslearning.learner.report import IterationReport, StopDecision
from crosslearning.learner.sampling import Sampling
from crosslearning.learner.scaling import angles_of
from crosslearning.learner.values import ValueFunctions
from crosslearning.rkhs import Family, Kernel
from crosslearning.rkhs.evidence import Hyperparameters
from crosslearning.rkhs.regression import FamilyRegression
from crosslearning.rollouts import Episodes, Executor, Noise, plan_episodes

Floats = NDArray[np.float64]

#: Noise where nothing is known yet: actions fill most of [−1, 1].
_RESTLESS = 0.8
#: What is left of the noise at every step where a policy explores as a whole.
_WHITE = 0.5
#: Every so many imagined states is looked at for new knots: neighbours in time are near copies.
_STRIDE = 13
#: So many rounds in a row must change nothing before learning stops.
_PATIENCE = 2
#: Squares of sums of such rewards are still finite.
_LARGEST_REWARD = 1e100


class ModelBasedMethod:
    """Rounds of acting, fitting models, and improving the policies in them."""

    functions = 0

    def __init__(self, executor: Executor, settings: ModelBased, kernel: Kernel) -> None:
        self.executor, self.settings, self.kernel = executor, settings, kernel
        tasks = executor.tasks
        N, q, p = len(tasks), tasks[0].observation_size, tasks[0].action_size
        self.noise = Noise(each_action("action_std", settings.action_std, p) ** 2)
        self.bounds = executor.scale.bounds(tasks[0].action_space)
        self.is_angle = angles_of(tasks[0].observation_space)
        #: What was seen of every task; then of related ones, that have no policies here.
        self.data = [Transitions.none(q, p) for _ in tasks]
        self.related: list[Transitions] = []
        #: What is known of rewards and ends, and where it was asked when the models were fitted.
        self.formulas = Formulas(tasks, executor.scale, self.bounds)
        self.supposed = EMPTY
        self.critic = self._new_critic()
        #: The returns of the batches that the critic has taken in, newest first.
        self.returns: list[list[Floats]] = []
        self.chosen: list[Hyperparameters] = []
        self.frame: Frame | None = None
        #: Samples of the models, of every output.
        self.models: list[Family] = []
        #: Iterations of the round that were made, and whether there are data not yet fitted.
        self.made, self.fresh = 0, False
        #: The policies' actions at the visited states, a round ago; rounds that changed nothing.
        self.before: list[Floats] = []
        self.quiet = 0
        #: Mean rewards of a step of the last round.
        self.seen_rewards = np.full(N, np.nan)
        self._world: World | None = None
        self._dynamics: Dynamics | None = None
        self._imagined: Imagined | None = None

    def _new_critic(self) -> ValueFunctions:
        settings, N = self.settings, len(self.executor.tasks)
        return ValueFunctions(
            self.kernel, N, settings.reuse, settings.critic_knots, settings.critic_ridge
        )

    # Data ------------------------------------------------------------------------------

    def begin(self, episodes: Episodes) -> None:
        """Take in what was looked at before learning began."""
        self.take_in(self._transitions(episodes))
        self.seen_rewards = episodes.rewards.sum(axis=(1, 2)) / episodes.lengths.sum(axis=1)

    def take_in(self, data: Sequence[Transitions]) -> None:
        """Take in transitions of every task; the next iteration fits the models to them."""
        self.data = [Transitions.joined(both) for both in zip(self.data, data, strict=True)]
        self.fresh, self.made = True, 0

    def use_data_of(self, other: Any) -> None:
        """Know what another method of this kind knows of its tasks, which are related.

        Their models are fitted beside those of the tasks here, and rollouts are imagined from the
        states that were visited there, too.
        """
        if isinstance(other, ModelBasedMethod):
            self.related = [*other.data, *other.related]
            self.chosen = list(other.chosen)

    def _transitions(self, episodes: Episodes) -> list[Transitions]:
        for i, task in enumerate(self.executor.tasks):
            if np.max(np.abs(episodes.rewards[i])) > _LARGEST_REWARD:
                raise too_large(task.name)
        N, scale = len(self.data), self.executor.scale
        return [Transitions.of(episodes.of_task(i), scale, self.bounds) for i in range(N)]

    @property
    def round_finished(self) -> bool:
        """Whether a round is over: what was seen has been learned from."""
        return self.made % self.settings.updates_per_round == 0 and not self.fresh

    @property
    def dynamics(self) -> Dynamics:
        """The models as they were last fitted."""
        if self._dynamics is None:
            assert self.frame is not None
            self._dynamics = self._fit(self.frame, self.chosen, self.supposed)
        return self._dynamics

    def _fit(
        self, frame: Frame, chosen: Sequence[Hyperparameters], supposed: PseudoData = EMPTY
    ) -> Dynamics:
        settings, data = self.settings, [*self.data, *self.related]
        return fit(data, frame, chosen, settings.model_epsilon, settings.model_knots, supposed)

    # Learning --------------------------------------------------------------------------

    def improve(self, iterate: Iterate) -> Improvement:
        """Return a step along every task's natural gradient in its model."""
        steps = episodes = 0
        if self.made % self.settings.updates_per_round == 0:
            before = self.data, self.seen_rewards, self.made, self.fresh
            try:
                if not self.fresh:
                    steps, episodes = self._act(iterate)
                self._learn_models(iterate)
            except BaseException:
                self.data, self.seen_rewards, self.made, self.fresh = before
                raise
        knots, weights = self._step(iterate)
        self.made += 1
        N = len(self.data)
        assert self._imagined is not None
        found, dynamics = self._imagined, self.dynamics
        return Improvement(
            knots=knots,
            weights=weights,
            steps=steps,
            episodes=episodes,
            returns=found.returns[:, 0].reshape(N, -1).mean(axis=1),
            numbers={
                "imagined_reward": found.rewards.reshape(N, -1).mean(axis=1),
                "seen_reward": self.seen_rewards.copy(),
                "model_distance": dynamics.distances[:N],
                "model_multiplier": dynamics.multipliers[:N],
            },
        )

    def _act(self, iterate: Iterate) -> tuple[int, int]:
        """Take steps in the real tasks; return how many, and in how many episodes."""
        settings, tasks = self.settings, self.executor.tasks
        policies, std = iterate.policies, self.noise.std
        seen = max(len(own.rewards) for own in self.data)
        length = settings.next_round(seen, max(task.horizon for task in tasks))
        if len(iterate.dictionary) == 0:
            std = np.full(len(std), _RESTLESS)
        elif settings.explorers and self.models:
            assert self.frame is not None
            units = std, self.frame.unit[: tasks[0].observation_size]
            policies = explorers(iterate, settings, self.data, self.world, units, length)
            std = _WHITE * std
        plan = plan_episodes(iterate.generator, tasks, 1, length, std)
        episodes = self.executor.episodes(policies, plan)
        self.begin(episodes)
        return int(episodes.lengths.sum()), episodes.lengths.size

    def _new_frame(self, supposed: PseudoData = EMPTY) -> Frame:
        space = self.executor.tasks[0].observation_space
        low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
        return Frame.of([*self.data, *self.related], low, high, self.is_angle, supposed)

    def _learn_models(self, iterate: Iterate) -> None:
        """Fit the models, and draw some from what is possible after the data."""
        settings, data, frame = self.settings, [*self.data, *self.related], self._new_frame()
        q, epsilon = len(frame.is_angle), settings.model_epsilon
        chosen = choose(data, frame, epsilon, self.chosen, outputs=range(q))
        supposed = EMPTY
        if self.formulas:
            motion = self._fit(frame, chosen)
            supposed = self.formulas.pseudo_data(iterate.generator, motion, self.data)
            frame = self._new_frame(supposed)
        paid = range(q, len(frame.unit))
        chosen += choose(data, frame, epsilon, self.chosen, supposed, outputs=paid)
        dynamics = self._fit(frame, chosen, supposed)
        normal = None
        if settings.samples:
            sizes = [len(own.family.knots) for own in dynamics.fits]
            shapes = [(settings.samples, len(data) + 1, m, 1) for m in sizes]
            normal = [iterate.generator.standard_normal(shape) for shape in shapes]
        self.models = dynamics.functions(len(self.data), normal)
        self.frame, self.chosen, self._dynamics = frame, chosen, dynamics
        self.supposed = supposed
        self._world = None
        self.made, self.fresh = 0, False

    @property
    def world(self) -> World:
        """The sampled models, in the form that compiled code takes."""
        if self._world is None:
            assert self.frame is not None
            self._world = world_of(self.models, self.frame, self.bounds)
        return self._world

    def _imagine(self, iterate: Iterate) -> Imagined:
        """Imagine rollouts from states visited in any task: any of them may come to any."""
        settings, N = self.settings, len(self.data)
        generator, B = iterate.generator, settings.rollouts
        visited = np.concatenate([own.states for own in [*self.data, *self.related]])
        starts = visited[generator.integers(len(visited), size=N * B)]
        policy = np.repeat(np.arange(N), B)
        # Each sample of the models in turn.
        model = policy + N * (np.tile(np.arange(B), N) % max(1, settings.samples))
        shape = (N * B, settings.look_ahead, len(self.noise.variance))
        noise = settings.imagined_std * generator.standard_normal(shape)
        found = imagine(iterate.policies, self.world, starts, policy, model, noise)
        values = Values(self.critic.dictionary.expansion, self.critic.offsets)
        discount, trace = settings.gamma, settings.trace
        backpropagate(found, iterate.policies, self.world, values, policy, model, discount, trace)
        return found

    def _step(self, iterate: Iterate) -> tuple[Floats, Floats]:
        """Return where the policies should go: a step of the round's length at this point."""
        settings, N = self.settings, len(self.data)
        self._imagined = found = self._imagine(iterate)
        q, p = found.states.shape[2], found.actions.shape[2]
        states = found.states[:, :-1].reshape(N, -1, q)
        some = states.reshape(-1, q)[::_STRIDE]
        self._learn_values(states, found.returns.reshape(N, -1), some)
        dictionary = iterate.dictionary
        new = some[dictionary.novel(some, settings.novelty, settings.new_knots)]
        knots = np.concatenate([dictionary.knots, new])
        regression = FamilyRegression(self.kernel, N, 1)
        regression.use(knots)
        regression.push(list(states))
        wishes = found.gradients.reshape(N, -1, p)
        weights = np.zeros((len(knots), N, p))
        length = settings.step_kl * (1.0 - self.made / settings.updates_per_round) ** 2
        for i in range(N):
            unit = float(wishes[i].std()) or 1.0
            direction = regression.solve(i, [wishes[i] / unit], settings.ridge)
            squares = np.mean(regression.values(0, i, direction) ** 2, axis=0)
            divergence = 0.5 * float(np.sum(squares / self.noise.variance))
            if divergence > 0.0:
                weights[:, i] = direction * math.sqrt(length / divergence)
        return knots, weights

    def _learn_values(self, states: Floats, returns: Floats, some: Floats) -> None:
        """Learn the critics from imagined states (N, n, q) and their λ-returns (N, n)."""
        self.returns = [list(returns), *self.returns][: self.settings.reuse]
        self.critic.push(list(states))
        self.critic.learn(some, lambda b, i: self.returns[b][i])

    def stop_decision(self, iterate: Iterate, improvement: Improvement) -> StopDecision:
        """Say, at the end of a round, whether what it saw has changed anything."""
        if self.made % self.settings.updates_per_round or not self.settings.settled:
            return StopDecision()
        change = self._changes(iterate)
        self.quiet = self.quiet + 1 if change <= self.settings.settled else 0
        return StopDecision(stop=self.quiet >= _PATIENCE)

    def _changes(self, iterate: Iterate) -> float:
        """Return by how much actions at the states of the last round's end have changed since."""
        now = [
            np.clip(iterate.policies.each(own.states, np.full(len(own.rewards), i)), *self.bounds)
            for i, own in enumerate(self.data)
        ]
        before, self.before = self.before, now
        if not before:
            return math.inf
        moved = [new[: len(old)] - old for new, old in zip(now, before, strict=True)]
        return float(np.sqrt(np.mean(np.concatenate(moved) ** 2)))

    def why(self, report: IterationReport) -> str:
        """Return the sentence that says why the method stopped."""
        return (
            f"{_PATIENCE} rounds in a row changed the policies' actions by no more than "
            f"{self.settings.settled:g}: more data change nothing."
        )

    def transfer_settings(self) -> dict[str, Any]:
        """Return settings for a learner that goes on from these policies.

        Its rounds are alike: what a family has seen lets it begin with whole policies, and of a
        new machine no more steps are taken than were asked for.
        """
        return {"longest_round": self.settings.round_steps}

    @property
    def sampling(self) -> Sampling:
        """How gradients are sampled outside of iterations: as the paper's method does."""
        return Sampling.as_in_the_paper(self.executor, self.kernel, self.noise, self.settings.gamma)

    # Checkpoints -----------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return the data, the models, the critic and how far the round is."""
        critic, numbers = self.critic.state()
        known = [*self.data, *self.related, *self.supposed.points]
        arrays = {f"data.{n}": a for n, a in pack_data(known).items()}
        arrays |= {f"critic.{name}": array for name, array in critic.items()}
        arrays |= pack_choices(self.chosen)
        for b, block in enumerate(self.returns):
            states = [self.critic.regression.states(b, i) for i in range(len(self.data))]
            arrays |= {
                f"values.{b}.states": np.array(states),
                f"values.{b}.returns": np.array(block),
            }
        for o, family in enumerate(self.models):
            arrays |= {f"models.{o}.knots": family.knots.copy()}
            arrays |= {f"models.{o}.weights": family.weights.copy()}
        if np.all(np.isfinite(self.seen_rewards)):
            arrays["seen_rewards"] = self.seen_rewards.copy()
        arrays |= {f"before.{i}": own.copy() for i, own in enumerate(self.before)}
        own: dict[str, Any] = {"made": self.made, "fresh": self.fresh, "quiet": self.quiet}
        if self.supposed.points:
            own |= {"supposed": [self.supposed.reward, self.supposed.end]}
        return arrays, {"critic": numbers, "related": len(self.related), **own}

    def restore(self, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> None:
        """Take a state back."""
        tasks = self.executor.tasks
        N, q, p = len(tasks), tasks[0].observation_size, tasks[0].action_size
        told = numbers.get("supposed")
        known = N + int(numbers["related"])
        data = unpack_data(part_of(arrays, "data"), known + (N if told else 0), q, p)
        supposed = PseudoData(data[known:], bool(told[0]), bool(told[1])) if told else EMPTY
        chosen = unpack_choices(arrays, q + p)
        states, returns = unpack_values(part_of(arrays, "values"), N, q)
        functions = N * max(1, self.settings.samples)
        models = unpack_models(part_of(arrays, "models"), chosen, self.is_angle, functions)
        seen = arrays.get("seen_rewards", np.zeros(N))
        before = part_of(arrays, "before")
        for name, array in {"seen_rewards": seen, **before}.items():
            wrong = name == "seen_rewards" and array.shape != (N,)
            if wrong or array.size == 0 or not np.all(np.isfinite(array)):
                raise FileFormatError(f"its parts do not fit together: {name}")
        self.critic.restore(part_of(arrays, "critic"), numbers["critic"], states)
        self.returns, self.models, self.chosen = returns, models, chosen
        self.data, self.related, self.supposed = data[:N], data[N:known], supposed
        self.frame = self._new_frame(supposed) if models else None
        self.before = [before[str(i)].copy() for i in range(len(before))]
        self.seen_rewards = seen.copy() if "seen_rewards" in arrays else np.full(N, np.nan)
        self.made, self.fresh = int(numbers["made"]), bool(numbers["fresh"])
        self.quiet = int(numbers["quiet"])
        self._world = self._dynamics = None
