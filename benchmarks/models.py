"""How few real steps learning in cross-learned models takes, and what the radii are worth.

``python -m benchmarks models``, or ``python -m benchmarks.models [part ...]`` for some of the
parts: fleet (eight unlike pendulums under cross-learned, pooled and separate models), radius (the
policies' radius, from one policy for all to one for each), optimum (what the best policies get on
the fleet's machines, by dynamic programming), carts (six cart-poles to swing up), arms and acrobots
(three double pendulums to swing up, with torques at both joints or at the elbow alone), quadrotors
and reactors (whether six machines get worse from mark to mark), cost (a round, an imagined step)
and growth (a round against data, knots and tasks). Settings are the defaults; ``--set FIELD=VALUE``
tries others.

Members of a family are drawn by the seed. A number is the interquartile mean over seeds with its
95 % interval; differences are paired by the seed. Every seed is kept in a file, and the same
question is not measured twice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)

from benchmarks.intervals import over_seeds
from benchmarks.rival import Seconds
from benchmarks.seeds import print_parts
from benchmarks.table import Row
from benchmarks.timing import exponent, human, in_turns
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.rkhs import Family
from crosslearning.rollouts import plan_episodes
from crosslearning.runs.study import Measurement
from crosslearning.tasks import task_set

Answer = dict[str, Any]

OUT = Path("runs/models")
VERSION = 3
#: Members, and real steps of each after which the policies are evaluated.
FAMILIES = {"fleet": "pendulums:8", "radius": "pendulums:8", "carts": "cart-poles:6"}
FAMILIES |= {"arms": "double-pendulums:3", "acrobots": "acrobots:3"}
FAMILIES |= {"quadrotors": "quadrotors:6", "reactors": "reactors:6"}
MARKS = {"fleet": (50, 100, 200), "radius": (100,), "carts": (100, 200, 400)}
MARKS |= dict.fromkeys(("arms", "acrobots"), tuple(range(100, 601, 100)))
MARKS |= {"quadrotors": tuple(range(50, 301, 50)), "reactors": (25, 50, 75, 100)}
SEEDS = dict.fromkeys(FAMILIES, 10)
#: Episodes of an evaluation on each task.
TRIALS = dict.fromkeys(FAMILIES, 50)
KINDS = {"cross-learned": None, "pooled": 0.0, "separate": math.inf}
RADII = (0.0, 1.0, 3.0, 10.0, math.inf)
#: A mark may be this share of the best mark before it below that one.
FALL = 0.2


def measure(part: str, seed: int, marks: Sequence[int], settings: Answer) -> Answer:
    """Return what one seed gives after so many steps of each task, as plain data."""
    tasks = task_set(FAMILIES[part], seed=seed)
    # JSON, in which questions are kept, has no word for infinity.
    given = {name: float(v) if v in ("inf", "0") else v for name, v in settings.items()}
    learner = CrossLearner(tasks, method="models", seed=seed, **given)
    result: list[Answer] = []
    for mark in marks:
        start = time.perf_counter()
        learner.learn(steps=mark * len(tasks) - (learner.steps if learner.iteration else 0))
        spent = time.perf_counter() - start
        policies = [learner.policy(i) for i in range(len(tasks))]
        rounds = learner.iteration / learner.settings.updates_per_round  # type: ignore[attr-defined]
        result.append(
            {
                **returns_of(policies, tasks, TRIALS[part]),
                "steps": learner.steps / len(tasks),
                "seconds": spent,
                "rounds": rounds,
                "knots": len(learner.family.knots),
            }
        )
    return {"marks": result}


def seeds_of(
    part: str, label: str, settings: Answer, seeds: int = 0, out: Path = OUT
) -> list[Answer]:
    """Measure every seed of a part that was not measured before; 0 is what the part says."""
    marks, result = list(MARKS[part]), []
    if label in ("pooled", "separate"):
        marks = marks[:2]
    for seed in range(seeds or SEEDS[part]):
        question = {"version": VERSION, "seed": seed, "marks": marks, "settings": settings}
        path = out / f"{part}-{label}-{seed}.json"
        arguments = (part, seed, marks, settings)
        result.append(Measurement(path, question, measure, arguments).answer())
    return result


def _totals(found: Sequence[Answer], mark: int) -> Any:
    """Return the total returns after a mark, shape (seeds, tasks)."""
    return np.array([one["marks"][mark]["totals"] for one in found])


def fleet(**options: Any) -> list[Row]:
    """Eight pendulums under three kinds of models."""
    settings = options.pop("settings", {})
    result = {
        kind: seeds_of("fleet", kind, {**settings, **_radius("model_epsilon", radius)}, **options)
        for kind, radius in KINDS.items()
    }
    rows = []
    for kind, answers in result.items():
        for k, mark in enumerate(MARKS["fleet"][: len(answers[0]["marks"])]):
            totals = _totals(answers, k)
            mean, worst = over_seeds(totals.mean(axis=1)), totals.min(axis=1)
            enough = int(np.sum(worst >= -230.0))
            measured = (
                f"{mean}; seeds {np.sort(totals.mean(axis=1)).round().astype(int).tolist()}; "
                f"worst machine {over_seeds(worst)}, ≥ −230 on {enough} of {len(worst)}"
            )
            level = {100: -160.0, 200: -150.0}.get(mark) if kind == "cross-learned" else None
            what = f"eight pendulums, {kind} models, {mark} steps each, {len(worst)} seeds: return"
            met = None if level is None else bool(mean.value >= level)
            wanted = "" if level is None else f"≥ {level:.0f}"
            rows.append(Row(what, measured, mean.value, wanted, met))
    for kind in ("pooled", "separate"):
        for k, mark in enumerate(MARKS["fleet"][:2]):
            apart = _totals(result["cross-learned"], k).mean(axis=1)
            apart = over_seeds(apart - _totals(result[kind], k).mean(axis=1))
            what = f"the same, cross-learned less {kind}, {mark} steps each"
            rows.append(Row(what, str(apart), apart.value, "interval > 0", apart.low > 0.0))
    return rows


def radius(**options: Any) -> list[Row]:
    """Every radius of the policies, at 100 steps a machine."""
    settings = options.pop("settings", {})
    totals = {
        one: _totals(
            seeds_of("radius", f"{one:g}", {**settings, **_radius("epsilon", one)}, **options), 0
        ).mean(axis=1)
        for one in RADII
    }
    rows = []
    for one, values in totals.items():
        what = f"eight pendulums, policies within ε = {one:g}, 100 steps each, {len(values)} seeds"
        rows.append(Row(what, str(over_seeds(values)), over_seeds(values).value, "", None))
    best = max(RADII[1:-1], key=lambda one: float(over_seeds(totals[one]).value))
    for end in (0.0, math.inf):
        apart = over_seeds(totals[best] - totals[end])
        what = f"the same, ε = {best:g} less ε = {end:g}"
        rows.append(Row(what, str(apart), apart.value, "interval > 0", apart.low > 0.0))
    return rows


def optimum(**options: Any) -> list[Row]:
    """Hold what was learned on the machines of the fleet against the best policies there."""
    from benchmarks import pendulum_optimum

    seeds = options.get("seeds") or SEEDS["fleet"]
    out, settings = options.get("out", OUT), options.get("settings", {})
    best = []
    for seed in range(seeds):
        question = {"version": VERSION, "seed": seed, "trials": TRIALS["fleet"]}
        arguments = (seed, TRIALS["fleet"])
        path = out / f"optimum-{seed}.json"
        best.append(Measurement(path, question, pendulum_optimum.measure, arguments).answer())
    most = np.mean([one["totals"] for one in best], axis=1)
    what = f"the best policies on the fleet's machines, {seeds} seeds: return"
    rows = [Row(what, str(over_seeds(most)), over_seeds(most).value, "", None)]
    result = seeds_of("fleet", "cross-learned", settings, seeds=seeds, out=out)
    for k, mark in enumerate(MARKS["fleet"]):
        short = over_seeds(most - _totals(result, k).mean(axis=1))
        what = f"the same less what was learned in cross-learned models, {mark} steps each"
        rows.append(Row(what, str(short), short.value, "", None))
    return rows


def carts(**options: Any) -> list[Row]:
    """Six cart-poles: upright for the last fifth of an episode."""
    return _swing_up("carts", **options)


def arms(**options: Any) -> list[Row]:
    """Three double pendulums with two torques: upright for the last fifth of an episode."""
    return _swing_up("arms", **options)


def acrobots(**options: Any) -> list[Row]:
    """Three acrobots: upright for the last fifth of an episode."""
    return _swing_up("acrobots", **options)


def _swing_up(part: str, **options: Any) -> list[Row]:
    settings = options.pop("settings", {})
    result = seeds_of(part, "cross-learned", settings, **options)
    rows = []
    for k, mark in enumerate(MARKS[part]):
        rates = np.array([one["marks"][k]["rates"]["upright"] for one in result])
        good = int(np.sum(rates.min(axis=1) >= 0.9))
        mean = over_seeds(_totals(result, k).mean(axis=1))
        measured = (
            f"return {mean}; least upright machine of each seed "
            f"{np.round(rates.min(axis=1), 2).tolist()}; mean {rates.mean():.3f}"
        )
        what = f"{FAMILIES[part]}, {mark} steps each: seeds with every machine ≥ 90 % upright"
        last = mark == MARKS[part][-1]
        met = good >= 0.8 * len(rates) if last else None
        rows.append(Row(what, measured, good / len(rates), "≥ 0.8" if last else "", met))
    return rows


def quadrotors(**options: Any) -> list[Row]:
    """Whether six quadrotors get worse with more data."""
    return _no_worse("quadrotors", **options)


def reactors(**options: Any) -> list[Row]:
    """Whether six reactors get worse with more data."""
    return _no_worse("reactors", **options)


def falls(returns: Any) -> Any:
    """Return how far each seed's marks fall below the best before them, (seeds,), given (S, M).

    The fall is relative to that best mark; 0 if no mark is below an earlier one.
    """
    best = np.maximum.accumulate(returns, axis=1)
    return np.max((best - returns) / np.abs(best), axis=1)


def _no_worse(part: str, **options: Any) -> list[Row]:
    settings = options.pop("settings", {})
    label = "-".join(["cross-learned", *(f"{k}={v}" for k, v in sorted(settings.items()))])
    result = seeds_of(part, label, settings, **options)
    totals = np.stack([_totals(result, k) for k in range(len(MARKS[part]))], axis=1)
    rows = []
    for k, mark in enumerate(MARKS[part]):
        mean, worst = (
            over_seeds(one) for one in (totals[:, k].mean(axis=1), totals[:, k].min(axis=1))
        )
        what = f"{FAMILIES[part]}, {mark} steps each, {len(totals)} seeds: return"
        rows.append(Row(what, f"{mean}; worst machine {worst}", mean.value, "", None))
    for what, returns in (("mean", totals.mean(axis=2)), ("worst machine", totals.min(axis=2))):
        found = falls(returns)
        good = int(np.sum(found <= FALL))
        text = f"{good} of {len(found)}; falls {np.round(found, 2).tolist()}"
        asked = (f"{len(found)}", good == len(found)) if what == "mean" else ("", None)
        what = f"the same: seeds whose {what} never falls {FALL:.0%} below its best mark"
        rows.append(Row(what, text, good, *asked))
    return rows


def with_data(tasks: int, steps: int, **settings: Any) -> CrossLearner:
    """Return a learner of pendulums that has seen so many steps of each, and learns from them."""
    learner = CrossLearner(task_set(f"pendulums:{tasks}"), method="models", **settings)
    policies = learner._core.iterate.policies  # after the initial exploration
    more = steps - learner.steps // tasks
    plan = plan_episodes(np.random.default_rng(0), learner.tasks, 1, more, np.array([0.7]))
    learner.method.begin([learner._executor.episodes(policies, plan)])
    return learner


def a_round(learner: CrossLearner) -> tuple[float, float]:
    """Fit the models and improve the policies in them; return seconds, and the processor's."""
    start = Seconds.now()
    learner.learn(learner.settings.updates_per_round, progress=False)  # type: ignore[attr-defined]
    return Seconds.since(start)


def growth(**options: Any) -> list[Row]:
    """Time a round against the steps that were seen, the models' knots and the tasks."""
    rows = []
    for name, sizes, words in (
        ("steps", [100, 200, 400, 800], "steps of each of 4 tasks (at most 200 knots)"),
        ("model_knots", [50, 100, 200, 400], "knots of an output (4 tasks, 400 steps each)"),
        ("tasks", [2, 4, 8, 16], "tasks (100 steps each, at most 200 knots)"),
    ):
        seconds = []
        for size in sizes:
            given = {"tasks": 4, "steps": 100 if name == "tasks" else 400, name: size}
            seconds.append(a_round(with_data(**{**given, **options.get("settings", {})}))[1])
        text = ", ".join(f"{n}: {human(t)}" for n, t in zip(sizes, seconds, strict=True))
        slope = exponent(sizes, seconds)
        rows.append(Row(f"a round in models against {words}, exponent", text, slope, "", None))
    return rows


def cost(**options: Any) -> list[Row]:
    """Time a round when much was seen, and an imagined step beside a policy's evaluation."""
    a_round(with_data(2, 60, updates_per_round=2))  # whatever is compiled, is compiled before
    learner = with_data(8, 1000, **options.get("settings", {}))
    tasks, method = learner.tasks, cast("Any", learner.method)
    clock, processor = a_round(learner)
    seen = sum(len(entries.rewards) for entries in method.data)
    policies, world = learner._core.iterate.policies, method.world
    n, H, q = 200, 25, tasks[0].observation_size
    states = np.concatenate([entries.states for entries in method.data])[:n].copy()
    which, noise = np.zeros(n, dtype=np.int64), np.zeros((n, H, 1))
    # As many knots as the policy's and the models' outputs have together, filling left out.
    knots = len(learner.family.knots) + sum(len(entries.knots) for entries in method.models)
    kernel = learner.kernel
    points = np.random.default_rng(1).normal(size=(knots, q))
    same = Family(kernel, points, np.ones((knots, 1, 1))).expansion
    ours, floor = in_turns(
        lambda: imagine(policies, world, states, which, which, noise),
        lambda: [same.each(states, which) for _ in range(H)],
        rounds=9,
    )
    text = f"{human(ours / (n * H))} / {human(floor / (n * H))}, {knots} knots"
    return [
        Row(
            f"a round of eight pendulums with {seen:,} transitions",
            f"{clock:.3g} s ({processor:.3g} s of processor)",
            clock,
            "≤ 5 s",
            clock <= 5.0,
        ),
        Row("an imagined step over an evaluation", text, ours / floor, "≤ 3", ours / floor <= 3.0),
    ]


def _radius(name: str, value: float | None) -> Answer:
    return {} if value is None else {name: "inf" if math.isinf(value) else float(value)}


BENCHMARKS = [fleet, radius, optimum, carts, arms, acrobots, quadrotors, reactors, cost, growth]


if __name__ == "__main__":
    print_parts(__doc__, BENCHMARKS, OUT)
