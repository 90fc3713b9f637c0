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


SPEED = PID(0.1, 2.0, setpoint=300.0)


def test_around_a_pi_models_learn_the_machine():
    tasks = around(SPEED, "dc-motors:2")
    method = learned(tasks).method
    assert method.controllers.used
    low, high = tasks[0].loop.low, tasks[0].loop.high
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    for given, steps in zip(method.data, method.machine_steps, strict=True):
        # What the machine got, of a PI that runs along.
        pid = dataclasses.replace(SPEED, rate=tasks[0].rate, low=low, high=high)
        for seen, correction, action in zip(
            given.states, given.actions, steps.actions, strict=True
        ):
            np.testing.assert_allclose(seen[-1:], pid.memory, atol=1e-9)
            wanted = np.clip(pid.act(seen[:2]) + half * correction, low, high)
            np.testing.assert_allclose(middle + half * action, wanted)


def test_integrals_are_known_and_no_model_reads_them():
    tasks = around(SPEED, "dc-motors:2")
    method = learned(tasks).method
    memory = tasks[0].observation_size - 1
    assert memory not in method.frame.learned
    assert np.any(method.disturbances.values[..., 0] != 0.0)
    np.testing.assert_allclose(method.disturbances.values[..., memory], 0.0, atol=1e-12)
    steps = method.machine_steps[0]
    other = steps.states.copy()
    other[:, memory] += 1.0
    before, after = (method.dynamics.predict(0, s, steps.actions) for s in (steps.states, other))
    np.testing.assert_allclose(after, before, atol=1e-12)
    # Imagined integrals are those of a PI that sees what is imagined, at its bounds as well.
    still = Family.zeros(method.kernel, 2, 1).expansion
    start = np.array([[290.0, 0.0, 0.0], [-500.0, 0.0, 0.0]])
    zero = np.zeros(2, dtype=np.int64)
    wide = method.world._replace(limits=1e9 * np.sign(method.world.limits - 0.5))
    paths = imagine(still, wide, start, zero, zero, np.zeros((2, 12, 1))).states
    for path in paths:
        pid = dataclasses.replace(
            SPEED, rate=tasks[0].rate, low=tasks[0].loop.low, high=tasks[0].loop.high
        )
        for seen in path:
            np.testing.assert_allclose(seen[memory:], pid.memory, atol=1e-9)
            pid.act(seen[:memory])


@pytest.mark.parametrize(
    "controllers",
    [
        [PID(0.1, 2.0, kd=0.1, setpoint=300.0)] * 2,  # its first step knows no derivative
        [SPEED, PID(0.1, 2.0, setpoint=290.0)],
        [PID(0.1, 2.0, setpoint=300.0, low=0.0, high=3.0)] * 2,
    ],
)
def test_other_pids_are_part_of_what_the_models_learn(controllers):
    tasks = task_set("dc-motors:2")
    given = [task.around(one) for task, one in zip(tasks, controllers, strict=True)]
    assert not Controllers(given, ActionScale.of_box([-1.0], [1.0])).used


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
