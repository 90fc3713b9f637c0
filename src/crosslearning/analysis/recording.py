"""Recordings: the rendered frames of a policy's episodes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from crosslearning.errors import InputError
from crosslearning.learner import Policy
from crosslearning.learner.evaluation import run_episodes
from crosslearning.tasks import Task

Frame = NDArray[np.uint8]

#: The longer side of a frame in pixels; larger frames are scaled down.
MOST_PIXELS = 480
#: The most memory of a recording, in GiB.
MOST_MEMORY = 2.0
#: Steps per second of tasks without a rate.
_RATE = 20.0


@dataclass(frozen=True, eq=False)
class Recording:
    """Rendered episodes of a policy in one task."""

    task: str
    policy: str
    episodes: tuple[tuple[Frame, ...], ...]  #: per episode the start and every step: (h, w, 3)
    returns: NDArray[np.float64]  #: sums of rewards, shape (episodes,)
    rate: float  #: steps per second


def record(
    policy: Policy,
    task: Task,
    episodes: int = 1,
    horizon: int | None = None,
    seed: int = 0,
    callback: Callable[[], object] = lambda: None,
) -> Recording:
    """Record a policy without exploration noise, from the starts of its evaluation.

    Parameters
    ----------
    task : Task
        Its environment must have the render mode ``"rgb_array"``.
    horizon : int, optional
        The most steps of an episode; by default the task's.
    seed : int
        Of the starts, as for :func:`crosslearning.learner.evaluation.evaluate`.
    callback : callable
        Called after every frame, for example to show progress.
    """
    steps = horizon or task.horizon
    height, width, rate = _frame_size_and_rate(task)
    if (size := 3 * height * width * (steps + 1) * episodes / 2**30) > MOST_MEMORY:
        raise InputError(
            f"{episodes} episodes of {steps} steps in frames of {width} × {height} would take "
            f"{size:.1f} GiB of memory; ask for fewer episodes or a shorter horizon"
        )
    recorded: list[list[Frame]] = []

    def make(render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return _Recorder(task.make(render_mode="rgb_array"), recorded, callback)

    spaces = task.observation_space, task.action_space
    rendered = replace(task, make=make, spaces=spaces, horizon=task.horizon)
    played = run_episodes(lambda seen: policy.predict(seen)[0], rendered, episodes, steps, seed)
    # Environments that reset themselves begin an episode more, which is left out.
    pairs = zip(recorded, played.lengths.tolist(), strict=False)
    shown = tuple(tuple(frames[: length + 1]) for frames, length in pairs)
    return Recording(task.name, policy.name, shown, played.rewards.sum(axis=1), rate)


class _Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Renders every reset, which begins a list of frames, and every step."""

    def __init__(
        self,
        environment: gymnasium.Env[Any, Any],
        recorded: list[list[Frame]],
        callback: Callable[[], object],
    ) -> None:
        super().__init__(environment)
        self.recorded, self.callback = recorded, callback

    def reset(self, **options: Any) -> Any:
        self.recorded.append([])
        return self._rendered(self.env.reset(**options))

    def step(self, action: Any) -> Any:
        return self._rendered(self.env.step(action))

    def _rendered(self, result: Any) -> Any:
        self.recorded[-1].append(_frame(self.env))
        self.callback()
        return result


def _frame_size_and_rate(task: Task) -> tuple[int, int, float]:
    environment: Any = None
    try:
        environment = task.make(render_mode="rgb_array")
        if isinstance(environment, gymnasium.vector.VectorEnv):
            raise InputError("it is a vector environment; make the task of a single one")
        environment.reset(seed=0)
        height, width, _ = _frame(environment).shape
        rate = (environment.metadata or {}).get("render_fps") or task.rate or _RATE
    # Environments may raise anything, for example without a display.
    except Exception as problem:
        kind = "" if isinstance(problem, InputError) else f"{type(problem).__name__}: "
        remedy = (
            "A task can be recorded if make(render_mode='rgb_array') returns an environment whose "
            "render() returns pictures"
        )
        if "mujoco" in type(getattr(environment, "unwrapped", None)).__module__:
            remedy = "Without a display MuJoCo renders if MUJOCO_GL is set to egl or osmesa"
        raise InputError(
            f"task {task.name!r} cannot be recorded: {kind}{problem}. {remedy}"
        ) from problem
    finally:
        if environment is not None:
            environment.close()
    return height, width, float(rate)


def _frame(environment: gymnasium.Env[Any, Any]) -> Frame:
    """Return the rendered frame, scaled down if it is large, with even sides for films."""
    given: Any = environment.render()
    frame = np.asarray(given)
    if frame.ndim != 3 or frame.shape[2] not in (3, 4) or frame.dtype != np.uint8:
        what = type(given).__name__ if frame.ndim != 3 else f"{frame.dtype} of shape {frame.shape}"
        raise InputError(f"render() returned {what}, expected uint8 of shape (height, width, 3)")
    frame = frame[..., :3]
    height, width = frame.shape[:2]
    factor = min(1.0, MOST_PIXELS / max(height, width))
    size = [max(2, 2 * math.floor(factor * side / 2)) for side in (width, height)]
    if size == [width, height]:
        return frame.copy()
    return np.asarray(Image.fromarray(frame).resize((size[0], size[1])))


def __getattr__(name: str) -> Any:
    renamed: dict[str, Any] = {"film": record, "Film": Recording}
    if name not in renamed:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    text = f"{name} is now {renamed[name].__name__}; the old name goes with version 0.5"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return renamed[name]
