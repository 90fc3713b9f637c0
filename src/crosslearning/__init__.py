"""Multi-task reinforcement learning with kernel policies."""

import os
from typing import TYPE_CHECKING

from crosslearning._base.lazy import lazy_exports
from crosslearning._base.moved import install

if TYPE_CHECKING:
    from crosslearning.analysis.comparison import compare
    from crosslearning.analysis.identification import identify
    from crosslearning.analysis.logged import learn_from
    from crosslearning.analysis.verdict import verdict
    from crosslearning.learner import CrossLearner, IterationReport, LearnerSettings, Policy
    from crosslearning.learner.callbacks import EvaluationCallback
    from crosslearning.learner.evaluation import evaluate
    from crosslearning.learner.settings import ModelBased, PolicyGradient, TrustRegion
    from crosslearning.tasks import Task, check_task, register_task_set, task_set
    from crosslearning.tasks.controllers import PID, Constant, StateFeedback

__version__ = "0.3.0"

# Numba reads a file .numba_config.yaml in the working folder. It may not say where compiled code is
# cached, since that is unpickled.
os.environ.setdefault("NUMBA_CACHE_DIR", "")
os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", "")

__all__ = [
    "PID",
    "Constant",
    "CrossLearner",
    "EvaluationCallback",
    "IterationReport",
    "LearnerSettings",
    "ModelBased",
    "Policy",
    "PolicyGradient",
    "StateFeedback",
    "Task",
    "TrustRegion",
    "__version__",
    "check_task",
    "compare",
    "evaluate",
    "identify",
    "learn_from",
    "register_task_set",
    "task_set",
    "verdict",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "PID": "crosslearning.tasks.controllers",
        "Constant": "crosslearning.tasks.controllers",
        "CrossLearner": "crosslearning.learner",
        "EvaluationCallback": "crosslearning.learner.callbacks",
        "IterationReport": "crosslearning.learner",
        "LearnerSettings": "crosslearning.learner",
        "ModelBased": "crosslearning.learner.settings",
        "Policy": "crosslearning.learner",
        "PolicyGradient": "crosslearning.learner.settings",
        "StateFeedback": "crosslearning.tasks.controllers",
        "Task": "crosslearning.tasks",
        "TrustRegion": "crosslearning.learner.settings",
        "check_task": "crosslearning.tasks",
        "compare": "crosslearning.analysis.comparison",
        "evaluate": "crosslearning.learner.evaluation",
        "identify": "crosslearning.analysis.identification",
        "learn_from": "crosslearning.analysis.logged",
        "register_task_set": "crosslearning.tasks",
        "task_set": "crosslearning.tasks",
        "verdict": "crosslearning.analysis.verdict",
    },
)

install()
