"""The geometry of knots: K and P stay right as knots come and go, and files bring them back."""

import numpy as np
import pytest

from crosslearning.errors import FileFormatError
from crosslearning.rkhs import Dictionary, Gaussian, Linear
from crosslearning.rkhs.geometry import RIDGE, Geometry

NORMALISED = Gaussian(std=[1.0, 1.3, 0.7])
KERNELS = [NORMALISED, 0.3 * NORMALISED + Linear([2.0, 3.0, 4.0], bias=1.0)]


def geometry_of(kernel, knots, seed=0):
    generator, geometry = np.random.default_rng(seed), Geometry(kernel, 2, 1)
    geometry.insert(generator.uniform(0, 8, (knots, 3)), generator.standard_normal((knots, 2, 1)))
    return geometry


def normalised_gram(geometry):
    K = geometry.kernel(geometry.slots.knots[: geometry.size])
    lengths = np.sqrt(np.diagonal(K))
    return K / np.outer(lengths, lengths) + RIDGE * np.eye(len(K))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("first", "then"), [(0, 5), (20, 0), (20, 7), (20, 300)])
def test_the_inverse_follows_knots_that_come_and_go(kernel, first, then):
    geometry = Geometry(kernel, 2, 1)
    for seed, knots in enumerate((first, then)):
        if knots:
            generator = np.random.default_rng(seed)
            geometry.insert(generator.uniform(0, 30, (knots, 3)), np.ones((knots, 2, 1)))
        Z = geometry.insertion()
        size = geometry.size
        inverse = (geometry.slots.inverse + Z.T @ Z)[:size, :size]
        np.testing.assert_allclose(
            inverse @ normalised_gram(geometry), np.eye(size), atol=1e-6 * (1 + size)
        )
        geometry.update(Z, np.zeros((0, geometry.capacity)), np.ones(size, dtype=np.bool_))
        assert geometry.covered == geometry.size == first + seed * then
        np.testing.assert_allclose(geometry.slots.inverse[:size, :size], inverse, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_move_with_their_knots(kernel):
    geometry = geometry_of(kernel, 20)
    knots, rows = geometry.slots.knots[:20].copy(), geometry.slots.rows[:, :, :20].copy()
    alive = np.random.default_rng(1).random(20) < 0.5
    geometry.close(alive)
    order = np.lexsort(geometry.slots.knots[: geometry.size].T)
    expected = np.flatnonzero(alive)[np.lexsort(knots[alive].T)]
    np.testing.assert_array_equal(geometry.slots.knots[order], knots[expected])
    np.testing.assert_array_equal(geometry.slots.rows[:, :, order], rows[:, :, expected])
    assert not geometry.slots.rows[:, :, geometry.size :].any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_dictionary_from_its_state_goes_on_to_the_same_bits(kernel):
    generator = np.random.default_rng(0)
    dictionary = Dictionary(kernel, 3, 2, guarded=2)
    dictionaries = [dictionary]
    for step in range(12):
        knots, weights = generator.uniform(0, 8, (5, 3)), generator.standard_normal((5, 3, 2))
        for each in dictionaries:
            each.extend(knots, weights)
            each.prune(0.1, 20)
        if step == 5:
            dictionaries.append(Dictionary.from_state(kernel, *dictionary.state()))
    (arrays, numbers), (others, other_numbers) = (each.state() for each in dictionaries)
    assert list(numbers) == ["guarded", "rebuilds", "_size", "_covered", "_probe"]
    assert numbers == other_numbers
    assert list(arrays) == list(others)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name])


@pytest.mark.parametrize(
    ("number", "value"),
    [("_size", 10**6), ("_size", 5), ("_covered", -1), ("guarded", 4), ("guarded", "2")],
)
def test_a_state_that_does_not_fit_together_is_refused(number, value):
    dictionary = Dictionary(NORMALISED, 3, 2)
    dictionary.extend(np.eye(3)[[0, 1, 2] * 3] + np.arange(9)[:, None], np.ones((9, 3, 2)))
    dictionary.prune(0.0)
    arrays, numbers = dictionary.state()
    with pytest.raises(FileFormatError, match=str(value)):
        Dictionary.from_state(NORMALISED, arrays, {**numbers, number: value})
