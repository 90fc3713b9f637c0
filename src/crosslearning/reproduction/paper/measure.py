"""Measurements of the runs of an experiment, stored as JSON, and a table of rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslearning._base.statistics import student
from crosslearning.reproduction.paper.experiment import (
    AVERAGE,
    CROSS,
    LABELS,
    POLICIES,
    RADII,
    Experiment,
)
from crosslearning.reproduction.paper.scenes import outcome, scenes
from crosslearning.runs.study import Chain, Measurement, Run, markdown
from crosslearning.tasks import Task

#: measurements[policy] of one seed; see :func:`measurement`.
Measurements = Mapping[str, Mapping[str, Any]]

#: Raised when the same request gets another result: stored results are then made again.
VERSION = 3
#: The scene whose cost is drawn over training.
CURVES = "radii"
#: Scenes with random starts; the others differ in the heading only and need fewer trials.
MANY_STARTS = ("radii", "training")
FEW = 100
#: Rows of the table of rates: (label, scene, task).
PLACES = (
    *((f"training task {radius}", "training", radius) for radius in RADII),
    *((f"{scene}, any heading", scene, scene) for scene in ("circle", "ellipse", "mission")),
    ("random maps", "maps", "maps"),
)


def chains_of(experiments: Sequence[Experiment]) -> list[Chain]:
    """Return the chains of a study: every policy is learned, then measured."""
    # Seed by seed, so that a study that is stopped has some complete seeds; the longest run first.
    return [
        [Run(e.folder(seed, policy).path, config), measurement(e, seed, policy)]
        for seed in experiments[0].seeds
        for e in experiments
        for policy, config in reversed(e.configs(seed).items())
    ]


def measurement(experiment: Experiment, seed: int, policy: str) -> Measurement:
    """Return the measurement of one policy.

    It has ``final[scene][task]``, the :func:`outcome` of each, for random maps their mean;
    ``curves[scene][task]`` with ``iteration``, ``cost`` and its ``deviation`` over starts; and
    ``training`` of the cross-learned policy.
    """
    path = experiment.folder(seed, policy).path / "measurements.json"
    return Measurement(path, experiment.request(VERSION), _measure, (experiment, seed, policy))


def load_measurements(experiment: Experiment) -> dict[int, dict[str, dict[str, Any]]]:
    """Return all measurements by seed and policy; missing ones are made."""
    return {
        seed: {policy: measurement(experiment, seed, policy).answer() for policy in POLICIES}
        for seed in experiment.seeds
    }


def _measure(experiment: Experiment, seed: int, policy: str) -> dict[str, Any]:
    scale = experiment.scale
    places = scenes(experiment.reading, scale.maps)
    function = experiment.function(seed, policy)
    final: dict[str, dict[str, Any]] = {}
    for scene, tasks in places.items():
        if scene == "maps":
            rows = [outcome(function, task, 5) for task in tasks]
            mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
            final[scene] = {"maps": mean}
        else:
            trials = scale.trials if scene in MANY_STARTS else min(FEW, scale.trials)
            final[scene] = {task.name: outcome(function, task, trials) for task in tasks}
    curves = {task.name: _curve(experiment, seed, policy, task) for task in places[CURVES]}
    result: dict[str, Any] = {"final": final, "curves": {CURVES: curves}}
    if policy == CROSS:
        result["training"] = _training(experiment, seed)
    return result


def _curve(experiment: Experiment, seed: int, policy: str, task: Task) -> dict[str, list[float]]:
    iterations = [k for k, _ in experiment.folder(seed, policy).snapshots()]
    functions = [experiment.function(seed, policy, k) for k in iterations]
    points = [outcome(function, task, experiment.scale.trials) for function in functions]
    curves = {name: [point[name] for point in points] for name in ("cost", "deviation")}
    return {"iteration": [float(k) for k in iterations], **curves}


def _training(experiment: Experiment, seed: int) -> dict[str, Any]:
    """Return distances, multipliers, model order and pruning over training, per iteration."""
    lines = experiment.folder(seed, CROSS).read_metrics()
    before = 0
    for line in lines:
        # A line has the sum since the last one.
        line["forced_by_cap"] /= line["iteration"] - before
        before = line["iteration"]
    kept = lines[:: max(1, len(lines) // 300)]
    table: dict[str, Any] = {}
    for name in ("iteration", "distance", "multiplier", "knots", "pruning_error", "forced_by_cap"):
        column = [line[name] for line in kept]
        by_task = isinstance(column[0], dict)
        table[name] = {t: [c[t] for c in column] for t in column[0]} if by_task else column
    return table


def rates_table(results: Mapping[int, Measurements]) -> str:
    """Return Markdown: mean arrivals / crashes, and the excess crashes of ε = 0 over ε = 3."""
    headings = ["scene", *(LABELS[policy] for policy in POLICIES), "crashes, average − cross"]
    rows = []
    for label, scene, task in PLACES:
        rates = {}
        for policy in POLICIES:
            final = [m[policy]["final"][scene][task] for m in results.values()]
            rates[policy] = np.array([(one["arrived"], one["crashed"]) for one in final])
        cells = [f"{a:.0%} / {c:.0%}" for a, c in (rate.mean(axis=0) for rate in rates.values())]
        change = student((rates[AVERAGE] - rates[CROSS])[:, 1]).percent("+.0f")
        rows.append([label, *cells, change])
    return markdown(headings, rows)
