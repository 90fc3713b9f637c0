"""Compiled dynamics called from Python, one step at a time.

A compiled rollout calls a task's dynamics through function pointers. A Gymnasium environment
that goes through this class runs the very same machine code, so that both give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.typed import List

from crosslearning.compiled import FunctionPointer, compiled
from crosslearning.tasks.task import Dynamics, Floats


@compiled
def _hold(pointer: Any) -> Any:
    # Numba asks Python for the type of a bare pointer at every call, which takes longer than
    # the call itself; a typed list that holds the pointer carries its type along.
    held = List()
    held.append(pointer)
    return held


@compiled
def _reset(reset: Any, parameters: Any, uniforms: Any, state: Any) -> None:
    reset[0](parameters, uniforms, state)


@compiled
def _look(observe: Any, ended: Any, parameters: Any, state: Any, observation: Any) -> bool:
    observe[0](parameters, state, observation)
    return bool(ended[0](parameters, state))


@compiled
def _step(
    step: Any,
    observe: Any,
    ended: Any,
    parameters: Any,
    state: Any,
    action: Any,
    observation: Any,
) -> tuple[float, bool]:
    reward = step[0](parameters, state, action)
    observe[0](parameters, state, observation)
    return reward, ended[0](parameters, state)


class Simulator:
    """A state vector and the compiled dynamics that move it.

    Inputs are not checked: they must be contiguous float64 vectors of the right lengths.

    Parameters
    ----------
    dynamics : Dynamics
    state_size, observation_size : int
        Lengths of the state vector and of an observation.

    Attributes
    ----------
    state : ndarray, shape (state_size,)
        The state, which may be overwritten to go on from another one.
    """

    def __init__(self, dynamics: Dynamics, state_size: int, observation_size: int) -> None:
        self.state: Floats = np.zeros(state_size)
        self._parameters = dynamics.parameters
        self._observation_size = observation_size
        # The list holds a bare address: the pointers must live as long as it does.
        self._pointers: tuple[FunctionPointer, ...] = dynamics[1:]
        self._reset, self._observe, self._step, self._ended = map(_hold, self._pointers)

    def reset(self, uniforms: Floats) -> None:
        """Start an episode from uniform numbers in [0, 1)."""
        _reset(self._reset, self._parameters, uniforms, self.state)

    def look(self) -> tuple[Floats, bool]:
        """Return the observation of the present state, and whether it is the end."""
        observation = np.empty(self._observation_size)
        over = _look(self._observe, self._ended, self._parameters, self.state, observation)
        return observation, over

    def step(self, action: Floats) -> tuple[Floats, float, bool]:
        """Move one step on; return the observation, the reward and whether it is the end."""
        observation = np.empty(self._observation_size)
        reward, over = _step(
            self._step,
            self._observe,
            self._ended,
            self._parameters,
            self.state,
            action,
            observation,
        )
        return observation, reward, over
