"""Certificates: what is known about a trained learner, in numbers with intervals."""

from crosslearning.certificates.constants import KINDS, TaskConstants, estimate_constants
from crosslearning.certificates.stationarity import StationarityGap, stationarity_gaps

__all__ = [
    "KINDS",
    "StationarityGap",
    "TaskConstants",
    "estimate_constants",
    "stationarity_gaps",
]
