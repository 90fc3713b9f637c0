"""The certificate of a run: everything that can be said of it, as plain data."""

from __future__ import annotations

import dataclasses
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from crosslearning.certificates.history import (
    ConstraintLine,
    PruningHistory,
    constraint_lines,
    pruning_history,
)
from crosslearning.certificates.reading import Reading, verified, working
from crosslearning.certificates.replay import replay_run
from crosslearning.certificates.stationarity import StationarityGap, stationarity_gaps
from crosslearning.certificates.text import plain
from crosslearning.certificates.verification import Check
from crosslearning.errors import CrossLearningError
from crosslearning.runs import RunFolder


@dataclass(frozen=True, kw_only=True)
class Certificate(Reading):
    """What is known of a run, and how it is known.

    Attributes
    ----------
    replayed : bool
        Whether the run was trained again and compared.
    alpha : float or None
        The wanted stationarity: as asked now, or else as the run was asked for.
    metrics : tuple of dict
        The lines of metrics up to this iteration, for figures; not part of the JSON.
    """

    checks: tuple[Check, ...]
    replayed: bool
    constraint: tuple[ConstraintLine, ...]
    pruning: PruningHistory | None
    alpha: float | None
    gaps: tuple[StationarityGap, ...] = ()
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
    samples, seed : int
        Fresh gradient samples per task, and their seed.
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
    verification, alpha = verified(run, alpha, samples, seed)
    checks = list(verification.checks)
    if replay and verification.source:
        checks += replay_run(run, verification, console)
    known: dict[str, Any] = {"constraint": (), "pruning": None}
    # What damaged metrics do not hold is left out: a check tells of them.
    with suppress(KeyError, TypeError, ValueError):
        known["constraint"] = constraint_lines(verification.model, verification.reached)
    with suppress(KeyError, TypeError, ValueError):
        known["pruning"] = pruning_history(verification.reached, verification.settings)
    certificate = Certificate.of(
        verification,
        samples,
        seed,
        checks=tuple(checks),
        replayed=replay,
        alpha=alpha,
        metrics=tuple(verification.reached),
        **known,
    )
    if not certificate.passed:
        reason = "a check of the files failed, so that it would speak of another run than this"
        return dataclasses.replace(certificate, left_out=reason)
    try:
        learner = RunFolder.open(run).load()
    except CrossLearningError as problem:
        return dataclasses.replace(certificate, left_out=f"the learner cannot be loaded: {problem}")
    with closing(learner), working(console, "measuring the stationarity gaps"):
        gaps = tuple(stationarity_gaps(learner, samples, seed))
    return dataclasses.replace(certificate, gaps=gaps)
