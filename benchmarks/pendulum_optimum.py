"""What the best policy gets on pendulums: dynamic programming over angle, speed and time.

``python -m benchmarks.models optimum`` holds it against what was learned, on the same machines
from the same starts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import compiled
from crosslearning.learner.evaluation import evaluate
from crosslearning.tasks import Task, task_set
from crosslearning.tasks.pendulum import MAX_SPEED, MAX_TORQUE, Pendulum

Floats = NDArray[np.float64]

#: Angles, speeds and torques of the grid; torques that are tried when the result is played.
GRID, TORQUES, PLAYED = (200, 161), 9, 41

_move = Pendulum.physics.step


@compiled
def _between(values: Floats, angle: float, speed: float) -> float:
    """Return the value at a state, linear between the points of the grid."""
    n, m = values.shape
    a = (angle + math.pi) % (2.0 * math.pi) / (2.0 * math.pi) * n
    b = (speed + MAX_SPEED) / (2.0 * MAX_SPEED) * (m - 1)
    i, j = int(a), min(int(b), m - 2)
    x, y = a - i, b - j
    i, k = i % n, (i + 1) % n
    low = (1.0 - y) * values[i, j] + y * values[i, j + 1]
    high = (1.0 - y) * values[k, j] + y * values[k, j + 1]
    return float((1.0 - x) * low + x * high)


@compiled
def _best(parameters: Floats, after: Floats, state: Floats, torques: int) -> tuple[float, float]:
    """Return the torque that pays most with what comes after it, and what it pays."""
    best, chosen = -math.inf, 0.0
    new, action = np.empty(2), np.empty(1)
    for k in range(torques):
        new[:] = state
        action[0] = MAX_TORQUE * (2.0 * k / (torques - 1) - 1.0)
        value = _move(parameters, new, action)
        value += _between(after, new[0], new[1])
        if value > best:
            best, chosen = value, action[0]
    return chosen, best


@compiled
def _values(parameters: Floats, values: Floats) -> None:
    """Fill what is left to be had at every time, shape (H + 1, angles, speeds), from the end."""
    horizon, n, m = values.shape
    values[horizon - 1] = 0.0
    state = np.empty(2)
    for t in range(horizon - 2, -1, -1):
        for i in range(n):
            for j in range(m):
                state[0] = 2.0 * math.pi * i / n - math.pi
                state[1] = MAX_SPEED * (2.0 * j / (m - 1) - 1.0)
                values[t, i, j] = _best(parameters, values[t + 1], state, TORQUES)[1]


@compiled
def _played(parameters: Floats, values: Floats, states: Floats) -> Floats:
    """Return what is got from every state, shape (n, 2), by the torques that the values choose."""
    got, action = np.zeros(len(states)), np.empty(1)
    for n in range(len(states)):
        for t in range(len(values) - 1):
            action[0] = _best(parameters, values[t + 1], states[n], PLAYED)[0]
            got[n] += _move(parameters, states[n], action)
    return got


def starts_of(task: Task, trials: int) -> Floats:
    """Return angle and speed of the starts that ``evaluate`` takes, shape (trials, 2)."""
    seen = []

    def look(observation: Floats) -> Floats:
        seen.append(np.array(observation))
        return np.zeros(1)

    evaluate([look], [task], trials=trials, horizon=1)
    rows = np.array(seen)
    return np.stack([np.arctan2(rows[:, 1], rows[:, 0]), rows[:, 2]], axis=1)


def optimum(task: Task, trials: int) -> float:
    """Return the mean return of the best policy from the starts of an evaluation.

    The torques that the grid chooses are played, so that this can be had; what the grid rounds off
    makes it a little less than the best there is.
    """
    parameters = np.array([task.context[name] for name in ("g", "m", "l")])
    values = np.empty((task.horizon + 1, *GRID))
    _values(parameters, values)
    return float(np.mean(_played(parameters, values, starts_of(task, trials))))


def measure(seed: int, trials: int) -> dict[str, Any]:
    """Return the optima of the eight pendulums that a seed draws, as plain data."""
    return {"totals": [optimum(task, trials) for task in task_set("pendulums:8", seed=seed)]}
