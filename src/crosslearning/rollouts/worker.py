"""A worker's side: it holds the tasks, keeps the newest policies, and runs shards of plans.

What travels is bytes: the setup once, when a worker starts; the policies once a call; jobs and
their answers. It is pickled between processes that one user started, and never written to a file.
"""

from __future__ import annotations

import pickle
import platform
import sys
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import gymnasium
import numba
import numpy
import scipy.linalg  # noqa: F401  (its BLAS must be loaded before it can be limited)
from threadpoolctl import threadpool_limits

from crosslearning.errors import CrossLearningError, InputError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.compiled_executor import CompiledExecutor
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.plan import SamplePlan
from crosslearning.rollouts.shards import Job
from crosslearning.rollouts.step_timer import StepTimer
from crosslearning.tasks import Task

#: Plain arrays come back writable from it, and compiled code knows no other.
_PROTOCOL = 4
#: How many blocks of tasks a worker keeps environments for.
_KEPT = 16


class WarningRecord(NamedTuple):
    """A warning, as it travels."""

    text: str
    category: type[Warning]
    file: str
    line: int


class Answer(NamedTuple):
    """What a worker made of a job: a result or a problem, and what it was warned of."""

    result: Samples | Episodes | None
    problem: Exception | None
    warned: list[WarningRecord]


class WorkerState:
    """All that a worker works with.

    Parameters
    ----------
    setup : bytes
        As :func:`pack_setup` made it.
    step_seconds : float, optional
        The longest that a step of an environment may take.
    """

    def __init__(self, setup: bytes, step_seconds: float | None = None) -> None:
        # One thread, as in the process that learns: how a sum is split changes its last bits.
        threadpool_limits(1, user_api="blas")
        theirs, modules, registered, content = pickle.loads(setup)
        here = _versions()
        different = [f"{k} {v}, not {theirs[k]}" for k, v in here.items() if v != theirs[k]]
        if different:
            raise InputError(
                f"the worker on {platform.node()} has {', '.join(different)}; the same bits need "
                "the same versions: install them there"
            )
        # What the learning process imports is found here too, where the folders are shared.
        sys.path += [place for place in modules if place not in sys.path]
        for name, spec in registered.items():
            if name not in gymnasium.registry:
                gymnasium.registry[name] = pickle.loads(spec)
        self.tasks: tuple[Task, ...]
        self.tasks, self._scale, self._compiled = pickle.loads(content)
        self._timer = None if step_seconds is None else StepTimer(step_seconds)
        self._executors: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._policies: Expansion | None = None
        self._call = 0

    def take(self, call: int, read: Callable[[], bytes]) -> None:
        """Take the policies of a call, unless they are those of the last one."""
        if call != self._call:
            self._policies, self._call = pickle.loads(read()), call

    def answer(self, job: bytes) -> bytes:
        """Run a shard; what goes wrong in it is an answer too."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            result: Samples | Episodes | None = None
            problem: Exception | None = None
            try:
                result = self._run(pickle.loads(job))
            except CrossLearningError as said:
                problem = type(said)(str(said))
            except Exception:
                text = f"in a worker on {platform.node()}:\n{traceback.format_exc()}"
                problem = RuntimeError(text)
            finally:
                if self._timer is not None:
                    self._timer.stop()
        records = [
            WarningRecord(str(w.message), _plain(w.category), w.filename, w.lineno) for w in caught
        ]
        return pickle.dumps(Answer(result, problem, records), _PROTOCOL)

    def _run(self, job: Job) -> Samples | Episodes:
        assert self._policies is not None
        first, last = job.shard.first, job.shard.last
        executor = self._executor(first, last)
        policies = self._policies._replace(rows=self._policies.rows[first:last])
        if isinstance(job.plan, SamplePlan):
            return executor.samples(policies, job.plan, job.mirrored)  # type: ignore[no-any-return]
        return executor.run_episodes(policies, job.plan)  # type: ignore[no-any-return]

    def _executor(self, first: int, last: int) -> Any:
        """Return the executor of a block of tasks; what was not used for long is closed."""
        block = (first, last)
        if block not in self._executors:
            tasks = self.tasks[first:last]
            self._executors[block] = (
                CompiledExecutor(tasks, 1, self._scale)
                if self._compiled
                else GymnasiumExecutor(tasks, self._scale, self._timer)
            )
        self._executors.move_to_end(block)
        while len(self._executors) > _KEPT:
            self._executors.popitem(last=False)[1].close()
        return self._executors[block]

    def close(self) -> None:
        """Close the environments."""
        while self._executors:
            self._executors.popitem()[1].close()


#: What this process was set up with last, if it is a worker.
_state: tuple[str, WorkerState] | None = None


def _state_of(key: str, read: Callable[[], bytes], step_seconds: float | None) -> WorkerState:
    """Return the state of a setup, which is made at its first job."""
    global _state
    if _state is None or _state[0] != key:
        if _state is not None:
            _state[1].close()
        try:
            _state = key, WorkerState(read(), step_seconds)
        except Exception as problem:
            said = str(problem) if isinstance(problem, InputError) else repr(problem)
            raise InputError(f"a worker cannot make the tasks: {said}") from problem
    return _state[1]


def run_packed(
    key: str,
    setup: Callable[[], bytes],
    step_seconds: float | None,
    call: int,
    policies: Callable[[], bytes],
    job: bytes,
) -> bytes:
    """Run a shard in this process: setup and policies are read only if they are new to it."""
    try:
        state = _state_of(key, setup, step_seconds)
    except InputError as problem:
        return pickle.dumps(Answer(None, InputError(str(problem)), []), _PROTOCOL)
    state.take(call, policies)
    return state.answer(job)


def begin(setup: str, step_seconds: float | None) -> str:
    """Make the tasks of the setup in a file; return why that cannot be, or nothing."""
    try:
        _state_of(setup, Path(setup).read_bytes, step_seconds)
    except InputError as problem:
        return str(problem)
    return ""


def run_job(setup: str, step_seconds: float | None, call: int, policies: str, job: bytes) -> bytes:
    """Run a shard, with setup and policies in files."""
    read = Path(setup).read_bytes, Path(policies).read_bytes
    return run_packed(setup, read[0], step_seconds, call, read[1], job)


def _plain(category: type[Warning]) -> type[Warning]:
    """Return a category that every process knows."""
    return category if category.__module__ == "builtins" else UserWarning


def _versions() -> dict[str, str]:
    """Return what must be the same everywhere for the same bits."""
    # This package itself lies above this one.
    packages = (sys.modules["crosslearning"], numpy, numba, gymnasium)
    versions = {package.__name__: package.__version__ for package in packages}
    return {"Python": platform.python_version(), **versions}


# The host's side ----------------------------------------------------------------------------


def pack_setup(tasks: Sequence[Task], scale: ActionScale) -> bytes:
    """Return what a worker needs to begin, or say which task cannot travel."""
    compiled = all(task.dynamics is not None for task in tasks)
    try:
        content = cloudpickle.dumps((tuple(tasks), scale, compiled), _PROTOCOL)
    except Exception as problem:
        raise _cannot_travel(tasks, problem) from problem
    modules = [str(Path(place).absolute()) for place in sys.path]
    return pickle.dumps((_versions(), modules, _registered(), content), _PROTOCOL)


def _registered() -> dict[str, bytes]:
    """Return the environments that this process registered with Gymnasium by itself."""
    found = {}
    for name, spec in gymnasium.registry.items():
        entry = spec.entry_point
        if entry is None or (isinstance(entry, str) and entry.startswith("gymnasium.")):
            continue
        try:
            found[name] = cloudpickle.dumps(spec, _PROTOCOL)
        except Exception:  # one that no task may ever ask for
            continue
    return found


def _cannot_travel(tasks: Sequence[Task], problem: Exception) -> InputError:
    for task in tasks:
        try:
            cloudpickle.dumps(task, _PROTOCOL)
        except Exception as own:
            return InputError(
                f"task {task.name!r} cannot be sent to a worker: {own}. Give it a function that "
                "makes a new environment, and holds none, or take on = 'threads'"
            )
    return InputError(f"the tasks cannot be sent to workers: {problem}; take on = 'threads'")


def pack_policies(policies: Expansion, tasks: int) -> bytes:
    """Return the policies that drive tasks, as workers take them."""
    return pickle.dumps(policies._replace(rows=policies.rows[:tasks]), _PROTOCOL)
