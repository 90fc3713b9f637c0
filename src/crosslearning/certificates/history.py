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

    Attributes
    ----------
    task : str
    distance : float
        ‖h_i − g‖ of the trained policies in the norm of κ, computed again.
    ridged_distance : float
        The same in the norm of κ + λδ, in which the dictionary projects; never smaller.
    multiplier : float or None
        Mean over the last quarter of the run: how hard the constraint held the policy
        back. Infinite for ε = 0; None if there are no metrics.
    binding : bool
        Whether the constraint holds the policy back.
    """

    task: str
    distance: float
    ridged_distance: float
    multiplier: float | None
    binding: bool


@dataclass(frozen=True)
class PruningHistory:
    """What pruning did over the whole run.

    Attributes
    ----------
    budget : float
        β: how far pruning may move each policy in one iteration.
    max_knots, iterations : int
        The cap, and the iterations that the metrics tell of.
    largest : float
        The farthest that pruning moved any policy in one iteration.
    spent : float or None
        Sum over the iterations of the farthest move in each; None if the metrics are of a
        version that did not keep it.
    over_budget, over_budget_by_cap : int or None
        Iterations that broke the budget, and those among them that did because of the cap.
    removed, forced_by_cap, forced_by_conditioning : int
        Knots removed, and those among them that the budget would not have allowed.
    """

    budget: float
    max_knots: int
    iterations: int
    largest: float
    spent: float | None
    over_budget: int | None
    over_budget_by_cap: int | None
    removed: int
    forced_by_cap: int
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
    model: PlainModel, metrics: Sequence[dict[str, Any]]
) -> tuple[ConstraintLine, ...]:
    """Return how every task stands to the constraint."""
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

    def total(name: str) -> Any:
        return sum(line[name] for line in metrics)

    new = all("pruning_spent" in line for line in metrics)
    return PruningHistory(
        budget=float(settings["budget"]),
        max_knots=int(settings["max_knots"]),
        iterations=int(metrics[-1]["iteration"]),
        largest=max(line["pruning_error"] for line in metrics),
        spent=float(total("pruning_spent")) if new else None,
        over_budget=int(total("over_budget")) if new else None,
        over_budget_by_cap=int(total("over_budget_by_cap")) if new else None,
        removed=int(total("removed")),
        forced_by_cap=int(total("forced_by_cap")),
        forced_by_conditioning=int(total("forced_by_conditioning")),
    )
