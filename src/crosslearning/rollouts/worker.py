"""A worker's side: it holds the tasks, keeps the newest policies, and runs shards of plans.

What travels is bytes: the kit once, when a worker starts; the policies once a call; jobs and their
answers. It is pickled between processes that one user started, and never written to a file.
"""

from __future__ import annotations

import pickle
import platform
import sys
import traceback
import warnings
from collections import OrderedDict
from collections.abc import MutableSequence, Sequence
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
from crosslearning.rollouts.watch import Watch
from crosslearning.tasks import Task

#: Plain arrays come back writable from it, and compiled code knows no other.
_PROTOCOL = 4
#: How many blocks of tasks a worker keeps environments for.
_KEPT = 16


class Told(NamedTuple):
    """A warning, as it travels."""

    text: str
    category: type[Warning]
    file: str
    line: int


class Answer(NamedTuple):
    """What a worker made of a job: what it found, or a problem; and what it was warned of."""

    found: Samples | Episodes | None
    problem: Exception | None
    told: list[Told]


class Desk:
    """All that a worker works with.

    Parameters
    ----------
    kit : bytes
        As :func:`pack_kit` made it.
    place : mutable sequence of 4 floats
        Where the worker writes down which step it is at.
    """

    def __init__(self, kit: bytes, place: MutableSequence[float]) -> None:
        # One thread, as in the process that learns: how a sum is split changes its last bits.
        threadpool_limits(1, user_api="blas")
        theirs, modules, registered, content = pickle.loads(kit)
        own = _versions()
        different = [f"{k} {v}, not {theirs[k]}" for k, v in own.items() if v != theirs[k]]
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
        self._watch = Watch(place, [task.name for task in self.tasks])
        self._executors: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._policies: Expansion | None = None

    def take(self, policies: bytes) -> None:
        """Take the policies that the next jobs are about."""
        self._policies = pickle.loads(policies)

    def answer(self, job: bytes) -> bytes:
        """Run a shard; what goes wrong in it is an answer too."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            found: Samples | Episodes | None = None
            problem: Exception | None = None
            try:
                found = self._run(pickle.loads(job))
            except CrossLearningError as said:
                problem = type(said)(str(said))
            except Exception:
                text = f"in a worker on {platform.node()}:\n{traceback.format_exc()}"
                problem = RuntimeError(text)
        told = [Told(str(w.message), _plain(w.category), w.filename, w.lineno) for w in caught]
        return pickle.dumps(Answer(found, problem, told), _PROTOCOL)

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
                else GymnasiumExecutor(tasks, self._scale, self._watch)
            )
        self._executors.move_to_end(block)
        while len(self._executors) > _KEPT:
            self._executors.popitem(last=False)[1].close()
        return self._executors[block]

    def close(self) -> None:
        """Close the environments."""
        while self._executors:
            self._executors.popitem()[1].close()


def _plain(category: type[Warning]) -> type[Warning]:
    """Return a category that every process knows."""
    return category if category.__module__ == "builtins" else UserWarning


def _versions() -> dict[str, str]:
    """Return what must be the same everywhere for the same bits."""
    # This package itself lies above this room.
    packages = (sys.modules["crosslearning"], numpy, numba, gymnasium)
    versions = {package.__name__: package.__version__ for package in packages}
    return {"Python": platform.python_version(), **versions}


# The host's side ----------------------------------------------------------------------------


def pack_kit(tasks: Sequence[Task], scale: ActionScale) -> bytes:
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


def pack_job(job: Job) -> bytes:
    """Return a job as workers take it."""
    return pickle.dumps(job, _PROTOCOL)


def unpack_answer(answer: bytes) -> Answer:
    """Return what :meth:`Desk.answer` said."""
    found: Answer = pickle.loads(answer)
    return found
