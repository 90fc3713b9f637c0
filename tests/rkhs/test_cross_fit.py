"""What a fit reports: samples, variance, evidence, optimality, and the gap that knots leave."""

import math

import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.rkhs import CrossRegression, Gaussian
from tests.rkhs.cross_examples import KERNEL, NOISE, dense_process, regression_of, related


@pytest.mark.parametrize("multiplier", [0.0, 0.3, 1e4, math.inf])
def test_samples_have_the_mean_and_the_covariance_of_the_process(multiplier):
    inputs, targets = related(3, (6, 2, 9), outputs=1)
    regression = regression_of(inputs, targets, noise=NOISE[:1])
    fit = regression.at(multiplier)
    N, m = 3, len(regression.knots)
    points = np.random.default_rng(0).uniform(-2.0, 2.0, (4, 2))
    phi = regression.coordinates.features(points)

    def values(functions):  # of samples one after the other, shape (S, N · 4)
        return np.einsum("smo,mn->sn", functions, phi).reshape(-1, N * len(points))

    mean = values(fit.samples(np.zeros((1, N + 1, m, 1))))[0]
    np.testing.assert_allclose(mean, fit.family(points)[:, :N, 0].T.ravel(), atol=1e-7)
    # A sample is linear in its normal numbers: one at a time shows the whole covariance.
    each = np.eye((N + 1) * m).reshape(-1, N + 1, m, 1)
    moved = values(fit.samples(each)) - mean
    covariance = moved.T @ moved

    x = np.concatenate(inputs)
    task = np.repeat(np.arange(N), list(map(len, inputs)))
    tied = fit.problem.covariance(fit.multipliers)
    own = np.repeat(np.arange(N), len(points))
    where = np.tile(points, (N, 1))
    cross = tied[np.ix_(own, task)] * KERNEL(where, x)
    full = tied[np.ix_(task, task)] * KERNEL(x) + NOISE[0] ** 2 * np.eye(len(x))
    posterior = tied[np.ix_(own, own)] * KERNEL(where) - cross @ np.linalg.solve(full, cross.T)
    # The samples know of the points only what the knots explain.
    left = KERNEL(points) - phi.T @ phi
    np.testing.assert_allclose(covariance, posterior - np.kron(tied, left), atol=1e-8)


def test_drawn_samples_spread_as_the_variance_says():
    regression = regression_of(*related(5, (10, 10)))
    fit = regression.fit(0.7)
    points = regression.knots[:5]
    normal = np.random.default_rng(1).normal(size=(4000, 3, len(regression.knots), 2))
    functions = fit.samples(normal).reshape(4000, 2, -1, 2)
    values = np.einsum("simo,mn->sino", functions, regression.coordinates.features(points))
    for i in range(2):
        np.testing.assert_allclose(values[:, i].mean(axis=0), fit.family(points)[:, i], atol=0.02)
        np.testing.assert_allclose(values[:, i].var(axis=0), fit.variance(i, points), rtol=0.15)


def test_with_few_knots_the_variance_keeps_what_they_cannot_explain():
    inputs, targets = related(2, (40, 40))
    fit = regression_of(inputs, targets, max_knots=5).at(2.0)
    far = np.array([[40.0, 40.0]])
    prior = fit.problem.covariance(fit.multipliers)[0, 0]
    np.testing.assert_allclose(fit.variance(0, far), prior)
    # The process whose kernel is φᵀφ, and the prior's variance of what it leaves out.
    points = np.random.default_rng(0).uniform(-2.0, 2.0, (20, 2))
    tied = fit.problem.covariance(fit.multipliers)
    knots = np.linalg.inv(KERNEL(fit.family.knots))

    class OnKnots:
        def __call__(self, x, y=None):
            y = x if y is None else y
            return KERNEL(x, fit.family.knots) @ knots @ KERNEL(fit.family.knots, y)

        def diagonal(self, x):
            return np.diagonal(self(x))

    mean, variance, evidence = dense_process(inputs, targets, points, tied, kernel=OnKnots())
    np.testing.assert_allclose(fit.family(points)[:, 0], mean[0], atol=1e-8)
    left = prior * (1.0 - OnKnots().diagonal(points))[:, None]
    np.testing.assert_allclose(fit.variance(0, points), variance[0] + left, atol=1e-8)
    _, _, whole = dense_process(inputs, targets, points, tied)
    assert fit.log_evidence() < min(evidence, whole)


@pytest.mark.parametrize("multiplier", [0.0, 0.3, math.inf])
def test_points_of_other_weights_have_other_noise(multiplier):
    inputs, targets = related(4, (9, 5, 7))
    regression = regression_of(inputs, targets)
    weights = [np.random.default_rng(i).uniform(0.01, 2.0, len(x)) for i, x in enumerate(inputs)]
    regression.weigh(weights)
    fit = regression.at(multiplier)
    points = np.random.default_rng(0).uniform(-2.0, 2.0, (10, 2))
    tied = fit.problem.covariance(fit.multipliers)
    mean, variance, evidence = dense_process(inputs, targets, points, tied, weights=weights)
    for i in range(3):
        np.testing.assert_allclose(fit.family(points)[:, i], mean[i], atol=1e-7)
        np.testing.assert_allclose(fit.variance(i, points), variance[i], atol=1e-7)
    assert fit.log_evidence() == pytest.approx(evidence, abs=1e-5)
    assert max(fit.optimality()) < 1e-9
    assert fit.gap().relative < 1e-7
    # They may also come with the points.
    other = regression_of([x[:0] for x in inputs], [y[:0] for y in targets])
    for i in range(3):
        other.add(i, inputs[i], targets[i], weights[i])
    np.testing.assert_allclose(other.at(multiplier).family(points), fit.family(points), atol=1e-9)


def test_the_calibration_is_that_of_fits_without_each_point():
    inputs, targets = related(13, (9, 6), outputs=1)
    targets = [3.0 * y for y in targets]  # more than the prior expects
    fit = regression_of(inputs, targets, noise=NOISE[:1]).at(0.5)
    relative = []
    for i in range(2):
        for n in range(len(inputs[i])):
            kept = [np.arange(len(x)) != (n if j == i else -1) for j, x in enumerate(inputs)]
            one = regression_of(
                [x[k] for x, k in zip(inputs, kept, strict=True)],
                [y[k] for y, k in zip(targets, kept, strict=True)],
                noise=NOISE[:1],
            ).at(0.5)
            x, y = inputs[i][n : n + 1], targets[i][n, 0]
            relative.append(abs(y - one.family(x)[0, i, 0]) / math.sqrt(one.variance(i, x)[0, 0]))
    assert fit.calibration == pytest.approx(np.quantile(relative, 0.9) / 1.6448536269514722)


def test_bands_of_functions_that_the_prior_draws_cover_as_they_say():
    # Many families whose functions are what the regression supposes, each asked at one point.
    draw, N, inside, factors = np.random.default_rng(0), 3, [], []
    inputs = [draw.uniform(-2.0, 2.0, (12, 2)) for _ in range(N)]
    points = draw.uniform(-1.5, 1.5, (300, 2))
    regression = regression_of(inputs, [np.zeros((12, 1))] * N, noise=NOISE[:1])
    tied = regression.at(0.5).problem.covariance(np.full(N, 0.5))
    x, task = np.concatenate(inputs), np.repeat(np.arange(N), 12)
    for point in points:
        where, whose = np.concatenate([x, point[None]]), np.append(task, 1)
        gram = tied[np.ix_(whose, whose)] * KERNEL(where) + 1e-10 * np.eye(len(where))
        values = np.linalg.cholesky(gram) @ draw.normal(size=len(where))
        seen = values[:-1] + NOISE[0] * draw.normal(size=len(x))
        # With knots wherever it is asked, samples leave nothing unexplained.
        regression = regression_of(inputs, list(seen.reshape(N, 12, 1)), noise=NOISE[:1])
        fit = regression.at(0.5)
        phi = regression.coordinates.features(point[None])
        normal = draw.normal(size=(99, N + 1, len(regression.knots), 1))
        functions = fit.samples(normal).reshape(99, N, -1)[:, 1]
        left = tied[1, 1] * float(regression.coordinates.unexplained(point[None])[0])
        sampled = functions @ phi[:, 0] + math.sqrt(left) * draw.normal(size=99)
        inside.append(5 <= np.sum(sampled < values[-1]) <= 94)
        factors.append(fit.calibration)
    # Between the quantiles that a binomial number of 300 leaves in 1 of 1,000 cases.
    assert 253 <= np.sum(inside) <= 286
    # Errors of noisy targets are larger than those of the functions, never smaller.
    assert np.mean(factors) > 0.9


def test_a_few_points_far_off_hardly_move_robust_functions():
    inputs, targets = related(14, (60, 60), outputs=1)
    clean = regression_of(inputs, targets, noise=NOISE[:1]).at(0.5)
    spoiled = [y.copy() for y in targets]
    spoiled[0][[5, 40]] += 25.0
    regression = regression_of(inputs, spoiled, noise=NOISE[:1])
    plain = regression.at(0.5)
    for _ in range(3):
        regression.weigh(regression.at(0.5).robust_weights(least=1e-6))
    robust = regression.at(0.5)
    error = [
        np.max(np.abs(one.family(inputs[0]) - clean.family(inputs[0]))) for one in (plain, robust)
    ]
    assert error[0] > 1.0
    assert error[1] < 0.15
    assert (
        max(w[n] for w, n in zip(robust.point_weights, ([5, 40], []), strict=True) for n in n)
        < 1e-2
    )
    # With normal noise only what the knots leave unexplained counts.
    few = regression_of(inputs, spoiled, noise=NOISE[:1], max_knots=4).at(0.5)
    weights = few.robust_weights()
    prior = few.problem.covariance(few.multipliers)[0, 0]
    left = few.coordinates.unexplained(inputs[0])
    np.testing.assert_allclose(weights[0], NOISE[0] ** 2 / (NOISE[0] ** 2 + prior * left))


def test_weights_that_are_none_are_refused():
    regression = regression_of(*related(0))
    with pytest.raises(InputError, match="weights must be positive, got 0"):
        regression.add(0, np.zeros((2, 2)), np.zeros((2, 2)), [1.0, 0.0])
    with pytest.raises(InputError, match=r"weights of task 1 must have shape \(8\)"):
        regression.weigh([np.ones(12), np.ones(7), np.ones(15)])


def test_residuals_are_those_of_the_data():
    inputs, targets = related(6, (12, 0, 7))
    fit = regression_of(inputs, targets).fit(0.5)
    for i in (0, 2):
        wrong = targets[i] - fit.family(inputs[i])[:, i]
        np.testing.assert_allclose(fit.residuals()[i], np.sqrt(np.mean(wrong**2, axis=0)))
    assert np.all(np.isnan(fit.residuals()[1]))


@pytest.mark.parametrize("method", ["exact", "relaxed"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 0.5, math.inf])
def test_conditions_of_optimality_hold_and_notice_what_is_wrong(epsilon, method):
    fit = regression_of(*related(7, (12, 8, 15, 3))).fit(epsilon, method)
    assert max(fit.optimality()) < 1e-9
    shifted = fit.solution._replace(centre=fit.solution.centre * 1.001)
    object.__setattr__(fit, "solution", shifted)
    assert fit.optimality().stationarity > 1e-6


@pytest.mark.parametrize("epsilon", [0.0, 0.4, math.inf])
def test_the_gap_holds_whatever_the_knots(epsilon):
    inputs, targets = related(8, (60, 50, 70))
    best = regression_of(inputs, targets).fit(epsilon)
    assert best.gap().relative < 1e-7
    relative = []
    for knots in (3, 8, 20, 60):
        fit = regression_of(inputs, targets, max_knots=knots).fit(epsilon)
        assert len(fit.family.knots) == knots
        gap = fit.gap()
        # The true optimum lies between.
        assert gap.dual <= best.objective() * (1.0 + 1e-9)
        assert best.objective() <= gap.primal * (1.0 + 1e-9)
        relative.append(gap.relative)
    assert relative[-1] < 1e-3 < relative[1]


def test_the_gap_is_the_same_in_blocks(monkeypatch):
    regression = regression_of(*related(8, (30, 20, 25)), max_knots=10)
    whole = regression.fit(0.4)
    monkeypatch.setattr("crosslearning.rkhs.knot_coordinates.BLOCK", 7)
    np.testing.assert_allclose(regression.fit(0.4).gap(), whole.gap(), rtol=1e-12)


def test_a_fit_keeps_its_points_when_more_are_added():
    inputs, targets = related(9, (10, 10))
    regression = regression_of(inputs, targets)
    fit = regression.fit(0.5)
    before = fit.family(inputs[0])
    regression.add(0, [[5.0, 5.0]], [[1.0, 1.0]])
    assert len(regression.fit(0.5).family.knots) == 21
    np.testing.assert_array_equal(fit.family(inputs[0]), before)
    assert fit.gap().relative < 1e-7
    assert fit.variance(0, inputs[0]).shape == (10, 2)


def test_wrong_questions_are_told():
    fit = regression_of(*related(0)).fit(0.5)
    with pytest.raises(InputError, match="no task 3"):
        fit.variance(3, [[0.0, 0.0]])
    with pytest.raises(InputError, match=r"points must have shape \(any, 2\)"):
        fit.variance(0, [[0.0]])
    with pytest.raises(InputError, match="normal must have shape"):
        fit.samples(np.zeros((2, 3, 4, 1)))


# Many points --------------------------------------------------------------------------------


def test_points_may_come_in_any_portions():
    inputs, targets = related(10, (90, 60))
    whole = regression_of(inputs, targets, max_knots=40, tolerance=1e-6)
    portions = CrossRegression(KERNEL, 2, 2, noise=NOISE, ridge=0.7, max_knots=40, tolerance=1e-6)
    for first in range(0, 90, 30):
        for i in range(2):
            own = slice(first, first + 30)
            portions.add(i, inputs[i][own], targets[i][own])
        portions.fit(0.5)
    # Knots that are already there stay; those of a fresh choice may be others.
    portions.forget_knots()
    one, other = whole.fit(0.5), portions.fit(0.5)
    np.testing.assert_allclose(one.family(inputs[0]), other.family(inputs[0]), atol=1e-9)


def test_later_points_without_knots_of_their_own_count_as_much():
    inputs, targets = related(11, (40, 40))
    regression = CrossRegression(KERNEL, 2, 2, noise=NOISE, max_knots=12)
    fresh = CrossRegression(KERNEL, 2, 2, noise=NOISE, max_knots=12)
    for i in range(2):
        regression.add(i, inputs[i][:12], targets[i][:12])
    knots = regression.knots
    for i in range(2):
        regression.add(i, inputs[i][12:], targets[i][12:])
        fresh.add(i, inputs[i], targets[i])
    np.testing.assert_array_equal(regression.knots, knots)
    statistics = [task.product for task in regression.problem.tasks]
    for i in range(2):
        phi = regression.coordinates.features(inputs[i])
        np.testing.assert_allclose(statistics[i], phi @ phi.T, atol=1e-10)
    # Knots from all points serve them at least as well, here.
    assert fresh.fit(0.3).objective() < 1.5 * regression.fit(0.3).objective()


def test_knots_from_more_points_than_are_looked_at_together(monkeypatch):
    monkeypatch.setattr("crosslearning.rkhs.knot_coordinates._CANDIDATES", 16)
    monkeypatch.setattr("crosslearning.rkhs.knot_coordinates.BLOCK", 50)
    x = np.random.default_rng(0).uniform(-2.0, 2.0, (400, 2))
    regression = CrossRegression(Gaussian(std=[2.0, 2.0]), 1, 1, tolerance=1e-3)
    regression.add(0, x, np.sin(x[:, :1]))
    left = regression.coordinates.unexplained(x)
    assert 10 < len(regression.knots) < 60
    assert np.max(left) <= 1e-3
    monkeypatch.undo()
    whole = CrossRegression(Gaussian(std=[2.0, 2.0]), 1, 1, tolerance=1e-3)
    whole.add(0, x, np.sin(x[:, :1]))
    np.testing.assert_allclose(regression.fit(1.0).family(x), whole.fit(1.0).family(x), atol=0.01)


# Data that are not as they should be ---------------------------------------------------------


def test_wrong_data_are_refused_and_change_nothing():
    regression = regression_of(*related(0))
    x, y = np.zeros((2, 2)), np.zeros((2, 2))
    for inputs, targets, message in [
        (x * np.nan, y, "inputs must be finite, got nan at index"),
        (
            x,
            np.array([[1.0, 2.0], [3.0, np.inf]]),
            r"targets must be finite, got inf at .*\(1, 1\)",
        ),
        (x[:, :1], y, r"inputs must have shape \(any, 2\), got \(2, 1\)"),
        (x, y[:1], r"targets must have shape \(2, 2\), got \(1, 2\)"),
        (x, y[:, 0], r"targets must have shape \(2, 2\), got \(2,\)"),
        (x, [["a", "b"]] * 2, "array of numbers"),
    ]:
        with pytest.raises(InputError, match=message):
            regression.add(0, inputs, targets)
    assert list(map(len, regression.inputs)) == [12, 8, 15]
    with pytest.raises(InputError, match="no task 3; there are 3, from 0"):
        regression.add(3, x, y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"noise": 0.0}, "noise must be positive"),
        ({"noise": [0.1, 0.2, 0.3]}, r"noise must have shape \(2\)"),
        ({"noise": math.nan}, "noise must be finite"),
        ({"ridge": -1.0}, "ridge must be positive"),
        ({"ridge": math.inf}, "ridge must be positive"),
        ({"max_knots": 0}, "max_knots must be a whole number of at least 1"),
        ({"tolerance": -1.0}, "tolerance must be a number of at least 0"),
    ],
)
def test_wrong_settings_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        CrossRegression(KERNEL, 3, 2, **given)


def test_wrong_radii_methods_and_multipliers_are_refused():
    with pytest.raises(InputError, match="kernel must be a Kernel"):
        CrossRegression("gaussian", 3, 2)
    with pytest.raises(InputError, match="no points to fit"):
        CrossRegression(KERNEL, 3, 2).fit(1.0)
    regression = regression_of(*related(0))
    with pytest.raises(InputError, match="epsilon must be a number of at least 0"):
        regression.fit(-1.0)
    with pytest.raises(InputError, match="did you mean 'exact'"):
        regression.fit(1.0, "exakt")
    with pytest.raises(InputError, match="multiplier must be a number of at least 0"):
        regression.at(math.nan)


def test_a_task_without_points_follows_the_others():
    inputs, targets = related(12, (30, 0, 30), unlike=0.1)
    regression = regression_of(inputs, targets)
    fit = regression.at(5.0)
    values = fit.family(inputs[0])
    np.testing.assert_allclose(values[:, 1], values[:, 3] * 5.0 / 5.7, atol=1e-8)  # μ/(ρ + μ) f_c
    assert np.all(fit.variance(1, inputs[0]) > fit.variance(0, inputs[0]))
    np.testing.assert_allclose(regression.fit(math.inf).family(inputs[0])[:, 1], 0.0, atol=1e-12)


def test_three_points_a_constant_input_and_a_constant_target_are_fitted():
    x = np.column_stack([np.linspace(-1.0, 1.0, 3), np.ones(3)])
    regression = CrossRegression(KERNEL, 2, 2, noise=0.01)
    for i in range(2):
        regression.add(i, x, np.column_stack([np.sin(x[:, 0] + i), np.zeros(3)]))
    fit = regression.fit(0.3)
    assert max(fit.optimality()) < 1e-9
    np.testing.assert_allclose(fit.family(x)[:, :, 1], 0.0, atol=1e-12)
    assert np.all(np.isfinite(fit.variance(0, x)))


def test_the_same_point_many_times_is_one_knot():
    regression = CrossRegression(KERNEL, 1, 1, noise=1.0, ridge=1.0)
    regression.add(0, np.zeros((50, 2)), np.arange(50.0)[:, None])
    fit = regression.fit(1.0)
    assert len(fit.family.knots) == 1
    assert fit.family([0.0, 0.0])[0, 0] == pytest.approx(np.arange(50.0).sum() / 51.0)


def test_a_jump_of_units_between_tasks_is_warned_of():
    inputs, targets = related(0, (20, 20, 20))
    regression = regression_of(inputs, [targets[0], 1000.0 * targets[1], targets[2]])
    with pytest.warns(UserWarning, match="output . are spread .* times wider in one task") as seen:
        regression.fit(1.0)
    assert seen[0].filename == __file__
    # Little beside the noise says nothing of units, nor do a few points.
    regression_of(inputs, [targets[0], 1e-3 * targets[1], targets[2]], noise=NOISE).fit(1.0)
    regression_of([x[:5] for x in inputs], [1e3**i * y[:5] for i, y in enumerate(targets)]).fit(1)
