"""The learner: Algorithm 2, its settings and its policies."""

from crosslearning.learner.cross_learner import CrossLearner, make_settings
from crosslearning.learner.policy import Policy
from crosslearning.learner.report import IterationReport
from crosslearning.learner.settings import LearnerSettings

__all__ = ["CrossLearner", "IterationReport", "LearnerSettings", "Policy", "make_settings"]
