"""From tasks to the parts of a learner: checked tasks, units of the actions, kernel and start."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner.lags import is_left_open
from crosslearning.learner.settings import LearnerSettings
from crosslearning.rkhs import Family, Gaussian, Kernel, Linear, Sum, kernel_from_dict
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import ActionScale, Episodes, Executor, plan_episodes
from crosslearning.tasks import Task
from crosslearning.tasks.controllers import read_controller
from crosslearning.tasks.loop_spec import LoopSpec
from crosslearning.tasks.signals import angles_of, find_circles
from crosslearning.tasks.sources import TaskSource, around_controllers, load_tasks
from crosslearning.tasks.task_sets import as_tasks

#: Standard deviation of the random actions: they fill most of [−1, 1].
_RESTLESS = 0.7
#: In so many dimensions a Gaussian as wide as the data is wide enough; in more, distances grow.
_FEW = 3
#: A little less than the standard deviation of the cosine of a uniform angle.
_ROUND = 0.6
#: Random options cancel out, or soon end an episode: they show less of where a machine goes than
#: the bounds of its observations do, this share of half of their range.
_LEAST_OF_BOUNDS = 0.25
#: Bounds beyond this count as unbounded.
_SENSIBLE = 1e4
#: With more inputs few steps are seldom enough for the dynamics; reachers have 12.
_MOST_INPUTS = 20
#: So many episodes that all terminate at one step have a time limit.
_ALIKE = 4
#: Joined with the run's seed for the random numbers of the initial exploration.
_STREAM = 0x100C
#: The constant share of kernels around a controller, and the width that counts as constant.
_CONSTANT, _FLAT = 0.3, 1e4
#: An action on its way to the machine is so many times wider in the kernel.
_ON_ITS_WAY = 3.0


class ObservationSizeError(InputError):
    """Tasks show more or fewer numbers than policies read."""


# Tasks ------------------------------------------------------------------------------------


def resolve_tasks(
    tasks: TaskSource | Sequence[Task], options: Mapping[str, Any], around: Any = None
) -> tuple[Task, ...]:
    """Return the tasks, ``around`` controllers if there are any, checked to be compatible."""
    if options and not isinstance(tasks, TaskSource):
        raise InputError("task_options are for a named task set; give them to your tasks directly")
    if isinstance(tasks, Task):
        raise InputError(f"tasks is the one task {tasks.name!r}; give a list, such as [task]")
    given = load_tasks(tasks, options) if isinstance(tasks, TaskSource) else tasks
    resolved = as_tasks(given, "tasks")
    if not resolved:
        raise InputError("no tasks were given; give at least one")
    if isinstance(around, str) and not isinstance(tasks, TaskSource):
        if not around.endswith(".json"):
            raise InputError(
                f"around is {around!r}: with tasks of Python give the controller itself, or a JSON "
                "file"
            )
        around = read_controller(read_bytes(Path(around)).decode(), around)
    if around is not None and not isinstance(around, str):
        resolved = around_controllers(resolved, around)
    first, names = resolved[0], Counter(task.name for task in resolved)
    for task in resolved:
        if names[task.name] > 1:
            raise InputError(f"two tasks have the name {task.name!r}; names must differ")
        if task.choices != first.choices:
            theirs, others = (one.choices or one.action_space for one in (task, first))
            raise InputError(
                f"the actions of task {task.name!r} are {theirs}, but those of {first.name!r} are "
                f"{others}; tasks that learn together must match"
            )
        for kind in ("observation_space", "action_space"):
            space, expected = getattr(task, kind), getattr(first, kind)
            if not isinstance(space, gymnasium.spaces.Box):
                raise InputError(
                    f"the {kind} of task {task.name!r} must be a Box, got {space}; "
                    f"{_remedy(space, kind)}"
                )
            if space.shape != expected.shape:
                raise InputError(
                    f"the {kind} of task {task.name!r} has shape {space.shape}, but that of "
                    f"{first.name!r} has {expected.shape}; tasks that learn together must match"
                )
        actions, expected = task.action_space, first.action_space
        if not np.issubdtype(actions.dtype, np.floating) or not np.all(actions.low < actions.high):
            raise InputError(
                f"the action_space of task {task.name!r} is {actions}; give a Box of floats whose "
                "low ends are below its high ends, or nothing can be learned"
            )
        if not np.array_equal([actions.low, actions.high], [expected.low, expected.high]):
            raise InputError(
                f"the action_space of task {task.name!r} has other bounds than that of "
                f"{first.name!r}; tasks that learn together must match"
            )
    return resolved


def _remedy(space: gymnasium.Space[Any], kind: str) -> str:
    """Return the remedy for a space that is not a box of numbers."""
    spaces = gymnasium.spaces
    discrete = spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    if kind == "action_space" and isinstance(space, discrete):
        return "of a vector environment only real actions are known; give a single environment"
    if kind == "action_space" and isinstance(space, spaces.Dict | spaces.Tuple):
        return (
            "its parts must all be real numbers, or all of it one Discrete, MultiDiscrete or "
            "MultiBinary space: gymnasium.wrappers.TransformAction can make one of it"
        )
    if isinstance(space, discrete):
        return "gymnasium.wrappers.FlattenObservation makes it one-hot"
    if isinstance(space, spaces.Dict):
        return "gymnasium.wrappers.FilterObservation leaves out what is no array of numbers"
    return "gymnasium.wrappers.TransformObservation or TransformAction can make one of it"


def scale_of(tasks: Sequence[Task], settings: LearnerSettings) -> ActionScale | None:
    """Return the map from policies' actions to the tasks'; None for the tasks' own units."""
    space, units = tasks[0].action_space, settings.action_units
    bounded = bool(np.all(np.abs([space.low, space.high]) <= _SENSIBLE))
    if units == "box" and not bounded:
        raise InputError(
            f"action_units is 'box', but the actions of task {tasks[0].name!r} have no bounds: "
            f"{space}; take 'own', or gymnasium.wrappers.ClipAction"
        )
    stated = settings.as_stated and tasks[0].kernel_covariance is not None
    if units == "own" or not bounded or (units == "auto" and stated):
        return None
    return ActionScale.of_box(space.low, space.high)


# Kernel and start -------------------------------------------------------------------------


def known_kernel(
    given: Kernel | Mapping[str, Any] | None,
    start: Family | None,
    tasks: Sequence[Task],
    settings: LearnerSettings,
) -> Kernel | None:
    """Return the given kernel, the start's or the tasks', checked; None if it needs data."""
    kernel: object = given
    if isinstance(given, Mapping):
        try:
            kernel = kernel_from_dict(given)
        except FileFormatError as problem:
            raise InputError(f"kernel is {dict(given)}: {problem}") from problem
    if start is not None:
        kernel = _kernel_of_start(start, kernel, tasks, settings)
    if kernel is not None and is_left_open(tasks):
        raise InputError(
            "lags is 'auto', but the kernel is given, which reads a known number of observations; "
            "leave the kernel out, or give the number of lags"
        )
    if kernel is None:
        stated = tasks[0].kernel_covariance if settings.as_stated else None
        if stated is None:
            return None
        kernel = Gaussian(covariance=stated)
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be a Kernel or its description, got {kernel!r}")
    size, names = tasks[0].observation_size, ", ".join(tasks[0].observation_names)
    if kernel.dimension != size:
        shown = f": {names}" if names else ""
        raise ObservationSizeError(
            f"the kernel reads {kernel.dimension} numbers, but the tasks' observations have "
            f"{size}{shown}"
        )
    return kernel


def _kernel_of_start(
    start: Family, kernel: object, tasks: Sequence[Task], settings: LearnerSettings
) -> Kernel:
    """Return the kernel of the initial policies, checked."""
    outputs = tasks[0].action_size
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
        # Distances are exact up to rounding, relative to the functions' norms.
        if farthest > settings.epsilon + 1e-9 * (1.0 + float(np.max(start.norms()))):
            raise InputError(
                f"the policies of start are {farthest:.6g} from its centre, but epsilon is "
                f"{settings.epsilon:g}; start from a family that was learned with an epsilon no "
                "larger than this one, or project it first (crosslearning.rkhs.project)"
            )
    return start.kernel


def explore(
    executor: Executor, scaled: bool, settings: LearnerSettings, most_steps: float
) -> list[Episodes]:
    """Return episodes with random actions; ``most_steps`` are those of the whole run."""
    tasks = executor.tasks
    q, p = tasks[0].observation_size, tasks[0].action_size
    std = np.full(p, settings.noise_within(_RESTLESS))
    if not scaled and math.isinf(settings.bound):  # random actions are as wide as their box
        low, high = tasks[0].action_space.low, tasks[0].action_space.high
        bounded = np.maximum(np.abs(low), np.abs(high)) <= _SENSIBLE
        half = 0.5 * np.subtract(high, low, out=np.full(low.shape, 2.0), where=bounded)
        std = _RESTLESS * half.ravel()
    still = Family(Linear(std=[1.0] * q), np.zeros((1, q)), np.zeros((1, len(tasks), p)))
    exploration = settings.initial_exploration.within(most_steps / len(tasks))
    generator = np.random.default_rng([settings.seed, _STREAM])
    if exploration.episodes == 1:
        return executor.collect_steps(still.expansion, generator, exploration.steps, std)
    horizon = min(exploration.steps, max(task.horizon for task in tasks))
    plan = plan_episodes(generator, tasks, exploration.episodes, horizon, std)
    return [executor.episodes(still.expansion, plan)]


def warn_of_hard_tasks(
    tasks: Sequence[Task], settings: LearnerSettings, parts: Sequence[Episodes]
) -> None:
    """Warn of more inputs than models learn, and of time limits that are called terminations."""
    q, p = tasks[0].observation_size, tasks[0].action_size
    if settings.method == "models" and q + p > _MOST_INPUTS:
        warnings.warn(
            f"models have to learn dynamics of {q + p} inputs, {q} observations and {p} actions; "
            f"from few steps they learn those of up to about {_MOST_INPUTS}. Show fewer, for "
            "instance with gymnasium.wrappers.FilterObservation, or take method='trust-region' "
            "and more steps",
            stacklevel=1,
        )
    for i, task in enumerate(tasks):
        lengths = np.concatenate([part.lengths[i] for part in parts])
        ended = np.concatenate([part.terminated[i] for part in parts])
        k = int(lengths.max())
        if k > 1 and np.sum(ended) >= _ALIKE and np.array_equal(ended, lengths == k):
            warnings.warn(
                f"all {np.sum(ended)} episodes of task {task.name!r} that were not cut terminated "
                f"at step {k}. If that is a time limit, what comes after it is taken for worth "
                f"nothing: say horizon={k - 1} of the task, or let it return truncated",
                stacklevel=1,
            )
            return


def observed_kernel(tasks: Sequence[Task], parts: Sequence[Episodes]) -> Kernel:
    """Return a kernel with widths from what policies observe in episodes."""
    seen = [
        part.observations[np.arange(part.observations.shape[2]) <= part.lengths[:, :, None]]
        for part in parts
    ]
    first, around = tasks[0], any(task.controller is not None for task in tasks)
    least = _LEAST_OF_BOUNDS if first.choices is not None else 0.0
    return kernel_for(np.concatenate(seen), first.observation_space, around, first.loop, least)


def kernel_for(
    seen: Floats,
    space: Box,
    around: bool = False,
    loop: LoopSpec | None = None,
    least: float = 0.0,
) -> Kernel:
    """Return a Gaussian kernel with widths from observations (n, q) of all tasks.

    Widths are standard deviations, wider in many dimensions. Coordinates whose bounds are a full
    turn apart are angles: periodic in the kernel, with the deviation of their point on the circle.
    ``around`` a controller a share of the kernel is constant, since what a controller lacks most
    often is a constant, which has a large norm in the space of a Gaussian. κ(s, s) stays 1.
    A ``loop`` may show actions on their way to the machine. One action moves it by little, so the
    kernel is wider there: else policies need many more knots, and generalise less.
    Deviations are no smaller than the share ``least`` of half the range, where there are bounds.
    """
    angles, q = angles_of(space), seen.shape[1]
    spread = seen.std(axis=0)
    spread[angles] = np.sqrt(1.0 - np.abs(np.exp(1j * seen[:, angles]).mean(axis=0)) ** 2)
    # An angle that hardly moves at first may later turn all the way round.
    circular = [*angles, *(i for pair in find_circles(seen) for i in pair)]
    spread[circular] = np.maximum(spread[circular], _ROUND)
    half = 0.5 * (space.high.ravel().astype(np.float64) - space.low.ravel())
    spread = np.maximum(spread, least * np.where(half <= _SENSIBLE, half, 0.0))
    widths = np.sqrt(max(q, _FEW) / _FEW) * np.where(spread > 0.0, spread, 1.0)
    if loop is not None:
        widths[loop.delayed_actions] *= _ON_ITS_WAY
    kernel = Gaussian(std=widths, periodic=angles)
    if not around:
        return kernel
    every, flat = range(q), Gaussian(std=_FLAT * widths)
    return Sum((kernel, every), (flat, every), scales=[1.0 - _CONSTANT, _CONSTANT])
