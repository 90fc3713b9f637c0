"""Films: what an environment shows of a policy's episodes, picture by picture."""

from __future__ import annotations

import math
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

#: The longer side of a picture, in pixels; larger ones are made smaller.
MOST_PIXELS = 480
#: The most memory that the pictures of a film may take, in GiB.
MOST_MEMORY = 2.0
#: Steps a second, of tasks that do not tell.
_RATE = 20.0


@dataclass(frozen=True, eq=False)
class Film:
    """A policy's episodes in one task, as pictures.

    Attributes
    ----------
    task, policy : str
    episodes : tuple of tuples of arrays, shape (height, width, 3)
        The start of every episode, and what each of its steps led to.
    returns : array, shape (episodes,)
        Sums of rewards.
    rate : float
        Steps a second.
    """

    task: str
    policy: str
    episodes: tuple[tuple[Frame, ...], ...]
    returns: NDArray[np.float64]
    rate: float


def film(
    policy: Policy,
    task: Task,
    episodes: int = 1,
    horizon: int | None = None,
    seed: int = 0,
    look: Callable[[], object] = lambda: None,
) -> Film:
    """Film a policy without exploration noise, from the starts on which it is evaluated.

    Parameters
    ----------
    policy : Policy
    task : Task
        One whose environment has the render mode ``"rgb_array"``.
    episodes : int
    horizon : int, optional
        The most steps of an episode; by default the task's own.
    seed : int
        Chooses the starts, as for :func:`crosslearning.learner.evaluation.evaluate`.
    look : callable
        Called after every picture, such as to show progress.

    Raises
    ------
    InputError
        If the environment cannot be made so that it shows pictures.
    """
    steps = horizon or task.horizon
    height, width, rate = _try(task)
    if (size := 3 * height * width * (steps + 1) * episodes / 2**30) > MOST_MEMORY:
        raise InputError(
            f"{episodes} episodes of {steps} steps in pictures of {width} × {height} would take "
            f"{size:.1f} GiB of memory; ask for fewer episodes or a shorter horizon"
        )
    taken: list[list[Frame]] = []

    def make(render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return _Camera(task.make(render_mode="rgb_array"), taken, look)

    spaces = task.observation_space, task.action_space
    filmed = replace(task, make=make, spaces=spaces, horizon=task.horizon)
    played = run_episodes(
        lambda observation: policy.predict(observation)[0], filmed, episodes, steps, seed
    )
    # What is begun at the end of an episode, by an environment that starts again, is not shown.
    shown = tuple(
        tuple(frames[: length + 1])
        for frames, length in zip(taken, played.lengths.tolist(), strict=False)
    )
    return Film(task.name, policy.name, shown, played.rewards.sum(axis=1), rate)


class _Camera(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes a picture of every start, with which a new film begins, and after every step."""

    def __init__(
        self,
        environment: gymnasium.Env[Any, Any],
        taken: list[list[Frame]],
        look: Callable[[], object],
    ) -> None:
        super().__init__(environment)
        self.taken, self.look = taken, look

    def reset(self, **options: Any) -> Any:
        found = self.env.reset(**options)
        self.taken.append([])
        self._take()
        return found

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        self._take()
        return found

    def _take(self) -> None:
        self.taken[-1].append(_reduced(_picture(self.env)))
        self.look()


def _try(task: Task) -> tuple[int, int, float]:
    """Return the size of a task's pictures and its rate, or say why there are none."""
    environment: Any = None
    try:
        environment = task.make(render_mode="rgb_array")
        if isinstance(environment, gymnasium.vector.VectorEnv):
            raise InputError("it is a vector environment; make the task of a single one")
        environment.reset(seed=0)
        height, width, _ = _reduced(_picture(environment)).shape
        rate = (environment.metadata or {}).get("render_fps") or task.rate or _RATE
    # An environment may raise anything, such as what its drawing library does without a screen.
    except Exception as problem:
        kind = "" if isinstance(problem, InputError) else f"{type(problem).__name__}: "
        remedy = (
            "A task can be filmed if make(render_mode='rgb_array') returns an environment whose "
            "render() returns pictures"
        )
        if "mujoco" in type(getattr(environment, "unwrapped", None)).__module__:
            remedy = "Without a screen MuJoCo draws if MUJOCO_GL is set to egl or osmesa"
        raise InputError(
            f"task {task.name!r} cannot be filmed: {kind}{problem}. {remedy}"
        ) from problem
    finally:
        if environment is not None:
            environment.close()
    return height, width, float(rate)


def _picture(environment: gymnasium.Env[Any, Any]) -> Frame:
    """Return what an environment shows, or say that it is no picture."""
    given: Any = environment.render()
    frame = np.asarray(given)
    if frame.ndim != 3 or frame.shape[2] not in (3, 4) or frame.dtype != np.uint8:
        what = type(given).__name__ if frame.ndim != 3 else f"{frame.dtype} of shape {frame.shape}"
        raise InputError(f"render() returned {what}, expected uint8 of shape (height, width, 3)")
    return frame[..., :3]


def _reduced(frame: Frame) -> Frame:
    """Return a picture that is not larger than needed; sides are even, as films want them."""
    height, width = frame.shape[:2]
    factor = min(1.0, MOST_PIXELS / max(height, width))
    wanted = [max(2, 2 * math.floor(factor * side / 2)) for side in (width, height)]
    if wanted == [width, height]:
        return frame.copy()
    return np.asarray(Image.fromarray(frame).resize((wanted[0], wanted[1])))
