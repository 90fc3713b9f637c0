"""The learner: the class that users meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded before it can be limited)
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from crosslearning._base.interrupts import deferred
from crosslearning.errors import InputError, unknown_name
from crosslearning.learner.core import Core, Iterate, IterationReport, Method
from crosslearning.learner.deployment import LearnedController
from crosslearning.learner.internals import (
    behind_controller,
    choose_method,
    deprecate,
    explaining_observations,
    starting_policy,
    transfer_settings,
    worker_status,
)
from crosslearning.learner.lags import LagEvidence, choose_lags, is_left_open
from crosslearning.learner.learner_file import read_learner, write_learner
from crosslearning.learner.model_based.method import ModelBasedMethod
from crosslearning.learner.policies import Policies
from crosslearning.learner.policy import Policy
from crosslearning.learner.policy_gradient import PolicyGradientMethod
from crosslearning.learner.preparation import (
    explore,
    known_kernel,
    observed_kernel,
    resolve_tasks,
    scale_of,
    warn_of_hard_tasks,
)
from crosslearning.learner.settings import USUAL_EPSILON, LearnerSettings
from crosslearning.learner.trust_region import TrustRegionMethod
from crosslearning.learner.user_input import (
    Length,
    default_method,
    make_settings,
    refuse_lengths,
)
from crosslearning.rkhs import Family, Gaussian, Kernel
from crosslearning.rollouts import Episodes, Executor, executor_for
from crosslearning.tasks import Task
from crosslearning.tasks.sources import TaskSource, read_source
from crosslearning.tasks.task import warn_of_no_limit

if TYPE_CHECKING:
    from rich.console import Console

#: ``callback(report)`` is called after every iteration; returning True stops the learning.
Callback = Callable[[IterationReport], bool | None]

_METHODS: dict[str, Callable[[Executor, Any, Kernel], Method]] = {
    "policy-gradient": PolicyGradientMethod,
    "trust-region": TrustRegionMethod,
    "models": ModelBasedMethod,
}


class CrossLearner:
    """Learns one policy per task, all within distance ε of a central one (Algorithm 2).

    Parameters
    ----------
    tasks : str or sequence of Task
        The name of a task set, such as ``"paper"``, or a list of tasks. Their observation and
        action spaces must be boxes of the same shape.
    settings : PolicyGradient, TrustRegion or ModelBased, optional
        The method and its settings, such as ``TrustRegion(epsilon=1.0, step_kl=0.1)``. A number
        is the radius ``epsilon``.
    around : controller, optional
        The controller that runs the machines today, or one for each (a sequence, or a mapping by
        name): a function of the observation, an object with ``reset`` and ``act``, such as
        :class:`~crosslearning.PID`, a policy, or the name of one, ``module:name`` or a JSON file.
        Policies then correct its actions, by at most ``epsilon`` half ranges of an action.
    kernel : Kernel, or its description as a mapping, optional
        By default a Gaussian with the widths that suit the tasks.
    workers : int, optional
        Threads or processes for the rollouts; by default one thread, or a process for every
        processor. The result does not depend on it.
    task_options : mapping, optional
        Options of the named task set, such as ``{"crash": "terminate"}``.
    start : Family, optional
        The initial policies; by default zero. Either one function for all, or a family of N + 1,
        h_1 … h_N and g, no farther apart than ``epsilon``. Its kernel is the learner's.
    executor : Executor, optional
        Runs the rollouts; by default the one that suits the tasks, ``workers`` and ``on``.
    on : str
        Where rollouts run: ``"threads"`` of this process, ``"processes"`` of this machine,
        ``"ray"`` or ``"ray://host:port"``, a Ray cluster; ``"auto"``: threads for compiled tasks,
        processes for others once they are measured to be faster. The result does not depend on
        it.
    step_seconds : float, optional
        Time limit of a step of a Python environment, after which its worker is terminated; not
        on threads.
    **keywords
        Instead of ``settings``: ``method`` and the fields of its settings class. Without a
        method the tasks and the length of :meth:`learn` decide: the paper's method for tasks
        that state their kernel, ``models`` for at most 1,000 steps a task, else ``trust-region``.

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
        around: Any = None,
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
        named = isinstance(around, str)
        given = read_source(tasks, around if named else None) if isinstance(tasks, str) else tasks
        self.source = given if isinstance(given, TaskSource) else None
        self.task_options = dict(task_options or {})
        self.tasks = resolve_tasks(given, self.task_options, around)
        warn_of_no_limit(self.tasks)
        self._given = _given_settings(settings, kernel, keywords)
        self._around = any(task.controller is not None for task in self.tasks)
        self._kernel, self._start = kernel, start
        #: The steps of the run, for the initial exploration; infinite until they are known.
        self._most_steps = math.inf
        #: By which the lags were chosen, if that was left to the learner.
        self.lag_evidence: LagEvidence | None = None
        # Report errors now, whichever method the length will select.
        self.settings = self._resolved(None)
        self._scale = scale_of(self.tasks, self.settings)
        self._how = workers, self._scale, on, step_seconds
        if is_left_open(self.tasks) and executor is not None:
            raise InputError("lags is 'auto', but the executor is given; give the number of lags")
        self._executor = executor or executor_for(self.tasks, *self._how)
        if [task.name for task in self._executor.tasks] != [task.name for task in self.tasks]:
            raise InputError("the executor runs other tasks than the learner learns")
        known = known_kernel(kernel, start, self.tasks, self.settings)
        #: Whether no length would change the method.
        self._is_decided = self._resolved(1).method == self.settings.method
        if self._is_decided:
            # Its errors, too, are reported now.
            any_kernel = known or Gaussian(std=[1.0] * self.tasks[0].observation_size)
            _METHODS[self.settings.method](self._executor, self.settings, any_kernel)

    def _resolved(self, steps: int | None) -> LearnerSettings:
        """Return the settings with nothing left open, for learning of so many steps, if known."""
        method = default_method(self.tasks, steps, self._given)
        settings = make_settings({**self._given, "method": method})
        horizon = max(task.horizon for task in self.tasks)
        scaled = scale_of(self.tasks, settings) is not None
        scores = self.tasks[0].choices is not None
        resolved = settings.resolved(scaled, horizon, self._around, scores)
        if not self._around and settings.controller_epsilon is not None:
            raise InputError(
                f"controller_epsilon is {settings.controller_epsilon:g}, but there is no "
                "controller; give it: around=..., or --around"
            )
        if (
            self._around
            and settings.controller_epsilon is None
            and (settings.epsilon == USUAL_EPSILON)
        ):
            raise InputError(
                "how far may learning depart from the controller? Say it in half ranges of the "
                "actions: epsilon=0.3 changes no action by more than 15 % of its range"
            )
        return resolved

    @cached_property
    def _core(self) -> Core:
        """The method and its iterate, made when they are first needed."""
        settings = self.settings
        explored: list[Episodes] = []
        kernel = known_kernel(self._kernel, self._start, self.tasks, settings)
        if kernel is None:
            with threadpool_limits(1, user_api="blas"):  # as in learn
                explored = explore(
                    self._executor, self._scale is not None, settings, self._most_steps
                )
                warn_of_hard_tasks(self.tasks, settings, explored)
                if is_left_open(self.tasks):
                    explored = self._choose_lags(explored)
                kernel = observed_kernel(self.tasks, explored)
        method = _METHODS[settings.method](self._executor, settings, kernel)
        p = self.tasks[0].action_size
        iterate = Iterate(kernel, settings, len(self.tasks), p, method.functions)
        if explored:
            method.begin(explored)
            iterate.steps += sum(int(part.lengths.sum()) for part in explored)
        if self._start is not None:
            iterate.start_from(self._start)
        return Core(iterate, method)

    def _refuse_too_few(self) -> None:
        """Refuse fewer steps than the initial exploration and the first iteration need."""
        settings, N = self.settings, len(self.tasks)
        if known_kernel(self._kernel, self._start, self.tasks, settings) is not None:
            needed, explored = self.method.steps_needed(self._core.iterate), ""
        else:
            share = settings.initial_exploration.share
            needed = math.ceil(N * settings.fewest_steps / (1.0 - share if share < 1.0 else 1.0))
            explored = " with the initial exploration" if share < 1.0 else ""
        if self._most_steps < needed:
            raise InputError(
                f"steps is {self._most_steps}, but the first iteration of {settings.method} needs "
                f"{needed}{explored}, over {N} tasks; ask for more"
            )

    def _choose_lags(self, explored: Sequence[Episodes]) -> list[Episodes]:
        """Set the lags that were left open; return the episodes as policies with them see them."""
        self.tasks, seen, self.lag_evidence = choose_lags(self.tasks, explored)
        self._executor.close()
        self._executor = executor_for(self.tasks, *self._how)
        return seen

    @property
    def kernel(self) -> Kernel:
        """The kernel of the policies."""
        return self._core.iterate.dictionary.kernel

    def __repr__(self) -> str:
        # Until it is made, the length of learning may decide the method.
        method = self.settings.method if self._is_made or self._is_decided else None
        knots = len(self._core.iterate.dictionary) if self._is_made else 0
        return (
            f"CrossLearner({len(self.tasks)} tasks, method={method!r}, "
            f"epsilon={self.settings.epsilon}, {self.iteration} iterations, {knots} knots)"
        )

    @property
    def _is_made(self) -> bool:
        """Whether the method is decided and the kernel known; looking must not decide them."""
        return "_core" in vars(self)

    # Learning --------------------------------------------------------------------------

    @property
    def iteration(self) -> int:
        """The number of iterations so far."""
        return self._core.iterate.iteration if self._is_made else 0

    @property
    def steps(self) -> int:
        """The number of environment steps so far, over all tasks."""
        return self._core.iterate.steps if self._is_made else 0

    def learn(
        self,
        iterations: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        *,
        steps: int | None = None,
        progress: bool | Console = True,
        **others: Any,
    ) -> CrossLearner:
        """Run iterations of Algorithm 2, for a given length or until a stopping rule applies.

        Ctrl-C ends learning after the current iteration; the learner can continue later.

        Parameters
        ----------
        iterations : int, optional
            Further iterations. Give this or ``steps``.
        callback : callable, or a sequence of them, optional
            Called with an :class:`IterationReport` after each iteration; returning True stops.
            ``crosslearning.EvaluationCallback`` evaluates during learning.
        steps : int, optional
            The most further environment steps, over all tasks, with those of the initial
            exploration. Learning ends when fewer are left than an iteration needs.
        progress : bool or Console
            Whether to show a progress bar, if standard error is a terminal; or its console.

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
        choose_method(self, steps)
        callbacks = [callback] if callable(callback) else list(callback or ())
        made = length.begun(self)
        goal = length._replace(amount=made + length.amount)
        # One thread: how BLAS splits a sum over threads changes its last bits.
        with (
            threadpool_limits(1, user_api="blas"),
            deferred() as interrupted,
            learning_bar(progress, length.unit, made, goal.amount) as show,
        ):
            iterate = self._core.iterate
            iterate.allow(goal.amount if goal.unit == "steps" else None)
            if length.amount and not self.iteration and goal.reached(self):
                needed = self.method.steps_needed(iterate)
                raise InputError(
                    f"steps is {length.amount}, of which {self.steps} are taken, and the first "
                    f"iteration needs {needed}: nothing was learned; ask for more steps"
                )
            while not goal.reached(self):
                report = self._core.step()
                for name in ("last", "best"):
                    vars(self).pop(name, None)
                returns = report.numbers.get("total_return", report.returns)
                knots, mean = report.pruning.knots, float(np.mean(returns))
                show(length.made(self), knots, mean, worker_status(self))
                # All callbacks see every iteration, also the last.
                answers = [one(report) for one in callbacks]
                if any(answers) or report.stop:
                    break
                if interrupted.is_set():
                    raise KeyboardInterrupt
        return self

    @property
    def method(self) -> Method:
        """The method: a PolicyGradientMethod, TrustRegionMethod or ModelBasedMethod."""
        return self._core.method

    @property
    def action_units(self) -> str:
        """The units of the policies' actions: ``"box"``, or the tasks' ``"own"`` units."""
        return "own" if self._scale is None else "box"

    def close(self) -> None:
        """Release threads, processes and environments."""
        self._executor.close()

    # Policies --------------------------------------------------------------------------

    @cached_property
    def last(self) -> Policies:
        """The policies after the last iteration, from which learning goes on."""
        return self._policies(self._core.iterate.family)

    @cached_property
    def best(self) -> Policies:
        """The policies that were kept: those with the best lower bounds or expectations.

        They are compared unless ``keep`` is last and, by the method ``models``, around every
        controller; elsewhere they are the last ones.
        """
        if self._core.keeper is None:
            return self.last
        with threadpool_limits(1, user_api="blas"):  # as in learn
            return self._policies(self._core.kept.family)

    def _policies(self, family: Family) -> Policies:
        return Policies(family, self.tasks, self.settings, self.method.noise.std, self._scale)

    @property
    def _shown(self) -> Policies:
        return self.last if self.settings.keep == "last" else self.best

    @property
    def family(self) -> Family:
        """The policies h_1 … h_N and g on their common dictionary.

        Like all policies here they are the best or the last ones, as the setting ``keep`` says.
        """
        return self._shown.family

    @property
    def central(self) -> Policy:
        """The central policy g; where nothing moves g, the mean of the task policies.

        That is for ε = ∞ and, around a controller, until a correction is ε away from g = 0.
        """
        return self._shown.central

    @property
    def average(self) -> Policy:
        """The mean of the task policies."""
        return self._shown.average

    def policy(self, task: int | str) -> Policy:
        """Return the policy of a task, by its number or its name.

        ``"central"`` and ``"average"`` are those two, unless a task has that name.
        """
        return self._shown.policy(task)

    def controller(self, task: int | str | None = None) -> LearnedController:
        """Return a policy as the controller of a machine; by default the central one.

        See :meth:`Policies.controller`.
        """
        return self._shown.controller(task)

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

        With one task only, its policy acts.
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
        """Return a new learner that has learned another task from one of these policies.

        The method ``models`` keeps the data of its tasks: the model of the new one is fitted
        beside theirs, so that few steps are enough.

        Parameters
        ----------
        task : Task
            The task to adapt to.
        iterations, callback, steps
            As for :meth:`learn`.
        start : int or str, optional
            The task policy to start from; by default the central one.
        **settings
            Settings that differ from this learner's, such as ``step_size``.
        """
        if not isinstance(task, Task):
            raise InputError(f"task is {task!r}; give one Task, such as task_set('pendulums:1')[0]")
        policy = starting_policy(self, start)
        (task,) = behind_controller(self, [task])
        values = transfer_settings(self, **settings)
        with explaining_observations("this learner", lambda: self.tasks):
            learner = CrossLearner([task], start=policy.function, **values)
        learner.method.use_data_of(self.method)
        return learner.learn(iterations, callback, steps=steps)

    # Files -----------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything needed to continue bit for bit to one file, atomically."""
        write_learner(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        tasks: str | TaskSource | Sequence[Task] | None = None,
        kernel: Kernel | None = None,
        around: Any = None,
        workers: int | None = None,
        on: str = "threads",
        step_seconds: float | None = None,
    ) -> CrossLearner:
        """Read a learner from a file; it continues bit for bit as the saved one would have.

        Parameters
        ----------
        path : str or Path
        tasks : str or sequence of Task, optional
            Needed for further learning unless the tasks are a built-in set: no code that a file
            names is run. Without them the policies can be used, but not trained further.
        kernel : Kernel, optional
            Needed if the kernel is a user-defined formula.
        around : controller, optional
            As for the class; needed if the controller is code, for tasks that are not around it
            already.
        workers, on, step_seconds
            As for the class.
        """
        how = {"workers": workers, "on": on, "step_seconds": step_seconds}
        return read_learner(cls, path, tasks, kernel, around, **how)


def _given_settings(
    settings: LearnerSettings | float | None, kernel: object, keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings by name, from an object or from keywords; not both."""
    if isinstance(settings, LearnerSettings):
        if keywords:
            raise InputError(
                f"{', '.join(keywords)} was given beside {type(settings).__name__}(…); put it there"
            )
        given = msgspec.structs.asdict(settings)
    else:
        if settings is not None and "epsilon" in keywords:
            raise InputError(
                f"epsilon was given twice: {settings!r} and {keywords['epsilon']!r}; give one"
            )
        given = {**keywords, **({} if settings is None else {"epsilon": settings})}
    return {**given, **({"kernel": kernel} if isinstance(kernel, Mapping) else {})}


deprecate(CrossLearner)
