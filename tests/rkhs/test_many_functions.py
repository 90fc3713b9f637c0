"""Families with very many weights: the same mathematics in products instead of loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.rkhs import Dictionary, Family, Gaussian, Linear, prune
from crosslearning.rkhs import dictionary as dictionaries
from crosslearning.rkhs import projection as projections
from crosslearning.rkhs.geometry import RIDGE
from crosslearning.rkhs.projection import exact_projection, free_projection, relaxed_projection
from tests.rkhs.examples import extended_distances, knots_of, random_family

KINDS = ["random", "clustered", "duplicated"]
NOT_NORMALISED = 0.3 * Gaussian(std=[1.0, 1.3, 0.7]) + Linear([2.0, 3.0, 4.0], bias=1.0)


@pytest.fixture
def many(monkeypatch):
    """Let every family count as one with many weights."""
    monkeypatch.setattr(dictionaries, "MANY_WEIGHTS", 0)


def merged(seed, functions, knots, kind="random"):
    return Dictionary.of(random_family(seed, functions, 2, knots=knots, kind=kind)).family()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("budget", "cap"), [(0.3, 200), (1e-6, 40), (0.5, 60), (np.inf, 200)])
def test_removals_among_candidates_are_the_greedy_ones(monkeypatch, kind, budget, cap):
    family = merged(3, 6, 150, kind)
    few, expected = prune(family, budget, cap)
    monkeypatch.setattr(dictionaries, "MANY_WEIGHTS", 0)
    pruned, certificate = prune(family, budget, cap)
    assert certificate.removed == expected.removed
    np.testing.assert_allclose(certificate.errors, expected.errors, rtol=0.02, atol=1e-6)
    assert np.max(pruned.distances_to(few), initial=0.0) <= 0.05 * np.max(expected.errors) + 1e-6


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    budget=st.floats(-4, 1).map(lambda e: 10**e),
    cap=st.integers(1, 140),
)
def test_the_claim_bounds_the_truth(seed, kind, budget, cap):
    family = merged(seed, 3, 140, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dictionaries, "MANY_WEIGHTS", 0)
        pruned, certificate = prune(family, budget, cap)
    truth = extended_distances(family, pruned)
    assert np.all(truth <= certificate.errors * (1 + 1e-6) + 1e-14)
    assert len(pruned.knots) == certificate.knots <= cap
    assert np.all(certificate.budgeted_errors <= budget * (1 + 1e-12))


@pytest.mark.parametrize("kernel", [Gaussian(std=[1.0, 1.3, 0.7]), NOT_NORMALISED])
def test_inner_products_through_a_factor_are_the_same(monkeypatch, kernel):
    generator = np.random.default_rng(0)
    knots, weights = generator.uniform(0, 8, (50, 3)), generator.standard_normal((50, 5, 2))
    dictionary = Dictionary.of(Family(kernel, knots, weights))
    expected = dictionary.differences()
    monkeypatch.setattr(dictionaries, "MANY_WEIGHTS", 0)
    np.testing.assert_allclose(dictionary.differences(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("project", [exact_projection, relaxed_projection, free_projection])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 3.0, np.inf])
def test_a_projection_is_applied_without_its_matrix(monkeypatch, project, epsilon):
    functions = np.random.default_rng(1).standard_normal((9, 4, 7))
    apart = (functions[:-1] - functions[-1]).reshape(8, -1)
    projection = project(apart @ apart.T, epsilon)
    expected = np.einsum("fg,gpc->fpc", projection.mixing, functions)
    monkeypatch.setattr(projections, "_FEW", 0)
    projection.apply(functions)
    np.testing.assert_allclose(functions, expected, atol=1e-13)


# Folding -------------------------------------------------------------------------------------


def begun(kernel=None, knots=30, functions=4, seed=0, kind="random"):
    """Return a dictionary with some knots, pruned once."""
    generator = np.random.default_rng(seed)
    kernel = kernel or Gaussian(std=[1.0, 1.3, 0.7])
    dictionary = Dictionary(kernel, functions, 2)
    weights = generator.standard_normal((knots, functions, 2))
    dictionary.extend(knots_of(kind, generator, knots), weights)
    dictionary.prune(1e-9)
    return dictionary


def steps(tasks, each, functions, seed=1, kind="random"):
    """Return new knots, some for each of the tasks, that carry weights of their own task."""
    generator = np.random.default_rng(seed)
    knots = knots_of(kind, generator, tasks * each)
    weights = np.zeros((tasks * each, functions, 2))
    for i in range(tasks):
        weights[i * each : (i + 1) * each, i] = generator.standard_normal((each, 2))
    return knots, weights


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cap", [20, 32, 40])
def test_folding_says_how_far_it_moves_every_function(many, kind, cap):
    dictionary, (knots, weights) = begun(kind=kind), steps(4, 10, 4, kind=kind)
    whole = begun(kind=kind)
    whole.extend(knots, weights)
    certificate = dictionary.extend_within(knots, weights, 1e-3, cap)
    assert len(dictionary) <= max(1.25 * cap, len(begun(kind=kind)))
    truth = extended_distances(whole.family(), dictionary.family())
    assert np.all(truth <= certificate.errors * (1 + 1e-6) + 1e-7)
    # λ makes the claim larger than the truth, by no more than √λ times the weights.
    assert np.all(certificate.errors <= np.asarray(truth, dtype=float) + 0.05)


def test_folding_is_the_orthogonal_projection(many):
    dictionary, (knots, weights) = begun(), steps(4, 5, 4)
    whole = begun()
    whole.extend(knots, weights)
    family = whole.family()
    dictionary.extend_within(knots, weights, 1e-3, 28)
    kept = dictionary.family()
    K = family.kernel(kept.knots) + RIDGE * np.eye(len(kept.knots))
    same = (kept.knots[:, None] == family.knots[None]).all(axis=2)
    cross = family.kernel(kept.knots, family.knots) + RIDGE * same
    flat = cross @ family.weights.reshape(len(family.knots), -1)
    best = np.linalg.solve(K, flat).reshape(kept.weights.shape)
    np.testing.assert_allclose(kept.weights, best, atol=1e-6)


def test_folding_suits_kernels_that_are_not_one_on_the_diagonal(many):
    dictionary, (knots, weights) = begun(NOT_NORMALISED), steps(4, 10, 4)
    whole = begun(NOT_NORMALISED)
    whole.extend(knots, weights)
    certificate = dictionary.extend_within(knots, weights, 1e-3, 32)
    truth = whole.family().distances_to(dictionary.family())
    assert np.all(truth <= certificate.errors * (1 + 1e-6) + 1e-6)
    assert np.max(certificate.errors) <= np.max(truth) + 0.1


def test_any_number_of_knots_is_taken_in_parts(many):
    dictionary, (knots, weights) = begun(functions=11), steps(10, 30, 11)
    whole = begun(functions=11)
    whole.extend(knots, weights)
    folded = dictionary.extend_within(knots, weights, 1e-3, 40)
    assert len(dictionary) <= 50
    assert folded.removed == 330 - len(dictionary)
    certificate = dictionary.prune(1e-3, 40, folded)
    assert len(dictionary) == certificate.knots == 40
    assert certificate.removed == certificate.forced_by_cap == 290
    truth = whole.family().distances_to(dictionary.family())
    assert np.all(truth <= certificate.errors * (1 + 1e-6))


def test_what_folding_spends_is_taken_off_the_budget(many):
    dictionary, (knots, weights) = begun(), steps(4, 10, 4)
    weights *= 1e-3
    budget = 0.05
    folded = dictionary.extend_within(knots, weights, budget, 40)
    assert folded.removed > 0
    assert folded.within_budget
    assert 0 < np.max(folded.errors) < budget
    certificate = dictionary.prune(budget, 1000, folded)
    assert certificate.within_budget
    assert certificate.removed > folded.removed
    assert np.all(certificate.errors <= budget)


def test_knots_without_weights_cost_nothing(many):
    dictionary, (knots, weights) = begun(), steps(4, 10, 4)
    before = dictionary.family()
    certificate = dictionary.extend_within(knots, 0.0 * weights, 0.0, 30)
    assert certificate.within_budget
    assert certificate.errors.tolist() == [0.0] * 4
    assert np.max(dictionary.family().distances_to(before)) <= 1e-9
