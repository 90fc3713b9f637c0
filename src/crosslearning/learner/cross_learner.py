"""The learner as a user meets it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded before it can be limited)
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from crosslearning._base.files import MALFORMED, read_tensors, write_tensors
from crosslearning._base.interrupts import deferred
from crosslearning.errors import CrossLearningError, FileFormatError, InputError, unknown_name
from crosslearning.learner.box_spec import BoxSpec
from crosslearning.learner.core import Core
from crosslearning.learner.file_format import FILE_KIND, FILE_VERSION
from crosslearning.learner.fitting import (
    check_kernel_and_start,
    choose_kernel,
    resolve_tasks,
)
from crosslearning.learner.iterate import Iterate
from crosslearning.learner.length import Length, refuse_lengths
from crosslearning.learner.method import Method, make_method
from crosslearning.learner.policy import Policy
from crosslearning.learner.report import IterationReport
from crosslearning.learner.sampling import Sampling
from crosslearning.learner.saved_tasks import check_actions, space_to_plain, tasks_of_file
from crosslearning.learner.scaling import observed_kernel, scale_of
from crosslearning.learner.settings import (
    LearnerSettings,
    default_method,
    implied_method,
    make_settings,
    settings_from_plain,
    settings_to_plain,
)
from crosslearning.rkhs import Family, Kernel, kernel_from_dict
from crosslearning.rollouts import Episodes, Executor, executor_for
from crosslearning.tasks import Task
from crosslearning.tasks.sources import TaskSource, read_source
from crosslearning.tasks.task import warn_of_no_limit

if TYPE_CHECKING:
    from rich.console import Console

Floats = NDArray[np.float64]

#: ``callback(report)`` is called after every iteration; returning True stops the learning.
Callback = Callable[[IterationReport], bool | None]


class CrossLearner:
    """Learns one policy per task, all within distance ε of a central one (Algorithm 2).

    Parameters
    ----------
    tasks : str or sequence of Task
        The name of a task set, such as ``"paper"``, or tasks of your own. Their observation
        and action spaces must be boxes of the same shape.
    settings : PolicyGradient, TrustRegion or ModelBased, optional
        The method and its settings, such as ``TrustRegion(epsilon=1.0, step_kl=0.1)``. A number
        is the radius ``epsilon``.
    kernel : Kernel, or its description as a mapping, optional
        By default a Gaussian of the widths that the tasks suggest.
    workers : int, optional
        Threads for the rollouts, or processes; by default one thread, or a process for every
        processor. The result does not depend on it.
    task_options : mapping, optional
        Options of the named task set, such as ``{"crash": "terminate"}``.
    start : Family, optional
        Where the policies start; by default from zero. Either one function, from which all
        start, or a family of N + 1, h_1 … h_N and g, no farther apart than ``epsilon`` allows.
        Its kernel is the learner's.
    executor : Executor, optional
        Runs the rollouts in the place of the one that suits the tasks and ``workers``.
    on : str
        Where rollouts run: ``"threads"`` of this process, ``"processes"`` of this machine,
        ``"ray"`` or ``"ray://host:port"``, a Ray cluster; ``"auto"``: threads for compiled tasks,
        processes for others once those have proved faster. The result does not depend on it.
    step_seconds : float, optional
        How long a step of an environment of Python may take before its worker is ended; not on
        threads.
    **keywords
        Single settings by name, in the place of ``settings``: ``method`` and the fields of its
        class. Without a method the tasks decide, and how long :meth:`learn` is to last: the
        paper's method for tasks that state their kernel, ``models`` for at most 1,000 steps a
        task, else ``trust-region``.

    Examples
    --------
    >>> from crosslearning import CrossLearner, PolicyGradient
    >>> learner = CrossLearner("paper", PolicyGradient(epsilon=3.0, max_knots=50)).learn(5)
    >>> action, _ = learner.predict([2.0, 0.0, 5.0, 0.0, 0.5])
    >>> action.shape
    (2,)
    """

    def __init__(
        self,
        tasks: str | TaskSource | Sequence[Task],
        settings: LearnerSettings | float | None = None,
        *,
        kernel: Kernel | Mapping[str, Any] | None = None,
        workers: int | None = None,
        task_options: Mapping[str, Any] | None = None,
        start: Family | None = None,
        executor: Executor | None = None,
        on: str = "auto",
        step_seconds: float | None = None,
        **keywords: Any,
    ) -> None:
        refuse_lengths(keywords)
        given = read_source(tasks) if isinstance(tasks, str) else tasks
        self.source = given if isinstance(given, TaskSource) else None
        self.task_options = dict(task_options or {})
        self.tasks = resolve_tasks(given, self.task_options)
        warn_of_no_limit(self.tasks)
        self._asked = _asked_settings(settings, kernel, keywords)
        self._kernel, self._start = kernel, start
        self._family: Family | None = None
        self._policies: dict[int, Policy] = {}
        # What is wrong is said now, whichever method the length will decide for.
        self.settings = self._resolved(None)
        self._scale = scale_of(self.tasks, self.settings)
        self._executor = executor or executor_for(
            self.tasks, workers, self._scale, on, step_seconds
        )
        if [task.name for task in self._executor.tasks] != [task.name for task in self.tasks]:
            raise InputError("the executor runs other tasks than the learner learns")
        check_kernel_and_start(kernel, start, self.tasks, self.settings)
        if self._resolved(1).method == self.settings.method:
            _ = self._core  # no length would change the method, so what it lacks is said now

    def _resolved(self, steps: int | None) -> LearnerSettings:
        """Return all settings, for a learner that takes so many steps, if that is known."""
        method = implied_method(self._asked) or default_method(self.tasks, steps)
        settings = make_settings({**self._asked, "method": method})
        horizon = max(task.horizon for task in self.tasks)
        return settings.resolved(scale_of(self.tasks, settings) is not None, horizon)

    @cached_property
    def _core(self) -> Core:
        """The method and its iterate, made when they are first needed."""
        looked: list[Episodes] = []

        def observed() -> Kernel:
            scaled, settings = self._scale is not None, self.settings
            with threadpool_limits(1, user_api="blas"):  # as in learn
                kernel, seen = observed_kernel(
                    self._executor, scaled, settings.seed, settings.initial_exploration
                )
            looked.append(seen)
            return kernel

        kernel = choose_kernel(self._kernel, self._start, self.tasks, self.settings, observed)
        method = make_method(self._executor, self.settings, kernel)
        p = self.tasks[0].action_size
        iterate = Iterate(kernel, self.settings, len(self.tasks), p, method.functions)
        for episodes in looked:
            method.begin(episodes)
            iterate.steps += int(episodes.lengths.sum())
        if self._start is not None:
            iterate.start_from(self._start)
        return Core(iterate, method)

    def prepare(self, steps: int | None = None) -> CrossLearner:
        """Choose the method, if none was asked for, by how many steps are to be taken."""
        if "_core" not in self.__dict__:
            self.settings = self._resolved(steps)
        return self

    @property
    def kernel(self) -> Kernel:
        """The kernel of the policies."""
        return self._core.iterate.dictionary.kernel

    def __repr__(self) -> str:
        settings, knots = self.settings, len(self._core.iterate.dictionary)
        return (
            f"CrossLearner({len(self.tasks)} tasks, method={settings.method!r}, "
            f"epsilon={settings.epsilon}, {self.iteration} iterations, {knots} knots)"
        )

    # Learning --------------------------------------------------------------------------

    @property
    def iteration(self) -> int:
        """How many iterations have been made."""
        return self._core.iterate.iteration

    @property
    def steps(self) -> int:
        """How many environment steps have been taken, over all tasks."""
        return self._core.iterate.steps

    def learn(
        self,
        iterations: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        *,
        steps: int | None = None,
        progress: bool | Console = True,
        **others: Any,
    ) -> CrossLearner:
        """Make iterations of Algorithm 2, until there are enough of them or a rule stops it.

        Ctrl-C ends it after the iteration under way; the learner is whole and can go on.

        Parameters
        ----------
        iterations : int, optional
            How many more. Give this or ``steps``.
        callback : callable, or a sequence of them, optional
            Called with an :class:`IterationReport` after each; returning True stops.
            ``crosslearning.EvaluationCallback`` evaluates on the way.
        steps : int, optional
            How many more environment steps to take, over all tasks. An iteration is never cut
            short: the last one may go beyond.
        progress : bool or Console
            Whether to show a progress bar, if standard error is a terminal; or the console to
            show it on.

        Returns
        -------
        CrossLearner
            Itself.
        """
        from crosslearning._base.progress import learning_bar

        refuse_lengths(others)
        for name in others:
            known = ("iterations", "callback", "steps", "progress")
            raise unknown_name("argument of learn", name, known)
        if iterations is None and steps is None:
            raise InputError(
                "iterations is None and steps is None; give one of the two: learn(100) makes 100 "
                "iterations, learn(steps=100_000) takes so many environment steps over all tasks"
            )
        length = Length.of(iterations, steps)
        self.prepare(steps)
        callbacks = [callback] if callable(callback) else list(callback or ())
        made = length.begun(self)
        goal = length._replace(amount=made + length.amount)
        # One thread: how BLAS splits a sum over threads changes its last bits.
        with (
            threadpool_limits(1, user_api="blas"),
            deferred() as interrupted,
            learning_bar(progress, length.unit, made, goal.amount) as show,
        ):
            while not goal.reached(self):
                report = self._core.step()
                self._family = None
                self._policies.clear()
                show(length.made(self), report.pruning.knots, self.workers)
                # Every one of them sees every iteration, also the last.
                answers = [one(report) for one in callbacks]
                if any(answers) or report.stop:
                    break
                if interrupted.is_set():
                    raise KeyboardInterrupt
        return self

    @property
    def method(self) -> Method:
        """The method, for whoever reads what it alone knows."""
        return self._core.method

    @property
    def sampling(self) -> Sampling:
        """How gradients are sampled at these policies, for whoever reads a trained learner."""
        return self._core.method.sampling

    @property
    def action_units(self) -> str:
        """What the policies' actions are measured in: ``"box"``, or the tasks' ``"own"`` units."""
        return "own" if self._scale is None else "box"

    def radii(self) -> Floats:
        """Return how far from g each policy may be while g and the others stay, shape (N,)."""
        return self._core.iterate.radii()

    @property
    def workers(self) -> str:
        """How many workers are alive, in words; empty if all is done in this process."""
        pool = getattr(self._executor, "pool", None)
        return "" if pool is None else f"{pool.alive} of {pool.size} workers"

    def worker_events(self) -> list[str]:
        """Return, once, what happened to workers since this was last asked, in sentences."""
        pool = getattr(self._executor, "pool", None)
        queues: list[Any] = [getattr(one, "events", ()) for one in (self._executor, pool)]
        return [queue.popleft() for queue in queues for _ in range(len(queue))]

    def close(self) -> None:
        """Give back threads, processes and environments."""
        self._executor.close()

    # Policies --------------------------------------------------------------------------

    @property
    def family(self) -> Family:
        """The policies h_1 … h_N and g on their common dictionary."""
        if self._family is None:
            self._family = self._core.iterate.family
        return self._family

    @property
    def central(self) -> Policy:
        """The central policy g; for ε = ∞ the mean of the task policies.

        Without a bound nothing ties g to the tasks and nothing ever moves it, so that it says
        nothing about them. The mean is what is nearest to all of them.
        """
        return self._policy("central", len(self.tasks))

    @property
    def average(self) -> Policy:
        """The mean of the task policies."""
        return self._policy("average", len(self.tasks) + 1)

    def policy(self, task: int | str) -> Policy:
        """Return the policy of a task, by its number or its name.

        ``"central"`` and ``"average"`` are those two, unless a task has that name.
        """
        names = [t.name for t in self.tasks]
        if isinstance(task, str):
            if task not in names and task in ("central", "average"):
                return self.central if task == "central" else self.average
            if task not in names:
                raise unknown_name("policy", task, ["central", "average", *names])
            task = names.index(task)
        if not 0 <= task < len(names):
            raise InputError(f"no task {task}; there are {len(names)}, from 0")
        return self._policy(names[task], task)

    def _policy(self, name: str, function: int) -> Policy:
        # Kept until the policies change, so that its noise goes on from call to call.
        if function not in self._policies:
            N, first = len(self.tasks), self.tasks[0]
            if function > N or (function == N and math.isinf(self.settings.epsilon)):
                mean = self.family.mix(np.append(np.full(N, 1.0 / N), 0.0)[None])
            else:
                mean = self.family.select(function)
            policy = Policy(
                name,
                mean,
                self._core.method.noise.std,
                BoxSpec.of(first.action_space, "action", first.action_names),
                self.settings.gamma,
                BoxSpec.of(first.observation_space, "observation", first.observation_names),
                first.rate,
            )
            policy.scale = self._scale or policy.scale
            self._policies[function] = policy
        return self._policies[function]

    def predict(
        self,
        observation: ArrayLike,
        deterministic: bool = True,
        *,
        task: int | str | None = None,
        state: object = None,
        episode_start: object = None,
    ) -> tuple[NDArray[np.generic], None]:
        """Return the action of the central policy, or of a task's; see :meth:`Policy.predict`.

        A learner of one task has nothing to be central to: there the task's policy acts.
        """
        if task is None and len(self.tasks) == 1:
            task = 0
        policy = self.central if task is None else self.policy(task)
        return policy.predict(observation, deterministic)

    def adapt(
        self,
        task: Task,
        iterations: int | None = None,
        start: int | str | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        *,
        steps: int | None = None,
        **settings: Any,
    ) -> CrossLearner:
        """Return a new learner that has gone on from one of these policies on another task.

        The method ``models`` keeps what it has seen of its tasks: the model of the new one is
        fitted beside theirs, so that few steps of its own are enough.

        Parameters
        ----------
        task : Task
            The task to adapt to: a new one, or one of those trained for that the agent does
            not know to be facing.
        iterations : int, optional
            How many to learn on it.
        start : int or str, optional
            The task policy to start from; by default the central one.
        callback : callable, optional
            As for :meth:`learn`.
        steps : int, optional
            In the place of iterations: environment steps.
        **settings
            Settings that differ from this learner's, such as ``step_size``.
        """
        policy = self.start_of(start)
        learner = CrossLearner([task], start=policy.function, **self.transfer_settings(**settings))
        learner.use_data_of(self)
        return learner.learn(iterations, callback, steps=steps)

    def use_data_of(self, other: CrossLearner) -> None:
        """Know what another learner has seen of its tasks, which are related to these.

        It is of use to the method ``models`` alone, and only from a learner with that method.
        """
        self._core.method.use_data_of(other.method)

    def start_of(self, start: int | str | None = None) -> Policy:
        """Return the policy to adapt from, by default the central one; warn if there is nothing."""
        policy = self.central if start in (None, "central") else self.policy(start)
        if not np.any(policy.function.norms()):
            remedy = "learn longer"
            if policy.name == "central" and math.isfinite(self.settings.epsilon):
                remedy += ", take a smaller epsilon, or start from the policy of a task"
            warnings.warn(
                f"the {policy.name} policy is still zero: adapting starts from nothing. To start "
                f"from what was learned, {remedy}",
                stacklevel=3,
            )
        return policy

    def transfer_settings(self, **changes: Any) -> dict[str, Any]:
        """Return the settings of learners that go on from a policy of this one on other tasks.

        They are this learner's, but each task learns alone, with ``changes``; if those name
        another ``method``, only what all methods share is kept.
        """
        values = {**msgspec.structs.asdict(self.settings), **self.method.transfer_settings()}
        # How near to stationary tasks are that learn alone is not known, so that nothing stops.
        values.pop("alpha", None)
        if changes.get("method", self.settings.method) != self.settings.method:
            del values["method"]
            values = {k: v for k, v in values.items() if k in LearnerSettings.__struct_fields__}
        # The kernel is the start's; and what an action of the policy means must not change.
        own = {"epsilon": math.inf, "kernel": None, "action_units": self.action_units}
        return {**values, **own, **changes}

    # Files -----------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything needed to go on bit for bit to one file, atomically."""
        arrays, numbers = self._core.state()
        first = self.tasks[0]
        described = {
            "settings": settings_to_plain(self.settings),
            "kernel": self.kernel.to_dict(),
            "task_set": None if self.source is None else self.source.given,
            "task_source": None if self.source is None else self.source.to_plain(),
            "task_options": self.task_options,
            "tasks": [task.name for task in self.tasks],
            "spaces": [
                space_to_plain(space) for space in (first.observation_space, first.action_space)
            ],
        }
        write_tensors(path, FILE_KIND, FILE_VERSION, arrays, {**described, **numbers})

    @classmethod
    def load(
        cls,
        path: str | Path,
        tasks: str | TaskSource | Sequence[Task] | None = None,
        kernel: Kernel | None = None,
        workers: int | None = None,
        on: str = "threads",
        step_seconds: float | None = None,
    ) -> CrossLearner:
        """Read a learner from a file; it goes on as the saved one would have.

        Parameters
        ----------
        path : str or Path
        tasks : str or sequence of Task, optional
            Needed to learn on if the tasks are not a set that ships: a file runs nothing that it
            names. Without them the policies can be used, but not trained further.
        kernel : Kernel, optional
            Needed if its kernel is a formula of your own.
        workers, on, step_seconds
            As for the class: how rollouts are run, not what is learned.
        """
        if Path(path).is_dir():
            inside = Path(path) / "model.safetensors"
            raise InputError(f"{path} is a folder; load the file {inside}")
        arrays, description = read_tensors(path, FILE_KIND, FILE_VERSION)
        try:
            if description["version"] == 1:
                _upgrade(arrays, description)
            settings = settings_from_plain(description["settings"])
            given: Any = tasks
            source, options = None, description["task_options"] if isinstance(tasks, str) else None
            if tasks is None or isinstance(tasks, TaskSource):
                given, source = tasks_of_file(path, description, tasks)
            if kernel is None:
                kernel = kernel_from_dict(description["kernel"])
            elif kernel.to_dict() != description["kernel"]:
                raise InputError(
                    f"{path} was learned with the kernel {description['kernel']}, got "
                    f"{kernel.to_dict()}"
                )
            values = {**msgspec.structs.asdict(settings), "kernel": settings.kernel or kernel}
            how: dict[str, Any] = {"workers": workers, "on": on, "step_seconds": step_seconds}
            learner = cls(given, task_options=options, **how, **values)
            if source is not None:
                learner.source = source
                learner.task_options = dict(description["task_options"] or {})
            names = [task.name for task in learner.tasks]
            if names != description["tasks"]:
                raise InputError(f"{path} was learned on {description['tasks']}, got {names}")
            check_actions(path, description, learner.tasks[0])
            learner._core.restore(arrays, description)
        except FileFormatError as problem:
            raise FileFormatError(f"{path}: {problem}") from problem
        except CrossLearningError:
            raise
        except MALFORMED as problem:
            raise FileFormatError(
                f"{path} lacks a part of a learner, or holds a strange one: {problem}"
            ) from problem
        return learner


def _asked_settings(
    settings: LearnerSettings | float | None, kernel: object, keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what was asked of the learner, by name, whichever way it was asked."""
    if isinstance(settings, LearnerSettings):
        if keywords:
            raise InputError(
                f"{', '.join(keywords)} was given beside {type(settings).__name__}(…); put it there"
            )
        asked = msgspec.structs.asdict(settings)
    else:
        if settings is not None and "epsilon" in keywords:
            raise InputError(
                f"epsilon was given twice: {settings!r} and {keywords['epsilon']!r}; give one"
            )
        asked = {**keywords, **({} if settings is None else {"epsilon": settings})}
    return {**asked, **({"kernel": kernel} if isinstance(kernel, Mapping) else {})}


def _upgrade(arrays: dict[str, Any], description: dict[str, Any]) -> None:
    """Give the content of a file of version 1, which knew one method alone, today's form."""
    arrays["method.mean_square"] = arrays.pop("mean_square")
    description["method"] = {}
