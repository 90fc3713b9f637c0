"""What the theorem's numbers say, in sentences."""

from __future__ import annotations

import math

from crosslearning.theory.bounds import (
    accuracy,
    batch_for_gain,
    best_step,
    gain,
    iteration_bound,
    largest_budget,
    noise_floor,
    step_range,
)
from crosslearning.theory.checks import check_alpha, check_delta, check_looks
from crosslearning.theory.constants import Constants
from crosslearning.theory.printed import printed_gain

NORMALISED = ("normalised", "decaying", "adam")


def sentences(
    constants: Constants,
    alpha: float,
    delta: float,
    *,
    rise: float | None = None,
    looks: int = 1,
    step_rule: str = "constant",
    clip: float = math.inf,
) -> list[str]:
    """Return what the numbers say, vacuous or not, one sentence or two for each point.

    Parameters
    ----------
    constants : Constants
    alpha, delta : float
    rise : float, optional
        sup F − F(h⁰), for the bound on the iterations.
    looks : int
        How often the stopping rule may look.
    step_rule : str
        The run's, as in :class:`crosslearning.learner.LearnerSettings`.
    clip : float
        The run's ``step_clip``.
    """
    check_alpha(alpha)
    check_delta(delta)
    check_looks(looks)
    said = _rule(step_rule, clip)
    if math.isinf(constants.epsilon):
        return [
            *said,
            "ε is infinite: the policies are not bounded, the stationarity gap is infinite "
            "wherever a gradient is not zero, and the theorem says nothing.",
        ]
    if constants.epsilon == 0.0:
        return [
            *said,
            "ε is 0: every policy equals the centre, so every stationarity gap is 0 at every "
            "point. The theorem is true and empty; look at the sum of the gradients instead.",
        ]
    said += _possible(constants, alpha)
    said += _gain(constants, alpha, rise)
    said += _stop(constants, alpha, delta, looks)
    return said


def _rule(step_rule: str, clip: float) -> list[str]:
    said = []
    if step_rule in NORMALISED:
        said.append(
            f"The step rule {step_rule!r} divides by the running size of the gradient: the "
            "theory's η is step_size over the gradient's root mean square, different for each "
            "task. The theorem then speaks of the sum of the returns weighted by these steps, as "
            "if they stayed as they are."
        )
        if math.isfinite(clip):
            said.append(
                f"Gradients longer than {clip:g} times their usual size are shortened. That "
                "makes the step biased, which is outside the theory."
            )
    if step_rule == "adam":
        said.append("Momentum mixes old gradients into the step: that is outside the theory.")
    if step_rule == "decaying":
        said.append(
            "The steps fall over time, and with them the gain: the numbers are those of one η."
        )
    return said


def _possible(constants: Constants, alpha: float) -> list[str]:
    top, floor = constants.largest_gap, noise_floor(constants)
    if alpha >= top:
        return [
            f"α = {alpha:.4g} asks for nothing: with gradients of norm at most "
            f"{max(constants.gradient_norm):.4g} no gap can be above {top:.4g}."
        ]
    if floor >= top:
        return [
            f"At this batch size the theorem is vacuous for every α: a gain is promised only where "
            f"a gap exceeds {floor:.4g}, and no gap can exceed {top:.4g}."
        ]
    return [
        f"A gain can be promised, with a suitable step, where a gap exceeds the noise floor of "
        f"{floor:.4g}; the largest gap that there can be is {top:.4g}."
    ]


def _gain(constants: Constants, alpha: float, rise: float | None) -> list[str]:
    gained, eta = gain(constants, alpha), constants.step_size
    said = []
    if gained > 0.0:
        said.append(
            f"While some gap exceeds α = {alpha:.4g}, an iteration gains at least {gained:.4g} in "
            "expectation."
        )
        if rise is not None:
            said.append(
                f"So the expected number of iterations before the first α-stationary point is at "
                f"most {iteration_bound(constants, alpha, rise):.4g}."
            )
    else:
        said.append(
            f"The bound on the gain of an iteration at α = {alpha:.4g} is not positive"
            + (f" ({gained:.4g})" if math.isfinite(gained) else "")
            + ": it is vacuous, and so is the bound on the number of iterations."
        )
        said.append(_remedy(constants, alpha))
    steps = step_range(constants, alpha)
    if steps is not None:
        best = best_step(constants, alpha)
        low = f"above {steps[0]:.4g} and " if steps[0] > 0.0 else ""
        if best is not None and math.isfinite(best):
            said.append(
                f"The gain is positive for η {low}below {steps[1]:.4g}, and largest at η = "
                f"{best:.4g}; here η is {eta:.4g}."
            )
    else:
        said.append(f"No step size makes it positive at batch size {constants.batch_size}.")
    printed = printed_gain(constants, alpha)
    said.append(
        f"The printed γ_F is {printed:.4g}. It is "
        + ("not positive, hence vacuous." if printed <= 0.0 else "no valid bound: see the docs.")
    )
    return said


def _remedy(constants: Constants, alpha: float) -> str:
    batch = batch_for_gain(constants, alpha)
    if batch is not None:
        return f"At this step size it would be positive with a batch of {batch:,}."
    x = constants.step_size * constants.smoothness
    if x >= 2.0:
        return (
            f"No batch helps: ηL is {x:.4g}, and a step as long as 2/L or longer may overshoot; "
            f"take η below {2.0 / constants.smoothness:.4g}."
        )
    budget = largest_budget(constants.replace(deviation=0.0 * constants.deviation), alpha)
    return (
        f"No batch helps: pruning by up to {constants.budget:.4g} may cost more than a step of "
        f"this size gains; even without noise the budget would have to be below {budget:.4g}."
    )


def _stop(constants: Constants, alpha: float, delta: float, looks: int) -> list[str]:
    promised = accuracy(constants, alpha, delta, looks)
    often = "looks once" if looks == 1 else f"looks up to {looks:,} times"
    said = (
        f"A rule that {often}, and stops if all estimated gaps are at most α = {alpha:.4g}, stops "
        f"at a point with a gap above α' = {promised:.4g} with probability at most {delta:g}"
    )
    if promised >= constants.largest_gap:
        return [f"{said}; but no gap can be above {constants.largest_gap:.4g}, so this is vacuous."]
    return [f"{said}."]
