"""Sentences about the theorem's numbers, by topic; ``messages.j2`` holds their texts."""

from __future__ import annotations

import math

from crosslearning.certificates.reading import check_asked
from crosslearning.certificates.text import on_one_line, sentences_of, template
from crosslearning.reproduction.theorem import bounds
from crosslearning.reproduction.theorem.bounds import Constants

_PACKAGE = "crosslearning.reproduction.theorem"
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
    noiseless = constants.replace(deviation=0.0 * constants.deviation)
    return sentences_of(
        _PACKAGE,
        "messages.j2",
        constants=constants,
        alpha=alpha,
        delta=delta,
        gap="weighted gap" if weighted else "gap",
        level=f"the weighted α = {alpha:.4g}" if weighted else f"α = {alpha:.4g}",
        noise_floor=bounds.noise_floor(constants),
        gain=bounds.gain(constants, alpha),
        iterations=None if rise is None else bounds.iteration_bound(constants, alpha, rise),
        batch=bounds.batch_for_gain(constants, alpha),
        noiseless_budget=bounds.largest_budget(noiseless, alpha),
        steps=bounds.step_range(constants, alpha),
        best_step=bounds.best_step(constants, alpha),
        printed_gain=bounds.printed_gain(constants, alpha),
        accuracy=bounds.accuracy(constants, alpha, delta),
    )


def rule_sentence(step_rule: str, clip: float) -> str:
    """Return what a run's step rule and ``step_clip`` mean for the theorem, if anything."""
    if step_rule == "constant":
        return ""
    return on_one_line(template(_PACKAGE, "step_rule.j2").render(rule=step_rule, clip=clip))
