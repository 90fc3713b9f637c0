"""The cap on knots, which all functions share: what sharing it costs, and how many repair it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.rkhs import Family, Gaussian, prune


def apart(tasks: int, each: int, seed: int) -> Family:
    """Return functions with knots of their own, far from all others, and a centre of zero.

    The kernels are orthonormal, so that the best approximation with L knots keeps the L largest
    weights.
    """
    generator = np.random.default_rng(seed)
    weights = np.zeros((tasks * each, tasks + 1, 1))
    for task in range(tasks):
        weights[task * each : (task + 1) * each, task, 0] = generator.uniform(0.1, 2.0, each)
    knots = 100.0 * np.arange(tasks * each, dtype=np.float64)[:, None]
    return Family(Gaussian(std=[1.0]), knots, weights)


def errors(family: Family, max_knots: int) -> np.ndarray:
    pruned, _ = prune(family, budget=0.0, max_knots=max_knots)
    assert len(pruned.knots) <= max_knots
    return family.distances_to(pruned)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 4), st.integers(2, 8), st.integers(0, 8), st.integers(0, 1000))
def test_a_shared_cap_costs_and_one_for_each_function_does_not(tasks, cap, more, seed):
    joint = apart(tasks, cap + more, seed)
    alone = np.array([errors(joint.select(i, tasks), cap)[0] for i in range(tasks)])
    by_hand = [
        np.sqrt(np.sum(np.sort(joint.weights[:, i, 0] ** 2)[::-1][cap:])) for i in range(tasks)
    ]
    np.testing.assert_allclose(alone, by_hand, rtol=1e-5, atol=1e-9)
    shared = errors(joint, cap)[:-1]
    assert np.all(shared >= alone * (1.0 - 1e-5))
    assert shared.sum() > alone.sum()  # the same number of knots for more functions
    # With as many for each, removals that keep the largest error least do at least as well.
    assert errors(joint, tasks * cap).max() <= alone.max() * (1.0 + 1e-5) + 1e-9


def test_functions_on_the_same_knots_share_a_cap_for_nothing():
    one = apart(1, 12, 0)
    weights = np.repeat(one.weights[:, :1], 4, axis=1)
    same = Family(one.kernel, one.knots, weights)
    np.testing.assert_allclose(errors(same, 6), errors(one, 6)[0], rtol=1e-12)
