"""The learner: Algorithm 2, its settings and its policies."""

from crosslearning.learner.cross_learner import CrossLearner, make_settings
from crosslearning.learner.policy import Policy
from crosslearning.learner.report import GapCheck, IterationReport
from crosslearning.learner.settings import LearnerSettings

__all__ = [
    "CrossLearner",
    "GapCheck",
    "IterationReport",
    "LearnerSettings",
    "Policy",
    "make_settings",
]
