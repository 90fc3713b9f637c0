"""The convergence theorem in numbers: corrected, as printed, in words, and at a trained run."""

from crosslearning.reproduction.theorem.bounds import (
    accuracy,
    batch_for,
    batch_for_gain,
    best_step,
    false_stop_probability,
    gain,
    iteration_bound,
    largest_budget,
    noise_floor,
    printed_accuracy,
    printed_gain,
    printed_largest_step,
    pruning_loss,
    shift_gain,
    simultaneous_error,
    step_range,
)
from crosslearning.reproduction.theorem.constants import Constants, effective_step_sizes
from crosslearning.reproduction.theorem.estimates import (
    KINDS,
    EstimatedConstants,
    estimate_constants,
)
from crosslearning.reproduction.theorem.messages import sentences
from crosslearning.reproduction.theorem.page import save_theory, theory_page
from crosslearning.reproduction.theorem.study import (
    TheoremNumbers,
    TheoryStudy,
    evaluate_theorem,
    study_run,
)

__all__ = [
    "KINDS",
    "Constants",
    "EstimatedConstants",
    "TheoremNumbers",
    "TheoryStudy",
    "accuracy",
    "batch_for",
    "batch_for_gain",
    "best_step",
    "effective_step_sizes",
    "estimate_constants",
    "evaluate_theorem",
    "false_stop_probability",
    "gain",
    "iteration_bound",
    "largest_budget",
    "noise_floor",
    "printed_accuracy",
    "printed_gain",
    "printed_largest_step",
    "pruning_loss",
    "save_theory",
    "sentences",
    "shift_gain",
    "simultaneous_error",
    "step_range",
    "study_run",
    "theory_page",
]
