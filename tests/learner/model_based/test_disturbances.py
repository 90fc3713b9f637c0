"""Imagined rollouts around a controller meet the disturbances of the real episodes."""

import numpy as np
import pytest

from crosslearning import PID, CrossLearner, ModelBased, StateFeedback
from crosslearning.learner.model_based.disturbances import Disturbances
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.rkhs import Family

STEPS = 24
#: A closed loop with a memory, and known machines, with an angle and without.
CASES = {
    "patients:2": PID([[-15.0, -60.0]], [[-0.001, 0.0]], setpoint=[5.25, 0.0], measured=[0, 1]),
    "pendulums:2": StateFeedback([[0.0, 1.0, 0.2]]),
    "hovering-masses:2": StateFeedback([[4.0, 3.9]], bias=[9.81]),
}


def learned(tasks, controller, **more):
    settings = ModelBased(epsilon=0.3, round_steps=STEPS, updates_per_round=2, **more)
    return CrossLearner(tasks, settings, around=controller).learn(4, progress=False)


def test_other_policies_meet_the_same_weather():
    pi = PID(np.eye(2), 1e-4 * np.eye(2), setpoint=(21.0, 19.0), measured=[0, 1], bias=[1.0, 1.0])
    learner = learned("two-rooms:2", pi)
    method, kernel = learner.method, learner.kernel
    assert method.exogenous == [2, 3]
    knots = method.data[0].states[::5]
    weights = np.random.default_rng(0).normal(size=(len(knots), 1, 2))
    start = method.data[0].states[:1]
    zero, noise = np.zeros(1, dtype=np.int64), np.zeros((1, STEPS, 2))
    met = method.disturbances.along(zero, zero, STEPS)
    plain, other = (
        imagine(Family(kernel, knots, w).expansion, method.world, start, zero, zero, noise, met)
        for w in (0.0 * weights, weights)
    )
    assert np.max(np.abs(other.states[..., :2] - plain.states[..., :2])) > 0.05
    np.testing.assert_allclose(other.states[..., 2:4], plain.states[..., 2:4], atol=1e-9)
    np.testing.assert_allclose(
        plain.states[0, :STEPS, 2:4], method.data[0].states[:STEPS, 2:4], atol=1e-9
    )


@pytest.mark.parametrize("tasks", CASES)
def test_every_sampled_model_repeats_the_real_episodes(tasks):
    method = learned(tasks, CASES[tasks]).method
    world, met, place = method.world, method.disturbances, 0
    still = Family.zeros(method.kernel, len(method.data), method.outputs).expansion
    for i, steps in enumerate(method.data):
        firsts = np.flatnonzero(steps.first)
        for begin, end in zip(firsts, [*firsts[1:], len(steps.first)], strict=True):
            for s in range(method.settings.samples):
                length = end - begin
                along = met.along(np.array([s]), np.array([place + begin]), length)
                path = imagine(
                    still,
                    world,
                    steps.states[begin : begin + 1],
                    np.array([i]),
                    np.array([i + len(method.data) * s]),
                    steps.actions[None, begin:end],
                    along,
                )
                np.testing.assert_allclose(path.states[0, 1:], steps.after[begin:end], atol=1e-8)
                np.testing.assert_allclose(path.rewards[0], steps.rewards[begin:end], atol=1e-8)
        place += len(steps.first)


def test_nothing_disturbs_a_rollout_after_the_end_of_its_episode():
    method = learned("patients:2", CASES["patients:2"]).method
    n, met = len(method.data[0].rewards), method.disturbances
    end = int(np.flatnonzero(np.append(method.data[1].first, 1.0))[1])
    along = met.along(np.array([1]), np.array([n + end - 2]), 5)
    np.testing.assert_array_equal(along[0, :2], met.values[1, n + end - 2 : n + end])
    assert np.all(np.any(along[0, :2] != 0.0, axis=1))
    assert not np.any(along[0, 2:])


def test_nothing_disturbs_related_tasks_whose_models_are_not_sampled():
    method = learned("patients:2", CASES["patients:2"]).method
    own = method.data
    met = Disturbances(method.world, [*own, own[0]], 2, method.kernel)
    n = sum(len(steps.rewards) for steps in own)
    np.testing.assert_array_equal(met.values[:, :n], method.disturbances.values)
    assert not np.any(met.values[:, n:])


def test_nothing_is_replayed_without_a_controller():
    settings = ModelBased(epsilon=0.3, round_steps=STEPS, updates_per_round=2)
    learner = CrossLearner("pendulums:2", settings).learn(2, progress=False)
    assert learner.method.disturbances is None
