"""Cross-learned regression: against a solver, another library, the textbook, its own conditions."""

import math
import warnings

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from crosslearning.rkhs import CrossRegression, FitStatus, Gaussian, Linear
from tests.rkhs.cross_examples import KERNEL, NOISE, dense_process, regression_of, related

RIDGE = 0.7


def solver_fit(inputs, targets, epsilon, method, noise=NOISE, ridge=RIDGE):
    """The constrained problem as it is written, by CVXPY; return the functions at all points.

    The functions are combinations of kernels at the points, in coordinates in which the norm is
    plain: L z at the points, with K = L Lᵀ.
    """
    x = np.concatenate(inputs)
    root = np.linalg.cholesky(KERNEL(x) + 1e-12 * np.eye(len(x)))
    ends = np.cumsum([0, *map(len, inputs)])
    own = [cvxpy.Variable((len(x), len(noise))) for _ in inputs]
    centre = cvxpy.Variable((len(x), len(noise)))
    cost = 0.0
    for i, z in enumerate(own):
        error = targets[i] - root[ends[i] : ends[i + 1]] @ z
        cost += cvxpy.sum_squares(error @ np.diag(1.0 / noise)) + ridge * cvxpy.sum_squares(z)
    if method == "exact":
        constraints = [cvxpy.norm(z - centre, "fro") <= epsilon for z in own]
    else:
        apart = cvxpy.hstack([cvxpy.vec(z - centre, order="F") for z in own])
        constraints = [cvxpy.norm(apart) <= math.sqrt(len(own)) * epsilon]
    problem = cvxpy.Problem(cvxpy.Minimize(cost), constraints)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value, np.stack([root @ z.value for z in own])


@pytest.mark.parametrize("method", ["exact", "relaxed"])
@pytest.mark.parametrize(
    ("sizes", "epsilon"),
    [((6, 9, 4), 0.05), ((6, 9, 4), 0.4), ((6, 9, 4), 1.0), ((3, 12, 5, 7, 4), 0.6)],
)
def test_it_is_what_a_solver_finds(sizes, epsilon, method):
    inputs, targets = related(3, sizes)
    fit = regression_of(inputs, targets).fit(epsilon, method)
    value, functions = solver_fit(inputs, targets, epsilon, method)
    assert fit.status is FitStatus.SOLVED
    assert fit.objective() == pytest.approx(value, rel=1e-7)
    ours = fit.family(np.concatenate(inputs)).transpose(1, 0, 2)[:-1]
    # The solver's gap of 1e-11 leaves its functions uncertain by about its root: between NumPy 2.4
    # and 2.5 they move by 1.5e-6, where ours move by 7e-15.
    np.testing.assert_allclose(ours, functions, atol=5e-6)


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_both_ends_are_the_gaussian_processes_of_scikit_learn(scale):
    inputs, targets = related(1)
    ridge, noise = 1.0 / scale, 0.2
    regression = regression_of(inputs, targets, ridge=ridge, noise=np.full(2, noise))
    points = np.random.default_rng(5).uniform(-3.0, 3.0, (30, 2))

    def process(x, y, variance):
        kernel = ConstantKernel(variance, "fixed") * RBF([1.2, 0.8], "fixed")
        rival = GaussianProcessRegressor(kernel, alpha=noise**2, optimizer=None).fit(x, y)
        return rival.predict(points, return_std=True)

    pooled = process(np.concatenate(inputs), np.concatenate(targets), scale / len(inputs))
    for i in range(len(inputs)):
        alone = process(inputs[i], targets[i], scale)
        for epsilon, (mean, deviation) in ((0.0, pooled), (math.inf, alone)):
            fit = regression.fit(epsilon)
            np.testing.assert_allclose(fit.family(points)[:, i], mean, atol=1e-7)
            np.testing.assert_allclose(np.sqrt(fit.variance(i, points)), deviation, atol=1e-7)


@pytest.mark.parametrize("multiplier", [0.0, 1e-3, 0.5, 30.0, 1e6, math.inf])
def test_with_one_multiplier_it_is_a_gaussian_process_over_points_and_tasks(multiplier):
    inputs, targets = related(2, (12, 3, 20, 7))
    regression = regression_of(inputs, targets)
    fit = regression.at(multiplier)
    N, rho, mu = 4, RIDGE, multiplier
    # The covariance of the page: s² (c + (1 − c) δ_ij) κ.
    alike = 1.0 if math.isinf(mu) else mu / (N * rho + mu)
    signal = 1.0 / (N * rho) if math.isinf(mu) else (N * rho + mu) / (N * rho * (rho + mu))
    covariance = signal * (alike + (1.0 - alike) * np.eye(N))
    points = np.random.default_rng(6).uniform(-3.0, 3.0, (25, 2))
    mean, variance, evidence = dense_process(inputs, targets, points, covariance)
    np.testing.assert_allclose(fit.family(points).transpose(1, 0, 2)[:-1], mean, atol=1e-8)
    for i in range(N):
        np.testing.assert_allclose(fit.variance(i, points), variance[i], atol=1e-8)
    assert fit.log_evidence() == pytest.approx(evidence, abs=1e-6)


def test_with_unequal_multipliers_too():
    inputs, targets = related(4, (12, 3, 20, 7), unlike=0.6)
    fit = regression_of(inputs, targets).fit(0.8)
    mu = fit.multipliers
    assert np.ptp(mu) > 0.1
    precision = RIDGE * np.eye(4) + np.diag(mu) - np.outer(mu, mu) / mu.sum()
    points = np.random.default_rng(6).uniform(-3.0, 3.0, (25, 2))
    mean, variance, evidence = dense_process(inputs, targets, points, np.linalg.inv(precision))
    np.testing.assert_allclose(fit.family(points).transpose(1, 0, 2)[:-1], mean, atol=1e-8)
    for i in range(4):
        np.testing.assert_allclose(fit.variance(i, points), variance[i], atol=1e-8)
    assert fit.log_evidence() == pytest.approx(evidence, abs=1e-6)


def plain_fit(inputs, targets, mu, ridge=RIDGE, noise=NOISE[0]):
    """The linear equations as they are written, for weights of kernels at all points.

    (Φ_iᵀΦ_i/σ² + ρK + μ_i K) α_i − μ_i K α_c = Φ_iᵀ y_i/σ²  and  Σ_i μ_i (α_i − α_c) = 0.
    """
    x = np.concatenate(inputs)
    n, N = len(x), len(inputs)
    gram = KERNEL(x) + 1e-12 * np.eye(n)
    system, right = np.zeros(((N + 1) * n,) * 2), np.zeros((N + 1) * n)
    centre = slice(N * n, None)
    for i in range(N):
        own, phi = slice(i * n, (i + 1) * n), KERNEL(inputs[i], x)
        system[own, own] = phi.T @ phi / noise**2 + (ridge + mu[i]) * gram
        system[own, centre] = -mu[i] * gram
        system[centre, own] = mu[i] * gram
        system[centre, centre] -= mu[i] * gram
        right[own] = phi.T @ targets[i][:, 0] / noise**2
    return np.linalg.lstsq(system, right, rcond=1e-15)[0].reshape(N + 1, n), gram


def test_it_solves_the_plain_equations():
    inputs, targets = related(7, (5, 4, 6), outputs=1)
    fit = regression_of(inputs, targets, noise=NOISE[:1]).fit(0.5)
    weights, gram = plain_fit(inputs, targets, fit.multipliers)
    values = fit.family(np.concatenate(inputs))[:, :, 0].T
    np.testing.assert_allclose(values, weights @ gram, atol=1e-6)
    apart = weights[:-1] - weights[-1]
    np.testing.assert_allclose(np.sqrt(np.einsum("ia,ab,ib->i", apart, gram, apart)), 0.5, 1e-5)


# Where the tasks' own functions are already near -----------------------------------------


def line(*values):
    """Tasks whose own functions are constants: one linear direction, one point each."""
    regression = CrossRegression(Linear([1.0]), len(values), 1, noise=1.0, ridge=1.0)
    for i, value in enumerate(values):
        regression.add(i, [[1.0]], [[2.0 * value]])  # halved by the ridge
    return regression


def test_a_centre_within_reach_of_all_needs_no_multiplier():
    regression = line(0.0, 0.0, 0.0, 2.0)
    # The mean, 0.5, is 1.5 from the last function; 1 is within 1 of all.
    assert regression.fit(math.inf).distances.max() == pytest.approx(1.5)
    for epsilon, centre in ((1.6, 0.5), (1.2, 0.8), (1.0, 1.0)):
        fit = regression.fit(epsilon)
        assert fit.status is FitStatus.SEPARATE
        np.testing.assert_array_equal(fit.multipliers, 0.0)
        np.testing.assert_allclose(fit.family([1.0])[:, 0], [0.0, 0.0, 0.0, 2.0, centre], atol=1e-9)
        assert np.all(fit.distances <= epsilon)
    fit = regression.fit(0.99)
    assert fit.status is FitStatus.SOLVED
    assert np.all(fit.multipliers > 0.0)
    assert np.all(fit.distances == pytest.approx(0.99))


def test_a_function_that_lies_at_the_centre_needs_no_multiplier():
    fit = line(-1.0, 0.0, 1.0).fit(0.25)
    assert fit.status is FitStatus.SOLVED
    np.testing.assert_allclose(fit.family([1.0])[:, 0], [-0.25, 0.0, 0.25, 0.0], atol=1e-9)
    assert fit.multipliers[1] == pytest.approx(0.0, abs=1e-6)


def test_relaxed_bounds_the_mean_square():
    regression = line(0.0, 0.0, 0.0, 2.0)
    spread = math.sqrt(0.75)
    assert regression.fit(spread + 1e-9, "relaxed").status is FitStatus.SEPARATE
    fit = regression.fit(0.5, "relaxed")
    assert fit.status is FitStatus.SOLVED
    assert math.sqrt(np.mean(fit.distances**2)) == pytest.approx(0.5)
    assert fit.distances.max() > 0.5


# Hard cases --------------------------------------------------------------------------------

HARD = {
    "one task with three points": {"sizes": (3, 60, 60)},
    "sizes far apart": {"sizes": (1, 10, 100, 1000)},
    "a task without points": {"sizes": (0, 20, 20)},
    "near-identical": {"sizes": (30, 30, 30, 30), "unlike": 1e-7},
    "unlike": {"sizes": (30, 30, 30), "unlike": 30.0},
    "one task": {"sizes": (20,)},
    "twenty tasks": {"sizes": (5,) * 20},
}


@pytest.mark.parametrize("share", [1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("method", ["exact", "relaxed"])
@pytest.mark.parametrize("case", HARD)
def test_newton_converges_on_hard_cases(case, method, share):
    regression = regression_of(*related(11, **HARD[case]), max_knots=80, noise=[0.1, 0.001])
    epsilon = share * max(float(regression.fit(math.inf).distances.max()), 1e-3)
    fit = regression.fit(epsilon, method)
    optimality = fit.optimality()
    assert fit.status in (FitStatus.SOLVED, FitStatus.SEPARATE), fit.residual
    assert optimality.feasibility <= 1e-15
    assert optimality.complementarity <= 1e-9
    assert optimality.stationarity <= 1e-6


@pytest.mark.parametrize(
    ("seed", "sizes", "epsilon"),
    [
        (63, (0, 7, 0, 0, 0, 0, 7), 1.9535),
        (63, (0, 7, 0, 0, 0, 0, 7), 1.973),
        (70, (0, 6, 0, 0, 0, 3, 0, 0), 1.4077),
        (114, (1, 0, 0, 0, 7, 1), 1.5589),
        (114, (1, 0, 0, 0, 7, 1), 1.7319),
    ],
)
def test_tasks_without_points_whose_functions_coincide(seed, sizes, epsilon):
    # ε lies between the mean square distance and the radius of the smallest ball.
    regression = regression_of(*related(seed, sizes))
    fit = regression.fit(epsilon)
    gap = fit.gap()
    assert fit.status is FitStatus.SOLVED, fit.residual
    assert gap.primal == pytest.approx(gap.dual, rel=1e-8)
    assert fit.distances.max() == pytest.approx(epsilon)


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    monkeypatch.setattr("crosslearning.rkhs.multipliers._MAX_STEPS", 2)
    regression = regression_of(*related(4, (12, 3, 20, 7), unlike=0.6))
    for method in ("exact", "relaxed"):
        fit = regression.fit(0.3, method)
        assert fit.status is FitStatus.INACCURATE
        assert fit.residual > 1e-7
        assert fit.optimality().feasibility <= 1e-15


# Properties --------------------------------------------------------------------------------

SIZES = st.lists(st.integers(0, 15), min_size=1, max_size=5).filter(any)
METHODS = st.sampled_from(["exact", "relaxed"])


def reached(fit):
    return fit.distances.max() if fit.method == "exact" else np.sqrt(np.mean(fit.distances**2))


@settings(max_examples=60)
@given(SIZES, st.integers(0, 1000), st.floats(1e-4, 5.0), st.floats(1.01, 10.0), METHODS)
def test_a_larger_radius_holds_and_costs_less(sizes, seed, epsilon, factor, method):
    regression = regression_of(*related(seed, sizes))
    tight, wide = regression.fit(epsilon, method), regression.fit(factor * epsilon, method)
    for fit in (tight, wide):
        assert reached(fit) <= fit.epsilon * (1.0 + 1e-15)
        assert np.all(fit.multipliers >= 0.0)
        gap = fit.gap()
        assert gap.dual <= gap.primal * (1.0 + 1e-12)
        assert gap.relative <= 1e-6
    assert wide.objective() <= tight.objective() * (1.0 + 1e-9)
    ends = [regression.fit(end).objective() for end in (0.0, math.inf)]
    assert ends[1] * (1.0 - 1e-9) <= wide.objective()
    assert tight.objective() <= ends[0] * (1.0 + 1e-9)


@settings(max_examples=30)
@given(SIZES, st.integers(0, 1000), st.floats(1e-3, 3.0), METHODS)
def test_the_order_of_tasks_and_points_does_not_matter(sizes, seed, epsilon, method):
    inputs, targets = related(seed, sizes)
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(sizes))
    rows = [draw.permutation(n) for n in sizes]
    one = regression_of(inputs, targets).fit(epsilon, method)
    other = regression_of(
        [inputs[i][rows[i]] for i in order], [targets[i][rows[i]] for i in order]
    ).fit(epsilon, method)
    points = draw.uniform(-2.0, 2.0, (10, 2))
    own, theirs = one.family(points), other.family(points)
    np.testing.assert_allclose(own[:, order], theirs[:, :-1], atol=1e-6)
    np.testing.assert_allclose(own[:, -1], theirs[:, -1], atol=1e-6)
    np.testing.assert_allclose(one.distances[order], other.distances, atol=1e-6)


@pytest.mark.parametrize("method", ["exact", "relaxed"])
def test_small_and_large_radii_lead_to_the_ends(method):
    regression = regression_of(*related(8))
    points = np.random.default_rng(1).uniform(-2.0, 2.0, (10, 2))
    for near, end in ((1e-10, 0.0), (1e10, math.inf)):
        np.testing.assert_allclose(
            regression.fit(near, method).family(points),
            regression.fit(end, method).family(points),
            atol=1e-8,
        )


def test_one_multiplier_is_the_relaxed_fit_of_its_radius():
    regression = regression_of(*related(8))
    given = regression.at(3.0)
    fit = regression.fit(given.epsilon, "relaxed")
    np.testing.assert_allclose(fit.multipliers, 3.0, rtol=1e-9)
    assert given.status is FitStatus.PENALISED


def test_kernels_of_any_scale_give_the_same_functions():
    # κ twice as large with half of the variance, ρ twice as large, is the same prior.
    inputs, targets = related(9)
    one = regression_of(inputs, targets).fit(0.6)
    other = regression_of(inputs, targets, kernel=2.0 * Gaussian(std=[1.2, 0.8]), ridge=2 * RIDGE)
    points = np.random.default_rng(1).uniform(-2.0, 2.0, (10, 2))
    np.testing.assert_allclose(
        other.fit(0.6 / math.sqrt(2.0)).family(points), one.family(points), atol=1e-8
    )
