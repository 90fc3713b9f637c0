"""Step rules: each by its formula, and in the learner against plain sums of kernels."""

import math

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.learner import make_settings
from crosslearning.learner.policy_gradient import StepRule
from crosslearning.rkhs import Family, project
from tests.learner.examples import ROUGH, UNPRUNED, recorded_gradients, recorded_reports

RULES = ["constant", "normalised", "adam", "decaying"]


def rule_of(**settings):
    return StepRule(make_settings(settings).resolved(False, 50), np.zeros(2))


def test_constant_is_the_printed_form():
    rule = rule_of(step_rule="constant", step_size=0.3)
    for iteration in range(3):
        assert rule.step(iteration, np.array([4.0, 1e6]))[0].tolist() == [0.3, 0.3]
    assert rule.momentum == 0.0


def test_normalised_makes_a_first_step_of_norm_eta():
    # The bias correction: the first mean square is the first square itself.
    rule = rule_of(step_rule="normalised", step_size=0.3, second_moment=0.99)
    lengths = rule.step(0, np.array([4.0, 1e6]))[0]
    np.testing.assert_allclose(lengths * [2.0, 1e3], 0.3, rtol=1e-13)


def test_normalised_divides_by_the_weighted_root_mean_square():
    rule = rule_of(step_rule="normalised", step_size=0.3, second_moment=0.8)
    squares = np.random.default_rng(0).uniform(0.1, 10.0, (6, 2))
    for k in range(6):
        lengths = rule.step(k, squares[k])[0]
        # A weighted mean whose weights 0.8ʲ add to one once they are normalised.
        weights = 0.8 ** np.arange(k, -1, -1.0)
        mean = weights @ squares[: k + 1] / weights.sum()
        np.testing.assert_allclose(lengths, 0.3 / np.sqrt(mean), rtol=1e-12)


def test_without_memory_every_step_has_norm_eta():
    rule = rule_of(step_rule="normalised", step_size=0.3, second_moment=0.0)
    for k, square in enumerate([4.0, 100.0, 0.01]):
        lengths = rule.step(k, np.full(2, square))[0]
        np.testing.assert_allclose(lengths * math.sqrt(square), 0.3, rtol=1e-13)


def test_decaying_falls_as_one_over_the_root():
    decaying = rule_of(step_rule="decaying", step_size=0.3, step_decay=5.0)
    normalised = rule_of(step_rule="normalised", step_size=0.3)
    for k in range(20):
        squares = np.array([1.0 + k, 2.0])
        expected = normalised.step(k, squares)[0] / math.sqrt(1.0 + k / 5.0)
        np.testing.assert_allclose(decaying.step(k, squares)[0], expected, rtol=1e-13)


def test_adam_corrects_the_bias_of_its_momentum():
    adam = rule_of(step_rule="adam", step_size=0.3, momentum=0.7)
    normalised = rule_of(step_rule="normalised", step_size=0.3)
    assert adam.momentum == 0.7
    for k in range(5):
        squares = np.array([1.0 + k, 2.0])
        expected = normalised.step(k, squares)[0] / (1.0 - 0.7 ** (k + 1))
        np.testing.assert_allclose(adam.step(k, squares)[0], expected, rtol=1e-13)


@pytest.mark.parametrize("name", RULES[1:])
def test_a_gradient_that_is_always_zero_moves_nothing(name):
    rule = rule_of(step_rule=name)
    for k in range(3):
        lengths = rule.step(k, np.array([0.0, 1.0]))[0]
        assert lengths[0] == 0.0
        assert np.isfinite(lengths[1])


def test_long_gradients_are_clipped_at_the_running_size():
    rule = rule_of(step_rule="normalised", step_clip=2.0, second_moment=0.9)
    for k in range(30):
        _, clips = rule.step(k, np.array([1.0, 1.0]))
        np.testing.assert_array_equal(clips, [1.0, 1.0])
    _, clips = rule.step(30, np.array([1.0, 400.0]))
    root = math.sqrt(rule.mean_square[1] / (1 - 0.9**31))
    assert clips[0] == 1.0
    assert clips[1] * 20.0 == pytest.approx(2.0 * root)
    assert clips[1] < 1.0


def test_clipping_can_be_left_out():
    rule = rule_of(step_rule="normalised", step_clip=math.inf)
    assert rule.step(0, np.array([0.0, 1e12]))[1].tolist() == [1.0, 1.0]
    constant = rule_of(step_rule="constant")
    assert constant.step(0, np.array([0.0, 1e12]))[1].tolist() == [1.0, 1.0]


# In the learner. ------------------------------------------------------------------------------


def plain_reference(kernel, settings, gradients, epsilon=math.inf, method="exact"):
    """Return h_1 … h_N and g by Algorithm 2 without pruning, on one long list of knots.

    Written for reading: every iteration appends its knots, and functions are rows of weights.
    """
    iterations, (N, B, _) = len(gradients), gradients[0].knots.shape
    p = gradients[0].weights.shape[2]
    knots = np.concatenate([g.knots.reshape(N * B, -1) for g in gradients])
    h, g = np.zeros((N, len(knots), p)), np.zeros((len(knots), p))
    direction, mean_square = np.zeros_like(h), np.zeros(N)
    for k in range(iterations):
        for i in range(N):
            estimate = np.zeros((len(knots), p))
            begin = (k * N + i) * B
            estimate[begin : begin + B] = gradients[k].weights[i]
            gram = kernel(gradients[k].knots[i])
            square = np.einsum("ap,ab,bp->", gradients[k].weights[i], gram, gradients[k].weights[i])
            keep, forget = settings.momentum, settings.second_moment
            mean_square[i] = forget * mean_square[i] + (1 - forget) * square
            root = math.sqrt(mean_square[i] / (1 - forget ** (k + 1)))
            if settings.step_rule != "constant" and square > (settings.step_clip * root) ** 2:
                estimate *= settings.step_clip * root / math.sqrt(square)
            direction[i] = keep * direction[i] + (1 - keep) * estimate
            size = settings.step_size
            if settings.step_rule == "constant":
                step = size * estimate
            elif settings.step_rule == "normalised":
                step = size * estimate / root
            elif settings.step_rule == "decaying":
                step = size / math.sqrt(1 + k / settings.step_decay) * estimate / root
            else:
                step = size * direction[i] / (1 - keep ** (k + 1)) / root
            h[i] = h[i] + step
        weights = np.concatenate([h, g[None]]).transpose(1, 0, 2)
        family, _ = project(Family(kernel, knots, weights), epsilon, method)
        h, g = family.weights.transpose(1, 0, 2)[:-1].copy(), family.weights[:, -1]
    return family


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_in_the_learner(rule):
    # ε = ∞ leaves the projection out, so that the rule alone is compared, to rounding.
    learner = CrossLearner(
        "linear-quadratic",
        epsilon=math.inf,
        kernel=ROUGH,
        step_rule=rule,
        step_size=0.01 if rule == "constant" else 0.2,
        step_decay=3.0,
        momentum=0.8,
        second_moment=0.7,
        step_clip=0.9,
        batch_size=3,
        **UNPRUNED,
    )
    gradients = recorded_gradients(learner)
    reports = recorded_reports(learner, 12)
    assert sum(report.pruning.removed for report in reports) == 0
    expected = plain_reference(ROUGH, learner.settings, gradients)
    assert np.max(expected.norms()) > 0.1
    assert np.max(learner.family.distances_to(expected)) < 1e-10
    norms = []
    for knots, weights in gradients:
        squares = [
            np.einsum("ap,ab,bp->", w, ROUGH(k), w) for k, w in zip(knots, weights, strict=True)
        ]
        norms.append(np.sqrt(squares))
    np.testing.assert_allclose(
        [report.numbers["gradient_norm"] for report in reports], norms, rtol=1e-12
    )


@pytest.mark.parametrize("method", ["exact", "relaxed"])
@pytest.mark.parametrize("rule", ["normalised", "adam"])
def test_the_whole_of_algorithm_2_without_pruning(rule, method):
    # The dictionary's distances are those of κ + λδ with λ = 1e-6, hence the tolerance.
    epsilon = 0.25
    learner = CrossLearner(
        "linear-quadratic",
        epsilon=epsilon,
        projection=method,
        kernel=ROUGH,
        step_rule=rule,
        step_size=0.3,
        batch_size=3,
        **UNPRUNED,
    )
    gradients = recorded_gradients(learner)
    reports = recorded_reports(learner, 12)
    assert sum(report.pruning.removed for report in reports) == 0
    assert sum(report.projection.active.any() for report in reports) > 6
    expected = plain_reference(ROUGH, learner.settings, gradients, epsilon, method)
    assert np.min(expected.norms()) > 0.1
    assert np.max(learner.family.distances_to(expected)) < 1e-5
