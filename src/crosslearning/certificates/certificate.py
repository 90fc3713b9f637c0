"""The certificate of a run: checks of its files and measurements, as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from crosslearning._base.statistics import Interval, tolerance_bound
from crosslearning.certificates.next_machine import NextMachine, unseen_machines
from crosslearning.certificates.next_machine import next_machine as bound_next
from crosslearning.certificates.reading import Reading, verified, working
from crosslearning.certificates.replay import replay_run, systems_of
from crosslearning.certificates.stationarity import StationarityGap, stationarity_gaps
from crosslearning.certificates.text import plain
from crosslearning.certificates.verification import Check
from crosslearning.certificates.verification.model import PlainModel
from crosslearning.errors import CrossLearningError, InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.evaluation import run_episodes
from crosslearning.learner.limits import crossed_share
from crosslearning.runs import RunFolder
from crosslearning.runs.config import LOGGED
from crosslearning.runs.metrics import AT_BOUND, late_multipliers

#: Fresh episodes of a task with limits: with 72 or more that cross none, 5 % is certified.
EPISODES = 200


@dataclass(frozen=True)
class ConstraintLine:
    """The constraint of one task."""

    task: str
    distance: float  #: ‖h_i − g‖ in the norm of κ, recomputed
    ridged_distance: float  #: the same in the norm of κ + λδ, in which the dictionary projects
    #: The mean over the last quarter of the run; infinite for ε = 0, None without metrics.
    multiplier: float | None
    #: The same of ‖h_i‖ ≤ ε₀, the distance from a controller; None without one.
    controller_multiplier: float | None
    binding: bool


@dataclass(frozen=True)
class PruningHistory:
    """Pruning over the whole run; early versions did not log the fields that may be None."""

    budget: float  #: β: how far pruning may move each policy in one iteration
    max_knots: int  #: the cap
    iterations: int
    largest: float  #: the farthest that pruning moved any policy in one iteration
    spent: float | None  #: sum over the iterations of the farthest move in each
    over_budget: int | None  #: iterations that broke the budget
    over_budget_by_cap: int | None  #: those among them that did because of the cap
    removed: int  #: knots
    forced_by_cap: int  #: those among them that the budget would not have allowed
    forced_by_conditioning: int

    @property
    def certified_share(self) -> float | None:
        """Fraction of the iterations in which every policy moved by at most the budget."""
        if self.over_budget is None or self.iterations == 0:
            return None
        return 1.0 - self.over_budget / self.iterations

    @property
    def cap_decides(self) -> bool:
        """Whether the cap, not the budget, limited the knots in most iterations."""
        if self.over_budget_by_cap is None:
            return self.forced_by_cap > self.removed / 2
        return self.over_budget_by_cap > self.iterations / 2


@dataclass(frozen=True)
class LimitLine:
    """The limits of observations of one task, in fresh episodes of its policy."""

    task: str
    crossed: Interval  #: share of episodes that cross a limit, exact (Clopper-Pearson)
    allowed: float
    episodes: int

    @property
    def verdict(self) -> str:
        """Whether the limits hold with the probability that the task asks for."""
        if self.crossed.high <= self.allowed:
            return "hold"
        return "do not hold" if self.crossed.low > self.allowed else "undecided"


@dataclass(frozen=True, kw_only=True)
class Certificate(Reading):
    """The checks of a run's files, its constraint, pruning, gaps, limits and unseen machines."""

    checks: tuple[Check, ...]
    replayed: bool  #: whether the run was trained again and compared
    constraint: tuple[ConstraintLine, ...]
    pruning: PruningHistory | None
    at_controller: bool  #: whether the centre g is still the controller that policies correct
    alpha: float | None  #: the stationarity to certify: of the call, or of the run's settings
    gaps: tuple[StationarityGap, ...] = ()
    limits: tuple[LimitLine, ...] = ()  #: of the tasks that have any
    #: Machines never seen, by the central policy and after adapting, if that was asked for.
    unseen: tuple[NextMachine, ...] = ()
    #: The systems of the run, see :mod:`crosslearning.runs.system_info`; empty if unknown.
    made_on: tuple[dict[str, Any], ...] = ()
    #: The lines of metrics up to this iteration, for figures; not part of the JSON.
    metrics: tuple[dict[str, Any], ...] = dataclasses.field(default=(), repr=False)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "fail" for check in self.checks)

    def to_plain(self) -> dict[str, Any]:
        """Return the certificate as JSON can hold it, see :func:`text.plain`."""
        data: dict[str, Any] = plain(dataclasses.replace(self, metrics=()))
        del data["metrics"]
        for row, gap in zip(data["gaps"], self.gaps, strict=True):
            row["verdict"] = gap.verdict(self.alpha) if self.alpha else None
        for row, line in zip(data["limits"], self.limits, strict=True):
            row["verdict"] = line.verdict
        if self.pruning is not None:
            data["pruning"]["certified_share"] = plain(self.pruning.certified_share)
        return {"passed": self.passed, **data}


def certify(
    run: str | Path,
    alpha: float | None = None,
    samples: int = 4000,
    seed: int = 0,
    replay: bool = False,
    console: Console | None = None,
    next_machine: float | None = None,
    adapt_steps: int | None = None,
    episodes: int = EPISODES,
    tasks: str | None = None,
    around: str | None = None,
) -> Certificate:
    """Check a run's files and measure its trained policies with fresh samples.

    If a check fails, the gaps are left out: they would describe something else than the run.

    Parameters
    ----------
    run : str or Path
        The run's folder. An unfinished run is certified at its newest checkpoint.
    alpha : float, optional
        The stationarity to certify; by default that of the run's settings, if any.
    samples, seed : int
        Fresh gradient samples per task, and their seed.
    replay : bool
        Train the run again and compare, byte for byte.
    console : Console, optional
        Shows progress, if it is a terminal.
    next_machine : float, optional
        Also bound what this share of machines never seen returns; for runs on a named set that
        draws members of a family.
    adapt_steps : int, optional
        Bound it after adapting to each machine with so many environment steps, too.
    episodes : int
        Fresh episodes of every task whose observations have limits.
    tasks, around : str, optional
        The tasks and the controller of a run that is not the user's, or was moved or edited.
    """
    if adapt_steps is not None and next_machine is None:
        raise InputError("adapt_steps needs next_machine, such as 0.9")
    verification, alpha = verified(run, alpha, samples, seed)
    checks, metrics = verification.checks, tuple(verification.reached)
    if replay and verification.source:
        checks += tuple(replay_run(run, verification, console, tasks, around))
    measured: dict[str, Any] = {"constraint": (), "pruning": None}
    # Damaged metrics may lack fields; a check reports them.
    with suppress(KeyError, TypeError, ValueError):
        measured["constraint"] = constraint_lines(verification.model, metrics)
    with suppress(KeyError, TypeError, ValueError):
        measured["pruning"] = pruning_history(metrics, verification.settings)
    measured["at_controller"] = _at_controller(verification.model)
    measured |= {"checks": checks, "metrics": metrics, "made_on": systems_of(run, verification)}
    certificate = Certificate.of(
        verification, samples, seed, replayed=replay, alpha=alpha, **measured
    )
    if not certificate.passed:
        reason = "a check of the files failed, so that it would describe another run"
        return dataclasses.replace(certificate, left_out=reason)
    if tasks is None and RunFolder.open(run).config().tasks == LOGGED:
        reason = "the run was learned from logs alone, and has no environments to sample from"
        return dataclasses.replace(certificate, left_out=reason)
    try:
        learner = RunFolder.open(run, tasks, around).load()
    except CrossLearningError as problem:
        return dataclasses.replace(certificate, left_out=f"the learner cannot be loaded: {problem}")
    with closing(learner), working(console, "measuring the stationarity gaps"):
        gaps = tuple(stationarity_gaps(learner, samples, seed))
        limits = limit_lines(learner, episodes, seed)
        unseen = () if next_machine is None else _unseen(learner, next_machine, adapt_steps, seed)
    return dataclasses.replace(certificate, gaps=gaps, limits=limits, unseen=unseen)


def limit_lines(learner: CrossLearner, episodes: int, seed: int) -> tuple[LimitLine, ...]:
    """Run every task with limits of observations; return how often its policy crosses them."""
    return tuple(
        LimitLine(
            task.name,
            crossed_share(task, run_episodes(learner.policy(i), task, episodes, seed=seed)),
            1.0 - task.chance,
            episodes,
        )
        for i, task in enumerate(learner.tasks)
        if task.state_limits
    )


def _unseen(
    learner: CrossLearner, share: float, adapt_steps: int | None, seed: int
) -> tuple[NextMachine, ...]:
    """Return what is known of machines that the run's family draws and nobody has seen."""
    machines = unseen_machines(learner, tolerance_bound([0.0], share).needed)
    steps = [None] if adapt_steps is None else [None, adapt_steps]
    return tuple(bound_next(learner, machines, share, steps=one, seed=seed) for one in steps)


def _at_controller(model: PlainModel | None) -> bool:
    if model is None or model.settings.get("controller_epsilon") is None:
        return False
    return not model.norms[-1]


def constraint_lines(
    model: PlainModel | None, metrics: Sequence[dict[str, Any]]
) -> tuple[ConstraintLine, ...]:
    """Return the constraint of every task; nothing without a readable model."""
    if model is None:
        return ()
    multipliers = []
    for field in ("multiplier", "controller_multiplier"):
        late = late_multipliers(metrics, model.tasks, field)
        multipliers.append([None] * len(model.tasks) if late is None else late.tolist())
    at_bound = (model.ridged_distances >= (1 - AT_BOUND) * model.epsilon).tolist()
    columns = (model.distances.tolist(), model.ridged_distances.tolist(), *multipliers, at_bound)
    return tuple(
        ConstraintLine(task, distance, ridged, mu, nu, bound or bool(mu))
        for task, distance, ridged, mu, nu, bound in zip(model.tasks, *columns, strict=True)
    )


def pruning_history(
    metrics: Sequence[dict[str, Any]], settings: dict[str, Any]
) -> PruningHistory | None:
    """Return the pruning history, or None without metrics."""
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
