"""How many lags a machine needs: the evidence of its dynamics models with each number of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from crosslearning.analysis.logged.log import Episode, Log, spaces_of
from crosslearning.analysis.logged.reading import read_log
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import run_episodes
from crosslearning.rkhs import most_likely
from crosslearning.tasks import Task
from crosslearning.tasks.loop import Loop
from crosslearning.tasks.loop_spec import LoopSpec
from crosslearning.tasks.signals import angles_of, find_circles

#: The least gain of evidence, in nats per step and observation, that a further lag is worth.
_WORTH = 0.05
_TINY = 1e-12


class LagEvidence(NamedTuple):
    """The logarithm of the evidence, per step and observation, with 0, 1, … lags."""

    evidence: tuple[float, ...]

    @property
    def chosen(self) -> int:
        """The fewest lags with nearly the greatest evidence."""
        best = max(self.evidence)
        return next(k for k, value in enumerate(self.evidence) if value >= best - _WORTH)


def lag_evidence(
    data: Any,
    most: int = 3,
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
    log = _random_log(data, steps, seed) if tasks and data else read_log(data, columns)
    seen = np.concatenate([one.observations for episodes in log.values() for one in episodes])
    spaces = spaces_of({} if tasks else data, log, None, None)
    circles = find_circles(seen)
    found = []
    for lags in range(most + 1):
        given: dict[str, Any] = {"lags": lags, "past_actions": past_actions, "circles": circles}
        spec, _ = LoopSpec.of(spaces, ((), ()), None, **given)
        inputs, targets = [], []
        for episodes in log.values():
            parts = [_steps(one, spec, most) for one in episodes]
            inputs.append(np.concatenate([x for x, _ in parts]))
            targets.append(np.concatenate([y for _, y in parts]))
        every = np.concatenate(targets)
        if len(every) < 10:
            raise InputError(
                f"{len(every)} steps are left after the first {most} of each episode; log more"
            )
        centre, unit = every.mean(axis=0), np.maximum(every.std(axis=0), _TINY)
        angles = angles_of(spaces[0])
        total = sum(
            most_likely(inputs, [(y[:, d : d + 1] - centre[d]) / unit[d] for y in targets],
                        periodic=angles).evidence
            for d in range(every.shape[1])
        )  # fmt: skip
        found.append(float(total) / every.size)
    return LagEvidence(tuple(found))


def _steps(episode: Episode, spec: LoopSpec | None, skipped: int) -> tuple[Any, Any]:
    """Return what a model sees of each step, and the change of the observation."""
    observations, actions = episode.observations, episode.actions
    change = np.diff(observations, axis=0)
    seen = observations
    if spec is not None:
        seen, _ = Loop(spec).replay(observations, actions)
    return np.hstack([seen[:-1], actions])[skipped:], change[skipped:]


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
