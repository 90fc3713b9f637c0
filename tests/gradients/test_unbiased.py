"""Every estimator is unbiased: against closed forms, with a power check on wrong ones.

The gradient of U in the RKHS is the function with dU(h + εf)/dε = ⟨∇U, f⟩ for every f of the
space. An estimate Σ_b κ(s_b, ·) w_b has ⟨∇̂, f⟩ = Σ_b w_b · f(s_b) by the reproducing property. So
for many directions f the mean of that number over independent estimates is compared with the
exact derivative, in units of its standard error.
"""

import functools

import numpy as np
import pytest
from numba import types  # noqa: F401  (numba must be imported before its types are used)

from crosslearning.compiled import FunctionPointer
from crosslearning.gradients import ESTIMATORS, estimator_of
from crosslearning.errors import InputError
from crosslearning.rkhs import Family, Gaussian, Linear
from crosslearning.rollouts import CompiledExecutor, Samples, plan_samples
from crosslearning.tasks import Dynamics, LinearQuadratic, Task
from crosslearning.tasks.task import ENDED, OBSERVE, RESET, STEP
from tests.rollouts.examples import LOPSIDED, linear_family

DISCOUNT = 0.8
VARIANCE = np.array([0.3, 0.15])
GAIN = np.array([[0.25, -0.35], [0.3, 0.4]])
#: Independent estimates in one plan, and samples in each. The executor takes the same task
#: many times, so that every row of its samples is an estimate of its own.
ROWS, BATCH = 1000, 4
LIMIT = 4.5

every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def estimates(task, policy, variance, names, plans, seed, spoil=None, direction=None):
    """Return ⟨∇̂, f⟩ of independent estimates for each estimator, shape (estimates, directions)."""
    tasks = [task] * ROWS
    rows = np.repeat(policy.expansion.rows[:1], ROWS, axis=0)
    policies = policy.expansion._replace(rows=rows)
    executor = CompiledExecutor(tasks, np.sqrt(variance))
    generator = np.random.default_rng(seed)
    products = {name: [] for name in names}
    for _ in range(plans):
        plan = plan_samples(generator, tasks, BATCH, DISCOUNT)
        if spoil is not None:
            plan = spoil(plan, generator)
        samples = executor.samples(policies, plan, antithetic=True)
        for name in names:
            knots, weights = ESTIMATORS[name].estimate(samples, variance, DISCOUNT)
            values = direction(knots.reshape(ROWS * BATCH, -1)).reshape(ROWS, BATCH, -1, len(variance))
            products[name].append(np.einsum("gbp,gbfp->gf", weights, values))
    return {name: np.concatenate(parts) for name, parts in products.items()}


def scores(products, expected):
    """Return how many standard errors each mean is from what is expected."""
    error = products.std(axis=0, ddof=1) / np.sqrt(len(products))
    return (products.mean(axis=0) - expected) / error
