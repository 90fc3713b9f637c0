"""The theorem: its constants, the gain of an iteration, the worth of a stop, and their inverses.

The bounds are the corrected ones, which docs/explanation/theory.md derives; those of the paper are
at the end. η is the step size, L the largest Lipschitz constant, S² = Σ σ_i²/b the variance of all
gradients together, β the pruning budget, and D = 2ε the furthest that a policy can move while the
others and the centre are held.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from crosslearning.certificates.reading import check_asked
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.reproduction.theorem.estimates import KINDS, EstimatedConstants
from crosslearning.rkhs.checks import Floats

_DECADES = 18.0  # the range of steps below 2/L that is searched


@dataclass(frozen=True, eq=False)
class Constants:
    """The constants of the theorem's assumptions, and the settings that enter it.

    The arrays have one number for each task, shape (N,). Only the printed formulas use B.
    """

    deviation: Floats  #: σ_i: E‖X − ∇U_i‖² ≤ σ_i² for ONE sample X of the gradient
    gradient_norm: Floats  #: μ_i: ‖∇U_i‖ ≤ μ_i
    second_moment: Floats  #: B_i: E‖∇̂_i‖² ≤ B_i² for the average of a batch
    lipschitz: Floats  #: L_i: ‖∇U_i(f) − ∇U_i(f')‖ ≤ L_i ‖f − f'‖
    batch_size: int  #: b: the samples in a batch
    epsilon: float  #: the centrality radius ε
    step_size: float  #: η: the factor of a gradient in a step
    budget: float  #: β: how far pruning may move a policy in one iteration
    projection: Literal["exact", "relaxed", "free"] = "exact"

    def __post_init__(self) -> None:
        for name in KINDS:
            given = getattr(self, name)
            values = np.array(given, dtype=np.float64)
            fine = values.ndim == 1 and values.size and values.shape == np.shape(self.deviation)
            if not fine or not np.all((values >= 0) & (values < np.inf)):
                raise InputError(
                    f"{name} is {given!r}; give one finite number of at least 0 for each task"
                )
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        names = ("batch_size", "epsilon", "step_size", "budget")
        check_asked(**{name: getattr(self, name) for name in names})
        if self.projection not in ("exact", "relaxed", "free"):
            raise InputError(f"projection must be exact, relaxed or free, got {self.projection!r}")

    @classmethod
    def from_estimates(
        cls, learner: CrossLearner, estimates: Sequence[EstimatedConstants], cautious: bool = True
    ) -> Constants:
        """Return the constants of a trained learner, from the estimates of each task.

        The upper ends of the intervals are taken, because larger constants promise less; without
        caution the estimates themselves. Of the step sizes the largest is taken, see
        :meth:`weighted`; an infinite budget counts as 0, because it does not bound pruning.
        """
        settings, end = learner.settings, "high" if cautious else "value"
        return cls(
            **{
                name: np.array([getattr(getattr(task, name), end) for task in estimates])
                for name in KINDS
            },
            batch_size=learner.method.sampling.batch_size,
            epsilon=settings.epsilon,
            step_size=float(np.max(effective_step_sizes(learner))),
            budget=settings.budget if math.isfinite(settings.budget) else 0.0,
            projection=settings.projection,
        )

    @property
    def tasks(self) -> int:
        """N."""
        return len(self.deviation)

    @property
    def smoothness(self) -> float:
        """L, the largest of the L_i."""
        return float(np.max(self.lipschitz))

    @property
    def noise(self) -> float:
        """S: E‖∇̂F − ∇F‖² ≤ S² = Σ σ_i²/b, for all tasks' gradients as one vector."""
        return float(np.linalg.norm(self.deviation)) / math.sqrt(self.batch_size)

    @property
    def reach(self) -> float:
        """D: no policy can move further than this with the others and the centre held."""
        # The relaxed projection bounds the mean square: one policy may have all of Nε² to itself.
        share = math.sqrt(self.tasks) if self.projection == "relaxed" else 1.0
        return 2.0 * share * self.epsilon

    @property
    def largest_gap(self) -> float:
        """D · max μ_i: no policy's stationarity gap can be larger."""
        return self.across(float(np.max(self.gradient_norm)))

    @property
    def largest_deviation(self) -> float:
        """D · max σ_i: a bound of the root mean square error of a gap from one sample."""
        return self.across(float(np.max(self.deviation)))

    def across(self, size: float) -> float:
        """Return D times the size of a gradient; 0 for no gradient, even if D is infinite."""
        return self.reach * size if size > 0.0 else 0.0

    def replace(self, **changes: Any) -> Constants:
        """Return a copy with some numbers changed."""
        return dataclasses.replace(self, **changes)

    def weighted(self, step_sizes: ArrayLike) -> Constants:
        """Return the constants of a run whose tasks have steps of different sizes η_i, shape (N,).

        They are those of Σ w_i U_i with w_i = η_i/max η: ask the theorem for min(w_i) · α.
        """
        sizes = np.array(step_sizes, dtype=np.float64)
        if sizes.shape != self.deviation.shape or not np.all((sizes > 0) & (sizes < np.inf)):
            raise InputError(f"step_sizes is {step_sizes!r}; give a positive number for each task")
        largest = float(np.max(sizes))
        changes = {name: getattr(self, name) * (sizes / largest) for name in KINDS}
        return self.replace(**changes, step_size=largest)


def effective_step_sizes(learner: CrossLearner) -> Floats:
    """Return the η_i of a learner's last iteration, which multiplied its gradients, shape (N,)."""
    if learner.iteration == 0:
        raise InputError("this learner has made no iteration yet; call learn first")
    return np.asarray(learner.method.step_sizes(learner.iteration))  # type: ignore[attr-defined]


# The gain of an iteration ------------------------------------------------------------------


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

    It is the gain of a common shift of all policies, which the gaps do not see. The relaxed and
    the free projection do not count the centre: there it is N instead of N+1.
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
    """Return η times the ascent of (θ, ω), less the most that noise and pruning cost."""
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


def batch_for_gain(constants: Constants, alpha: float) -> int | None:
    """Return the smallest batch with which the gain is positive at this step size.

    None if no batch is enough: the step is too long, or too short for the pruning budget.
    """
    noiseless = gain(constants.replace(deviation=np.zeros(constants.tasks)), alpha)
    if not noiseless > 0.0:
        return None

    def with_batch(batch: int) -> float:
        return gain(constants.replace(batch_size=batch), alpha)

    guess = (noiseless - with_batch(1)) / noiseless
    return _smallest(guess, lambda batch: with_batch(batch) > 0.0)


def largest_budget(constants: Constants, alpha: float) -> float | None:
    """Return the pruning budget up to which the gain is positive at this step; None if none is."""
    unpruned = gain(constants.replace(budget=0.0), alpha)
    norms = float(np.sum(constants.gradient_norm))
    if not unpruned > 0.0:
        return None
    return unpruned / norms if norms > 0.0 else math.inf


def best_step(constants: Constants, alpha: float) -> float | None:
    """Return the step size with the largest gain; None if no step has a positive one.

    Infinite if longer is always better: no curvature (L = 0) and no noise.
    """
    check_asked(alpha=alpha)
    step, gained = _peak(constants, alpha)
    return step if gained > 0.0 else None


def _peak(constants: Constants, alpha: float) -> tuple[float, float]:
    """Return the step size with the largest gain, and that gain."""
    if constants.reach == 0.0 or math.isinf(constants.reach):
        return 0.0, -math.inf
    L, S = constants.smoothness, constants.noise
    if L == 0.0 and S == 0.0:
        return math.inf, alpha - pruning_loss(constants)
    # Beyond 2D/S the noise alone takes more than a step can give, for L = 0.
    top = min(2.0 / L if L > 0.0 else math.inf, 4.0 * constants.reach / S if S > 0.0 else math.inf)
    # A concave function has one peak, also on a logarithmic scale.
    peak = minimize_scalar(
        lambda u: -_gain(constants, alpha, math.exp(u)),
        bounds=(math.log(top) - _DECADES * math.log(10.0), math.log(top)),
        method="bounded",
        options={"xatol": 1e-12, "maxiter": 500},
    )
    step = math.exp(float(peak.x))
    return step, _gain(constants, alpha, step)


def step_range(constants: Constants, alpha: float) -> tuple[float, float] | None:
    """Return the open interval of step sizes with a positive gain, or None.

    The lower end is positive only because of pruning, which may cost as much in a short step
    as in a long one. None for ε = 0 and ε = ∞, where a gap says nothing.
    """
    best = best_step(constants, alpha)
    if best is None:
        return None
    L, S, lost = constants.smoothness, constants.noise, pruning_loss(constants)

    def logarithmic(u: float) -> float:
        return _gain(constants, alpha, math.exp(u))

    def zero(low: float, high: float) -> float:
        """Return the root between two steps."""
        return math.exp(float(brentq(logarithmic, math.log(low), math.log(high), xtol=1e-14)))

    # A ≤ 3ηα²/(4D²): pruning costs more than such a step gains. D²/(α − lost) gains if L = S = 0.
    inside = constants.reach**2 / (alpha - lost) if math.isinf(best) else best
    short = max(lost * (constants.reach / alpha) ** 2, 5e-324)
    low = zero(short, inside) if lost > 0.0 else 0.0
    if math.isinf(best):
        return low, math.inf
    # A ≤ α: the noise of a step of 4α/S² costs as much if L = 0.
    end = 2.0 / L if L > 0.0 else min(8.0 * alpha / S / S, 1e300)
    last = end * (1.0 - 1e-15)
    return low, end if _gain(constants, alpha, last) > 0.0 else zero(best, last)


def noise_floor(constants: Constants) -> float:
    """Return the α above which some step has a positive gain.

    Without pruning it is D S/√3, for any curvature, and short steps reach it. With pruning it is
    higher, since steps cannot be short.
    """
    if math.isinf(constants.epsilon):
        return math.inf
    bare = constants.reach * constants.noise / math.sqrt(3.0)
    if constants.reach == 0.0 or pruning_loss(constants) == 0.0:
        return bare
    low, high = bare, 2.0 * max(bare, pruning_loss(constants))
    while _peak(constants, high)[1] <= 0.0:
        low, high = high, 2.0 * high
    precision = {"xtol": 1e-300, "rtol": 1e-12, "maxiter": 500}
    return float(brentq(lambda alpha: _peak(constants, alpha)[1], low, high, **precision))


# The worth of a stop -----------------------------------------------------------------------


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
    guess = looks * (constants.largest_deviation / (alpha_prime - alpha)) ** 2 / delta

    def enough(batch: int) -> bool:
        return accuracy(constants.replace(batch_size=batch), alpha, delta, looks) <= alpha_prime

    return _smallest(guess, enough)


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


# As printed --------------------------------------------------------------------------------
# The lemma's γ_F is not a lower bound, and the iteration bound that divides by it does not hold;
# the theorem's α' holds for one look.


def printed_gain(constants: Constants, alpha: float) -> float:
    """Return γ_F of the paper's lemma, term by term."""
    check_asked(alpha=alpha)
    at_rest, slope, curvature = _printed_terms(constants)
    eta = constants.step_size
    return alpha - at_rest - eta * slope - eta**2 * curvature


def printed_largest_step(constants: Constants, alpha: float) -> float | None:
    """Return the largest η with γ_F > 0: infinite if there is no largest, None if there is none."""
    check_asked(alpha=alpha)
    at_rest, slope, curvature = _printed_terms(constants)
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


def _printed_terms(constants: Constants) -> tuple[float, float, float]:
    """Return what γ_F takes off α: the part without η, the factor of η and that of η²."""
    N, beta, L = constants.tasks, constants.budget, constants.smoothness
    errors = float(np.sum(constants.deviation)) / math.sqrt(constants.batch_size)
    norms = float(np.sum(constants.gradient_norm))
    squares = float(np.sum(constants.second_moment**2))
    pruned = math.sqrt(N + 1) * beta
    # The term √(N+1) β Σ σ_i/√b stands in γ_F twice.
    at_rest = 3.0 * (N + 1) * beta**2 * L + 2.0 * pruned * errors + pruned * norms
    return at_rest, squares + norms * errors + errors**2, 3.0 * L * squares
