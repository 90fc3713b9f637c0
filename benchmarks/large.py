"""Very many tasks on one machine: seconds an iteration, and the most memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from benchmarks.table import Row
from benchmarks.timing import human

#: What is wanted of 1,000 navigation tasks, one sample each, 1,000 knots.
SECONDS, MEBIBYTES = 1.0, 2048

PAPER = {"epsilon": 3.0, "batch_size": 1, "max_knots": 1000}
TRUST_REGION = {"method": "trust-region", "epsilon": 3.0, "max_knots": 400}


def measured(
    tasks: str, iterations: int, settings: dict[str, Any], before: int = 3
) -> dict[str, float]:
    """Learn in a process of its own; return its seconds an iteration and its most memory."""
    asked = json.dumps([tasks, iterations, settings, before])
    command = [sys.executable, "-m", "benchmarks.large", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _learn(tasks: str, iterations: int, settings: dict[str, Any], before: int) -> dict[str, float]:
    import resource

    from crosslearning import CrossLearner

    begun = time.process_time()
    learner = CrossLearner(tasks, **settings)
    made = time.process_time() - begun
    learner.learn(before, progress=False)  # compiles, and fills the dictionary
    reports: list[Any] = []
    cpu, wall = time.process_time(), time.perf_counter()
    learner.learn(iterations, reports.append, progress=False)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "made": made,
        "seconds": cpu / iterations,
        "wall": wall / iterations,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "steps": sum(report.steps for report in reports) / iterations,
        "knots": reports[-1].pruning.knots,
    }


def _rows(name: str, found: dict[str, float], wanted: bool) -> list[Row]:
    seconds, memory = found["seconds"], found["memory"]
    text = (
        f"{human(seconds)} of one core, {human(found['wall'])} on the clock; "
        f"{found['knots']:.0f} knots, {found['steps']:.0f} steps"
    )
    return [
        Row(
            f"an iteration, {name}, in seconds",
            text,
            seconds,
            f"≤ {SECONDS:g}" if wanted else "",
            seconds <= SECONDS if wanted else None,
        ),
        Row(
            f"most memory, {name}, in GiB",
            f"{memory:.0f} MiB",
            memory / 1024,
            f"≤ {MEBIBYTES / 1024:g}" if wanted else "",
            memory <= MEBIBYTES if wanted else None,
        ),
    ]


def policy_gradient() -> list[Row]:
    """Measure the paper's method on 1,000 random maps."""
    return _rows("1,000 tasks, policy gradient", measured("random:1000", 10, PAPER), True)


def policy_gradient_of_four() -> list[Row]:
    """Measure the same with four samples of every task: 4,000 new knots an iteration."""
    result = measured("random:1000", 3, {**PAPER, "batch_size": 4})
    return _rows("1,000 tasks, 4 samples each", result, False)


def trust_region() -> list[Row]:
    """Measure the trust region on 1,000 random maps, of which every one is run for 200 steps."""
    return _rows("1,000 tasks, trust region", measured("random:1000", 2, TRUST_REGION, 3), False)


BENCHMARKS = [policy_gradient, policy_gradient_of_four, trust_region]

if __name__ == "__main__":
    print(json.dumps(_learn(*json.loads(sys.argv[1]))))
