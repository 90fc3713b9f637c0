"""The certificate of a run: everything that can be said of it, as plain data."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from crosslearning.certificates.history import (
    ConstraintLine,
    PruningHistory,
    constraint_lines,
    pruning_history,
)
from crosslearning.certificates.replay import replay_run
from crosslearning.certificates.stationarity import StationarityGap, stationarity_gaps
from crosslearning.certificates.verification.checks import Check
from crosslearning.certificates.verification.verify import Verification, verify_run
from crosslearning.errors import CrossLearningError, InputError
from crosslearning.learner import CrossLearner
from crosslearning.runs import RunFolder
from crosslearning.runs.record import versions
from crosslearning.theory.estimates import TaskConstants, estimate_constants
from crosslearning.theory.section import TheoremSection, evaluate_theorem

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
    delta, confidence : float
        Of the theorem's statement; of every interval.
    samples, seed : int
        Fresh gradient samples per task, and the seed that they came from.
    gaps : tuple of StationarityGap
    constants : tuple of TaskConstants
    theorem : TheoremSection or None
    left_out : str
        Why what needs the learner is not here; empty if it is.
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
    delta: float
    confidence: float
    samples: int
    seed: int
    gaps: tuple[StationarityGap, ...] = ()
    constants: tuple[TaskConstants, ...] = ()
    theorem: TheoremSection | None = None
    left_out: str = ""
    metrics: tuple[dict[str, Any], ...] = dataclasses.field(default=(), repr=False)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "fail" for check in self.checks)

    def to_plain(self) -> dict[str, Any]:
        """Return the certificate as JSON can hold it.

        An infinite number is the word ``"inf"`` or ``"-inf"``; one that is not defined is
        ``None``.
        """
        plain: dict[str, Any] = _plain(dataclasses.replace(self, metrics=()))
        del plain["metrics"]
        verdicts = [gap.verdict(self.alpha) if self.alpha else None for gap in self.gaps]
        for row, verdict in zip(plain["gaps"], verdicts, strict=True):
            row["verdict"] = verdict
        if self.pruning is not None:
            plain["pruning"]["certified_share"] = _plain(self.pruning.certified_share)
        return {"passed": self.passed, **plain}

    def to_json(self) -> str:
        """Return the certificate as JSON text."""
        return json.dumps(self.to_plain(), indent=2, ensure_ascii=False, allow_nan=False)


def certify(
    run: str | Path,
    alpha: float | None = None,
    delta: float = 0.05,
    samples: int = 4000,
    seed: int = 0,
    confidence: float = 0.95,
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
    delta : float
        The probability of error in the theorem's statement.
    samples : int
        Fresh gradient samples per task.
    seed : int
        Of those samples.
    confidence : float
        Of every interval.
    replay : bool
        Train the run again and compare, byte for byte.
    console : Console, optional
        Shows progress, if it is a terminal.

    Returns
    -------
    Certificate
        Whatever the files hold. If a check fails, what needs the learner is left out: it
        would speak of something else than the run.
    """
    _check_arguments(alpha, delta, samples)
    verification = verify_run(run)
    checks = list(verification.checks)
    if replay and verification.source:
        checks += _replay(run, verification, console)
    model, config = verification.model, verification.config
    settings = model.description["settings"] if model is not None else config
    if alpha is None:
        alpha = _or_default(None, lambda: _alpha_of(settings))
    # A run that has not ended may have logged more than its newest checkpoint holds.
    last = math.inf if model is None else model.iteration
    metrics = [line for line in verification.metrics if line["iteration"] <= last]
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
        constraint=()
        if model is None
        else _or_default((), lambda: constraint_lines(model, metrics)),
        pruning=_or_default(None, lambda: pruning_history(metrics, settings)),
        alpha=alpha,
        delta=delta,
        confidence=confidence,
        samples=samples,
        seed=seed,
        metrics=tuple(metrics),
    )
    if not certificate.passed:
        return dataclasses.replace(
            certificate,
            left_out="a check of the files failed, so that it would speak of something else "
            "than the run",
        )
    try:
        learner = RunFolder.open(run).load()
    except CrossLearningError as problem:
        return dataclasses.replace(certificate, left_out=f"the learner cannot be loaded: {problem}")
    try:
        return _with_samples(certificate, learner, console)
    finally:
        learner.close()


def _with_samples(
    certificate: Certificate, learner: CrossLearner, console: Console | None
) -> Certificate:
    """Add what fresh rollouts of the trained policies say."""
    samples, seed, level = certificate.samples, certificate.seed, certificate.confidence
    with _working(console, "measuring the stationarity gaps"):
        gaps = tuple(stationarity_gaps(learner, samples, seed, level))
    with _working(console, "estimating the constants"):
        constants = tuple(estimate_constants(learner, samples, seed, level))
    theorem = evaluate_theorem(
        learner,
        constants,
        gaps,
        certificate.alpha,
        certificate.delta,
        0.0 if certificate.pruning is None else certificate.pruning.largest,
    )
    return dataclasses.replace(certificate, gaps=gaps, constants=constants, theorem=theorem)


def _working(console: Console | None, what: str) -> AbstractContextManager[Any]:
    """Show that something is being done, on a terminal."""
    if console is None or not console.is_terminal or console.quiet:
        return nullcontext()
    return console.status(what)


def _replay(run: str | Path, verification: Verification, console: Console | None) -> list[Check]:
    source = Path(run) / verification.source
    expected = "the run can be trained again"
    try:
        checks = replay_run(run, source, verification.metrics, console)
    except CrossLearningError as problem:
        return [Check("replay", "fail", str(problem), expected)]
    if all(check.status == "pass" for check in checks):
        return checks
    return [
        dataclasses.replace(check, found=f"{check.found}{_versions_differ(verification.record)}")
        if check.status == "fail"
        else check
        for check in checks
    ]


def _versions_differ(record: Mapping[str, Any] | None) -> str:
    """Say that a replay failed under other versions, where it did: they may round otherwise."""
    made = (record or {}).get("made_with")
    if not isinstance(made, dict):
        return ""
    now = versions()
    other = [f"{name} {made[name]}, now {now[name]}" for name in now if made.get(name) != now[name]]
    return f" (made with {'; '.join(other)}: these may round otherwise)" if other else ""


def _alpha_of(settings: Mapping[str, Any]) -> float | None:
    alpha = settings.get("alpha")
    return None if alpha is None else float(alpha)


def _or_default(default: _Value, read: Callable[[], _Value]) -> _Value:
    """Return what the metrics say, or the default if they are damaged: a check tells of that."""
    try:
        return read()
    except (KeyError, TypeError, ValueError):
        return default


def _check_arguments(alpha: float | None, delta: float, samples: int) -> None:
    if alpha is not None and not (math.isfinite(alpha) and alpha > 0):
        raise InputError(f"alpha must be positive and finite, got {alpha}")
    if not 0 < delta < 1:
        raise InputError(f"delta must be between 0 and 1, got {delta}")
    if samples < 2:
        raise InputError(f"samples must be at least 2, got {samples}")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    if math.isnan(number):
        return None
    return number if math.isfinite(number) else str(number)
