"""What the tests of the learner share: recorders, and small environments of its user's."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np

from crosslearning import CrossLearner
from crosslearning.rkhs import Family, Laplacian
from crosslearning.tasks import Task

#: So rough that no knot is nearly a combination of others: nothing is ever removed by force.
ROUGH = Laplacian(std=[0.4, 0.4])
#: Settings with which pruning removes nothing.
UNPRUNED = {"budget": 0.0, "max_knots": 10_000}


def recorded_gradients(learner: CrossLearner) -> list:
    """Return a list to which every later iteration appends its gradients."""
    records = []
    estimator = learner.method.estimator

    def estimate(samples, variance, discount):
        records.append(estimator.estimate(samples, variance, discount))
        return records[-1]

    learner.method.estimator = dataclasses.replace(estimator, estimate=estimate)
    return records


def recorded_reports(learner: CrossLearner, iterations: int) -> list:
    """Learn, and return the report of every iteration."""
    reports = []
    learner.learn(iterations, reports.append)
    return reports


def assert_same_bits(one: Family, other: Family) -> None:
    np.testing.assert_array_equal(one.knots, other.knots)
    np.testing.assert_array_equal(one.weights, other.weights)


class Drift(gymnasium.Env):
    """A point in the plane that an action pushes; float32, as most environments are.

    Parameters
    ----------
    fault : str
        What becomes NaN: "reward", "observation" or nothing.
    first, last : int
        The steps, from 1, at which it does.
    time_limit : int
        After so many steps every step says ``truncated``, and goes on working.
    """

    def __init__(self, fault="", first=4, last=10**9, time_limit=10**9, size=2, bound=1.0):
        self.observation_space = gymnasium.spaces.Box(-10.0, 10.0, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-bound, bound, (size,), np.float32)
        self.fault, self.first, self.last, self.time_limit = fault, first, last, time_limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1.0, 1.0, self.observation_space.shape)
        self.steps = 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        assert action.dtype == np.float32
        assert np.isnan(action).any() or self.action_space.contains(action)
        self.steps += 1
        self.place = np.clip(self.place + 0.3 * action, -10.0, 10.0)
        observation, reward = self.place.astype(np.float32), -float(self.place @ self.place)
        if self.first <= self.steps <= self.last:
            reward = np.nan if self.fault == "reward" else reward
            observation = observation * np.nan if self.fault == "observation" else observation
        return observation, reward, False, self.steps >= self.time_limit, {}


def drift(name: str, **parameters) -> Task:
    return Task(name, lambda render_mode=None: Drift(**parameters), horizon=50)
