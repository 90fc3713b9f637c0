"""Fractional factorials: balance, exact effects of known responses, and what they cannot tell."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.errors import InputError
from crosslearning.runs.design import crossed, fractional_factorial, interactions, main_effects


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([2, 2, 2, 3, 4]), min_size=2, max_size=6), st.sampled_from([32, 64])
)
def test_any_two_factors_take_every_pair_of_levels_in_proportion(levels, runs):
    design = fractional_factorial(levels, runs)
    assert design.shape == (runs, len(levels))
    assert design[0].tolist() == [0] * len(levels)
    for a, b in combinations(range(len(levels)), 2):
        for i in range(levels[a]):
            for j in range(levels[b]):
                both = np.mean((design[:, a] == i) & (design[:, b] == j))
                assert both == np.mean(design[:, a] == i) * np.mean(design[:, b] == j) > 0.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_additive_responses_have_exactly_their_effects(seed):
    generator = np.random.default_rng(seed)
    levels = [2, 2, 3, 2, 4, 2]
    design = fractional_factorial(levels, 32)
    parts = [generator.normal(size=(count, 2)) for count in levels]
    responses = sum(part[column] for part, column in zip(parts, design.T, strict=True))
    for effect, part in zip(main_effects(design, responses), parts, strict=True):
        np.testing.assert_allclose(effect, part - part[0], atol=1e-12)
    assert all(one.size < 1e-12 for one in interactions(design, responses[:, 0]))


def test_an_interaction_is_found_with_its_aliases():
    design = fractional_factorial([2] * 6, 32)  # resolution VI: no pair is aliased
    responses = 3.0 * design[:, 1] - design[:, 2] + 2.0 * design[:, 1] * design[:, 4]
    first, *others = interactions(design, responses)
    assert first.factors == (1, 4)
    assert first.size == pytest.approx(0.5)
    assert first.aliases == ()
    assert all(one.size < 1e-12 for one in others)
    half = fractional_factorial([2, 2, 2], 4)
    alias = {one.factors: one.aliases for one in interactions(half, np.arange(4.0))}
    assert alias == {(0, 1): ((2,),), (0, 2): ((1,),), (1, 2): ((0,),)}


def test_main_effects_are_free_of_interactions_where_runs_allow_it():
    design = fractional_factorial([2] * 8, 16)  # resolution IV exists
    for pair in combinations(range(8), 2):
        product = design[:, pair[0]] ^ design[:, pair[1]]
        for other in set(range(8)) - set(pair):
            assert np.mean(product == design[:, other]) == 0.5


def test_further_factors_are_crossed_with_every_run():
    design = crossed(fractional_factorial([2, 2, 2], 4), [3, 2])
    assert design.shape == (24, 5)
    assert len({tuple(row) for row in design.tolist()}) == 24
    effects = main_effects(design, 2.0 * design[:, 3])
    np.testing.assert_allclose(effects[3], [0.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("levels", "runs", "message"),
    [
        ([2, 5], 8, "give 2, 3 or 4"),
        ([2, 2], 6, "give a power of two"),
        ([2] * 8, 8, "8 runs are too few"),
        ([4, 4, 4], 8, "8 runs are too few"),
    ],
)
def test_designs_that_do_not_exist_are_refused(levels, runs, message):
    with pytest.raises(InputError, match=message):
        fractional_factorial(levels, runs)
