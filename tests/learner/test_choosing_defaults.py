"""Discrete actions have defaults of their own, and baselines that mean something."""

import numpy as np

from crosslearning import CrossLearner, evaluate, task_set, verdict
from tests.learner.examples import recorded_reports
from tests.learner.test_choosing import line


def test_episodes_are_few_and_steps_as_long_as_said():
    settings = CrossLearner([line("three")], method="trust-region").settings
    assert (settings.episode_steps, settings.episodes, settings.least_steps) == (20, 1, 100)
    assert (settings.step_kl, settings.reliable, settings.updates) == (0.1, 0.0, 5)
    real = CrossLearner("pendulums:1", method="trust-region").settings
    assert (real.episode_steps, real.episodes, real.least_steps) == (80, 4, 200)
    assert real.updates == 1
    assert (real.step_kl, real.reliable) == (0.1, 0.5)
    given = CrossLearner([line("three")], method="trust-region", episode_steps=15, step_kl=0.3)
    assert (given.settings.episode_steps, given.settings.step_kl) == (15, 0.3)


def test_short_episodes_follow_until_there_are_enough_steps():
    """Whatever their length; and no more steps than are left."""
    task = CrossLearner([line("two")], method="trust-region", seed=1, least_steps=110)
    reports = recorded_reports(task, 6)
    assert [report.episodes for report in reports] == [6, 0, 0, 0, 0, 6]
    short = CrossLearner([line("two")], method="trust-region", seed=1, least_steps=110)
    short.learn(steps=90, progress=False)
    assert short.steps <= 90


def test_policies_that_are_good_stay_good():
    """Steps are in proportion to the advantages: in the end these are errors of the critic."""
    task = line("two")
    learner = CrossLearner([task], method="trust-region", seed=4, least_steps=200)
    worst, shares = 0.0, []
    for _ in range(9):
        reports = recorded_reports(learner, 5)
        shares += [report.numbers["step_share"][0] for report in reports]
        worst = min(worst, evaluate(learner.policy(0), task, trials=50)[0].total_return.value)
    assert worst > -1.0  # with steps that are all as long it falls to -10, and it begins at -7
    # The second update with the same episodes is shorter, and late ones are short.
    assert shares[0] == 1.0
    assert 0.3 < shares[1] <= np.sqrt(0.5)
    assert max(shares[20:]) < 0.1
    # The step has the length that is aimed at, but for projection and pruning.
    aimed = learner.settings.aims(1, {"step_share": {"two": shares[-1]}})["kl"]
    np.testing.assert_allclose(reports[-1].numbers["kl"], aimed, rtol=0.2)


def test_the_largest_spread_is_saved(tmp_path):
    learner = CrossLearner([line("two")], method="trust-region", seed=4).learn(12, progress=False)
    assert learner.method.step_shares < 1.0
    learner.save(tmp_path / "learner.safetensors")
    again = CrossLearner.load(tmp_path / "learner.safetensors", [line("two")])
    np.testing.assert_array_equal(again.method.spreads, learner.method.spreads)
    one, other = (each.learn(3, progress=False).family.weights for each in (learner, again))
    np.testing.assert_array_equal(one, other)


def test_widths_are_no_smaller_than_a_share_of_the_bounds():
    # The line is 4 wide; q = 1 widens nothing, so that the deviation is at least a quarter of 2.
    learner = CrossLearner([line("three")], method="trust-region", seed=0)
    learner.learn(steps=200, progress=False)
    assert float(learner.kernel.to_dict()["covariance"][0][0]) >= 0.25


def test_an_environment_of_gymnasium_is_a_task():
    (task,) = task_set("CartPole-v1")
    assert (task.name, task.horizon, str(task.choices)) == (
        "CartPole-v1",
        500,
        "a whole number from 0 to 1",
    )


def test_options_are_compared_with_the_first_and_with_random_ones():
    learner = CrossLearner([line("three")], method="trust-region", seed=1)
    found = verdict(learner.learn(steps=400, progress=False), trials=4)
    references = found.tasks[0].references
    assert set(references) == {"the first option", "random actions"}
    # The first option, -1, drives every start to the end of the line; random ones stay near it.
    assert references["the first option"].value < references["random actions"].value
