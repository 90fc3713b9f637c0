"""Multi-task reinforcement learning with kernel policies."""

from crosslearning.learner import CrossLearner, IterationReport, LearnerSettings, Policy
from crosslearning.tasks import Task, task_set

__version__ = "0.1.0"

__all__ = [
    "CrossLearner",
    "IterationReport",
    "LearnerSettings",
    "Policy",
    "Task",
    "__version__",
    "task_set",
]
