"""Random policies, as long as every step of every task has the same reward."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from crosslearning import PID, CrossLearner, Task
from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner import trust_region
from tests.learner.examples import assert_same_bits


class Hidden(gymnasium.Env):
    """A place that actions move; every step costs 1, and it ends beyond ``goal``."""

    observation_space = gymnasium.spaces.Box(-40.0, 40.0, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, goal):
        self.goal = goal

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-0.5, 0.5, 1)
        return self.place, {}

    def step(self, action):
        self.place = self.place + action
        return self.place, -1.0, bool(self.place[0] > self.goal), False, {}


def made(goal, render_mode=None):
    return Hidden(goal)


def hidden(*goals, **settings):
    tasks = [Task(f"task {i}", partial(made, g), horizon=40) for i, g in enumerate(goals)]
    how = {"method": "trust-region", "episodes": 2, "least_steps": 1, "kernel": KERNEL}
    return CrossLearner(tasks, **{**how, **settings})


KERNEL = {"kernel": "gaussian", "std": [5.0]}
NOWHERE = 1e3


def test_a_goal_that_noise_never_reaches_is_found_and_learned():
    """Noise of half an action goes 3 in 40 steps; policies that go one way reach 12."""
    learner = hidden(12.0, 13.0, seed=1).learn(steps=12_000, progress=False)
    for i, goal in enumerate((12.0, 13.0)):
        place, steps = np.zeros(1), 0
        while place[0] <= goal and steps < 40:
            place, steps = place + learner.policy(i).predict(place)[0], steps + 1
        assert steps < 25  # 13 or 14 with full actions


@pytest.mark.parametrize("epsilon", [0.0, 1.0, np.inf])
def test_until_then_all_functions_are_one_random_function(epsilon):
    learner = hidden(NOWHERE, NOWHERE, epsilon=epsilon)
    lengths, before = [], np.zeros((1, 1))
    for _ in range(4):
        learner.learn(1, callback=lambda report: lengths.append(report.numbers["length"].max()))
        weights = learner._core.iterate.dictionary.weights
        assert np.ptp(weights, axis=1).max() < 1e-9  # the task policies, and g
        states = learner.method.batches[0][0].states
        values = learner.policy(0).mean(states)
        size = np.sqrt(np.mean(values**2)) / learner.method.noise.std[0]
        assert 0.3 < size < 30.0  # drawn from 1 to 10, over the states of both tasks
        assert abs(values - np.resize(before, values.shape)).max() > 1e-3
        before = values
    assert lengths == [16.0, 40.0, 40.0, 40.0]  # two fifths of the horizon at first


def test_the_search_ends_with_its_tries_or_with_its_steps(monkeypatch):
    with pytest.raises(InputError, match="the reward was -1 in every step of every task"):
        hidden(NOWHERE).learn(steps=400, progress=False)
    monkeypatch.setattr(trust_region, "_TRIES", 5)
    learner = hidden(NOWHERE)
    with pytest.raises(InputError, match="the reward was -1 in every step of every task"):
        learner.learn(20)
    assert learner.iteration == 4


def test_a_machine_with_a_controller_is_not_tried_out():
    learner = hidden(NOWHERE, around=PID(kp=0.1), epsilon=0.3)
    with pytest.raises(InputError, match="the reward was -1 in every step of every task"):
        learner.learn(20)
    assert learner.iteration == 2
    assert learner.method.longest == learner.settings.episode_steps


def test_a_saved_search_goes_on_as_if_nothing_had_happened(tmp_path):
    path = tmp_path / "searching.safetensors"
    whole, saved = hidden(25.0, seed=1), hidden(25.0, seed=1)
    found = []
    whole.learn(20, callback=lambda _: found.append(whole.method._varied))
    assert not found[1]  # still searching where the file is written
    assert found[-1]
    saved.learn(2).save(path)
    other = CrossLearner.load(path, whole.tasks).learn(18)
    assert other.method.longest == 40
    assert_same_bits(other.family, whole.family)
    whole.save(path)
    # An iteration that reaches no goal is not the beginning of another search.
    assert CrossLearner.load(path, whole.tasks).method._varied


@pytest.mark.parametrize(
    "wrong", [{"longest": 0}, {"longest": 1.5}, {"varied": 1}, {"varied": False, "reward": "-1"}]
)
def test_wrong_parts_of_a_file_are_refused(wrong):
    learner = hidden(NOWHERE).learn(1)
    arrays, plain = learner.method.state()
    with pytest.raises(FileFormatError, match="longest" if "longest" in wrong else "reward"):
        learner.method.restore(arrays, {**plain, **wrong})
