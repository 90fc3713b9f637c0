"""Claims about adaptation from the central policy: measured and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslearning.analysis.adaptation import adaptation_curve
from crosslearning.reproduction.paper.claims import Claim
from crosslearning.reproduction.paper.experiment import AVERAGE, CROSS, RADII, Experiment
from crosslearning.reproduction.paper.measure import EVALUATION_SEED, held_out_maps
from crosslearning.rkhs import Family
from crosslearning.runs.study import Measurement
from crosslearning.tasks import Task

#: Raised when the same request gets another result: stored results are then made again.
VERSION = 1
#: The step size on the new task is about that of the last training steps.
STEP_SIZE = 0.3
ITERATIONS = 100
#: The number of unseen maps.
MAPS = 5
#: Starts of adaptation: g, the cross-learned task policies, the average policy, zero.
CENTRAL, ZERO = "central", "zero"
STARTS = (CENTRAL, *RADII, AVERAGE, ZERO)


def adaptation(experiment: Experiment, seed: int) -> Measurement:
    """Return the measurement of ``curves[kind][target][start]`` of a seed's policies."""
    path = experiment.path / f"seed-{seed}" / "adaptation.json"
    return Measurement(path, experiment.request(VERSION), _measure, (experiment, seed))


def _measure(experiment: Experiment, seed: int) -> dict[str, Any]:
    scale, reading = experiment.scale, experiment.reading
    unseen = held_out_maps(reading, min(MAPS, scale.maps))
    targets = {"trained": reading.training_tasks(), "unseen": unseen}
    family = Family.load(experiment.folder(seed, CROSS).snapshots()[-1][1])
    starts = {
        CENTRAL: family.select(family.functions - 1),
        **{radius: family.select(i) for i, radius in enumerate(RADII)},
        AVERAGE: experiment.function(seed, AVERAGE),
        ZERO: None,
    }
    options: dict[str, Any] = {
        "trials": max(1, scale.trials // 5),
        "seed": EVALUATION_SEED + seed,
        "step_size": STEP_SIZE,
        "max_knots": scale.max_knots,
    }

    def by_start(task: Task) -> dict[str, Any]:
        curves = {}
        for start, function in starts.items():
            curve = adaptation_curve(task, function, ITERATIONS, **options)
            numbers = {"episodes": curve.episodes.tolist(), "returns": curve.returns.tolist()}
            curves[start] = {**numbers, "area": curve.area}
        return curves

    return {
        "curves": {kind: {t.name: by_start(t) for t in tasks} for kind, tasks in targets.items()}
    }


_TARGETS = {"trained": "a trained task, not knowing which", "unseen": "unseen maps"}
#: key → (the rival in the claim, the rival as measured, the starts that are averaged).
_RIVALS = {
    "nothing": ("nothing", "zero", (ZERO,)),
    "average": ("the average policy", "the average policy", (AVERAGE,)),
    "guess": ("a task policy chosen at random", "a task policy, averaged over the three", RADII),
}


def _ahead_of(kind: str, starts: Sequence[str]) -> Callable[[Mapping[str, Any]], float]:
    """Return the value of a claim: how far g's curves are above those from other starts."""

    def value(measured: Mapping[str, Any]) -> float:
        targets = measured["curves"][kind].values()
        areas = {s: [target[s]["area"] for target in targets] for s in (CENTRAL, *starts)}
        return float(np.mean([np.mean(np.subtract(areas[CENTRAL], areas[s])) for s in starts]))

    return value


ADAPTATION_CLAIMS = [
    Claim(
        f"adapt-{kind}-{key}",
        f"Adapting to {where}: the central policy is a better start than from {versus}.",
        f"mean return along the adaptation curve from g minus that from {words}",
        _ahead_of(kind, starts),
    )
    for kind, where in _TARGETS.items()
    for key, (versus, words, starts) in _RIVALS.items()
]
