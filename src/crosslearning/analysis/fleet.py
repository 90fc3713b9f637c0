"""A fleet: pendulums that differ a little, learned from seconds of operation.

The policies are learned in dynamics models of three kinds: cross-learned, one for the pooled data,
and a separate one per task. Everything else is the same: the tasks, the method, the seed.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
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
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import plan_episodes
from crosslearning.tasks import Task
from crosslearning.tasks.pendulum import TIME_STEP

#: The most steps of a round, after which the models are fitted again.
ROUND = 25
#: Starts per task in the figure: evenly around the circle, the first hanging, all at rest.
_STARTS = 5


@dataclass(frozen=True, eq=False)
class FleetResult:
    """The policies learned with one kind of dynamics models, each run on its own task."""

    kind: str
    returns: Floats  #: sums of rewards from random starts, shape (N, trials)
    upright: NDArray[np.bool_]  #: whether the pendulum stood upright at the end, (N, trials)
    angles: Floats  #: from upright, of episodes that start around the circle, (N, starts, T + 1)

    @property
    def mean_return(self) -> Interval:
        """The mean over tasks, with its interval over the family."""
        return student(self.returns.mean(axis=1))

    @property
    def worst(self) -> int:
        """The task with the lowest return."""
        return int(np.argmin(self.returns.mean(axis=1)))

    @property
    def share_upright(self) -> Interval:
        """The share of episodes that end upright, over tasks."""
        return share(self.upright.mean(axis=1))


@dataclass(frozen=True, eq=False)
class Fleet:
    """A fleet of pendulums and the results of every kind of dynamics models."""

    tasks: tuple[Task, ...]
    seed: int
    steps: int  #: real steps of every task in the data
    results: tuple[FleetResult, ...]

    @property
    def seconds(self) -> float:
        """The operating time of every task in the data."""
        return self.steps * TIME_STEP

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data for JSON."""
        crews = [
            {
                "models": result.kind,
                "mean_return": asdict(result.mean_return),
                "worst_return": float(result.returns.mean(axis=1).min()),
                "upright": asdict(result.share_upright),
                "returns": result.returns.mean(axis=1).tolist(),
                "upright_by_machine": result.upright.mean(axis=1).tolist(),
            }
            for result in self.results
        ]
        machines = [dict(task.context) for task in self.tasks]
        return {"machines": machines, "seed": self.seed, "steps": self.steps, "crews": crews}


def train_fleet(
    machines: int = 8,
    steps: int = 25,
    seed: int = 0,
    *,
    trials: int = 100,
    console: Console | None = None,
    **settings: Any,
) -> Fleet:
    """Learn a fleet of pendulums with three kinds of dynamics models, and evaluate it.

    There are at least 2 ``machines``, always the same, with so many real ``steps`` each, which the
    last round may exceed; ``seed`` and ``settings`` are of the learners, with the method
    ``models``; ``trials`` are evaluation episodes per task; the ``console`` shows progress.
    """
    if machines < 2 or steps < 1:
        text = "a fleet has at least 2 machines and 1 step"
        raise InputError(f"{text}, got machines = {machines} and steps = {steps}")
    results: list[FleetResult] = []
    settings = {"method": "models", "seed": seed, "round_steps": min(steps, ROUND), **settings}
    with progress_bar(console, TaskProgressColumn(), TimeRemainingColumn()) as shown:
        bar = shown.add_task("learning", total=len(KINDS))
        for kind, radius in KINDS.items():
            shown.update(bar, description=f"{kind} models")
            chosen = {**settings, "model_epsilon": radius}
            with closing(CrossLearner(f"pendulums:{machines}", **chosen)) as learner:
                iterations = _iterations(learner, steps)

                def advance(report: IterationReport, part: float = 1.0 / iterations) -> None:
                    shown.advance(bar, part)

                learner.learn(steps=machines * steps, callback=advance, progress=False)
                results.append(_evaluated(kind, learner, trials))
    return Fleet(learner.tasks, seed, learner.steps // machines, tuple(results))


def _iterations(learner: CrossLearner, steps: int) -> int:
    """Return the iterations of the rounds that hold so many steps per task."""
    settings: Any = learner.settings
    seen = rounds = 0
    while seen < steps:
        seen += settings.next_round(seen, learner.tasks[0].horizon, steps - seen)
        rounds += 1
    return int(settings.updates_per_round * rounds)


def _evaluated(kind: str, learner: CrossLearner, trials: int) -> FleetResult:
    tasks = learner.tasks
    played = [run_episodes(learner.policy(i), task, trials) for i, task in enumerate(tasks)]
    plan = plan_episodes(np.random.default_rng(0), tasks, _STARTS, tasks[0].horizon)
    # The first uniform of a pendulum's start is its angle, the second its speed.
    plan.uniforms[..., 0], plan.uniforms[..., 1] = np.arange(_STARTS) / _STARTS, 0.5
    shown = learner.method.executor.episodes(learner.family.expansion, plan)
    assert shown.states is not None
    return FleetResult(
        kind,
        returns=np.array([episodes.rewards.sum(axis=1) for episodes in played]),
        upright=np.array([episodes.outcomes["upright"] for episodes in played]),
        angles=shown.states[..., 0],
    )
