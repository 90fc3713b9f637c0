"""Multi-task reinforcement learning with kernel policies."""

from typing import TYPE_CHECKING

from crosslearning.lazy import lazy_exports

if TYPE_CHECKING:
    from crosslearning.identification import identify
    from crosslearning.learner import CrossLearner, IterationReport, LearnerSettings, Policy
    from crosslearning.logged import learn_from
    from crosslearning.monitoring import EvaluationCallback
    from crosslearning.tasks import Task, task_set

__version__ = "0.3.0"

__all__ = [
    "CrossLearner",
    "EvaluationCallback",
    "IterationReport",
    "LearnerSettings",
    "Policy",
    "Task",
    "__version__",
    "identify",
    "learn_from",
    "task_set",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "CrossLearner": "crosslearning.learner",
        "EvaluationCallback": "crosslearning.monitoring",
        "IterationReport": "crosslearning.learner",
        "LearnerSettings": "crosslearning.learner",
        "Policy": "crosslearning.learner",
        "Task": "crosslearning.tasks",
        "identify": "crosslearning.identification",
        "learn_from": "crosslearning.logged",
        "task_set": "crosslearning.tasks",
    },
)
