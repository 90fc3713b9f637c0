"""The theorem at a trained family: its numbers from estimated constants, and what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from crosslearning.certificates.stationarity import StationarityGap
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.theory import (
    Constants,
    accuracy,
    batch_for,
    batch_for_gain,
    best_step,
    effective_step,
    gain,
    largest_step,
    noise_floor,
    printed_accuracy,
    printed_gain,
    printed_largest_step,
    sentences,
)
from crosslearning.theory.estimates import TaskConstants


@dataclass(frozen=True)
class TheoremSection:
    """The theorem's numbers, corrected and as printed.

    Attributes
    ----------
    alpha : float or None
        The α that it was evaluated at; None where it says nothing (ε = 0 or ε = ∞).
    delta : float
    steps : tuple of float
        The η_i of the last iteration, as the theory counts them.
    budget : float
        The pruning error that was put in for β: what the run really spent in its worst
        iteration, if that is more than the budget.
    gain, accuracy, noise_floor : float or None
        The least expected gain of an iteration while some gap is above α; α' that one look
        certifies with probability 1 − δ; the smallest α with a positive gain at any step.
    largest_step, best_step : float or None
        The largest η with a positive gain, and the one with the largest.
    batch_for_gain, batch_for_accuracy : int or None
        Samples for a positive gain at the present step, and for α' = 2α.
    printed_gain, printed_accuracy, printed_largest_step : float or None
        The same by the paper's formulas, for comparison.
    sentences : tuple of str
        What the numbers say, vacuous or not.
    """

    alpha: float | None
    delta: float
    steps: tuple[float, ...]
    budget: float
    gain: float | None = None
    accuracy: float | None = None
    noise_floor: float | None = None
    largest_step: float | None = None
    best_step: float | None = None
    batch_for_gain: int | None = None
    batch_for_accuracy: int | None = None
    printed_gain: float | None = None
    printed_accuracy: float | None = None
    printed_largest_step: float | None = None
    sentences: tuple[str, ...] = ()


def evaluate_theorem(
    learner: CrossLearner,
    estimates: Sequence[TaskConstants],
    gaps: Sequence[StationarityGap],
    alpha: float | None,
    delta: float,
    largest_pruning: float,
) -> TheoremSection:
    """Return the theorem's numbers at a trained family.

    Parameters
    ----------
    learner : CrossLearner
    estimates, gaps : sequences, one entry per task
        Their upper ends are taken: larger constants promise less.
    alpha : float or None
        If None, the smallest α at which every gap is certified is taken.
    delta : float
    largest_pruning : float
        The farthest that pruning moved any policy in one iteration.
    """
    settings = learner.settings
    budget = max(largest_pruning, settings.budget if math.isfinite(settings.budget) else 0.0)
    steps = tuple(float(step) for step in effective_step(learner))
    plain = math.isfinite(settings.epsilon) and settings.epsilon > 0
    chosen = alpha
    if chosen is None:
        chosen = max((gap.gap.high for gap in gaps), default=0.0)
    if not plain or not (math.isfinite(chosen) and chosen > 0):
        chosen = None
    section = TheoremSection(chosen, delta, steps, budget)
    try:
        constants = Constants.from_estimates(
            estimates,
            batch_size=settings.batch_size,
            epsilon=settings.epsilon,
            step_size=max(steps),
            budget=budget,
            projection=settings.projection,
        )
        weighted = constants.weighted(steps)
    except InputError as problem:
        return _only(section, f"The theorem cannot be evaluated here: {problem}.")
    said = []
    if plain and alpha is None and chosen is not None:
        said.append(
            f"No alpha was asked: the theorem is evaluated at {chosen:.4g}, the smallest at which "
            "every task is certified."
        )
    if budget > settings.budget:
        said.append(
            f"Pruning broke its budget: its largest move in one iteration, {budget:.4g}, stands "
            f"for β = {settings.budget:g} here."
        )
    # The gain is that of the sum of the returns weighted by w_i = η_i / max η, whose gap for
    # task i is w_i times as large. What a look at the gaps is worth does not depend on steps.
    share = min(steps) / max(steps)
    asked = 1.0 if chosen is None else chosen
    if chosen is not None and share < 1.0:
        said.append(
            f"The tasks' steps differ. The sentences on the gain speak of the returns weighted by "
            f"them; there a gap of {chosen:.4g} counts as {share * asked:.4g}."
        )
    rule, clip = settings.step_rule, settings.step_clip
    said += sentences(weighted, share * asked, delta, step_rule=rule, clip=clip)
    if chosen is None:
        return _only(section, *said)
    # The last sentence is on what a look is worth.
    said[-1:] = sentences(constants, asked, delta)[-1:]
    return TheoremSection(
        alpha=chosen,
        delta=delta,
        steps=steps,
        budget=budget,
        gain=gain(weighted, share * asked),
        accuracy=accuracy(constants, asked, delta),
        noise_floor=noise_floor(weighted) / share,
        largest_step=largest_step(weighted, share * asked),
        best_step=best_step(weighted, share * asked),
        batch_for_gain=batch_for_gain(weighted, share * asked),
        batch_for_accuracy=batch_for(constants, asked, 2.0 * asked, delta),
        printed_gain=printed_gain(weighted, share * asked),
        printed_accuracy=printed_accuracy(constants, asked, delta),
        printed_largest_step=printed_largest_step(weighted, share * asked),
        sentences=tuple(said),
    )


def _only(section: TheoremSection, *said: str) -> TheoremSection:
    return TheoremSection(
        section.alpha, section.delta, section.steps, section.budget, sentences=said
    )
