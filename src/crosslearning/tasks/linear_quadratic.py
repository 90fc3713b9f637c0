"""Linear systems with quadratic costs: tasks with solutions in closed form.

The system is x' = A x + B a; the reward of a step is −(xᵀQx + aᵀRa), with the state before it.
The policy observes x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from gymnasium.spaces import Box
from numpy.typing import ArrayLike

from crosslearning._base.compiled import compiled
from crosslearning.errors import InputError
from crosslearning.tasks.environment import CompiledEnvironment, Physics, clipped
from crosslearning.tasks.numbers import read_array, read_numbers, replaced
from crosslearning.tasks.task import Floats, Task

LINEAR_QUADRATIC_ID = "crosslearning/LinearQuadratic-v0"
#: Actions are clipped so far out that the closed forms, without bounds, hold; a stable system
#: stays far inside the bounds of its observations.
ACTION_BOUND, OBSERVATION_BOUND = 1e6, 1e12

Matrix = tuple[tuple[float, ...], ...]


# The compiled dynamics. Parameters, in this order: q, p, A, B, Q, R (row by row), the lower bounds
# of the initial box and its widths. The state is x.


@compiled
def start_episode(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    """Fill ``state`` with the point of the initial box given by the first q uniform numbers."""
    q, p = int(parameters[0]), int(parameters[1])
    low = 2 + 2 * q * q + q * p + p * p
    for i in range(q):
        state[i] = parameters[low + i] + uniforms[i] * parameters[low + q + i]


@compiled
def observe(parameters: Floats, state: Floats, observation: Floats) -> None:
    """Fill ``observation`` with the state."""
    for i in range(int(parameters[0])):
        observation[i] = state[i]


@compiled
def step(parameters: Floats, state: Floats, action: Floats) -> float:
    """Advance ``state`` and return the reward, which depends on the state before."""
    q, p = int(parameters[0]), int(parameters[1])
    A, B = 2, 2 + q * q
    Q, R = B + q * p, B + q * p + q * q
    x, a = state[:q].copy(), np.empty(p)
    for k in range(p):
        a[k] = clipped(action[k], -ACTION_BOUND, ACTION_BOUND)
    cost = 0.0
    for i in range(q):
        moved = 0.0
        for j in range(q):
            moved += parameters[A + i * q + j] * x[j]
            cost += x[i] * parameters[Q + i * q + j] * x[j]
        for k in range(p):
            moved += parameters[B + i * p + k] * a[k]
        state[i] = moved
    for i in range(p):
        for k in range(p):
            cost += a[i] * parameters[R + i * p + k] * a[k]
    return -cost


@dataclass(frozen=True)
class LinearQuadratic:
    """A linear system with a quadratic cost, and its closed forms.

    Parameters
    ----------
    A, B : array_like, shapes (q, q) and (q, p)
        x' = A x + B a.
    Q, R : array_like, shapes (q, q) and (p, p)
        The reward is −(xᵀQx + aᵀRa); both symmetric and positive semi-definite.
    start_low, start_high : array_like, shape (q,)
        The initial state is uniform in this box.

    Notes
    -----
    For a policy a = M x + n with noise n of covariance Σ, write F = A + BM. The discounted
    second moments Z = Σ_t γᵗ E[x xᵀ] and the costs-to-go xᵀPx solve

        Z = S₀ + γ/(1−γ) BΣBᵀ + γ F Z Fᵀ,        P = Q + MᵀRM + γ FᵀPF,

    with S₀ = E[x₀x₀ᵀ]. Both sums exist if γ ρ(F)² < 1, with ρ the spectral radius. Then

        U(M) = −tr((Q + MᵀRM) Z) − tr(RΣ)/(1−γ),   ∂U/∂M = −2 (R M + γ BᵀPF) Z.

    since U = −tr(PS) − tr(RΣ)/(1−γ) with S = S₀ + γ/(1−γ) BΣBᵀ, and a change dM gives
    dP = C + γ Fᵀ dP F with C = dMᵀ(RM + γBᵀPF) + (RM + γBᵀPF)ᵀdM, so that tr(dP S) = tr(C Z).

    Examples
    --------
    >>> from crosslearning.tasks.linear_quadratic import cart
    >>> cart(2.0).task("heavy").name
    'heavy'
    """

    A: Matrix
    B: Matrix
    Q: Matrix
    R: Matrix
    start_low: tuple[float, ...]
    start_high: tuple[float, ...]

    def __post_init__(self) -> None:
        if np.ndim(self.B) != 2 or np.size(self.B) == 0:
            raise InputError(f"B is {self.B!r}; give a matrix with a row for each coordinate of x")
        q, p = np.shape(self.B)
        for name, shape in {"A": (q, q), "Q": (q, q), "B": (q, p), "R": (p, p)}.items():
            rows = read_array(name, getattr(self, name), shape).tolist()
            object.__setattr__(self, name, tuple(map(tuple, rows)))
        for name in ("start_low", "start_high"):
            object.__setattr__(self, name, read_numbers(name, getattr(self, name), q))
        for name in ("Q", "R"):
            matrix = np.array(rows := getattr(self, name))
            if not np.array_equal(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] < -1e-12:
                raise InputError(f"{name} is {rows}; give a symmetric, positive semi-definite one")
        low, high = self.start_low, self.start_high
        if np.any(np.array(low) > high):
            raise InputError(f"start_low {low} must not be above start_high {high}")

    @property
    def state_size(self) -> int:
        """The dimension q of x."""
        return len(self.A)

    @property
    def outputs(self) -> int:
        """The dimension p of an action."""
        return len(self.R)

    @property
    def parameters(self) -> Floats:
        """The parameter vector of the compiled dynamics."""
        width = np.subtract(self.start_high, self.start_low)
        parts = (np.shape(self.B), self.A, self.B, self.Q, self.R, self.start_low, width)
        return np.concatenate([np.ravel(part) for part in parts])

    def replace(self, /, **changes: Any) -> LinearQuadratic:
        """Return a copy with some parameters changed; an unknown name is an error."""
        return replaced("linear-quadratic parameter", self, changes)

    def environment(self, render_mode: str | None = None) -> LinearQuadraticEnvironment:
        """Return a new Gymnasium environment of this task, without a time limit."""
        return LinearQuadraticEnvironment(self, render_mode=render_mode)

    def task(self, name: str) -> Task:
        """Return this task, with compiled dynamics."""
        return self.environment().task(name)

    @property
    def _matrices(self) -> tuple[Floats, Floats, Floats, Floats]:
        return np.array(self.A), np.array(self.B), np.array(self.Q), np.array(self.R)

    def _moments(
        self, M: ArrayLike, variance: ArrayLike, discount: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return M, Σ, Z and P of the class's notes."""
        A, B, Q, R = self._matrices
        gain = read_array("M", M, (self.outputs, self.state_size))
        spread = np.diag(np.broadcast_to(np.asarray(variance, dtype=np.float64), (self.outputs,)))
        F = A + B @ gain
        growth = discount * float(np.max(np.abs(np.linalg.eigvals(F)))) ** 2
        if not growth < 1.0:
            raise InputError(f"γ ρ(A + BM)² is {growth:.6g}; the return is finite only below 1")
        low, high = np.array([self.start_low, self.start_high])
        mean = 0.5 * (low + high)
        start = np.outer(mean, mean) + np.diag((high - low) ** 2 / 12.0)
        root = np.sqrt(discount) * F
        noise = discount / (1.0 - discount) * (B @ spread @ B.T)
        Z = scipy.linalg.solve_discrete_lyapunov(root, start + noise)
        P = scipy.linalg.solve_discrete_lyapunov(root.T, Q + gain.T @ R @ gain)
        return gain, np.asarray(spread), np.asarray(Z), np.asarray(P)

    def expected_return(self, M: ArrayLike, variance: ArrayLike, discount: float) -> float:
        """Return U(M) for the policy a = M x + n, with M of shape (p, q).

        ``variance`` is the diagonal of Σ, shape (p,), or one number for all. If γ ρ(A + BM)² ≥ 1,
        the expectation is not finite: an InputError.
        """
        gain, spread, Z, _ = self._moments(M, variance, discount)
        _, _, Q, R = self._matrices
        running = np.trace((Q + gain.T @ R @ gain) @ Z)
        return -float(running + np.trace(R @ spread) / (1.0 - discount))

    def gradient(self, M: ArrayLike, variance: ArrayLike, discount: float) -> Floats:
        """Return ∂U/∂M, shape (p, q), for the arguments of :meth:`expected_return`."""
        gain, _, Z, P = self._moments(M, variance, discount)
        A, B, _, R = self._matrices
        return np.asarray(-2.0 * (R @ gain + discount * B.T @ P @ (A + B @ gain)) @ Z)

    def best_gain(self, discount: float) -> Floats:
        """Return the M, shape (p, q), with the largest U; it does not depend on the noise.

        With P the solution of the Riccati equation of (√γ A, √γ B, Q, R),
        M = −γ (R + γ BᵀPB)⁻¹ BᵀPA. R must be positive definite.
        """
        A, B, Q, R = self._matrices
        root = np.sqrt(discount)
        P = scipy.linalg.solve_discrete_are(root * A, root * B, Q, R)
        return -np.linalg.solve(R + discount * B.T @ P @ B, discount * B.T @ P @ A)


def cart(
    mass: float, spring: float = 0.5, friction: float = 0.5, time_step: float = 0.5
) -> LinearQuadratic:
    """Return a mass-spring cart moved by a force: x = (position, velocity).

    It is stable, so that every small linear policy has a finite return. The initial state is
    uniform in [−1, 1]², Q is the identity and R = 0.1.
    """
    h = time_step
    return LinearQuadratic(
        A=((1.0, h), (-h * spring / mass, 1.0 - h * friction / mass)),
        B=((0.0,), (h / mass,)),
        Q=((1.0, 0.0), (0.0, 1.0)),
        R=((0.1,),),
        start_low=(-1.0, -1.0),
        start_high=(1.0, 1.0),
    )


def linear_quadratic_set(**options: Any) -> dict[str, LinearQuadratic]:
    """Return three carts of different mass; options change each :class:`LinearQuadratic`.

    Examples
    --------
    >>> from crosslearning.tasks import linear_quadratic_set
    >>> list(linear_quadratic_set())
    ['m=0.5', 'm=1', 'm=2']
    """
    return {f"m={mass:g}": cart(mass).replace(**options) for mass in (0.5, 1.0, 2.0)}


class LinearQuadraticEnvironment(CompiledEnvironment):
    """A linear system with a quadratic cost as a Gymnasium environment, without render mode.

    The system is by default the cart of unit mass; ``parameters`` are those of
    :class:`LinearQuadratic` to change in it.

    Examples
    --------
    >>> from crosslearning.tasks import LinearQuadraticEnvironment
    >>> observation, _ = LinearQuadraticEnvironment().reset(seed=0)
    >>> observation.shape
    (2,)
    """

    def __init__(
        self,
        system: LinearQuadratic | None = None,
        *,
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        self.system = (system or cart(1.0)).replace(**parameters)
        super().__init__(self.system.parameters, render_mode=render_mode)
        q, p, far = self.system.state_size, self.system.outputs, OBSERVATION_BOUND
        self.observation_space = Box(-far, far, (q,), np.float64)
        self.action_space = Box(-ACTION_BOUND, ACTION_BOUND, (p,), np.float64)
        ends = np.abs([self.system.start_low, self.system.start_high]).max(axis=0)
        self.kernel_covariance = tuple((np.maximum(ends, 1e-3) ** 2).tolist())

    @property
    def physics(self) -> Physics:
        """The physics of systems with q coordinates."""
        q = self.system.state_size
        return Physics(start_episode, observe, step, state_size=q, reset_size=q)
