"""Double pendulums to swing up: with a torque at both joints, or as acrobots with one at the elbow.

The equations are those of Spong (1995), "The swing up control problem for the Acrobot", IEEE
Control Systems Magazine 15(1), 49-55, for two uniform rods. Angles are measured from the upright
position; the second one is relative to the first link.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crosslearning._base.compiled import compiled
from crosslearning.tasks.controllers import StateFeedback
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.machines.parts import (
    GRAVITY,
    STAGES,
    Context,
    advance,
    box,
    lqr,
    metadata,
)
from crosslearning.tasks.task import Floats

ARM_RANGES = {
    "mass_1": (0.45, 0.55),
    "mass_2": (0.45, 0.55),
    "length_1": (0.45, 0.55),
    "length_2": (0.45, 0.55),
}
#: Near the upright position an LQR tolerates little.
STANDING_RANGES = dict.fromkeys(ARM_RANGES, (0.4875, 0.5125))
#: The torque of a joint [N m], the largest speed of one [rad/s], and [s].
MAX_ARM_TORQUE, MAX_ARM_SPEED, ARM_STEP, ARM_HORIZON = 3.0, 25.0, 0.05, 100
#: A link counts as upright while the cosine of its angle is above this.
ARM_UPRIGHT = 0.95


class Arms(Parameters):
    """Masses [kg] and lengths [m] of the links, their inertia over m l², and friction [N m s]."""

    MASS_1 = 0.5
    MASS_2 = 0.5
    LENGTH_1 = 0.5
    LENGTH_2 = 0.5
    INERTIA = 1.0 / 12.0
    FRICTION = 0.005


@compiled
def arm_slope(parameters: Floats, state: Floats, shoulder: float, elbow: float, out: Any) -> None:
    """Fill the derivative of both angles and speeds."""
    m_1, m_2 = parameters[Arms.MASS_1], parameters[Arms.MASS_2]
    l_1, l_2 = parameters[Arms.LENGTH_1], parameters[Arms.LENGTH_2]
    turn, bend = state[2], state[3]
    # Moments about the joints: of the links, and of the second one where the first one ends.
    first = m_1 * l_1**2 * (0.25 + parameters[Arms.INERTIA]) + m_2 * l_1**2
    second = m_2 * l_2**2 * (0.25 + parameters[Arms.INERTIA])
    lever = 0.5 * m_2 * l_1 * l_2
    cosine, sine = math.cos(state[1]), math.sin(state[1])
    d_11, d_12 = first + second + 2.0 * lever * cosine, second + lever * cosine
    outer = 0.5 * m_2 * GRAVITY * l_2 * math.sin(state[0] + state[1])
    inner = (0.5 * m_1 + m_2) * GRAVITY * l_1 * math.sin(state[0])
    pull_1 = shoulder - parameters[Arms.FRICTION] * turn + inner + outer
    pull_1 += lever * sine * bend * (2.0 * turn + bend)
    pull_2 = elbow - parameters[Arms.FRICTION] * bend + outer - lever * sine * turn**2
    rest = d_11 * second - d_12 * d_12
    out[0], out[1] = turn, bend
    out[2] = (second * pull_1 - d_12 * pull_2) / rest
    out[3] = (d_11 * pull_2 - d_12 * pull_1) / rest


@compiled
def _swing(parameters: Floats, state: Floats, shoulder: float, elbow: float) -> float:
    work = np.zeros((2, 4))
    for _ in range(5):
        for stage in range(STAGES):
            arm_slope(parameters, state, shoulder, elbow, work[0])
            advance(stage, ARM_STEP / 5, work[0], work[1], state)
        for i in range(2, 4):
            state[i] = clipped(state[i], -MAX_ARM_SPEED, MAX_ARM_SPEED)
    l_1, l_2 = parameters[Arms.LENGTH_1], parameters[Arms.LENGTH_2]
    cosines = math.cos(state[0]), math.cos(state[0] + state[1])
    up = cosines[0] > ARM_UPRIGHT and cosines[1] > ARM_UPRIGHT
    state[4] = state[4] + 1.0 if up else 0.0
    cost = 0.5 - 0.5 * (l_1 * cosines[0] + l_2 * cosines[1]) / (l_1 + l_2)
    cost += 0.001 * (state[2] ** 2 + (state[2] + state[3]) ** 2)
    return float(-(cost + 0.002 * (shoulder**2 + elbow**2)))


@compiled
def _hang(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    for i in range(4):
        state[i] = 0.1 * (2.0 * uniforms[i] - 1.0)
    state[0] += math.pi
    state[4] = 0.0  # steps since both links became upright


@compiled
def _see_links(parameters: Floats, state: Floats, observation: Floats) -> None:
    outer = state[0] + state[1]
    observation[0], observation[1] = math.cos(state[0]), math.sin(state[0])
    observation[2], observation[3] = math.cos(outer), math.sin(outer)
    observation[4], observation[5] = state[2], state[2] + state[3]


@compiled
def _push_both(parameters: Floats, state: Floats, action: Floats) -> float:
    shoulder = clipped(action[0], -MAX_ARM_TORQUE, MAX_ARM_TORQUE)
    return _swing(parameters, state, shoulder, clipped(action[1], -MAX_ARM_TORQUE, MAX_ARM_TORQUE))


@compiled
def _push_elbow(parameters: Floats, state: Floats, action: Floats) -> float:
    return _swing(parameters, state, 0.0, clipped(action[0], -MAX_ARM_TORQUE, MAX_ARM_TORQUE))


_NAMES = [
    "cosine of the inner angle",
    "sine of the inner angle",
    "cosine of the outer angle",
    "sine of the outer angle",
    "inner speed [rad/s]",
    "outer speed [rad/s]",
]


class DoublePendulum(CompiledEnvironment):
    """Two links that hang at first, with a torque at both joints too weak to lift them at once."""

    metadata = metadata(_NAMES, ["shoulder torque [N m]", "elbow torque [N m]"], 1.0 / ARM_STEP)
    physics = Physics(_hang, _see_links, _push_both, state_size=5, reset_size=4, parameters=Arms)
    _ends = np.array([1.0, 1.0, 1.0, 1.0, MAX_ARM_SPEED, 2.0 * MAX_ARM_SPEED])
    observation_space = box(-_ends, _ends)
    action_space = box([-MAX_ARM_TORQUE] * 2, [MAX_ARM_TORQUE] * 2)

    def outcomes(self, states: Floats) -> dict[str, Any]:
        """Return which ones stood for the last fifth of a full episode."""
        return {"upright": states[:, 4] >= 0.2 * ARM_HORIZON}


class Acrobot(DoublePendulum):
    """A double pendulum that hangs at first, with a torque at the elbow alone."""

    metadata = metadata(_NAMES, ["torque [N m]"], 1.0 / ARM_STEP)
    physics = Physics(_hang, _see_links, _push_elbow, state_size=5, reset_size=4, parameters=Arms)
    action_space = box([-MAX_ARM_TORQUE], [MAX_ARM_TORQUE])


@compiled
def _stand(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    for i in range(4):
        state[i] = 0.02 * (2.0 * uniforms[i] - 1.0)
    state[4] = 0.0


class StandingAcrobot(Acrobot):
    """An acrobot whose episodes begin near the upright position."""

    physics = Physics(_stand, _see_links, _push_elbow, state_size=5, reset_size=4, parameters=Arms)


def acrobot_lqr(context: Context) -> StateFeedback:
    """Return an LQR about the upright position, whose angles are read as their sines."""
    (gain,) = lqr(StandingAcrobot(**context), np.zeros(5), 0.0, ([1.0, 1.0, 1.0, 1.0], 1.0))
    # Angle and speed of the outer link are those of both joints together.
    inner, outer, turn, bend = gain
    return StateFeedback([[0.0, inner - outer, 0.0, outer, turn - bend, bend]])
