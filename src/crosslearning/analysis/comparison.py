"""Paired comparison of two policies from the same starts.

Starts differ more than policies do. Differences on the same start do not have that noise, so their
interval is much narrower than two intervals side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crosslearning._base.statistics import difference_of_shares, mean_with_unknown
from crosslearning.learner.evaluation import AnyPolicy, EpisodeOptions, Numbers, Row, across, play
from crosslearning.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Comparison(Numbers):
    """The differences first − second over pairs of episodes from the same starts."""

    first: str
    second: str

    @property
    def verdict(self) -> str:
        """``"better"``, ``"worse"`` or ``"undecided"``: the first by its discounted return."""
        if self.discounted_return.low > 0.0:
            return "better"
        return "worse" if self.discounted_return.high < 0.0 else "undecided"


def compare(
    first: AnyPolicy, second: AnyPolicy, tasks: Sequence[Task], **options: Any
) -> list[Comparison]:
    """Compare two policies, objects with ``predict`` or functions, task by task.

    Options: :class:`crosslearning.learner.evaluation.EpisodeOptions`.

    Examples
    --------
    >>> from crosslearning import compare, task_set
    >>> def damp(x):
    ...     return -x[..., 1:]
    >>> def idle(x):
    ...     return 0.0 * x[..., 1:]
    >>> result = compare(damp, idle, task_set("linear-quadratic"), trials=50)[0]
    >>> result.task, result.verdict
    ('m=0.5', 'better')
    """
    rows = play((first, second), tasks, EpisodeOptions.of(options))
    return [_comparison(row) for row in rows]


def compare_across(
    first: AnyPolicy, second: AnyPolicy, tasks: Sequence[Task], **options: Any
) -> Comparison:
    """Compare two policies over a sample of tasks, such as random maps.

    The arguments are those of :func:`compare`, with 5 ``trials`` per task by default.
    """
    rows = play((first, second), tasks, EpisodeOptions.of(options, trials=5))
    return _comparison(across(rows))


def _comparison(row: Row) -> Comparison:
    (first, a), (second, b) = row.columns.items()
    shares = [name for name in a.shares if name in b.shares]
    others = [name for name in a.others if name in b.others]
    return Comparison(
        first=first,
        second=second,
        task=row.task,
        trials=row.trials,
        rates={name: difference_of_shares(a.shares[name], b.shares[name]) for name in shares},
        discounted_return=mean_with_unknown(a.returns - b.returns),
        mean_cost=mean_with_unknown(a.costs - b.costs),
        # NaN, where either is unknown, is left out.
        means={name: mean_with_unknown(a.others[name] - b.others[name]) for name in others},
        total_return=mean_with_unknown(a.totals - b.totals),
    )
