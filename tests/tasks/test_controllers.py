"""Controllers: textbook laws, their memory, and their plain data."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from crosslearning import PID, Constant, StateFeedback
from crosslearning.errors import FileFormatError, InputError
from crosslearning.tasks.controllers import (
    KernelController,
    as_controller,
    controller_from_dict,
    read_controller,
)

GAINS = {"kp": 2.0, "ki": 0.5, "kd": 0.1, "setpoint": 1.0, "bias": 0.2, "rate": 10.0}


def test_a_pid_follows_its_formula():
    pid, seen = PID(**GAINS), [0.3, 0.5, 0.9, 1.2]
    errors = 1.0 - np.array(seen)
    integrals = np.cumsum(errors) * 0.1
    slopes = np.concatenate([[0.0], np.diff(errors) / 0.1])
    expected = 0.2 + 2.0 * errors + 0.5 * integrals + 0.1 * slopes
    np.testing.assert_allclose([pid.act([x])[0] for x in seen], expected, rtol=1e-14)
    np.testing.assert_allclose(pid.memory, [integrals[-1], errors[-1]])
    pid.reset()
    np.testing.assert_array_equal(pid.memory, [0.0, 0.0])


def test_the_integral_stands_still_while_it_drives_a_clipped_action_farther():
    pid = PID(kp=1.0, ki=10.0, setpoint=5.0, low=-1.0, high=1.0)
    for _ in range(50):
        assert pid.act([0.0])[0] == 1.0
    assert pid.integral[0] == 0.0
    # An error of the other sign unwinds at once, where a plain integral would take fifty steps.
    assert pid.act([6.0])[0] == -1.0


def test_an_integral_that_leads_back_from_a_bound_goes_on():
    pid = PID(kp=-5.0, ki=1.0, setpoint=1.0, low=-1.0, high=1.0)
    assert pid.act([0.0])[0] == -1.0  # −5 + 1, clipped from below, while the integral rises
    assert pid.integral[0] == 1.0


def test_a_pid_of_several_actions_drives_each_by_its_measurements():
    kp = np.array([[1.0, 0.0], [0.5, 2.0]])
    pid = PID(kp=kp, ki=0.1 * kp, measured=[2, 0], setpoint=[1.0, -1.0])
    error = np.array([1.0 - 3.0, -1.0 - 7.0])
    np.testing.assert_allclose(pid.act([7.0, 0.0, 3.0]), kp @ error + 0.1 * kp @ error)
    assert pid.memory.shape == (2,)


def test_state_feedback_from_data_is_the_lqr_of_the_system():
    A, B = np.array([[1.0, 0.1], [0.3, 1.0]]), np.array([[0.0], [0.2]])
    draw, s, log = np.random.default_rng(0), np.zeros(2), {"observations": [np.zeros(2)]}
    pushes = draw.normal(size=(30, 1))
    for push in pushes:
        s = A @ s + B @ push + [0.0, 0.05]
        log["observations"].append(s)
    log["actions"] = pushes
    P = solve_discrete_are(A, B, np.diag([1.0, 0.1]), np.array([[0.5]]))
    gain = np.linalg.solve(0.5 + B.T @ P @ B, B.T @ P @ A)
    found = StateFeedback.from_data({"one": [log]}, [1.0, 0.1], [0.5], target=[0.0, 0.0])
    np.testing.assert_allclose(found.gain, gain, rtol=1e-8)
    np.testing.assert_allclose(found.bias, [-0.25], rtol=1e-8)  # it cancels the constant push


def test_too_few_data_for_a_linear_model_are_refused():
    log = {"observations": np.zeros((5, 2)), "actions": np.zeros((4, 1))}
    with pytest.raises(InputError, match="4 steps do not determine a linear model"):
        StateFeedback.from_data([log], [1.0, 1.0], [1.0])


@pytest.mark.parametrize(
    "controller",
    [
        Constant([0.5, -0.25]),
        StateFeedback([[1.0, 2.0]], target=[0.5, 0.0], bias=[0.1]),
        PID(**GAINS, low=-3.0, high=3.0),
        KernelController(
            {"kernel": "gaussian", "std": [1.0, 2.0]},
            [[0.0, 0.0], [1.0, 1.0]],
            [[0.5], [-0.5]],
            centre=[0.1],
            half=[2.0],
            low=[-1.0],
            high=[1.0],
        ),
    ],
    ids=lambda controller: controller.kind,
)
def test_plain_data_give_the_same_controller(controller):
    import json

    again = read_controller(json.dumps(controller.to_dict()), "a file")
    observations = np.random.default_rng(1).normal(size=(20, 2))
    one, other = as_controller(controller), as_controller(again)
    for seen in observations:
        np.testing.assert_array_equal(one.act(seen), other.act(seen))


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"controller": "magic"}', '{"kind": "policy"}'])
def test_texts_that_hold_no_controller_are_refused(text):
    with pytest.raises(InputError, match="f holds no controller"):
        read_controller(text, "f")


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(FileFormatError, match="do not fit"):
        controller_from_dict({"controller": "pid", "gain": 2.0})


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: PID(kp=[[1.0, 2.0]]), "kp is"),
        (lambda: PID(kp=np.nan), "finite"),
        (lambda: PID(kp=1.0, measured=0.5), "measured"),
        (lambda: PID(kp=1.0, rate=0.0), "rate"),
        (lambda: StateFeedback([[1.0]], target=[1.0, 2.0]), "target"),
        (lambda: as_controller(3), "the controller is 3"),
        (lambda: as_controller(PID), "the controller is the class PID"),
    ],
)
def test_wrong_parameters_are_named(make, problem):
    with pytest.raises(InputError, match=problem):
        make()


def test_every_machine_has_a_memory_of_its_own():
    pid = PID(kp=1.0, ki=1.0, setpoint=1.0)
    one, other = as_controller(pid), as_controller(pid)
    one.act([0.0])
    assert one.integral[0] == 1.0
    assert other.integral[0] == pid.integral[0] == 0.0
