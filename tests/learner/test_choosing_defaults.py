"""Discrete actions have defaults of their own, and baselines that mean something."""

from crosslearning import CrossLearner, task_set, verdict
from tests.learner.test_choosing import line


def test_episodes_are_few_and_steps_as_long_as_said():
    settings = CrossLearner([line("three")], method="trust-region").settings
    assert (settings.episode_steps, settings.episodes, settings.least_steps) == (10, 2, 200)
    assert (settings.step_kl, settings.reliable) == (0.1, 0.0)
    real = CrossLearner("pendulums:1", method="trust-region").settings
    assert (real.episodes, real.least_steps) == (4, 200)
    assert (real.step_kl, real.reliable) == (0.1, 0.5)
    given = CrossLearner([line("three")], method="trust-region", episode_steps=15, step_kl=0.3)
    assert (given.settings.episode_steps, given.settings.step_kl) == (15, 0.3)


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
