"""Which machine next: how much another round of data on each would teach about the returns.

Posterior samples of the dynamics models disagree about the return of a policy. That spread, the
standard deviation of the imagined return over the samples, is what data can still change. To
predict what a round on a machine would do to it, the round is imagined: its states and actions
under the policy with its exploration noise, in a posterior sample that stands for the machine.
The models of all machines are fitted to the data and that round together, with the hyperparameters
as they are, and the spread is measured again. Since machines are regressed together, a round on one
may teach about others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.model_based.comparison import imagined_returns, longest_episode
from crosslearning.learner.model_based.data import Transitions
from crosslearning.learner.model_based.dynamics import Dynamics, fit, world_of
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.learner.model_based.method import ModelBasedMethod
from crosslearning.rkhs.checks import Floats

#: Posterior samples, starts of every machine, and the most steps of imagined episodes.
_SAMPLES, _STARTS, _LONGEST = 32, 6, 200
#: Samples that stand for the machine while its round is imagined.
_TRUTHS = 2
#: A spread below this share of the return's size changes nothing, nor does a smaller reduction.
_NOTHING = 0.02


@dataclass(frozen=True)
class PlannedMachine:
    """What is known of one machine's return, and what a round on it would teach."""

    task: str
    steps: int  #: that its data hold
    imagined_return: float  #: undiscounted, mean over posterior samples
    spread: float  #: standard deviation over posterior samples
    #: The expected reduction of the spreads by a round on this machine: mean over all machines,
    #: and of this machine alone.
    teaches: float
    teaches_itself: float


@dataclass(frozen=True)
class Plan:
    """Which machine's next round would teach most about the returns of all.

    Examples
    --------
    >>> from crosslearning import CrossLearner, ModelBased
    >>> from crosslearning.analysis.plan import plan
    >>> learner = CrossLearner("hovering-masses:2", ModelBased(round_steps=20))
    >>> found = plan(learner.learn(3, progress=False), samples=4)
    >>> sorted(one.task for one in found.machines) == sorted(t.name for t in learner.tasks)
    True
    """

    machines: tuple[PlannedMachine, ...]  #: the one that teaches most first
    round_steps: int  #: of the imagined round
    size: float  #: of returns: the mean of their absolute values

    @property
    def more_data_helps(self) -> bool:
        """Whether data can still change a return noticeably."""
        spread = max(one.spread for one in self.machines)
        teaches = max(one.teaches for one in self.machines)
        return spread > _NOTHING * self.size and teaches > 0.0

    def __str__(self) -> str:
        first = self.machines[0]
        if not self.more_data_helps:
            return (
                f"More data change nothing: the models agree on every machine's return within "
                f"{max(one.spread for one in self.machines):.2g} (standard deviation), less than "
                f"{_NOTHING:.0%} of its size, or no round would make them agree better."
            )
        return (
            f"Next: {first.task}. A round of {self.round_steps} steps there is expected to reduce "
            f"the spread of the returns by {first.teaches:.2g} per machine on average."
        )


def plan(
    learner: CrossLearner, round_steps: int | None = None, samples: int = _SAMPLES, seed: int = 0
) -> Plan:
    """Return what another round on each machine is expected to teach about all returns.

    It tells of what the models know that they do not know: where they are wrong and certain, it
    is wrong with them.

    Parameters
    ----------
    learner : CrossLearner
        With the method ``models``, after some learning.
    round_steps : int, optional
        Steps of the imagined round; by default those of the method's first round.
    samples : int
        Posterior samples whose returns are compared.
    seed : int
        Of the samples and the noise.
    """
    method = learner.method
    if not isinstance(method, ModelBasedMethod) or not method.models:
        raise InputError(
            "plan reads a learner that has learned with method 'models', whose dynamics models "
            f"know what they do not know; this one has {learner.settings.method!r}"
        )
    if samples < 2:
        raise InputError(f"samples is {samples}; give at least 2, whose returns can differ")
    length = round_steps or method.settings.round_steps
    generator = np.random.default_rng([seed, learner.settings.seed])
    N, dynamics = len(method.data), method.dynamics
    starts = _starts(method, generator)
    before = _returns(learner, method, dynamics, starts, samples, seed)
    spread = before.std(axis=1, ddof=1)
    teaches = np.zeros((N, N))
    for i in range(N):
        for _ in range(_TRUTHS):
            more = _imagined_round(learner, method, i, length, generator)
            data = [*method.machine_steps]
            data[i] = Transitions.joined([data[i], more])
            # Knots of their own for the new points: without them nothing could be learned there.
            settings = method.settings
            fitted = fit(
                data,
                dynamics.frame,
                method.chosen,
                settings.model_epsilon,
                settings.model_knots,
                method.pseudo,
            )
            after = _returns(learner, method, fitted, starts, samples, seed)
            teaches[i] += (spread - after.std(axis=1, ddof=1)) / _TRUTHS
    machines = [
        PlannedMachine(
            task.name,
            len(method.data[i].rewards),
            float(before[i].mean()),
            float(spread[i]),
            float(teaches[i].mean()),
            float(teaches[i, i]),
        )
        for i, task in enumerate(learner.tasks)
    ]
    ranked = sorted(machines, key=lambda one: -one.teaches)
    return Plan(tuple(ranked), length, float(np.mean(np.abs(before))))


def _starts(method: ModelBasedMethod, generator: np.random.Generator) -> Floats:
    """Return states in which episodes began, of every machine, shape (N, n, q)."""
    firsts = [steps.states[steps.first == 1.0] for steps in method.data]
    every = np.concatenate(firsts)
    chosen = []
    for own in firsts:
        others = every[generator.integers(len(every), size=_STARTS)]
        chosen.append(np.concatenate([own[::-1], others])[:_STARTS])
    return np.array(chosen)


def _returns(
    learner: CrossLearner,
    method: ModelBasedMethod,
    dynamics: Dynamics,
    starts: Floats,
    samples: int,
    seed: int,
) -> Floats:
    """Return the mean return over the starts of every machine and posterior sample, (N, S).

    Samples before and after a round come from the same random numbers, as far as they reach.
    """
    N, total = len(method.data), len(method.data) + len(method.related)
    normal = []
    for o, one in enumerate(dynamics.fits):
        own = np.random.default_rng([seed, o])
        m = len(one.family.knots)
        normal.append(np.moveaxis(own.standard_normal((m, samples, total + 1, 1)), 0, 2))
    drawn = dynamics.functions(N, normal)
    world = world_of(drawn, dynamics.frame, method.bounds, controlled=method.controlled)
    length = min(_LONGEST, max(longest_episode(steps) for steps in method.data))
    found = imagined_returns(learner.family, world, starts, [length], method.limits)
    return np.asarray(found[:, 0].mean(axis=2))


def _imagined_round(
    learner: CrossLearner,
    method: ModelBasedMethod,
    task: int,
    length: int,
    generator: np.random.Generator,
) -> Transitions:
    """Return the steps of a round on one machine, in a posterior sample of its model."""
    N, dynamics = len(method.data), method.dynamics
    total = N + len(method.related)
    normal = [
        generator.standard_normal((1, total + 1, len(one.family.knots), 1)) for one in dynamics.fits
    ]
    world = world_of(
        dynamics.functions(N, normal),
        dynamics.frame,
        method.bounds,
        controlled=method.controlled,
    )
    firsts = method.data[task].states[method.data[task].first == 1.0]
    start = firsts[generator.integers(len(firsts), size=1)]
    p = len(method.noise.variance)
    noise = method.noise.std * generator.standard_normal((1, length, p))
    which = np.array([task])
    path = imagine(learner.family.expansion, world, start, which, which, noise)
    states, given = path.states[0], np.clip(path.actions[0], *method.bounds)
    acted = method.controllers.machine_actions(task, states[:-1], given)
    first = np.zeros(length)
    first[0] = 1.0
    return Transitions(
        states[:-1], np.asarray(acted), states[1:], path.rewards[0], np.zeros(length), first
    )
