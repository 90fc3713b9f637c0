"""An environment of your own, twice: in plain Gymnasium, and as compiled physics.

A boat is to hold its place in a current; the three boats differ in their mass. Run it with
``python examples/own_environment.py [iterations]``. Both are the same task, with starts of their
own; the compiled one learns about ten times faster.
"""

from __future__ import annotations

import sys
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from crosslearning import CrossLearner, Task
from crosslearning.learner.evaluation import evaluate
from crosslearning.tasks import CompiledEnvironment, Parameters, Physics, check_task, clipped

MASSES = (0.7, 1.0, 1.4)
FAR = 20.0


# In plain Gymnasium -------------------------------------------------------------------------


class Boat(gymnasium.Env):
    """Where it is and how fast; an action is the thrust, in [−1, 1]."""

    observation_space = Box(-FAR, FAR, (2,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, mass: float) -> None:
        self.mass = mass

    def reset(self, *, seed=None, options=None):
        """Begin somewhere near."""
        super().reset(seed=seed)  # all that is drawn comes from self.np_random
        self.state = self.np_random.uniform([-1.0, -0.5], [1.0, 0.5])
        return self.state.copy(), {}

    def step(self, action):
        """Thrust against the current; far away and much thrust cost."""
        place, speed = self.state
        speed += 0.2 * (action[0] + 0.3 - 0.5 * speed) / self.mass
        place += 0.2 * speed
        self.state = np.clip([place, speed], -FAR, FAR)
        return self.state.copy(), -float(place * place + 0.1 * action[0] ** 2), False, False, {}


def plain_boats() -> list[Task]:
    def maker(mass):
        return lambda render_mode=None: Boat(mass)

    return [Task(f"m={mass}", maker(mass), horizon=50) for mass in MASSES]


# Compiled: the same physics as four small functions over flat vectors ------------------------


class Hull(Parameters):
    """What differs from boat to boat, with its default."""

    MASS = 1.0


def start(parameters, uniforms, state):
    state[0] = -1.0 + 2.0 * uniforms[0]
    state[1] = -0.5 + uniforms[1]


def observe(parameters, state, observation):
    observation[0] = state[0]
    observation[1] = state[1]


def move(parameters, state, action):
    thrust = clipped(action[0], -1.0, 1.0)
    state[1] += 0.2 * (thrust + 0.3 - 0.5 * state[1]) / parameters[Hull.MASS]
    state[0] += 0.2 * state[1]
    reward = -(state[0] * state[0] + 0.1 * thrust * thrust)
    state[0] = clipped(state[0], -FAR, FAR)
    state[1] = clipped(state[1], -FAR, FAR)
    return reward


class CompiledBoat(CompiledEnvironment):
    """The boat again, for Gymnasium and for compiled rollouts."""

    physics = Physics(start, observe, move, state_size=2, reset_size=2, parameters=Hull)
    observation_space = Box(-FAR, FAR, (2,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float64)


def compiled_boats() -> list[Task]:
    return [CompiledBoat(mass=mass).task(f"m={mass}") for mass in MASSES]


def main(iterations: int = 40) -> None:
    """Check both, learn both, and say what they cost."""
    for words, tasks in (("plain", plain_boats()), ("compiled", compiled_boats())):
        for task in tasks:
            check_task(task)  # says in words what is wrong, if something is
        learner = CrossLearner(tasks, epsilon=1.0)
        learner.learn(1)  # compiles, if it was not done before
        began, steps = time.perf_counter(), learner.steps
        learner.learn(iterations - 1)
        cost = 1e6 * (time.perf_counter() - began) / (learner.steps - steps)
        found = evaluate([learner.central], tasks, trials=100)
        returns = ", ".join(f"{one.task} {one.discounted_return.value:.2f}" for one in found)
        print(f"{words}: {cost:.1f} µs a step; returns of the central policy: {returns}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
