"""Discrete actions: what scores choose, with which probability, and what is learned with them."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import multivariate_normal

from crosslearning import CrossLearner, Policy, Task, check_task, evaluate
from crosslearning._base.choices import Choices
from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner.choosing import choice_statistics
from crosslearning.learner.steps import Steps, log_densities, noise_and_densities

OPTIONS = st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple)


def choices_between(options):
    return Choices(options, tuple(range(len(options))), (len(options),))


class Line(gymnasium.Env):
    """A place on a line, which ``push(action)`` moves; at 0 it is best."""

    observation_space = Box(-2.0, 2.0, (1,), np.float64)

    def __init__(self, actions, push, render_mode=None):
        self.action_space, self.push = actions, push

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1.0, 1.0, 1)
        return self.x.copy(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.x = np.clip(self.x + 0.1 * self.push(action), -2.0, 2.0)
        return self.x.copy(), -float(self.x[0] ** 2), False, False, {}


SPACES = {
    "two": (Discrete(2), lambda a: 2 * a - 1),
    "three": (Discrete(3, start=-1), lambda a: a),
    "several": (MultiDiscrete([3, 2]), lambda a: (a[0] - 1) * (1 + a[1])),
    "grid": (MultiDiscrete(np.array([[2], [3]])), lambda a: (2 * a[0, 0] - 1) * a[1, 0] / 2),
    "switches": (MultiBinary(2), lambda a: int(a[0]) - int(a[1])),
}


def line(kind, **options):
    return Task(kind, lambda render_mode=None: Line(*SPACES[kind]), horizon=20, **options)


# Choices ----------------------------------------------------------------------------------


@given(OPTIONS, st.data())
def test_scores_of_an_action_choose_it(options, data):
    choices = choices_between(options)
    action = [first + data.draw(st.integers(0, n - 1)) for first, n in enumerate(options)]
    scores = choices.scores(action)
    assert scores.shape == (choices.size,)
    assert len(choices.names) == len(set(choices.names)) == choices.size
    np.testing.assert_array_equal(choices.choose(scores), action)
    np.testing.assert_array_equal(choices.choose([scores, scores]), [action, action])


@given(OPTIONS, st.data())
def test_the_greatest_score_is_chosen_one_by_one(options, data):
    choices = choices_between(options)
    scores = data.draw(arrays(np.float64, choices.size, elements=st.floats(-3.0, 3.0)))
    expected = []
    for n, part in zip(options, choices.parts, strict=True):
        mine = scores[part].tolist()
        mine = [0.0, *mine] if n == 2 else mine
        expected.append(mine.index(max(mine)))
    np.testing.assert_array_equal(choices.taken(scores), expected)


@pytest.mark.parametrize("wrong", [2, -1, 0.5, "on", [0, 1], np.nan])
def test_what_is_no_action_is_refused(wrong):
    with pytest.raises(InputError, match="give a whole number from 0 to 1"):
        Choices((2,)).scores(wrong)


# Probabilities ----------------------------------------------------------------------------


def test_probabilities_are_those_of_the_normal_distribution():
    generator, choices = np.random.default_rng(0), Choices((4,))
    for _ in range(5):
        means, std = generator.normal(size=4), generator.uniform(0.3, 1.5, 4)
        for option in range(4):
            others = [k for k in range(4) if k != option]
            less = np.zeros((3, 4))
            less[range(3), others], less[:, option] = 1.0, -1.0
            covariance = less @ np.diag(std**2) @ less.T
            expected = multivariate_normal.cdf(
                np.zeros(3), less @ means, covariance, abseps=1e-8, releps=1e-8, maxpts=10**6, rng=0
            )
            logs, _ = choice_statistics(choices, np.array([[option]]), means[None], std)
            assert np.exp(logs[0]) == pytest.approx(expected, abs=1e-6, rel=1e-6)


@given(OPTIONS, st.integers(0, 2**32 - 1))
def test_probabilities_sum_to_one_and_mean_noise_to_zero(options, seed):
    generator, choices = np.random.default_rng(seed), choices_between(options)
    means = generator.normal(size=choices.size)
    std = generator.uniform(0.4, 1.2, choices.size)
    taken = np.array(list(np.ndindex(*options)))
    logs, noise = choice_statistics(choices, taken, np.tile(means, (len(taken), 1)), std)
    assert np.sum(np.exp(logs)) == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(np.exp(logs) @ noise, 0.0, atol=1e-9)


@given(OPTIONS, st.integers(0, 2**32 - 1))
def test_the_mean_noise_is_the_gradient_of_the_log_probability(options, seed):
    generator, choices = np.random.default_rng(seed), choices_between(options)
    means = generator.normal(size=choices.size)
    std = generator.uniform(0.5, 1.2, choices.size)
    taken = np.array([[generator.integers(n) for n in options]])
    _, noise = choice_statistics(choices, taken, means[None], std)
    h = 1e-5
    for j in range(choices.size):
        step = h * np.eye(choices.size)[j]
        above, below = (
            choice_statistics(choices, taken, (means + sign * step)[None], std)[0][0]
            for sign in (1, -1)
        )
        gradient = (above - below) / (2 * h)
        assert noise[0, j] / std[j] ** 2 == pytest.approx(gradient, abs=1e-7)


def test_sure_choices_have_next_to_no_noise():
    for options, scores in (((2,), [8.0]), ((3,), [8.0, 0.0, -3.0])):
        choices = Choices(options)
        logs, noise = choice_statistics(
            choices, choices.taken([scores]), np.array([scores]), np.ones(len(scores))
        )
        assert logs[0] == pytest.approx(0.0, abs=1e-6)
        np.testing.assert_allclose(noise, 0.0, atol=1e-5)
    # And an option that is all but impossible is a number, too.
    logs, noise = choice_statistics(Choices((2,)), np.array([[0]]), np.array([[40.0]]), np.ones(1))
    assert logs[0] == pytest.approx(-804.6, abs=0.1)
    assert noise[0, 0] == pytest.approx(-40.0, abs=0.1)


def test_the_mean_noise_estimates_the_same_gradient_with_less_variance():
    generator, choices = np.random.default_rng(1), Choices((3,))
    means, std = np.tile([0.5, 0.0, -0.5], (20_000, 1)), np.full(3, 0.5)
    noise = std * generator.standard_normal(means.shape)
    taken = choices.taken(means + noise)
    values = np.array([1.0, 0.0, 3.0])[taken[:, 0]]
    raw = values[:, None] * noise
    kept = values[:, None] * noise_and_densities(means + noise, means, std, choices)[0]
    error = 4.0 * np.sqrt((raw.var(axis=0) + kept.var(axis=0)) / len(raw))
    assert np.all(np.abs(raw.mean(axis=0) - kept.mean(axis=0)) < error)
    assert np.all(kept.var(axis=0) < 0.7 * raw.var(axis=0))


def test_real_actions_have_densities_of_their_own():
    generator = np.random.default_rng(2)
    actions, means, std = generator.normal(size=(5, 2)), np.ones((5, 2)), np.array([0.5, 2.0])
    noise, densities = noise_and_densities(actions, means, std, None)
    np.testing.assert_array_equal(noise, actions - 1.0)
    np.testing.assert_array_equal(densities, log_densities(actions - 1.0, std))


# Tasks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SPACES)
def test_tasks_pass_their_check_and_are_learned(kind):
    task = line(kind)
    check_task(task)
    learner = CrossLearner([task], method="trust-region", seed=1)
    learner.learn(steps=3000, progress=False)
    policy = learner.policy(0)
    action, _ = policy.predict([0.5])
    assert SPACES[kind][0].contains(action[()] if np.ndim(action) == 0 else action.astype("i8"))
    assert policy.predict([[0.5], [-0.5]])[0].shape == (2, *SPACES[kind][0].shape)
    (learned,) = evaluate(policy, task, trials=20)
    first = Policy("first", policy.function.mix([[0.0]]), policy.noise_std, policy.actions)
    (before,) = evaluate(first, task, trials=20)
    assert learned.total_return.value > 0.3 * before.total_return.value  # both are below zero


def test_numbers_stay_what_they_are_on_the_way(tmp_path):
    task = line("three")
    learner = CrossLearner([task], method="trust-region", seed=1)
    policy = learner.learn(steps=400, progress=False).policy(0)
    policy.save(tmp_path / "policy.json")
    again = Policy.load(tmp_path / "policy.json")
    places = np.linspace(-2.0, 2.0, 50)[:, None]
    expected = policy.choices.choose(policy.mean(places))
    np.testing.assert_array_equal(again.predict(places)[0], expected)
    np.testing.assert_array_equal(policy.predict(places)[0], expected)
    controller = learner.controller(0)
    assert [controller.act(place) for place in places] == expected.tolist()
    # In its environment, and from outside, the policy acts in the same way.
    ours, theirs = evaluate([policy, lambda x: policy.predict(x)[0]], task, trials=10)
    assert ours.total_return == theirs.total_return
    learner.save(tmp_path / "learner.safetensors")
    loaded = CrossLearner.load(tmp_path / "learner.safetensors", [task])
    one, other = (each.learn(steps=200, progress=False).family for each in (loaded, learner))
    np.testing.assert_array_equal(one.weights, other.weights)


def test_noise_takes_every_option():
    policy = CrossLearner([line("three")], method="trust-region").policy(0)
    actions, _ = policy.predict(np.zeros((200, 1)), deterministic=False)
    assert set(actions.tolist()) == {-1, 0, 1}


def test_the_papers_method_learns_scores_as_other_actions():
    learner = CrossLearner(
        [line("two")], method="policy-gradient", epsilon=1.0, batch_size=20, discount=0.9, seed=2
    )
    learner.learn(60, progress=False)
    actions, _ = learner.policy(0).predict([[-1.0], [1.0]])
    np.testing.assert_array_equal(actions, [1, 0])


def test_steps_remember_the_probabilities_of_choices():
    task = line("two")
    learner = CrossLearner([task], method="trust-region", seed=3)
    learner.learn(steps=400, progress=False)
    (steps,) = learner.method.batches[0]
    assert isinstance(steps, Steps)
    assert np.all(steps.densities <= 0.0)
    assert np.all(learner.method.noise.std == 0.5)  # noise of scores has no scale to learn


def test_choices_of_a_file_that_do_not_fit_are_refused():
    policy = CrossLearner([line("three")], method="trust-region").policy(0)
    data = policy.to_dict()
    for wrong in (
        {"options": [2], "first": [0], "shape": []},
        {"options": [3], "first": [0, 0], "shape": []},
        {"options": [1], "first": [0], "shape": []},
        {"options": [3]},
        "three",
    ):
        with pytest.raises(FileFormatError):
            Policy.from_dict({**data, "choices": wrong})


# Refusals ---------------------------------------------------------------------------------


def test_models_and_loops_of_real_actions_say_that_they_are():
    with pytest.raises(InputError, match=r"models learn what real actions do.*trust-region"):
        CrossLearner([line("two")], method="models")
    assert CrossLearner([line("two")]).learn(steps=100, progress=False).settings.method == (
        "trust-region"
    )
    for kind, value in (("rates", {0: 1.0}), ("past_actions", 1), ("controller", abs)):
        with pytest.raises(InputError, match=f"a whole number from 0 to 1, so that {kind}"):
            line("two", **{kind: value})


def test_tasks_with_other_options_do_not_learn_together():
    other = Task("other", lambda: Line(Discrete(3), lambda a: a), horizon=20)
    with pytest.raises(InputError, match=r"are a whole number from 0 to 2.*from -1 to 1"):
        CrossLearner([line("three"), other])
    with pytest.raises(InputError, match="decisions between 2 to 1000 options"):
        Task("one", lambda: Line(Discrete(1), lambda a: a), horizon=20)


def test_other_policies_return_actions_of_the_environment():
    with pytest.raises(InputError, match=r"<lambda> in task 'two', the action is 7"):
        evaluate(lambda x: 7, line("two"), trials=1)
    (right,) = evaluate(lambda x: int(x[0] < 0), line("two"), trials=5)
    assert right.total_return.value > -4.0
