"""The worker's side of a pool: it holds the tasks and the newest policies, and runs shards.

Messages are bytes: the setup once per worker, the policies once per plan, jobs and answers. They
are pickled between processes of one user.
"""

from __future__ import annotations

import pickle
import platform
import sys
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
from crosslearning.rollouts.executor import Executor
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.shards import Job
from crosslearning.rollouts.step_timer import StepTimer
from crosslearning.tasks import Task

#: Its arrays are writable when unpickled, as compiled code requires.
PROTOCOL = 4
#: How many blocks of tasks a worker keeps environments for.
_KEPT = 16


class WarningRecord(NamedTuple):
    """A warning of a worker, for the main process to issue."""

    text: str
    category: type[Warning]
    file: str
    line: int


class Answer(NamedTuple):
    """The result of a job or its exception, and the warnings on the way."""

    result: Samples | Episodes | None
    problem: Exception | None
    warned: list[WarningRecord]


class WorkerState:
    """The tasks, policies and environments of a worker, made from a packed setup."""

    def __init__(self, setup: bytes, step_seconds: float | None = None) -> None:
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
        self.tasks, self._scale, self._compiled = pickle.loads(content)
        self._timer = None if step_seconds is None else StepTimer(step_seconds)
        self._executors: OrderedDict[tuple[int, int], Executor] = OrderedDict()
        self._policies: Expansion | None = None
        self._call = 0

    def take(self, call: int, policies: bytes | Path) -> None:
        """Read the policies of a call, unless they were read before."""
        if call != self._call:
            self._policies, self._call = pickle.loads(_read(policies)), call

    def answer(self, job: bytes) -> bytes:
        """Run a job; an exception is an answer too."""
        result: Samples | Episodes | None = None
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
            warned.append(WarningRecord(str(w.message), category, w.filename, w.lineno))
        return pickle.dumps(Answer(result, problem, warned), PROTOCOL)

    def _run(self, job: Job) -> Samples | Episodes:
        assert self._policies is not None
        first, last = job.shard.first, job.shard.last
        policies = self._policies._replace(rows=self._policies.rows[first:last])
        return self._executor(first, last).run(policies, job.plan, job.mirrored)

    def _executor(self, first: int, last: int) -> Executor:
        """Return the executor of a block of tasks; the least recently used are closed."""
        if (first, last) not in self._executors:
            tasks = self.tasks[first:last]
            self._executors[first, last] = (
                CompiledExecutor(tasks, 1, self._scale)
                if self._compiled
                else GymnasiumExecutor(tasks, self._scale, self._timer)
            )
        self._executors.move_to_end((first, last))
        while len(self._executors) > _KEPT:
            self._executors.popitem(last=False)[1].close()
        return self._executors[first, last]

    def close(self) -> None:
        """Close the environments."""
        while self._executors:
            self._executors.popitem()[1].close()


#: The state of this process and the key of its setup, if it is a worker.
_state: tuple[str, WorkerState] | None = None


def _read(content: bytes | Path) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else content


def begin(key: str, setup: bytes | Path, step_seconds: float | None) -> str:
    """Make the tasks of a setup unless this process has them; return why it cannot, or ''."""
    global _state
    if _state is not None and _state[0] == key:
        return ""
    if _state is not None:
        _state[1].close()
    try:
        _state = key, WorkerState(_read(setup), step_seconds)
    except Exception as problem:
        reason = str(problem) if isinstance(problem, InputError) else repr(problem)
        return f"a worker cannot make the tasks: {reason}"
    return ""


def run_job(
    key: str,
    setup: bytes | Path,
    step_seconds: float | None,
    call: int,
    policies: bytes | Path,
    job: bytes,
) -> bytes:
    """Run a job in this process; setup and policies are read only if they are new to it."""
    refused = begin(key, setup, step_seconds)
    if refused:
        return pickle.dumps(Answer(None, InputError(refused), []), PROTOCOL)
    assert _state is not None
    _state[1].take(call, policies)
    return _state[1].answer(job)


def _versions() -> dict[str, str]:
    """Return the versions that must agree for the same bits."""
    # The package itself is a layer above this one.
    packages = (sys.modules["crosslearning"], numpy, numba, gymnasium)
    versions = {package.__name__: package.__version__ for package in packages}
    return {"Python": platform.python_version(), **versions}


# The main process ---------------------------------------------------------------------------


def pack_setup(tasks: Sequence[Task], scale: ActionScale) -> bytes:
    """Return the setup of a worker, or raise an error that names the task that cannot be sent."""
    compiled = all(task.dynamics is not None for task in tasks)
    try:
        content = cloudpickle.dumps((tuple(tasks), scale, compiled), PROTOCOL)
    except Exception as problem:
        raise _cannot_be_sent(tasks, problem) from problem
    registered = {}
    for name, spec in gymnasium.registry.items():
        entry = spec.entry_point
        if entry is None or (isinstance(entry, str) and entry.startswith("gymnasium.")):
            continue
        try:
            registered[name] = cloudpickle.dumps(spec, PROTOCOL)
        except Exception:  # perhaps no task uses it
            continue
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


def pack_policies(policies: Expansion, tasks: int) -> bytes:
    """Return the policies of the tasks, without the central policy."""
    return pickle.dumps(policies._replace(rows=policies.rows[:tasks]), PROTOCOL)
