"""Environments in Python: what it costs to run them beside their own stepping."""

from __future__ import annotations

import functools

import gymnasium
import numpy as np

from benchmarks.table import Row
from benchmarks.timing import human, in_turns
from crosslearning import CrossLearner, Task
from crosslearning.rollouts import GymnasiumExecutor, plan_episodes

EPISODES, STEPS = 20, 100


def lock_step() -> list[Row]:
    """Time episodes in lock-step against the same steps alone plus the batched evaluations."""
    tasks = [
        Task(f"g={g:g}", functools.partial(gymnasium.make, "Pendulum-v1", g=g))
        for g in (8.0, 10.0, 12.0)
    ]
    learner = CrossLearner(tasks, 1.0, max_knots=100).learn(20)
    policies = learner._core.iterate.policies
    executor = GymnasiumExecutor(tasks)
    plan = plan_episodes(np.random.default_rng(0), tasks, EPISODES, STEPS)
    result = executor.episodes(policies, plan)
    environments = [task.make() for task in tasks]
    actions = np.clip(result.actions, -2.0, 2.0).astype(np.float32)

    def alone() -> None:
        for i, environment in enumerate(environments):
            for e in range(EPISODES):
                environment.reset(seed=int(plan.seeds[i, e]))
                for action in actions[i, e]:
                    environment.step(action)

    seen = result.observations[:, :, :-1].reshape(-1, STEPS, 3).transpose(1, 0, 2).copy()
    which = np.repeat(np.arange(3), EPISODES)

    def evaluations() -> None:
        for batch in seen:
            policies.each(batch, which)

    def together() -> None:
        executor.episodes(policies, plan)

    ours, stepping, evaluating = in_turns(together, alone, evaluations, rounds=9)
    ratio, n = ours / (stepping + evaluating), result.lengths.sum()
    return [
        Row(
            "a step of Pendulum-v1, 60 environments in lock-step, 100 knots",
            f"{human(ours / n)} / ({human(stepping / n)} alone + {human(evaluating / n)} batched)",
            ratio,
            "≤ 1.5",
            ratio <= 1.5,
        )
    ]


def acting() -> list[Row]:
    """Time one action of a policy against the bare evaluation of its function."""
    learner = CrossLearner("pendulums:3", 1.0, max_knots=100).learn(50)
    policy, observation = learner.policy(0), np.zeros(3)
    expansion = policy.function.expansion
    ours, bare = in_turns(
        lambda: [policy.predict(observation) for _ in range(500)],
        lambda: expansion(np.zeros((500, 3))),
        rounds=20,
    )
    return [
        Row(
            "predict, 100 knots, beside its share of a batch",
            f"{human(ours / 500)} / {human(bare / 500)}",
            ours / bare,
            "",
            None,
        )
    ]


BENCHMARKS = [lock_step, acting]
