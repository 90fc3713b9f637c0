"""How many lags a machine needs: the evidence of its dynamics models with each number of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslearning.analysis.logged.description import read_data
from crosslearning.analysis.logged.log import Episode, Log, spaces_of
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import run_episodes
from crosslearning.learner.lags import MOST_LAGS, LagEvidence, evidence_of_lags
from crosslearning.rkhs.checks import Floats
from crosslearning.tasks import Task
from crosslearning.tasks.loop import Loop
from crosslearning.tasks.loop_spec import LoopSpec
from crosslearning.tasks.signals import find_circles

__all__ = ["LagEvidence", "lag_evidence"]


def lag_evidence(
    data: Any,
    most: int = MOST_LAGS,
    *,
    past_actions: int = 0,
    columns: Mapping[str, Any] | None = None,
    steps: int = 100,
    seed: int = 0,
) -> LagEvidence:
    """Return how well dynamics models with 0 … ``most`` lags explain the next observation.

    The steps that are explained are the same for all of them: the first ones of an episode, whose
    lags are not known, are left out.

    Parameters
    ----------
    data : list of Task, or as for :func:`crosslearning.learn_from`
        Tasks are run for ``steps`` random steps each.
    most : int
        The most lags to try.
    past_actions : int
        How many of the last actions the models see.
    columns : mapping, optional
        Of a table, as for :func:`crosslearning.learn_from`.
    steps, seed : int
        Of the random steps.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.analysis.lags import lag_evidence
    >>> push = np.random.default_rng(0).normal(size=(60, 1))
    >>> speed = np.cumsum(push, axis=0)
    >>> place = np.vstack([[[0.0]], np.cumsum(speed, axis=0)])  # the speed is not measured
    >>> log = {"observations": place, "actions": push, "rewards": -push[:, 0]}
    >>> lag_evidence({"cart": [log]}, most=2).chosen
    1
    """
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 20:
        raise InputError(f"most is {most!r}; give a number of lags from 1 to 20")
    tasks = isinstance(data, Sequence) and all(isinstance(one, Task) for one in data)
    log = _random_log(data, steps, seed) if tasks and data else read_data(data, columns)[0]
    seen = np.concatenate([one.observations for episodes in log.values() for one in episodes])
    spaces = spaces_of({} if tasks else data, log, None, None)
    spec, _ = LoopSpec.of(spaces, ((), ()), None, past_actions=past_actions)
    shown = [
        [(_shown(one.observations, one.actions, spec), one.actions) for one in episodes]
        for episodes in log.values()
    ]
    return evidence_of_lags(shown, spaces[0], find_circles(seen), most)


def _shown(observations: Floats, actions: Floats, spec: LoopSpec | None) -> Floats:
    return observations if spec is None else Loop(spec).replay(observations, actions)[0]


def _random_log(tasks: Sequence[Task], steps: int, seed: int) -> Log:
    """Return episodes with random actions."""
    log: Log = {}
    for number, task in enumerate(tasks):
        generator, space = np.random.default_rng([seed, number]), task.action_space
        low, high = (np.where(np.isfinite(e), e, s) for e, s in ((space.low, -1), (space.high, 1)))

        def act(_: Any, low: Any = low, high: Any = high, generator: Any = generator) -> Any:
            return generator.uniform(low, high)

        length = min(steps, task.horizon)
        episodes = run_episodes(act, task, -(-steps // length), length, seed=seed)
        log[task.name] = [
            Episode(o[: n + 1], a[:n], r[:n], np.zeros(n, dtype=np.bool_))
            for o, a, r, n in zip(
                episodes.observations,
                episodes.actions,
                episodes.rewards,
                episodes.lengths,
                strict=True,
            )
        ]
    return log
