"""Models around a controller learn the machine, not the closed loop."""

import dataclasses

import numpy as np
import pytest

from crosslearning import PID, Constant, CrossLearner, ModelBased, StateFeedback, task_set
from crosslearning.learner.model_based.controllers import Controllers
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.rkhs import Family, Gaussian
from crosslearning.rollouts import ActionScale
from crosslearning.tasks.controllers import is_memoryless
from crosslearning.tasks.pendulum import SwingUp

PD = StateFeedback([[4.0, 3.9]], bias=[9.81])


class Remembering:
    """A function with a memory that nobody sees."""

    def reset(self):
        pass

    def __call__(self, observation):
        return [0.0]


@pytest.mark.parametrize(
    ("controller", "known"),
    [
        (PD, True),
        (Constant([1.0]), True),
        (SwingUp(), True),
        (lambda seen: [0.0], True),
        (PID(1.0, 0.1), False),
        (Remembering(), False),
        (None, False),
    ],
)
def test_only_what_depends_on_the_observation_alone_is_known(controller, known):
    assert is_memoryless(controller) is known


def around(controller, tasks="hovering-masses:2"):
    return [task.around(controller) for task in task_set(tasks)]


def test_a_limited_rate_is_a_memory():
    task = dataclasses.replace(task_set("hovering-masses:1")[0], rates={"thrust": 6.0})
    assert not Controllers([task.around(PD)], ActionScale.of_box([-10.0], [10.0])).used


def learned(tasks, **settings):
    method = ModelBased(epsilon=0.3, round_steps=20, updates_per_round=2, **settings)
    return CrossLearner(tasks, method).learn(steps=20 * len(tasks), progress=False)


def test_models_take_the_actions_of_the_machines():
    method = learned(around(PD)).method
    for i, steps in enumerate(method.machine_steps):
        given = method.data[i]
        thrust = 9.81 - given.states @ [4.0, 3.9] + 10.0 * given.actions[:, 0]
        np.testing.assert_allclose(10.0 + 10.0 * steps.actions[:, 0], np.clip(thrust, 0.0, 20.0))


def test_machines_take_actions_within_their_bounds():
    controllers = learned(around(PD)).method.controllers
    # It asks for a thrust of 29.81 N, 9.81 N and −10.19 N where 0 to 20 N is possible.
    states = np.array([[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]])
    for action, thrust in ((0.0, [20.0, 9.81, 0.0]), (1.5, [20.0, 20.0, 15.0])):
        taken = controllers.machine_actions(0, states, np.full((3, 1), action))
        np.testing.assert_allclose(10.0 + 10.0 * taken[:, 0], thrust)


def test_the_data_of_other_machines_have_their_machines_actions_too():
    family = learned(around(PD)).method
    known, unknown = learned(around(PD, "hovering-masses:1")), learned(around(Remembering()))
    known.method.use_data_of(family)
    unknown.method.use_data_of(family)
    for i in range(2):
        machine, asked_for = family.machine_steps[i].actions, family.data[i].actions
        assert np.max(np.abs(machine - asked_for)) > 0.01
        np.testing.assert_array_equal(known.method.related[i].actions, machine)
        np.testing.assert_array_equal(unknown.method.related[i].actions, asked_for)


def asked(method, states):
    """Return the controllers' actions as imagined steps add them: those of a still policy."""
    still = Family(Gaussian(std=np.ones(states.shape[1])), states[:1], np.zeros((1, 1, 1)))
    # In a world whose first observation becomes the action, the action is what is added to it.
    world = method.world
    outputs = world.functions
    affine, rows = np.zeros_like(outputs.affine), np.zeros_like(outputs.rows)
    affine[:, 0, -1] = 1.0
    blank = world._replace(
        functions=outputs._replace(affine=affine, rows=rows),
        offsets=np.zeros_like(world.offsets),
        limits=1e6 * np.sign([[-1.0], [1.0]]) * np.ones_like(world.limits),
        is_angle=np.zeros_like(world.is_angle),
    )
    zero = np.zeros(len(states), dtype=np.int64)
    after = imagine(still.expansion, blank, states, zero, zero, np.zeros((len(states), 1, 1)))
    return after.states[:, 1, 0] - states[:, 0]


def test_an_affine_controller_is_used_as_it_is():
    method = learned(around(PD)).method
    states = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 2))
    wanted = (9.81 - states @ [4.0, 3.9] - 10.0) / 10.0
    np.testing.assert_allclose(asked(method, states), wanted, atol=1e-9)


def test_any_other_controller_is_fitted_near_the_data():
    method = learned(around(SwingUp(), "pendulums:2")).method
    states = method.data[0].states
    wanted = np.clip(method.controllers.actions(0, states), -1.0, 1.0)[:, 0]
    assert np.median(np.abs(asked(method, states) - wanted)) < 0.05


def test_a_saved_learner_goes_on_alike(tmp_path):
    tasks = around(PD)
    settings = ModelBased(epsilon=0.3, round_steps=20, updates_per_round=4)
    whole = CrossLearner(tasks, settings).learn(4, progress=False)
    half = CrossLearner(tasks, settings).learn(2, progress=False)
    half.save(tmp_path / "half.safetensors")
    loaded = CrossLearner.load(tmp_path / "half.safetensors", tasks=tasks).learn(2, progress=False)
    np.testing.assert_array_equal(loaded.family.weights, whole.family.weights)
