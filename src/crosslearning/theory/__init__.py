"""The convergence theorem in numbers: corrected, as printed, and in words.

One place to import from; ``docs/theory.md`` has the derivations.
"""

from crosslearning.theory.bounds import (
    accuracy,
    batch_for,
    batch_for_gain,
    best_step,
    confidence,
    gain,
    iteration_bound,
    largest_budget,
    largest_step,
    noise_floor,
    pruning_loss,
    shift_gain,
    simultaneous_error,
    step_range,
)
from crosslearning.theory.constants import Constants, effective_step
from crosslearning.theory.printed import (
    printed_accuracy,
    printed_gain,
    printed_iteration_bound,
    printed_largest_step,
)
from crosslearning.theory.words import sentences

__all__ = [
    "Constants",
    "accuracy",
    "batch_for",
    "batch_for_gain",
    "best_step",
    "confidence",
    "effective_step",
    "gain",
    "iteration_bound",
    "largest_budget",
    "largest_step",
    "noise_floor",
    "printed_accuracy",
    "printed_gain",
    "printed_iteration_bound",
    "printed_largest_step",
    "pruning_loss",
    "sentences",
    "shift_gain",
    "simultaneous_error",
    "step_range",
]
