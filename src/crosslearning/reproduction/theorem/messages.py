"""Sentences about the theorem's numbers, by topic."""

from __future__ import annotations

import math

from crosslearning.certificates.reading import check_asked
from crosslearning.certificates.text import number
from crosslearning.reproduction.theorem import bounds
from crosslearning.reproduction.theorem.bounds import Constants

#: Where the theorem is empty, and why.
_EMPTY = {
    0.0: "ε is 0: every policy equals the centre, so every stationarity gap is 0 at every point. "
    "The theorem is true and empty; look at the sum of the gradients instead.",
    math.inf: "ε is infinite: the policies are not bounded, the stationarity gap is infinite "
    "wherever a gradient is not zero, and the theorem says nothing.",
}


def sentences(
    constants: Constants,
    alpha: float,
    delta: float,
    *,
    rise: float | None = None,
    weighted: bool = False,
) -> dict[str, str]:
    """Return sentences by topic, in reading order.

    The topics are ``possible``, ``gain``, ``iterations`` if the ``rise`` of
    :func:`bounds.iteration_bound` is given and bounds them, ``remedy`` if the gain is vacuous,
    ``step``, ``printed`` and ``stop``; for ε = 0 and ε = ∞ only ``epsilon``. Constants and α may
    be those of the ``weighted`` returns.
    """
    check_asked(alpha=alpha, delta=delta)
    if constants.epsilon in _EMPTY:
        return {"epsilon": _EMPTY[constants.epsilon]}
    gained = bounds.gain(constants, alpha)
    gap = "weighted gap" if weighted else "gap"
    level = f"the weighted α = {alpha:.4g}" if weighted else f"α = {alpha:.4g}"
    topics = {"possible": _possible(constants, alpha, gap, level)}
    if gained > 0.0:
        topics["gain"] = (
            f"While some {gap} exceeds {level}, an iteration gains at least {gained:.4g} in "
            "expectation."
        )
        if rise is not None:
            topics["iterations"] = (
                "So the expected number of iterations before the first α-stationary point is at "
                f"most {bounds.iteration_bound(constants, alpha, rise):.4g}."
            )
    else:
        size = f" ({gained:.4g})" if math.isfinite(gained) else ""
        topics["gain"] = (
            f"The bound on the gain of an iteration at {level} is not positive{size}: it is "
            "vacuous, and so is the bound on the number of iterations."
        )
        topics["remedy"] = _remedy(constants, alpha)
    topics["step"] = _step(constants, alpha)
    printed = bounds.printed_gain(constants, alpha)
    worth = "not positive, hence vacuous" if printed <= 0.0 else "no valid bound: see the docs"
    topics["printed"] = f"The printed γ_F is {printed:.4g}. It is {worth}."
    topics["stop"] = _stop(constants, alpha, delta)
    return {topic: sentence for topic, sentence in topics.items() if sentence}


def rule_sentence(step_rule: str, clip: float) -> str:
    """Return what a run's step rule and ``step_clip`` mean for the theorem, if anything."""
    if step_rule == "constant":
        return ""
    text = (
        f"The step rule {step_rule!r} divides by the running size of the gradient: the theory's η "
        "is step_size over the gradient's root mean square, different for each task. The theorem "
        "then speaks of the sum of the returns weighted by these steps, as if they stayed as they "
        "are."
    )
    if math.isfinite(clip):
        text += (
            f" Gradients longer than {clip:g} times their usual size are shortened. That makes the "
            "step biased, which is outside the theory."
        )
    if step_rule == "adam":
        text += " Momentum mixes old gradients into the step: that is outside the theory."
    if step_rule == "decaying":
        text += " The steps fall over time, and with them the gain: the numbers are those of one η."
    return text


def _possible(constants: Constants, alpha: float, gap: str, level: str) -> str:
    top, floor = constants.largest_gap, bounds.noise_floor(constants)
    if alpha >= top:
        return (
            f"A bound of {level} asks for nothing: with gradients of norm at most "
            f"{max(constants.gradient_norm):.4g} no {gap} can be above {top:.4g}."
        )
    if floor >= top:
        return (
            "At this batch size the theorem is vacuous for every α: a gain is promised only where "
            f"a {gap} exceeds {floor:.4g}, and no {gap} can exceed {top:.4g}."
        )
    return (
        f"A gain can be promised, with a suitable step, where a {gap} exceeds the noise floor of "
        f"{floor:.4g}; the largest {gap} that there can be is {top:.4g}."
    )


def _remedy(constants: Constants, alpha: float) -> str:
    batch = bounds.batch_for_gain(constants, alpha)
    if batch is not None:
        return f"At this step size it would be positive with a batch of {number(batch)}."
    x = constants.step_size * constants.smoothness
    if x >= 2.0:
        return (
            f"No batch helps: ηL is {x:.4g}, and a step as long as 2/L or longer may overshoot; "
            f"take η below {2.0 / constants.smoothness:.4g}."
        )
    budget = bounds.largest_budget(constants.replace(deviation=0.0 * constants.deviation), alpha)
    return (
        f"No batch helps: pruning by up to {constants.budget:.4g} may cost more than a step of "
        f"this size gains; even without noise the budget would have to be below {budget:.4g}."
    )


def _step(constants: Constants, alpha: float) -> str:
    sizes, best = bounds.step_range(constants, alpha), bounds.best_step(constants, alpha)
    if sizes is None or best is None:
        return f"No step size makes it positive at batch size {constants.batch_size}."
    if math.isinf(best):
        return ""
    low = f"above {sizes[0]:.4g} and " if sizes[0] > 0.0 else ""
    return (
        f"The gain is positive for η {low}below {sizes[1]:.4g}, and largest at η = {best:.4g}; "
        f"here η is {constants.step_size:.4g}."
    )


def _stop(constants: Constants, alpha: float, delta: float) -> str:
    promised = bounds.accuracy(constants, alpha, delta)
    text = (
        f"A rule that looks once, and stops if all estimated gaps are at most α = {alpha:.4g}, "
        f"stops at a point with a gap above α' = {promised:.4g} with probability at most {delta:g}"
    )
    if promised >= constants.largest_gap:
        return f"{text}; but no gap can be above {constants.largest_gap:.4g}, so this is vacuous."
    return f"{text}."
