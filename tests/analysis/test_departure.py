"""How far policies depart from their controller, and what that is worth."""

import math

import numpy as np
import pytest
from scipy import stats

from crosslearning import CrossLearner, Task
from crosslearning._base.statistics import clopper_pearson
from crosslearning.analysis.departure import change_bounds, departures
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import run_episodes
from crosslearning.rkhs import Gaussian, Linear
from crosslearning.tasks.controllers import Constant
from tests.certificates.examples import place
from tests.learner.examples import Drift, drift

KERNEL = Gaussian(std=[1.0, 1.0])
#: A push from both sides towards the middle, in the first action.
KNOTS, INWARD = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[-0.3, 0.0], [0.3, 0.0]])


def corrected(weights, knots=KNOTS, kernel=KERNEL, epsilon=0.5, bound=1.0, action=0.0, **fields):
    """Return a learner of one task around a constant action, with a correction set by hand."""
    task = Task(
        "one",
        lambda render_mode=None: Drift(bound=bound),
        horizon=20,
        observation_names=["x", "y"],
        **fields,
    )
    still = Constant([action, 0.0])
    settings = {"method": "trust-region", "keep": "last", "kernel": kernel}
    learner = CrossLearner([task], around=still, epsilon=epsilon, **settings)
    place(learner, np.asarray(knots), np.repeat(np.asarray(weights)[:, None], 2, axis=1))
    return learner


def test_a_gain_is_positive_where_the_correction_helps_and_negative_where_it_harms():
    (better,) = departures(corrected(INWARD), trials=30)
    (worse,) = departures(corrected(-INWARD), trials=30)
    assert better.gain.low > 0.0
    assert worse.gain.high < 0.0
    for one in (better, worse):
        assert one.gain.value == pytest.approx(one.learned.value - one.controller.value)
        assert one.controller.value == better.controller.value  # on the same starts
        # Paired by starts, which differ more than the two do.
        assert one.gain.high - one.gain.low < one.learned.high - one.learned.low


def test_no_state_changes_an_action_by_more_than_its_bound_and_one_reaches_it():
    learner = corrected([[0.5, 0.0]], knots=[[0.3, -0.2]], bound=4.0)
    np.testing.assert_allclose(change_bounds(learner), [2.0, 2.0])
    policy = learner.policy(0)
    states = np.random.default_rng(0).uniform(-10.0, 10.0, (2000, 2))
    changes = np.array([policy.predict(state)[0] for state in states])
    assert np.all(np.abs(changes) <= 2.0)
    np.testing.assert_allclose(policy.predict([0.3, -0.2])[0], [2.0, 0.0])


def test_changes_are_those_of_the_visited_states():
    learner = corrected(INWARD, bound=4.0)
    (machine,) = departures(learner, trials=10, seed=3)
    episodes = run_episodes(learner.policy(0), learner.tasks[0], 10, seed=3)
    given = np.abs(episodes.actions[..., 0])
    along, across = machine.actions
    assert along.largest == pytest.approx(given.max())
    assert along.typical == pytest.approx(math.sqrt(np.mean(given**2)))
    assert 0.0 < along.typical < along.largest <= along.bound == 2.0
    assert (across.largest, across.typical) == (0.0, 0.0)


def test_a_kernel_that_is_not_normalised_gives_no_bound():
    learner = corrected([[0.1, 0.0]], knots=[[1.0, 0.0]], kernel=Linear(std=[1.0, 1.0]))
    assert np.all(np.isinf(change_bounds(learner)))


def test_crossed_limits_are_counted_by_episodes():
    """Pushed to the right all machines cross; the correction holds them back."""
    knots, back = [[0.0, 0.0], [1.5, 0.0]], [[-0.45, 0.0], [-0.45, 0.0]]
    fields = {"limits": {"x": (None, 3.0)}, "chance": 0.9, "action": 0.5}
    learner = corrected(back, knots, Gaussian(std=[3.0, 3.0]), 0.9, **fields)
    (machine,) = departures(learner, trials=40)
    for acts, share in ((lambda _: np.zeros(2), machine.crossed_before),
                        (learner.policy(0), machine.crossed)):  # fmt: skip
        episodes = run_episodes(acts, learner.tasks[0], 40)
        beyond = (episodes.observations[:, :, 0] > 3.0).any(axis=1)
        assert share == clopper_pearson(int(beyond.sum()), 40)
    assert machine.crossed.value < machine.crossed_before.value
    assert machine.allowed == pytest.approx(0.1)
    (without,) = departures(corrected(INWARD), trials=2)
    assert without.crossed is without.crossed_before is without.allowed is None


def test_steady_errors_are_those_of_the_last_fifth():
    learner = corrected(np.zeros((1, 2)), knots=np.zeros((1, 5)), kernel=Gaussian(std=[1.0] * 5),
                        setpoints={"x": 0.5, "y": "x"})  # fmt: skip
    (machine,) = departures(learner, trials=10)
    last = run_episodes(lambda _: np.zeros(2), learner.tasks[0], 10).observations[:, 16:]
    expected = [np.abs(last[..., 0] - 0.5).mean(), np.abs(last[..., 1] - last[..., 0]).mean()]
    found = [machine.steady_errors[name] for name in ("x", "y")]
    np.testing.assert_allclose(found, np.array([expected, expected]).T)


def test_policies_without_a_controller_are_refused():
    with pytest.raises(InputError, match="correct no controller"):
        departures(CrossLearner([drift("one")], kernel=KERNEL, epsilon=1.0))


# The share of crossings -----------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_shares_have_the_interval_of_clopper_and_pearson(confidence):
    tail = 0.5 * (1.0 - confidence)
    for n in (1, 7, 40, 200):
        for k in {0, 1, n // 3, n - 1, n}:
            share = clopper_pearson(k, n, confidence)
            low = 0.0 if k == 0 else stats.beta.ppf(tail, k, n - k + 1)
            high = 1.0 if k == n else stats.beta.ppf(1.0 - tail, k + 1, n - k)
            assert (share.value, share.low, share.high) == pytest.approx((k / n, low, high))


@pytest.mark.parametrize("p", [0.02, 0.05, 0.3, 0.7])
def test_each_end_is_wrong_in_at_most_a_fortieth_of_samples(p):
    """Over all outcomes of a binomial distribution, weighted by their probability."""
    n = 30
    shares = [clopper_pearson(k, n) for k in range(n + 1)]
    weight = stats.binom.pmf(np.arange(n + 1), n, p)
    above = sum(w for w, share in zip(weight, shares, strict=True) if share.low > p)
    below = sum(w for w, share in zip(weight, shares, strict=True) if share.high < p)
    assert above <= 0.025 + 1e-12
    assert below <= 0.025 + 1e-12
    assert above + below > 0.0  # the interval is not the whole range


def test_the_interval_covers_in_a_simulation():
    crossed = np.random.default_rng(0).binomial(50, 0.1, size=4000)
    shares = {k: clopper_pearson(int(k), 50) for k in np.unique(crossed)}
    covered = np.mean([shares[k].low <= 0.1 <= shares[k].high for k in crossed])
    assert 0.95 <= covered < 1.0


def test_impossible_counts_are_refused():
    for k, n in ((3, 2), (-1, 5), (0, 0)):
        with pytest.raises(InputError, match="successes in"):
            clopper_pearson(k, n)
