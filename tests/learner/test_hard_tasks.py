"""Warnings of tasks that a method cannot learn as they are."""

import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from crosslearning import CrossLearner, ModelBased, Task, TrustRegion


class Wide(gymnasium.Env):
    """Shows ``size`` numbers; terminates after ``limit`` steps, if there is a limit."""

    action_space = Box(-1.0, 1.0, (1,))

    def __init__(self, size=2, limit=0, render_mode=None):
        self.observation_space = Box(-9.0, 9.0, (size,))
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1.0, 1.0, self.observation_space.shape), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.place, self.steps = 0.9 * self.place + 0.1 * action, self.steps + 1
        reward = -float(self.place @ self.place)
        return self.place.astype(np.float32), reward, self.steps == self.limit, False, {}


def begun(settings, **changes):
    """Return the steps of a learner that has explored, and what was warned of."""
    task = Task("wide", partial(Wide, **changes), horizon=20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CrossLearner([task], settings).learn(steps=120)
    return " ".join(str(one.message) for one in caught)


def test_models_warn_of_more_inputs_than_they_learn():
    few = ModelBased(updates_per_round=1, max_knots=10)
    assert "dynamics of 23 inputs, 22 observations and 1 actions" in begun(few, size=22)
    assert begun(few, size=3) == ""
    assert begun(TrustRegion(max_knots=10), size=22) == ""


@pytest.mark.parametrize("settings", [TrustRegion(max_knots=10)])
def test_terminations_at_one_step_are_told_as_a_time_limit(settings):
    said = begun(settings, limit=6)
    assert "terminated at step 6" in said
    assert "horizon=5" in said
    assert begun(settings, limit=1) == begun(settings) == ""
