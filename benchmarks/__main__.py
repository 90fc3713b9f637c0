"""``python -m benchmarks [suite ...]``: measure, and print a table of ratios.

One BLAS thread, so that the numbers do not depend on what else the machine does with its
cores. Nothing here fails a build: the table says what was wanted and whether it was met.
"""

from __future__ import annotations

import argparse

import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import (
    adaptation,
    around,
    discrete,
    identification,
    large,
    learner,
    models,
    models_adaptation,
    models_known_reward,
    playground,
    regression,
    rkhs,
    rollouts,
    trust_region,
    workers,
    world,
)
from benchmarks.table import show

SUITES = {
    "rkhs": rkhs.BENCHMARKS,
    "learner": learner.BENCHMARKS,
    "rollouts": rollouts.BENCHMARKS,
    "workers": workers.BENCHMARKS,
}
#: Those that take many minutes run only if they are asked for.
LONG_SUITES = {
    "adaptation": adaptation.BENCHMARKS,
    "around": around.BENCHMARKS,
    "discrete": discrete.BENCHMARKS,
    "identification": identification.BENCHMARKS,
    "large": large.BENCHMARKS,
    "models": models.BENCHMARKS,
    "regression": regression.BENCHMARKS,
    "models-adaptation": models_adaptation.BENCHMARKS,
    "models-known-reward": models_known_reward.BENCHMARKS,
    "playground": playground.BENCHMARKS,
    "trust-region": trust_region.BENCHMARKS,
    "workers-long": workers.LONG,
    "world": world.BENCHMARKS,
}


def main() -> None:
    """Run the benchmarks of the given suites, or of all but the long ones."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    suites = {**SUITES, **LONG_SUITES}
    known = ", ".join(suites)
    parser.add_argument(
        "suites", nargs="*", help=f"which to run (default: the first ones): {known}"
    )
    chosen = parser.parse_args().suites or list(SUITES)
    for suite in chosen:
        if suite not in suites:
            parser.error(f"no such suite {suite!r}; known: {known}")
    console = Console(width=None if Console().is_terminal else 140)
    rows = []
    with threadpool_limits(1, user_api="blas"):
        for suite in chosen:
            for benchmark in suites[suite]:
                console.print(f"measuring {suite}: {benchmark.__name__} …", style="dim")
                rows += benchmark()
    show(rows, console)


if __name__ == "__main__":
    main()
