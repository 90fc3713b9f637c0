"""What learning around a controller gains on machines that it runs today, and what it costs there.

``python -m benchmarks.around [family ...] [--seeds 10] [--first-seed 0] [--steps 50]``. Of every
seed, which draws the members of a family, these are compared on the same starts:

- the controller for the nominal machine, or one with wrong numbers: what runs all of them today;
- for each machine the same kind of controller with its own numbers;
- the first one with other gains, those of a small grid that are best for all machines together, on
  the very starts on which they are compared;
- policies learned around the first one, from so many steps of each machine;
- policies learned from as many steps and from nothing, where a family asks for it.

A machine counts as no worse if its return is at least that of the controller that it started from.
Twenty starts cannot tell a small loss from none, so all machines run many fresh ones, too, from
which their gains have intervals.
The cost while learning is the mean reward of a step, over that of the controller in as many steps
from the start of an episode. Means over seeds have Student's 95 % interval; differences are paired
by the seed. Every seed is kept in a file, and the same question is not measured twice.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)
from numpy.typing import NDArray

from benchmarks.seeds import add_settings, settings_of
from benchmarks.table import Row
from crosslearning import PID, CrossLearner, StateFeedback
from crosslearning._base.statistics import Interval, student_quantile
from crosslearning.runs.study import Measurement
from crosslearning.tasks import Task, machines
from crosslearning.tasks.families import FAMILIES

Answer = dict[str, Any]
Floats = NDArray[np.float64]

OUT = Path("runs/around")
VERSION = 7
#: Starts of an evaluation on each machine, and the first of their seeds.
TRIALS, FIRST = 20, 1_000
#: The same for the intervals of gains.
FRESH_TRIALS, FRESH_FIRST = 200, 10_000
SEEDS, STEPS = 10, 50
#: Factors of gains in the grid of tunings.
FACTORS = 0.5, 1.0, 2.0


@dataclass(frozen=True)
class Part:
    """A family, the controller of its machines, and what is wrong with the one in use."""

    family: str
    controller: Callable[[Mapping[str, Any]], Any]
    members: int = 6
    epsilon: float = 0.3
    wrong: Mapping[str, float] = field(default_factory=dict)
    #: Observations that shall be held, where a steady error is reported, and their unit.
    held: Mapping[int, float] = field(default_factory=dict)
    unit: str = ""
    #: Of each machine.
    steps: int = STEPS
    fresh: int = FRESH_TRIALS
    from_nothing: bool = True

    def in_use(self) -> Any:
        """Return the controller that runs all machines."""
        (nominal,) = FAMILIES[self.family].contexts(1, spread=0.0)
        return self.controller({**nominal, **self.wrong})


PARTS = {
    part.family: part
    for part in (
        Part("hovering-masses", machines.hovering_pd, held={0: 0.0}, unit="m"),
        # The torque that a heavy pendulum lacks is up to 0.8 half ranges.
        Part("pendulums", machines.pendulum_swing_up, epsilon=1.0),
        Part(
            "standing-cart-poles",
            machines.cart_pole_lqr,
            wrong={"cart_mass": 1.0, "length": 1.2},  # about twice what they are
        ),
        Part("two-tanks", machines.tank_pi, held={1: machines.LEVEL}, unit="cm"),
        # The thrust that hovers differs by up to a fifth, which takes more than ε = 0.3.
        Part("quadrotors", machines.quadrotor_lqr, epsilon=0.6, held={0: 0.0, 1: 0.0}, unit="m"),
        Part("reactors", machines.reactor_pi),
        *(
            Part(
                family, controller, 6, 0.3, {}, held, unit, steps=200, fresh=60, from_nothing=False
            )
            for family, controller, held, unit in (
                ("four-tanks", machines.four_tank_pi, dict(enumerate(machines.FOUR_LEVELS)), "cm"),
                ("dc-motors", machines.dc_motor_pi, {0: machines.DC_SPEED}, "rad/s"),
                ("synchronous-motors", machines.synchronous_pi, {2: machines.PM_SPEED}, "rad/s"),
                ("two-rooms", machines.heating_pi, dict(enumerate(machines.COMFORT)), "K"),
                ("patients", machines.glucose_pid, {0: machines.GLUCOSE}, "mmol/L"),
                ("standing-acrobots", machines.acrobot_lqr, {}, ""),
            )
        ),
    )
}


def roll(
    task: Task, policy: Any, held: Mapping[int, float], trials: int, seed: int
) -> tuple[Floats, Floats]:
    """Return rewards (H, trials) and errors (H, held, trials) of episodes from ``seed`` on.

    Without a policy nothing is added to the controller of the task.
    """
    environments = [task.make() for _ in range(trials)]
    seen = np.array([one.reset(seed=seed + k)[0] for k, one in enumerate(environments)])
    rewards, errors = np.zeros((task.horizon, trials)), np.zeros((task.horizon, len(held), trials))
    still = np.zeros((trials, task.action_size))
    for t in range(task.horizon):
        actions = still if policy is None else policy.predict(seen)[0]
        for k, (environment, action) in enumerate(zip(environments, actions, strict=True)):
            seen[k], rewards[t, k], *_ = environment.step(action)
        for j, (i, aim) in enumerate(held.items()):
            errors[t, j] = np.abs(seen[:, i] - aim)
    return rewards, errors


def run(task: Task, policy: Any, held: Mapping[int, float], first: int) -> Answer:
    """Return the return, the mean reward of the first steps, and the steady error of a policy."""
    rewards, errors = roll(task, policy, held, TRIALS, FIRST)
    last = errors[-max(1, task.horizon // 5) :]
    return {
        "return": float(rewards.sum(axis=0).mean()),
        "first": float(rewards[:first].mean()),
        "steady": float(last.mean(axis=(0, 2)).max()) if held else 0.0,
    }


def tunings(controller: Any) -> list[Any]:
    """Return a controller with other gains: those of a grid for a PID, a few for a feedback."""
    if isinstance(controller, PID):
        kp, ki, kd = controller.kp, controller.ki, controller.kd
        grid = [(a, b) for a in FACTORS for b in FACTORS]
        return [dataclasses.replace(controller, kp=a * kp, ki=b * ki, kd=a * kd) for a, b in grid]
    if isinstance(controller, StateFeedback):
        gains = [factor**0.5 * controller.gain for factor in FACTORS]
        return [dataclasses.replace(controller, gain=gain) for gain in gains]
    return [controller]


def best_tuning(part: Part, tasks: Sequence[Task], first: int) -> list[Answer]:
    """Return what the tuning gives on each machine that has the highest mean return of all."""
    every = [
        [run(task.around(one), None, part.held, first) for task in tasks]
        for one in tunings(part.in_use())
    ]
    return max(every, key=lambda answers: sum(answer["return"] for answer in answers))


def fresh_gain(task: Task, policy: Any, trials: int) -> list[float]:
    """Return the gain over the controller alone on fresh starts, and the ends of its interval."""
    own, other = (roll(task, one, {}, trials, FRESH_FIRST)[0].sum(axis=0) for one in (None, policy))
    gain = mean_over_seeds((other - own).tolist())
    return [gain.value, gain.low, gain.high]


def learn(
    tasks: Sequence[Task], steps: int, seed: int, **settings: Any
) -> tuple[CrossLearner, list[float], float]:
    """Return a learner, the mean reward of its real steps on every task, and seconds."""
    start = time.perf_counter()
    learner = CrossLearner(tasks, method="models", seed=seed, **settings)
    learner.learn(steps=steps * len(tasks), progress=False)
    data = learner.method.data  # type: ignore[attr-defined]
    return learner, [float(one.rewards.mean()) for one in data], time.perf_counter() - start


def measure(part: Part, seed: int, steps: int, epsilon: float, settings: Answer) -> Answer:
    """Return what one seed gives, as plain data: lists over the machines."""
    tasks = FAMILIES[part.family](part.members, seed=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the controller asks for the action")
        controlled = [task.around(part.in_use()) for task in tasks]
        known = [task.around(part.controller(task.context)) for task in tasks]
        around, cost, seconds = learn(controlled, steps, seed, epsilon=epsilon, **settings)
        rows = {
            "in use": [run(task, None, part.held, steps) for task in controlled],
            "knowing": [run(task, None, part.held, steps) for task in known],
            "best tuning": best_tuning(part, tasks, steps),
            "around": [
                run(task, around.policy(i), part.held, steps) for i, task in enumerate(controlled)
            ],
        }
        spent = {"around": cost}
        if part.from_nothing:
            alone, spent["from nothing"], _ = learn(tasks, steps, seed, **settings)
            rows["from nothing"] = [
                run(task, alone.policy(i), part.held, steps) for i, task in enumerate(tasks)
            ]
        fresh = [
            fresh_gain(task, around.policy(i), part.fresh) for i, task in enumerate(controlled)
        ]
    found = {"rows": rows, "cost": spent, "fresh": fresh, "seconds": seconds}
    return {**found, "steps": around.steps / len(tasks)}


def answers(
    part: Part, seeds: Sequence[int], steps: int, epsilon: float, settings: Answer, out: Path
) -> list[Answer]:
    """Measure every seed that was not measured before."""
    result = []
    for seed in seeds:
        question = {"version": VERSION, "seed": seed, "steps": steps, "epsilon": epsilon}
        question |= {"settings": settings, "members": part.members, "wrong": dict(part.wrong)}
        path = out / f"{part.family}-{steps}-{epsilon:g}-{seed}.json"
        arguments = (part, seed, steps, epsilon, settings)
        result.append(Measurement(path, question, measure, arguments).answer())
    return result


def mean_over_seeds(values: Sequence[float]) -> Interval:
    """Return the mean with Student's 95 % interval; without ends for fewer than three seeds."""
    n, mean = len(values), float(np.mean(values))
    if n < 3:
        return Interval(mean, -np.inf, np.inf)
    half = student_quantile(0.975, n - 1) * float(np.std(values, ddof=1)) / n**0.5
    return Interval(mean, mean - half, mean + half)


def rows_of(part: Part, found: Sequence[Answer], epsilon: float) -> list[Row]:
    """Return the rows of a family."""

    def table(who: str, what: str = "return") -> Any:
        return np.array([[one[what] for one in answer["rows"][who]] for answer in found])

    own, known, around = table("in use"), table("knowing"), table("around")
    n, size = own.shape
    steps = found[0]["steps"]
    what = f"{part.family}:{size}, {steps:.0f} steps each, ε = {epsilon:g}, {n} seeds"
    means = ", ".join(
        f"{who} {mean_over_seeds(table(who).mean(axis=1).tolist())}" for who in found[0]["rows"]
    )
    rows = [Row(f"{what}: return", means, float(around.mean()), "", None)]
    fine = np.sum(around >= own, axis=1)
    every = int(np.sum(fine == size))
    text = f"every machine on {every} of {n} seeds; machines per seed {fine.tolist()}"
    rows.append(Row("the same, no worse than in use", text, every / n, "1", every == n))
    gains = [
        (k, i, Interval(*g)) for k, one in enumerate(found) for i, g in enumerate(one["fresh"])
    ]
    losers = [
        f"seed {k}, machine {i}: {gain}; {(around - own)[k, i]:.2g} above"
        for k, i, gain in gains
        if gain.value < 0.0 or around[k, i] < own[k, i]
    ]
    lost = {k for k, _, gain in gains if gain.value < 0.0}
    text = f"every machine on {n - len(lost)} of {n} seeds; losers here or above: {losers}"
    what = f"the same, on {part.fresh} fresh starts"
    rows.append(Row(what, text, 1.0 - len(lost) / n, "1", not lost))
    sure = sum(gain.high < 0.0 for _, _, gain in gains)
    rows.append(Row("the same, intervals below 0", f"{sure} of {len(gains)}", sure, "0", sure == 0))
    ahead = mean_over_seeds((around - known).mean(axis=1).tolist())
    rows.append(Row("the same, ahead of knowing", str(ahead), ahead.value, "> 0", ahead.value > 0))
    ahead = mean_over_seeds((around - table("best tuning")).mean(axis=1).tolist())
    what = "the same, ahead of the best tuning"
    rows.append(Row(what, str(ahead), ahead.value, "> 0", ahead.value > 0))
    first = table("in use", "first")
    for who in found[0]["cost"]:
        cost = np.array([one["cost"][who] for one in found])
        ratios = cost.mean(axis=1) / first.mean(axis=1)
        ratio = mean_over_seeds(ratios.tolist())
        wanted = ("≤ 2", bool(ratio.value <= 2.0)) if who == "around" else ("", None)
        text = f"{cost.mean():.3g} a step, {first.mean():.3g} in use; ratio {ratio}"
        rows.append(Row(f"the same, cost while learning {who}", text, ratio.value, *wanted))
    if part.held:
        steady = {
            who: table(who, "steady") for who in ("in use", "knowing", "best tuning", "around")
        }
        text = ", ".join(
            f"{who} {mean_over_seeds(errors.mean(axis=1).tolist())} (largest {errors.max():.3g})"
            for who, errors in steady.items()
        )
        worst = float(steady["around"].max())
        rows.append(Row(f"the same, steady error in {part.unit}", text, worst, "", None))
    return rows


def all_families() -> list[Row]:
    """Measure every family with the defaults."""
    rows = []
    for part in PARTS.values():
        found = answers(part, range(SEEDS), part.steps, part.epsilon, {}, OUT)
        rows += rows_of(part, found, part.epsilon)
    return rows


BENCHMARKS = [all_families]


def main() -> None:
    """Measure the families that are asked for, and print their rows."""
    from rich.console import Console
    from threadpoolctl import threadpool_limits

    from benchmarks.table import show

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"which (default: all): {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="of each machine; by default those of the family")
    parser.add_argument("--epsilon", type=float, help="by default that of the family")
    add_settings(parser)
    asked = parser.parse_args()
    for name in asked.parts:
        if name not in PARTS:
            parser.error(f"no such family {name!r}; known: {', '.join(PARTS)}")
    settings = settings_of(asked.set)
    console, rows = Console(width=140), []
    with threadpool_limits(1, user_api="blas"):
        for name in asked.parts or PARTS:
            part = PARTS[name]
            epsilon = asked.epsilon or part.epsilon
            console.print(f"measuring {name} …", style="dim")
            seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
            steps = asked.steps or part.steps
            found = answers(part, seeds, steps, epsilon, settings, asked.out)
            rows += rows_of(part, found, epsilon)
    show(rows, console)


if __name__ == "__main__":
    main()
