"""How often policies learned from logged data leave the support of the data.

A policy may come to rely on predictions where there are no data. Rollouts are imagined with the
learned policies, and the steps are counted at which the models are uncertain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.model_based.dynamics import Dynamics, world_of
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.learner.model_based.method import ModelBasedMethod

Floats = NDArray[np.float64]

#: Imagined rollouts per task, and posterior samples.
_ROLLOUTS, _SAMPLES = 40, 16
#: The standard deviation of an uncertain prediction, in units of the spread of the data.
_UNSURE = 0.5
#: What is added to the diagonal of the Gram matrix of knots.
_JITTER = 1e-10


def out_of_data_fraction(learner: CrossLearner, seed: int = 0) -> dict[str, float]:
    """Return for each task the share of imagined steps at which its model is uncertain.

    The policies act without noise in the mean models, from states of the data. A step counts if the
    posterior standard deviation of an observation or of the reward is more than half of its spread
    in the data.

    Parameters
    ----------
    learner : CrossLearner
        With the method ``models``, after some learning.
    seed : int
        Of the starts and the posterior samples.
    """
    method = learner.method
    if not isinstance(method, ModelBasedMethod) or not method.models:
        raise InputError(
            "out_of_data_fraction reads a learner that has learned with method 'models'"
        )
    generator = np.random.default_rng(seed)
    N, dynamics = len(method.data), method.dynamics
    picked = [
        own.states[generator.integers(len(own.states), size=_ROLLOUTS)] for own in method.data
    ]
    task = np.repeat(np.arange(N), _ROLLOUTS)
    world = world_of(dynamics.functions(N), dynamics.frame, method.bounds)
    still = np.zeros((len(task), method.settings.look_ahead, len(method.noise.variance)))
    policies = learner.family.expansion
    path = imagine(policies, world, np.concatenate(picked), task, task, still)
    q, p = path.states.shape[2], path.actions.shape[2]
    actions = np.clip(path.actions, *method.bounds)
    steps = np.concatenate([path.states[:, :-1], actions], axis=2).reshape(N, -1, q + p)
    # Steps after a probable termination do not count.
    there = np.cumprod(path.bootstrap_mask, axis=1) > 0.5
    there = np.concatenate([np.ones((len(task), 1), dtype=bool), there[:, :-1]], axis=1)
    unsure = np.array([_deviations(dynamics, i, steps[i], generator) for i in range(N)])
    counted = there.reshape(N, -1)
    outside = counted & (unsure > _UNSURE)
    shares = outside.sum(axis=1) / counted.sum(axis=1)
    return {own.name: float(share) for own, share in zip(learner.tasks, shares, strict=True)}


def _deviations(
    dynamics: Dynamics, task: int, points: Floats, generator: np.random.Generator
) -> Floats:
    """Return the largest standard deviation over outputs, in units of their spread, shape (n,)."""
    largest = np.zeros(len(points))
    for fit, chosen in zip(dynamics.fits, dynamics.chosen, strict=True):
        family = fit.family
        shape = (_SAMPLES, len(fit.distances) + 1, len(family.knots), 1)
        drawn = fit.samples(generator.standard_normal(shape))
        own = drawn.reshape(_SAMPLES, len(fit.distances), *drawn.shape[1:])[:, task]
        between = family.kernel(family.knots, points)
        values = np.einsum("mn,msp->nsp", between, fit.weights(own))[:, :, 0]
        # Samples live on the knots; the kernel's remainder is added.
        gram = family.kernel(family.knots, family.knots)
        gram.flat[:: len(gram) + 1] += _JITTER * np.diagonal(gram)
        explained = np.sum(between * cho_solve(cho_factor(gram), between), axis=0)
        left = np.maximum(family.kernel.diagonal(points) - explained, 0.0)
        largest = np.maximum(largest, np.sqrt(values.var(axis=1) + chosen.signal * left))
    return largest
