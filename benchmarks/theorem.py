"""The theorem's statements by simulation, on tasks whose true gradients are known.

``python -m benchmarks.theorem``: three tables, about seven minutes on an idle core. The tasks are
those of ``benchmarks.scalar_tasks``; every share has Wilson's 95 % interval.

1. The gain of an iteration: measured, the corrected bound, the printed γ_F.
2. One look: how often a rule stops at a point that is worse than α', and how often an error
   exceeds what Markov's inequality allows for.
3. Many looks: the paper's rule over a whole run, for several step sizes, against a rule that
   looks a bounded number of times, at batches large enough for so many looks.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.scalar_tasks import ScalarTasks, gaps, project
from crosslearning._base.statistics import Interval, wilson
from crosslearning.reproduction.theorem import (
    Constants,
    accuracy,
    batch_for,
    gain,
    printed_accuracy,
    printed_gain,
    simultaneous_error,
)

Floats = NDArray[np.float64]

EPSILON = 0.1
#: The part of the line that the runs visit. The constants are suprema over it.
REGION = (-1.1, -0.3)
#: Where the centre begins: every task gains by a smaller gain.
CENTRE = -0.45
#: Steps so short that a run stays near its start, and where it stays.
SHORT_STEP = 1e-5
NEAR_START = (CENTRE - EPSILON - 0.01, CENTRE + EPSILON + 0.01)


def constants_of(
    tasks: ScalarTasks, batch: int, step: float, region: tuple[float, float] = REGION
) -> Constants:
    """Return the exact constants: suprema over the region, on a fine grid."""
    grid = np.linspace(*region, 401)[:, None] + np.zeros_like(tasks.A)
    deviations, slopes = tasks.deviations(grid), np.abs(tasks.gradients(grid))
    return Constants(
        deviation=deviations.max(axis=0),
        gradient_norm=slopes.max(axis=0),
        second_moment=np.sqrt(deviations**2 / batch + slopes**2).max(axis=0),
        lipschitz=np.abs(tasks.curvatures(grid)).max(axis=0),
        batch_size=batch,
        epsilon=EPSILON,
        step_size=step,
        budget=0.0,
    )


def region_of(step: float) -> tuple[float, float]:
    """Return the region that runs with this step visit."""
    return NEAR_START if step <= SHORT_STEP else REGION


def check_region(gains: Floats, region: tuple[float, float]) -> None:
    """Refuse results for which the constants were not taken."""
    if gains.min() < region[0] or gains.max() > region[1]:
        raise RuntimeError("an iterate left the region over which the constants were taken")


def start(tasks: ScalarTasks) -> tuple[Floats, Floats]:
    """Return gains and their centre: one task still has everything to gain.

    The last task, the steepest, is on the far side of the ball around the centre. The others
    have gone as far as they may.
    """
    gains = np.full(len(tasks.A), CENTRE - EPSILON)
    gains[-1] = CENTRE + EPSILON
    return gains, np.array(CENTRE)


# 1. The gain of an iteration -------------------------------------------------------------


@dataclass(frozen=True)
class GainRow:
    """What an iteration gained, beside both bounds at an α just below the largest gap."""

    tasks: int
    step: float
    measured: Interval
    corrected: float
    printed: float


def gain_row(tasks: ScalarTasks, step: float, batch: int, trials: int, seed: int) -> GainRow:
    """Make one iteration ``trials`` times from the same start."""
    generator = np.random.default_rng([seed, 1, len(tasks.A), round(1e6 * step)])
    gains, centre = start(tasks)
    constants = constants_of(tasks, batch, step)
    alpha = 0.999 * float(gaps(tasks.gradients(gains), gains, centre, EPSILON).max())
    here = np.broadcast_to(gains, (trials, len(gains)))
    moved = here + step * tasks.sample(here, batch, generator)
    after, _ = project(moved, np.full(trials, CENTRE), EPSILON)
    check_region(after, REGION)
    rises = (tasks.returns(after) - tasks.returns(here)).sum(axis=1)
    half = 1.96 * float(rises.std(ddof=1)) / math.sqrt(trials)
    mean = float(rises.mean())
    measured = Interval(mean, mean - half, mean + half)
    return GainRow(
        len(gains), step, measured, gain(constants, alpha), printed_gain(constants, alpha)
    )


# 2. One look -----------------------------------------------------------------------------


@dataclass(frozen=True)
class LookRow:
    """Shares over single looks; each should be at most δ."""

    noise: str
    tasks: int
    delta: float
    false_stop: Interval
    error_beyond_printed: Interval
    error_beyond_sum: Interval


def look_row(tasks: int, delta: float, batch: int, trials: int, seed: int, noise: str) -> LookRow:
    """Look once at a point whose worst task has a gap just above the printed α'.

    That task is on the far side of the ball, where an error counts in full; the others are
    stationary. The noise of the gradients is that of the estimator ("antithetic"), or the one
    for which Markov's inequality is an equality ("two-point").
    """
    generator = np.random.default_rng([seed, 2, tasks, round(1e6 * delta)])
    systems = ScalarTasks(np.full(tasks, 0.8), np.full(tasks, 0.5))
    best = systems.best()
    gains = best.copy()
    gains[0] = best[0] + 2.0 * EPSILON
    centre = best[:1] + EPSILON
    if noise == "antithetic":
        sigma = systems.deviations(gains)
        errors = systems.sample(np.broadcast_to(gains, (trials, tasks)), batch, generator)
        errors = errors - systems.gradients(gains)
    else:
        # ± just beyond ξ with probability δ in all, else 0: E e² = σ²/b, up to the sixth digit.
        sigma = np.ones(tasks)
        size = 1.000001 / math.sqrt(delta * batch)
        signs = np.sign(generator.uniform(-1.0, 1.0, (trials, tasks)))
        errors = size * signs * (generator.uniform(size=(trials, tasks)) < delta)
    unit = np.zeros(tasks)
    constants = Constants(sigma, unit, unit, unit, batch, EPSILON, 1.0, 0.0)
    # A gradient of the first task with which its gap is just above α'.
    alpha = 2.0 * EPSILON * float(sigma[0]) / math.sqrt(delta * batch)
    bad = 1.0000001 * printed_accuracy(constants, alpha, delta)
    slopes = np.zeros(tasks)
    slopes[0] = -bad / (2.0 * EPSILON)
    seen = gaps(slopes + errors, gains, centre, EPSILON)
    stops = np.all(seen <= alpha, axis=1)
    largest = np.abs(errors).max(axis=1)
    allowed = float(sigma.max()) / math.sqrt(delta * batch)
    together = simultaneous_error(constants, delta) / constants.reach
    return LookRow(
        noise, tasks, delta, wilson(stops), wilson(largest > allowed), wilson(largest > together)
    )


# 3. Many looks ---------------------------------------------------------------------------


@dataclass(frozen=True)
class RunRow:
    """How runs ended: shares of all runs, and the median number of looks."""

    rule: str
    tasks: int
    step: float
    stopped_well: Interval
    stopped_badly: Interval
    delta: float
    looks: float


@dataclass(frozen=True)
class Rule:
    """When a run looks and at what: every ``every`` iterations, at ``batch`` samples.

    ``batch`` 0 is the paper's rule: it looks at the batch that makes the step. With ``bound`` no
    more looks are taken than that.
    """

    name: str
    alpha: float
    alpha_prime: float
    step_batch: int
    every: int = 1
    batch: int = 0
    bound: int = 10**9


def run_row(
    tasks: ScalarTasks,
    rule: Rule,
    delta: float,
    step: float,
    iterations: int,
    trials: int,
    seed: int,
) -> RunRow:
    """Run Algorithm 2 until the rule stops it, ``trials`` times side by side."""
    generator = np.random.default_rng([seed, 3, len(tasks.A), round(1e6 * step), rule.batch])
    first, _ = start(tasks)
    gains, centre = np.tile(first, (trials, 1)), np.full(trials, CENTRE)
    ended, well = np.zeros(trials, bool), np.zeros(trials, bool)
    looks = np.zeros(trials, np.int64)
    for k in range(iterations):
        alive = np.flatnonzero(~ended)
        if len(alive) == 0 or looks[alive[0]] >= rule.bound:
            break
        h, g = gains[alive], centre[alive]
        slopes = tasks.sample(h, rule.step_batch, generator)
        if k % rule.every == 0:
            looks[alive] += 1
            seen = tasks.sample(h, rule.batch, generator) if rule.batch else slopes
            stop = np.all(gaps(seen, h, g, EPSILON) <= rule.alpha, axis=1)
            true = gaps(tasks.gradients(h), h, g, EPSILON).max(axis=1)
            ended[alive], well[alive] = stop, stop & (true <= rule.alpha_prime)
        gains[alive], centre[alive] = project(h + step * slopes, g, EPSILON)
        check_region(gains, region_of(step))
    return RunRow(
        rule.name,
        len(tasks.A),
        step,
        wilson(well),
        wilson(ended & ~well),
        delta,
        float(np.median(looks)),
    )


def rules(tasks: ScalarTasks, delta: float, bound: int, step: float) -> list[Rule]:
    """Return two rules that promise the same α' with P ≥ 1 − δ.

    The printed rule tests α = 0.6 α' on the batch of the step, which is just large enough for the
    printed theorem. The bounded one takes small batches for its steps and looks ``bound`` times,
    at fresh batches that are large enough for so many looks.
    """
    gains, centre = start(tasks)
    alpha_prime = 0.99 * float(gaps(tasks.gradients(gains), gains, centre, EPSILON).max())
    alpha = 0.6 * alpha_prime
    constants = constants_of(tasks, 1, step, region_of(step))
    batch = batch_for(constants, alpha, alpha_prime, delta)
    large = batch_for(constants, alpha, alpha_prime, delta, bound)
    if batch is None or large is None:
        raise RuntimeError("no batch is large enough")
    sized = constants.replace(batch_size=batch)
    if not math.isclose(
        printed_accuracy(sized, alpha, delta), accuracy(sized, alpha, delta), rel_tol=1e-12
    ):
        raise RuntimeError("the two accuracies of one look differ")
    name = f"{bound} looks"
    return [
        Rule("printed", alpha, alpha_prime, batch),
        Rule(name, alpha, alpha_prime, 16, every=40, batch=large, bound=bound),
    ]


# The command -----------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    console = Console(width=None if Console().is_terminal else 120)
    trials, seed = options.trials, options.seed
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        work = progress.add_task("simulating", total=8 + 12 + 18)

        def advance() -> None:
            progress.advance(work)

        first = Table(title=f"1. The gain of an iteration ({trials} trials, batch 256)")
        for name in ("tasks", "η", "measured", "corrected bound", "printed γ_F"):
            first.add_column(name, justify="right")
        for tasks in (1, 3):
            for step in (0.001, 0.01, 0.1, 0.5):
                row = gain_row(ScalarTasks.spread(tasks), step, 256, trials, seed)
                first.add_row(
                    str(tasks),
                    f"{step:g}",
                    str(row.measured),
                    f"{row.corrected:.3g}",
                    f"{row.printed:.3g}",
                )
                advance()
        second = Table(title=f"2. One look ({10 * trials} trials, batch 16)")
        for name in ("noise", "tasks", "δ", "false stop", "some error > ξ", "> ξ of the sum"):
            second.add_column(name, justify="right")
        for noise in ("antithetic", "two-point"):
            for delta in (0.05, 0.2):
                for tasks in (1, 3, 8):
                    look = look_row(tasks, delta, 16, 10 * trials, seed, noise)
                    second.add_row(
                        noise,
                        str(tasks),
                        f"{delta:g}",
                        str(look.false_stop),
                        str(look.error_beyond_printed),
                        str(look.error_beyond_sum),
                    )
                    advance()
        third = Table(title=f"3. Many looks ({trials // 2} runs of at most 400 iterations)")
        for name in ("rule", "tasks", "η", "ended ≤ α'", "ended > α'", "allowed", "median looks"):
            third.add_column(name, justify="right")
        for tasks in (1, 3, 8):
            systems = ScalarTasks.spread(tasks)
            for step in (SHORT_STEP, 0.001, 0.1):
                for rule in rules(systems, 0.2, 10, step):
                    run = run_row(systems, rule, 0.2, step, 400, trials // 2, seed)
                    third.add_row(
                        rule.name,
                        str(tasks),
                        f"{step:g}",
                        str(run.stopped_well),
                        str(run.stopped_badly),
                        f"{run.delta:g}",
                        f"{run.looks:g}",
                    )
                    advance()
    for table in (first, second, third):
        console.print(table)


if __name__ == "__main__":
    main()
