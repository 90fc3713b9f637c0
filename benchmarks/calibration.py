"""Do the bands of dynamics models cover? Particles beside real machines under the same policies.

``python -m benchmarks.calibration [family ...]`` learns as ``models`` does, then runs the policies
for fresh episodes with the noise of exploration. From states along them particles start, each in a
posterior sample of the models, with the same policy and the same noise. A band lies between two
order statistics of the particles; a calibrated one of 90 % holds nine in ten of the real
observations and rewards. Imagined steps have no noise of their own, nor has a band. Coordinates
that never change are left out.

Members of a family are drawn by the seed. A number is the mean over seeds with Student's 95 %
interval. Every seed is kept in a file, and the same question is not measured twice. The bands were
not tuned on the families from ``quadrotors`` on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)

from benchmarks.seeds import answers, print_table
from benchmarks.table import Row
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner
from crosslearning._base.statistics import student
from crosslearning.learner.model_based.dynamics import world_of
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import plan_episodes
from crosslearning.tasks import task_set

OUT = Path("runs/calibration")
VERSION = 2
#: Members, and how many times the steps asked for each gets.
FAMILIES = {
    "pendulums": ("pendulums:8", 1),
    "cart-poles": ("cart-poles:6", 2),
    "reachers": ("reachers:4", 1),
    "hovering-masses": ("hovering-masses:6", 1),
    "two-tanks": ("two-tanks:6", 1),
    "quadrotors": ("quadrotors:6", 2),
    "reactors": ("reactors:6", 1),
    "dc-motors": ("dc-motors:6", 1),
    "two-rooms": ("two-rooms:6", 1),
    "four-tanks": ("four-tanks:6", 1),
    "synchronous-motors": ("synchronous-motors:6", 1),
    "patients": ("patients:6", 1),
}
#: Steps ahead, and how often the 90 % bands shall cover there.
AHEAD = {1: (0.85, 0.95), 25: (0.80, 0.97)}
#: Every rank of a real value among 99 particles is as likely as another.
PARTICLES = 99
#: Fresh episodes of each task, and the steps from one start of particles to the next.
EPISODES, STRIDE = 3, 5
#: Episodes on each task of which returns are means.
TRIALS = 50
#: A range of changes below this is rounding.
_CONSTANT = 1e-9


def ranks(learner: CrossLearner, seed: int) -> dict[int, tuple[list[str], Floats]]:
    """Return names of outputs and the real values' ranks among the particles, (outputs, n).

    A rank is the share of the particles below the real value.
    """
    method, tasks = cast("Any", learner.method), learner.tasks
    policies, dynamics = learner._core.iterate.policies, method.dynamics
    N, q, generator = len(tasks), tasks[0].observation_size, np.random.default_rng([seed, 25])
    horizon, longest = max(task.horizon for task in tasks), max(AHEAD)
    plan = plan_episodes(generator, tasks, EPISODES, horizon, method.noise.std)
    episodes = learner._executor.episodes(policies, plan)
    total = N + len(method.related)
    shapes = [(PARTICLES, total + 1, len(fit.family.knots), 1) for fit in dynamics.fits]
    drawn = dynamics.functions(N, [generator.standard_normal(shape) for shape in shapes])
    world = world_of(drawn, dynamics.frame, method.bounds, controlled=method.controlled)
    result: dict[int, list[Floats]] = {ahead: [] for ahead in AHEAD}
    for i in range(N):
        part = episodes.of_task(i)
        given = learner._executor.scale.inverse(part.actions)
        begins = [
            (e, slice(t, t + longest))
            for e, length in enumerate(part.lengths.tolist())
            for t in range(0, length - longest + 1, STRIDE)
        ]
        if not begins:
            continue
        before, after = (
            np.array([observed[e, steps] for e, steps in begins])
            for observed in (part.observations[:, :-1], part.observations[:, 1:])
        )
        actions = np.array([given[e, steps] for e, steps in begins])
        rewards = np.array([part.rewards[e, steps] for e, steps in begins])
        asked = policies.each(before.reshape(-1, q), np.full(before.size // q, i))
        noise = actions - asked.reshape(actions.shape)
        n, S = len(begins), PARTICLES
        starts, same = (np.repeat(one, S, axis=0) for one in (before[:, 0], noise))
        model = i + N * np.tile(np.arange(S), n)
        path = imagine(policies, world, starts, np.full(n * S, i), model, same)
        for ahead in AHEAD:
            moved = path.states[:, ahead].reshape(n, S, q) - after[:, None, ahead - 1]
            wrapped = (moved + np.pi) % (2.0 * np.pi) - np.pi
            moved = np.where(dynamics.frame.is_angle == 1, wrapped, moved)
            earned = path.rewards[:, ahead - 1].reshape(n, S) - rewards[:, None, ahead - 1]
            apart = np.concatenate([moved, earned[:, :, None]], axis=2)
            # Where a bound cuts both, they tie.
            result[ahead].append(np.mean((apart < 0.0) + 0.5 * (apart == 0.0), axis=1))
    changes = np.ptp(np.diff(episodes.observations, axis=2), axis=(0, 1, 2))
    kept = np.append(np.flatnonzero(changes > _CONSTANT), q)
    names = ["reward" if o == q else f"observation {o}" for o in kept]
    return {ahead: (names, np.concatenate(parts)[:, kept].T) for ahead, parts in result.items()}


def covered(ranks: Floats, level: float) -> Floats:
    """Return how often the central band of a level holds the real value, by output."""
    return np.asarray(np.mean(np.abs(ranks - 0.5) < 0.5 * level, axis=-1))


def measure(seed: int, family: str, steps: int) -> dict[str, Any]:
    """Learn with one seed; return the coverage by steps ahead, level and output."""
    tasks = task_set(family, seed=seed)
    learner = CrossLearner(tasks, method="models", seed=seed)
    learner.learn(steps=steps * len(tasks))
    policies = [learner.policy(i) for i in range(len(tasks))]
    result: dict[str, Any] = {"returns": returns_of(policies, tasks, TRIALS)}
    for ahead, (names, found) in ranks(learner, seed).items():
        result[str(ahead)] = {
            f"{level:.0%}": dict(zip(names, covered(found, level).tolist(), strict=True))
            for level in (0.5, 0.9)
        }
    return result


def rows_of(part: str, seeds: int, steps: int, out: Path) -> list[Row]:
    """Measure every seed of a family that was not measured before; return its rows."""
    family, times = FAMILIES[part]
    question = {"version": VERSION, "family": family, "steps": times * steps}
    found = answers(out / part, seeds, question, measure, family, times * steps)
    rows = []
    for ahead, (low, high) in AHEAD.items():
        of_seeds = [one[str(ahead)] for one in found]
        half, most = (
            student([float(np.mean(list(one[level].values()))) for one in of_seeds])
            for level in ("50%", "90%")
        )
        each = {
            name: f"{np.mean([one['90%'][name] for one in of_seeds if name in one['90%']]):.2f}"
            for name in of_seeds[0]["90%"]
        }
        text = f"90 % bands {most.percent()}, 50 % bands {half.percent()}; by output "
        text += ", ".join(f"{name} {value}" for name, value in each.items())
        what = f"{family}, {times * steps} steps each, {seeds} seeds, {ahead} ahead: coverage"
        met = bool(low <= most.value <= high)
        rows.append(Row(what, text, most.value, f"{low:.0%} to {high:.0%}", met))
    totals = np.array([one["returns"]["totals"] for one in found])
    mean, worst = student(totals.mean(axis=1)), totals.min(axis=1)
    text = f"{mean}; worst machine of each seed {np.sort(worst).round(1).tolist()}"
    if "upright" in found[0]["returns"]["rates"]:
        rates = np.array([one["returns"]["rates"]["upright"] for one in found])
        solved = int(np.sum(rates.min(axis=1) >= 0.9))
        text += f"; every machine ≥ 90 % upright on {solved} of {seeds} seeds"
    rows.append(Row("the same, return of the policies", text, mean.value, "", None))
    return rows


if __name__ == "__main__":
    print_table(__doc__, rows_of, OUT, 100, list(FAMILIES))
