"""A fleet: pendulums that all differ a little, learned from seconds of operation.

Policies are learned in models of the machines, and the models come in three kinds: cross-learned,
one for all that is fitted to everybody's data (pooled), and one for each from its own data alone
(separate). Everything else is the same: the machines, the method, the seed.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import TaskProgressColumn, TimeRemainingColumn

from crosslearning._base.progress import progress_bar
from crosslearning._base.statistics import Interval, share, student
from crosslearning.analysis.model_errors import KINDS
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, IterationReport
from crosslearning.learner.evaluation import run_episodes
from crosslearning.rollouts import plan_episodes
from crosslearning.tasks import Task
from crosslearning.tasks.families.pendulum import TIME_STEP

Floats = NDArray[np.float64]

#: The most steps of a round, after which models are fitted anew.
ROUND = 25
#: Starts of every machine in the picture: evenly around the circle, the first hanging, all still.
_STARTS = 5


@dataclass(frozen=True, eq=False)
class Crew:
    """All machines, each with the policy that was learned for it under one kind of models.

    Attributes
    ----------
    kind : str
    returns : array, shape (N, trials)
        Sums of rewards from random starts.
    upright : array, shape (N, trials)
        Whether the machine stood upright at the end.
    angles : array, shape (N, starts, steps + 1)
        From the upright, over episodes that start evenly around the circle.
    """

    kind: str
    returns: Floats
    upright: NDArray[np.bool_]
    angles: Floats

    @property
    def mean_return(self) -> Interval:
        """Over machines, with the interval of other machines of the family."""
        return student(self.returns.mean(axis=1))

    @property
    def worst(self) -> int:
        """The machine with the least return."""
        return int(np.argmin(self.returns.mean(axis=1)))

    @property
    def share_upright(self) -> Interval:
        """The share of episodes that end upright, over machines."""
        return share(self.upright.mean(axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data for JSON."""
        mean, upright = (vars(one) for one in (self.mean_return, self.share_upright))
        return {
            "models": self.kind,
            "mean_return": dict(mean),
            "worst_return": float(self.returns.mean(axis=1)[self.worst]),
            "upright": dict(upright),
            "returns": self.returns.mean(axis=1).tolist(),
            "upright_by_machine": self.upright.mean(axis=1).tolist(),
        }


@dataclass(frozen=True, eq=False)
class Fleet:
    """What was learned of a fleet.

    Attributes
    ----------
    tasks : tuple of Task
        The machines.
    seed : int
    steps : int
        Real steps of every machine that were learned from.
    crews : tuple of Crew
        One for every kind of models.
    """

    tasks: tuple[Task, ...]
    seed: int
    steps: int
    crews: tuple[Crew, ...]

    @property
    def seconds(self) -> float:
        """How long each machine ran to be learned from."""
        return self.steps * TIME_STEP

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data for JSON."""
        machines = [dict(task.context) for task in self.tasks]
        asked = {"machines": machines, "seed": self.seed, "steps": self.steps}
        return {**asked, "crews": [crew.to_dict() for crew in self.crews]}


def train_fleet(
    machines: int = 8,
    steps: int = 25,
    seed: int = 0,
    *,
    trials: int = 100,
    console: Console | None = None,
    **settings: Any,
) -> Fleet:
    """Learn a fleet of pendulums under three kinds of models, and measure it.

    Parameters
    ----------
    machines : int
        How many; at least 2.
    steps : int
        Real steps of every machine, 25 in the first round; the last may go beyond.
    seed : int
        Of the learners. The machines are always the same.
    trials : int
        Episodes of every machine in the measurement, from random starts.
    console : Console, optional
        Shows progress.
    **settings
        Of the method ``models``.
    """
    if machines < 2:
        raise InputError(f"a fleet has at least 2 machines, got {machines}")
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")
    crews: list[Crew] = []
    settings = {"method": "models", "seed": seed, "round_steps": min(steps, ROUND), **settings}
    with progress_bar(console, TaskProgressColumn(), TimeRemainingColumn()) as shown:
        bar = shown.add_task("learning", total=len(KINDS))
        for kind, radius in KINDS.items():
            shown.update(bar, description=f"{kind} models")
            own = {**settings, "model_epsilon": radius}
            with closing(CrossLearner(f"pendulums:{machines}", **own)) as learner:
                iterations = _iterations(learner, steps)

                def look(report: IterationReport, part: float = 1.0 / iterations) -> None:
                    shown.advance(bar, part)

                learner.learn(iterations, look, progress=False)
                crews.append(_measured(kind, learner, trials))
    return Fleet(learner.tasks, seed, learner.steps // machines, tuple(crews))


def _iterations(learner: CrossLearner, steps: int) -> int:
    """Return the iterations of as many whole rounds as so many steps of a machine take."""
    settings: Any = learner.settings
    seen = rounds = 0
    while seen < steps:
        seen += settings.next_round(seen, learner.tasks[0].horizon)
        rounds += 1
    return int(settings.updates_per_round * rounds)


def _measured(kind: str, learner: CrossLearner, trials: int) -> Crew:
    """Run every machine by its own policy."""
    tasks = learner.tasks
    played = [run_episodes(learner.policy(i), task, trials) for i, task in enumerate(tasks)]
    plan = plan_episodes(np.random.default_rng(0), tasks, _STARTS, tasks[0].horizon)
    # A pendulum makes its angle of the first number, its speed of the second.
    plan.uniforms[..., 0], plan.uniforms[..., 1] = np.arange(_STARTS) / _STARTS, 0.5
    shown = learner.method.executor.episodes(learner.family.expansion, plan)
    assert shown.states is not None
    return Crew(
        kind,
        returns=np.array([episodes.rewards.sum(axis=1) for episodes in played]),
        upright=np.array([episodes.outcomes["upright"] for episodes in played]),
        angles=shown.states[..., 0],
    )
