"""Outcomes: truth values of the last info always, numbers if the task lists them."""

import gymnasium
import numpy as np
import pytest

from crosslearning import Task
from crosslearning.analysis.comparison import compare
from crosslearning.errors import InputError, TaskError
from crosslearning.learner.evaluation import evaluate, evaluate_across, run_episodes
from crosslearning.tasks.linear_quadratic import cart
from crosslearning.tasks.sources import tasks_of_file


class Telling(gymnasium.Env):
    """Ends after one step; ``tell(self)`` is its last info."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, tell):
        self.tell = tell

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = float(self.np_random.uniform(-1.0, 1.0))
        return np.array([self.place]), {"begun": True}

    def step(self, action):
        return np.array([self.place]), self.place, True, False, self.tell(self)


def telling(tell, *outcomes, name="telling"):
    return Task(name, lambda render_mode=None: Telling(tell), outcomes=outcomes)


def still(observation):
    return np.zeros(1)


def test_truth_values_count_always_and_numbers_if_they_are_listed():
    def tell(env):
        far = abs(env.place)
        return {"far": far > 0.5, "distance": far, "other": far, "words": "some"}

    (evaluation,) = evaluate([still], [telling(tell, "distance")], trials=40)
    episodes = run_episodes(still, telling(tell, "distance"), 40)
    distances = np.abs(episodes.observations[:, 0, 0])
    assert set(evaluation.rates) == {"far"}
    assert set(evaluation.means) == {"distance"}
    assert evaluation.rates["far"].value == pytest.approx(np.mean(distances > 0.5))
    assert evaluation.means["distance"].value == pytest.approx(np.mean(distances))
    assert (
        evaluation.means["distance"].low
        < evaluation.means["distance"].value
        < evaluation.means["distance"].high
    )


@pytest.mark.parametrize("name", ["is_success", "success", "crashed"])
@pytest.mark.parametrize("kind", [float, int, np.float32, lambda x: np.array([x]), bool])
def test_success_may_be_a_number(name, kind):
    (evaluation,) = evaluate([still], [telling(lambda env: {name: kind(env.place > 0)})], trials=30)
    places = run_episodes(still, telling(lambda env: {}), 30).observations[:, 0, 0]
    assert evaluation.rates[name].value == pytest.approx(np.mean(places > 0))
    # A score by that name is none.
    (score,) = evaluate([still], [telling(lambda env: {name: 0.5})], trials=3)
    assert score.rates == score.means == {}


def test_what_some_episodes_do_not_tell_is_unknown_there():
    def tell(env):
        if env.place < 0:
            return {}
        return {"high": env.place > 0.5, "height": env.place, "none": None}

    task = telling(tell, "height")
    episodes = run_episodes(still, task, 50)
    places = episodes.observations[:, 0, 0]
    known = places[places >= 0]
    assert 0 < len(known) < 50
    outcomes = episodes.outcomes
    np.testing.assert_array_equal(outcomes["high"].mask, places < 0)
    np.testing.assert_array_equal(np.isnan(outcomes["height"]), places < 0)
    (evaluation,) = evaluate([still], [task], trials=50)
    assert evaluation.rates["high"].value == pytest.approx(np.mean(known > 0.5))
    assert evaluation.means["height"].value == pytest.approx(np.mean(known))
    (same,) = compare(still, still, [task], trials=50)
    assert same.rates["high"].value == same.means["height"].value == 0.0
    (over,) = evaluate_across([still], [task, telling(tell, "height", name="b")], trials=50)
    assert over.means["height"].value == pytest.approx(0.5, abs=0.1)


def test_where_all_that_is_known_agrees_nothing_is_certain():
    (evaluation,) = evaluate(
        [still], [telling(lambda e: {"fine": True} if e.place > 0 else {})], trials=9
    )
    assert evaluation.rates["fine"].value == 1.0
    assert 0.3 < evaluation.rates["fine"].low < 1.0


def test_a_name_that_never_occurs_is_said():
    task = telling(lambda env: {"distance": 1.0, "fine": True}, "distanse", "distance")
    words = (
        "no episode of task 'telling' reported distanse in its last info.*reported: fine, distance"
    )
    with pytest.warns(UserWarning, match=words):
        (evaluation,) = evaluate([still], [task], trials=3)
    assert np.isnan(evaluation.means["distanse"].value)
    assert evaluation.means["distance"].value == 1.0


@pytest.mark.parametrize("value", [np.zeros(2), "near", {"x": 1}])
def test_a_listed_outcome_that_is_no_number_is_named(value):
    with pytest.raises(TaskError, match=r"lists the outcome 'distance', but info\['distance'\] is"):
        run_episodes(still, telling(lambda env: {"distance": value}, "distance"), 1)


def test_wrong_lists_are_refused():
    make = cart(1.0).task("cart").make
    with pytest.raises(InputError, match="outcomes is 'distance'; give names in a list"):
        Task("a", make, outcomes="distance")
    with pytest.raises(InputError, match=r"outcomes is \[1\]; give names in a list"):
        Task("a", make, outcomes=[1])
    compiled = cart(1.0).task("cart")
    with pytest.raises(InputError, match="compiled dynamics have no info"):
        Task("a", make, dynamics=compiled.dynamics, outcomes=["distance"])


def test_a_file_lists_outcomes():
    data = {"task": [{"id": "Pendulum-v1", "outcomes": ["effort"]}]}
    (task,) = tasks_of_file(data, "tasks.toml")
    assert task.listed_outcomes == ("effort",)
    data["task"][0]["outcomes"] = "effort"
    with pytest.raises(InputError, match="outcomes is 'effort'; give a list"):
        tasks_of_file(data, "tasks.toml")


def test_reachers_tell_the_parts_of_their_reward():
    pytest.importorskip("mujoco", reason="a MuJoCo environment is made")
    data = {"task": [{"id": "Reacher-v5", "outcomes": ["reward_dist"]}]}
    (evaluation,) = evaluate([lambda _: np.zeros(2)], tasks_of_file(data, "tasks.toml"), trials=2)
    assert evaluation.means["reward_dist"].value < 0.0


class Counting(gymnasium.Env):
    """Tells the number of its step, up to ``length``; ``late`` is told at the last step alone."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1), {"count": 100}

    def step(self, action):
        self.count += 1
        ended = self.count == self.length
        info = {"count": np.array([self.count]), "often": 7.0, "odd": self.count % 2 == 1}
        if self.count == 2:
            del info["often"]
        return np.zeros(1), 0.0, ended, False, info | ({"late": 5} if ended else {})


@pytest.mark.parametrize("length", [3, 70])  # of one segment and of several
def test_a_number_of_every_step_is_averaged_over_the_episode(length):
    names = ["count", "last count", "late", "often", "odd"]
    task = Task("counting", lambda render_mode=None: Counting(length), outcomes=names, horizon=80)
    outcomes = run_episodes(still, task, 2).outcomes
    assert outcomes["count"].tolist() == [(length + 1) / 2] * 2
    assert outcomes["last count"].tolist() == [length] * 2
    assert outcomes["late"].tolist() == [5.0] * 2
    assert outcomes["often"].tolist() == [7.0] * 2  # missing once: that of the last step
    assert outcomes["odd"].tolist() == [length % 2 == 1] * 2
    (evaluation,) = evaluate([still], [task], trials=2)
    assert evaluation.means["count"].value == (length + 1) / 2
