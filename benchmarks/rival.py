"""The rivals: agents of Stable-Baselines3 and its contrib package, as its zoo sets them, and MBPO.

An agent learns on one task or on several at once, one environment of each, and may observe the
context, the numbers in which its tasks differ. Settings are those of ``hyperparams/*.yml`` of
DLR-RM/rl-baselines3-zoo at commit 22e3ff2450fd, for the environment that is nearest;
:class:`Setting` says which, and what we changed.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import MissingExtraError
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: The bounds of actions that an agent is to use, low and high.
Reach = tuple[Sequence[float], Sequence[float]]

MISSING = (
    "Stable-Baselines3 is not installed, so that ours is measured alone. To measure its agents "
    "too: pip install torch --index-url https://download.pytorch.org/whl/cpu, then "
    "pip install 'crosslearning[bench,mujoco,box2d]'"
)


@dataclass(frozen=True)
class Setting:
    """What the zoo found for an environment.

    Attributes
    ----------
    entry : str
        The environment in the zoo's file.
    keywords : mapping
        Of the algorithm. A learning rate ``"lin_0.001"`` falls linearly to nothing.
    environments : int
        How many are stepped together (``n_envs``); a rollout of PPO's stays as long in all.
    normalised : bool
        Whether observations and rewards are normalised (``normalize``).
    changed : str
        What is not as in the zoo, and why.
    """

    entry: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    environments: int = 1
    normalised: bool = False
    changed: str = ""


_PPO_PENDULUM = {
    "n_steps": 1024,
    "gae_lambda": 0.95,
    "gamma": 0.9,
    "n_epochs": 10,
    "ent_coef": 0.0,
    "learning_rate": 1e-3,
    "clip_range": 0.2,
    "use_sde": True,
    "sde_sample_freq": 4,
}
_PPO_SWING_UP = {
    "n_steps": 2048,
    "batch_size": 64,
    "gae_lambda": 0.95,
    "gamma": 0.99,
    "n_epochs": 10,
    "ent_coef": 0.0,
    "learning_rate": 2.5e-4,
    "clip_range": 0.2,
}
_LANDER = {
    "batch_size": 256,
    "learning_rate": "lin_0.00073",
    "gamma": 0.99,
    "tau": 0.01,
    "policy_kwargs": {"net_arch": [400, 300]},
}
_BULLET = {
    "learning_rate": 7.3e-4,
    "buffer_size": 300_000,
    "batch_size": 256,
    "gamma": 0.98,
    "tau": 0.02,
    "use_sde": True,
    "policy_kwargs": {"log_std_init": -3.0, "net_arch": [400, 300]},
}
#: The pendulum's entry with many updates a step, which take less than half with such nets.
_MANY = {
    "learning_rate": 1e-3,
    "gradient_steps": 20,
    "policy_kwargs": {"net_arch": [128, 128]},
}
_MANY_CHANGED = "20 gradient steps after every step, not one; 128 units a layer, not 256"
_CROSSQ = {"policy_delay": 2, "policy_kwargs": {"net_arch": [256, 256]}}
_MBPO = {**_MANY, "learning_starts": 200, "refit": 200, "rollouts": 50, "look_ahead": 5}
_OWN = "not in the zoo; SAC as in the row of SAC with 20 updates a step"
_EARLY = "learning_starts is 1,000 in the place of 10,000, a large part of the steps there are"
_EACH = "a gradient step after every step, not eight after eight"
_NEAREST = "the zoo has no such environment; this is the nearest"
_PENDULUM = Setting("Pendulum-v1", {"learning_rate": 1e-3})
_LIKE_PENDULUM = Setting("Pendulum-v1", {"learning_rate": 1e-3}, changed=_NEAREST)

#: The second race, whose machines are held at set-points.
_HELD = "four-tanks", "dc-motors", "synchronous-motors", "patients"
_UNITS = "observations and rewards are normalised, as they come in all units"
_SMALL = {"learning_rate": 1e-3, "policy_kwargs": {"net_arch": [128, 128]}}
_SMALLER = f"{_NEAREST}; 128 units a layer, not 256, which take a third of the time; {_UNITS}"

#: By algorithm and family.
ZOO: dict[str, dict[str, Setting]] = {
    "ppo": {
        "pendulums": Setting("Pendulum-v1", _PPO_PENDULUM, environments=4),
        "cart-poles": Setting(
            "InvertedPendulumSwingupBulletEnv-v0", _PPO_SWING_UP, 8, True, _NEAREST
        ),
        "navigation": Setting(
            "Pendulum-v1", _PPO_PENDULUM, 4, True, f"{_NEAREST}; rewards are large, so normalised"
        ),
        "linear-quadratic": Setting("Pendulum-v1", _PPO_PENDULUM, 4, False, _NEAREST),
        "lunar-landers": Setting(
            "LunarLanderContinuous-v3",
            {
                "n_steps": 1024,
                "batch_size": 64,
                "gae_lambda": 0.98,
                "gamma": 0.999,
                "n_epochs": 4,
                "ent_coef": 0.01,
            },
            environments=16,
        ),
        "inverted-pendulums": Setting(
            "InvertedPendulum-v2",
            {
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
            normalised=True,
        ),
        "reachers": Setting(
            "Reacher-v2",
            {
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
            normalised=True,
        ),
    },
    "sac": {
        "pendulums": _PENDULUM,
        "cart-poles": _LIKE_PENDULUM,
        "navigation": _LIKE_PENDULUM,
        "linear-quadratic": _LIKE_PENDULUM,
        "lunar-landers": Setting(
            "LunarLanderContinuous-v3", {**_LANDER, "learning_starts": 1_000}, changed=_EARLY
        ),
        "reachers": Setting(
            "ReacherBulletEnv-v0",
            {**_BULLET, "learning_starts": 1_000},
            changed=f"{_EARLY}; {_EACH}",
        ),
    },
    "sac-bullet": {
        "cart-poles": Setting(
            "InvertedPendulumSwingupBulletEnv-v0",
            {**_BULLET, "learning_starts": 1_000},
            changed=f"{_NEAREST}; {_EARLY}; {_EACH}",
        ),
    },
    "sac20": {
        "pendulums": Setting("Pendulum-v1", _MANY, changed=_MANY_CHANGED),
        "cart-poles": Setting("Pendulum-v1", _MANY, changed=f"{_NEAREST}; {_MANY_CHANGED}"),
    },
    "crossq": {
        "pendulums": Setting("Pendulum-v1", _CROSSQ),
        "cart-poles": Setting("Pendulum-v1", _CROSSQ, changed=_NEAREST),
    },
    "mbpo": {
        "pendulums": Setting("", _MBPO, changed=_OWN),
        "cart-poles": Setting("", _MBPO, changed=_OWN),
    },
    "tqc": {
        "pendulums": _PENDULUM,
        "cart-poles": _LIKE_PENDULUM,
        "lunar-landers": Setting(
            "LunarLanderContinuous-v3", {**_LANDER, "learning_starts": 1_000}, changed=_EARLY
        ),
    },
}
for _algorithm_name, _setting in (
    ("sac", Setting("Pendulum-v1", _SMALL, normalised=True, changed=_SMALLER)),
    ("ppo", Setting("Pendulum-v1", _PPO_PENDULUM, 4, True, f"{_NEAREST}; {_UNITS}")),
):
    ZOO[_algorithm_name] |= dict.fromkeys(_HELD, _setting)


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

    def less(self, other: Seconds) -> Seconds:
        """Return the difference of two."""
        return Seconds(self.clock - other.clock, self.processor - other.processor)


class Agent:
    """What was learned, as something that acts; observations are scaled as in learning.

    Parameters
    ----------
    model : BaseAlgorithm
        Of Stable-Baselines3.
    scaling : VecNormalize, optional
    reach : pair of sequences of float, optional
        What its actions −1 and 1 stand for; by default they are the tasks' own.
    context : sequence of float
        Appended to every observation.
    """

    def __init__(
        self, model: Any, scaling: Any, reach: Reach | None = None, context: Sequence[float] = ()
    ) -> None:
        self.model, self.scaling, self.reach, self.context = model, scaling, reach, context

    def with_context(self, context: Sequence[float]) -> Agent:
        """Return the same agent for another context."""
        return Agent(self.model, self.scaling, self.reach, context)

    def predict_rows(self, observations: Floats) -> Floats:
        """Return an action for each row of observations."""
        return np.asarray(self.predict(observations)[0])

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Return the action, as Stable-Baselines3 does; for rows of observations, one each."""
        seen = _with_context(np.asarray(observation, dtype=np.float64), self.context)
        if self.scaling is not None:
            seen = self.scaling.normalize_obs(seen)
        action, state = self.model.predict(seen, deterministic=deterministic)
        return (action if self.reach is None else _reaching(self.reach, action)), state


def installed() -> bool:
    """Return whether Stable-Baselines3 is there."""
    return importlib.util.find_spec("stable_baselines3") is not None


def learn(
    algorithm: str,
    tasks: Sequence[Task],
    steps: int,
    seed: int,
    setting: Setting,
    *,
    contexts: Sequence[Sequence[float]] | None = None,
    reach: Reach | None = None,
    marks: Sequence[int] = (),
    look: Callable[[Agent, int, Seconds], object] | None = None,
) -> tuple[Agent, Seconds]:
    """Learn one agent on all the tasks, one environment of each, and time the learning.

    Parameters
    ----------
    algorithm : str
        Of :data:`ZOO`.
    steps : int
        Environment steps over all tasks.
    contexts : sequence of sequences of float, optional
        Of every task, if the agent observes them.
    reach : pair of sequences of float, optional
        Bounds of the actions that it uses, where those of the tasks do not suit it.
    marks, look : sequence of int and callable
        ``look(agent, steps, seconds)`` is called after each of so many steps; its time is free.
    """
    try:
        import torch
        from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

        kind = _algorithm(algorithm)
    except ImportError as problem:
        raise MissingExtraError(MISSING) from problem
    torch.set_num_threads(1)
    copies = max(1, setting.environments // len(tasks))
    makers = [
        functools.partial(_environment, task, contexts[i] if contexts else (), reach)
        for _ in range(copies)
        for i, task in enumerate(tasks)
    ]
    environments: Any = DummyVecEnv(makers)
    keywords = _keywords(algorithm, setting, len(makers))
    if algorithm == "mbpo" and contexts:
        keywords["constant"] = len(contexts[0])
    scaling = None
    if setting.normalised:
        scaling = environments = VecNormalize(environments, gamma=keywords.get("gamma", 0.99))
    model = kind("MlpPolicy", environments, seed=seed, device="cpu", **keywords)
    agent = Agent(model, scaling, reach)
    watch = _watch(agent, steps, marks, look)
    start = Seconds.now()
    model.learn(steps, callback=watch)
    spent = Seconds.since(start).less(watch.free)
    watch.finish(spent)
    if scaling is not None:
        scaling.training = False
    return agent, spent


def _algorithm(name: str) -> Any:
    if name == "mbpo":
        from benchmarks.model_based_rival import MBPO

        return MBPO
    import sb3_contrib
    import stable_baselines3

    return {
        "ppo": stable_baselines3.PPO,
        "sac": stable_baselines3.SAC,
        "sac-bullet": stable_baselines3.SAC,
        "sac20": stable_baselines3.SAC,
        "crossq": sb3_contrib.CrossQ,
        "tqc": sb3_contrib.TQC,
    }[name]


def _keywords(algorithm: str, setting: Setting, environments: int) -> dict[str, Any]:
    """Return the keywords of an algorithm that has so many environments."""
    # Stable-Baselines3 writes into what it is given.
    keywords = copy.deepcopy(dict(setting.keywords))
    if algorithm == "ppo":
        steps = setting.environments * keywords["n_steps"] // environments
        batch = keywords.get("batch_size", 64)
        # Whole batches, or the last of every epoch is a short one.
        steps = steps - steps % batch if steps > batch else max(2, steps)
        # A batch cannot hold more than there is: the same as in the zoo, without its warning.
        keywords |= {"n_steps": steps, "batch_size": min(batch, steps * environments)}
    else:
        # So many gradient steps for each step, however many environments take them together.
        updates = keywords.get("gradient_steps", 1) * environments
        keywords |= {"train_freq": 1, "gradient_steps": updates}
    if keywords.get("policy_kwargs", {}).get("activation_fn") == "relu":
        from torch.nn import ReLU

        keywords["policy_kwargs"]["activation_fn"] = ReLU
    rate = keywords.get("learning_rate")
    if isinstance(rate, str):
        most = float(rate.removeprefix("lin_"))
        keywords["learning_rate"] = lambda remaining: most * remaining
    return keywords


def _environment(task: Task, context: Sequence[float], reach: Reach | None) -> Any:
    """Return an environment with a time limit, as an agent is to see it."""
    environment: Any = gymnasium.wrappers.TimeLimit(task.make(), task.horizon)
    if context:
        space = environment.observation_space
        ones = np.ones(len(context))
        bounds = np.concatenate([space.low, -ones]), np.concatenate([space.high, ones])
        seen = gymnasium.spaces.Box(*bounds, dtype=np.float64)
        append = functools.partial(_with_context, context=context)
        environment = gymnasium.wrappers.TransformObservation(environment, append, seen)
    if reach is not None:
        box = gymnasium.spaces.Box(-1.0, 1.0, environment.action_space.shape, np.float32)
        moved = functools.partial(_reaching, reach)
        environment = gymnasium.wrappers.TransformAction(environment, moved, box)
    return environment


def _with_context(observation: Floats, context: Sequence[float]) -> Floats:
    """Return an observation, or rows of them, with the context appended."""
    if not len(context):
        return observation
    return np.concatenate(
        [observation, np.broadcast_to(context, (*observation.shape[:-1], len(context)))], axis=-1
    )


def _reaching(reach: Reach, action: Any) -> Floats:
    """Return what an action in [−1, 1] stands for."""
    low, high = np.asarray(reach[0], dtype=np.float64), np.asarray(reach[1], dtype=np.float64)
    return np.asarray(low + 0.5 * (np.asarray(action, dtype=np.float64) + 1.0) * (high - low))


def _watch(agent: Agent, steps: int, marks: Sequence[int], look: Any) -> Any:
    """Return the callback that looks at the agent after so many steps, with its time apart."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.waiting, self.free = sorted(marks), Seconds(0.0, 0.0)

        def _on_training_start(self) -> None:
            self.begun = Seconds.now()

        def _on_step(self) -> bool:
            # The last mark waits for what is learned from the last steps.
            if self.waiting and self.waiting[0] < steps and self.num_timesteps >= self.waiting[0]:
                self._look(Seconds.since(self.begun).less(self.free))
            return True

        def finish(self, spent: Seconds) -> None:
            """Look at what was learned in all, if that is still to be done."""
            if self.waiting:
                self._look(spent)

        def _look(self, spent: Seconds) -> None:
            start = Seconds.now()
            if agent.scaling is not None:
                agent.scaling.training = False
            look(agent, self.num_timesteps, spent)
            if agent.scaling is not None:
                agent.scaling.training = True
            self.waiting = [mark for mark in self.waiting if mark > self.num_timesteps]
            took = Seconds.since(start)
            self.free = Seconds(self.free.clock + took.clock, self.free.processor + took.processor)

    return Watch()
