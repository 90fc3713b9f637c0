"""Multi-task reinforcement learning with kernel policies."""

import os
from typing import TYPE_CHECKING

from crosslearning._base.lazy import lazy_exports

if TYPE_CHECKING:
    from crosslearning.analysis.identification import identify
    from crosslearning.analysis.logged import learn_from
    from crosslearning.learner import CrossLearner, IterationReport, LearnerSettings, Policy
    from crosslearning.learner.callbacks import EvaluationCallback
    from crosslearning.tasks import Task, task_set

__version__ = "0.3.0"

# Numba reads a file .numba_config.yaml in the working folder. It may not say where compiled code is
# cached, since that is unpickled.
os.environ.setdefault("NUMBA_CACHE_DIR", "")
os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", "")

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
        "EvaluationCallback": "crosslearning.learner.callbacks",
        "IterationReport": "crosslearning.learner",
        "LearnerSettings": "crosslearning.learner",
        "Policy": "crosslearning.learner",
        "Task": "crosslearning.tasks",
        "identify": "crosslearning.analysis.identification",
        "learn_from": "crosslearning.analysis.logged",
        "task_set": "crosslearning.tasks",
    },
)
