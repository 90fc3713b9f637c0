"""The paper's other promise, the central policy as a place to adapt from: measured and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from crosslearning.adaptation import adaptation_curve
from crosslearning.paper.claims import Claim, Verdict, judge
from crosslearning.paper.experiment import AVERAGE, CROSS, RADII, Experiment
from crosslearning.paper.scenes import EVALUATION_SEED
from crosslearning.rkhs import Family
from crosslearning.runs.study import Measurement
from crosslearning.tasks import Task, random_maps

#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 1
#: Learning on the new task: a step about as long as training's last ones.
STEP_SIZE = 0.3
ITERATIONS = 100
#: How many maps that were never trained for are adapted to.
MAPS = 5
#: Where adaptation starts: g, the cross-learned task policies, the average policy, nothing.
CENTRAL, ZERO = "central", "zero"
STARTS = (CENTRAL, *RADII, AVERAGE, ZERO)


def adaptation(experiment: Experiment, seed: int) -> Measurement:
    """Return the measurement of ``curves[kind][target][start]`` of a seed's policies."""
    path = experiment.path / f"seed-{seed}" / "adaptation.json"
    return Measurement(path, experiment.asked(VERSION), _measure, (experiment, seed))


def measure_adaptation(experiment: Experiment, seed: int) -> dict[str, Any]:
    """Return a seed's adaptation curves, from their file if they were made before."""
    return adaptation(experiment, seed).answer()


def targets(experiment: Experiment) -> dict[str, dict[str, Task]]:
    """Return the tasks to adapt to: those trained for, and held-out maps."""
    options = experiment.reading.task_options
    held_out = random_maps(EVALUATION_SEED, min(MAPS, experiment.scale.maps), **options)
    return {
        "trained": {task.name: task for task in experiment.reading.training_tasks()},
        "unseen": {name: navigation.task(name) for name, navigation in held_out.items()},
    }


def starts(experiment: Experiment, seed: int) -> dict[str, Family | None]:
    """Return the functions from which a seed's adaptations start."""
    family = Family.load(experiment.folder(seed, CROSS).snapshots()[-1][1])
    return {
        CENTRAL: family.select(family.functions - 1),
        **{radius: family.select(i) for i, radius in enumerate(RADII)},
        AVERAGE: experiment.function(seed, AVERAGE),
        ZERO: None,
    }


def _measure(experiment: Experiment, seed: int) -> dict[str, Any]:
    options: dict[str, Any] = {
        "trials": max(1, experiment.scale.trials // 5),
        "seed": EVALUATION_SEED + seed,
        "step_size": STEP_SIZE,
        "max_knots": experiment.scale.max_knots,
    }
    begin = starts(experiment, seed)

    def curve(task: Task, start: str) -> dict[str, Any]:
        found = adaptation_curve(task, begin[start], ITERATIONS, **options)
        numbers = {"episodes": found.episodes.tolist(), "returns": found.returns.tolist()}
        return {**numbers, "area": found.area}

    return {
        "curves": {
            kind: {name: {s: curve(task, s) for s in begin} for name, task in tasks.items()}
            for kind, tasks in targets(experiment).items()
        }
    }


# The claims, judged like the others: one number per seed, positive for the claim. ---------------

Curves = Mapping[str, Any]


def _areas(curves: Curves, kind: str, start: str) -> list[float]:
    """Return the mean return along every curve of one start, target by target."""
    return [by_start[start]["area"] for by_start in curves["curves"][kind].values()]


def _ahead_of(start: str, kind: str) -> Callable[[Curves], float]:
    return lambda curves: float(
        np.mean(np.subtract(_areas(curves, kind, CENTRAL), _areas(curves, kind, start)))
    )


def _ahead_of_a_guess(kind: str) -> Callable[[Curves], float]:
    """Against a task policy drawn at random: who does not know the task can only guess."""
    return lambda curves: float(np.mean([_ahead_of(radius, kind)(curves) for radius in RADII]))


def adaptation_claims() -> list[Claim]:
    """Return the claims of the abstract and the conclusions on adaptation."""
    measured = "mean return along the adaptation curve from g minus that from {}"
    claims = []
    for kind, where in (
        ("trained", "a trained task, not knowing which"),
        ("unseen", "unseen maps"),
    ):
        rivals = {
            "nothing": ("from nothing", "zero", _ahead_of(ZERO, kind)),
            "average": ("from the average policy", "the average policy", _ahead_of(AVERAGE, kind)),
            "guess": (
                "from a task policy chosen at random",
                "a task policy, averaged over the three",
                _ahead_of_a_guess(kind),
            ),
        }
        for key, (versus, words, value) in rivals.items():
            says = f"Adapting to {where}: the central policy is a better start than {versus}."
            claims.append(Claim(f"adapt-{kind}-{key}", says, measured.format(words), value))
    return claims


def adaptation_verdicts(curves: Mapping[int, Curves]) -> list[Verdict]:
    """Return the verdicts from the adaptation curves of every seed."""
    return [judge(claim, curves) for claim in adaptation_claims()]
