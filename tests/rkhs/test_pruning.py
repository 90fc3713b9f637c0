"""CDKOMP: the certificate against extended precision, removals against the literal algorithm."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.errors import InputError, NumericalError
from crosslearning.rkhs import (
    Dictionary,
    Family,
    Gaussian,
    Linear,
    PairKernel,
    Polynomial,
    project,
    prune,
)
from crosslearning.rkhs.geometry import RIDGE
from crosslearning.rkhs.pruning import remove_knots
from tests.rkhs.examples import extended_distances, knots_of, random_family
from tests.rkhs.literal_cdkomp import cdkomp

KINDS = ["random", "clustered", "duplicated"]


def removed_indices(before, after):
    left = {tuple(knot) for knot in after.knots}
    return {i for i, knot in enumerate(before.knots) if tuple(knot) not in left}


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    functions=st.integers(1, 5),
    budget=st.floats(-4, 1).map(lambda e: 10**e),
    cap=st.integers(1, 60),
)
def test_the_claim_bounds_the_truth(seed, kind, functions, budget, cap):
    family = random_family(seed, functions, 2, knots=60, kind=kind)
    merged = Dictionary.of(family).family()  # repeated knots meet, which changes no function
    assert np.max(family.distances_to(merged)) <= 1e-12
    pruned, certificate = prune(merged, budget, cap)
    truth = extended_distances(merged, pruned)
    assert np.all(truth <= certificate.errors * (1 + 1e-6) + 1e-14)
    assert len(pruned.knots) == certificate.knots <= cap
    assert certificate.removed == len(merged.knots) - certificate.knots
    if certificate.within_budget:
        assert np.max(certificate.errors) <= budget * (1 + 1e-12)
    squares = (
        certificate.budgeted_errors**2
        + certificate.conditioning_errors**2
        + certificate.cap_errors**2
    )
    np.testing.assert_allclose(np.sqrt(squares), certificate.errors, rtol=1e-12)
    assert np.all(certificate.budgeted_errors <= budget * (1 + 1e-12))


@pytest.mark.parametrize("kind", KINDS)
def test_the_claim_holds_for_a_sum_of_kernels(kind):
    # Not one on the diagonal, and of several products.
    generator = np.random.default_rng(5)
    kernel = 0.3 * Gaussian(std=[1.0, 1.3, 0.7]) + Linear([2.0, 3.0, 4.0], bias=1.0)
    knots, weights = knots_of(kind, generator, 60), generator.standard_normal((60, 2, 2))
    family = Dictionary.of(Family(kernel, knots, weights)).family()
    pruned, certificate = prune(family, 0.5)
    assert certificate.removed > 0
    assert np.all(family.distances_to(pruned) <= certificate.errors * (1 + 1e-6) + 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_claim_is_tight_or_says_why(kind):
    # λ makes the claim larger than the truth; never by more than √λ times the moved weights.
    family = Dictionary.of(random_family(1, 3, 2, knots=80, kind=kind)).family()
    pruned, certificate = prune(family, 0.05)
    truth = extended_distances(family, pruned)
    moved = np.zeros(3)
    index = {tuple(knot): weight for knot, weight in zip(pruned.knots, pruned.weights, strict=True)}
    for knot, weight in zip(family.knots, family.weights, strict=True):
        moved += np.sum((weight - index.get(tuple(knot), 0.0)) ** 2, axis=1)
    np.testing.assert_allclose(
        certificate.errors**2, (truth**2).astype(float) + RIDGE * moved, rtol=1e-5
    )


@pytest.mark.parametrize("seed", range(6))
def test_removals_are_those_of_the_printed_algorithm_for_one_function(seed):
    family = random_family(seed, 1, 2, knots=14)
    expected = cdkomp(family.gram, family.weights, budget=2.0, cumulative=False)
    assert expected
    # One function: the order does not depend on how the budget is counted.
    for removals in range(1, len(expected) + 1):
        pruned, _ = prune(family, 0.0, max_knots=14 - removals)
        assert removed_indices(family, pruned) == set(expected[:removals])


@pytest.mark.parametrize("seed", range(6))
def test_removals_are_those_of_the_literal_algorithm_with_a_cumulative_budget(seed):
    family = random_family(seed, 4, 2, knots=14)
    for budget in (0.3, 1.0, 3.0):
        expected = cdkomp(family.gram, family.weights, budget, cumulative=True)
        pruned, certificate = prune(family, budget)
        assert removed_indices(family, pruned) == set(expected)
        assert certificate.removed == len(expected)


def test_refit_is_the_orthogonal_projection():
    family = random_family(5, 3, 2, knots=30)
    pruned, certificate = prune(family, 1.0)
    assert 0 < certificate.removed < 30
    K = family.kernel(pruned.knots) + RIDGE * np.eye(len(pruned.knots))
    same = (family.knots[:, None] == pruned.knots[None]).all(axis=2)
    cross = family.kernel(pruned.knots, family.knots) + RIDGE * same.T
    best = np.linalg.solve(K, np.einsum("ab,bfp->afp", cross, family.weights).reshape(len(K), -1))
    np.testing.assert_allclose(pruned.weights.reshape(len(K), -1), best, atol=1e-10)


def test_budget_is_for_the_whole_call():
    # Many small removals add up: a budget per removal would let the sum run away.
    family = random_family(2, 2, 1, knots=200)
    _, certificate = prune(family, 0.5)
    assert certificate.removed > 3
    assert np.max(certificate.errors) <= 0.5


def test_everything_may_go():
    family = random_family(3, 3, 2)
    pruned, certificate = prune(family, math.inf)
    assert len(pruned.knots) == 0
    assert certificate.within_budget
    np.testing.assert_allclose(certificate.errors, family.norms(), rtol=1e-4)


def test_nothing_goes_for_nothing():
    family = random_family(3, 3, 2)
    pruned, certificate = prune(family, 0.0)
    np.testing.assert_array_equal(pruned.weights, family.weights)
    assert certificate.removed == 0
    assert certificate.errors.tolist() == [0.0, 0.0, 0.0]


@given(seed=st.integers(0, 300), kind=st.sampled_from(KINDS), budget=st.floats(0.001, 2.0))
def test_feasibility_survives_pruning(seed, kind, budget):
    family = random_family(seed, 4, 2, knots=40, kind=kind)
    epsilon = 0.4 * float(np.max(family.distances()))
    dictionary = Dictionary.of(family)
    projection = dictionary.project(epsilon)
    assert projection.active.any()
    assert np.all(dictionary.family().distances() <= epsilon * (1 + 1e-9))
    dictionary.prune(budget, max_knots=20)
    assert np.all(dictionary.family().distances() <= epsilon * (1 + 1e-9))


def test_a_dictionary_projects_like_a_family():
    family = random_family(11, 4, 2, knots=40)
    epsilon = 0.4 * float(np.max(family.distances()))
    for method in ("exact", "relaxed", "free"):
        dictionary = Dictionary.of(family)
        dictionary.project(epsilon, method)
        expected, _ = project(family, epsilon, method)
        # Equal but for λ in the geometry.
        assert np.max(dictionary.family().distances_to(expected)) <= 1e-4 * epsilon


@pytest.mark.parametrize(
    ("kind", "rounds"), [("random", 5_000), ("clustered", 30_000), ("duplicated", 5_000)]
)
def test_the_inverse_stays_right_for_tens_of_thousands_of_rounds(kind, rounds):
    generator = np.random.default_rng(0)
    dictionary = Dictionary(Gaussian(std=[1.0, 1.3, 0.7]), functions=3, outputs=1)
    for _ in range(rounds):
        knots = knots_of(kind, generator, 4)
        dictionary.extend(knots, 0.1 * generator.standard_normal((4, 3, 1)))
        dictionary.prune(0.01, max_knots=60)
    size = len(dictionary)
    fresh = np.linalg.inv(dictionary.kernel(dictionary.knots) + RIDGE * np.eye(size))
    kept = np.diagonal(dictionary._slots.inverse)[:size]
    np.testing.assert_allclose(kept, np.diagonal(fresh), rtol=1e-4)
    np.testing.assert_array_equal(dictionary.gram, dictionary.kernel(dictionary.knots))


@pytest.mark.parametrize("kind", KINDS)
def test_the_claims_of_a_long_run_bound_the_truth(kind):
    generator = np.random.default_rng(1)
    dictionary = Dictionary(Gaussian(std=[1.0, 1.3, 0.7]), functions=3, outputs=2)
    for round_number in range(2000):
        knots = knots_of(kind, generator, 5)
        dictionary.extend(knots, generator.standard_normal((5, 3, 2)))
        before = dictionary.family()
        certificate = dictionary.prune(0.05, max_knots=50)
        if round_number % 20 == 0:
            truth = extended_distances(before, dictionary.family())
            assert np.all(truth <= certificate.errors * (1 + 1e-6) + 1e-14)


def test_drift_is_seen_and_repaired():
    generator = np.random.default_rng(3)
    dictionary = Dictionary.of(random_family(0, 2, 1, knots=30))
    dictionary.prune(0.0)
    rebuilds = dictionary.rebuilds
    worst = int(np.argmax(np.diagonal(dictionary._slots.inverse)))
    dictionary._slots.inverse[worst] *= 1.001
    for _ in range(2):  # the probe looks at the worst column every other time
        dictionary.extend(generator.uniform(0, 8, (1, 3)), np.ones((1, 2, 1)))
        dictionary.prune(0.0)
    assert dictionary.rebuilds == rebuilds + 1
    size = len(dictionary)
    fresh = np.linalg.inv(dictionary.gram + RIDGE * np.eye(size))
    np.testing.assert_allclose(dictionary._slots.inverse[:size, :size], fresh, atol=1e-8)


def test_the_cap_is_reported_apart():
    family = random_family(4, 3, 2, knots=30)
    _, certificate = prune(family, 1e-6, max_knots=10)
    assert certificate.knots == 10
    assert certificate.forced_by_cap == 20
    assert not certificate.within_budget
    assert np.all(certificate.budgeted_errors == 0)
    np.testing.assert_array_equal(certificate.errors, certificate.cap_errors)
    assert "20 forced by the cap" in str(certificate)


def test_conditioning_is_reported_apart():
    knots = np.array([[0.0, 0.0, 0.0], [1e-7, 0.0, 0.0], [4.0, 4.0, 4.0]])
    family = Family(Gaussian(std=[1.0, 1.0, 1.0]), knots, np.ones((3, 2, 1)))
    pruned, certificate = prune(family, 0.0)
    assert certificate.forced_by_conditioning == 1
    assert certificate.forced_by_cap == 0
    assert len(pruned.knots) == 2
    assert np.max(pruned.distances_to(family)) <= np.max(certificate.errors) <= 2e-3


def test_equal_knots_meet_without_error():
    kernel = Gaussian(std=[1.0, 1.0])
    dictionary = Dictionary(kernel, 2, 1)
    dictionary.extend([[0.0, 1.0], [0.0, 1.0], [2.0, 1.0]], [[[1.0], [2.0]]] * 3)
    dictionary.extend([[2.0, 1.0], [5.0, 0.0], [0.0, 1.0]], [[[1.0], [0.0]]] * 3)
    assert dictionary.knots.tolist() == [[0.0, 1.0], [2.0, 1.0], [5.0, 0.0]]
    assert dictionary.weights[:, :, 0].tolist() == [[3.0, 4.0], [2.0, 2.0], [1.0, 0.0]]
    np.testing.assert_array_equal(dictionary.gram, kernel(dictionary.knots))


@pytest.mark.parametrize(
    "kernel", [Linear([1.0, 2.0, 1.0], bias=0.5), Polynomial([1e-3] * 3, 2, bias=1e6)]
)
def test_kernels_of_finite_rank_and_any_scale(kernel):
    # The rank is 4 and 10: all other knots are combinations, and can go at almost no cost.
    generator = np.random.default_rng(0)
    family = Family(
        kernel, generator.standard_normal((40, 3)), generator.standard_normal((40, 2, 1))
    )
    pruned, certificate = prune(family, 0.0)
    rank = np.linalg.matrix_rank(family.gram, hermitian=True)
    assert len(pruned.knots) == rank
    assert np.max(pruned.distances_to(family) / family.norms()) <= 1e-4
    assert np.all(pruned.distances_to(family) <= certificate.errors)


def test_functions_that_are_not_guarded_are_carried_along():
    family = random_family(6, 3, 1, knots=30)
    scaled = family._with_weights(family.weights * np.array([1.0, 1.0, 1e3])[None, :, None])
    dictionary = Dictionary.of(scaled, guarded=2)
    certificate = dictionary.prune(0.5)
    alone = Dictionary.of(scaled.select(0, 1))
    alone.prune(0.5)
    np.testing.assert_array_equal(dictionary.knots, alone.knots)
    assert certificate.errors[2] > 0.5
    truth = extended_distances(scaled, dictionary.family())
    assert np.all(truth <= certificate.errors * (1 + 1e-6))


def test_dictionary_mixes_like_a_family():
    family = random_family(7, 4, 2)
    matrix = np.random.default_rng(0).standard_normal((3, 3))
    dictionary = Dictionary.of(family)
    dictionary.mix(matrix)
    larger = np.eye(4)
    larger[:3, :3] = matrix
    np.testing.assert_allclose(dictionary.weights, family.mix(larger).weights, rtol=1e-12)
    np.testing.assert_allclose(
        dictionary.differences(), dictionary.family().differences(), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(
        dictionary.inner_products(), dictionary.family().inner_products(), rtol=1e-12, atol=1e-12
    )


def test_compiled_removal_equals_its_source():
    family = random_family(8, 3, 2, knots=20)
    results = []
    for body in (remove_knots, remove_knots.py_func):
        inverse = np.linalg.inv(family.gram + RIDGE * np.eye(20))
        Z, V = np.zeros((0, 20)), np.zeros((64, 20))
        rows, alive = family.expansion.rows.copy(), np.ones(20, dtype=bool)
        spent, errors, counts = np.zeros(3), np.zeros((3, 3)), np.zeros(3, dtype=np.int64)
        diagonal, order = np.diagonal(inverse).copy(), np.zeros(64, dtype=np.int64)
        limits, tally = (12, 0.04, np.inf), (spent, errors, counts)
        removed = body(inverse, Z, V, diagonal, rows, alive, *limits, *tally, order)
        results.append((removed, V, rows, alive, *tally, order))
    for compiled, source in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, source, rtol=1e-10, atol=1e-12)


def test_bad_input_changes_nothing():
    dictionary = Dictionary.of(random_family(9, 2, 1))
    dictionary.prune(0.0)
    knots, weights = dictionary.knots, dictionary.weights
    good = np.ones((1, 3)), np.ones((1, 2, 1))
    bad = [
        (lambda: dictionary.extend([[math.nan, 0.0, 0.0]], good[1]), "knots must be finite"),
        (lambda: dictionary.extend(good[0], [[[math.inf], [0.0]]]), "weights must be finite"),
        (lambda: dictionary.extend([[1.0, 2.0]], good[1]), "knots must have shape"),
        (lambda: dictionary.extend(good[0], np.ones((1, 3, 1))), "weights must have shape"),
        (lambda: dictionary.extend(np.empty((0, 3)), np.empty((0, 2, 1))), "no knots"),
        (lambda: dictionary.prune(-1.0), "budget must be"),
        (lambda: dictionary.prune(math.nan), "budget must be"),
        (lambda: dictionary.prune(1.0, max_knots=0), "max_knots must be"),
        (lambda: dictionary.prune(1.0, max_knots=2.5), "max_knots must be"),
        (lambda: dictionary.mix(np.ones((3, 3))), "matrix must be square"),
        (lambda: dictionary.project(-1.0), "epsilon must be"),
        (lambda: dictionary.project(1.0, "relaxd"), "did you mean 'relaxed'"),
        (lambda: dictionary.mix([[math.nan]]), "matrix must be finite"),
        (lambda: Dictionary(Gaussian(std=[1.0]), 2, 1, guarded=3), "only 2 functions"),
    ]
    for call, message in bad:
        with pytest.raises(InputError, match=message):
            call()
        np.testing.assert_array_equal(dictionary.knots, knots)
        np.testing.assert_array_equal(dictionary.weights, weights)


def test_a_kernel_that_is_not_finite_changes_nothing():
    def singular(x, y):
        return 1.0 / (3.0 - x[0] - y[0])

    dictionary = Dictionary(PairKernel(singular, 1), 1, 1)
    dictionary.extend([[0.0], [1.0]], np.ones((2, 1, 1)))
    with pytest.raises(NumericalError, match="not finite"):
        dictionary.extend([[2.0]], np.ones((1, 1, 1)))
    assert dictionary.knots.tolist() == [[0.0], [1.0]]
    dictionary.extend([[0.5]], np.ones((1, 1, 1)))
    assert len(dictionary) == 3


def test_a_kernel_that_is_not_positive_definite_is_named():
    def indefinite(x, y):
        return -math.exp(-((x[0] - y[0]) ** 2))

    dictionary = Dictionary(PairKernel(indefinite, 1), 1, 1)
    dictionary.extend([[0.0], [1.0]], np.ones((2, 1, 1)))
    with pytest.raises(NumericalError, match="pair kernel positive definite"):
        dictionary.prune(0.1)
    assert dictionary.weights.tolist() == [[[1.0]], [[1.0]]]


def test_an_empty_dictionary_prunes_to_itself():
    dictionary = Dictionary(Gaussian(std=[1.0]), 2, 1)
    certificate = dictionary.prune(1.0, max_knots=5)
    assert (len(dictionary), certificate.removed, certificate.errors.tolist()) == (0, 0, [0.0, 0.0])
