"""Data of related tasks that the tests of cross-learned regression share, and plain references."""

from __future__ import annotations

import numpy as np

from crosslearning.rkhs import CrossRegression, Gaussian

KERNEL = Gaussian(std=[1.2, 0.8])
NOISE = np.array([0.1, 0.25])


def related(seed=0, sizes=(12, 8, 15), unlike=0.4, outputs=2):
    """Return inputs and targets of tasks: a common function, a part of its own, noise."""
    draw = np.random.default_rng(seed)
    inputs = [draw.uniform(-2.0, 2.0, (n, 2)) for n in sizes]
    targets = []
    for x in inputs:
        shift = unlike * draw.normal(size=(2, outputs))
        common = np.sin(1.3 * x[:, :1] + 0.7 * x[:, 1:] * np.arange(1, outputs + 1))
        own = np.cos(x @ shift) - 1.0 + unlike * draw.normal(size=outputs)
        targets.append(common + own + 0.1 * draw.normal(size=(len(x), outputs)))
    return inputs, targets


def regression_of(inputs, targets, *, kernel=KERNEL, noise=NOISE, ridge=0.7, **others):
    """Return a regression of all points, with as many knots as it takes."""
    regression = CrossRegression(
        kernel,
        len(inputs),
        targets[0].shape[1],
        noise=noise,
        ridge=ridge,
        **{"max_knots": 1000, "tolerance": 0.0, **others},
    )
    for task, (x, y) in enumerate(zip(inputs, targets, strict=True)):
        regression.add(task, x, y)
    return regression


def dense_process(inputs, targets, points, covariance, *, kernel=KERNEL, noise=NOISE, weights=None):
    """Return mean (N, n, p), variance (N, n, p) and log evidence by the textbook formulas.

    The functions of tasks i and j have covariance C_ij κ, and a point of weight w the noise σ²/w.
    """
    x, y = np.concatenate(inputs), np.concatenate(targets)
    task = np.repeat(np.arange(len(inputs)), [len(own) for own in inputs])
    tied = covariance[np.ix_(task, task)] * kernel(x)
    means, variances, evidence = [], [], 0.0
    for o, sigma in enumerate(noise):
        full = tied + sigma**2 * np.diag(1.0 / np.concatenate(weights or [np.ones(len(x))]))
        evidence -= 0.5 * y[:, o] @ np.linalg.solve(full, y[:, o])
        evidence -= 0.5 * np.linalg.slogdet(2.0 * np.pi * full)[1]
        cross = covariance[:, task][:, None, :] * kernel(points, x)
        means.append(cross @ np.linalg.solve(full, y[:, o]))
        solved = np.linalg.solve(full, cross.transpose(0, 2, 1))
        prior = np.diagonal(covariance)[:, None] * kernel.diagonal(points)
        variances.append(prior - np.einsum("ink,ikn->in", cross, solved))
    return np.stack(means, axis=-1), np.stack(variances, axis=-1), evidence
