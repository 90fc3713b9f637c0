"""The theorem at a trained run: estimated constants, evaluated numbers, and a page of text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from crosslearning.certificates import text
from crosslearning.certificates.certificate import pruning_history
from crosslearning.certificates.reading import Reading, check_asked, verified, working
from crosslearning.certificates.stationarity import stationarity_gaps
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.settings import PolicyGradient
from crosslearning.reproduction.theorem import bounds
from crosslearning.reproduction.theorem.bounds import Constants, effective_step_sizes
from crosslearning.reproduction.theorem.estimates import (
    KINDS,
    EstimatedConstants,
    estimate_constants,
)
from crosslearning.reproduction.theorem.messages import rule_sentence, sentences
from crosslearning.runs import RunFolder

#: The method of the theorem, as in files.
_METHOD = "policy-gradient"
_LETTERS = {"deviation": "σ", "second_moment": "B", "gradient_norm": "μ", "lipschitz": "L"}


@dataclass(frozen=True)
class TheoremNumbers:
    """The theorem's numbers, corrected and by the paper's formulas; None where it says nothing.

    Where the tasks' step sizes differ, the gain is that of the returns weighted by them, and so
    are the steps and the batch that go with it; everything else is in plain gaps.
    """

    delta: float
    step_sizes: tuple[float, ...]  #: the η_i of the last iteration, as the theory counts them
    budget: float  #: β, or the largest pruning error of an iteration, if that is more
    alpha: float | None = None  #: the α that it was evaluated at
    weighted_alpha: float | None = None  #: the same in the weighted returns
    gain: float | None = None  #: least expected gain of an iteration while some gap is above α
    accuracy: float | None = None  #: α' that one look certifies with probability 1 − δ
    noise_floor: float | None = None  #: the smallest α with a positive gain at any step
    largest_step: float | None = None  #: the largest η with a positive gain
    best_step: float | None = None  #: the η with the largest gain
    batch_for_gain: int | None = None  #: samples for a positive gain at the present step
    batch_for_accuracy: int | None = None  #: samples for α' = 2α
    printed_gain: float | None = None
    printed_accuracy: float | None = None
    printed_largest_step: float | None = None
    #: Sentences by topic; see :func:`messages.sentences`.
    sentences: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TheoryStudy(Reading):
    """The theorem at a run; empty for runs of other methods."""

    constants: tuple[EstimatedConstants, ...] = ()
    theorem: TheoremNumbers | None = None


def study_run(
    run: str | Path,
    alpha: float | None = None,
    delta: float = 0.05,
    samples: int = 4000,
    seed: int = 0,
    console: Console | None = None,
    tasks: str | None = None,
    around: str | None = None,
) -> TheoryStudy:
    """Estimate the constants of a run's trained policies, and evaluate the theorem with them.

    A run that has not ended is taken at its newest checkpoint. ``alpha`` is by default that of the
    run's settings, or else the smallest at which every task is certified; ``delta`` the theorem's
    probability of error; ``samples`` are fresh gradient samples per task, from the ``seed``;
    ``tasks`` and ``around`` are those of ``RunFolder.open``.
    """
    check_asked(delta=delta)
    verification, alpha = verified(run, alpha, samples, seed)
    model = verification.model
    if model is None or verification.failed:
        raise InputError(
            f"checks of {run} failed ({'; '.join(verification.failed[:3])}), so that the theorem "
            f"would speak of something else than the run; 'crosslearning certify {run}' says more"
        )
    study = TheoryStudy.of(verification, samples, seed)
    if model.method != _METHOD:
        reason = (
            f"the theorem speaks of the paper's method, {_METHOD}, only, and this run was learned "
            f"by {model.method}. Its gaps are measured all the same: crosslearning certify"
        )
        return dataclasses.replace(study, left_out=reason)
    pruning = pruning_history(verification.reached, model.settings)
    note = {}
    with closing(RunFolder.open(run, tasks, around).load()) as learner:
        if alpha is None and 0.0 < model.epsilon < math.inf:
            with working(console, "measuring the stationarity gaps"):
                alpha = max(task.gap.high for task in stationarity_gaps(learner, samples, seed))
            note["alpha"] = (
                f"No alpha was given: the theorem is evaluated at {alpha:.4g}, the smallest at "
                "which every task is certified."
            )
        with working(console, "estimating the constants"):
            constants = tuple(estimate_constants(learner, samples, seed))
        largest = 0.0 if pruning is None else pruning.largest
        theorem = evaluate_theorem(learner, constants, alpha, delta, largest)
    theorem = dataclasses.replace(theorem, sentences={**note, **theorem.sentences})
    return dataclasses.replace(study, constants=constants, theorem=theorem)


def evaluate_theorem(
    learner: CrossLearner,
    estimates: Sequence[EstimatedConstants],
    alpha: float | None,
    delta: float,
    largest_pruning: float,
) -> TheoremNumbers:
    """Return the theorem's numbers at a trained family, from the upper ends of the estimates.

    ``alpha`` may be None for ε = 0 and ε = ∞; ``largest_pruning`` is the largest pruning error of
    any policy in one iteration.
    """
    settings = learner.settings
    assert isinstance(settings, PolicyGradient)  # the theorem speaks of no other method
    budget = max(largest_pruning, settings.budget if math.isfinite(settings.budget) else 0.0)
    step_sizes = effective_step_sizes(learner)
    topics = {}
    if budget > settings.budget:
        topics["budget"] = (
            f"Pruning broke its budget: its largest move in one iteration, {budget:.4g}, stands "
            f"for β = {settings.budget:g} here."
        )
    topics["rule"] = rule_sentence(settings.step_rule, settings.step_clip)
    try:
        constants = Constants.from_estimates(learner, estimates).replace(budget=budget)
        fields = _numbers(constants, step_sizes, alpha, delta)
    except (InputError, ArithmeticError) as problem:
        fields = {"sentences": {"problem": f"The theorem cannot be evaluated here: {problem}."}}
    topics |= fields.pop("sentences")
    fields["sentences"] = {topic: sentence for topic, sentence in topics.items() if sentence}
    return TheoremNumbers(delta, tuple(map(float, step_sizes)), budget, **fields)


def _numbers(
    constants: Constants, step_sizes: Any, alpha: float | None, delta: float
) -> dict[str, Any]:
    """Return fields of :class:`TheoremNumbers`."""
    if alpha is None or not 0.0 < constants.epsilon < math.inf:
        return {"sentences": sentences(constants, 1.0 if alpha is None else alpha, delta)}
    # The gain is that of the returns weighted by w_i = η_i / max η, whose gap for task i is w_i
    # times as large. The accuracy of a stop does not depend on steps.
    weighted = constants.weighted(step_sizes)
    share = float(np.min(step_sizes) / np.max(step_sizes))
    level = share * alpha
    topics = sentences(weighted, level, delta, weighted=share < 1.0)
    topics["stop"] = sentences(constants, alpha, delta)["stop"]
    if share < 1.0:
        weights = ", ".join(f"{size:.3g}" for size in step_sizes / np.max(step_sizes))
        units = (
            "The tasks' steps differ. Gains, and what is called weighted, are of the returns and "
            f"gaps weighted by η over the largest η ({weights}): a gap of α = {alpha:.4g} counts "
            f"there as {level:.4g} or more. Any other gap is a task's own."
        )
        topics = {"units": units, **topics}
    sizes = bounds.step_range(weighted, level)
    return {
        "alpha": alpha,
        "weighted_alpha": level,
        "gain": bounds.gain(weighted, level),
        "accuracy": bounds.accuracy(constants, alpha, delta),
        "noise_floor": bounds.noise_floor(weighted) / share,
        "largest_step": None if sizes is None else sizes[1],
        "best_step": bounds.best_step(weighted, level),
        "batch_for_gain": bounds.batch_for_gain(weighted, level),
        "batch_for_accuracy": bounds.batch_for(constants, alpha, 2.0 * alpha, delta),
        "printed_gain": bounds.printed_gain(weighted, level),
        "printed_accuracy": bounds.printed_accuracy(constants, alpha, delta),
        "printed_largest_step": bounds.printed_largest_step(weighted, level),
        "sentences": topics,
    }


# The page -----------------------------------------------------------------------------------


def theory_page(study: TheoryStudy) -> str:
    """Return the page that ``crosslearning theory`` prints, 100 columns wide."""
    page = text.template("crosslearning.reproduction.theorem", "theory.txt.j2")
    rows = [
        (task.task, f"{letter}, {name.replace('_', ' ')}", *text.estimate(getattr(task, name)))
        for task in study.constants
        for name, letter in _LETTERS.items()
    ]
    doubtful = [task.task for task in study.constants if task.doubtful]
    return page.render(study=study, constants=rows, kinds=KINDS.values(), doubtful=doubtful)


def save_theory(study: TheoryStudy, folder: Path) -> list[Path]:
    """Write ``theory.txt`` and ``.json``, and keep earlier ones; see :mod:`text`."""
    return text.save_page(folder, "theory", theory_page(study), study.to_json())
