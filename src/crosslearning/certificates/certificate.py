"""The certificate of a run: everything that can be said of it, as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from crosslearning.certificates.arguments import check_alpha, check_samples, check_seed
from crosslearning.certificates.history import (
    ConstraintLine,
    PruningHistory,
    constraint_lines,
    pruning_history,
)
from crosslearning.certificates.replay import replay_run
from crosslearning.certificates.stationarity import StationarityGap, stationarity_gaps
from crosslearning.certificates.text import json_of, plain
from crosslearning.certificates.verification import Check, Verification, verify_run
from crosslearning.errors import CrossLearningError
from crosslearning.runs import RunFolder
from crosslearning.statistics import CONFIDENCE

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Certificate:
    """What is known of a run, and how it is known.

    Attributes
    ----------
    run, source : str
        The run's folder, and the file in it that was certified.
    finished : bool
        False if that is the newest checkpoint of a run that has not ended.
    iteration : int or None
    epsilon : float or None
    projection : str
    tasks : tuple of str
    checks : tuple of Check
    replayed : bool
        Whether the run was trained again and compared.
    constraint : tuple of ConstraintLine
    pruning : PruningHistory or None
    alpha : float or None
        The wanted stationarity: as asked now, or else as the run was asked for.
    samples, seed : int
        Fresh gradient samples per task, and the seed that they came from.
    confidence : float
        Of every interval.
    gaps : tuple of StationarityGap
    left_out : str
        Why the gaps, which need the learner, are not here; empty if they are.
    metrics : tuple of dict
        The lines of metrics up to this iteration, for figures; not part of the JSON.
    """

    run: str
    source: str
    finished: bool
    iteration: int | None
    epsilon: float | None
    projection: str
    tasks: tuple[str, ...]
    checks: tuple[Check, ...]
    replayed: bool
    constraint: tuple[ConstraintLine, ...]
    pruning: PruningHistory | None
    alpha: float | None
    samples: int
    seed: int
    confidence: float = CONFIDENCE
    gaps: tuple[StationarityGap, ...] = ()
    left_out: str = ""
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
        if self.pruning is not None:
            data["pruning"]["certified_share"] = plain(self.pruning.certified_share)
        return {"passed": self.passed, **data}

    def to_json(self) -> str:
        """Return the certificate as JSON text."""
        return json_of(self.to_plain())


def certify(
    run: str | Path,
    alpha: float | None = None,
    samples: int = 4000,
    seed: int = 0,
    replay: bool = False,
    console: Console | None = None,
) -> Certificate:
    """Check a run's files and measure its trained policies with fresh samples.

    Parameters
    ----------
    run : str or Path
        The run's folder. A run that has not ended is certified at its newest checkpoint.
    alpha : float, optional
        The stationarity to certify; by default what the run was asked for, if anything.
    samples : int
        Fresh gradient samples per task.
    seed : int
        Of those samples.
    replay : bool
        Train the run again and compare, byte for byte.
    console : Console, optional
        Shows progress, if it is a terminal.

    Returns
    -------
    Certificate
        Whatever the files hold. If a check fails, the gaps are left out: they would speak of
        something else than the run.
    """
    if alpha is not None:
        check_alpha(alpha)
    check_samples(samples)
    check_seed(seed)
    verification = verify_run(run)
    checks = list(verification.checks)
    if replay and verification.source:
        checks += replay_run(run, verification, console)
    model, settings, metrics = verification.model, verification.settings, verification.reached
    certificate = Certificate(
        run=str(run),
        source=verification.source,
        finished=verification.finished,
        iteration=None if model is None else model.iteration,
        epsilon=None if model is None else model.epsilon,
        projection=str(settings.get("projection", "")),
        tasks=() if model is None else model.tasks,
        checks=tuple(checks),
        replayed=replay,
        constraint=_or_default((), lambda: constraint_lines(model, metrics) if model else ()),
        pruning=_or_default(None, lambda: pruning_history(metrics, settings)),
        alpha=alpha if alpha is not None else alpha_of(verification),
        samples=samples,
        seed=seed,
        metrics=tuple(metrics),
    )
    if not certificate.passed:
        reason = (
            "a check of the files failed, so that it would speak of something else than the run"
        )
        return dataclasses.replace(certificate, left_out=reason)
    try:
        learner = RunFolder.open(run).load()
    except CrossLearningError as problem:
        return dataclasses.replace(certificate, left_out=f"the learner cannot be loaded: {problem}")
    try:
        with working(console, "measuring the stationarity gaps"):
            gaps = tuple(stationarity_gaps(learner, samples, seed))
    finally:
        learner.close()
    return dataclasses.replace(certificate, gaps=gaps)


def alpha_of(verification: Verification) -> float | None:
    """Return the stationarity that a run was asked for; None without one that can be judged."""
    try:
        alpha = float(verification.settings["alpha"])
        check_alpha(alpha)
    except (KeyError, TypeError, ValueError):
        return None
    return alpha


def working(console: Console | None, what: str) -> AbstractContextManager[Any]:
    """Show that something is being done, on a terminal."""
    if console is None or not console.is_terminal or console.quiet:
        return nullcontext()
    return console.status(what)


def _or_default(default: _Value, read: Callable[[], _Value]) -> _Value:
    """Return what the files say, or the default if they are damaged: a check tells of that."""
    try:
        return read()
    except (KeyError, TypeError, ValueError):
        return default
