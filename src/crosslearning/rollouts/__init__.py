"""Rollouts: plans that hold all randomness, and executors that run them."""

from crosslearning.rollouts.executors import (
    CompiledExecutor,
    Executor,
    compiled_episodes,
    executor_for,
)
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor, gymnasium_episodes
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan, plan_episodes, plan_samples
from crosslearning.rollouts.samples import Episodes, Samples

__all__ = [
    "CompiledExecutor",
    "EpisodePlan",
    "Episodes",
    "Executor",
    "GymnasiumExecutor",
    "SamplePlan",
    "Samples",
    "compiled_episodes",
    "executor_for",
    "gymnasium_episodes",
    "plan_episodes",
    "plan_samples",
]
