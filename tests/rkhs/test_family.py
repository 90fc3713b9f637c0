"""Families: evaluation, geometry, algebra, files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.errors import FileFormatError, InputError
from crosslearning.rkhs import Family, Gaussian, PairKernel
from tests.rkhs.examples import random_family


def literal(family, state):
    """h_f(s) = Σ_m κ(s_m, s) w_mf, as the paper writes it."""
    return sum(
        family.kernel.formula(knot, state) * weight
        for knot, weight in zip(family.knots, family.weights, strict=True)
    )


def test_evaluation_is_the_expansion():
    family = random_family(0, functions=3, outputs=2)
    states = np.random.default_rng(1).uniform(0, 8, (5, 3))
    batch = family(states)
    assert batch.shape == (5, 3, 2)
    for state, values in zip(states, batch, strict=True):
        np.testing.assert_allclose(values, literal(family, state), rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(family(state), values)


def test_inner_products_are_the_double_sum():
    family = random_family(3, functions=2, outputs=2, knots=5)
    for f in range(2):
        for g in range(2):
            expected = sum(
                family.kernel.formula(family.knots[a], family.knots[b])
                * (family.weights[a, f] @ family.weights[b, g])
                for a in range(5)
                for b in range(5)
            )
            assert family.inner_products()[f, g] == pytest.approx(expected, rel=1e-11)


def test_differences_keep_their_digits_beside_a_large_common_part():
    small = random_family(4, functions=4, outputs=2, scale=1.0)
    common = np.random.default_rng(5).integers(-8, 8, (12, 1, 2)) * 2.0**30
    rounded = np.round(small.weights * 2**10) / 2**10  # so that adding the common part is exact
    near = Family(small.kernel, small.knots, rounded)
    far = Family(small.kernel, small.knots, rounded + common)
    np.testing.assert_allclose(far.differences(), near.differences(), rtol=1e-13)


@given(seed=st.integers(0, 1000), functions=st.integers(2, 5))
def test_mixing_is_linear(seed, functions):
    family = random_family(seed, functions, 2)
    matrix = np.random.default_rng(seed + 1).standard_normal((functions, functions))
    mixed = family.mix(matrix)
    np.testing.assert_allclose(
        mixed.inner_products(), matrix @ family.inner_products() @ matrix.T, atol=1e-9, rtol=1e-9
    )
    state = np.full(3, 2.0)
    np.testing.assert_allclose(mixed(state), matrix @ family(state), atol=1e-12, rtol=1e-9)


def test_distances_between_families_on_other_knots():
    a, b = random_family(6, 2, 1, knots=4), random_family(7, 2, 1, knots=6)
    both = Family(
        a.kernel, np.concatenate([a.knots, b.knots]), np.concatenate([a.weights, -b.weights])
    )
    np.testing.assert_allclose(a.distances_to(b), both.norms(), rtol=1e-12)
    np.testing.assert_array_equal(a.distances_to(a), [0.0, 0.0])


def test_zero_family():
    zero = Family.zeros(Gaussian(std=[1.0]), functions=3, outputs=2)
    assert zero([[1.0]]).tolist() == np.zeros((1, 3, 2)).tolist()
    assert zero.norms().tolist() == [0.0, 0.0, 0.0]
    assert zero.distances().tolist() == [0.0, 0.0]


def test_a_family_is_a_value():
    weights = np.ones((1, 2, 1))
    family = Family(Gaussian(std=[1.0]), [[0.0]], weights)
    weights[:] = 5.0
    assert family.weights[0, 0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        family.weights[0, 0, 0] = 2.0


@pytest.mark.parametrize("empty", [False, True])
def test_file_round_trip_is_exact(tmp_path, empty):
    family = random_family(8, 3, 2)
    if empty:
        family = Family.zeros(family.kernel, 3, 2)
    family.save(tmp_path / "family.safetensors")
    loaded = Family.load(tmp_path / "family.safetensors")
    assert loaded.kernel == family.kernel
    np.testing.assert_array_equal(loaded.knots, family.knots)
    np.testing.assert_array_equal(loaded.weights, family.weights)


def test_own_kernel_is_asked_for(tmp_path):
    def bump(x, y):
        return 1.0 / (1.0 + (x[0] - y[0]) ** 2)

    kernel = PairKernel(bump, 1)
    family = Family(kernel, [[0.0]], [[[1.0]]])
    family.save(tmp_path / "f")
    with pytest.raises(InputError, match="pass it when loading"):
        Family.load(tmp_path / "f")
    assert Family.load(tmp_path / "f", kernel=kernel)([1.0])[0, 0] == 0.5
    with pytest.raises(InputError, match="was saved with the kernel"):
        Family.load(tmp_path / "f", kernel=Gaussian(std=[1.0]))


def test_cut_files_are_refused(tmp_path):
    path = tmp_path / "f"
    random_family(9, 2, 1).save(path)
    whole = path.read_bytes()
    for length in (0, 7, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match="damaged or cut short"):
            Family.load(path)


def test_edited_files_are_refused(tmp_path):
    path = tmp_path / "f"
    random_family(9, 2, 1).save(path)
    whole = bytearray(path.read_bytes())
    for position in (len(whole) - 1, len(whole) - 100):
        edited = whole.copy()
        edited[position] ^= 1
        path.write_bytes(edited)
        with pytest.raises(FileFormatError, match="changed after it was written"):
            Family.load(path)
    path.write_bytes(bytes(whole).replace(b'\\"version\\": 1', b'\\"version\\": 9'))
    with pytest.raises(FileFormatError, match="install a newer crosslearning"):
        Family.load(path)
    with pytest.raises(InputError, match="no such file"):
        Family.load(tmp_path / "nowhere")


KERNEL = Gaussian(std=[1.0, 1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Family("gaussian", [[0.0, 0.0]], [[[1.0]]]), "must be a Kernel"),
        (lambda: Family(KERNEL, [], []), "at least one knot"),
        (lambda: Family(KERNEL, np.empty((0, 2)), np.empty((0, 1, 1))), "at least one knot"),
        (lambda: Family(KERNEL, [[0.0]], [[[1.0]]]), r"knots must have shape \(any, 2\)"),
        (lambda: Family(KERNEL, [[0.0, np.nan]], [[[1.0]]]), "knots must be finite"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], [[1.0]]), "weights must have shape"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], [[[np.inf]]]), "weights must be finite"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], np.empty((1, 0, 1))), "at least one function"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], [[[1.0]]])([[1.0]]), "states must have shape"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], [[[1.0]]]).mix([[1.0, 2.0]]), "matrix"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], [[[1.0]]]).differences(), "two functions"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], [[[1.0]]]).select(1), "no function 1"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], [[[1.0]]])([1.0]), r"shape \(2\), got \(1,\)"),
        (lambda: Family(KERNEL, [[0.0, 0.0]], [[[1.0]]]).select(), "at least one function"),
        (lambda: Family.zeros(KERNEL, 0, 1), "functions must be a whole number"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
