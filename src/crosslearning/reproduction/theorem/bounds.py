"""What an iteration gains, what a stop is worth, both turned round, and as the paper prints them.

The bounds are the corrected ones; the page on the theory derives them. The letters: η is the step
size, L the largest Lipschitz constant, S² = Σ σ_i²/b the variance of all gradients
together, β the pruning budget, and D = 2ε the furthest that a policy can move while the others and
the centre are held.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.optimize

from crosslearning.certificates.reading import check_asked
from crosslearning.reproduction.theorem.constants import Constants

_DECADES = 18.0  # how far below 2/L a step is looked for


def gain(constants: Constants, alpha: float) -> float:
    """Return γ: E[F(h⁺)] − F(h) ≥ γ at every h where some task's true gap exceeds α.

    With x = ηL, θ = min(1, 2 − x) and ω = θ (1 − θ/(2(2 − x))),

        γ = A − ηS²/(2(2 − x)) − β Σμ_i,
        A = ω ηα²/D²            if ηα ≤ θD²/(2ω),
            θα − θ²D²/(4ωη)     otherwise.

    Nothing is known for ηL ≥ 2: then the result is −∞. It is concave in η.
    """
    check_asked(alpha=alpha)
    return _gain(constants, alpha, constants.step_size)


def shift_gain(constants: Constants, slope: float) -> float:
    """Return γ for every h where ‖Σ_i ∇U_i‖ exceeds ``slope``: A = ω η slope²/(N+1).

    So much gains a common shift of all policies, which the gaps do not see. The relaxed projection
    does not count the centre: there it is N in the place of N+1.
    """
    check_asked(alpha=slope)
    moved = constants.tasks + (constants.projection == "exact")
    return _net(constants, constants.step_size, lambda _, weight: weight * slope**2 / moved)


def _gain(constants: Constants, alpha: float, eta: float) -> float:
    reach = constants.reach

    def ascent(share: float, weight: float) -> float:
        """Return A/η."""
        if reach == 0.0:
            return share * alpha / eta
        square = reach * reach  # a power would raise where a product is infinite
        if eta * alpha <= share * square / (2.0 * weight):
            return weight * (alpha / reach) ** 2
        return (share * alpha - share**2 * square / (4.0 * weight * eta)) / eta

    return _net(constants, eta, ascent)


def _net(constants: Constants, eta: float, ascent: Callable[[float, float], float]) -> float:
    """Return η times the ascent of (θ, ω), less what the noise and the pruning may cost."""
    x = eta * constants.smoothness
    if not x < 2.0:
        return -math.inf
    share = min(1.0, 2.0 - x)
    weight = share * (1.0 - share / (2.0 * (2.0 - x)))
    lost = eta * constants.noise**2 / (2.0 * (2.0 - x))
    return eta * ascent(share, weight) - lost - pruning_loss(constants)


def pruning_loss(constants: Constants) -> float:
    """Return β Σμ_i, the most that pruning within its budget can cost in one iteration."""
    return constants.budget * float(np.sum(constants.gradient_norm))


def iteration_bound(constants: Constants, alpha: float, rise: float) -> float:
    """Return the bound rise/γ on the expected iterations before all true gaps are ≤ α.

    The rise is sup F − F(h⁰). Infinite if γ is not positive: then nothing is promised.
    """
    check_asked(rise=rise)
    gained = gain(constants, alpha)
    return rise / gained if gained > 0.0 else math.inf


def accuracy(constants: Constants, alpha: float, delta: float, looks: int = 1) -> float:
    """Return α': a rule that stops if all estimated gaps are ≤ α ends above α' with P ≤ δ.

    α' = α + D max σ_i √(looks/(δ b)), by Chebyshev's inequality for the one task that is worst at
    each look. Each of the ``looks`` is at a batch that is independent of the policies.
    """
    check_asked(alpha=alpha, delta=delta, looks=looks)
    return alpha + constants.largest_deviation * math.sqrt(looks / (delta * constants.batch_size))


def simultaneous_error(constants: Constants, delta: float) -> float:
    """Return D S/√δ: with P ≥ 1 − δ all tasks' estimated gaps are this near to the true ones."""
    check_asked(delta=delta)
    return constants.across(constants.noise) / math.sqrt(delta)


def false_stop_probability(
    constants: Constants, alpha: float, alpha_prime: float, looks: int = 1
) -> float:
    """Return the δ at which :func:`accuracy` is α'; 1 if no smaller one is promised."""
    check_asked(alpha=alpha, alpha_prime=alpha_prime, looks=looks)
    ratio = constants.largest_deviation / (alpha_prime - alpha)
    return min(1.0, looks * ratio**2 / constants.batch_size)


def batch_for(
    constants: Constants, alpha: float, alpha_prime: float, delta: float, looks: int = 1
) -> int | None:
    """Return the smallest batch with which :func:`accuracy` is at most α'; None if none is."""
    check_asked(alpha=alpha, alpha_prime=alpha_prime, delta=delta, looks=looks)
    wanted = looks * (constants.largest_deviation / (alpha_prime - alpha)) ** 2 / delta

    def enough(batch: int) -> bool:
        return accuracy(constants.replace(batch_size=batch), alpha, delta, looks) <= alpha_prime

    return _smallest(wanted, enough)


def batch_for_gain(constants: Constants, alpha: float) -> int | None:
    """Return the smallest batch with which the gain is positive at this step size.

    None if no batch is enough: the step is too long, or too short for the pruning budget.
    """
    noiseless = gain(constants.replace(deviation=np.zeros(constants.tasks)), alpha)
    if not noiseless > 0.0:
        return None

    def with_batch(batch: int) -> float:
        return gain(constants.replace(batch_size=batch), alpha)

    lost = noiseless - with_batch(1)
    return _smallest(lost / noiseless, lambda batch: with_batch(batch) > 0.0)


def _smallest(guess: float, enough: Callable[[int], bool]) -> int | None:
    """Return the smallest whole number that is enough; rounding may put the guess off by one.

    Beyond 2⁵³ neighbours are the same number, and the guess is as good; None if it is infinite.
    """
    if not guess < 2.0**53:
        return math.ceil(guess) if math.isfinite(guess) else None
    batch = max(1, math.floor(guess))
    while batch > 1 and enough(batch - 1):
        batch -= 1
    while not enough(batch):
        batch += 1
    return batch


def best_step(constants: Constants, alpha: float) -> float | None:
    """Return the step size with the largest gain; None if no step has a positive one.

    Infinite if longer is always better: no curvature (L = 0) and no noise.
    """
    check_asked(alpha=alpha)
    return _best_step(constants, alpha)


def _best_step(constants: Constants, alpha: float) -> float | None:
    if constants.reach == 0.0 or math.isinf(constants.reach):
        return None
    L, S = constants.smoothness, constants.noise
    if L == 0.0 and S == 0.0:
        return math.inf if alpha > pruning_loss(constants) else None
    # Beyond 2D/S the noise alone takes more than a step can give, for L = 0.
    top = min(2.0 / L if L > 0.0 else math.inf, 4.0 * constants.reach / S if S > 0.0 else math.inf)
    # A concave function has one peak, also on a logarithmic scale.
    peak = scipy.optimize.minimize_scalar(
        lambda u: -_gain(constants, alpha, math.exp(u)),
        bounds=(math.log(top) - _DECADES * math.log(10.0), math.log(top)),
        method="bounded",
        options={"xatol": 1e-12, "maxiter": 500},
    )
    step = math.exp(float(peak.x))
    return step if _gain(constants, alpha, step) > 0.0 else None


def step_range(constants: Constants, alpha: float) -> tuple[float, float] | None:
    """Return the open interval of step sizes with a positive gain, or None.

    The lower end is positive only because of pruning, which may cost as much in a short step
    as in a long one. None for ε = 0 and ε = ∞, where a gap says nothing.
    """
    best = best_step(constants, alpha)
    if best is None:
        return None

    def at(eta: float) -> float:
        return _gain(constants, alpha, eta)

    def zero(low: float, high: float) -> float:
        return float(scipy.optimize.brentq(at, low, high, xtol=1e-300, rtol=1e-14))

    start = 1.0 if math.isinf(best) else best
    while not at(start) > 0.0:
        start *= 2.0
    low, below = 0.0, start
    if pruning_loss(constants) > 0.0:
        while at(below) > 0.0:
            below /= 2.0
        low = zero(below, start)
    if math.isinf(best):
        return low, math.inf
    end = 2.0 / constants.smoothness if constants.smoothness > 0.0 else math.inf
    above = best
    while at(above) > 0.0:
        # Halve the way to 2/L, or double if there is no such end.
        above = 2.0 * above if math.isinf(end) else 0.5 * (above + end)
        if above >= end * (1.0 - 1e-15):
            return low, end
    return low, zero(best, above)


def largest_budget(constants: Constants, alpha: float) -> float | None:
    """Return the pruning budget up to which the gain is positive at this step; None if none is."""
    unpruned = gain(constants.replace(budget=0.0), alpha)
    norms = float(np.sum(constants.gradient_norm))
    if not unpruned > 0.0:
        return None
    return unpruned / norms if norms > 0.0 else math.inf


def noise_floor(constants: Constants) -> float:
    """Return the α above which some step has a positive gain.

    Without pruning it is D S/√3, whatever the curvature, and short steps reach it. With pruning
    it is higher, since steps cannot be short.
    """
    if math.isinf(constants.epsilon):
        return math.inf
    bare = constants.reach * constants.noise / math.sqrt(3.0)
    if constants.reach == 0.0 or pruning_loss(constants) == 0.0:
        return bare
    low, high = bare, max(2.0 * bare, 2.0 * pruning_loss(constants))
    while _best_step(constants, high) is None:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        hopeless = _best_step(constants, middle) is None
        low, high = (middle, high) if hopeless else (low, middle)
    return high


# As printed ------------------------------------------------------------------------------
# The lemma's γ_F is not a lower bound, and the iteration bound that divides by it does not hold;
# the theorem's α' holds for one look.


def printed_gain(constants: Constants, alpha: float) -> float:
    """Return γ_F of the paper's lemma, term by term."""
    check_asked(alpha=alpha)
    at_rest, slope, curvature = _parts(constants)
    eta = constants.step_size
    return alpha - at_rest - eta * slope - eta**2 * curvature


def printed_largest_step(constants: Constants, alpha: float) -> float | None:
    """Return the largest η with γ_F > 0: infinite if there is no largest, None if there is none."""
    check_asked(alpha=alpha)
    at_rest, slope, curvature = _parts(constants)
    left = alpha - at_rest
    if left <= 0.0:
        return None
    if slope == 0.0 and curvature == 0.0:
        return math.inf
    # γ_F is a falling parabola in η; this is the stable form of its positive root.
    return 2.0 * left / (slope + math.sqrt(slope**2 + 4.0 * curvature * left))


def printed_accuracy(constants: Constants, alpha: float, delta: float) -> float:
    """Return α' = α + 2ε max σ_i √(1/(δ b)) of the paper's theorem."""
    check_asked(alpha=alpha, delta=delta)
    largest = float(np.max(constants.deviation))
    reached = 2.0 * constants.epsilon * largest if largest > 0.0 else 0.0
    return alpha + reached * math.sqrt(1.0 / (delta * constants.batch_size))


def _parts(constants: Constants) -> tuple[float, float, float]:
    """Return what γ_F takes off α: the part without η, the factor of η and that of η²."""
    N, beta, L = constants.tasks, constants.budget, constants.smoothness
    errors = float(np.sum(constants.deviation)) / math.sqrt(constants.batch_size)
    norms = float(np.sum(constants.gradient_norm))
    squares = float(np.sum(constants.second_moment**2))
    pruned = math.sqrt(N + 1) * beta
    # The term √(N+1) β Σ σ_i/√b stands in γ_F twice.
    at_rest = 3.0 * (N + 1) * beta**2 * L + 2.0 * pruned * errors + pruned * norms
    return at_rest, squares + norms * errors + errors**2, 3.0 * L * squares
