"""The settings of learning; the text beside a field is its documentation.

``LearnerSettings`` has the fields that all methods share, and a class for each method adds its own;
:data:`METHODS` lists them. NumPy is not imported here, so that help is shown at once.
"""

from crosslearning.learner.settings.model_based import ModelBased
from crosslearning.learner.settings.policy_gradient import PolicyGradient
from crosslearning.learner.settings.shared import (
    EACH,
    FILE_KIND,
    FILE_VERSION,
    METHODS,
    USUAL_EPSILON,
    Count,
    InitialExploration,
    LearnerSettings,
    MethodName,
)
from crosslearning.learner.settings.trust_region import TrustRegion

METHODS |= {
    "policy-gradient": PolicyGradient,
    "trust-region": TrustRegion,
    "models": ModelBased,
}

__all__ = [
    "EACH",
    "FILE_KIND",
    "FILE_VERSION",
    "METHODS",
    "USUAL_EPSILON",
    "Count",
    "InitialExploration",
    "LearnerSettings",
    "MethodName",
    "ModelBased",
    "PolicyGradient",
    "TrustRegion",
]
