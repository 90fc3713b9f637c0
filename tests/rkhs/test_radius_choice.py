"""The radius from what was left out: against the plain way, and where it is known."""

import math

import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.rkhs import radius_curve
from tests.rkhs.cross_examples import NOISE, regression_of, related


@pytest.mark.parametrize("method", ["exact", "relaxed"])
def test_it_is_the_plain_cross_validation(method):
    inputs, targets = related(0, (13, 8, 0, 20))
    epsilons = [0.0, 0.2, 0.8, math.inf]
    curve = radius_curve(regression_of(inputs, targets), epsilons, segments=4, method=method)
    for e, epsilon in enumerate(epsilons):
        means, sizes = [], []
        for fold in range(4):
            left = [
                np.array_split(np.arange(len(x)), 4)[(fold + i) % 4] for i, x in enumerate(inputs)
            ]
            kept = [
                np.delete(np.arange(len(x)), rows) for x, rows in zip(inputs, left, strict=True)
            ]
            fit = regression_of(
                [x[rows] for x, rows in zip(inputs, kept, strict=True)],
                [y[rows] for y, rows in zip(targets, kept, strict=True)],
            ).fit(epsilon, method)
            for i, rows in enumerate(left):
                if len(rows):
                    wrong = targets[i][rows] - fit.family(inputs[i][rows])[:, i]
                    means.append(np.mean((wrong / NOISE) ** 2))
                    sizes.append(len(rows))
        error = np.average(means, weights=sizes)
        assert curve.error[e] == pytest.approx(error, rel=1e-6)
        share = np.array(sizes) / np.sum(sizes)
        spread = math.sqrt(
            np.sum(share**2 * (np.array(means) - error) ** 2) * len(means) / (len(means) - 1)
        )
        assert curve.standard_error[e] == pytest.approx(spread, rel=1e-6)
        fit = regression_of(inputs, targets).fit(epsilon, method)
        assert curve.log_evidence[e] == pytest.approx(fit.log_evidence(), abs=1e-6)


def test_related_tasks_choose_a_radius_between_the_ends():
    regression = regression_of(*related(0, (40, 40, 40, 40)), max_knots=60)
    curve = radius_curve(regression)
    assert curve.epsilon[0] == 0.0
    assert curve.epsilon[-1] == math.inf
    assert 0.0 < curve.best < math.inf
    chosen = np.argmin(curve.error)
    assert curve.error[chosen] + curve.standard_error[chosen] < min(curve.error[[0, -1]])
    # So does the evidence.
    assert 0 < np.argmax(curve.log_evidence) < len(curve.epsilon) - 1


def test_tasks_that_are_the_same_choose_consensus():
    regression = regression_of(*related(1, (15, 15, 15), unlike=0.0))
    curve = radius_curve(regression)
    assert curve.best < 0.3 * curve.epsilon[-2]


def test_wrong_questions_are_told():
    regression = regression_of(*related(0))
    with pytest.raises(InputError, match="segments must be a whole number of at least 2"):
        radius_curve(regression, segments=1)
    with (
        pytest.warns(DeprecationWarning, match="stretches is now segments"),
        pytest.raises(InputError, match="segments must"),
    ):
        radius_curve(regression, stretches=1)
    with pytest.raises(InputError, match="an epsilon must be a number of at least 0"):
        radius_curve(regression, [-1.0])
    with pytest.raises(InputError, match="no epsilons"):
        radius_curve(regression, [])
    with pytest.raises(InputError, match="at least two"):
        radius_curve(regression_of(*related(0, (1, 1))))
