"""Known rewards and terminations: evaluated where nothing was observed, and fitted like data."""

import dataclasses

import numpy as np
import pytest

from crosslearning import CrossLearner, learn_from
from crosslearning.errors import InputError
from crosslearning.tasks import task_set
from tests.analysis.logged.examples import pendulum_log
from tests.learner.examples import assert_same_bits

SMALL = {
    "method": "models",
    "round_steps": 12,
    "updates_per_round": 3,
    "rollouts": 4,
    "look_ahead": 5,
}


def pay(observations, actions, following):
    """What a pendulum is paid, its action in newton metres."""
    angle = np.arctan2(observations[:, 1], observations[:, 0])
    return -(angle**2 + 0.1 * observations[:, 2] ** 2 + 0.001 * actions[:, 0] ** 2)


def fast(observations, actions, following):
    return np.abs(following[:, 2]) > 3.0


def with_formulas(count=2, **formulas):
    return [dataclasses.replace(task, **formulas) for task in task_set(f"pendulums:{count}")]


def somewhere(n=300):
    """Return states all round the circle, and actions in the policies' units."""
    draw = np.random.default_rng(0)
    angle, speed = draw.uniform(-np.pi, np.pi, n), draw.uniform(-1.0, 1.0, n)
    return np.stack([np.cos(angle), np.sin(angle), speed], 1), draw.uniform(-1.0, 1.0, (n, 1))


def reward_error(learner):
    states, actions = somewhere()
    predicted = learner.method.dynamics.predict(0, states, actions)[:, 3]
    return np.sqrt(np.mean((predicted - pay(states, 2.0 * actions, states)) ** 2))


@pytest.mark.parametrize("seed", range(3))
def test_a_reward_that_is_told_is_known_where_nothing_was_seen(seed):
    plain = CrossLearner("pendulums:2", seed=seed, **SMALL).learn(1)
    known = CrossLearner(with_formulas(reward=pay), seed=seed, **SMALL).learn(1)
    assert reward_error(known) < 0.5 * reward_error(plain)
    # Imagined rewards are not kept between those that happened to be paid.
    assert known.method.frame.limits[1, 3] > plain.method.frame.limits[1, 3]


def test_a_formula_is_asked_in_the_units_of_the_task():
    asked = []

    def watched(observations, actions, following):
        asked.append(actions)
        return pay(observations, actions, following)

    learner = CrossLearner(with_formulas(reward=watched), **SMALL).learn(1)
    space = learner.tasks[0].action_space
    actions = np.concatenate(asked)
    assert np.all((space.low <= actions) & (actions <= space.high))
    assert np.max(actions) > 0.9 * space.high[0]


def test_the_motion_is_what_it_was():
    states, actions = somewhere()
    plain = CrossLearner("pendulums:2", **SMALL).learn(1).method.dynamics
    known = CrossLearner(with_formulas(reward=pay), **SMALL).learn(1).method.dynamics
    one, other = (predicted.predict(1, states, actions)[:, :3] for predicted in (plain, known))
    np.testing.assert_array_equal(one, other)


def test_an_end_that_is_told_need_not_be_seen():
    learner = CrossLearner(with_formulas(terminated=fast), **SMALL).learn(1)
    frame = learner.method.frame
    assert not any(np.any(own.terminated) for own in learner.method.data)
    assert frame.ends == 1
    pseudo = learner.method.pseudo
    assert (pseudo.reward, pseudo.end) == (False, True)
    # Rewards are as they were seen, not those of the points.
    seen = np.concatenate([own.rewards for own in learner.method.data])
    assert frame.limits[:, 3].tolist() == [seen.min(), seen.max()]


def test_what_was_told_is_saved(tmp_path):
    tasks = with_formulas(reward=pay, terminated=fast)
    half = CrossLearner(tasks, **SMALL).learn(2)
    half.save(tmp_path / "half")
    again = CrossLearner.load(tmp_path / "half", tasks=tasks)
    assert reward_error(again) == reward_error(half)
    assert_same_bits(again.learn(5).family, half.learn(5).family)
    # Without the tasks the models are still what they were.
    alone = CrossLearner.load(tmp_path / "half")
    assert alone.method.frame.ends == 1


def test_logs_may_be_paid_by_a_formula():
    log, _ = pendulum_log(2, 20)
    unpaid = {name: [{**one, "rewards": np.zeros(20)} for one in own] for name, own in log.items()}
    settings = {"iterations": 2, "rollouts": 4, "look_ahead": 5, "progress": False}
    with pytest.raises(InputError, match="all rewards are 0"):
        learn_from(unpaid, **settings)
    learner = learn_from(log, reward=pay, **settings)
    assert learner.method.pseudo.reward


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (lambda s, a: s[:, 0], "cannot be evaluated: .*takes 2 positional arguments"),
        (lambda s, a, n: s, r"returned an array of shape \(120, 3\) for 120 steps"),
        (lambda s, a, n: s[:, 0] * np.nan, "returned nan for the step"),
        (lambda s, a, n: s[:, 9], "cannot be evaluated: index 9"),
    ],
)
def test_a_formula_that_is_wrong_is_named(formula, message):
    learner = CrossLearner(with_formulas(reward=formula), **SMALL)
    name = learner.tasks[0].name
    with pytest.raises(InputError, match=f"the reward of task '{name}' {message}"):
        learner.learn(1)
    assert learner.iteration == 0


def test_all_tell_or_none():
    mixed = [*with_formulas(1, reward=pay), task_set("pendulums:2")[1]]
    with pytest.raises(InputError, match="some tasks have a reward formula and others do not"):
        CrossLearner(mixed, **SMALL)
