"""Cross-learned regression: planted families, and what it costs in points, knots and tasks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from crosslearning.rkhs import CrossRegression, Gaussian, most_likely

KERNEL = Gaussian(std=[1.0, 1.5, 2.0])
#: Of the planted families: tasks, points of each, and the standard deviation of the noise.
TASKS, POINTS, NOISE = 6, 12, 0.1
FAMILIES = 100


class Family(NamedTuple):
    """Points of N tasks, and others at which the functions are known without noise."""

    inputs: list[np.ndarray]
    targets: list[np.ndarray]
    points: np.ndarray
    truth: np.ndarray


def smooth(generator: np.random.Generator, q: int, waves: int = 60):
    """Return a random smooth function of unit variance, about one wave across the inputs."""
    frequencies = generator.normal(size=(waves, q)) / generator.uniform(0.8, 1.6, q)
    phases = generator.uniform(0.0, 2.0 * math.pi, waves)
    heights = generator.normal(size=waves) * math.sqrt(2.0 / waves)
    return lambda x: np.cos(x @ frequencies.T + phases) @ heights


def planted(seed: int) -> Family:
    """Return a family: a smooth central function, smooth deviations, a few noisy points a task."""
    generator = np.random.default_rng(seed)
    q = int(generator.integers(1, 4))
    centre = smooth(generator, q)
    size = generator.uniform(0.2, 0.6)
    own = [smooth(generator, q) for _ in range(TASKS)]
    inputs = [generator.uniform(-2.0, 2.0, (POINTS, q)) for _ in range(TASKS)]
    points = generator.uniform(-2.0, 2.0, (400, q))

    def values(i: int, x: np.ndarray) -> np.ndarray:
        return (centre(x) + size * own[i](x))[:, None]

    targets = [
        values(i, x) + NOISE * generator.normal(size=(POINTS, 1)) for i, x in enumerate(inputs)
    ]
    truth = np.stack([values(i, points) for i in range(TASKS)], axis=1)
    return Family(inputs, targets, points, truth)


def planted_errors(seed: int) -> tuple[float, float, float]:
    """Return the root mean square errors of pooled, cross-learned and separate functions.

    Everything comes from the noisy points: widths, noise and how alike the tasks are, for each of
    the three by its own evidence.
    """
    family = planted(seed)
    errors = []
    for alike in (1.0, None, 0.0):
        chosen = most_likely(family.inputs, family.targets, alike=alike)
        regression = CrossRegression(
            chosen.kernel(), TASKS, 1, noise=chosen.noise, ridge=chosen.ridge(TASKS)
        )
        for i, (x, y) in enumerate(zip(family.inputs, family.targets, strict=True)):
            regression.add(i, x, y)
        fit = regression.at(chosen.multiplier(TASKS))
        wrong = fit.family(family.points)[:, :-1] - family.truth
        errors.append(float(np.sqrt(np.mean(wrong**2))))
    return errors[0], errors[1], errors[2]
