"""Rollouts: plans that hold all randomness, and executors that run them."""

from typing import TYPE_CHECKING

from crosslearning._base.lazy import lazy_exports
from crosslearning.rollouts.data import ActionScale, Episodes, Noise, Samples, within

if TYPE_CHECKING:
    from crosslearning.rollouts.backends import executor_for
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

# A policy can be scaled and clipped without a compiler or an environment.
_HOMES = {
    "backends": ("executor_for",),
    "compiled_executor": ("CompiledExecutor",),
    "executor": ("Executor",),
    "gymnasium_executor": ("GymnasiumExecutor", "episodes_of"),
    "plan": ("EpisodePlan", "SamplePlan", "plan_episodes", "plan_samples"),
}
__getattr__ = lazy_exports(
    __name__, {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
)
