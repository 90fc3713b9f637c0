"""The ε-path: one family after another, from consensus to every task alone."""

from crosslearning.analysis.sweep.folders import SweepRequest, run_sweep
from crosslearning.analysis.sweep.measure import held_out_tasks
from crosslearning.analysis.sweep.path import epsilon_path
from crosslearning.analysis.sweep.stages import EpsilonPath, read_epsilons
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
