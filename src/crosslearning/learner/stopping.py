"""The stopping rule: when a run is at a near-stationary point, and how sure that is.

The paper stops when the estimated gap of an iteration is at most α. The estimate comes from a few
samples, and a run looks at thousands of them, so that sooner or later noise alone stops it. Here
a batch of its own is drawn now and then, and the run stops when upper confidence bounds of all
gaps are at most α. The levels of the bounds are such that the errors of all checks add up to δ:
with probability at least 1 − δ a run that stops has stopped where every true gap is at most α.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.gradients.sampling import Sampling, Units, draw_plans, run_plans
from crosslearning.gradients.statistics import GradientMean
from crosslearning.learner.core import Core
from crosslearning.learner.report import GapCheck, IterationReport
from crosslearning.rkhs import Family

Floats = NDArray[np.float64]


class GapSample(NamedTuple):
    """What the gap of one task needs, from a batch of independent gradient estimates.

    Attributes
    ----------
    mean : GradientMean
    towards : array, shape (U,)
        ⟨estimate, g − h_i⟩.
    units : Units
        The estimates themselves.
    """

    mean: GradientMean
    towards: Floats
    units: Units


def sample_gaps(
    sampling: Sampling, family: Family, samples: int, generator: np.random.Generator
) -> tuple[list[GapSample], int]:
    """Return a :class:`GapSample` for every task, and the environment steps that it took.

    Parameters
    ----------
    sampling : Sampling
    family : Family
        h_1 … h_N and g.
    samples : int
        Per task, a number that ``sampling.count`` returned.
    generator : Generator
    """
    expansion = family.expansion
    units, steps = run_plans(sampling, expansion, draw_plans(sampling, samples, generator))
    result = []
    for i, own in enumerate(units):
        U, B, q = own.knots.shape
        values = expansion(own.knots.reshape(U * B, q)).reshape(U, B, family.functions, -1)
        towards = own.along(values[:, :, -1] - values[:, :, i])
        result.append(GapSample(GradientMean.of(sampling.kernel, own), towards, own))
    return result, steps


def check_level(number: int, tasks: int, delta: float) -> float:
    """Return the confidence of a bound in check ``number``, from 1: Σ_j 1/(j(j+1)) = 1."""
    return 1.0 - delta / (number * (number + 1) * tasks)


def check_gaps(core: Core) -> GapCheck:
    """Return upper bounds of the gaps of the present policies, from a batch of its own.

    Its random numbers depend on the run's seed and the iteration alone, and the run's generator
    is not touched: a run learns the same with checks and without.
    """
    settings = core.settings
    number = core.iteration // settings.check_every
    level = check_level(number, len(core.tasks), settings.check_delta)
    generator = np.random.default_rng([settings.seed, core.iteration])
    samples = core.sampling.count(settings.check_batch)
    gaps, steps = sample_gaps(core.sampling, core.family, samples, generator)
    bounds = np.array(
        [
            gap.mean.upper_bound(gap.towards, radius, level)
            for gap, radius in zip(gaps, core.radii(), strict=True)
        ]
    )
    return GapCheck(number, bounds, level, samples, steps)


def judge(core: Core, report: IterationReport) -> IterationReport:
    """Return the report of the iteration just made with the stopping rule's say."""
    settings = core.settings
    if settings.alpha is None:
        return report
    if settings.stopping == "batch":
        return dataclasses.replace(report, stop=report.gap <= settings.alpha)
    if core.iteration % settings.check_every:
        return report
    check = check_gaps(core)
    core.steps += check.steps
    return dataclasses.replace(report, check=check, stop=check.bound <= settings.alpha)
