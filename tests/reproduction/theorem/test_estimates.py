"""The constants against closed forms; the long measurement is benchmarks/certificates.py."""

import dataclasses
import functools

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.certificates.stationarity import tail_of
from crosslearning.errors import InputError
from crosslearning.learner.sampling import draw_plans, run_plans
from crosslearning.reproduction.theorem import KINDS, EstimatedConstants, estimate_constants
from crosslearning.rkhs import Linear
from tests.certificates.examples import GAINS, SCALAR, place, scalar_learner
from tests.learner.examples import assert_same_bits
from tests.rollouts.examples import LOPSIDED, linear_family

FIELDS = ("deviation", "second_moment", "gradient_norm", "lipschitz")


def truth_of(gain, batch):
    gradient, deviation = SCALAR.gradient(gain), SCALAR.deviation(gain)
    second = np.sqrt(deviation**2 / batch + gradient**2)
    return deviation, second, abs(gradient), abs(SCALAR.curvature(gain))


@functools.cache
def repeated():
    """Return the constants of every task from eight independent calls."""
    learner = scalar_learner(GAINS)
    return [estimate_constants(learner, samples=1000, seed=seed) for seed in range(8)]


@pytest.mark.parametrize("field", FIELDS)
def test_the_intervals_hold_the_truth(field):
    inside = []
    for constants in repeated():
        for own in constants:
            exact = truth_of(GAINS[own.task], batch=4)[FIELDS.index(field)]
            result = getattr(own, field)
            inside.append(result.low <= exact + 1e-12 and exact <= result.high)
    # 24 intervals of 95 %: seven misses or more happen once in 5,000.
    assert sum(inside) >= 18


@pytest.mark.parametrize("field", FIELDS)
def test_the_intervals_are_short_enough_to_be_wrong_about_something_else(field):
    for own in (own for constants in repeated() for own in constants):
        exact = truth_of(GAINS[own.task], batch=4)[FIELDS.index(field)]
        result = getattr(own, field)
        assert result.high < 1.6 * exact or exact < 1e-12
        assert result.low <= result.value <= result.high


def test_a_gradient_of_zero_is_not_made_up():
    norms = [own.gradient_norm for constants in repeated() for own in constants[2:]]
    assert sum(norm.low == 0.0 for norm in norms) >= 5
    deviation = SCALAR.deviation(GAINS["zero"])
    assert np.median([norm.high for norm in norms]) < 4.0 * deviation / np.sqrt(1000)


@pytest.mark.parametrize("estimator", ["geometric", "baseline"])
def test_other_estimators_agree_on_the_gradient(estimator):
    learner = scalar_learner({"large": 0.0}, estimator=estimator, batch_size=5)
    (own,) = estimate_constants(learner, samples=2000, seed=1)
    assert own.gradient_norm.low <= abs(SCALAR.gradient(0.0)) <= own.gradient_norm.high
    assert own.lipschitz.low <= abs(SCALAR.curvature(0.0)) <= own.lipschitz.high
    # B² = σ²/b + ‖∇U‖², also where a unit is a batch.
    expected = np.sqrt(own.deviation.value**2 / 5 + SCALAR.gradient(0.0) ** 2)
    assert own.second_moment.value == pytest.approx(expected, rel=0.02)


def test_the_batch_size_enters_the_second_moment_alone():
    one, other = (
        estimate_constants(scalar_learner({"large": 0.0}, batch_size=size), 500, seed=2)[0]
        for size in (1, 16)
    )
    assert one.deviation == other.deviation
    assert one.gradient_norm == other.gradient_norm
    ratio = one.second_moment.value / other.second_moment.value
    assert 1.5 < ratio < 4.0


def test_the_steepest_direction_is_found_in_the_plane():
    # Two coordinates and two actions: the second derivative has four eigenvalues.
    gain, variance, discount = np.array([[0.3, -0.3], [0.4, 0.1]]), (0.3, 0.15), 0.8
    options = {"discount": discount, "action_variance": variance, "kernel": Linear([1.0, 1.0])}
    learner = CrossLearner([LOPSIDED.task("one")], 1.0, **options)
    family = linear_family([gain, gain], (1.0, 1.0))
    place(learner, family.knots, family.weights)
    hessian = np.empty((4, 4))
    for k, step in enumerate(1e-5 * np.eye(4).reshape(4, 2, 2)):
        ends = [LOPSIDED.gradient(gain + s * step, variance, discount) for s in (1, -1)]
        hessian[k] = (ends[0] - ends[1]).ravel() / 2e-5
    sizes = np.sort(np.abs(np.linalg.eigvalsh(hessian)))
    assert sizes[-1] > 1.5 * sizes[-2]
    (own,) = estimate_constants(learner, samples=1500, seed=0)
    assert own.lipschitz.low <= sizes[-1]
    assert own.lipschitz.high >= 0.95 * sizes[-1]
    assert own.lipschitz.low > sizes[-2]


def test_the_learner_is_not_changed():
    learner = CrossLearner("linear-quadratic", 0.3, max_knots=20, seed=1).learn(5)
    other = CrossLearner("linear-quadratic", 0.3, max_knots=20, seed=1).learn(5)
    first = estimate_constants(learner, samples=200)
    assert first == estimate_constants(learner, samples=200)
    assert first != estimate_constants(learner, samples=200, seed=1)
    assert [own.task for own in first] == [task.name for task in learner.tasks]
    assert first[0].samples == 200
    assert_same_bits(learner.learn(5).family, other.learn(5).family)
    assert learner.steps == other.steps


def test_policies_that_have_not_begun():
    constants = estimate_constants(CrossLearner("linear-quadratic", 0.3), samples=200)
    assert all(own.gradient_norm.value > 0.0 and own.lipschitz.value > 0.0 for own in constants)


def test_every_constant_says_what_it_is():
    fields = [field.name for field in dataclasses.fields(EstimatedConstants)]
    assert list(KINDS) == fields[2:-1] == list(FIELDS)
    assert fields[-1] == "tail"
    assert "lower bound" in KINDS["lipschitz"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"confidence": 1.0}, "confidence must be between 0 and 1"),
        ({"samples": 0}, "samples must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(InputError, match=words):
        estimate_constants(scalar_learner(GAINS), **{"samples": 100, **arguments})


def test_tails_that_the_intervals_cannot_bear_are_named():
    for own in repeated()[0]:
        assert 0.0 < own.tail < 1.0
        assert own.doubtful == (own.tail > 0.3)
        assert dataclasses.replace(own, tail=0.31).doubtful
        assert not dataclasses.replace(own, tail=0.29).doubtful
    # One of a thousand samples that outweighs all others leaves a mean at its mercy.
    learner = scalar_learner(GAINS)
    plans = draw_plans(learner.method.sampling, 1000, np.random.default_rng(0))
    (units, *_), _ = run_plans(learner.method.sampling, learner.family.expansion, plans)
    weights = units.weights.copy()
    weights[np.argmax(units.ratios * units.squares(learner.method.sampling.kernel))] *= 1e4
    assert tail_of(learner.method.sampling, dataclasses.replace(units, weights=weights)) > 0.9
