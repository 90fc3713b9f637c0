"""Evaluation: intervals that cover, the same starts for all, the same numbers on any thread."""

import numpy as np
import pytest

from crosslearning import CrossLearner, task_set
from crosslearning.errors import InputError
from crosslearning.evaluation import evaluate, run_episodes, summarise


@pytest.fixture(scope="module")
def learner():
    return CrossLearner("paper", max_knots=30, seed=1).learn(40)


def test_policies_meet_the_same_starts(learner):
    task = learner.tasks[2]
    a = run_episodes(learner.central, task, 7, seed=4)
    b = run_episodes(learner.policy(0), task, 7, seed=4)
    np.testing.assert_array_equal(a.states[:, 0], b.states[:, 0])
    assert not np.array_equal(a.states[:, -1], b.states[:, -1])


def test_threads_do_not_matter(learner):
    task = learner.tasks[0]
    one = run_episodes(learner.central, task, 11, seed=1, deterministic=False, workers=1)
    three = run_episodes(learner.central, task, 11, seed=1, deterministic=False, workers=3)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


def test_numbers_are_those_of_the_episodes(learner):
    task = learner.tasks[1]
    episodes = run_episodes(learner.central, task, 9, steps=12, seed=2)
    result = summarise("central", task, episodes, discount=0.9)
    expected = np.mean([sum(0.9**t * r for t, r in enumerate(e)) for e in episodes.rewards])
    assert result.discounted_return.value == pytest.approx(expected)
    assert result.mean_cost.value == pytest.approx(-episodes.rewards.mean())
    outcomes = task.outcomes(np.ascontiguousarray(episodes.states[:, -1]))
    assert result.rates["crashed"].value == pytest.approx(np.mean(outcomes["crashed"]))
    assert result.means["path_length"].value == pytest.approx(np.mean(outcomes["path_length"]))


def test_every_policy_on_every_task(learner):
    policies = [learner.central, learner.policy("r=2")]
    results = evaluate(policies, task_set("paper"), trials=3, steps=5)
    assert [(r.task, r.policy) for r in results] == [
        (task, policy) for task in ("r=0.5", "r=1", "r=2") for policy in ("central", "r=2")
    ]


def test_bad_input_is_named(learner):
    with pytest.raises(InputError, match="trials"):
        run_episodes(learner.central, learner.tasks[0], 0)
    with pytest.raises(InputError, match="steps"):
        run_episodes(learner.central, learner.tasks[0], 1, steps=0)
