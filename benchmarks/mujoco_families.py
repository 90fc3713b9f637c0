"""The trust region on hard families of MuJoCo, beside PPO and SAC at equal steps and equal time.

``python -m benchmarks.mujoco_families [family ...]`` learns three machines of each family, whose
torso (or first pole) has 0.8, 1 and 1.25 times its mass, with the defaults. PPO learns one agent
for each machine with an equal share of the steps; it is evaluated there, and where it had used as
much processor time as ours for a machine. SAC stops at that time. Settings are those of
``hyperparams/*.yml`` of DLR-RM/rl-baselines3-zoo at commit 22e3ff2450fd. All have one thread.

Every policy acts without noise on its own machine. Every seed is kept in a file, and the same
question is not measured twice. Needs the extras ``bench`` and ``mujoco``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks import rival
from benchmarks.intervals import over_seeds
from benchmarks.rival import Seconds, Setting
from benchmarks.seeds import answers, print_parts
from benchmarks.table import Row
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner, Task

Answer = dict[str, Any]

OUT = Path("runs/mujoco-families")
VERSION = 1
SEEDS, STEPS, TRIALS = 3, 150_000, 10
MASSES = (0.8, 1.0, 1.25)
_WIDE = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": "relu",
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
#: PPO's keywords and environments by family; where the zoo has none, those of the nearest.
PPO = {
    "half-cheetahs": Setting(
        "HalfCheetah-v4",
        {
            "batch_size": 64,
            "n_steps": 512,
            "gamma": 0.98,
            "learning_rate": 2.0633e-05,
            "ent_coef": 0.000401762,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.92,
            "max_grad_norm": 0.8,
            "vf_coef": 0.58096,
            "policy_kwargs": _WIDE,
        },
        normalised=True,
    ),
    "hoppers": Setting(
        "Hopper-v4",
        {
            "batch_size": 32,
            "n_steps": 512,
            "gamma": 0.999,
            "learning_rate": 9.80828e-05,
            "ent_coef": 0.00229519,
            "clip_range": 0.2,
            "n_epochs": 5,
            "gae_lambda": 0.99,
            "max_grad_norm": 0.7,
            "vf_coef": 0.835671,
            "policy_kwargs": _WIDE,
        },
        normalised=True,
    ),
    "walkers": Setting(
        "Walker2d-v4",
        {
            "batch_size": 32,
            "n_steps": 512,
            "gamma": 0.99,
            "learning_rate": 5.05041e-05,
            "ent_coef": 0.000585045,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.95,
            "max_grad_norm": 1.0,
            "vf_coef": 0.871923,
        },
        normalised=True,
    ),
    "swimmers": Setting(
        "Swimmer-v4",
        {
            "gamma": 0.9999,
            "n_steps": 1024,
            "batch_size": 256,
            "learning_rate": 6e-4,
            "gae_lambda": 0.98,
        },
        environments=4,
        normalised=True,
    ),
    "inverted-double-pendulums": Setting(
        "InvertedDoublePendulum-v2",
        {
            "batch_size": 512,
            "n_steps": 128,
            "gamma": 0.98,
            "learning_rate": 0.000155454,
            "ent_coef": 1.05057e-06,
            "clip_range": 0.4,
            "n_epochs": 10,
            "gae_lambda": 0.8,
            "max_grad_norm": 0.5,
            "vf_coef": 0.695929,
        },
        normalised=True,
    ),
}
#: The zoo's SAC for MuJoCo differs from the defaults in the steps before learning alone.
SAC = {family: Setting("HalfCheetah-v4", {"learning_starts": 10_000}) for family in PPO}
SAC["swimmers"] = Setting("Swimmer-v4", {"learning_starts": 10_000, "gamma": 0.999})
ENVIRONMENTS = {
    "half-cheetahs": "HalfCheetah-v5",
    "hoppers": "Hopper-v5",
    "walkers": "Walker2d-v5",
    "swimmers": "Swimmer-v5",
    "inverted-double-pendulums": "InvertedDoublePendulum-v5",
}


def machine(name: str, mass: float, render_mode: str | None = None) -> Any:
    """Return an environment whose torso, or first pole, is heavier."""
    environment = gymnasium.make(name, render_mode=render_mode)
    model = environment.unwrapped.model  # type: ignore[attr-defined]
    body = 2 if name.startswith("InvertedDouble") else 1  # the first there is the cart
    model.body_mass[body] *= mass
    model.body_inertia[body] *= mass
    return environment


class OutOfTimeError(Exception):
    """An agent has used its time."""


def ppo(family: str, task: Task, seed: int, share: int, most: float) -> tuple[float, float, float]:
    """Return its return at the end and after ``most`` seconds, and the seconds that it took."""
    then: list[float] = []

    def look(agent: Any, steps: int, used: Seconds) -> None:
        if used.processor >= most and not then:
            then.append(_return(agent, task))

    how = {"marks": range(0, share, share // 100), "look": look}
    agent, took = rival.learn("ppo", [task], share, seed, PPO[family], **how)  # type: ignore[arg-type]
    last = _return(agent, task)
    return last, then[0] if then else last, took.processor


def sac(family: str, task: Task, seed: int, share: int, most: float) -> tuple[float, int]:
    """Return its return after ``most`` seconds, or all its steps, and the steps that it took."""
    kept: tuple[Any, int] = (None, 0)

    def look(agent: Any, steps: int, used: Seconds) -> None:
        nonlocal kept
        kept = agent, steps
        if used.processor >= most:
            raise OutOfTimeError

    marks = [*range(0, share, share // 100), share]
    with suppress(OutOfTimeError):
        rival.learn("sac", [task], share, seed, SAC[family], marks=marks, look=look)
    return _return(kept[0], task), kept[1]


def _return(agent: Any, task: Task) -> float:
    return float(returns_of([agent], [task], TRIALS)["totals"][0])


def measure(seed: int, family: str, settings: Answer) -> Answer:
    """Return the mean return on every machine, and what it took, of all that learn."""
    name = ENVIRONMENTS[family]
    tasks = [Task(f"mass {mass:g}", partial(machine, name, mass)) for mass in MASSES]
    start = Seconds.now()
    learner = CrossLearner(tasks, method="trust-region", seed=seed, on="threads", **settings)
    learner.learn(steps=STEPS, progress=False)
    spent = Seconds.since(start)
    policies = [learner.policy(i) for i in range(len(tasks))]
    result: Answer = {
        "ours": returns_of(policies, tasks, TRIALS)["totals"],
        "seconds": list(spent),
        "ppo": [],
        "ppo_seconds": [],
        "ppo_at_time": [],
        "sac_at_time": [],
        "sac_steps": [],
    }
    if not rival.installed():
        return result
    each, share = spent.processor / len(tasks), STEPS // len(tasks)
    for task in tasks:
        last, then, seconds = ppo(family, task, seed, share, each)
        value, steps = sac(family, task, seed, share, each)
        result["ppo"].append(last)
        result["ppo_at_time"].append(then)
        result["ppo_seconds"].append(seconds)
        result["sac_at_time"].append(value)
        result["sac_steps"].append(steps)
    return result


def family_rows(family: str, seeds: int, settings: Answer, out: Path) -> list[Row]:
    """Return the rows of a family."""
    label = "-".join([family, *(f"{k}={v}" for k, v in sorted(settings.items()))])
    question = {"version": VERSION, "steps": STEPS, "settings": settings}
    found = answers(out / label, seeds or SEEDS, question, measure, family, settings)
    rows = []
    for what, key in (
        ("trust region", "ours"),
        ("PPO, equal steps", "ppo"),
        ("PPO, equal time", "ppo_at_time"),
        ("SAC, equal time", "sac_at_time"),
    ):
        if not found[0][key]:
            continue
        totals = np.array([one[key] for one in found])
        mean, worst = over_seeds(totals.mean(axis=1)), over_seeds(totals.min(axis=1))
        text = f"{mean}; worst machine {worst}"
        if key == "ours":
            text += f"; {np.mean([one['seconds'][1] for one in found]):.0f} s of processor time"
        if key == "ppo":
            text += f"; {np.mean([sum(one['ppo_seconds']) for one in found]):.0f} s"
        if key == "sac_at_time":
            text += f"; {np.mean([sum(one['sac_steps']) for one in found]):,.0f} steps"
        rows.append(Row(f"{family}, {STEPS:,} steps: {what}", text, mean.value, "", None))
    return rows


def _part(family: str) -> Any:
    def part(seeds: int = 0, settings: Answer | None = None, out: Path = OUT) -> list[Row]:
        return family_rows(family, seeds, settings or {}, out)

    part.__name__ = family
    return part


if __name__ == "__main__":
    print_parts(__doc__, [_part(family) for family in ENVIRONMENTS], OUT)
