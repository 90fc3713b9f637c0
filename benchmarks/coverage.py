"""How often intervals over seeds hold the truth: ``python -m benchmarks.coverage``.

Samples of 3, 5, 10 and 20 seeds are drawn from distributions that are known, and it is counted in
how many of them an interval of 95 % holds what it is meant for: the interquartile mean or the mean
of the distribution, or a difference or a ratio of two of them. The tables are printed as Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks import intervals
from crosslearning._base.statistics import Interval, student
from crosslearning.runs.study import markdown

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]

SEEDS = (3, 5, 10, 20)
#: Seeds of ours and of a rival in the race.
PAIR = (10, 5)
#: Numbers by which the true values are known.
_MANY = 2_000_000


def _learned(share: float) -> Draw:
    """Return returns of which a share is about 0 and the others are about −10, both ± 1."""
    return lambda g, size: g.standard_normal(size) - 10.0 * (g.random(size) >= share)


DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda g, size: g.standard_normal(size),
    "moderately skewed: gamma, skewness 1": lambda g, size: g.gamma(4.0, size=size),
    "skewed: exponential, skewness 2": lambda g, size: g.exponential(size=size),
    "very skewed: log-normal, skewness 6": lambda g, size: np.exp(g.standard_normal(size)),
    "heavy-tailed: Student's t, 3 degrees of freedom": lambda g, size: g.standard_t(3, size),
    "bimodal: learned on 80 % of seeds": _learned(0.8),
    "bimodal: learned on half of the seeds": _learned(0.5),
}


def percentile_bootstrap(values: Floats, generator: np.random.Generator) -> Interval:
    """Return the interquartile mean with the interval that covers too little, for comparison."""
    drawn = values[generator.integers(len(values), size=(500, len(values)))]
    low, high = np.quantile(intervals.interquartile_mean(drawn), (0.025, 0.975))
    return Interval(float(intervals.interquartile_mean(values)), float(low), float(high))


def coverage(
    draw: Draw,
    of: Callable[[Floats], Interval],
    truth: float,
    seeds: int,
    samples: int,
    generator: np.random.Generator,
) -> float:
    """Return the share of samples of so many seeds whose interval holds the truth."""
    result = [of(values) for values in draw(generator, (samples, seeds))]
    return float(np.mean([one.low <= truth <= one.high for one in result]))


def over_seeds(samples: int, generator: np.random.Generator) -> str:
    """Return the table of numbers over the seeds of one method."""
    ways: dict[str, Callable[[Floats], Interval]] = {
        "interquartile mean, percentile bootstrap": lambda v: percentile_bootstrap(v, generator),
        "interquartile mean, Tukey–McLaughlin": intervals.over_seeds,
        "mean, Student's t": student,
    }
    rows = []
    for name, draw in DISTRIBUTIONS.items():
        many = draw(generator, (_MANY,))
        truths = intervals.interquartile_mean(many), many.mean()
        for way, of in ways.items():
            truth = float(truths[way.startswith("mean")])
            cells = [coverage(draw, of, truth, n, samples, generator) for n in SEEDS]
            rows.append([name, way, *(f"{100 * cell:.0f} %" for cell in cells)])
            name = ""
    return markdown(["distribution", "interval", *(f"n = {n}" for n in SEEDS)], rows)


def of_pairs(samples: int, generator: np.random.Generator) -> str:
    """Return the table of comparisons of two methods that do not share their seeds."""
    rows = []
    for name, draw in DISTRIBUTIONS.items():
        # One sample is shifted by 3 and three times as wide; for the ratio it is 3 times as large.
        middle = float(intervals.interquartile_mean(draw(generator, (_MANY,))))
        truth = 3.0 + 3.0 * middle - middle
        held = {"difference": 0, "ratio": 0}
        for _ in range(samples):
            ours, theirs = (draw(generator, (n,)) for n in PAIR)
            apart = intervals.difference_over_seeds(3.0 + 3.0 * ours, theirs)
            factor = intervals.ratio_over_seeds(3.0 * np.exp(ours), np.exp(theirs))
            held["difference"] += apart.low <= truth <= apart.high
            held["ratio"] += factor.low <= 3.0 <= factor.high
        rows.append([name, *(f"{100 * one / samples:.0f} %" for one in held.values())])
    headings = ["distribution", "difference of interquartile means, Yuen", "ratio, Mann–Whitney"]
    return markdown(headings, rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--samples", type=int, default=4000, help="of each kind (default: 4000)")
    samples, generator = parser.parse_args().samples, np.random.default_rng(0)
    print(over_seeds(samples, generator))
    print(f"Ours has {PAIR[0]} seeds and the rival {PAIR[1]}:\n")
    print(of_pairs(samples, generator))


if __name__ == "__main__":
    main()
