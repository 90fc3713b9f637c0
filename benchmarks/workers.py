"""Workers: how much faster several are than one, and what an iteration costs against its sizes."""

from __future__ import annotations

import pickle
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from benchmarks.table import Row
from benchmarks.timing import exponent, human, in_turns
from crosslearning import CrossLearner, Task
from crosslearning.rkhs import Family, Gaussian
from crosslearning.rollouts import executor_for, plan_episodes
from crosslearning.rollouts.sharded_executor import SHARDS_PER_WORKER

#: A plan: tasks, episodes of each, and steps of an episode.
TASKS, EPISODES, STEPS = 4, 8, 25
#: Seconds that a step of the environment sleeps.
NAP = 1e-3


class Sleeper(gymnasium.Env):
    """A point that is pulled to zero, and an environment that takes its time."""

    observation_space = gymnasium.spaces.Box(-4.0, 4.0, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, pull: float, nap: float = NAP) -> None:
        self.pull, self.nap, self.state = pull, nap, np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin near zero."""
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 2)
        return self.state.copy(), {}

    def step(self, action: Any) -> Any:
        """Sleep, and push."""
        time.sleep(self.nap)
        speed = 0.9 * self.state[1] + 0.1 * float(action[0])
        self.state = np.clip([0.95 * self.state[0] + self.pull * speed, speed], -4.0, 4.0)
        return self.state.copy(), -float(self.state @ self.state), False, False, {}


def _make(pull: float, render_mode: str | None = None) -> Sleeper:
    return Sleeper(pull)


def sleepers(count: int = TASKS) -> list[Task]:
    """Return tasks of 1 ms a step."""
    return [
        Task(f"pull={pull:.2f}", partial(_make, pull), horizon=STEPS)
        for pull in np.linspace(0.1, 0.4, count)
    ]


def policies_of(tasks: int, knots: int = 100) -> Family:
    """Return one policy for each of so many tasks."""
    generator = np.random.default_rng(0)
    weights = generator.normal(0.0, 0.1, (knots, tasks, 1))
    return Family(Gaussian(std=[1.0, 1.0]), generator.uniform(-1.0, 1.0, (knots, 2)), weights)


def speed_up(on: str, counts: tuple[int, ...] = (1, 2)) -> list[Row]:
    """Time one plan of the same rollouts by one worker and by several, in turns."""
    tasks = sleepers()
    plan = plan_episodes(np.random.default_rng(1), tasks, EPISODES, STEPS)
    expansion = policies_of(TASKS).expansion
    with ExitStack() as stack:
        executors = [executor_for(tasks, count, on=on) for count in counts]
        for executor in executors:
            stack.callback(executor.close)
            executor.episodes(expansion, plan)
            while executor.workers[0] < executor.workers[1]:
                time.sleep(0.1)
        calls = [partial(executor.episodes, expansion, plan) for executor in executors]
        seconds = in_turns(*calls, rounds=7)
    rows = []
    for count, took in zip(counts[1:], seconds[1:], strict=True):
        wanted, ratio = 0.85 * count, seconds[0] / took
        rows.append(
            Row(
                f"{on}: rollouts of 1 ms a step, {count} workers against one",
                f"{human(seconds[0])} / {human(took)}; {ratio / count:.0%} of the ideal",
                ratio,
                f"≥ {wanted:.2g}" if count == 2 else "",
                ratio >= wanted if count == 2 else None,
            )
        )
    return rows


def processes() -> list[Row]:
    """Two processes against one."""
    return speed_up("processes")


def ray() -> list[Row]:
    """Two workers of a Ray cluster on this machine against one; nothing without Ray."""
    from crosslearning.errors import MissingExtraError
    from crosslearning.rollouts.ray_cluster import join, leave, require_ray

    try:
        module = require_ray()
    except MissingExtraError:
        return []
    if module.is_initialized():
        return speed_up("ray")
    # As many processors as the workers of both measurements need: they sleep in turns.
    module.init(num_cpus=4, include_dashboard=False, logging_level="error", log_to_driver=False)
    try:
        join()
        return speed_up("ray")
    finally:
        leave()
        module.shutdown()


def more_workers() -> list[Row]:
    """Against the number of workers, more than this machine has processors: they sleep."""
    return speed_up("processes", (1, 2, 4, 8))


def iteration_cost() -> list[Row]:
    """Time iterations of the paper's method on compiled tasks against N, knots and samples.

    In seconds of the processor, without other workers.
    """
    rows = []
    for name, sizes, words in (
        ("tasks", [2, 4, 8, 16], "tasks (100 knots, 4 samples)"),
        ("knots", [50, 100, 200, 400], "knots (4 tasks, 4 samples)"),
        ("batch", [4, 8, 16, 32], "samples (4 tasks, 100 knots)"),
    ):
        learners = [_learner(**{name: size}) for size in sizes]
        iterations = [learner._core.step for learner in learners]
        seconds = in_turns(*iterations, rounds=7, clock=time.process_time)
        text = ", ".join(f"{n}: {human(t)}" for n, t in zip(sizes, seconds, strict=True))
        what = f"an iteration of the paper's method against {words}, exponent"
        rows.append(Row(what, text, exponent(sizes, seconds), "", None))
    return rows


def _learner(tasks: int = 4, knots: int = 100, batch: int = 4) -> CrossLearner:
    learner = CrossLearner(f"random:{tasks}", 1.0, max_knots=knots, batch_size=batch)
    while len(learner.family.knots) < knots and learner.iteration < 100:
        learner.learn(1, progress=False)
    return learner.learn(3, progress=False)


def handing_over() -> list[Row]:
    """Measure what a shard costs the process that learns: plans of steps that take no time."""
    tasks = [Task(t.name, partial(Sleeper, 0.1, 0.0), horizon=1) for t in sleepers(16)]
    plan = plan_episodes(np.random.default_rng(1), tasks, 1, 1)
    expansion = policies_of(16, 1000).expansion
    executor = executor_for(tasks, 2, on="processes")
    run = partial(executor.episodes, expansion, plan)
    (clock,) = in_turns(run, rounds=30)
    (processor,) = in_turns(run, rounds=30, clock=time.process_time)
    executor.close()
    size, shards = len(pickle.dumps(expansion)) / 1024, 2 * SHARDS_PER_WORKER
    return [
        Row(
            f"processes: a shard there and back, one of {shards}, two workers, {size:.0f} KiB of "
            "policies, in milliseconds",
            f"{human(clock / shards)}; {human(processor / shards)} of the processor that learns",
            1e3 * clock / shards,
            "",
            None,
        )
    ]


BENCHMARKS = [processes, ray, handing_over, iteration_cost]
LONG = [*BENCHMARKS, more_workers]
