"""Policies from logged episodes alone, learned in dynamics models of them.

A policy may come to rely on predictions where there are no data. So rollouts are imagined with the
learned policies, and the steps are counted at which the models are uncertain.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box
from scipy.linalg import cho_factor, cho_solve

from crosslearning.analysis.logged.description import read_data
from crosslearning.analysis.logged.log import Episode, Log, check_content, spaces_of
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.lags import evidence_of_lags
from crosslearning.learner.learner_file import MissingEnvironment
from crosslearning.learner.model_based.data import Formula, Transitions
from crosslearning.learner.model_based.dynamics import Dynamics, world_of
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.learner.model_based.method import ModelBasedMethod
from crosslearning.learner.preparation import kernel_for
from crosslearning.rkhs.checks import Floats
from crosslearning.tasks import Task
from crosslearning.tasks.loop import Loop
from crosslearning.tasks.loop_spec import LoopSpec
from crosslearning.tasks.numbers import check_names
from crosslearning.tasks.signals import find_circles
from crosslearning.tasks.sources import around_controllers

if TYPE_CHECKING:
    from rich.console import Console

#: The default weight of leaving the range of the data, see :class:`crosslearning.ModelBased`.
RANGE_PENALTY = 1.0
#: Imagined rollouts per task, and posterior samples.
_ROLLOUTS, _SAMPLES = 40, 16
#: The standard deviation of an uncertain prediction, in units of the spread of the data.
_UNSURE = 0.5
#: Policies that leave the data in more than this share of imagined steps cause a warning.
_MANY_STEPS = 0.1
#: The share of the diagonal that is added to the Gram matrix of knots.
_JITTER = 1e-10
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
    around: Any = None,
    lags: int | str = 0,
    task: Mapping[str, Any] | None = None,
    rate: float | None = None,
    **settings: Any,
) -> CrossLearner:
    """Learn a policy for each machine from logged episodes, with the method ``models``.

    A warning names the machines whose policies leave the data, where models cannot be relied on.

    Parameters
    ----------
    data : mapping, sequence, Minari dataset, or paths of files
        ``{"machine": episodes, ...}`` or a list of such episodes, one entry for each machine. An
        episode is a mapping with ``observations`` (T+1, q), ``actions`` (T, p), ``rewards`` (T,)
        and, if it may end, ``terminated``: one truth value, or (T,). A dataset of Minari's is the
        episodes of one machine; several are several machines. Files are CSV with a row for every
        step, Parquet, MDF or ROS bags, one for each machine or with a column that names it; see
        ``columns`` and :func:`crosslearning.analysis.logged.describe_log`.
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
        Names of the columns, or signals, of files: ``machine``, ``episode``, ``reward``,
        ``terminated``, ``time`` in seconds, ``reset``, and ``observations``, ``actions``,
        ``next_observations``, each a list of names or a prefix. By default these words, and
        ``obs``, ``act`` and ``next_obs``. Without next observations, the last row of an episode
        has only an observation. Instead of a reward, ``setpoints`` by observation, each a number
        or a column: the reward is then −Σ ((next observation − setpoint)/spread)².
    progress : bool or Console
        As for :meth:`CrossLearner.learn`.
    around : controller, optional
        The controller whose actions the policies will correct, as for :class:`CrossLearner`; the
        data need not be of its actions.
    lags : int or "auto"
        As for :class:`crosslearning.Task`: by ``"auto"`` chosen by the evidence of models.
    task : mapping, optional
        Further fields of :class:`crosslearning.Task` that hold for every machine, such as
        ``{"past_actions": 2, "limits": {"pressure": (None, 8.0)}}``. Names are those of the table's
        columns, or ``observation_names`` and ``action_names``.
    rate : float, optional
        Steps per second to which files are resampled, as by
        :func:`crosslearning.analysis.logged.describe_log`.
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
    learner = learner_of(
        data,
        epsilon,
        iterations=iterations,
        observation_space=observation_space,
        action_space=action_space,
        reward=reward,
        terminated=terminated,
        columns=columns,
        around=around,
        lags=lags,
        task=task,
        rate=rate,
        **settings,
    )
    learner.learn(iterations, progress=progress)
    warn_of_leaving(learner)
    return learner


def learner_of(
    data: Any,
    epsilon: float,
    *,
    iterations: int,
    observation_space: Box | None = None,
    action_space: Box | None = None,
    reward: Formula | None = None,
    terminated: Formula | None = None,
    columns: Mapping[str, Any] | None = None,
    around: Any = None,
    lags: int | str = 0,
    task: Mapping[str, Any] | None = None,
    rate: float | None = None,
    **settings: Any,
) -> CrossLearner:
    """Return a learner that holds logged data and has learned nothing yet; see `learn_from`."""
    for name in {"method", "updates_per_round"} & set(settings):
        raise InputError(f"{name} is not for you to set: the method is models, in one round")
    log, named = read_data(data, columns, rate, reward is not None)
    check_content(log, reward is not None)
    spaces = spaces_of(data, log, observation_space, action_space)
    if around is not None and action_space is None:
        raise InputError(
            "the logged actions do not tell the range of the actuators, within which a controller "
            "acts; give it: action_space=Box(low, high)"
        )
    rated = named.pop("rate", None)
    fields = {**named, "lags": lags, **(task or {})}
    check_names("field of a task", fields, Task.__dataclass_fields__)
    if fields.get("lags"):
        every = np.concatenate([one.observations for one in itertools.chain(*log.values())])
        fields.setdefault("circles", find_circles(every))
    tasks: tuple[Task, ...] = tuple(
        Task(
            name,
            MissingEnvironment(_MISSING.format(name=name)),
            spaces=spaces,
            horizon=max(len(one.rewards) for one in episodes),
            reward=reward,
            terminated=terminated,
            **fields,
        )
        for name, episodes in log.items()
    )
    if rated is not None:
        for one in tasks:
            one._set(rate=rated)
    if around is not None:
        tasks = around_controllers(tasks, around)
    logs, evidence = _as_observed(log, tasks), None
    if fields["lags"] == "auto":
        shown = [[(one.observations, one.actions) for one in episodes] for episodes in logs]
        evidence = evidence_of_lags(shown, spaces[0], fields["circles"])
        tasks = tuple(one.with_lags(evidence.chosen) for one in tasks)
        logs = _as_observed(log, tasks)
    seen = np.concatenate([one.observations for episodes in logs for one in episodes])
    kernel = settings.pop("kernel", None) or kernel_for(
        seen, tasks[0].observation_space, around is not None, tasks[0].loop
    )
    if settings.get("start_share") is None:
        settings["start_share"] = 0.0  # a log may begin anywhere
    if around is None and settings.get("range_penalty") is None:
        settings["range_penalty"] = RANGE_PENALTY
    learner = CrossLearner(
        tasks, epsilon, kernel=kernel, method="models", updates_per_round=iterations, **settings
    )
    learner.lag_evidence = evidence
    method = learner.method
    assert isinstance(method, ModelBasedMethod)
    method.take_in([_transitions(episodes, method) for episodes in logs])
    return learner


def warn_of_leaving(learner: CrossLearner) -> None:
    """Warn of policies that leave the data."""
    shares = out_of_data_fraction(learner)
    listed = [f"{name!r} in {share:.0%}" for name, share in shares.items() if share > _MANY_STEPS]
    if listed:
        warnings.warn(
            "policies leave the data: the models are uncertain in a share of imagined steps, for "
            f"{', '.join(listed)}. Log more data of these policies before relying on them",
            stacklevel=3,
        )


def _as_observed(log: Log, tasks: Sequence[Task]) -> list[list[Episode]]:
    """Return logged episodes as policies would have seen them, with corrections for actions."""

    def replayed(episode: Episode, spec: LoopSpec | None) -> Episode:
        if spec is None:
            return episode
        seen, corrections = Loop(spec).replay(episode.observations, episode.actions)
        return episode._replace(observations=seen, actions=corrections)

    pairs = zip(tasks, log.values(), strict=True)
    return [[replayed(one, task.loop) for one in episodes] for task, episodes in pairs]


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


def out_of_data_fraction(learner: CrossLearner, seed: int = 0) -> dict[str, float]:
    """Return for each task the share of imagined steps at which its model is uncertain.

    The policies act without noise in the mean models, from states of the data. A step counts if the
    posterior standard deviation of an observation or of the reward is more than half of its spread
    in the data.

    Parameters
    ----------
    learner : CrossLearner
        With the method ``models``, after some learning.
    seed : int
        Of the starts and the posterior samples.
    """
    method = learner.method
    if not isinstance(method, ModelBasedMethod) or not method.models:
        raise InputError(
            "out_of_data_fraction reads a learner that has learned with method 'models'"
        )
    generator = np.random.default_rng(seed)
    N, dynamics = len(method.data), method.dynamics
    picked = [
        data.states[generator.integers(len(data.states), size=_ROLLOUTS)] for data in method.data
    ]
    task = np.repeat(np.arange(N), _ROLLOUTS)
    world = world_of(
        dynamics.functions(N), dynamics.frame, method.bounds, controlled=method.controlled
    )
    still = np.zeros((len(task), method.settings.look_ahead, len(method.noise.variance)))
    policies = learner.family.expansion
    path = imagine(policies, world, np.concatenate(picked), task, task, still)
    q, p = path.states.shape[2], path.actions.shape[2]
    seen = path.states[:, :-1].reshape(N, -1, q)
    given = np.clip(path.actions, *method.bounds).reshape(N, -1, p)
    acted = [method.controllers.machine_actions(i, seen[i], given[i]) for i in range(N)]
    steps = np.concatenate([seen, np.array(acted)], axis=2)
    # Steps after a probable termination do not count.
    there = np.cumprod(path.bootstrap_mask, axis=1) > 0.5
    there = np.concatenate([np.ones((len(task), 1), dtype=bool), there[:, :-1]], axis=1)
    unsure = np.array([_deviations(dynamics, i, steps[i], generator) for i in range(N)])
    counted = there.reshape(N, -1)
    outside = counted & (unsure > _UNSURE)
    shares = outside.sum(axis=1) / counted.sum(axis=1)
    return {task.name: float(share) for task, share in zip(learner.tasks, shares, strict=True)}


def _deviations(
    dynamics: Dynamics, task: int, points: Floats, generator: np.random.Generator
) -> Floats:
    """Return the largest standard deviation over outputs, in units of their spread, shape (n,).

    Of changes and reward; log odds of an end have no such unit.
    """
    largest, outputs = np.zeros(len(points)), len(dynamics.frame.learned) + 1
    for fit, chosen in zip(dynamics.fits[:outputs], dynamics.chosen, strict=False):
        family = fit.family
        shape = (_SAMPLES, len(fit.distances) + 1, len(family.knots), 1)
        drawn = fit.samples(generator.standard_normal(shape))
        functions = drawn.reshape(_SAMPLES, len(fit.distances), *drawn.shape[1:])[:, task]
        between = family.kernel(family.knots, points)
        values = np.einsum("mn,msp->nsp", between, fit.weights(functions))[:, :, 0]
        # Samples live on the knots; the kernel's remainder is added.
        gram = family.kernel(family.knots, family.knots)
        gram.flat[:: len(gram) + 1] += _JITTER * np.diagonal(gram)
        explained = np.sum(between * cho_solve(cho_factor(gram), between), axis=0)
        left = np.maximum(family.kernel.diagonal(points) - explained, 0.0)
        largest = np.maximum(largest, np.sqrt(values.var(axis=1) + chosen.signal * left))
    return largest
