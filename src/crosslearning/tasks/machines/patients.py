"""Patients with type 1 diabetes: the minimal model of glucose and insulin, with meals.

The model is that of Bergman, Phillips and Cobelli (1981), "Physiologic evaluation of factors
controlling glucose tolerance in man", Journal of Clinical Investigation 68(6), 1456-1467. The
numbers and the exponential absorption of meals are of the size of those in Fisher (1991), "A
semiclosed-loop algorithm for the control of blood glucose levels in diabetics", IEEE Transactions
on Biomedical Engineering 38(1), 57-61, where the pancreas gives no insulin and a pump does. For
research on control only: it is no medical device, and a model of three states is no patient.
"""

from __future__ import annotations

import numpy as np

from crosslearning._base.compiled import compiled
from crosslearning.tasks.controllers import PID
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.machines.parts import STAGES, Context, advance, box, metadata
from crosslearning.tasks.task import Floats

PATIENT_RANGES = {
    "effectiveness": (0.015, 0.03),
    "sensitivity": (0.9, 1.7),
    "clearance": (0.08, 0.105),
    "basal_glucose": (4.5, 6.0),
}
#: Glucose to hold, and below which there is danger [mmol/L]; the pump's most [mU/min]; and [min].
GLUCOSE, LOW_GLUCOSE, MAX_INSULIN, PATIENT_STEP = 5.25, 4.0, 100.0, 10.0
#: The rate at which a meal is absorbed [1/min], and highest concentrations [mmol/L] and [mU/L].
ABSORPTION, MOST_GLUCOSE, MOST_INSULIN = 0.05, 60.0, 500.0


class Patients(Parameters):
    """Bergman's p1 and p2 [1/min], p3 [1e-5 L/(mU min²)], the insulin's clearance [1/min].

    Then basal glucose [mmol/L], basal insulin [mU/L], and the insulin's volume [L].
    """

    EFFECTIVENESS = 0.0225
    SENSITIVITY = 1.3
    CLEARANCE = 5.0 / 54.0
    BASAL_GLUCOSE = 5.25
    DECAY = 0.025
    BASAL_INSULIN = 15.0
    VOLUME = 12.0


@compiled
def held_insulin(parameters: Floats) -> float:
    """Return the rate that holds the glucose: the basal rate, where that is the basal glucose."""
    aside = parameters[Patients.BASAL_GLUCOSE] / GLUCOSE - 1.0
    action = parameters[Patients.EFFECTIVENESS] * aside
    sensitivity = 1e-5 * parameters[Patients.SENSITIVITY] / parameters[Patients.DECAY]
    insulin = parameters[Patients.BASAL_INSULIN] + action / sensitivity
    return float(parameters[Patients.CLEARANCE] * parameters[Patients.VOLUME] * insulin)


@compiled
def _plan_meals(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    state[0] = GLUCOSE + 4.0 * uniforms[0] - 1.0
    state[1] = 0.0
    state[2] = parameters[Patients.BASAL_INSULIN] * (0.8 + 0.4 * uniforms[1])
    state[3] = 0.0
    state[4] = 0.0  # the last change of the glucose
    # Minutes until each of two meals, and how fast it is absorbed at first.
    state[5], state[6] = 20.0 + 100.0 * uniforms[2], 300.0 + 120.0 * uniforms[3]
    state[7], state[8] = 0.1 + 0.2 * uniforms[4], 0.1 + 0.2 * uniforms[5]


@compiled
def _see_patient(parameters: Floats, state: Floats, observation: Floats) -> None:
    observation[0], observation[1], observation[2] = state[0], state[4], state[2]


@compiled
def _infuse(parameters: Floats, state: Floats, action: Floats) -> float:
    insulin, volume = clipped(action[0], 0.0, MAX_INSULIN), parameters[Patients.VOLUME]
    p_1, p_2 = parameters[Patients.EFFECTIVENESS], parameters[Patients.DECAY]
    p_3, basal = 1e-5 * parameters[Patients.SENSITIVITY], parameters[Patients.BASAL_INSULIN]
    clearance, before = parameters[Patients.CLEARANCE], state[0]
    danger = max(0.0, LOW_GLUCOSE - before)
    cost = 0.25 * (before - GLUCOSE) ** 2 + 4.0 * danger**2
    cost += 1e-5 * (insulin - held_insulin(parameters)) ** 2
    for i in range(5, 7):
        if 0.0 <= state[i] < PATIENT_STEP:
            state[3] += state[i + 2]
        state[i] -= PATIENT_STEP
    work = np.zeros((2, 4))
    for _ in range(4):
        for stage in range(STAGES):
            uptake = (p_1 + state[1]) * state[0]
            work[0, 0] = p_1 * parameters[Patients.BASAL_GLUCOSE] - uptake + state[3]
            work[0, 1] = p_3 * (state[2] - basal) - p_2 * state[1]
            work[0, 2] = insulin / volume - clearance * state[2]
            work[0, 3] = -ABSORPTION * state[3]
            advance(stage, PATIENT_STEP / 4, work[0], work[1], state)
        state[0] = clipped(state[0], 0.0, MOST_GLUCOSE)
    state[4] = state[0] - before
    return float(-cost)


class Patient(CompiledEnvironment):
    """A patient whose insulin pump sees the glucose, its last change, and the insulin given."""

    metadata = metadata(
        ["glucose [mmol/L]", "change of glucose [mmol/L]", "insulin [mU/L]"],
        ["insulin rate [mU/min]"],
        1.0 / (60.0 * PATIENT_STEP),
    )
    physics = Physics(
        _plan_meals, _see_patient, _infuse, state_size=9, reset_size=6, parameters=Patients
    )
    observation_space = box([0.0, -MOST_GLUCOSE, 0.0], [MOST_GLUCOSE, MOST_GLUCOSE, MOST_INSULIN])
    action_space = box([0.0], [MAX_INSULIN])


def glucose_pid(context: Context) -> PID:
    """Return a PID about the rate that holds the glucose, with its last change as the derivative.

    Its times are about those of Steil et al. (2006), "Feasibility of automating insulin delivery
    for the treatment of type 1 diabetes", Diabetes 55(12), 3344-3350; insulin that acts at once, as
    here, bears more gain.
    """
    gain = -15.0
    return PID(
        [[gain, 40.0 / PATIENT_STEP * gain]],
        [[gain / (240.0 * 60.0), 0.0]],
        setpoint=[GLUCOSE, 0.0],
        measured=[0, 1],
        bias=held_insulin(Patient(**context).parameters),
    )
