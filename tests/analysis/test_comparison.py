"""Comparison: paired differences, with intervals that cover and are narrower than unpaired ones."""

import math

import numpy as np
import pytest

from crosslearning import CrossLearner, task_set
from crosslearning._base.statistics import student
from crosslearning.analysis.comparison import compare, compare_across
from crosslearning.learner.evaluation import evaluate, evaluate_across, run_episodes
from crosslearning.tasks import LinearQuadratic


@pytest.fixture(scope="module")
def learner():
    return CrossLearner("paper", max_knots=60, seed=1).learn(800)


def test_a_policy_is_no_better_than_itself(learner):
    for result in compare(learner.central, learner.central, learner.tasks, trials=20, horizon=20):
        assert result.discounted_return == result.mean_cost
        assert result.discounted_return.value == 0.0
        assert result.verdict == "undecided"
        arrived = result.rates["arrived"]
        assert arrived.value == 0.0
        # Twenty equal pairs are no proof that the rates are the same.
        assert arrived.low < -0.05
        assert arrived.high > 0.05


def test_differences_are_those_of_the_same_starts(learner):
    task = learner.tasks[1]
    (result,) = compare(
        learner.policy("r=2"), learner.central, [task], trials=80, horizon=40, seed=3
    )
    a = run_episodes(learner.policy("r=2"), task, 80, 40, seed=3)
    b = run_episodes(learner.central, task, 80, 40, seed=3)
    weights = 0.9 ** np.arange(40)
    assert result.discounted_return.value == pytest.approx(
        np.mean((a.rewards - b.rewards) @ weights)
    )
    assert result.mean_cost.value == pytest.approx(-np.mean(a.rewards - b.rewards))
    assert result.total_return.value == pytest.approx(np.mean((a.rewards - b.rewards).sum(axis=1)))
    one, other = (task.outcomes(np.ascontiguousarray(e.states[:, -1])) for e in (a, b))
    assert result.rates["crashed"].value == pytest.approx(
        one["crashed"].mean() - other["crashed"].mean()
    )
    both = one["arrived"] & other["arrived"]
    expected = np.mean(one["arrival_time"][both] - other["arrival_time"][both])
    assert 3 < both.sum() < 80
    assert result.means["arrival_time"].value == pytest.approx(expected)


def test_pairs_tell_more_than_two_intervals_side_by_side(learner):
    task = learner.tasks[0]
    policies = [learner.central, learner.policy(0)]
    (paired,) = compare(*policies, [task], trials=200)
    alone = evaluate(policies, [task], trials=200)
    width = paired.discounted_return.high - paired.discounted_return.low
    widths = [r.discounted_return.high - r.discounted_return.low for r in alone]
    assert width < 0.6 * sum(widths)


def test_a_better_policy_is_called_better_and_the_other_way_round_worse():
    # Two systems of which a policy that acts the right way is better than one that does nothing.
    system = LinearQuadratic([[1.0]], [[1.0]], [[1.0]], [[0.1]], [1.0], [2.0])
    task = system.task("integrator")
    learner = CrossLearner([task], math.inf, step_size=0.3, max_knots=20, seed=0).learn(150)
    nothing = CrossLearner([task], math.inf, max_knots=20)
    options = {"trials": 40, "horizon": 15}
    (forth,) = compare(learner.policy(0), nothing.policy(0), [task], **options)
    (back,) = compare(nothing.policy(0), learner.policy(0), [task], **options)
    assert (forth.verdict, back.verdict) == ("better", "worse")
    assert forth.discounted_return.value == pytest.approx(-back.discounted_return.value)
    assert forth.rates == {}


def test_across_tasks_the_tasks_are_the_sample(learner):
    maps = task_set("random", seed=5, count=12)
    (pooled,) = evaluate_across([learner.central], maps, trials=4, horizon=30)
    each = evaluate([learner.central], maps, trials=4, horizon=30)
    returns = np.array([result.discounted_return.value for result in each])
    assert pooled.task == "12 tasks"
    assert pooled.trials == 48
    assert pooled.discounted_return.value == pytest.approx(returns.mean())
    assert pooled.discounted_return == student(returns)
    assert pooled.rates["crashed"].value == pytest.approx(
        np.mean([result.rates["crashed"].value for result in each])
    )
    difference = compare_across(learner.central, learner.policy(2), maps, trials=4, horizon=30)
    (other,) = evaluate_across([learner.policy(2)], maps, trials=4, horizon=30)
    assert difference.discounted_return.value == pytest.approx(
        pooled.discounted_return.value - other.discounted_return.value
    )
    assert difference.rates["arrived"].value == pytest.approx(
        pooled.rates["arrived"].value - other.rates["arrived"].value
    )


def test_tasks_that_all_agree_do_not_claim_certainty():
    learner = CrossLearner("paper", max_knots=10)
    maps = task_set("random", seed=5, count=6)
    # The zero policy never moves, so it never crashes: nor is that proved by six maps.
    (result,) = evaluate_across([learner.central], maps, trials=2, horizon=5)
    crashed = result.rates["crashed"]
    assert (crashed.value, crashed.low) == (0.0, 0.0)
    assert crashed.high > 0.3
