"""Learning from logged episodes alone, without an environment."""

from crosslearning.analysis.logged.description import LogDescription, describe_log
from crosslearning.analysis.logged.formats import read_recording
from crosslearning.analysis.logged.learning import learn_from, out_of_data_fraction

__all__ = [
    "LogDescription",
    "describe_log",
    "learn_from",
    "out_of_data_fraction",
    "read_recording",
]
