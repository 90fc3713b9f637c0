"""How well and how fast the trust-region method learns, and against PPO at the same steps.

``python -m benchmarks trust-region``, or ``python -m benchmarks.trust_region [part ...]`` for some
of the parts: navigation, pendulums, gymnasium-pendulums, inverted-pendulums, reachers, marks.
Settings are the defaults; ``--set FIELD=VALUE`` tries others, also another method (``--set
method=policy-gradient``), and ``--steps`` another number of steps. The part ``marks`` evaluates
eight pendulums at several numbers of steps, up to the last, and adapts to unseen ones after it.

Steps are environment steps over all tasks. A number is the interquartile mean over seeds with its
interval (:mod:`benchmarks.intervals`). PPO (:mod:`benchmarks.rival`) learns one agent for each task
with an equal share of the steps that ours took, in the same process, right after ours, both with
one thread.
What plain ``step`` calls of the same environments take, as many as there were, is taken off both.
Every seed is kept in a file, and the same question is not measured twice.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)

from benchmarks import rival
from benchmarks.intervals import interquartile_mean, over_seeds
from benchmarks.rival import Seconds
from benchmarks.seeds import print_parts
from benchmarks.table import Row
from crosslearning import CrossLearner
from crosslearning._base.statistics import student
from crosslearning.learner.evaluation import evaluate
from crosslearning.runs.study import Measurement
from crosslearning.tasks import Task, task_set
from crosslearning.tasks.families import gymnasium_pendulum
from crosslearning.tasks.pendulum import Pendulum

Answer = dict[str, Any]

OUT = Path("runs/trust-region")
#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 2
#: Environment steps over all tasks, and seeds, of every part.
STEPS = {
    "navigation": 40_000,
    "pendulums": 60_000,
    "gymnasium-pendulums": 60_000,
    "inverted-pendulums": 30_000,
    "reachers": 45_000,
    "marks": 320_000,
}
SEEDS = {
    "navigation": 10,
    "pendulums": 10,
    "gymnasium-pendulums": 2,
    "inverted-pendulums": 5,
    "reachers": 5,
    "marks": 10,
}
#: Parts with pendulums to swing up, and parts that PPO learns too.
SWINGING, RIVALLED = ("pendulums", "gymnasium-pendulums"), ("inverted-pendulums", "reachers")
#: Gravity of the pendulums that are learned, and of those that only the central policy meets.
LEARNED, BETWEEN = (8.0, 10.0, 12.0), (9.0, 11.0)
#: Members of the families of MuJoCo.
MEMBERS = 3
#: Episodes of an evaluation on each task.
TRIALS = {
    "navigation": 500,
    "pendulums": 500,
    "gymnasium-pendulums": 50,
    "inverted-pendulums": 20,
    "reachers": 50,
    "marks": 500,
}
#: Steps at which the part "marks" evaluates, the mean return wanted there, and how far below its
#: best mark a seed may fall.
MARKS, FALL = {40_000: -250.0, 80_000: -185.0, 160_000: None, 320_000: None}, 0.1
#: The pendulums that it learns, those that it adapts the central policy to, and steps of each.
MANY, UNSEEN, ADAPTING = "pendulums:8", "pendulums:unseen:4", 5_600


# The tasks ----------------------------------------------------------------------------------


def pendulum(part: str, g: float) -> Task:
    """Return a pendulum of that gravity: compiled, or Gymnasium's own."""
    if part == "pendulums":
        return Pendulum(g=g).task(f"g={g:g}", 200)
    return Task(f"g={g:g}", functools.partial(gymnasium_pendulum, g=g))


def tasks_of(part: str) -> list[Task]:
    """Return the tasks that a part learns."""
    if part in SWINGING:
        return [pendulum(part, g) for g in LEARNED]
    if part == "marks":
        return list(task_set(MANY))
    return task_set("paper" if part == "navigation" else f"{part}:{MEMBERS}")


# What is measured of one seed ---------------------------------------------------------------


def learn(tasks: Sequence[Task], steps: int, seed: int, **settings: Any) -> tuple[Any, Seconds]:
    """Learn, and time it: the look at the tasks for widths and scales included."""
    start = Seconds.now()
    learner = CrossLearner(tasks, seed=seed, **{"method": "trust-region", **settings})
    learner.learn(steps=steps)
    return learner, Seconds.since(start)


def returns_of(policies: Sequence[Any], tasks: Sequence[Task], trials: int) -> Answer:
    """Return what every policy gets on the task of its place, and shares of outcomes there."""
    result = [evaluate([p], [t], trials=trials)[0] for p, t in zip(policies, tasks, strict=True)]
    return {
        "totals": [one.total_return.value for one in result],
        "discounted": [one.discounted_return.value for one in result],
        "rates": {name: [one.rates[name].value for one in result] for name in result[0].rates},
    }


def stepping(tasks: Sequence[Task], steps: int, seed: int) -> Seconds:
    """Return what plain steps take with random actions, so many over all tasks; resets are free."""
    spent = np.zeros(2)
    for task in tasks:
        environment = task.make()
        environment.action_space.seed(seed)
        environment.reset(seed=seed)
        for _ in range(steps // len(tasks)):
            action = environment.action_space.sample()
            start = Seconds.now()
            *_, terminated, truncated, _ = environment.step(action)
            spent += Seconds.since(start)
            if terminated or truncated:
                environment.reset()
    return Seconds(*spent.tolist())


def measure(part: str, seed: int, steps: int, settings: Answer, against: bool) -> Answer:
    """Return what one seed gives, as plain data."""
    tasks, trials = tasks_of(part), TRIALS[part]
    # One iteration compiles what is not compiled yet.
    CrossLearner(tasks, seed=seed, **{"method": "trust-region", **settings}).learn(1)
    learner, spent = learn(tasks, steps, seed, **settings)
    policies = [learner.policy(i) for i in range(len(tasks))]
    answer: Answer = {
        "ours": returns_of(policies, tasks, trials),
        "seconds": list(spent),
        "steps": learner.steps,
        "knots": len(learner.family.knots),
    }
    if part in SWINGING:
        between = [pendulum(part, g) for g in BETWEEN]
        answer["between"] = returns_of([learner.central] * len(between), between, trials)
    if against:
        share = learner.steps // len(tasks)
        answer["stepping"] = list(stepping(tasks, learner.steps, seed))
        setting = rival.ZOO["ppo"][part]
        pairs = [rival.learn("ppo", [task], share, seed, setting) for task in tasks]
        answer["ppo"] = returns_of([agent for agent, _ in pairs], tasks, trials)
        answer["ppo_seconds"] = np.sum([seconds for _, seconds in pairs], axis=0).tolist()
    return answer


def measure_marks(part: str, seed: int, steps: int, settings: Answer, against: bool) -> Answer:
    """Return what one seed gives at every mark, and on unseen tasks before and after adapting."""
    tasks, trials = tasks_of(part), TRIALS[part]
    learner = CrossLearner(tasks, seed=seed, **{"method": "trust-region", **settings})
    marks: Answer = {}
    for mark in [*(one for one in MARKS if one < steps), steps]:
        learner.learn(steps=mark - learner.steps)
        policies = [learner.policy(i) for i in range(len(tasks))]
        marks[str(mark)] = returns_of(policies, tasks, trials)["totals"]
    unseen = task_set(UNSEEN)
    adapted = [learner.adapt(task, steps=ADAPTING).policy(0) for task in unseen]
    return {
        "marks": marks,
        "before": returns_of([learner.central] * len(unseen), unseen, trials)["totals"],
        "after": returns_of(adapted, unseen, trials)["totals"],
    }


def seeds_of(
    part: str, settings: Answer, seeds: int = 0, out: Path = OUT, steps: int = 0
) -> list[Answer]:
    """Measure every seed of a part that was not measured before; 0 is what the part says."""
    against = part in RIVALLED and rival.installed()
    steps, result = steps or STEPS[part], []
    for seed in range(seeds or SEEDS[part]):
        question = {"version": VERSION, "seed": seed, "steps": steps, "settings": settings}
        question |= {"against": against}
        arguments = (part, seed, steps, settings, against)
        how = measure_marks if part == "marks" else measure
        result.append(Measurement(out / f"{part}-{seed}.json", question, how, arguments).answer())
    return result


# Rows ---------------------------------------------------------------------------------------


def navigation(**options: Any) -> list[Row]:
    """Discounted return and crashes on the paper's tasks."""
    result = _ask("navigation", options)
    returns = over_seeds([np.mean(one["ours"]["discounted"]) for one in result])
    crashes = over_seeds([np.mean(one["ours"]["rates"]["crashed"]) for one in result])
    what = _what("navigation", result, options)
    worst = min(np.mean(one["ours"]["discounted"]) for one in result)
    each = interquartile_mean(np.array([one["ours"]["discounted"] for one in result]), axis=0)
    text = ", ".join(f"{one:.0f}" for one in each)
    measured = f"return {returns} ({text}), worst seed {worst:.3g}; {_cost(result)}"
    return [
        Row(f"{what}: return", measured, returns.value, "≥ −60", returns.value >= -60.0),
        Row(f"{what}: crashes", crashes.percent(), crashes.value, "≤ 0.02", crashes.value <= 0.02),
    ]


def pendulums(part: str = "pendulums", **options: Any) -> list[Row]:
    """Total returns on the pendulums that were learned, and of the centre on those between."""
    result = _ask(part, options)
    what = _what(part, result, options)
    rows = []
    for key, at, level, names in (
        ("ours", "learned", -200.0, LEARNED),
        ("between", "the centre on unseen", -220.0, BETWEEN),
    ):
        totals = np.array([one[key]["totals"] for one in result])
        share = float(np.mean(np.all(totals >= level, axis=1)))
        text = ", ".join(f"g = {g:g}: {over_seeds(totals[:, k])}" for k, g in enumerate(names))
        measured = f"{text}; worst {totals.min():.0f}; {_cost(result)}"
        wanted = f"all ≥ {level:.0f} on ≥ 0.8 of the seeds"
        rows.append(Row(f"{what}: {at}", measured, share, wanted, share >= 0.8))
    return rows


def gymnasium_pendulums(**options: Any) -> list[Row]:
    """Measure the same with Gymnasium's own pendulums."""
    return pendulums("gymnasium-pendulums", **options)


def rivalry(part: str, **options: Any) -> list[Row]:
    """Total returns of ours and of PPO, and the time that each took beside the stepping."""
    result = _ask(part, options)
    what = f"{MEMBERS} {_what(part, result, options)}"
    ours = over_seeds([np.mean(one["ours"]["totals"]) for one in result])
    if not all("ppo" in one for one in result):
        measured = f"{ours}; {_cost(result)}. {rival.MISSING}"
        return [Row(f"{what}: return", measured, ours.value, "≥ PPO's", None)]
    theirs = over_seeds([np.mean(one["ppo"]["totals"]) for one in result])
    apart = over_seeds(
        [np.mean(one["ours"]["totals"]) - np.mean(one["ppo"]["totals"]) for one in result]
    )
    text = ", ".join(f"{who} {one.format('.4g')}" for who, one in (("ours", ours), ("PPO", theirs)))
    measured = f"{text}; {_cost(result)}"
    rows = [
        Row(
            f"{what}: return less PPO's",
            f"{measured}; {apart}",
            apart.value,
            "≥ 0",
            apart.value >= 0,
        )
    ]
    for k, clock in enumerate(Seconds._fields):
        ours, theirs, plain = (
            np.array([one[key][k] for one in result])
            for key in ("seconds", "ppo_seconds", "stepping")
        )
        ratio = over_seeds((ours - plain) / (theirs - plain))
        text = " / ".join(
            f"{interquartile_mean(seconds):.3g} s" for seconds in (ours, theirs, plain)
        )
        measured = f"{ratio}; ours / PPO / plain steps: {text}"
        what_time = f"{what}: time over PPO's, steps taken off, by the {clock}"
        rows.append(Row(what_time, measured, ratio.value, "≤ 0.2", ratio.value <= 0.2))
    return rows


def inverted_pendulums(**options: Any) -> list[Row]:
    """Poles on carts, MuJoCo."""
    return rivalry("inverted-pendulums", **options)


def reachers(**options: Any) -> list[Row]:
    """Arms that reach for a place, MuJoCo."""
    return rivalry("reachers", **options)


def marks(**options: Any) -> list[Row]:
    """Mean total returns of eight pendulums on the way, whether they fall, and of adapting."""
    result = _ask("marks", options)
    what = _what("marks", result, options)
    at = [int(mark) for mark in result[0]["marks"]]
    means = np.array([[np.mean(totals) for totals in one["marks"].values()] for one in result])
    rows = []
    for k, mark in enumerate(at):
        mean, least = student(means[:, k]), MARKS.get(mark)
        measured = f"{mean}, worst seed {means[:, k].min():.0f}"
        wanted = "–" if least is None else f"≥ {least:.0f}"
        met = None if least is None else bool(mean.value >= least)
        rows.append(Row(f"{what}: at {mark:,}", measured, mean.value, wanted, met))
    best = np.maximum.accumulate(means, axis=1)
    falls = ((best - means) / np.abs(best)).max(axis=1)
    share = float(np.mean(falls <= FALL))
    measured = f"largest fall below the best mark {falls.max():.0%}"
    rows.append(Row(f"{what}: settle", measured, share, "≤ 10 % on ≥ 0.9 of seeds", share >= 0.9))
    before, after = (np.array([np.mean(one[key]) for one in result]) for key in ("before", "after"))
    gain = student(after - before)
    measured = f"{student(before)} before, {student(after)} after; gain {gain}"
    adapting = f"{what}: adapting to unseen ones, {ADAPTING:,} steps of each"
    rows.append(Row(adapting, measured, gain.value, "≥ 0", gain.value >= 0.0))
    return rows


BENCHMARKS = [navigation, pendulums, gymnasium_pendulums, inverted_pendulums, reachers, marks]


def _ask(part: str, options: Answer) -> list[Answer]:
    return seeds_of(part, **{"settings": {}, **options})


def _what(part: str, found: Sequence[Answer], options: Answer) -> str:
    steps = options.get("steps") or STEPS[part]
    method = options.get("settings", {}).get("method", "trust-region")
    return f"{part}, {method}, {steps:,} steps, {len(found)} seeds"


def _cost(found: Sequence[Answer]) -> str:
    knots = interquartile_mean(np.array([one["knots"] for one in found]))
    seconds, processor = (over_seeds([one["seconds"][k] for one in found]) for k in (0, 1))
    steps = interquartile_mean(np.array([one["steps"] for one in found]))
    return (
        f"{knots:.0f} knots, {steps:,.0f} steps, {seconds} s ({processor.value:.3g} s of processor)"
    )


if __name__ == "__main__":
    print_parts(__doc__, BENCHMARKS, OUT, "steps")
