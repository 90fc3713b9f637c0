"""Do the certificates keep their word? Coverage over many trials, where the truth is known.

``python -m benchmarks.certificates [part ...]`` prints a table for each part:

* ``scalar``: σ_U, B_U, μ and the gap on scalar linear-quadratic tasks, against closed forms;
* ``extreme``: the same where the tails are so heavy that the certificate doubts itself;
* ``slope``: L on the tasks of ``scalar``;
* ``gaussian``: the same numbers for trained policies with a Gaussian kernel in the plane, against
  the pooled samples of all trials;
* ``standstill``: how often the stopping rules stop policies whose true gap stays just above α;
* ``stopping``: whether learners that stopped have truly arrived.

A trial is one call with fresh samples; the shares carry Wilson's 95 % intervals.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.scalar_quadratic import ScalarQuadratic
from crosslearning import CrossLearner
from crosslearning._base.statistics import Interval, wilson
from crosslearning.certificates.stationarity import TAIL_LIMIT, tail_of
from crosslearning.learner.gradients import GradientMean
from crosslearning.learner.internals import radii_of
from crosslearning.learner.sampling import draw_plans, run_plans
from crosslearning.reproduction.theorem.estimates import estimate_constants, gradient_moments
from crosslearning.rkhs import Linear
from crosslearning.tasks import LinearQuadratic

VARIANCE, DISCOUNT = 0.1, 0.8
CENTRE, RADIUS = -0.5, 0.5
MILD = LinearQuadratic([[0.8]], [[0.5]], [[1.0]], [[0.3]], [-1.0], [1.0])
#: Starts far out, so that the estimates have very heavy tails.
HEAVY = LinearQuadratic([[0.9]], [[0.5]], [[2.0]], [[0.3]], [-1.0], [3.0])


def _scalar(system: LinearQuadratic) -> ScalarQuadratic:
    return ScalarQuadratic(system, VARIANCE, DISCOUNT)


#: Systems and gains: the gradient is large, moderate, zero, small with heavy tails, and large at
#: the end of the ball that it points to, where the gap is zero.
CASES: dict[str, tuple[ScalarQuadratic, float]] = {
    "large": (_scalar(MILD), 0.0),
    "moderate": (_scalar(MILD), -0.5),
    "zero": (_scalar(MILD), _scalar(MILD).best_gain()),
    "heavy tails": (_scalar(HEAVY), 0.8 * _scalar(HEAVY).best_gain()),
    "held back": (_scalar(HEAVY), CENTRE - RADIUS),
}


#: Longer episodes and more noise: tails so heavy that the certificate calls itself doubtful.
EXTREME_VARIANCE, EXTREME_DISCOUNT = 0.3, 0.9
_EXTREME = ScalarQuadratic(HEAVY, EXTREME_VARIANCE, EXTREME_DISCOUNT)
EXTREME = {"very heavy tails": (_EXTREME, 0.95 * _EXTREME.best_gain())}


def learner_at(cases: dict[str, tuple[ScalarQuadratic, float]], **settings: object) -> CrossLearner:
    """Return a learner whose policies are M x with the given gains, and g = CENTRE x."""
    tasks = [case.system.task(name) for name, (case, _) in cases.items()]
    options = {"discount": DISCOUNT, "action_variance": VARIANCE, "epsilon": RADIUS, **settings}
    learner = CrossLearner(tasks, kernel=Linear(std=[1.0]), **options)
    gains = [gain for _, gain in cases.values()] + [CENTRE]
    extra = learner._core.dictionary.functions - len(gains)
    weights = np.array(gains + [0.0] * extra)[None, :, None]
    learner._core.dictionary.extend(np.ones((1, 1)), weights)
    return learner


def true_gap(case: ScalarQuadratic, gain: float, centre: float, radius: float) -> float:
    """Return the gap of the policy M x in closed form."""
    gradient = case.gradient(gain)
    return gradient * (centre - gain) + radius * abs(gradient)


Rows = dict[tuple[str, str], list[tuple[float, float, float]]]


def moments_and_gap(
    learner: CrossLearner, samples: int, trials: int, level: float
) -> Iterator[list[dict[str, tuple[float, float, float]]]]:
    """Yield for every trial and task the intervals, and unbiased squares for pooling."""
    sampling, family = learner.method.sampling, learner.family
    count, radii, distances = sampling.count(samples), radii_of(learner), family.distances()
    expansion = family.expansion
    for trial in track(range(trials), "trials"):
        plans = draw_plans(sampling, count, np.random.default_rng([trial, 7]))
        result = []
        for i, entries in enumerate(run_plans(sampling, expansion, plans)[0]):
            mean = GradientMean.of(sampling.kernel, entries)
            deviation, second, norm = gradient_moments(sampling, entries, mean, level)
            U, B, q = entries.knots.shape
            values = expansion(entries.knots.reshape(U * B, q)).reshape(U, B, family.functions, -1)
            towards = entries.along(values[:, :, -1] - values[:, :, i])
            gap = mean.ball_maximum(towards, distances[i], radii[i], level)
            squares = entries.ratios * entries.squares(sampling.kernel)
            pooled = (
                float(squares.mean()),
                mean.unbiased_square(entries.ratios * squares),
                float(towards.mean()),
            )
            result.append(
                {
                    "σ_U": (deviation.value, deviation.low, deviation.high),
                    "B_U": (second.value, second.low, second.high),
                    "μ": (norm.value, norm.low, norm.high),
                    "gap": (gap.value, gap.low, gap.high),
                    "pooled": pooled,
                    "tail": (tail_of(sampling, entries), 0.0, 0.0),
                }
            )
        yield result


def scalar(trials: int, samples: int, level: float, console: Console) -> None:
    _moments(CASES, learner_at(CASES), trials, samples, level, console)


def extreme(trials: int, samples: int, level: float, console: Console) -> None:
    options = {"discount": EXTREME_DISCOUNT, "action_variance": EXTREME_VARIANCE}
    _moments(EXTREME, learner_at(EXTREME, **options), trials, samples, level, console)


def _moments(
    cases: dict[str, tuple[ScalarQuadratic, float]],
    learner: CrossLearner,
    trials: int,
    samples: int,
    level: float,
    console: Console,
) -> None:
    batch = learner.settings.batch_size
    truth: dict[tuple[str, str], float] = {}
    for name, (case, gain) in cases.items():
        gradient, deviation = case.gradient(gain), case.deviation(gain)
        truth[name, "σ_U"] = deviation
        truth[name, "B_U"] = float(np.sqrt(deviation**2 / batch + gradient**2))
        truth[name, "μ"] = abs(gradient)
        truth[name, "gap"] = true_gap(case, gain, CENTRE, RADIUS)
    rows: Rows = defaultdict(list)
    tails: dict[str, list[bool]] = defaultdict(list)
    for result in moments_and_gap(learner, samples, trials, level):
        for name, entries in zip(cases, result, strict=True):
            for what in ("σ_U", "B_U", "μ", "gap"):
                rows[name, what].append(entries[what])
            tails[name].append(entries["tail"][0] > TAIL_LIMIT)
    for name, doubtful in tails.items():
        console.print(f"{name}: called doubtful in {wilson(np.array(doubtful))} of the trials")
    show(f"scalar tasks, {samples} samples, closed forms", truth, rows, level, console)


def slope(trials: int, samples: int, level: float, console: Console) -> None:
    learner = learner_at(CASES)
    samples = samples // 4
    truth = {(name, "L"): abs(case.curvature(gain)) for name, (case, gain) in CASES.items()}
    rows: Rows = defaultdict(list)
    for trial in track(range(trials), "trials"):
        for entries in estimate_constants(learner, samples, trial, level):
            result = entries.lipschitz
            rows[entries.task, "L"].append((result.value, result.low, result.high))
    show(f"slopes of scalar tasks, {samples} samples, closed forms", truth, rows, level, console)


def gaussian(trials: int, samples: int, level: float, console: Console) -> None:
    learner = CrossLearner("linear-quadratic", epsilon=0.3, step_size=0.1, max_knots=50).learn(300)
    names = [task.name for task in learner.tasks]
    batch, radii = learner.settings.batch_size, radii_of(learner)
    rows: Rows = defaultdict(list)
    pooled = defaultdict(list)
    for result in moments_and_gap(learner, samples, trials, level):
        for name, entries in zip(names, result, strict=True):
            pooled[name].append(entries.pop("pooled"))
            for what, interval in entries.items():
                rows[name, what].append(interval)
    truth = {}
    for name, radius in zip(names, radii, strict=True):
        moment, square, towards = np.mean(pooled[name], axis=0)
        truth[name, "σ_U"] = float(np.sqrt(moment - square))
        truth[name, "B_U"] = float(np.sqrt((moment - square) / batch + square))
        truth[name, "μ"] = float(np.sqrt(square))
        truth[name, "gap"] = float(towards + radius * np.sqrt(square))
    title = f"Gaussian kernel, {samples} samples, truth from {trials * samples} samples"
    show(title, truth, rows, level, console)


def standstill(trials: int, samples: int, level: float, console: Console) -> None:
    """Policies that do not move, with a gap 2 % above α, looked at for 200 iterations."""
    del samples, level
    table = Table(title=f"true gap 2 % above α, 200 iterations, 20 checks, {trials} runs")
    for column in ("case", "rule", "stopped, wrongly", "allowed"):
        table.add_column(column)
    for name in ("moderate", "heavy tails"):
        alpha = true_gap(*CASES[name], CENTRE, RADIUS) / 1.02
        for rule in ("checked", "batch"):
            wrong = []
            for seed in track(range(trials), f"{name}, {rule}"):
                learner = learner_at(
                    {name: CASES[name]},
                    step_rule="constant",
                    step_size=1e-12,
                    alpha=alpha,
                    stopping=rule,
                    check_every=10,
                    seed=seed,
                ).learn(200, progress=False)
                wrong.append(learner.iteration < 200)
            allowed = "5 %" if rule == "checked" else ""
            table.add_row(name, rule, _share(wilson(np.array(wrong))), allowed)
    console.print(table)


def stopping(trials: int, samples: int, level: float, console: Console) -> None:
    """Learners that start at zero and learn until their rule stops them."""
    del samples, level
    systems = {"mild": _scalar(MILD), "heavy tails": _scalar(HEAVY)}
    alpha, limit = 0.02, 1000
    table = Table(title=f"learning until the gap is at most {alpha}, {trials} runs")
    for column in ("rule", "runs that stopped", "truly at an α-FOSP", "promised", "iterations"):
        table.add_column(column)
    for rule in ("checked", "batch"):
        stopped, right, iterations = [], [], []
        for seed in track(range(trials), rule):
            tasks = [system.system.task(name) for name, system in systems.items()]
            learner = CrossLearner(
                tasks,
                epsilon=0.1,
                kernel=Linear(std=[1.0]),
                discount=DISCOUNT,
                action_variance=VARIANCE,
                step_size=0.02,
                step_decay=100.0,
                alpha=alpha,
                stopping=rule,
                check_every=5,
                seed=seed,
            ).learn(limit, progress=False)
            stopped.append(learner.iteration < limit)
            if not stopped[-1]:
                continue
            gains = learner.family(np.ones(1))[:, 0]
            pairs = zip(systems.values(), gains[:-1], strict=True)
            gaps = [true_gap(system, gain, gains[-1], 0.1) for system, gain in pairs]
            right.append(max(gaps) <= alpha)
            iterations.append(learner.iteration)
        table.add_row(
            rule,
            _share(wilson(np.array(stopped))),
            _share(wilson(np.array(right))) if right else "",
            "95 %" if rule == "checked" else "",
            f"{np.median(iterations):.0f}" if iterations else "",
        )
    console.print(table)


def _share(rate: Interval) -> str:
    return f"{100 * rate.value:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def show(title: str, truth: dict, rows: Rows, level: float, console: Console) -> None:
    """Print how often the intervals held the truth."""
    table = Table(title=f"{title}; wanted {100 * level:g} %")
    for column in ("case", "estimate", "truth", "median interval", "trials", "coverage"):
        table.add_column(column)
    for (name, what), intervals in rows.items():
        known, result = truth[name, what], np.array(intervals)
        # A truth of zero, as computed, and a bound of zero differ by rounding.
        tolerance = 1e-12 * max(1.0, abs(known))
        inside = (result[:, 1] <= known + tolerance) & (known <= result[:, 2] + tolerance)
        low, high = np.median(result[:, 1:], axis=0)
        table.add_row(
            name, what, f"{known:.4g}", f"[{low:.4g}, {high:.4g}]", str(len(result)),
            _share(wilson(inside)),
        )  # fmt: skip
    console.print(table)


PARTS: dict[str, Callable[[int, int, float, Console], None]] = {
    "scalar": scalar,
    "extreme": extreme,
    "slope": slope,
    "gaussian": gaussian,
    "standstill": standstill,
    "stopping": stopping,
}


def main() -> None:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"which (default: all): {list(PARTS)}")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--confidence", type=float, default=0.95)
    arguments = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 140)
    for part in arguments.parts or PARTS:
        if part not in PARTS:
            parser.error(f"no such part {part!r}; known: {', '.join(PARTS)}")
        with threadpool_limits(1, user_api="blas"):
            PARTS[part](arguments.trials, arguments.samples, arguments.confidence, console)


if __name__ == "__main__":
    main()
