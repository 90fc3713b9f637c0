"""Cross-learned classification, against dense Newton steps in plain NumPy, and calibrated."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.errors import InputError
from crosslearning.rkhs import Gaussian, cross_classify

KERNEL = Gaussian(std=[0.7])
RIDGE, OFFSET = 0.3, -0.5


def expit(odds):
    return 1.0 / (1.0 + np.exp(-odds))


def labelled(tasks=2, n=40, seed=0):
    draw = np.random.default_rng(seed)
    x = [draw.uniform(-2.0, 2.0, (n, 1)) for _ in range(tasks)]
    odds = [3.0 * np.sin(2.0 * one[:, 0]) + i for i, one in enumerate(x)]
    return x, [(draw.uniform(size=n) < expit(one)).astype(float) for one in odds]


def prior_covariance(tasks, multiplier):
    """Return C with C⁻¹ = (ρ + μ) I − μ/N 1 1ᵀ, the penalty with the centre minimised over."""
    precision = (RIDGE + multiplier) * np.eye(tasks) - multiplier / tasks
    return np.linalg.inv(precision)


def dense(x, y, multiplier):
    """Return the mode of the Gaussian process' log odds at all points, and Laplace's evidence."""
    points, labels = np.concatenate(x), np.concatenate(y)
    task = np.repeat(np.arange(len(x)), [len(one) for one in x])
    K = prior_covariance(len(x), multiplier)[task][:, task] * KERNEL(points)
    f = np.zeros(len(labels))
    for _ in range(50):  # Rasmussen and Williams, algorithm 3.1
        p = expit(f + OFFSET)
        w = np.sqrt(p * (1.0 - p))
        B = np.eye(len(f)) + w[:, None] * K * w
        b = w**2 * f + labels - p
        a = b - w * np.linalg.solve(B, w * (K @ b))
        f = K @ a
    likelihood = -np.sum(np.logaddexp(0.0, np.where(labels == 1.0, -1.0, 1.0) * (f + OFFSET)))
    return f, likelihood - 0.5 * a @ f - 0.5 * np.linalg.slogdet(B)[1]


@pytest.mark.parametrize("multiplier", [0.0, 1.0, 20.0])
def test_the_mode_and_the_evidence_are_those_of_plain_newton_steps(multiplier):
    x, y = labelled()
    found = cross_classify(KERNEL, x, y, multiplier=multiplier, ridge=RIDGE, offset=OFFSET)
    mode, evidence = dense(x, y, multiplier)
    values = np.concatenate([found.family(one)[:, i, 0] for i, one in enumerate(x)])
    np.testing.assert_allclose(values, mode, atol=1e-5)
    assert found.log_evidence() == pytest.approx(evidence, abs=1e-5)
    probabilities = np.concatenate([found.probability(i, one) for i, one in enumerate(x)])
    np.testing.assert_allclose(probabilities, expit(mode + OFFSET), atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, math.inf])
def test_the_conditions_of_optimality_hold_within_the_radius(epsilon):
    x, y = labelled(3)
    found = cross_classify(KERNEL, x, y, epsilon=epsilon, ridge=RIDGE, offset=OFFSET)
    assert max(found.optimality()) < 1e-6
    assert math.sqrt(np.mean(found.distances**2)) <= epsilon * (1.0 + 1e-9)
    # No function of the family's knots within the radius is better.
    draw = np.random.default_rng(1)
    phi = [found.coordinates.features(one) for one in x]

    def objective(functions):
        odds = np.concatenate([a.T @ f + OFFSET for a, f in zip(phi, functions, strict=True)])
        signs = np.where(np.concatenate(y) == 1.0, -1.0, 1.0)
        return 2.0 * np.sum(np.logaddexp(0.0, signs * odds)) + RIDGE * np.sum(functions**2)

    least = objective(found.functions()[:, :, 0])
    assert found.objective() == pytest.approx(least, rel=1e-9)
    for _ in range(20):
        moved = found.solution.centre[:, 0] + 0.1 * draw.normal(size=len(found.coordinates))
        apart = found.solution.differences[:, :, 0]
        if math.isinf(epsilon):
            apart = apart + 0.1 * draw.normal(size=apart.shape)
        assert objective(moved + apart) > least


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.floats(-2.0, 2.0))
def test_probabilities_are_calibrated_where_the_prior_holds(seed, offset):
    draw = np.random.default_rng(seed)
    places = draw.uniform(-3.0, 3.0, (400, 1))
    factor = np.linalg.cholesky(4.0 * KERNEL(places) + 1e-9 * np.eye(400))
    chance = expit(factor @ draw.normal(size=400) + offset)
    labels = (draw.uniform(size=400) < chance).astype(float)
    seen, new = slice(0, 200), slice(200, 400)
    found = cross_classify(
        KERNEL, [places[seen]], [labels[seen]], multiplier=0.0, ridge=0.25, offset=offset
    )
    predicted = found.probability(0, places[new])
    # Of 200 labels the mean has a standard deviation below 0.036.
    assert abs(predicted.mean() - chance[new].mean()) < 0.15
    assert np.mean((predicted - chance[new]) ** 2) < 0.04
    base = labels[seen].mean()
    assert np.mean((predicted - chance[new]) ** 2) <= np.mean((base - chance[new]) ** 2) + 0.02


def test_samples_have_the_variance_of_laplaces_approximation():
    x, y = labelled()
    found = cross_classify(KERNEL, x, y, multiplier=1.0, ridge=RIDGE, offset=OFFSET)
    m = len(found.coordinates)
    normal = np.random.default_rng(2).normal(size=(4000, 3, m, 1))
    places = np.linspace(-2.0, 2.0, 5)[:, None]
    drawn = found.samples(normal).reshape(4000, 2, m)
    values = drawn @ found.coordinates.features(places)
    np.testing.assert_allclose(values.var(axis=0)[0], found.variance(0, places)[:, 0], rtol=0.12)


def test_certain_labels_have_finite_odds():
    found = cross_classify(KERNEL, [np.zeros((50, 1))], [np.ones(50)], multiplier=0.0, offset=-6.0)
    assert 0.5 < found.probability(0, [[0.0]])[0] < 1.0


def test_rare_labels_get_the_knots():
    x = np.linspace(-10.0, 10.0, 201)[:, None]
    y = (np.abs(x[:, 0] - 3.03) < 0.2).astype(float)
    found = cross_classify(Gaussian(std=[0.3]), [x], [y], multiplier=0.0, max_knots=8, ridge=0.02)
    assert np.any(np.abs(found.family.knots - 3.0) < 0.2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": [[0.0, 0.5]]}, "0 or 1"),
        ({"labels": []}, "1 tasks and labels of 0"),
        ({"multiplier": None}, "either epsilon or multiplier"),
        ({"ridge": 0.0}, "ridge must be positive"),
        ({"inputs": [np.empty((0, 1))], "labels": [[]]}, "no points"),
    ],
)
def test_what_cannot_be_classified_is_refused(change, words):
    given = {"inputs": [[[0.0], [1.0]]], "labels": [[0.0, 1.0]], "multiplier": 0.0, **change}
    inputs, labels = given.pop("inputs"), given.pop("labels")
    with pytest.raises(InputError, match=words):
        cross_classify(KERNEL, inputs, labels, **given)


def test_the_duality_gap_is_refused():
    found = cross_classify(KERNEL, [[[0.0]]], [[1.0]], multiplier=0.0)
    with pytest.raises(InputError, match="regressions alone"):
        found.gap()
