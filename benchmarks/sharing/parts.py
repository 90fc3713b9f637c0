"""What is measured: of one spread of the machines and one seed, every radius and amount of data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner
from crosslearning.analysis.model_errors import KINDS, OVERALL, model_errors
from crosslearning.analysis.sweep.stages import plain_epsilon
from crosslearning.errors import InputError
from crosslearning.rkhs import CrossRegression, Linear
from crosslearning.rkhs.cross_fit import CrossFit
from crosslearning.runs.study import Measurement
from crosslearning.tasks import task_set
from crosslearning.tasks.linear_quadratic import LinearQuadratic, cart

Floats = NDArray[np.float64]
Answer = dict[str, Any]
#: ε, or None where the data choose it.
Radius = float | None

OUT = Path("runs/sharing")
#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 1
#: Of the carts: γ of closed forms and of learning, how many that were never seen, and the
#: standard deviation of what moves them beside the force, where they are identified.
DISCOUNT, UNSEEN_CARTS, NOISE = 0.9, 20, 0.1


@dataclass(frozen=True)
class Grid:
    """The points of a map.

    Attributes
    ----------
    radii : tuple of float or None
        The first is 0, the last ∞; None is what the data choose.
    data : tuple of int
        Steps of each machine.
    spreads : tuple of float
        How different the machines are; 1 is the family as it ships.
    seeds, machines, trials : int
        Trials are episodes of an evaluation on each machine.
    settings : mapping
        Of the learner, where they are not the defaults.
    """

    radii: tuple[Radius, ...]
    data: tuple[int, ...]
    seeds: int
    spreads: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5)
    machines: int = 8
    trials: int = 50
    settings: Mapping[str, Any] = field(default_factory=dict)


def _learned(
    learner: CrossLearner, data: Sequence[int], look: Callable[[CrossLearner], Answer]
) -> Answer:
    """Go on learning to each amount of data, and return what was seen there, in lists by name."""
    result = []
    for steps in data:
        done = learner.steps if learner.iteration else 0
        missing = max(0, steps * len(learner.tasks) - done)
        result.append(look(learner.learn(steps=missing, progress=False)))
    return {name: [one[name] for one in result] for name in result[0]}


def _by_radius(grid: Grid, learn: Callable[[Radius], Answer]) -> Answer:
    """Return tables, radii by data, of what learning at every radius gives."""
    result = [learn(radius) for radius in grid.radii]
    return {name: [one[name] for one in result] for name in result[0]}


# Policies -----------------------------------------------------------------------------------


def _carts(spread: float, count: int, *seed: int) -> list[LinearQuadratic]:
    """Return carts whose masses are between 2^−spread and 2^spread."""
    draw = np.random.default_rng(seed)
    return [cart(float(mass)) for mass in 2.0 ** (spread * draw.uniform(-1.0, 1.0, count))]


def _lost(system: LinearQuadratic, gain: Floats) -> float:
    """Return what a linear policy loses to the best one, in per cent of the least cost."""
    best = system.expected_return(system.best_gain(DISCOUNT), 0.0, DISCOUNT)
    idle = system.expected_return(np.zeros_like(gain), 0.0, DISCOUNT)
    try:
        reached = system.expected_return(gain, 0.0, DISCOUNT)
    except InputError:  # it lets the cart run away
        reached = idle
    # Who sees that a policy does harm switches it off, and the cart comes to rest by itself.
    return 100.0 * (max(reached, idle) - best) / abs(best)


def carts(grid: Grid, spread: float, seed: int) -> Answer:
    """Learn linear policies of carts, whose returns and optima are known in closed form."""
    systems = _carts(spread, grid.machines, seed, 0)
    unseen = _carts(spread, UNSEEN_CARTS, seed, 1)
    tasks = [system.task(f"cart {i}") for i, system in enumerate(systems)]

    def gain(policy: Any) -> Floats:
        return np.column_stack([policy.predict(one)[0] for one in np.eye(2)])

    def look(learner: CrossLearner) -> Answer:
        entries = [_lost(one, gain(learner.policy(i))) for i, one in enumerate(systems)]
        centre = gain(learner.central)
        held_out = [_lost(one, centre) for one in unseen]
        return {"own": float(np.mean(entries)), "held_out": float(np.mean(held_out))}

    def learn(radius: Radius) -> Answer:
        learner = CrossLearner(
            tasks,
            radius,  # type: ignore[arg-type]  # a number, in this part
            method="trust-region",
            seed=seed,
            kernel=Linear(std=[1.0, 1.0]),
            discount=DISCOUNT,
            action_units="own",
            **grid.settings,
        )
        return _learned(learner, grid.data, look)

    return _by_radius(grid, learn)


def pendulums(grid: Grid, spread: float, seed: int) -> Answer:
    """Learn policies of pendulums by the trust region."""
    tasks = task_set(f"pendulums:{grid.machines}", seed=seed, spread=spread)
    unseen = task_set(f"pendulums:unseen:{grid.machines}", seed=seed, spread=spread)

    def look(learner: CrossLearner) -> Answer:
        entries = returns_of([learner.policy(i) for i in range(len(tasks))], tasks, grid.trials)
        centre = returns_of([learner.central] * len(unseen), unseen, grid.trials)
        # The sweep compares discounted returns.
        return {
            "own": float(np.mean(entries["totals"])),
            "held_out": float(np.mean(centre["discounted"])),
        }

    def learn(radius: Radius) -> Answer:
        asked: Answer = {"method": "trust-region", "epsilon": radius, "seed": seed}
        return _learned(CrossLearner(tasks, **asked, **grid.settings), grid.data, look)

    return _by_radius(grid, learn)


# Models -------------------------------------------------------------------------------------


def models(grid: Grid, spread: float, seed: int) -> Answer:
    """Learn policies of pendulums in models of them."""
    tasks = task_set(f"pendulums:{grid.machines}", seed=seed, spread=spread)

    def look(learner: CrossLearner) -> Answer:
        entries = returns_of([learner.policy(i) for i in range(len(tasks))], tasks, grid.trials)
        return {"own": float(np.mean(entries["totals"]))}

    def learn(radius: Radius) -> Answer:
        asked: Answer = {"method": "models", "model_epsilon": radius, "seed": seed}
        return _learned(CrossLearner(tasks, **asked, **grid.settings), grid.data, look)

    return _by_radius(grid, learn)


def errors(grid: Grid, spread: float, seed: int) -> Answer:
    """Fit models to the same random steps of pendulums, and see what they tell of others.

    Errors are in per cent of the spread of what happened, and negative, so that more is better.
    The last two rows are one-step errors too: with every output's radius as the data chose it, and
    as it would have been best.
    """
    tasks = task_set(f"pendulums:{grid.machines}", seed=seed, spread=spread)
    kinds = {radius: kind for kind, radius in KINDS.items()}
    result = []
    for steps in grid.data:
        # One round of random steps, and policies that are hardly better.
        asked: Answer = {
            "method": "models",
            "seed": seed,
            "round_steps": steps,
            "updates_per_round": 1,
        }
        text = model_errors(CrossLearner(tasks, **asked, **grid.settings).learn(1), seed=seed)
        by = {one.kind: one for one in text.kinds}
        chosen = np.array([curve.error for curve in text.curves])
        least = np.array([min(curve.error, *curve.errors) for curve in text.curves])
        result.append(
            {
                "one step": [-100.0 * by[kinds[r]].one_step[OVERALL].value for r in grid.radii],
                "25 steps": [-100.0 * by[kinds[r]].ahead[OVERALL].value for r in grid.radii],
                "chosen": -100.0 * float(np.sqrt(np.mean(chosen**2))),
                "hindsight": -100.0 * float(np.sqrt(np.mean(least**2))),
            }
        )
    # Radii by data, as the other parts have it.
    return {name: np.array([one[name] for one in result]).T.tolist() for name in result[0]}


def identified(grid: Grid, spread: float, seed: int) -> Answer:
    """Identify carts from a few noisy steps, and act as would be best if they were so.

    Everything but the data is in closed form: linear regressions, and the best gain of what they
    found. The data's choice is the radius with the largest evidence.
    """
    systems = _carts(spread, grid.machines, seed, 0)
    draw = np.random.default_rng([seed, 2])
    steps = max(grid.data)
    starts = draw.uniform(-1.0, 1.0, (grid.machines, 2))
    actions = draw.uniform(-1.0, 1.0, (grid.machines, steps, 1))
    moved = NOISE * draw.standard_normal((grid.machines, steps, 2))
    inputs, changes = np.empty((grid.machines, steps, 3)), np.empty((grid.machines, steps, 2))
    for i, system in enumerate(systems):
        x, A, B = starts[i], np.array(system.A), np.array(system.B)
        for t in range(steps):
            inputs[i, t] = [*x, *actions[i, t]]
            changes[i, t] = A @ x + B @ actions[i, t] + moved[i, t] - x
            x = x + changes[i, t]
    radii = [radius for radius in grid.radii if radius is not None]
    result = []
    for count in grid.data:
        regression = CrossRegression(Linear(std=[1.0] * 3), grid.machines, 2, noise=NOISE)
        for i in range(grid.machines):
            regression.add(i, inputs[i, :count], changes[i, :count])
        fits: dict[Radius, CrossFit] = {radius: regression.fit(radius) for radius in radii}
        fits[None] = max(fits.values(), key=lambda fit: fit.log_evidence())
        result.append([_lost_by(systems, fits[radius]) for radius in grid.radii])
    return {"own": np.transpose(result).tolist()}


def _lost_by(systems: Sequence[LinearQuadratic], fit: CrossFit) -> float:
    """Return what carts lose, on the mean, whose policies are the best for what was identified."""
    slopes = fit.family(np.eye(3))  # (3, N + 1, 2): of every input, function and output
    lost = []
    for i, system in enumerate(systems):
        text = system.replace(A=np.eye(2) + slopes[:2, i].T, B=slopes[2:, i].T)
        try:
            gain = text.best_gain(DISCOUNT)
        except np.linalg.LinAlgError:  # there is no best one: it is left alone
            gain = np.zeros((1, 2))
        lost.append(_lost(system, gain))
    return float(np.mean(lost))


# The map ------------------------------------------------------------------------------------

_ENDS = (0.0, None, math.inf)
PARTS: dict[str, Callable[[Grid, float, int], Answer]] = {
    "identified": identified,
    "carts": carts,
    "pendulums": pendulums,
    "errors": errors,
    "models": models,
}
GRIDS = {
    "identified": Grid(
        (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, None, math.inf), (5, 10, 20, 50, 200), seeds=30
    ),
    "carts": Grid((0.0, 0.1, 0.3, 1.0, 3.0, math.inf), (400, 1000, 4000), seeds=10),
    "pendulums": Grid((0.0, 0.3, 1.0, 3.0, math.inf), (2400, 8000, 24000), seeds=5),
    "errors": Grid(_ENDS, (10, 25, 50), seeds=4),
    "models": Grid(_ENDS, (25, 50), seeds=3, settings={"round_steps": 25}),
}
_FEW: Answer = {"seeds": 2, "spreads": (0.0, 1.0), "machines": 2, "trials": 2}
_QUICK = {"rollouts": 2, "look_ahead": 3, "max_knots": 20}
#: The same in seconds, for trying it out.
SMALL = {
    "identified": Grid((0.0, 0.2, None, math.inf), (5, 20), **_FEW),
    "carts": Grid((0.0, 0.3, 1.0, math.inf), (200, 400), **_FEW),
    "pendulums": Grid((0.0, 1.0, math.inf), (1200,), **_FEW, settings={"max_knots": 20}),
    "errors": Grid(_ENDS, (10,), **_FEW, settings=_QUICK),
    "models": Grid(
        _ENDS,
        (10, 20),
        **_FEW,
        settings={"round_steps": 10, "updates_per_round": 1, "samples": 1, **_QUICK},
    ),
}


def measured(part: str, grid: Grid, spread: float, seed: int) -> Answer:
    """Measure a part at one spread and seed."""
    with threadpool_limits(1, user_api="blas"):
        return PARTS[part](grid, spread, seed)


def questions(part: str, grid: Grid, out: Path) -> Iterator[Measurement]:
    """Yield what is to be measured of a part, all spreads of a seed before the next seed."""
    for seed in range(grid.seeds):
        for spread in grid.spreads:
            asked = {
                "version": VERSION,
                "seed": seed,
                "spread": spread,
                "radii": [plain_epsilon(radius) for radius in grid.radii],
                "data": list(grid.data),
                "machines": grid.machines,
                "trials": grid.trials,
                "settings": dict(grid.settings),
            }
            path = out / part / f"spread-{spread:g}-seed-{seed}.json"
            yield Measurement(path, asked, measured, (part, grid, spread, seed))
