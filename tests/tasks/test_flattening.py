"""Dictionaries, tuples and boxes without an axis become vectors whose numbers have names."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from crosslearning import CrossLearner, Task, TrustRegion, check_task, evaluate
from crosslearning.errors import InputError


class Shown(gymnasium.Env):
    """A place on a line; ``show(x)`` is its observation, ``push(action)`` its movement."""

    def __init__(self, space, show, actions=None, push=lambda action: action[0], render_mode=None):
        self.observation_space, self.show, self.push = space, show, push
        self.action_space = actions or Box(-1.0, 1.0, (1,))
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = float(self.np_random.uniform(-1.0, 1.0))
        return self.show(self.x), {}

    def step(self, action):
        assert action in self.action_space
        self.x = float(np.clip(self.x + 0.1 * self.push(action), -2.0, 2.0))
        return self.show(self.x), -(self.x**2), False, False, {}


def vector(*numbers):
    return np.array(numbers, np.float32)


INNER = Dict({"far": Discrete(2, start=1), "sides": MultiDiscrete([2, 2]), "on": MultiBinary(2)})
SPACES = {
    "dictionary": (
        Dict({"place": Box(-2.0, 2.0, (1,)), "goal": Box(-2.0, 2.0, (2,))}),
        lambda x: {"place": vector(x), "goal": vector(0.0, x)},
        ("goal 0", "goal 1", "place"),
    ),
    "tuple": (
        Tuple((Box(-2.0, 2.0, (1,)), Box(-2.0, 2.0, (1, 2)))),
        lambda x: (vector(x), vector(x, 0.0)[None]),
        ("item 0", "item 1 0", "item 1 1"),
    ),
    "nested": (
        Dict({"a": INNER, "b": Box(-2.0, 2.0, ())}),
        lambda x: {
            "a": {"far": 1 + int(x > 0), "sides": np.array([1, 0]), "on": np.array([0, 1], "i1")},
            "b": np.array(x, np.float32),
        },
        (
            *("a far = 1", "a far = 2", "a on 0", "a on 1"),
            *("a sides 0 = 0", "a sides 0 = 1", "a sides 1 = 0", "a sides 1 = 1", "b"),
        ),
    ),
    "number": (Box(-2.0, 2.0, ()), lambda x: np.float32(x), ()),
}


@pytest.mark.parametrize(("space", "show", "names"), SPACES.values(), ids=SPACES)
def test_observations_are_flattened_with_names(space, show, names):
    task = Task("shown", lambda render_mode=None: Shown(space, show), horizon=20)
    size = gymnasium.spaces.flatdim(space)
    assert task.observation_space.shape == (size,)
    if names:  # sorted, as Gymnasium sorts a dictionary
        assert sorted(task.observation_names) == sorted(names)
    environment = task.make()
    observation, _ = environment.reset(seed=3)
    np.testing.assert_array_equal(
        observation, gymnasium.spaces.flatten(space, show(environment.unwrapped.x))
    )
    check_task(task)
    learner = CrossLearner([task], TrustRegion(max_knots=10)).learn(steps=200)
    action, _ = learner.predict(observation)
    assert action.shape == (1,)
    (result,) = evaluate(learner, [task], trials=2)
    assert np.isfinite(result.total_return.value)


def test_each_name_belongs_to_its_number():
    space, show, _ = SPACES["dictionary"]
    task = Task("shown", lambda render_mode=None: Shown(space, show), horizon=20)
    environment = task.make()
    observation, _ = environment.reset(seed=3)
    by_name = dict(zip(task.observation_names, observation, strict=True))
    assert by_name["goal 0"] == 0.0
    assert by_name["place"] == by_name["goal 1"] == np.float32(environment.unwrapped.x)
    lagged = Task("lagged", task.make, lags=1, horizon=20)
    assert "change 1 of place" in lagged.observation_names


def test_actions_are_flattened():
    pushes = Dict({"gas": Box(0.0, 1.0, (1,)), "brake": Box(0.0, 1.0, ())})
    space = Box(-2.0, 2.0, (1,))
    task = Task(
        "car",
        lambda render_mode=None: Shown(space, vector, pushes, lambda a: a["gas"][0] - a["brake"]),
        horizon=20,
    )
    assert task.action_names == ("brake", "gas")
    check_task(task)
    environment = task.make(render_mode="human")
    assert environment.unwrapped.render_mode is None  # of the function above
    environment.reset(seed=1)
    before = environment.unwrapped.x
    environment.step(vector(0.0, 1.0))
    assert environment.unwrapped.x == pytest.approx(before + 0.1)


def test_an_action_without_an_axis_is_a_number():
    def push(action):
        assert np.ndim(action) == 0
        return float(action)

    space = Box(-2.0, 2.0, (1,))
    task = Task("number", lambda: Shown(space, vector, Box(-1.0, 1.0, ()), push), horizon=20)
    assert task.action_space.shape == (1,)
    check_task(task)


def make_dictionary(render_mode=None):
    return Shown(*SPACES["dictionary"][:2])


def test_a_flat_task_can_be_sent():
    sent = pickle.loads(pickle.dumps(Task("sent", make_dictionary, horizon=20)))
    assert sent.observation_names == ("goal 0", "goal 1", "place")
    assert sent.make().reset(seed=1)[0].shape == (3,)


def test_what_is_no_vector_of_numbers_is_refused_with_a_remedy():
    pushes = Tuple((Box(-1.0, 1.0, (1,)), Discrete(3)))
    task = Task("mixed", lambda: Shown(Box(-2.0, 2.0, (1,)), vector, pushes), horizon=20)
    with pytest.raises(InputError, match=r"of task 'mixed' must be a Box.*one Discrete"):
        CrossLearner([task])
