"""The paper's other promise: the central policy as a place to adapt from."""

from __future__ import annotations

import json
from typing import Any

from crosslearning.adaptation import adaptation_curve
from crosslearning.files import write_atomically
from crosslearning.paper.experiment import AVERAGE, CROSS, RADII, Experiment
from crosslearning.paper.scenes import EVALUATION_SEED
from crosslearning.rkhs import Family
from crosslearning.tasks import Task, random_maps

#: Learning on the new task: a step about as long as training's last ones.
STEP_SIZE = 0.3
ITERATIONS = 100
#: How many maps that were never trained for are adapted to.
MAPS = 5
#: Where adaptation starts: g, the cross-learned task policies, the average policy, nothing.
CENTRAL, ZERO = "central", "zero"
STARTS = (CENTRAL, *RADII, AVERAGE, ZERO)


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


def measure_adaptation(experiment: Experiment, seed: int) -> dict[str, Any]:
    """Return curves[kind][target][start], from their file if they were made before."""
    path = experiment.path / f"seed-{seed}" / "adaptation.json"
    asked = {"trials": experiment.scale.trials, "reading": experiment.reading.name}
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        if stored.get("asked") == asked:
            return stored
    begin = starts(experiment, seed)
    curves: dict[str, Any] = {}
    for kind, tasks in targets(experiment).items():
        curves[kind] = {}
        for name, task in tasks.items():
            curves[kind][name] = {}
            for start, function in begin.items():
                curve = adaptation_curve(
                    task,
                    function,
                    ITERATIONS,
                    trials=max(1, experiment.scale.trials // 5),
                    seed=EVALUATION_SEED + seed,
                    step_size=STEP_SIZE,
                    max_knots=experiment.scale.max_knots,
                )
                curves[kind][name][start] = {
                    "episodes": curve.episodes.tolist(),
                    "returns": curve.returns.tolist(),
                    "area": curve.area,
                }
    result = {"asked": asked, "curves": curves}
    write_atomically(path, json.dumps(result, indent=1).encode())
    return result
