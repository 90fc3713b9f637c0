"""What the metrics of a run say of its constraint and of its pruning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crosslearning.certificates.verification.model import PlainModel
from crosslearning.runs.metrics import late_multipliers

#: A distance within this share of ε counts as at the bound.
_AT_BOUND = 1e-3


@dataclass(frozen=True)
class ConstraintLine:
    """How one task stands to the constraint.

    The multiplier says how hard the constraint held the policy back: the mean over the last
    quarter of the run, infinite for ε = 0, None if there are no metrics.
    """

    task: str
    distance: float  #: ‖h_i − g‖ in the norm of κ, computed again
    ridged_distance: float  #: the same in the norm of κ + λδ, in which the dictionary projects
    multiplier: float | None
    binding: bool  #: whether the constraint holds the policy back


@dataclass(frozen=True)
class PruningHistory:
    """What pruning did over the whole run; None is what metrics of early versions did not keep."""

    budget: float  #: β: how far pruning may move each policy in one iteration
    max_knots: int  #: the cap
    iterations: int  #: that the metrics tell of
    largest: float  #: the farthest that pruning moved any policy in one iteration
    spent: float | None  #: sum over the iterations of the farthest move in each
    over_budget: int | None  #: iterations that broke the budget
    over_budget_by_cap: int | None  #: those among them that did because of the cap
    removed: int  #: knots
    forced_by_cap: int  #: those among them that the budget would not have allowed
    forced_by_conditioning: int

    @property
    def certified_share(self) -> float | None:
        """Share of the iterations in which every policy moved by at most the budget."""
        if self.over_budget is None or self.iterations == 0:
            return None
        return 1.0 - self.over_budget / self.iterations

    @property
    def cap_decides(self) -> bool:
        """Whether the cap, not the budget, decided in most iterations about the knots."""
        if self.over_budget_by_cap is None:
            return self.forced_by_cap > self.removed / 2
        return self.over_budget_by_cap > self.iterations / 2


def constraint_lines(
    model: PlainModel | None, metrics: Sequence[dict[str, Any]]
) -> tuple[ConstraintLine, ...]:
    """Return how every task stands to the constraint; nothing without a readable model."""
    if model is None:
        return ()
    late = late_multipliers(metrics, model.tasks)
    multipliers = [None] * len(model.tasks) if late is None else late.tolist()
    at_bound = (model.ridged_distances >= (1 - _AT_BOUND) * model.epsilon).tolist()
    columns = (model.distances.tolist(), model.ridged_distances.tolist(), multipliers, at_bound)
    return tuple(
        ConstraintLine(task, distance, ridged, multiplier, bound or bool(multiplier))
        for task, distance, ridged, multiplier, bound in zip(model.tasks, *columns, strict=True)
    )


def pruning_history(
    metrics: Sequence[dict[str, Any]], settings: dict[str, Any]
) -> PruningHistory | None:
    """Return what pruning did, or None without metrics."""
    if not metrics:
        return None
    new = all("pruning_spent" in line for line in metrics)

    def total(name: str) -> int:
        return int(sum(line[name] for line in metrics))

    return PruningHistory(
        budget=float(settings["budget"]),
        max_knots=int(settings["max_knots"]),
        iterations=int(metrics[-1]["iteration"]),
        largest=max(line["pruning_error"] for line in metrics),
        spent=float(sum(line["pruning_spent"] for line in metrics)) if new else None,
        over_budget=total("over_budget") if new else None,
        over_budget_by_cap=total("over_budget_by_cap") if new else None,
        removed=total("removed"),
        forced_by_cap=total("forced_by_cap"),
        forced_by_conditioning=total("forced_by_conditioning"),
    )
