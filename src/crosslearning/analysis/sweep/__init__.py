"""Sweeps over ε, from consensus to separate tasks, and the choice of a radius."""

from crosslearning.analysis.sweep.stages import EpsilonPath, read_epsilons
from crosslearning.analysis.sweep.study import SweepRequest, epsilon_path, held_out_tasks, run_sweep
from crosslearning.analysis.sweep.summary import Recommendation, Sweep

__all__ = [
    "EpsilonPath",
    "Recommendation",
    "Sweep",
    "SweepRequest",
    "epsilon_path",
    "held_out_tasks",
    "read_epsilons",
    "run_sweep",
]
