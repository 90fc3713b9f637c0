"""The ε-path: one family after another, from consensus to every task alone."""

from crosslearning.sweep.folders import run_sweep
from crosslearning.sweep.path import PathOptions, epsilon_path
from crosslearning.sweep.request import SweepRequest, held_out_tasks
from crosslearning.sweep.stages import EpsilonPath, read_epsilons
from crosslearning.sweep.summary import Recommendation, Sweep

__all__ = [
    "EpsilonPath",
    "PathOptions",
    "Recommendation",
    "Sweep",
    "SweepRequest",
    "epsilon_path",
    "held_out_tasks",
    "read_epsilons",
    "run_sweep",
]
