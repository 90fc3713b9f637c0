"""Projections onto functions that are near their centre, and onto those also near zero.

The projected functions are linear combinations of the given ones, so a projection adds no knot.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas

from crosslearning._base.compiled import compiled
from crosslearning.errors import InputError, unknown_name
from crosslearning.rkhs.checks import Floats, finite_array, radius
from crosslearning.rkhs.dual_newton import bounded_multipliers, coordinates, shares
from crosslearning.rkhs.enclosing_ball import share_of_the_way, smallest_ball
from crosslearning.rkhs.family import Family
from crosslearning.rkhs.primal_newton import STALL_TOLERANCE, newton

Method = Literal["exact", "relaxed", "free"]

# Up to so many functions one product with the whole matrix is the fastest.
_FEW = 64


class Status(enum.Enum):
    """How a projection ended; the value is a sentence for people.

    Examples
    --------
    >>> from crosslearning.rkhs import exact_projection
    >>> exact_projection([[1.0]], epsilon=2.0).status.name
    'INSIDE'
    """

    INSIDE = "The functions already satisfy the constraint; nothing was moved."
    CENTRED = "The functions already satisfy the constraint; only the centre moved."
    SOLVED = "The projection was computed to the accuracy of float64."
    INACCURATE = (
        "Newton's method stopped before the wanted accuracy; the constraints hold, but the "
        "point may not be the nearest. Check the functions for extreme scales."
    )


@dataclass(frozen=True)
class Projection:
    """The outcome of a projection: g = Σ_j centre_j h̄_j and h_i = pulls_i g + keeps_i h̄_i.

    ``multipliers`` are μ_i ≥ 0 of the constraints, infinite for ``epsilon = 0``; ``distances`` are
    ‖h_i − g‖ after the projection; ``residual`` is the norm of the remaining gradient relative to
    the spread of the functions, zero for closed forms; ``iterations`` are Newton steps.

    With a bound, ``bound_multipliers`` are ν_i ≥ 0 of ‖h_i‖ ≤ ε₀ and, last, of ‖g‖ ≤ ε₀. Where it
    binds, ``residual`` is the largest error of a constraint relative to ε₀: its violation, or its
    slack where the multiplier is larger still.

    Examples
    --------
    >>> from crosslearning.rkhs import exact_projection
    >>> exact_projection([[4.0, 0.0], [0.0, 0.1]], epsilon=1.5).active
    array([ True, False])
    """

    pulls: Floats  # (N,)
    keeps: Floats  # (N,)
    centre: Floats  # (N+1,), the old centre last
    multipliers: Floats  # (N,)
    distances: Floats  # (N,)
    residual: float
    iterations: int
    status: Status
    bound_multipliers: Floats = field(default_factory=lambda: np.empty(0))  # (N+1,) or no bound

    @cached_property
    def mixing(self) -> Floats:
        """Projected functions as combinations of the given ones, shape (N+1, N+1); g is last."""
        mixing = np.concatenate([self.pulls[:, None] * self.centre, self.centre[None]])
        np.fill_diagonal(mixing[:-1], np.diagonal(mixing)[:-1] + self.keeps)
        return mixing

    def apply(self, functions: Floats) -> None:
        """Replace functions, shape (N+1, …), by the projected ones."""
        flat = functions.reshape(len(functions), -1)
        if len(flat) <= _FEW:
            flat[:] = self.mixing @ flat
            return
        # A diagonal matrix and a rank-one part: no product of N² numbers is needed.
        centre = self.centre @ flat
        flat[:-1] *= self.keeps[:, None]
        blas.dger(1.0, centre, self.pulls, a=flat[:-1].T, overwrite_a=1)
        flat[-1] = centre

    @property
    def moved(self) -> bool:
        """Whether any function changed."""
        return self.status is not Status.INSIDE

    @property
    def active(self) -> NDArray[np.bool_]:
        """The active constraints on distances, shape (N,)."""
        return self.multipliers > 0


def _checked_gram(what: str, given: ArrayLike) -> tuple[Floats, float]:
    """Return a Gram matrix as a checked array, and its largest diagonal entry."""
    gram = np.ascontiguousarray(given, dtype=np.float64)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or gram.shape[0] == 0:
        raise InputError(f"{what} must be a square matrix, got shape {gram.shape}")
    largest = _largest_square(gram)
    if largest < 0.0:
        finite_array(what, gram, (None, None))
        raise InputError(f"{what} must be a Gram matrix: symmetric, no negative diagonal")
    return gram, largest


@compiled
def _largest_square(D: Floats) -> float:
    """Return max D_ii, or −1 if D is not a Gram matrix."""
    largest = smallest = 0.0
    for i in range(len(D)):
        largest, smallest = max(largest, D[i, i]), min(smallest, D[i, i])
    if not math.isfinite(largest) or smallest < -1e-12 * largest:
        return -1.0
    for i in range(len(D)):
        for j in range(i + 1):
            if not abs(D[i, j] - D[j, i]) <= 1e-9 * largest:
                return -1.0
    return largest


def exact_projection(differences: ArrayLike, epsilon: float) -> Projection:
    """Project onto C = {‖h_i − g‖ ≤ ε for every i}.

    Solves min Σ_i ‖h_i − h̄_i‖² + ‖g − ḡ‖² over C. For a fixed g the best h_i is the projection
    of h̄_i onto the ball around g, so the problem is the smooth convex one

        min_g ½‖g − ḡ‖² + ½ Σ_i (‖h̄_i − g‖ − ε)₊²,

    whose solution lies in ḡ + span{h̄_i − ḡ}: N unknowns, for any number of knots.

    Parameters
    ----------
    differences : array_like, shape (N, N)
        D_ij = ⟨h̄_i − ḡ, h̄_j − ḡ⟩; see :meth:`Family.differences`.
    epsilon : float
        The radius, from 0 (consensus) to infinity (no coupling).

    Examples
    --------
    >>> from crosslearning.rkhs import exact_projection
    >>> exact_projection([[4.0, 0.0], [0.0, 1.0]], epsilon=1.0).distances.round(6)
    array([1., 1.])
    """
    D, largest = _checked_gram("differences", differences)
    epsilon = radius("epsilon", epsilon)
    N = len(D)
    spread = math.sqrt(largest)
    if spread <= epsilon:
        distances = np.sqrt(np.maximum(np.diag(D), 0.0))
        parts = np.zeros(N), np.ones(N), np.append(np.zeros(N), 1.0)
        return Projection(*parts, np.zeros(N), distances, 0.0, 0, Status.INSIDE)
    if epsilon == 0.0:
        parts = np.ones(N), np.zeros(N), np.full(N + 1, 1.0 / (N + 1))
        return Projection(*parts, np.full(N, np.inf), np.zeros(N), 0.0, 0, Status.SOLVED)
    _, pulls, distances, steps = _solved(D / largest, 1.0, epsilon / spread)
    # g = (ḡ + Σ a_i h̄_i)/(1 + A).
    centre = np.append(pulls, 1.0) / (1.0 + _sum(pulls))
    return _pulled(centre, pulls, spread, distances, *steps)


@compiled
def _sum(values: Floats) -> float:
    return float(values.sum())  # in the order of Newton's method


def _solved(
    D: Floats, anchor: float, epsilon: float
) -> tuple[Floats, Floats, Floats, tuple[int, float]]:
    """Return the coefficients of g, the pulls a_i, ‖h̄_i − g‖, and Newton's steps and residual."""
    c, pulls, distances = np.empty((3, len(D)))
    steps = newton(D, anchor, epsilon, c, pulls, distances)
    return c, pulls, distances, steps


def _pulled(
    centre: Floats, pulls: Floats, spread: float, distances: Floats, steps: int, residual: float
) -> Projection:
    """Return the projection h_i = a_i g + (1 − a_i) h̄_i; ‖h̄_i − g‖ is spread · distances_i."""
    status = Status.SOLVED if residual <= STALL_TOLERANCE else Status.INACCURATE
    # A pull that rounds to 1 is consensus, whose multiplier is infinite.
    unbounded = np.full(len(pulls), np.inf)
    multipliers = np.divide(pulls, 1.0 - pulls, out=unbounded, where=pulls < 1.0)
    parts = pulls, 1.0 - pulls, centre, multipliers, distances * (spread * (1.0 - pulls))
    return Projection(*parts, residual, steps, status)


def relaxed_projection(differences: ArrayLike, epsilon: float) -> Projection:
    """Project onto R = {Σ_i ‖h_i − g‖² ≤ N ε²}, leaving ḡ out of the cost.

    Solves min Σ_i ‖h_i − h̄_i‖² over R in closed form: g is the mean of the h̄_i and
    h_i = (1−ψ) g + ψ h̄_i with ψ = min(1, √N ε / √(Σ_i ‖h̄_i − g‖²)). A single function may
    end farther than ε from g; only their mean square is bounded.

    The arguments are those of :func:`exact_projection`.

    Examples
    --------
    >>> from crosslearning.rkhs import relaxed_projection
    >>> relaxed_projection([[4.0, 0.0], [0.0, 1.0]], epsilon=1.0).status.name
    'SOLVED'
    """
    D, _ = _checked_gram("differences", differences)
    epsilon = radius("epsilon", epsilon)
    N = len(D)
    centred = _about_the_mean(D)
    total = max(float(np.trace(centred)), 0.0)
    psi = 1.0 if total <= N * epsilon**2 else math.sqrt(N) * epsilon / math.sqrt(total)
    parts = np.full(N, 1.0 - psi), np.full(N, psi), np.append(np.full(N, 1.0 / N), 0.0)
    multiplier = 0.0 if psi == 1.0 else (np.inf if psi == 0.0 else 1.0 / psi - 1.0)
    status = Status.CENTRED if psi == 1.0 else Status.SOLVED
    distances = psi * np.sqrt(np.maximum(np.diag(centred), 0.0))
    return Projection(*parts, np.full(N, multiplier), distances, 0.0, 0, status)


def _about_the_mean(D: Floats) -> Floats:
    """Return the Gram matrix of h̄_i − mean: that of any origin, with rows and columns centred."""
    centred = D - D.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    return np.asarray(centred)


def free_projection(differences: ArrayLike, epsilon: float) -> Projection:
    """Project onto C = {‖h_i − g‖ ≤ ε for every i}, leaving ḡ out of the cost.

    Solves min Σ_i ‖h_i − h̄_i‖² over C, with g free: as :func:`exact_projection`, without the
    anchor. The h_i are unique, and their mean is that of the h̄_i. So is g where a function moves:
    it is the centre of the smallest ball around the h_i. Where none has to move, because the
    smallest ball around the h̄_i has a radius r ≤ ε, every centre within ε of all is optimal. Then
    g is their mean, or as far from it towards the centre of that ball as it has to be. It is
    continuous in the h̄_i and in ε, and at most (1 − 2/N) ε from the mean.

    The arguments are those of :func:`exact_projection`; the differences may be from any function
    instead of ḡ, and one near the mean loses the fewest digits.

    Examples
    --------
    >>> from crosslearning.rkhs import free_projection
    >>> outcome = free_projection([[4.0, 0.0], [0.0, 1.0]], epsilon=1.0)
    >>> outcome.centre, outcome.distances.round(6)
    (array([0.5, 0.5, 0. ]), array([1., 1.]))
    """
    D, _ = _checked_gram("differences", differences)
    epsilon = radius("epsilon", epsilon)
    N = len(D)
    D = _about_the_mean(D)
    squares = np.maximum(np.diag(D), 0.0)
    spread = math.sqrt(np.max(squares))
    mean = np.append(np.full(N, 1.0 / N), 0.0)
    if spread <= epsilon:
        parts = np.zeros(N), np.ones(N), mean, np.zeros(N), np.sqrt(squares)
        return Projection(*parts, 0.0, 0, Status.CENTRED)
    if epsilon == 0.0:
        parts = np.ones(N), np.zeros(N), mean, np.full(N, np.inf), np.zeros(N)
        return Projection(*parts, 0.0, 0, Status.SOLVED)
    # The mean square of the distances from the mean is at most r².
    if np.mean(squares) <= epsilon**2:
        ball, reach = smallest_ball(D)
        if reach <= epsilon:
            along = D @ ball
            share = share_of_the_way(squares - epsilon**2, along, float(ball @ along))
            centre = (1.0 - share) * mean + share * np.append(ball, 0.0)
            apart = squares - 2.0 * share * along + share**2 * float(ball @ along)
            distances = np.sqrt(np.maximum(apart, 0.0))
            parts = np.zeros(N), np.ones(N), centre, np.zeros(N), distances
            return Projection(*parts, 0.0, 0, Status.CENTRED)
    c, pulls, distances, steps = _solved(D / spread**2, 0.0, epsilon / spread)
    # g = mean + Σ c_i (h̄_i − mean), and Σ c_i is 1 up to the residual.
    centre = np.append(c + (1.0 - c.sum()) / N, 0.0)
    return _pulled(centre, pulls, spread, distances, *steps)


def bounded_projection(gram: ArrayLike, epsilon: float, bound: float) -> Projection:
    """Project onto C = {‖h_i − g‖ ≤ ε and ‖h_i‖ ≤ ε₀ for every i, ‖g‖ ≤ ε₀}.

    Solves min Σ_i ‖h_i − h̄_i‖² + ‖g − ḡ‖² over C. If the functions are corrections of a controller,
    which is the zero function, the bound ε₀ keeps all of them near that controller.

    Parameters
    ----------
    gram : array_like, shape (N+1, N+1)
        The inner products of (h̄_1 … h̄_N, ḡ); see :meth:`Family.inner_products`.
    epsilon : float
        The radius ε, from 0 (consensus) to infinity (no coupling).
    bound : float
        The bound ε₀, from 0 (the controller itself) to infinity (as :func:`exact_projection`).

    Examples
    --------
    >>> from crosslearning.rkhs import bounded_projection
    >>> outcome = bounded_projection([[9.0, 0.0], [0.0, 4.0]], epsilon=1.0, bound=2.0)
    >>> outcome.distances.round(6), outcome.status.name
    (array([1.]), 'SOLVED')
    """
    F, largest = _checked_gram("gram", gram)
    if len(F) < 2:
        raise InputError("gram needs at least two functions; the last is the centre")
    epsilon, bound = radius("epsilon", epsilon), radius("bound", bound)
    N = len(F) - 1
    functions = coordinates(F)
    differences = functions[:-1] - functions[-1]
    unbounded = exact_projection(differences @ differences.T, epsilon)
    unbounded = replace(unbounded, bound_multipliers=np.zeros(N + 1))
    # The results are convex combinations, so none is longer than the longest of the given ones.
    if math.sqrt(largest) <= bound or np.max(_lengths(unbounded, functions)[1]) <= bound:
        return unbounded
    # ν_i = ‖h̄_i‖ / ε₀ − 1 without coupling.
    norms = np.linalg.norm(functions, axis=1)
    keeps = np.divide(bound, norms, out=np.ones(N + 1), where=norms > bound)
    nu = np.divide(1.0, keeps, out=np.full(N + 1, np.inf), where=keeps > 0.0) - 1.0
    parts = np.zeros(N), keeps[:-1], np.append(np.zeros(N), keeps[-1])
    nothing = np.zeros(N)
    clipped = Projection(*parts, nothing, nothing, 0.0, 0, Status.SOLVED, nu)
    distances = _lengths(clipped, functions)[0]
    if np.max(distances) <= epsilon:
        return replace(clipped, distances=distances)
    if epsilon == 0.0:
        mean = functions.mean(axis=0)
        share = min(1.0, bound / float(np.linalg.norm(mean)))
        parts = np.ones(N), np.zeros(N), np.full(N + 1, share / (N + 1))
        nu = np.full(N + 1, 1.0 / share - 1.0)
        return Projection(*parts, np.full(N, np.inf), nothing, 0.0, 0, Status.SOLVED, nu)
    m, pulls, weights = np.empty(2 * N + 1), np.empty(N), np.empty(N)
    iterations, residual = bounded_multipliers(functions / bound, epsilon / bound, m)
    gamma = shares(m, pulls, weights)
    parts = pulls, 1.0 / weights, np.append(pulls, 1.0) / gamma
    solved = residual <= STALL_TOLERANCE
    status = Status.SOLVED if solved else Status.INACCURATE
    projection = Projection(*parts, m[:N], nothing, residual, iterations, status, m[N:])
    # The constraints hold in any case: towards the centre first, then all towards zero.
    distances, norms = _lengths(projection, functions)
    nearer = np.minimum(1.0, epsilon / np.maximum(distances, epsilon))
    shorter = min(1.0, bound / float(np.max(norms)))
    return replace(
        projection,
        pulls=1.0 - nearer * (1.0 - pulls),
        keeps=shorter * nearer * projection.keeps,
        centre=shorter * projection.centre,
        distances=shorter * nearer * distances,
    )


def _lengths(projection: Projection, functions: Floats) -> tuple[Floats, Floats]:
    """Return ‖h_i − g‖, shape (N,), and ‖h_i‖ and ‖g‖, shape (N+1,), after the projection."""
    projected = functions.copy()
    projection.apply(projected)
    distances = np.linalg.norm(projected[:-1] - projected[-1], axis=1)
    return distances, np.linalg.norm(projected, axis=1)


PROJECTIONS = {
    "exact": exact_projection,
    "relaxed": relaxed_projection,
    "free": free_projection,
}


def projection_of(method: str) -> Callable[[ArrayLike, float], Projection]:
    """Return the projection of a name."""
    if method not in PROJECTIONS:
        raise unknown_name("projection", method, PROJECTIONS)
    return PROJECTIONS[method]


def no_bound(method: str, bound: float) -> bool:
    """Return whether the bound is infinite; any other needs the exact projection."""
    if radius("bound", bound) < math.inf and method != "exact":
        message = f'the {method} projection has no bound, got {bound}; use "exact" or no bound'
        raise InputError(message)
    return bound == math.inf


def project(
    family: Family, epsilon: float, method: Method = "exact", bound: float = math.inf
) -> tuple[Family, Projection]:
    """Project a family (h̄_1 … h̄_N, ḡ), the centre last, onto the functions near their centre.

    Parameters
    ----------
    epsilon : float
        The radius ε ≥ 0; 0 gives consensus, infinity no coupling.
    method : {"exact", "relaxed", "free"}
        ``exact`` bounds every distance ‖h_i − g‖ by ε; ``relaxed`` only their mean square;
        ``free`` bounds every distance and leaves ḡ out of the cost.
    bound : float
        The largest norm ε₀ ≥ 0 of every function, see :func:`bounded_projection`; only ``exact``.

    Examples
    --------
    >>> from crosslearning.rkhs import Family, Gaussian, project
    >>> family = Family(Gaussian(std=[1.0]), [[0.0], [1.0]], [[[1.0], [0.0]], [[0.5], [0.0]]])
    >>> projected, outcome = project(family, epsilon=0.5)
    >>> projected.distances().round(6), outcome.status.name
    (array([0.5]), 'SOLVED')
    >>> project(family, epsilon=0.5, bound=0.6)[0].norms().round(6)
    array([0.6, 0.1])
    """
    project_gram = projection_of(method)
    if no_bound(method, bound):
        projection = project_gram(family.differences(about_mean=method == "free"), epsilon)
    else:
        projection = bounded_projection(family.inner_products(), epsilon, bound)
    projected = family.mix(projection.mixing) if projection.moved else family
    if method != "relaxed" and projection.moved:
        projected = _pull_inside(projected, epsilon)
    margin = np.finfo(np.float64).eps
    while bound < math.inf and (longest := np.max(projected.norms())) > bound:
        # A common factor keeps the distances, too.
        factor = max(0.0, 1.0 - margin) * bound / longest
        projected = _pull_inside(family._with_weights(factor * projected.weights), epsilon)
        margin *= 4.0
    return projected, projection


def _pull_inside(family: Family, epsilon: float) -> Family:
    """Shorten h_i − g where rounding left it longer than ε.

    Distances from a Gram matrix have half of the digits; those from the weights have all.
    """
    if epsilon == 0.0:
        return family._with_weights(np.repeat(family.weights[:, -1:], family.functions, axis=1))
    centre, apart = family.weights[:, -1:], family.weights[:, :-1] - family.weights[:, -1:]
    # Weights are rounded, too: the margin grows until all are inside.
    margin = np.finfo(np.float64).eps
    while np.any(beyond := (distances := family.distances()) > epsilon):
        aim = max(0.0, 1.0 - margin) * epsilon
        apart = apart * np.where(beyond, aim / np.maximum(distances, epsilon), 1.0)[:, None]
        family = family._with_weights(np.concatenate([centre + apart, centre], axis=1))
        margin *= 4.0
    return family
