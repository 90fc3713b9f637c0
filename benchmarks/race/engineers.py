"""What an engineer would write instead of learning: controllers, from the numbers of a machine.

Each takes a machine's context, such as ``{"g": 9.8, "m": 1.0, "l": 1.0}``, and returns a function
from an observation to an action. Given the middle of the ranges it is a controller for the drawing
board's machine; given the machine's own numbers, it is the one that knows everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.signal
from numpy.typing import NDArray

from crosslearning.tasks import cart_pole, pendulum
from crosslearning.tasks.linear_quadratic import cart

Floats = NDArray[np.float64]
Context = Mapping[str, float]
Controller = Callable[[Any], Floats]

#: A pendulum, or a cart's pole, is balanced, not swung, while its cosine is above this.
PENDULUM_TOP, POLE_TOP = 0.9, 0.8


def balancing(A: Floats, B: Floats, Q: Floats, R: Floats, time_step: float) -> Floats:
    """Return the gain K of the linear-quadratic regulator u = −Kx of ẋ = Ax + Bu, sampled."""
    rest = np.eye(len(A)), np.zeros_like(B)
    Ad, Bd, *_ = scipy.signal.cont2discrete((A, B, *rest), time_step)
    P = scipy.linalg.solve_discrete_are(Ad, Bd, Q, R)
    return np.asarray(np.linalg.solve(R + Bd.T @ P @ Bd, Bd.T @ P @ Ad))


def swing_pendulum(context: Context) -> Controller:
    """Return a controller that pumps a pendulum's energy up and then balances it."""
    fall = 1.5 * context["g"] / context["l"]
    push = 3.0 / (context["m"] * context["l"] ** 2)
    A, B = np.array([[0.0, 1.0], [fall, 0.0]]), np.array([[0.0], [push]])
    gain = balancing(A, B, np.diag([1.0, 0.1]), np.array([[0.001]]), pendulum.TIME_STEP)

    def act(observation: Any) -> Floats:
        cosine, sine, speed = (float(one) for one in observation)
        if cosine > PENDULUM_TOP:
            return np.asarray(-gain @ [math.atan2(sine, cosine), speed])
        # 0 when it stands still at the top.
        energy = 0.5 * speed**2 + fall * (cosine - 1.0)
        return np.array([pendulum.MAX_TORQUE * math.copysign(1.0, -energy * speed)])

    return act


def swing_cart_pole(context: Context) -> Controller:
    """Return a controller that swings a pole up by its cart's acceleration, and balances it."""
    m, length, friction = context["pole_mass"], context["length"], context["friction"]
    mass, g = context["cart_mass"] + m, cart_pole.GRAVITY
    # x, ẋ, angle and its speed around the top: what a state and a force do to both accelerations.
    inertia = length * (2.0 / 3.0 - 0.5 * m / mass)
    bend = np.array([0.0, friction / mass, g, 0.0, -1.0 / mass]) / inertia
    drive = (np.array([0.0, -friction, 0.0, 0.0, 1.0]) - 0.5 * m * length * bend) / mass
    rows = np.array([[0, 1, 0, 0, 0], drive, [0, 0, 0, 1, 0], bend])
    Q, R = np.diag([0.05, 0.01, 0.25, 0.01]), np.array([[0.0005]])
    gain = balancing(rows[:, :4], rows[:, 4:], Q, R, cart_pole.TIME_STEP)

    def act(observation: Any) -> Floats:
        x, speed, cosine, sine, turn = (float(one) for one in observation)
        if cosine > POLE_TOP:
            return np.asarray(-gain @ [x, speed, math.atan2(sine, cosine), turn])
        energy = length * turn**2 / 3.0 + g * (cosine - 1.0)
        wanted = np.clip(2.5 * energy * turn * cosine, -9.0, 9.0) - 3.0 * x - 2.0 * speed
        angular = 1.5 * (g * sine - cosine * wanted) / length
        swing = 0.5 * m * length * (angular * cosine - turn**2 * sine)
        return np.array([mass * wanted + swing + friction * speed])

    return act


def hold_cart(context: Context) -> Controller:
    """Return the linear-quadratic regulator of a cart on a spring; with its own mass, the best."""
    gain = cart(context["mass"]).best_gain(0.9999)
    return lambda observation: np.asarray(gain @ observation)


def drive_robot(context: Context) -> Controller:
    """Return a controller that drives to the goal, and along an obstacle that is in the way."""

    def act(observation: Any) -> Floats:
        to_obstacle, bearing, to_goal, aim, opening = (float(one) for one in observation)
        beside = _wrapped(aim - bearing)
        margin = 0.5 * opening + 0.35
        if to_obstacle < to_goal and abs(beside) < margin:
            aim = bearing + math.copysign(margin, beside)
        aim = _wrapped(aim)
        speed = min(2.0, to_goal) * max(0.0, math.cos(aim)) ** 3
        return np.array([speed, 2.0 * aim])

    return act


def reach_place(context: Context) -> Controller:
    """Return a controller that pulls an arm's tip to its place, as springs and dampers would."""

    def act(observation: Any) -> Floats:
        first, second = (math.atan2(observation[2 + k], observation[k]) for k in (0, 1))
        both = first + second
        jacobian = 0.1 * np.array([[-math.sin(first), 0.0], [math.cos(first), 0.0]])
        jacobian += 0.11 * np.array([[-math.sin(both)] * 2, [math.cos(both)] * 2])
        pull = jacobian.T @ np.asarray(observation[8:10])
        return np.asarray(-40.0 * pull - 0.1 * np.asarray(observation[6:8]))

    return act


def land(context: Context) -> Controller:
    """Return the controller that comes with Gymnasium's lander."""
    from gymnasium.envs.box2d.lunar_lander import heuristic

    asked = SimpleNamespace(unwrapped=SimpleNamespace(continuous=True))
    return lambda observation: np.asarray(heuristic(asked, observation))


def _wrapped(angle: float) -> float:
    return (angle + math.pi) % (2.0 * math.pi) - math.pi
