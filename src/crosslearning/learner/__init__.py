"""The learner: Algorithm 2, its methods, its settings and its policies."""

from typing import TYPE_CHECKING

from crosslearning._base.lazy import lazy_exports

if TYPE_CHECKING:
    from crosslearning.learner.core import GapCheck, IterationReport
    from crosslearning.learner.cross_learner import CrossLearner
    from crosslearning.learner.policy import Policy
    from crosslearning.learner.settings import LearnerSettings
    from crosslearning.learner.user_input import make_settings

__all__ = [
    "CrossLearner",
    "GapCheck",
    "IterationReport",
    "LearnerSettings",
    "Policy",
    "make_settings",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "CrossLearner": "crosslearning.learner.cross_learner",
        "GapCheck": "crosslearning.learner.core",
        "IterationReport": "crosslearning.learner.core",
        "LearnerSettings": "crosslearning.learner.settings",
        "Policy": "crosslearning.learner.policy",
        "make_settings": "crosslearning.learner.user_input",
    },
)
