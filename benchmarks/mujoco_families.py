"""The trust region on hard families of MuJoCo, beside PPO and SAC at equal steps and equal time.

``python -m benchmarks.mujoco_families [family ...]`` learns three machines of each family, whose
torso (or first pole) has 0.8, 1 and 1.25 times its mass, with the defaults. PPO learns one agent
for each machine with an equal share of the steps; it is evaluated there, and where it had used as
much processor time as ours for a machine. SAC stops at that time. Settings are those of
``hyperparams/*.yml`` of DLR-RM/rl-baselines3-zoo at commit 22e3ff2450fd. All have one thread.

``--set FIELD=VALUE`` tries other settings, without the rivals; ``--set widths=3`` makes the widths
of the kernel three times as large. The steps from which they are estimated first count.

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
from benchmarks.seeds import print_parts
from benchmarks.table import Row
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner, Task
from crosslearning.runs.study import Measurement

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


def measure_ppo(seed: int, family: str, which: int, most: float) -> Answer:
    """Return the return of PPO on a machine, and the one that it had after ``most`` seconds."""
    task, share, then = machines(family)[which], STEPS // len(MASSES), []

    def look(agent: Any, steps: int, used: Seconds) -> None:
        if used.processor >= most and not then:
            then.append(_return(agent, task))

    marks = range(0, share, share // 100)
    agent, took = rival.learn("ppo", [task], share, seed, PPO[family], marks=marks, look=look)
    last = _return(agent, task)
    return {"total": last, "at_time": then[0] if then else last, "seconds": took.processor}


def measure_sac(seed: int, family: str, which: int, most: float) -> Answer:
    """Return the return of SAC on a machine after ``most`` seconds, or all its steps."""
    task, share = machines(family)[which], STEPS // len(MASSES)
    kept: tuple[Any, int] = (None, 0)

    def look(agent: Any, steps: int, used: Seconds) -> None:
        nonlocal kept
        kept = agent, steps
        if used.processor >= most:
            raise OutOfTimeError

    marks = [*range(0, share, share // 100), share]
    with suppress(OutOfTimeError):
        rival.learn("sac", [task], share, seed, SAC[family], marks=marks, look=look)
    return {"total": _return(kept[0], task), "steps": kept[1]}


RIVALS = {"ppo": measure_ppo, "sac": measure_sac}


def _return(agent: Any, task: Task) -> float:
    return float(returns_of([agent], [task], TRIALS)["totals"][0])


def machines(family: str) -> list[Task]:
    """Return the tasks of a family: one for each mass."""
    name = ENVIRONMENTS[family]
    return [Task(f"mass {mass:g}", partial(machine, name, mass)) for mass in MASSES]


def measure_ours(seed: int, family: str, settings: Answer) -> Answer:
    """Return the mean return of ours on every machine, and what it took."""
    tasks, given = machines(family), dict(settings)
    widths = given.pop("widths", 1.0)
    how = {"method": "trust-region", "seed": seed, "on": "threads", **given}
    CrossLearner(tasks, **how).learn(1)  # compiles what is not compiled yet
    start, left = Seconds.now(), STEPS
    if widths != 1.0:
        first = CrossLearner(tasks, **how).learn(1)
        left -= first.steps
        covariance = widths**2 * np.array(first.kernel.to_dict()["covariance"])
        how["kernel"] = {"kernel": "gaussian", "covariance": covariance.tolist()}
    learner = CrossLearner(tasks, **how)
    learner.learn(steps=left, progress=False)
    spent = Seconds.since(start)
    policies = [learner.policy(i) for i in range(len(tasks))]
    return {
        "totals": returns_of(policies, tasks, TRIALS)["totals"],
        "seconds": list(spent),
        "steps": STEPS - left + learner.steps,
        "knots": len(learner.family.knots),
    }


def ours(seed: int, family: str, settings: Answer, out: Path) -> Answer:
    """Return what one seed of ours gives, from its file if it is there."""
    label = "-".join([family, *(f"{k}={v}" for k, v in sorted(settings.items()))])
    question = {"version": VERSION, "steps": STEPS, "settings": settings, "seed": seed}
    arguments = (seed, family, settings)
    path = out / f"{label}-ours-{seed}.json"
    return Measurement(path, question, measure_ours, arguments).answer()


def rival_of(who: str, seed: int, family: str, which: int, out: Path) -> Answer:
    """Return what PPO or SAC gives on a machine, from its file if it is there.

    Both are told how long ours took with the defaults.
    """
    most = ours(seed, family, {}, out)["seconds"][1] / len(MASSES)
    question = {"version": VERSION, "steps": STEPS, "seconds": most, "seed": seed}
    path = out / f"{family}-{who}-{seed}-{which}.json"
    return Measurement(path, question, RIVALS[who], (seed, family, which, most)).answer()


def family_rows(family: str, seeds: int, settings: Answer, out: Path) -> list[Row]:
    """Return the rows of a family; its rivals are measured beside the defaults."""
    found = [ours(seed, family, settings, out) for seed in range(seeds or SEEDS)]
    seconds = np.mean([one["seconds"][1] for one in found])
    totals = np.array([one["totals"] for one in found])
    rows = [("trust region", totals, f"{seconds:.0f} s of processor time")]
    if not settings and rival.installed():
        both = {
            who: [
                [rival_of(who, seed, family, which, out) for which in range(len(MASSES))]
                for seed in range(seeds or SEEDS)
            ]
            for who in RIVALS
        }

        def numbers(who: str, key: str) -> Any:
            return np.array([[one[key] for one in row] for row in both[who]])

        took, steps = numbers("ppo", "seconds"), numbers("sac", "steps")
        rows += [
            ("PPO, equal steps", numbers("ppo", "total"), f"{took.sum(axis=1).mean():.0f} s"),
            ("PPO, equal time", numbers("ppo", "at_time"), ""),
            ("SAC, equal time", numbers("sac", "total"), f"{steps.sum(axis=1).mean():,.0f} steps"),
        ]
    title = ", ".join([family, f"{STEPS:,} steps", *(f"{k}={v}" for k, v in settings.items())])
    return [_row(f"{title}: {what}", totals, more) for what, totals, more in rows]


def _row(what: str, totals: Any, more: str) -> Row:
    """Return the row of totals (seeds, machines)."""
    means = totals.mean(axis=1)
    mean = over_seeds(means)
    each = ", ".join(f"{one:.0f}" for one in means)
    return Row(
        what,
        f"{mean}; seeds {each}; worst machine {totals.min():.0f}; {more}",
        mean.value,
        "",
        None,
    )


def _part(family: str) -> Any:
    def part(seeds: int = 0, settings: Answer | None = None, out: Path = OUT) -> list[Row]:
        return family_rows(family, seeds, settings or {}, out)

    part.__name__ = family
    return part


if __name__ == "__main__":
    print_parts(__doc__, [_part(family) for family in ENVIRONMENTS], OUT)
