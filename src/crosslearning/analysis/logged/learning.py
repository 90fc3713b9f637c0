"""Policies from logged episodes alone, learned in dynamics models of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box

from crosslearning.analysis.logged.log import Episode, check_logs, spaces_of
from crosslearning.analysis.logged.reading import read_log
from crosslearning.analysis.logged.support import out_of_data_fraction
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.learner_file import MissingEnvironment
from crosslearning.learner.model_based.data import Formula, Transitions
from crosslearning.learner.model_based.method import ModelBasedMethod
from crosslearning.learner.preparation import kernel_for
from crosslearning.tasks import Task

if TYPE_CHECKING:
    from rich.console import Console

#: Policies that leave the data in more than this share of imagined steps cause a warning.
_MANY_STEPS = 0.1
_MISSING = (
    "machine {name!r} is known from logged data alone and has no environment. To continue with it, "
    "save the learner and give it tasks: CrossLearner.load(path, tasks=[...])"
)


def learn_from(
    data: Any,
    epsilon: float = 3.0,
    *,
    iterations: int = 120,
    observation_space: Box | None = None,
    action_space: Box | None = None,
    reward: Formula | None = None,
    terminated: Formula | None = None,
    columns: Mapping[str, Any] | None = None,
    progress: bool | Console = True,
    **settings: Any,
) -> CrossLearner:
    """Learn a policy for each machine from logged episodes, with the method ``models``.

    A warning names the machines whose policies leave the data, where models cannot be relied on.

    Parameters
    ----------
    data : mapping, sequence, Minari dataset, or path of a table
        ``{"machine": episodes, ...}`` or a list of such episodes, one entry for each machine. An
        episode is a mapping with ``observations`` (T+1, q), ``actions`` (T, p), ``rewards`` (T,)
        and, if it may end, ``terminated``: one truth value, or (T,). A dataset of Minari's is the
        episodes of one machine; several are several machines. A table is a CSV file with a row
        for every step; see ``columns``.
    epsilon : float
        How far the policies may be from the central one.
    iterations : int
        How often the policies are improved in the models.
    observation_space, action_space : Box, optional
        By default those of Minari's datasets, or else the range of the data, for observations
        with a margin. Coordinates whose bounds are −π and π are angles.
    reward, terminated : callable, optional
        Known rewards and terminations, as for :class:`crosslearning.Task`: they are then not
        learned from the data.
    columns : mapping, optional
        Names of the columns of a table: ``machine``, ``episode``, ``reward``, ``terminated``, and
        ``observations``, ``actions``, ``next_observations``, each a list of names or a prefix. By
        default these words, and ``obs``, ``act`` and ``next_obs``. Without next observations, the
        last row of an episode has only an observation.
    progress : bool or Console
        As for :meth:`CrossLearner.learn`.
    **settings
        Of the method, such as ``model_epsilon``, and ``seed``.

    Returns
    -------
    CrossLearner
        Its tasks have no environments: it can be saved, loaded and used for predictions.
        ``CrossLearner.load(path, tasks=...)`` gives it environments.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning import learn_from
    >>> draw, x = np.random.default_rng(0), [np.array([1.0])]
    >>> pushes = draw.uniform(-1.0, 1.0, (40, 1))
    >>> for push in pushes:
    ...     x.append(0.9 * x[-1] + 0.3 * push)
    >>> log = {"observations": x, "actions": pushes, "rewards": -np.square(x[1:])[:, 0]}
    >>> learner = learn_from({"cart": [log]}, iterations=40, progress=False)
    >>> action, _ = learner.predict([0.8], task="cart")
    >>> bool(action[0] < 0.0)
    True
    """
    for name in {"method", "updates_per_round"} & set(settings):
        raise InputError(
            f"{name} is not for you to set: learn_from learns with models, in one round"
        )
    log = read_log(data, columns)
    check_logs(log, reward is not None)
    spaces = spaces_of(data, log, observation_space, action_space)
    tasks = [
        Task(
            name,
            MissingEnvironment(_MISSING.format(name=name)),
            spaces=spaces,
            horizon=max(len(one.rewards) for one in episodes),
            reward=reward,
            terminated=terminated,
        )
        for name, episodes in log.items()
    ]
    seen = np.concatenate([one.observations for own in log.values() for one in own])
    kernel = settings.pop("kernel", None) or kernel_for(seen, spaces[0])
    learner = CrossLearner(
        tasks, epsilon, kernel=kernel, method="models", updates_per_round=iterations, **settings
    )
    method = learner.method
    assert isinstance(method, ModelBasedMethod)
    method.take_in([_transitions(episodes, method) for episodes in log.values()])
    learner.learn(iterations, progress=progress)
    _warn_of_extrapolation(learner)
    return learner


def _transitions(episodes: list[Episode], method: ModelBasedMethod) -> Transitions:
    """Return the transitions of one task, with actions in the policies' units."""
    parts = []
    for one in episodes:
        first = np.zeros(len(one.rewards))
        first[:1] = 1.0
        actions = np.clip(method.executor.scale.inverse(one.actions), *method.bounds)
        seen, ends = one.observations, one.terminated.astype(np.float64)
        parts.append(Transitions(seen[:-1], actions, seen[1:], one.rewards, ends, first))
    return Transitions.joined(parts)


def _warn_of_extrapolation(learner: CrossLearner) -> None:
    shares = out_of_data_fraction(learner)
    listed = [f"{name!r} in {share:.0%}" for name, share in shares.items() if share > _MANY_STEPS]
    if listed:
        warnings.warn(
            "policies leave the data: the models are uncertain in a share of imagined steps, for "
            f"{', '.join(listed)}. Log more data of these policies before relying on them",
            stacklevel=3,
        )
