"""Small sweeps for the tests."""

from crosslearning.analysis.sweep import EpsilonPath, SweepRequest
from crosslearning.runs import make_config

#: Quick to learn, and yet the radii matter.
SETTINGS = {"step_size": 0.1, "max_knots": 15, "batch_size": 2}
EPSILONS = (0.0, 0.2, 0.5)


def small_request(**changes):
    """Return a request for three carts; fields of the run and of the path may be changed too."""
    run = {"tasks": "linear-quadratic", "iterations": 24, "log_every": 1, "checkpoint_every": 8}
    run |= SETTINGS
    path = {"epsilons": EPSILONS, "stage_iterations": 12, "origin": "previous"}
    own = {"trials": 8, "horizon": 10, "held_out": None}
    for name, value in changes.items():
        next((part for part in (path, own) if name in part), run)[name] = value
    return SweepRequest(make_config(run), EpsilonPath(iterations=run["iterations"], **path), **own)
