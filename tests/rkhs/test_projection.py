"""The paper's projections: against a solver, by optimality conditions, by the paper's lemmas."""

import math
import warnings

import cvxpy
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crosslearning.errors import InputError
from crosslearning.rkhs import (
    Family,
    Gaussian,
    Linear,
    Status,
    exact_projection,
    free_projection,
    project,
    prune,
    relaxed_projection,
)
from crosslearning.rkhs.primal_newton import newton
from tests.rkhs.examples import random_family


def plane(points):
    """R² as a function space: each row of ``points`` is a linear function."""
    points = np.asarray(points, dtype=float)
    return Family(Linear([1.0, 1.0]), np.eye(2), points.T[:, :, None])


def coordinates(family):
    return family.weights[:, :, 0].T


def distance(a, b):
    """Root of the sum over functions of ‖a_f − b_f‖²."""
    return math.sqrt(np.sum(a.distances_to(b) ** 2))


def solver_projection(family, epsilon):
    """The paper's QCQP over all weights, by CVXPY and Clarabel."""
    root = np.linalg.cholesky(family.gram).T
    L, functions, p = family.weights.shape
    new = [cvxpy.Variable((L, p)) for _ in range(functions)]
    cost = sum(cvxpy.sum_squares(root @ (new[f] - family.weights[:, f])) for f in range(functions))
    constraints = [cvxpy.norm(root @ (h - new[-1]), "fro") <= epsilon for h in new[:-1]]
    problem = cvxpy.Problem(cvxpy.Minimize(cost), constraints)
    # Asked for more than its default, Clarabel gives more and warns that it is not all of it.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    weights = np.stack([h.value for h in new], axis=1)
    return Family(family.kernel, family.knots, weights), problem.value


@pytest.mark.parametrize(("seed", "tightness"), [(0, 0.3), (1, 0.7), (2, 0.95)])
def test_exact_projection_is_the_qcqp_solution(seed, tightness):
    family = random_family(seed, functions=4, outputs=2, knots=100)
    epsilon = tightness * float(np.max(family.distances()))
    ours, projection = project(family, epsilon)
    theirs, objective = solver_projection(family, epsilon)
    assert projection.status is Status.SOLVED
    assert distance(ours, theirs) <= 1e-5
    assert distance(ours, family) ** 2 <= objective * (1 + 1e-7)
    assert np.all(ours.distances() <= epsilon * (1 + 1e-9))


families = {
    "seed": st.integers(0, 2**32 - 1),
    "tasks": st.integers(1, 7),
    "outputs": st.integers(1, 3),
    "scale": st.sampled_from([1e-8, 1.0, 1e8]),
    # ε relative to the spread: 0, inside the ball, and everything between.
    "tightness": st.one_of(
        st.just(0.0), st.just(math.inf), st.floats(-4, 0.2).map(lambda e: 10**e)
    ),
    "shape": st.sampled_from(["general", "identical", "two identical", "on a line", "far offset"]),
}


def shaped_family(seed, tasks, outputs, scale, shape):
    family = random_family(seed, tasks + 1, outputs, scale=scale)
    weights = family.weights.copy()
    if shape == "identical":
        weights[:] = weights[:, :1]
    elif shape == "two identical":
        weights[:, 0] = weights[:, -2]
    elif shape == "on a line":
        steps = np.random.default_rng(seed).standard_normal(tasks + 1)
        weights = weights[:, :1] + steps[None, :, None] * weights[:, -1:]
    elif shape == "far offset":
        weights = weights + 1e3 * scale
    return Family(family.kernel, family.knots, weights)


@settings(max_examples=2000)
@given(**families)
@example(seed=0, tasks=1, outputs=1, scale=1e8, tightness=1e-4, shape="general")
@example(seed=0, tasks=7, outputs=3, scale=1e-8, tightness=1e-4, shape="far offset")
def test_exact_projection_satisfies_the_optimality_conditions(
    seed, tasks, outputs, scale, tightness, shape
):
    family = shaped_family(seed, tasks, outputs, scale, shape)
    spread = float(np.max(family.distances()))
    epsilon = tightness * spread if math.isfinite(tightness) else math.inf
    if shape == "identical" and math.isnan(epsilon):
        epsilon = 0.0
    projected, projection = project(family, epsilon)
    assert projection.status in (Status.SOLVED, Status.INSIDE)
    distances = projected.distances()
    assert np.all(distances <= epsilon * (1 + 1e-9))
    np.testing.assert_allclose(projection.distances, distances, rtol=1e-6, atol=1e-9 * spread)
    if spread == 0.0 or tightness == math.inf:
        np.testing.assert_array_equal(projected.weights, family.weights)
        assert not np.any(projection.active)
        return
    mu = projection.multipliers
    assert np.all(mu >= 0)
    h_bar, g_bar = family.weights[:, :-1], family.weights[:, -1:]
    h, g = projected.weights[:, :-1], projected.weights[:, -1:]
    # Stationarity in the form that also holds for μ = ∞: (h − h̄)/(1+μ) + μ/(1+μ) (h − g) = 0.
    share = np.where(np.isinf(mu), 1.0, mu / (1.0 + np.where(np.isinf(mu), 0.0, mu)))
    for_h = (1 - share)[None, :, None] * (h - h_bar) + share[None, :, None] * (h - g)
    # The paper's Lemma: g − ḡ = Σ (h̄_i − h_i).
    for_g = (g - g_bar) - np.sum(h_bar - h, axis=1, keepdims=True)
    residuals = family._with_weights(np.concatenate([for_h, for_g], axis=1)).norms()
    assert np.max(residuals) <= 1e-10 * spread
    complementarity = share * np.abs(distances - epsilon)
    assert np.max(complementarity) <= 1e-10 * spread
    # h_i lies on the segment between h̄_i and g: h_i = ζ h̄_i + (1−ζ) g with ζ = 1 − share.
    on_segment = (1 - share)[None, :, None] * h_bar + share[None, :, None] * g
    assert np.max(family._with_weights(on_segment - h).norms()) <= 1e-10 * spread


@given(**families)
def test_projection_is_idempotent_and_non_expansive(seed, tasks, outputs, scale, tightness, shape):
    first = shaped_family(seed, tasks, outputs, scale, shape)
    second = first._with_weights(
        first.weights + scale * np.random.default_rng(seed).standard_normal(first.weights.shape)
    )
    epsilon = min(tightness, 1e3) * scale
    a, _ = project(first, epsilon)
    b, _ = project(second, epsilon)
    size = float(np.max(first.distances()) + np.max(second.distances()) + epsilon)
    again, _ = project(a, epsilon)
    assert distance(again, a) <= 1e-8 * size
    assert distance(a, b) <= distance(first, second) * (1 + 1e-9) + 1e-9 * size


@given(seed=st.integers(0, 1000), tasks=st.integers(1, 6), tightness=st.floats(0.05, 0.95))
def test_no_feasible_family_is_nearer(seed, tasks, tightness):
    family = random_family(seed, tasks + 1, 2)
    epsilon = tightness * float(np.max(family.distances()))
    projected, _ = project(family, epsilon)
    best = distance(projected, family)
    generator = np.random.default_rng(seed)
    for size in (1e-3, 1e-1, 1.0):
        shift = size * generator.standard_normal(family.weights.shape)
        other = projected._with_weights(projected.weights + shift)
        ratio = np.maximum(other.distances() / epsilon, 1.0)[None, :, None]
        weights = other.weights.copy()
        weights[:, :-1] = weights[:, -1:] + (weights[:, :-1] - weights[:, -1:]) / ratio
        assert distance(other._with_weights(weights), family) >= best * (1 - 1e-12)


def test_consensus_is_the_mean_of_all():
    family = random_family(3, 4, 2)
    projected, projection = project(family, 0.0)
    mean = family.weights.mean(axis=1)
    for f in range(4):
        np.testing.assert_allclose(projected.weights[:, f], mean, rtol=1e-12, atol=1e-14)
    assert projected.distances().tolist() == [0.0, 0.0, 0.0]
    assert np.all(np.isinf(projection.multipliers))


def test_one_task_in_closed_form():
    # h̄ = 4, ḡ = 0, ε = 2: symmetric about the middle, h = 3, g = 1, μ (h − g) = h̄ − h = 1.
    projected, projection = project(plane([[4.0, 0.0], [0.0, 0.0]]), 2.0)
    np.testing.assert_allclose(coordinates(projected), [[3.0, 0.0], [1.0, 0.0]], atol=1e-12)
    assert projection.multipliers[0] == pytest.approx(0.5)


def test_a_thousand_functions():
    generator = np.random.default_rng(0)
    points = generator.standard_normal((1000, 50)) * generator.lognormal(size=(1000, 1))
    epsilon = 5.0
    projection = exact_projection(points @ points.T, epsilon)
    assert projection.status is Status.SOLVED
    projected = projection.mixing @ np.concatenate([points, np.zeros((1, 50))])
    h, g = projected[:-1], projected[-1]
    distances = np.linalg.norm(h - g, axis=1)
    assert np.all(distances <= epsilon * (1 + 1e-9))
    np.testing.assert_allclose(g, np.sum(points - h, axis=0), atol=1e-9)
    assert np.all(np.abs(distances[projection.active] - epsilon) <= 1e-9)


@given(seed=st.integers(0, 500), tasks=st.integers(1, 12), tightness=st.floats(0.01, 0.99))
def test_compiled_newton_equals_its_source(seed, tasks, tightness):
    points = np.random.default_rng(seed).standard_normal((tasks, 3))
    D = points @ points.T
    D /= D.diagonal().max()
    compiled, source = np.empty((3, tasks)), np.empty((3, tasks))
    newton(D, 1.0, tightness, *compiled)
    newton.py_func(D, 1.0, tightness, *source)
    # The coefficients of dependent functions are not unique.
    np.testing.assert_allclose(compiled[1:], source[1:], atol=1e-10)


@given(seed=st.integers(0, 1000), tasks=st.integers(2, 6), tightness=st.floats(0.05, 1.5))
def test_relaxed_projection(seed, tasks, tightness):
    family = random_family(seed, tasks + 1, 2)
    h_bar = family.weights[:, :-1]
    mean = h_bar.mean(axis=1, keepdims=True)
    squares = family._with_weights(h_bar - mean).norms() ** 2
    epsilon = tightness * math.sqrt(squares.mean())
    projected, projection = project(family, epsilon, method="relaxed")
    h, g = projected.weights[:, :-1], projected.weights[:, -1:]
    np.testing.assert_allclose(g, mean, atol=1e-12)
    total = np.sum(projected.distances() ** 2)
    np.testing.assert_allclose(projection.distances, projected.distances(), rtol=1e-6, atol=1e-9)
    assert total <= tasks * epsilon**2 * (1 + 1e-9)
    if tightness < 1:
        assert total == pytest.approx(tasks * epsilon**2, rel=1e-9)
        mu = projection.multipliers[0]
        stationarity = (h - h_bar) + mu * (h - g)
        assert np.max(family._with_weights(stationarity).norms()) <= 1e-9 * math.sqrt(squares.max())
        # ψ over unordered pairs, as the paper's formula has to be read.
        pairs = sum(
            family.mix(np.eye(tasks + 1)[i] - np.eye(tasks + 1)[j][None]).norms()[0] ** 2
            for i in range(tasks)
            for j in range(i)
        )
        assert 1 / (1 + mu) == pytest.approx(tasks * epsilon / math.sqrt(pairs), rel=1e-9)
    else:
        np.testing.assert_allclose(h, h_bar, atol=1e-12)
        # On the boundary itself the last bit decides whether anything had to move.
        assert projection.status is Status.CENTRED or tightness < 1 + 1e-12


def test_a_radius_below_the_last_digit_is_consensus():
    family = plane([[4.0, 0.0], [-4.0, 1.0], [0.0, 0.0]])
    projected, projection = project(family, 1e-30)
    assert np.all(np.isinf(projection.multipliers))
    np.testing.assert_allclose(coordinates(projected), [[0.0, 1 / 3]] * 3, atol=1e-15)


def test_relaxed_projection_may_break_one_bound():
    family = plane([[10.0, 0.0], [-1.0, 0.0], [-1.0, 0.5], [0.0, 0.0]])
    relaxed, _ = project(family, 1.0, method="relaxed")
    exact, _ = project(family, 1.0)
    assert relaxed.distances().max() > 1.2
    assert exact.distances().max() <= 1.0 + 1e-12


@given(seed=st.integers(0, 2000), tasks=st.integers(1, 6), epsilon=st.floats(0.1, 5.0))
def test_the_two_projections_stay_together(seed, tasks, epsilon):
    """Proposition on the centres: if ‖ḡ − g'‖ ≤ ε then ‖g − g'‖ ≤ ε, and the h_i are near too."""
    family = random_family(seed, tasks + 1, 2)
    weights = family.weights.copy()
    mean = weights[:, :-1].mean(axis=1)
    towards = weights[:, -1] - mean
    length = family._with_weights(towards[:, None]).norms()[0]
    weights[:, -1] = mean + towards * min(1.0, epsilon / length)
    family = family._with_weights(weights)
    exact, _ = project(family, epsilon)
    relaxed, _ = project(family, epsilon, method="relaxed")
    between = exact.distances_to(relaxed)
    assert between[-1] <= epsilon * (1 + 1e-9)
    y = family._with_weights(weights[:, :-1] - mean[:, None]).norms()
    # The bound as the proof gives it, with y squared under the root.
    bound = epsilon * (2 + np.sqrt(tasks * y**2 / max(np.sum(y**2), 1e-300)))
    assert np.all(between[:-1] <= bound * (1 + 1e-9))


@pytest.mark.parametrize("method", [exact_projection, relaxed_projection, free_projection])
@pytest.mark.parametrize(
    ("differences", "epsilon", "message"),
    [
        (np.eye(2), -1.0, "epsilon must be"),
        (np.eye(2), math.nan, "epsilon must be"),
        (np.eye(2), "wide", "epsilon must be"),
        (np.ones((2, 3)), 1.0, "square"),
        (np.empty((0, 0)), 1.0, "square"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), 1.0, "must be finite"),
        (np.array([[-1.0]]), 1.0, "Gram matrix"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), 1.0, "Gram matrix"),
    ],
)
def test_bad_input_is_named(method, differences, epsilon, message):
    with pytest.raises(InputError, match=message):
        method(differences, epsilon)


def test_unknown_method():
    with pytest.raises(InputError, match="did you mean 'relaxed'"):
        project(random_family(0, 2, 1), 1.0, method="relax")


@pytest.mark.parametrize("epsilon", [3.0, 0.1, 1e-6, 1e-12])
@pytest.mark.parametrize("shared", [0.0, 1e6])
def test_distances_are_within_epsilon_to_the_last_bit(epsilon, shared):
    for seed in range(20):
        generator = np.random.default_rng(seed)
        knots = generator.uniform(-2.0, 2.0, (int(generator.integers(3, 30)), 2))
        weights = generator.standard_normal((len(knots), 4, 1))
        weights += shared * generator.standard_normal((len(knots), 1, 1))
        projected, _ = project(Family(Gaussian(std=[1.0, 1.0]), knots, weights), epsilon)
        assert np.all(projected.distances() <= epsilon)
        if epsilon / max(shared, 1.0) > 1e-8:  # and not by giving up what may be kept
            assert np.max(projected.distances()) >= epsilon * (1.0 - 1e-3)


@pytest.mark.parametrize("huge", [1e200, 1e308])
def test_a_radius_that_cannot_be_squared_is_refused(huge):
    with pytest.raises(InputError, match=r"float64 cannot square it.* or inf"):
        relaxed_projection([[4.0]], huge)
    family = Family(Gaussian(std=[1.0]), [[0.0]], [[[1.0], [0.0]]])
    with pytest.raises(InputError, match="budget is"):
        prune(family, huge)
    with pytest.raises(InputError, match="std must be from 1e-150"):
        Gaussian(std=[huge])
