"""The stopping rule: when a run is at a near-stationary point, and how sure that is.

The paper stops when the estimated gap of an iteration is at most α. The estimate comes from a few
samples, and a run looks at thousands of them, so that sooner or later noise alone stops it. Here
a batch of its own is drawn now and then, and the run stops when upper confidence bounds of all
gaps are at most α. The levels of the bounds are such that the errors of all checks add up to δ:
with probability at least 1 − δ a run that stops has stopped where every true gap is at most α.
"""

from __future__ import annotations

import numpy as np

from crosslearning.learner.iterate import Iterate
from crosslearning.learner.policy_gradient.settings import PolicyGradient
from crosslearning.learner.report import GapCheck
from crosslearning.learner.sampling import Sampling, sample_gaps


def check_level(number: int, tasks: int, delta: float) -> float:
    """Return the confidence of a bound in check ``number``, from 1: Σ_j 1/(j(j+1)) = 1."""
    return 1.0 - delta / (number * (number + 1) * tasks)


def check_gaps(iterate: Iterate, sampling: Sampling, settings: PolicyGradient) -> GapCheck:
    """Return upper bounds of the gaps of the present policies, from a batch of its own.

    Its random numbers depend on the run's seed and the iteration alone, and the run's generator
    is not touched: a run learns the same with checks and without.
    """
    number = iterate.iteration // settings.check_every
    level = check_level(number, iterate.tasks, settings.check_delta)
    generator = np.random.default_rng([settings.seed, iterate.iteration])
    samples = sampling.count(settings.check_batch)
    gaps, steps = sample_gaps(sampling, iterate.family, samples, generator)
    bounds = np.array(
        [
            gap.mean.upper_bound(gap.towards, radius, level)
            for gap, radius in zip(gaps, iterate.radii(), strict=True)
        ]
    )
    return GapCheck(number, bounds, level, samples, steps)
