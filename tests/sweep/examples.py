"""Small sweeps for the tests."""

from crosslearning.runs import make_config
from crosslearning.sweep import SweepRequest

#: Quick to learn, and yet the radii matter.
SETTINGS = {"step_size": 0.1, "max_knots": 15, "batch_size": 2}
EPSILONS = (0.0, 0.2, 0.5)


def small_request(**changes):
    """Return a request for three carts; fields of the run may be changed too."""
    run = {"tasks": "linear-quadratic", "iterations": 24, "log_every": 1, "checkpoint_every": 8}
    run |= SETTINGS
    own = {"epsilons": EPSILONS, "stage_iterations": 12, "trials": 8, "steps": 10}
    for name, value in changes.items():
        (own if name in (*own, "held_out", "origin") else run)[name] = value
    return SweepRequest(make_config(run), **own)


def one_after_another(function, calls, workers, console, label, total=None, completed=None):
    """Do in this process what ``in_processes`` does in others."""
    return all(function(*call) is not False for call in calls)
