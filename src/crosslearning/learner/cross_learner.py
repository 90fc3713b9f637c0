"""The learner as a user meets it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded before it can be limited)
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from crosslearning.errors import FileFormatError, InputError, unknown_name
from crosslearning.files import read_tensors, write_tensors
from crosslearning.gradients.sampling import Sampling
from crosslearning.learner.core import Core, action_variance
from crosslearning.learner.policy import Policy
from crosslearning.learner.report import IterationReport
from crosslearning.learner.settings import LearnerSettings, convert_fields
from crosslearning.learner.stopping import judge
from crosslearning.rkhs import Dictionary, Family, Gaussian, Kernel, kernel_from_dict
from crosslearning.rollouts import executor_for
from crosslearning.tasks import Task, task_set

Floats = NDArray[np.float64]

FILE_KIND = "learner"
FILE_VERSION = 1

#: ``callback(report)`` is called after every iteration; returning True stops the learning.
Callback = Callable[[IterationReport], bool | None]


class CrossLearner:
    """Learns one policy per task, all within distance ε of a central one (Algorithm 2).

    Parameters
    ----------
    tasks : str or sequence of Task
        The name of a task set, such as ``"paper"``, or tasks of your own. Their observation
        and action spaces must be boxes of the same shape.
    epsilon : float
        The centrality radius: 0 forces consensus, infinity lets every task learn alone.
    kernel : Kernel, or its description as a mapping, optional
        By default a Gaussian of the widths that the tasks suggest.
    workers : int
        Threads for the rollouts. The result does not depend on it.
    task_options : mapping, optional
        Options of the named task set, such as ``{"crash": "terminate"}``.
    start : Family, optional
        Where the policies start; by default from zero. Either one function, from which all
        start, or a family of N + 1, h_1 … h_N and g, no farther apart than ``epsilon`` allows.
        Its kernel is the learner's.
    **settings
        Everything else: see :class:`crosslearning.learner.LearnerSettings`.

    Examples
    --------
    >>> from crosslearning import CrossLearner
    >>> learner = CrossLearner("paper", epsilon=3.0, max_knots=50).learn(5)
    >>> action, _ = learner.predict([2.0, 0.0, 5.0, 0.0, 0.5])
    >>> action.shape
    (2,)
    """

    def __init__(
        self,
        tasks: str | Sequence[Task],
        epsilon: float = 3.0,
        *,
        kernel: Kernel | Mapping[str, Any] | None = None,
        workers: int = 1,
        task_options: Mapping[str, Any] | None = None,
        start: Family | None = None,
        **settings: Any,
    ) -> None:
        self.task_set = tasks if isinstance(tasks, str) else None
        self.task_options = dict(task_options or {})
        self.tasks = _resolve(tasks, self.task_options)
        described = kernel if isinstance(kernel, Mapping) else None
        self.settings = make_settings({"epsilon": epsilon, "kernel": described, **settings})
        if described is not None:
            try:
                kernel = kernel_from_dict(described)
            except FileFormatError as problem:
                raise InputError(f"kernel is {dict(described)}: {problem}") from problem
        if start is not None:
            kernel = _kernel_of_start(start, kernel, self.tasks, self.settings)
        if kernel is None:
            kernel = default_kernel(self.tasks)
        if not isinstance(kernel, Kernel):
            raise InputError(f"kernel must be a Kernel or its description, got {kernel!r}")
        size = self.tasks[0].observation_space.shape[0]
        if kernel.dimension != size:
            raise InputError(
                f"the kernel reads {kernel.dimension} numbers, but the tasks' observations have "
                f"{size}"
            )
        self.kernel = kernel
        if workers < 1:
            raise InputError(f"workers must be at least 1, got {workers}")
        p = self.tasks[0].action_space.shape[0]
        self._noise_std = np.sqrt(action_variance(self.settings, p))
        executor = executor_for(self.tasks, self._noise_std, workers)
        self._core = Core(self.tasks, kernel, self.settings, executor)
        if start is not None and len(start.knots):
            # One function is given to all; directions of momentum stay zero.
            weights = np.zeros((len(start.knots), self._core.dictionary.functions, p))
            weights[:, : len(self.tasks) + 1] = start.weights
            self._core.dictionary.extend(start.knots, weights)
        self._family: Family | None = None
        self._policies: dict[int, Policy] = {}

    def __repr__(self) -> str:
        return (
            f"CrossLearner({len(self.tasks)} tasks, epsilon={self.settings.epsilon}, "
            f"{self.iteration} iterations, {len(self._core.dictionary)} knots)"
        )

    # Learning --------------------------------------------------------------------------

    @property
    def iteration(self) -> int:
        """How many iterations have been made."""
        return self._core.iteration

    @property
    def steps(self) -> int:
        """How many environment steps have been taken, over all tasks."""
        return self._core.steps

    @property
    def step_lengths(self) -> Floats:
        """By what the last iteration multiplied each task's gradient, shape (N,).

        Before clipping; with momentum, what multiplied the direction. Zero before the first
        iteration.
        """
        if self.iteration == 0:
            return np.zeros(len(self.tasks))
        return self._core.rule.lengths_at(self.iteration - 1)

    def learn(self, iterations: int, callback: Callback | None = None) -> CrossLearner:
        """Make iterations of Algorithm 2, until the number is reached or a rule stops it.

        Parameters
        ----------
        iterations : int
            How many more.
        callback : callable, optional
            Called with an :class:`IterationReport` after each; returning True stops.

        Returns
        -------
        CrossLearner
            Itself.
        """
        if isinstance(iterations, bool) or int(iterations) != iterations or iterations < 0:
            raise InputError(f"iterations must be a whole number of at least 0, got {iterations!r}")
        # One thread: how BLAS splits a sum over threads changes its last bits.
        with threadpool_limits(1, user_api="blas"):
            for _ in range(int(iterations)):
                report = judge(self._core, self._core.step())
                self._family = None
                self._policies.clear()
                if callback is not None and callback(report):
                    break
                if report.stop:
                    break
        return self

    @property
    def sampling(self) -> Sampling:
        """How gradients are sampled at these policies, for whoever reads a trained learner."""
        return self._core.sampling

    def radii(self) -> Floats:
        """Return how far from g each policy may be while g and the others stay, shape (N,)."""
        return self._core.radii()

    def close(self) -> None:
        """Give back threads and environments."""
        self._core.executor.close()

    # Policies --------------------------------------------------------------------------

    @property
    def family(self) -> Family:
        """The policies h_1 … h_N and g on their common dictionary."""
        if self._family is None:
            self._family = self._core.family
        return self._family

    @property
    def central(self) -> Policy:
        """The central policy g; for ε = ∞ the mean of the task policies.

        Without a bound nothing ties g to the tasks and nothing ever moves it, so that it says
        nothing about them. The mean is what is nearest to all of them.
        """
        return self._policy("central", len(self.tasks))

    def policy(self, task: int | str) -> Policy:
        """Return the policy of a task, by its number or its name."""
        names = [t.name for t in self.tasks]
        if isinstance(task, str):
            if task not in names:
                raise unknown_name("task", task, names)
            task = names.index(task)
        if not 0 <= task < len(names):
            raise InputError(f"no task {task}; there are {len(names)}, from 0")
        return self._policy(names[task], task)

    def _policy(self, name: str, function: int) -> Policy:
        # Kept until the policies change, so that its noise goes on from call to call.
        if function not in self._policies:
            space = self.tasks[0].action_space
            if function == len(self.tasks) and math.isinf(self.settings.epsilon):
                mean = self.family.mix(np.append(np.full(function, 1.0 / function), 0.0)[None])
            else:
                mean = self.family.select(function)
            discount = self.settings.discount
            self._policies[function] = Policy(name, mean, self._noise_std, space, discount)
        return self._policies[function]

    def predict(
        self, observation: ArrayLike, deterministic: bool = True, task: int | str | None = None
    ) -> tuple[NDArray[np.generic], None]:
        """Return the action of the central policy, or of a task's, and None.

        A learner of one task has nothing to be central to: there the task's policy acts.
        """
        if task is None and len(self.tasks) == 1:
            task = 0
        policy = self.central if task is None else self.policy(task)
        return policy.predict(observation, deterministic)

    def adapt(
        self,
        task: Task,
        iterations: int,
        start: int | str | None = None,
        callback: Callback | None = None,
        **settings: Any,
    ) -> CrossLearner:
        """Return a new learner that has gone on from one of these policies on another task.

        Parameters
        ----------
        task : Task
            The task to adapt to: a new one, or one of those trained for that the agent does
            not know to be facing.
        iterations : int
            How many to learn on it.
        start : int or str, optional
            The task policy to start from; by default the central one.
        callback : callable, optional
            As for :meth:`learn`.
        **settings
            Settings that differ from this learner's, such as ``step_size``.
        """
        policy = self.central if start is None else self.policy(start)
        values = {**msgspec.structs.asdict(self.settings), "epsilon": math.inf, "alpha": None}
        values |= {"kernel": None, **settings}
        learner = CrossLearner([task], start=policy.function, **values)
        return learner.learn(iterations, callback)

    # Files -----------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything needed to go on bit for bit to one file, atomically."""
        core = self._core
        arrays, numbers = core.dictionary.state()
        write_tensors(
            path,
            FILE_KIND,
            FILE_VERSION,
            {**arrays, "mean_square": core.rule.mean_square},
            {
                "settings": json.loads(msgspec.json.encode(_jsonable(self.settings))),
                "kernel": self.kernel.to_dict(),
                "task_set": self.task_set,
                "task_options": self.task_options,
                "tasks": [task.name for task in self.tasks],
                "dictionary": numbers,
                "iteration": core.iteration,
                "steps": core.steps,
                "generator": core.generator.bit_generator.state,
            },
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        tasks: str | Sequence[Task] | None = None,
        kernel: Kernel | None = None,
        workers: int = 1,
    ) -> CrossLearner:
        """Read a learner from a file; it goes on as the saved one would have.

        Parameters
        ----------
        path : str or Path
        tasks : str or sequence of Task, optional
            Needed if the learner was made from tasks of your own.
        kernel : Kernel, optional
            Needed if its kernel is a formula of your own.
        workers : int
            Threads for the rollouts.
        """
        arrays, description = read_tensors(path, FILE_KIND, FILE_VERSION)
        try:
            settings = settings_from_plain(description["settings"])
            if tasks is None:
                tasks = description["task_set"]
            if tasks is None:
                raise InputError(
                    f"{path} was learned on tasks of its author's ({description['tasks']}); pass "
                    "them: CrossLearner.load(path, tasks=...)"
                )
            if kernel is None:
                kernel = kernel_from_dict(description["kernel"])
            elif kernel.to_dict() != description["kernel"]:
                raise InputError(
                    f"{path} was learned with the kernel {description['kernel']}, got "
                    f"{kernel.to_dict()}"
                )
            values = {**msgspec.structs.asdict(settings), "kernel": settings.kernel or kernel}
            options = description["task_options"] if isinstance(tasks, str) else None
            learner = cls(tasks, workers=workers, task_options=options, **values)
            names = [task.name for task in learner.tasks]
            if names != description["tasks"]:
                raise InputError(f"{path} was learned on {description['tasks']}, got {names}")
            core = learner._core
            mean_square, fresh = arrays.pop("mean_square"), core.dictionary
            dictionary = Dictionary.from_state(kernel, arrays, description["dictionary"])
            sizes = [(d.functions, d.outputs, d.guarded) for d in (dictionary, fresh)]
            fits = sizes[0] == sizes[1] and mean_square.shape == core.rule.mean_square.shape
            counts = description["iteration"], description["steps"]
            if not fits or not np.all(np.isfinite(mean_square)) or min(counts) < 0:
                raise FileFormatError(f"the parts of {path} do not fit together")
            core.dictionary, core.rule.mean_square = dictionary, mean_square
            core.generator.bit_generator.state = description["generator"]
            core.iteration, core.steps = counts
        except (KeyError, TypeError, AttributeError) as problem:
            raise FileFormatError(f"{path} lacks a part of a learner: {problem}") from problem
        return learner


def make_settings(values: dict[str, Any]) -> LearnerSettings:
    """Return checked settings from keyword arguments, or name the field that is wrong."""
    names = LearnerSettings.__struct_fields__
    for name in values:
        if name not in names:
            raise unknown_name("setting", name, names)
    # Numbers of NumPy's, such as those of a linspace, are numbers too.
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
    if isinstance(plain.get("action_variance"), int | float):
        plain["action_variance"] = (plain["action_variance"],)
    return convert_fields(plain, LearnerSettings)


def _jsonable(settings: LearnerSettings) -> dict[str, Any]:
    """Return settings with infinities as words, which JSON lacks."""
    return {
        name: str(value) if isinstance(value, float) and np.isinf(value) else value
        for name, value in msgspec.structs.asdict(settings).items()
    }


def settings_from_plain(data: dict[str, Any]) -> LearnerSettings:
    """Return settings from the plain data of a file."""
    return make_settings({k: float(v) if v in ("inf", "-inf") else v for k, v in data.items()})


def _kernel_of_start(
    start: Family, kernel: object, tasks: Sequence[Task], settings: LearnerSettings
) -> Kernel:
    """Return the kernel of the functions to start from, checked to fit the learner."""
    outputs = tasks[0].action_space.shape[0]
    if start.functions not in (1, len(tasks) + 1) or start.outputs != outputs:
        raise InputError(
            f"start must be one function to R^{outputs}, or {len(tasks) + 1} of them: the policies "
            f"and the central one; got {start.functions} functions to R^{start.outputs}. Take "
            "some with Family.select"
        )
    if kernel is not None and kernel != start.kernel:
        raise InputError("start has a kernel of its own; leave kernel out, or pass the same one")
    if start.functions > 1 and len(start.knots):
        distances = start.distances()
        relaxed = settings.projection == "relaxed"
        farthest = float(np.sqrt(np.mean(distances**2)) if relaxed else np.max(distances))
        # Distances are known to rounding, relative to the functions themselves.
        if farthest > settings.epsilon + 1e-9 * (1.0 + float(np.max(start.norms()))):
            raise InputError(
                f"the policies of start are {farthest:.6g} from its centre, but epsilon is "
                f"{settings.epsilon:g}; start from a family that was learned with an epsilon no "
                "larger than this one, or project it first (crosslearning.rkhs.project)"
            )
    return start.kernel


def default_kernel(tasks: Sequence[Task]) -> Kernel:
    """Return a Gaussian kernel with the widths that the first task suggests.

    A task may state them; else a quarter of the range of each observation is taken.
    """
    task = tasks[0]
    if task.kernel_covariance is not None:
        return Gaussian(covariance=task.kernel_covariance)
    space = task.observation_space
    width = space.high.astype(np.float64) - space.low.astype(np.float64)
    if not np.all(np.isfinite(width)) or np.any(width > 1e6):
        raise InputError(
            f"the observations of task {task.name!r} have no finite range from which to take a "
            "kernel's widths; pass one: CrossLearner(tasks, kernel=Gaussian(std=[...]))"
        )
    return Gaussian(std=width / 4.0)


def _resolve(tasks: str | Sequence[Task], options: Mapping[str, Any]) -> tuple[Task, ...]:
    """Return the tasks, checked to fit together."""
    if options and not isinstance(tasks, str):
        raise InputError("task_options are for a named task set; give them to your tasks directly")
    resolved = task_set(tasks, **options) if isinstance(tasks, str) else tuple(tasks)
    if not resolved:
        raise InputError("no tasks were given; give at least one")
    first = resolved[0]
    seen: set[str] = set()
    for task in resolved:
        if not isinstance(task, Task):
            raise InputError(f"tasks must be Task objects, got {type(task).__name__}")
        if task.name in seen:
            raise InputError(f"two tasks have the name {task.name!r}; names must differ")
        seen.add(task.name)
        for kind in ("observation_space", "action_space"):
            space, expected = getattr(task, kind), getattr(first, kind)
            if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
                raise InputError(
                    f"the {kind} of task {task.name!r} must be a Box with one axis, got {space}"
                )
            if space.shape != expected.shape:
                raise InputError(
                    f"the {kind} of task {task.name!r} has shape {space.shape}, but that of "
                    f"{first.name!r} has {expected.shape}; tasks that learn together must match"
                )
        if not np.array_equal(task.action_space.low, first.action_space.low) or not np.array_equal(
            task.action_space.high, first.action_space.high
        ):
            raise InputError(
                f"the action_space of task {task.name!r} has other bounds than that of "
                f"{first.name!r}; tasks that learn together must match"
            )
    return resolved
