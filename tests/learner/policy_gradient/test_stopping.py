"""The checked stopping rule: how sure it is, and that it disturbs nothing."""

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.errors import InputError
from crosslearning.learner.policy_gradient import check_level
from tests.certificates.examples import CENTRE, RADIUS, scalar_learner, true_gap
from tests.learner.examples import assert_same_bits, recorded_reports

SMALL = {"max_knots": 12, "batch_size": 2, "step_size": 0.1, "seed": 3, "epsilon": 0.3}
CHECKS = {"alpha": 1e-9, "check_every": 5, "check_batch": 100}


def test_the_levels_of_all_checks_add_up_to_delta():
    levels = np.array([check_level(j, 3, 0.05) for j in range(1, 100_000)])
    assert np.sum(3 * (1.0 - levels)) == pytest.approx(0.05, rel=1e-4)
    assert np.sum(3 * (1.0 - levels)) < 0.05


def test_checks_do_not_change_what_is_learned():
    plain = CrossLearner("linear-quadratic", **SMALL)
    checked = CrossLearner("linear-quadratic", **SMALL, **CHECKS)
    reports = recorded_reports(checked, 12)
    steps = sum(report.steps for report in recorded_reports(plain, 12))
    assert_same_bits(plain.family, checked.family)
    assert [report.iteration for report in reports if report.check] == [5, 10]
    checks = [report.check for report in reports if report.check]
    assert [check.number for check in checks] == [1, 2]
    assert all(np.all(check.bounds > 0.0) and check.samples == 100 for check in checks)
    # What the checks cost is counted.
    assert checked.steps == steps + sum(check.steps for check in checks)
    assert plain.steps == steps


def test_a_loaded_learner_checks_the_same(tmp_path):
    learner = CrossLearner("linear-quadratic", **SMALL, **CHECKS).learn(7)
    learner.save(tmp_path / "learner.st")
    loaded = CrossLearner.load(tmp_path / "learner.st", workers=2)
    ahead, again = (recorded_reports(one, 8) for one in (learner, loaded))
    for one, other in zip(ahead, again, strict=True):
        assert (one.check is None) == (other.check is None)
        if one.check is not None:
            np.testing.assert_array_equal(one.check.bounds, other.check.bounds)
    assert learner.steps == loaded.steps


def test_it_stops_at_the_first_check_whose_bounds_are_small():
    reports = recorded_reports(CrossLearner("linear-quadratic", **SMALL, **CHECKS), 30)
    bounds = {report.iteration: report.check.bound for report in reports if report.check}
    first = min(bounds, key=lambda iteration: bounds[iteration])
    assert len(bounds) == 6
    for factor, stops in ((1.0, True), (1.0 - 1e-9, False)):
        settings = {**SMALL, **CHECKS, "alpha": factor * bounds[first]}
        learner = CrossLearner("linear-quadratic", **settings)
        last = recorded_reports(learner, 30)[-1]
        assert last.stop == stops
        assert learner.iteration == (first if stops else 30)


def standing_learner(seed, alpha, **settings):
    """Return a learner that hardly moves."""
    still = {"step_rule": "constant", "step_size": 1e-12, "check_every": 5, "check_batch": 500}
    return scalar_learner({"one": -0.3}, seed=seed, alpha=alpha, **still, **settings)


def test_noise_alone_does_not_stop_a_run():
    # 2 % above alpha, 15 runs with 8 checks each: at δ = 5 % five wrong stops are one in 1,600.
    alpha = true_gap(-0.3, CENTRE, RADIUS) / 1.02
    stopped = [standing_learner(seed, alpha).learn(40).iteration < 40 for seed in range(15)]
    assert sum(stopped) < 5
    # The printed rule falls for it every time.
    printed = [
        standing_learner(seed, alpha, stopping="batch").learn(40).iteration for seed in range(5)
    ]
    assert max(printed) < 40


def test_a_run_well_below_alpha_stops():
    alpha = 2.0 * true_gap(-0.3, CENTRE, RADIUS)
    assert all(standing_learner(seed, alpha).learn(40).iteration < 40 for seed in range(5))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"stopping": "lucky"}, "stopping is 'lucky'"),
        ({"check_every": 0}, "check_every is 0"),
        ({"check_batch": 0}, "check_batch is 0"),
        ({"check_delta": 1.0}, "check_delta is 1.0"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(InputError, match=words):
        CrossLearner("linear-quadratic", **settings)
