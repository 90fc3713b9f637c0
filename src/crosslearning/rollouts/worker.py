"""The worker's side: it holds the tasks, makes their environments and runs jobs.

Messages are bytes: the setup once per worker, jobs and answers. They are pickled between processes
of one user.
"""

from __future__ import annotations

import pickle
import platform
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import gymnasium
import numba
import numpy
import scipy.linalg  # noqa: F401  (its BLAS must be loaded before it can be limited)
from threadpoolctl import threadpool_limits

from crosslearning.errors import CrossLearningError, InputError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.compiled_executor import CompiledExecutor
from crosslearning.rollouts.data import ActionScale
from crosslearning.rollouts.env_runner import StepTimer
from crosslearning.rollouts.executor import Executor, Result
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.plan import EpisodePlan, Plan
from crosslearning.tasks import Task

#: Its arrays are writable when unpickled, as compiled code requires.
PROTOCOL = 4
#: How many blocks of tasks a worker keeps environments for.
_KEPT = 16


@dataclass
class Job:
    """A part of a plan, and the policies of its tasks."""

    number: int  # its order in the plan
    place: tuple[slice, slice]  # tasks, and rollouts of each
    plan: Plan
    mirrored: bool
    policies: Expansion
    lost: int = 0  # how many workers were lost over it

    @property
    def steps(self) -> int:
        """The most environment steps it can take."""
        if isinstance(self.plan, EpisodePlan):
            return int(self.plan.seeds.size * self.plan.noise.shape[2])
        lengths = self.plan.before + 1 + self.plan.after
        return int(lengths.sum()) * (2 if self.mirrored else 1)


class WorkerState:
    """The tasks and environments of a worker, made from a packed setup."""

    def __init__(self, setup: bytes) -> None:
        # One thread, as in the learning process: how a sum is split changes its last bits.
        threadpool_limits(1, user_api="blas")
        theirs, modules, registered, content = pickle.loads(setup)
        different = [f"{k} {v}, not {theirs[k]}" for k, v in _versions().items() if v != theirs[k]]
        if different:
            raise InputError(
                f"the worker on {platform.node()} has {', '.join(different)}; the same bits need "
                "the same versions: install them there"
            )
        # Modules of the learning process can be imported here too, where folders are shared.
        sys.path += [place for place in modules if place not in sys.path]
        for name, spec in registered.items():
            if name not in gymnasium.registry:
                gymnasium.registry[name] = pickle.loads(spec)
        self.tasks: tuple[Task, ...]
        self.tasks, self._scale, step_seconds = pickle.loads(content)
        self._compiled = all(task.dynamics is not None for task in self.tasks)
        self._timer = None if step_seconds is None else StepTimer(step_seconds)
        self._executors: dict[tuple[int, int], Executor] = {}

    def answer(self, job: bytes) -> bytes:
        """Run a job; return its result or its exception, and its warnings."""
        result: Result | None = None
        problem: Exception | None = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                result = self._run(pickle.loads(job))
            except CrossLearningError as raised:
                problem = type(raised)(str(raised))
            except Exception:
                text = f"in a worker on {platform.node()}:\n{traceback.format_exc()}"
                problem = RuntimeError(text)
            finally:
                if self._timer is not None:
                    self._timer.stop()
        warned = []
        for w in caught:
            # Only builtin categories are known to every process.
            category = w.category if w.category.__module__ == "builtins" else UserWarning
            warned.append((str(w.message), category, w.filename, w.lineno))
        return pickle.dumps((result, problem, warned), PROTOCOL)

    def _run(self, job: Job) -> Result:
        tasks = job.place[0]
        block = tasks.start, tasks.stop
        executor = self._executors.pop(block, None)
        if executor is None and self._compiled:
            executor = CompiledExecutor(self.tasks[tasks], 1, self._scale)
        elif executor is None:
            executor = GymnasiumExecutor(self.tasks[tasks], self._scale, self._timer)
        self._executors[block] = executor  # the last one is the most recently used
        if len(self._executors) > _KEPT:
            self._executors.pop(next(iter(self._executors))).close()
        return executor.run(job.policies, job.plan, job.mirrored)

    def close(self) -> None:
        """Close the environments."""
        while self._executors:
            self._executors.popitem()[1].close()


#: The key of the setup of this process, if it is a worker, and its state, or why it has none.
_state: tuple[str, WorkerState | str] | None = None


def begin(key: str, setup: bytes) -> None:
    """Make the tasks of a setup in this process."""
    global _state
    if _state is not None and isinstance(_state[1], WorkerState):
        _state[1].close()
    try:
        _state = key, WorkerState(setup)
    except Exception as problem:
        _state = key, str(problem) if isinstance(problem, InputError) else repr(problem)


def run_job(key: str, setup: bytes, job: bytes) -> bytes:
    """Run a job in this process; the setup is read only if its key is new."""
    if _state is None or _state[0] != key:
        begin(key, setup)
    assert _state is not None
    state = _state[1]
    if isinstance(state, WorkerState):
        return state.answer(job)
    refused = InputError(f"a worker cannot make the tasks: {state}")
    return pickle.dumps((None, refused, []), PROTOCOL)


def _versions() -> dict[str, str]:
    """Return the versions that must agree for the same bits."""
    # The package itself is a layer above this one.
    packages = (sys.modules["crosslearning"], numpy, numba, gymnasium)
    versions = {package.__name__: package.__version__ for package in packages}
    return {"Python": platform.python_version(), **versions}


# The main process ---------------------------------------------------------------------------


def pack_setup(
    tasks: Sequence[Task], scale: ActionScale, step_seconds: float | None = None
) -> bytes:
    """Return the setup of a worker, or raise an error that names the task that cannot be sent."""
    try:
        content = cloudpickle.dumps((tuple(tasks), scale, step_seconds), PROTOCOL)
    except Exception as problem:
        raise _cannot_be_sent(tasks, problem) from problem
    registered = {}
    for name, spec in gymnasium.registry.items():
        if spec.entry_point and not str(spec.entry_point).startswith("gymnasium."):
            with suppress(Exception):  # perhaps no task uses it
                registered[name] = cloudpickle.dumps(spec, PROTOCOL)
    modules = [str(Path(place).absolute()) for place in sys.path]
    return pickle.dumps((_versions(), modules, registered, content), PROTOCOL)


def _cannot_be_sent(tasks: Sequence[Task], problem: Exception) -> InputError:
    for task in tasks:
        try:
            cloudpickle.dumps(task, PROTOCOL)
        except Exception as reason:
            return InputError(
                f"task {task.name!r} cannot be sent to a worker: {reason}. Give it a function "
                "that makes a new environment, and holds none, or take on = 'threads'"
            )
    return InputError(f"the tasks cannot be sent to workers: {problem}; take on = 'threads'")
