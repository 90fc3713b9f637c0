"""The learner: an iteration against the floor that its products and evaluations set."""

from __future__ import annotations

import resource
import time

import numpy as np

from benchmarks.rkhs import pruning_products
from benchmarks.table import Row
from benchmarks.timing import human, in_turns
from crosslearning import CrossLearner


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


BENCHMARKS = [iteration, long_run]
