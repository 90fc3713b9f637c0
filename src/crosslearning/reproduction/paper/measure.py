"""Measurements of the paper's evaluation: outcomes and paths of the runs' policies, and rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.statistics import student
from crosslearning.learner import Policy
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes, run_episodes
from crosslearning.reproduction.paper import experiment as paper
from crosslearning.reproduction.paper.experiment import CROSS, POLICIES, RADII, Experiment, Reading
from crosslearning.rkhs import Family
from crosslearning.rollouts import Episodes
from crosslearning.runs.study import Chain, Measurement, Run, markdown
from crosslearning.tasks import Navigation, Task, navigation_set, random_maps, task_set

#: measurements[policy] of one seed; see :func:`measurement`.
Measurements = Mapping[str, Mapping[str, Any]]

#: Raised when the same request gets another result: stored results are then made again.
VERSION = 3
#: Σ = diag(0.05, 0.05).
NOISE_STD = np.sqrt([0.05, 0.05])
DISCOUNT = 0.9
#: The mission has three goals and takes longer than other tasks.
MISSION_HORIZON = 120
#: The seed of the evaluation's starts, different from those of training.
EVALUATION_SEED = 20_000
#: The start heading of every drive: from (0.5, 1.5) to the goal (5, 6), with the obstacle between.
HEADING = math.pi / 4
#: Scenes with one obstacle each, from a fixed start with any heading; then with many, and three
#: goals. Their starts differ in the heading only and need fewer trials.
DRIVES = {"circle": "paper-circle", "ellipse": "paper-ellipse", "mission": "mission"}
FEW = 100
#: The scene where costs by radius are measured.
_COST_SCENES = {"circles": "radii", "training": "training"}
#: Rows of the table of rates: (label, scene, task).
PLACES = (
    *((f"training task {radius}", "training", radius) for radius in RADII),
    *((f"{scene}, any heading", scene, scene) for scene in DRIVES),
    ("random maps", "maps", "maps"),
)


def scenes(reading: Reading, maps: int) -> dict[str, tuple[Task, ...]]:
    """Return the scenes of the numerical section by name."""
    options = reading.task_options
    return {
        # For the cost figures: circles of the three radii, all at (2, 2).
        "radii": task_set("paper-radii", **options),
        "training": reading.training_tasks(),
        **{scene: task_set(name, **options) for scene, name in DRIVES.items()},
        "maps": held_out_maps(reading, maps),
    }


def held_out_maps(reading: Reading, count: int) -> tuple[Task, ...]:
    """Return random maps on which no policy was trained."""
    maps = random_maps(EVALUATION_SEED, count, **reading.task_options)
    return tuple(navigation.task(name) for name, navigation in maps.items())


def play(acts: Family | Policy, task: Task, trials: int) -> Episodes:
    """Run a policy's mean action from the evaluation's random starts."""
    return run_episodes(_policy(acts, task), task, trials, horizon_of(task), EVALUATION_SEED)


def outcome(acts: Family | Policy, task: Task, trials: int) -> dict[str, float]:
    """Return the outcome of a policy on a task: means over episodes, and the costs' deviation.

    ``cost`` is −Σ γ^t r_t. ``time`` is the number of steps to the last goal, or all steps of an
    episode that does not arrive.
    """
    horizon = horizon_of(task)
    options = EpisodeOptions(trials=trials, horizon=horizon, seed=EVALUATION_SEED)
    played = measure_episodes(_policy(acts, task), task, options, DISCOUNT)
    arrived = played.shares["arrived"]
    means = {
        "cost": -played.returns,
        "crashed": played.shares["crashed"],
        "arrived": arrived,
        "time": np.where(arrived, played.others["arrival_time"], horizon),
        "path_length": played.others["path_length"],
        "goals": played.others["goals_reached"],
    }
    deviation = float(np.std(-played.returns))
    return {"deviation": deviation, **{name: float(np.mean(v)) for name, v in means.items()}}


def _policy(acts: Family | Policy, task: Task) -> Policy:
    """Return who acts: a policy, or a function of the paper's runs, which have no scale."""
    if isinstance(acts, Policy):
        return acts
    return Policy("paper", acts, NOISE_STD, task.action_space)


def horizon_of(task: Task) -> int:
    """Return the longest episode of a task."""
    return MISSION_HORIZON if task.name == "mission" else task.horizon


# Measurements of a study -------------------------------------------------------------------


def rounds_of(experiments: Sequence[Experiment], measured_only: bool = False) -> list[list[Chain]]:
    """Return the rounds of a study: every policy is learned, then measured.

    Runs with an ε relative to other runs are in a second round, one for each seed. Experiments in
    one folder, whose readings differ in who acts, share their runs. With ``measured_only``, runs
    whose measurements are all stored are left out, unless others are relative to them.
    """
    rounds: list[list[Chain]] = [[]]
    # Seed by seed, so that a study that is stopped has some complete seeds; the longest run first.
    for seed in experiments[0].seeds:
        first: dict[Path, list[Any]] = {}
        second: dict[Path, list[Any]] = {}
        for e in experiments:
            for policy, config in reversed(e.configs(seed).items()):
                scaled_by = e.scaled_by(seed, policy)
                path, measured = e.folder(seed, policy).path, measurement(e, seed, policy)
                run = Run(path, config, scaled_by=scaled_by)
                chain = (second if scaled_by else first).setdefault(path, [run])
                if measured.path not in [step.path for step in chain]:
                    chain.append(measured)
        if measured_only:
            second = {path: chain for path, chain in second.items() if not _stored(chain)}
            scales = {path for run, *_ in second.values() for path in run.scaled_by}
            first = {p: chain for p, chain in first.items() if p in scales or not _stored(chain)}
        rounds[-1] += first.values()
        if second:
            rounds += [[*second.values()], []]
    return [chains for chains in rounds if chains]


def _stored(chain: Chain) -> bool:
    """Return whether everything that a chain measures is in its files."""
    return all(isinstance(step, Run) or step.stored() is not None for step in chain)


def measurement(experiment: Experiment, seed: int, policy: str) -> Measurement:
    """Return the measurement of one policy.

    It has ``final[scene][task]``, the :func:`outcome` of each, for random maps their mean;
    ``curves[scene][task]`` with ``iteration``, ``cost`` and its ``deviation`` over starts, for the
    scene of the reading's costs; and ``training`` of the cross-learned policy. Each choice of who
    acts has a file of its own.
    """
    experiment = experiment.learned_by(policy)
    reading, asked = experiment.reading, experiment.request(VERSION)
    name = "measurements"
    if policy == CROSS and reading.acts != "centre":
        asked["acts"], name = reading.acts, f"measurements-{reading.acts}"
    if reading.costs != "circles":
        asked["costs"] = reading.costs
    path = experiment.folder(seed, policy).path / f"{name}.json"
    return Measurement(path, asked, _measure, (experiment, seed, policy))


def load_measurements(
    experiment: Experiment, costs: str | None = None
) -> dict[int, dict[str, dict[str, Any]]]:
    """Return all measurements by seed and policy; missing ones are made.

    ``radii`` are the costs by radius where ``costs`` says, by default where the reading does.
    """

    def answer(seed: int, policy: str) -> dict[str, Any]:
        measured = measurement(experiment, seed, policy).answer()
        scene = _COST_SCENES[costs or experiment.reading.costs]
        final = measured["final"] | {"radii": measured["final"][scene]}
        return measured | {"final": final, "curves": {"radii": measured["curves"].get(scene, {})}}

    return {s: {policy: answer(s, policy) for policy in POLICIES} for s in experiment.seeds}


def _measure(experiment: Experiment, seed: int, policy: str) -> dict[str, Any]:
    places = scenes(experiment.reading, experiment.scale.maps)

    def acting(task: str) -> Family:
        return experiment.function(seed, policy, task=task)

    final = final_outcomes(acting, places, experiment.scale.trials)
    scene = _COST_SCENES[experiment.reading.costs]
    curves = {task.name: _curve(experiment, seed, policy, task) for task in places[scene]}
    result: dict[str, Any] = {"final": final, "curves": {scene: curves}}
    if policy == CROSS:
        result["training"] = _training(experiment, seed)
    return result


def final_outcomes(
    acting: Callable[[str], Family | Policy], places: Mapping[str, Sequence[Task]], trials: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Return ``final[scene][task]``, the outcome where ``acting(task)`` acts, of maps the mean."""
    elsewhere = acting("maps")
    rows = [outcome(elsewhere, task, 5) for task in places["maps"]]
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    final = {"maps": {"maps": mean}}
    for scene, tasks in places.items():
        if scene != "maps":
            count = min(FEW, trials) if scene in DRIVES else trials
            final[scene] = {task.name: outcome(acting(task.name), task, count) for task in tasks}
    return final


def _curve(experiment: Experiment, seed: int, policy: str, task: Task) -> dict[str, list[float]]:
    iterations = [k for k, _ in experiment.folder(seed, policy).snapshots()]
    functions = [experiment.function(seed, policy, k, task.name) for k in iterations]
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
    headings = ["scene", *(paper.LABELS[policy] for policy in POLICIES), "crashes, average − cross"]
    rows = []
    for label, scene, task in PLACES:
        rates = {}
        for policy in POLICIES:
            final = [m[policy]["final"][scene][task] for m in results.values()]
            rates[policy] = np.array([(one["arrived"], one["crashed"]) for one in final])
        cells = [f"{a:.0%} / {c:.0%}" for a, c in (rate.mean(axis=0) for rate in rates.values())]
        change = student((rates[paper.AVERAGE] - rates[CROSS])[:, 1]).percent("+.0f")
        rows.append([label, *cells, change])
    return markdown(headings, rows)


# Drives for figures ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Drive:
    """One path of a policy, shape (points, 2), to the last goal, a crash or the last step."""

    path: NDArray[np.float64]
    crashed: bool
    arrived: bool
    goals: int

    @property
    def ending(self) -> str:
        """The end of the path, for a legend."""
        if self.arrived:
            return f" in {len(self.path) - 1} steps"
        return ", crash" if self.crashed else ", out of time"


@dataclass(frozen=True, eq=False)
class SceneDrives:
    """The drives of a seed through a scene, by policy; others are other seeds' cross-learned."""

    navigation: Navigation
    drives: Mapping[str, Drive]
    others: tuple[Drive, ...] = ()


def scene_drives(experiment: Experiment) -> dict[str, SceneDrives]:
    """Return the drives of the first seed's policies through every scene."""
    first, *rest = experiment.seeds
    functions = {policy: experiment.function(first, policy) for policy in POLICIES}
    others = [experiment.function(seed, CROSS) for seed in rest]
    by_scene = {}
    for scene in DRIVES:
        navigation = scene_of(experiment.reading, scene)
        drives = {p: drive(function, navigation, scene) for p, function in functions.items()}
        bundle = tuple(drive(function, navigation, scene) for function in others)
        by_scene[scene] = SceneDrives(navigation, drives, bundle)
    return by_scene


def scene_of(reading: Reading, scene: str) -> Navigation:
    """Return the world of a scene's drives."""
    options = {**reading.task_options, "heading": HEADING}
    (navigation,) = navigation_set(DRIVES[scene], **options).values()
    return navigation


def drive(acts: Family | Policy, navigation: Navigation, scene: str) -> Drive:
    """Run a policy's mean action once; the scene's name decides how long an episode is."""
    episodes = play(acts, navigation.task(scene), 1)
    states, outcomes = episodes.states, episodes.outcomes
    assert states is not None
    crashed, arrived = bool(outcomes["crashed"][0]), bool(outcomes["arrived"][0])
    last = int(outcomes["arrival_time"][0]) if arrived else states.shape[1] - 1
    path = states[0, : last + 1, :2]
    return Drive(path, crashed and not arrived, arrived, int(outcomes["goals_reached"][0]))
