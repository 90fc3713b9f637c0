"""Measurements of one run, kept beside it as JSON and made only once."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from crosslearning.files import write_atomically
from crosslearning.paper.experiment import CROSS, POLICIES, Experiment
from crosslearning.paper.scenes import outcome, scenes
from crosslearning.tasks import Task

#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 3
#: The scene whose cost is drawn over training.
CURVES = "radii"
#: Scenes with starts all over the area; where only the heading differs, fewer tell as much.
MANY_STARTS = ("radii", "training")
FEW = 100


def measure(experiment: Experiment, seed: int, policy: str) -> dict[str, Any]:
    """Return the measurements of one policy, from its file if they were made before.

    Returns
    -------
    dict
        ``final[scene][task]`` with the fields of :class:`Outcome`; ``curves[scene][task]``
        with ``iteration``, ``cost`` and its ``deviation`` over starts; for random maps the mean
        over maps under ``maps``.
    """
    path = experiment.folder(seed, policy).path / "measurements.json"
    asked = {**asdict(experiment.scale), "reading": experiment.reading.name, "version": VERSION}
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        if stored.get("asked") == asked:
            return stored
    result = {"asked": asked, **_measure(experiment, seed, policy)}
    write_atomically(path, json.dumps(result, indent=1).encode())
    return result


def _measure(experiment: Experiment, seed: int, policy: str) -> dict[str, Any]:
    scale = experiment.scale
    places = scenes(experiment.reading, scale.maps)
    function = experiment.function(seed, policy)

    def trials(scene: str) -> int:
        return scale.trials if scene in MANY_STARTS else min(FEW, scale.trials)

    final: dict[str, dict[str, Any]] = {}
    for scene, tasks in places.items():
        if scene == "maps":
            rows = [asdict(outcome(function, task, 5)) for task in tasks]
            mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
            final[scene] = {"maps": mean}
        else:
            final[scene] = {t.name: asdict(outcome(function, t, trials(scene))) for t in tasks}
    curves = {
        CURVES: {task.name: _curve(experiment, seed, policy, task) for task in places[CURVES]}
    }
    result: dict[str, Any] = {"final": final, "curves": curves}
    if policy == CROSS:
        result["training"] = _training(experiment, seed)
    return result


def _curve(experiment: Experiment, seed: int, policy: str, task: Task) -> dict[str, list[float]]:
    iterations = experiment.iterations(seed, policy)
    trials = experiment.scale.trials
    points = [outcome(experiment.function(seed, policy, k), task, trials) for k in iterations]
    return {
        "iteration": [float(k) for k in iterations],
        "cost": [point.cost for point in points],
        "deviation": [point.deviation for point in points],
    }


def _training(experiment: Experiment, seed: int) -> dict[str, Any]:
    """Return distances, multipliers, model order and pruning over training, an iteration each."""
    lines = experiment.folder(seed, CROSS).read_metrics()
    before = 0
    for line in lines:
        # A line holds the sum since the last one.
        line["forced_by_cap"] /= line["iteration"] - before
        before = line["iteration"]
    every = max(1, len(lines) // 300)
    kept = lines[::every]
    names = list(kept[0]["distance"])
    return {
        "iteration": [line["iteration"] for line in kept],
        "distance": {n: [line["distance"][n] for line in kept] for n in names},
        "multiplier": {n: [line["multiplier"][n] for line in kept] for n in names},
        "knots": [line["knots"] for line in kept],
        "pruning_error": [line["pruning_error"] for line in kept],
        "forced_by_cap": [line["forced_by_cap"] for line in kept],
    }


def load_measurements(experiment: Experiment) -> dict[int, dict[str, dict[str, Any]]]:
    """Return all measurements by seed and policy."""
    return {
        seed: {policy: measure(experiment, seed, policy) for policy in POLICIES}
        for seed in experiment.seeds
    }
