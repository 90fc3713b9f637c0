"""Rollouts: plans that hold all randomness, and executors that run them."""

from crosslearning.rollouts.choice import executor_for
from crosslearning.rollouts.compiled_executor import CompiledExecutor
from crosslearning.rollouts.data import ActionScale, Episodes, Noise, Samples
from crosslearning.rollouts.executor import Executor
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor, episodes_of, within
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
