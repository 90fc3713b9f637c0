"""What suits tasks that say nothing of themselves: units, widths, and spaces of any shape."""

import dataclasses

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner, Task
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import run_episodes
from crosslearning.learner.preparation import kernel_for
from crosslearning.learner.settings import METHODS
from crosslearning.learner.user_input import PAPER_METHOD
from crosslearning.rollouts import ActionScale
from crosslearning.runs import make_config
from crosslearning.tasks import task_set
from crosslearning.tasks.signals import angles_of, find_circles
from tests.learner.examples import Drift, drift


class Skewed(Drift):
    """A point whose actions lie between 1 and 5, and which is seen in very different units."""

    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.Box(1.0, 5.0, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, **options):
        seen, info = super().reset(**options)
        return seen * np.float32([1.0, 1e4]), info

    def step(self, action):
        assert self.action_space.contains(action)
        self.place = np.clip(self.place + 0.15 * (action - 3.0), -10.0, 10.0)
        seen = np.float32(self.place * [1.0, 1e4])
        return seen, -float(self.place @ self.place), False, False, {}


SKEWED = [Task("skewed", lambda render_mode=None: Skewed(), horizon=50)]
SMALL = {"max_knots": 20, "discount": 0.8, "seed": 1}


def test_widths_follow_the_data_and_are_counted():
    learner = CrossLearner(SKEWED, **SMALL)
    widths = np.sqrt(np.diag(np.array(learner.kernel.to_dict()["covariance"])))
    assert 3e3 < widths[1] / widths[0] < 3e4
    assert learner.steps == 4 * 50  # four episodes of fifty steps
    same = CrossLearner(SKEWED, **SMALL)
    assert same.kernel == learner.kernel
    given = CrossLearner(SKEWED, kernel=learner.kernel, **SMALL)
    assert given.steps == 0


@pytest.mark.parametrize("method", METHODS)
def test_actions_are_scaled_to_their_box(method):
    learner = CrossLearner(SKEWED, method=method, **SMALL).learn(20)
    observation = np.float32([0.3, 200.0])
    mean = learner.policy(0).mean(observation)
    action, _ = learner.predict(observation)
    np.testing.assert_allclose(action, np.clip(3.0 + 2.0 * mean, 1.0, 5.0), rtol=1e-6)
    own = CrossLearner(SKEWED, action_units="own", method=method, **SMALL).learn(2)
    np.testing.assert_allclose(
        own.predict(observation)[0], np.clip(own.policy(0).mean(observation), 1.0, 5.0), rtol=1e-6
    )


def test_what_is_learned_is_what_acts(tmp_path):
    learner = CrossLearner(SKEWED, **SMALL).learn(5)
    learner.save(tmp_path / "scaled")
    loaded = CrossLearner.load(tmp_path / "scaled", tasks=SKEWED)
    assert loaded.steps == learner.steps
    np.testing.assert_array_equal(loaded.learn(2).family.weights, learner.learn(2).family.weights)
    episodes = run_episodes(learner.policy(0), SKEWED[0], 3)
    scale = ActionScale.of_box(SKEWED[0].action_space.low, SKEWED[0].action_space.high)
    means = learner.policy(0).mean(episodes.observations[0, :-1])
    np.testing.assert_allclose(episodes.actions[0], scale(means), rtol=1e-9)


def test_step_sizes_follow_the_units():
    sizes = [
        CrossLearner(SKEWED, method="policy-gradient", action_units=units, **SMALL)
        for units in ("own", "box")
    ]
    assert [learner.settings.step_size for learner in sizes] == [2.0, 0.5]


def test_tasks_that_state_their_kernel_keep_their_units():
    learner = CrossLearner("paper", **SMALL)
    assert learner.settings.step_size == 2.0
    assert learner.steps == 0
    scaled = CrossLearner("paper", action_units="box", **SMALL)
    action, _ = scaled.predict([2.0, 0.0, 5.0, 0.0, 0.5])
    np.testing.assert_allclose(action, [1.0, 0.0])  # the middle of the box


def test_a_compiled_task_and_its_environment_agree_when_scaled():
    compiled = task_set("pendulums:2")
    plain = [
        Task(t.name, t.make, reset_size=2, reset_options=t.reset_options, horizon=200)
        for t in compiled
    ]
    families = [
        CrossLearner(tasks, estimator="geometric", **SMALL).learn(4).family
        for tasks in (compiled, plain)
    ]
    np.testing.assert_array_equal(families[0].weights, families[1].weights)


def test_a_box_without_bounds_cannot_be_scaled_to():
    class Free(Drift):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)

        def step(self, action):
            self.place = np.clip(self.place + 0.3 * action, -10.0, 10.0)
            return np.float32(self.place), -float(self.place @ self.place), False, False, {}

    tasks = [Task("free", lambda render_mode=None: Free(), horizon=50)]
    assert CrossLearner(tasks, method=PAPER_METHOD, **SMALL).learn(1).settings.step_size == 2.0
    assert CrossLearner(tasks, **SMALL).method.noise.std.tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="have no bounds"):
        CrossLearner(tasks, action_units="box", **SMALL)


class Square(Drift):
    """A point that is seen, and pushed, as a matrix."""

    def __init__(self):
        super().__init__(size=4)
        self.observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2, 2), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2, 2), np.float32)
        self._flat = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.place, self.steps = self.np_random.uniform(-1.0, 1.0, 4), 0
        return self.place.astype(np.float32).reshape(2, 2), {}

    def step(self, action):
        assert action.shape == (2, 2)
        self.place = np.clip(self.place + 0.3 * action.ravel(), -10.0, 10.0)
        seen = self.place.astype(np.float32).reshape(2, 2)
        return seen, -float(self.place @ self.place), False, False, {}


def test_observations_and_actions_of_any_shape():
    tasks = [Task("square", lambda render_mode=None: Square(), horizon=50)]
    learner = CrossLearner(tasks, **SMALL).learn(3)
    one, _ = learner.predict(np.zeros((2, 2)))
    batch, _ = learner.predict(np.zeros((5, 2, 2)))
    assert one.shape == (2, 2)
    assert batch.shape == (5, 2, 2)
    assert run_episodes(learner.policy(0), tasks[0], 2, 7).observations.shape == (2, 8, 4)
    with pytest.raises(InputError, match=r"numbers of shape \(2, 2\)"):
        learner.predict(np.zeros(4))


@pytest.mark.parametrize(
    ("space", "kind", "remedy"),
    [
        (gymnasium.spaces.Text(3), "action_space", "TransformAction"),
        (gymnasium.spaces.Dict(a=gymnasium.spaces.Text(3)), "observation_space", "FilterObs"),
        (gymnasium.spaces.Text(3), "observation_space", "TransformObservation"),
    ],
)
def test_other_spaces_are_told_what_helps(space, kind, remedy):
    class Other(Drift):
        def __init__(self):
            super().__init__()
            setattr(self, kind, space)

    with pytest.raises(InputError, match=remedy):
        CrossLearner([Task("other", lambda render_mode=None: Other())])


def test_predict_takes_what_stable_baselines_passes():
    learner = CrossLearner([drift("one")], **SMALL).learn(1)
    expected, _ = learner.predict(np.zeros((3, 2)))
    acted, state = learner.predict(
        np.zeros((3, 2)), state=None, episode_start=np.ones(3, dtype=bool), deterministic=True
    )
    np.testing.assert_array_equal(acted, expected)
    assert state is None


def test_angles_are_known_by_their_bounds():
    class Compass(Drift):
        def __init__(self):
            super().__init__()
            high = np.array([10.0, np.pi], dtype=np.float32)
            self.observation_space = gymnasium.spaces.Box(-high, high, dtype=np.float32)

    task = Task("compass", lambda render_mode=None: Compass(), horizon=50)
    learner = CrossLearner([task], **SMALL)
    assert dict(learner.kernel.periodic) == {1: 2.0 * np.pi}
    # Points on a circle of radius 1 spread by no more than its radius.
    assert 0.0 < learner.kernel.std[1] <= 1.0
    assert angles_of(gymnasium.spaces.Box(0.0, 2.0 * np.pi, (1,))) == [0]
    assert angles_of(gymnasium.spaces.Box(-1.0, 2.0 * np.pi - 1.0, (1,))) == []


def test_what_turns_round_is_wide_though_little_was_seen_of_it():
    generator = np.random.default_rng(0)
    angle, other = 0.1 * generator.normal(size=50), 0.1 * generator.normal(size=50)
    seen = np.column_stack([other, np.cos(angle), np.zeros(50), np.sin(angle), np.ones(50)])
    assert find_circles(seen) == [(1, 3)]  # constants are no cosines
    space = gymnasium.spaces.Box(-np.inf, np.inf, (5,))
    widths = np.sqrt(np.diag(kernel_for(seen, space).covariance))
    np.testing.assert_allclose(widths[[1, 3]], 0.6 * np.sqrt(5 / 3))
    np.testing.assert_allclose(widths[0], other.std() * np.sqrt(5 / 3))
    turn = gymnasium.spaces.Box(-np.pi, np.pi, (1,))
    assert np.sqrt(kernel_for(angle[:, None], turn).covariance)[0][0] == pytest.approx(0.6)
    # What has been seen all the way round is as wide as it was seen.
    whole = generator.uniform(-np.pi, np.pi, size=2000)
    assert np.sqrt(kernel_for(whole[:, None], turn).covariance)[0][0] > 0.9


def test_actions_on_their_way_are_wider_than_their_spread():
    fields = {"lags": 1, "past_actions": 2}
    task = dataclasses.replace(task_set("hovering-masses:1")[0], **fields)
    limited = dataclasses.replace(task, rates={"thrust": 6.0})
    seen = np.random.default_rng(0).normal(size=(50, task.observation_size))
    space = task.observation_space
    plain, wide, last = (
        np.sqrt(np.diag(kernel_for(seen, space, loop=loop).covariance))
        for loop in (None, task.loop, limited.loop)
    )
    np.testing.assert_allclose(wide / plain, [1.0] * 4 + [3.0] * 2)
    # Where rates are limited, the last action is where the next one begins.
    np.testing.assert_array_equal(last, plain)
    learner = CrossLearner([task], method="models", round_steps=20)
    learner.learn(1, progress=False)
    states = learner.method.data[0]
    every = np.concatenate([states.states, states.after[-1:]])
    expected = kernel_for(every, space, loop=task.loop).std
    np.testing.assert_allclose(learner.kernel.std, expected)


def test_a_method_that_is_not_named_is_the_one_that_suits():
    assert CrossLearner("paper", **SMALL).settings.method == "policy-gradient"
    assert CrossLearner([drift("own")], **SMALL).settings.method == "trust-region"
    # A setting that one method alone has names it.
    assert CrossLearner("paper", trace=0.5, **SMALL).settings.method == "trust-region"
    own = CrossLearner([drift("own")], batch_size=2, **SMALL)
    assert own.settings.method == "policy-gradient"


@pytest.mark.parametrize(
    ("asked", "method"),
    [
        ({"tasks": "pendulums:3", "steps": 3000}, "models"),
        ({"tasks": "pendulums:3", "steps": 3001}, "trust-region"),
        ({"tasks": "pendulums:3", "iterations": 3}, "trust-region"),
        ({"tasks": "pendulums:3", "steps": 300, "method": "trust-region"}, "trust-region"),
        ({"tasks": "paper", "steps": 600}, "policy-gradient"),
    ],
)
def test_a_run_of_few_steps_learns_in_models(asked, method):
    assert make_config(asked).chosen().settings.method == method
