"""The ε-path: one family after another, from consensus to every task alone."""

from crosslearning.sweep.folders import SweepRequest, run_sweep
from crosslearning.sweep.measure import held_out_tasks
from crosslearning.sweep.path import epsilon_path
from crosslearning.sweep.stages import EpsilonPath, read_epsilons
from crosslearning.sweep.summary import Recommendation, Sweep

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
