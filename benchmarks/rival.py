"""The rival: PPO of Stable-Baselines3, with the settings that its own zoo found for a machine.

The numbers are those of ``hyperparams/ppo.yml`` of DLR-RM/rl-baselines3-zoo at commit 00128b5d46d4,
entries ``InvertedPendulum-v3`` and ``Reacher-v2``; both say ``normalize: true`` and ``n_envs: 1``.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from crosslearning.tasks import Task

#: Settings by the family's name; those of the zoo.
ZOO: dict[str, dict[str, Any]] = {
    "inverted-pendulums": {
        "batch_size": 64,
        "n_steps": 32,
        "gamma": 0.999,
        "learning_rate": 0.000222425,
        "ent_coef": 1.37976e-07,
        "clip_range": 0.4,
        "n_epochs": 5,
        "gae_lambda": 0.9,
        "max_grad_norm": 0.3,
        "vf_coef": 0.19816,
    },
    "reachers": {
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.9,
        "learning_rate": 0.000104019,
        "ent_coef": 7.52585e-08,
        "clip_range": 0.3,
        "n_epochs": 5,
        "gae_lambda": 1.0,
        "max_grad_norm": 0.9,
        "vf_coef": 0.950368,
    },
}
MISSING = (
    "Stable-Baselines3 is not installed, so that ours is measured alone. To measure PPO too: "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu, then "
    "pip install 'crosslearning[bench,mujoco]'"
)


class Seconds(NamedTuple):
    """What something took: on the clock, and of this process's processor time."""

    clock: float
    processor: float

    @classmethod
    def now(cls) -> Seconds:
        """Return where both stand."""
        return cls(time.perf_counter(), time.process_time())

    @classmethod
    def since(cls, start: Seconds) -> Seconds:
        """Return what has passed."""
        now = cls.now()
        return cls(now.clock - start.clock, now.processor - start.processor)


class Agent:
    """What PPO learned, as something that acts; observations are scaled as in learning."""

    def __init__(self, model: Any, scaling: Any) -> None:
        self.model, self.scaling = model, scaling

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Return the action, as Stable-Baselines3 does."""
        return self.model.predict(
            self.scaling.normalize_obs(observation), deterministic=deterministic
        )


def installed() -> bool:
    """Return whether Stable-Baselines3 is there."""
    return importlib.util.find_spec("stable_baselines3") is not None


def ppo(
    tasks: Sequence[Task], steps: int, seed: int, settings: dict[str, Any]
) -> tuple[Agent, Seconds]:
    """Learn one agent on all the tasks, one environment of each, and time the learning."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    scaling = VecNormalize(DummyVecEnv([task.make for task in tasks]), gamma=settings["gamma"])
    model = PPO("MlpPolicy", scaling, seed=seed, device="cpu", **settings)
    start = Seconds.now()
    model.learn(steps)
    spent = Seconds.since(start)
    scaling.training = False
    return Agent(model, scaling), spent
