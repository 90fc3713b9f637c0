"""The learner: an iteration against the floor that its products and evaluations set."""

from __future__ import annotations

import resource
import time

import numpy as np
from gymnasium.spaces import Box

from benchmarks.rkhs import pruning_products
from benchmarks.table import Row
from benchmarks.timing import exponent, human, in_turns
from crosslearning import CrossLearner, Task
from crosslearning.rkhs import Gaussian
from crosslearning.rollouts import ActionScale, EpisodePlan, Episodes


def iteration() -> list[Row]:
    """Time an iteration at N = 3, B = 4, 400 knots against what it cannot do without."""
    learner = CrossLearner("paper", epsilon=3.0).learn(300)
    reports = []
    learner.learn(200, reports.append)
    steps = int(np.mean([report.steps for report in reports]))
    expansion = learner.policy(0).function.expansion
    states = np.random.default_rng(0).uniform(0.0, 5.0, (steps, 5))
    ours, products, evaluating = in_turns(
        learner._core.step,
        pruning_products(np.random.default_rng(1), 400),
        lambda: expansion(states),
        rounds=1500,
    )
    floor = products + evaluating
    return [
        Row(
            f"an iteration, 3 tasks, 4 samples, 400 knots, {steps} environment steps",
            f"{human(ours)} / ({human(products)} products + {human(evaluating)} evaluations)",
            ours / floor,
            "≤ 2.5",
            ours / floor <= 2.5,
        )
    ]


def long_run() -> list[Row]:
    """Run the paper's 29,000 iterations, and look at the memory on the way."""
    learner = CrossLearner("paper", epsilon=3.0, workers=2).learn(1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    learner.learn(28_000, progress=False)
    seconds = (time.perf_counter() - start) * 29 / 28
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    learner.close()
    return [
        Row("29,000 iterations on two threads, in seconds", human(seconds), seconds, "", None),
        Row(
            "peak memory after 29,000 iterations over that after 1,000",
            f"{after / 1024:.0f} MiB / {before / 1024:.0f} MiB",
            after / before,
            "≤ 1.05",
            after / before <= 1.05,
        ),
    ]


class Recorded:
    """An executor whose episodes cost nothing: random numbers of the right shapes."""

    def __init__(self, tasks: int, size: int, steps: int) -> None:
        spaces = Box(-9.0, 9.0, (size,)), Box(-1.0, 1.0, (1,))
        self.tasks = tuple(Task(str(i), None, spaces=spaces) for i in range(tasks))
        self.steps = steps
        self.scale = ActionScale.none(1)
        self.draw = np.random.default_rng(0)

    def episodes(self, policies: object, plan: EpisodePlan) -> Episodes:
        """Return episodes whose states have nothing to do with the actions."""
        shape = plan.noise.shape[:3]
        result = Episodes.empty(shape, self.tasks[0].observation_size, 1)
        result.observations[:] = self.draw.standard_normal(result.observations.shape)
        result.rewards[:] = result.observations[:, :, 1:, 0] + plan.noise[:, :, :, 0]
        result.lengths[:] = shape[2]
        return result._replace(outcomes=[{} for _ in self.tasks])


def trust_region_learner(
    tasks: int = 3, knots: int = 100, steps: int = 200, size: int = 4
) -> CrossLearner:
    """Return a trust-region learner that has its knots, and whose rollouts cost nothing."""
    executor = Recorded(tasks, size, steps)
    learner = CrossLearner(
        executor.tasks,
        method="trust-region",
        executor=executor,
        kernel=Gaussian(std=[0.7 * np.sqrt(size)] * size),
        episodes=4,
        episode_steps=steps // 4,
        least_steps=1,
        most_steps=steps,
        max_knots=knots,
        new_knots=max(10, knots // 8),
        critic_knots=knots,
        novelty=1e-4,
    )
    while len(learner.family.knots) < knots and learner.iteration < 60:
        learner.learn(1, progress=False)
    return learner


def trust_region_cost() -> list[Row]:
    """Time trust-region iterations against tasks, knots, steps and the size of observations.

    In seconds of the processor: what else the machine does would bend a slope of few points.
    """
    rows = []
    for name, sizes, words in (
        ("tasks", [2, 4, 8, 16], "tasks (100 knots, 200 steps each)"),
        ("knots", [50, 100, 200, 400], "knots (3 tasks, 200 steps each)"),
        ("steps", [200, 400, 800, 1600], "steps a task (3 tasks, 100 knots)"),
        ("size", [4, 8, 16, 32], "numbers in an observation (3 tasks, 100 knots, 200 steps)"),
    ):
        learners = [trust_region_learner(**{name: size}) for size in sizes]
        iterations = [learner._core.step for learner in learners]
        seconds = in_turns(*iterations, rounds=15, clock=time.process_time)
        text = ", ".join(f"{n}: {human(t)}" for n, t in zip(sizes, seconds, strict=True))
        rows.append(
            Row(
                f"a trust-region iteration without its rollouts against {words}, exponent",
                text,
                exponent(sizes, seconds),
                "≤ 3" if name == "knots" else "≤ 1.2",
                exponent(sizes, seconds) <= (3.0 if name == "knots" else 1.2),
            )
        )
    return rows


BENCHMARKS = [iteration, trust_region_cost, long_run]
