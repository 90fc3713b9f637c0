"""Regressions on knots against the plain formula; and which states are new to a dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.errors import FileFormatError, InputError, NumericalError
from crosslearning.rkhs import Dictionary, Gaussian, Linear, Polynomial
from crosslearning.rkhs import dictionary as dictionaries
from crosslearning.rkhs import regression as regressions
from crosslearning.rkhs.geometry import RIDGE
from crosslearning.rkhs.regression import FamilyRegression

KERNEL = Gaussian(std=[1.0, 0.7])
SIZES = [(30, 41), (25, 12), (50, 33)]


@pytest.fixture(params=["few tasks", "many tasks"])
def few_or_many(request, monkeypatch):
    """Keep matrices for every task, or compute them when they are needed."""
    monkeypatch.setattr(regressions, "MANY_TASKS", 64 if request.param == "few tasks" else 0)


def blocks(seed=0, sizes=SIZES, q=2):
    draw = np.random.default_rng(seed)
    return [[draw.normal(size=(n, q)) for n in own] for own in sizes]


def plain_weights(kernel, knots, states, targets, ridge):
    """(ΦᵀΦ + ρ(K + λ diag(1 + κ(s, s)))) α = Φᵀy, all at once."""
    gram, phi = kernel(knots), kernel(np.concatenate(states), knots)
    added = RIDGE * np.diag(1.0 + np.diag(gram))
    return np.linalg.solve(phi.T @ phi + ridge * (gram + added), phi.T @ np.concatenate(targets))


@pytest.mark.usefixtures("few_or_many")
@pytest.mark.parametrize("kernel", [KERNEL, Linear(std=[1.0, 1.0]), Polynomial([2.0, 2.0], 2)])
def test_it_is_the_plain_ridge_regression(kernel):
    draw, data = np.random.default_rng(1), blocks()
    regression = FamilyRegression(kernel, tasks=2, blocks=5)
    regression.use(draw.normal(size=(9, 2)))
    for block in data:
        regression.push(block)
    for i in range(2):
        targets = [draw.normal(size=(len(block[i]), 3)) for block in reversed(data)]
        weights = regression.solve(i, targets, ridge=0.3)
        states = [block[i] for block in reversed(data)]
        expected = plain_weights(kernel, regression.knots, states, targets, 0.3)
        # What the weights do is what is asked for: of a linear kernel they are not unique.
        at = kernel(draw.normal(size=(20, 2)), regression.knots)
        np.testing.assert_allclose(at @ weights, at @ expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            regression.values(0, i, weights), kernel(states[0], regression.knots) @ weights
        )


def coupled(seed, correlation, ridge, tasks=3, knots=7):
    """Return a regression, its targets, and the functions that were fitted at some points."""
    draw = np.random.default_rng(seed)
    data = blocks(seed, [draw.integers(1, 20, tasks) for _ in range(2)])
    regression = FamilyRegression(KERNEL, tasks, blocks=2)
    regression.use(draw.normal(size=(knots, 2)))
    for block in data:
        regression.push(block)
    targets = [[draw.normal(size=(len(b[i]), 2)) for b in reversed(data)] for i in range(tasks)]
    weights = regression.solve_all(targets, ridge, correlation)
    at = KERNEL(draw.normal(size=(20, 2)), regression.knots)
    return regression, targets, at, np.einsum("nm,mip->inp", at, weights)


@given(
    seed=st.integers(0, 10_000),
    correlation=st.sampled_from([0.0, 1e-9, 0.1, 0.5, 0.9, 0.999, 1.0]),
    ridge=st.floats(0.01, 10.0),
)
def test_coupled_tasks_are_one_regression_with_a_kernel_over_state_and_task(
    seed, correlation, ridge
):
    """Against the plain formula: the prior covariance of the weights is K⁻¹ c_ij / ρ."""
    regression, targets, at, functions = coupled(seed, correlation, ridge)
    N, m, gram = 3, len(regression.knots), KERNEL(regression.knots)
    shrunk = gram + RIDGE * np.diag(1.0 + np.diag(gram))
    between = correlation + (1.0 - correlation) * np.eye(N)
    prior = np.kron(between, np.linalg.inv(shrunk)) / ridge
    rows, y = [], []
    for i in range(N):
        states = np.concatenate([regression.states(b, i) for b in range(2)])
        phi = np.zeros((len(states), N * m))
        phi[:, i * m : (i + 1) * m] = KERNEL(states, regression.knots)
        rows.append(phi)
        y.append(np.concatenate(targets[i]))
    phi, y = np.concatenate(rows), np.concatenate(y)
    expected = prior @ phi.T @ np.linalg.solve(phi @ prior @ phi.T + np.eye(len(phi)), y)
    expected = np.einsum("nm,imp->inp", at, expected.reshape(N, m, 2))
    np.testing.assert_allclose(functions, expected, rtol=1e-5, atol=1e-6)


def test_tasks_that_are_not_coupled_are_regressed_one_by_one(monkeypatch):
    """The bits are those of separate regressions; with very many tasks there is no coupling."""
    regression, targets, _, _ = coupled(0, 0.0, 0.5)
    alone = [regression.solve(i, y, 0.5) for i, y in enumerate(targets)]
    np.testing.assert_array_equal(regression.solve_all(targets, 0.5, 0.0), np.stack(alone, 1))
    # Nearly no correlation is nearly the same; some is not.
    near, far = (regression.solve_all(targets, 0.5, one) for one in (1e-12, 0.5))
    at = KERNEL(regression.states(0, 0), regression.knots)
    np.testing.assert_allclose(at @ near[:, 0], at @ alone[0], atol=1e-6)
    assert np.max(np.abs(at @ far[:, 0] - at @ alone[0])) > 0.01
    monkeypatch.setattr(regressions, "MANY_TASKS", 2)
    np.testing.assert_array_equal(regression.solve_all(targets, 0.5, 0.5), np.stack(alone, 1))


def test_tasks_that_correlate_fully_share_one_function():
    _, _, _, functions = coupled(1, 1.0, 0.5)
    np.testing.assert_allclose(functions[1:], functions[:1].repeat(2, axis=0), atol=1e-9)


@pytest.mark.usefixtures("few_or_many")
def test_products_are_means_over_the_newest_states_of_all_tasks():
    draw, data = np.random.default_rng(3), blocks()
    regression = FamilyRegression(KERNEL, 2, 2)
    regression.use(draw.normal(size=(5, 2)))
    for block in data:
        regression.push(block)
    weights = draw.normal(size=(5, 4))
    values = KERNEL(np.concatenate(data[-1]), regression.knots) @ weights
    expected = values.T @ values / len(values)
    np.testing.assert_allclose(regression.inner_products(weights), expected, rtol=1e-9)


@pytest.mark.usefixtures("few_or_many")
def test_knots_that_come_and_go_leave_what_a_fresh_start_would_give():
    draw, data = np.random.default_rng(2), blocks()
    pool = draw.normal(size=(12, 2))
    changing = FamilyRegression(KERNEL, 2, 2)
    for block, chosen in zip(data, ([0, 1, 2, 3], [3, 1, 7, 8, 9], [9, 0, 11, 3]), strict=True):
        changing.push(block)
        changing.use(pool[chosen])
    fresh = FamilyRegression(KERNEL, 2, 2)
    fresh.use(pool[[9, 0, 11, 3]])
    for block in data[1:]:
        fresh.push(block)
    assert len(changing) == 2  # the oldest block has gone
    np.testing.assert_array_equal(changing.knots, fresh.knots)
    np.testing.assert_array_equal(changing.gram, fresh.gram)
    for i in range(2):
        targets = [np.sin(changing.states(b, i)[:, :1]) for b in range(2)]
        np.testing.assert_allclose(
            changing.solve(i, targets, 0.1), fresh.solve(i, targets, 0.1), rtol=1e-7
        )


@pytest.mark.usefixtures("few_or_many")
def test_a_saved_regression_goes_on_bit_for_bit():
    draw, data = np.random.default_rng(3), blocks()
    knots = draw.normal(size=(21, 2))
    one = FamilyRegression(KERNEL, 2, 2)
    one.push(data[0])
    one.use(knots[:13])
    one.push(data[1])
    other = FamilyRegression(KERNEL, 2, 2)
    other.restore(one.state(), [data[1], data[0]])
    for regression in (one, other):
        regression.use(knots[4:])
        regression.push(data[2])
    targets = [np.cos(one.states(b, 1)) for b in range(2)]
    np.testing.assert_array_equal(one.solve(1, targets, 0.5), other.solve(1, targets, 0.5))


@pytest.mark.usefixtures("few_or_many")
def test_a_state_that_does_not_fit_is_refused():
    data = blocks()[:1]
    regression = FamilyRegression(KERNEL, 2, 2)
    regression.push(data[0])
    regression.use(data[0][0][:3])
    state = regression.state()
    for name, array in state.items():
        for wrong in (array[:-1], array * np.nan):
            with pytest.raises(FileFormatError, match="regression"):
                FamilyRegression(KERNEL, 2, 2).restore({**state, name: wrong}, data)


def test_numbers_beyond_reason_are_told():
    regression = FamilyRegression(KERNEL, 1, 1)
    regression.use(np.zeros((1, 2)))
    regression.push([np.zeros((3, 2))])
    with pytest.raises(NumericalError, match="sensible size"):
        regression.solve(0, [np.full((3, 1), np.inf)], 1.0)


# Dictionaries ---------------------------------------------------------------------------


def plain_novel(kernel, knots, states, tolerance, most):
    """The greedy choice by the definition: the residual of every state, each time anew."""
    chosen = []
    for _ in range(most):
        basis = np.concatenate([knots, states[chosen]])
        cross = kernel(states, basis) if len(basis) else np.zeros((len(states), 0))
        left = kernel.diagonal(states)
        if len(basis):
            left = left - np.sum(cross * np.linalg.lstsq(kernel(basis), cross.T)[0].T, axis=1)
        share = left / kernel.diagonal(states)
        share[chosen] = 0.0
        if share.max() <= tolerance:
            break
        chosen.append(int(np.argmax(share)))
    return chosen


@pytest.mark.parametrize("kernel", [KERNEL, Polynomial([1.0, 1.0], 3)])
@given(seed=st.integers(0, 1000), known=st.integers(0, 5), most=st.integers(1, 8))
def test_novel_states_are_those_of_the_definition(kernel, seed, known, most):
    draw = np.random.default_rng(seed)
    dictionary = Dictionary(kernel, 1, 1)
    knots = 2.0 * draw.normal(size=(known, 2))
    if known:
        dictionary.extend(knots, np.ones((known, 1, 1)))
    states = 2.0 * draw.normal(size=(30, 2))
    novel = dictionary.novel(states, 0.05, most)
    expected = plain_novel(kernel, knots, states, 0.05, most)
    assert novel.tolist() == expected


def left_of(kernel, knots, states):
    """Return which share of each state's kernel the span of knots leaves."""
    across = kernel(states, knots)
    inverse = np.linalg.pinv(kernel(knots, knots), hermitian=True)
    return 1.0 - np.einsum("nm,mk,nk->n", across, inverse, across) / kernel.diagonal(states)


@pytest.mark.parametrize("kernel", [KERNEL, Polynomial([1.0, 1.0], 3)])
@pytest.mark.parametrize(("known", "most"), [(0, 100), (4, 100), (4, 5)])
def test_many_states_are_looked_at_in_parts(monkeypatch, kernel, known, most):
    monkeypatch.setattr(dictionaries, "MANY_STATES", 100)
    monkeypatch.setattr(dictionaries, "_PART", 60)
    draw = np.random.default_rng(0)
    dictionary = Dictionary(kernel, 1, 1)
    knots, states = draw.normal(size=(known, 2)), draw.normal(size=(500, 2))
    if known:
        dictionary.extend(knots, np.ones((known, 1, 1)))
    novel = dictionary.novel(states, 0.05, most)
    assert len(np.unique(novel)) == len(novel) <= most
    assert len(dictionary) == known
    for k in range(1, len(novel)):
        before = np.concatenate([knots, states[novel[:k]]])
        assert left_of(kernel, before, states[novel[k]][None])[0] > 0.05 - 1e-4
    if most == 100:
        assert 2 < len(novel) < 100
        every = np.concatenate([knots, states[novel]])
        assert np.max(left_of(kernel, every, states)) <= 0.05 + 1e-4


def test_nothing_is_new_at_the_knots():
    dictionary = Dictionary(KERNEL, 1, 1)
    knots = np.random.default_rng(0).normal(size=(6, 2))
    dictionary.extend(knots, np.ones((6, 1, 1)))
    assert dictionary.novel(knots, 0.01, 10).size == 0


def test_weights_are_replaced_and_checked():
    dictionary = Dictionary(KERNEL, 2, 1)
    knots = np.random.default_rng(0).normal(size=(3, 2))
    dictionary.extend(knots, np.ones((3, 2, 1)))
    new = np.arange(6.0).reshape(3, 2, 1)
    dictionary.replace(new)
    np.testing.assert_array_equal(dictionary.weights, new)
    with pytest.raises(InputError, match="weights"):
        dictionary.replace(new[:2])
