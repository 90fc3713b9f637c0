"""Rollouts: plans that hold all randomness, and executors that run them."""

from typing import TYPE_CHECKING

from crosslearning._base.lazy import lazy_exports
from crosslearning.rollouts.data import ActionScale, Episodes, Noise, Samples, within

if TYPE_CHECKING:
    from crosslearning.rollouts.choice import executor_for
    from crosslearning.rollouts.compiled_executor import CompiledExecutor
    from crosslearning.rollouts.executor import Executor
    from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor, episodes_of
    from crosslearning.rollouts.plan import EpisodePlan, SamplePlan, plan_episodes, plan_samples

__all__ = [
    "ActionScale",
    "CompiledExecutor",
    "EpisodePlan",
    "Episodes",
    "Executor",
    "GymnasiumExecutor",
    "Noise",
    "SamplePlan",
    "Samples",
    "episodes_of",
    "executor_for",
    "plan_episodes",
    "plan_samples",
    "within",
]

# A policy is scaled and clipped as rollouts do it, where there is neither compiler nor environment.
__getattr__ = lazy_exports(
    __name__,
    {
        "CompiledExecutor": "crosslearning.rollouts.compiled_executor",
        "EpisodePlan": "crosslearning.rollouts.plan",
        "Executor": "crosslearning.rollouts.executor",
        "GymnasiumExecutor": "crosslearning.rollouts.gymnasium_executor",
        "SamplePlan": "crosslearning.rollouts.plan",
        "episodes_of": "crosslearning.rollouts.gymnasium_executor",
        "executor_for": "crosslearning.rollouts.choice",
        "plan_episodes": "crosslearning.rollouts.plan",
        "plan_samples": "crosslearning.rollouts.plan",
    },
)
