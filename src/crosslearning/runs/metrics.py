"""Metrics: lines of JSON and, if wanted, TensorBoard events, that survive a resume."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import MissingExtraError, StorageError
from crosslearning.files import write_atomically
from crosslearning.learner import IterationReport

Floats = NDArray[np.float64]

#: The share of a run, from its end, that is called late.
LATE = 0.25


def late_multipliers(lines: Sequence[Mapping[str, Any]], tasks: Sequence[str]) -> Floats | None:
    """Return every task's mean multiplier over the last quarter of a run, shape (N,).

    Infinite where it is unbounded, as with ε = 0; None without any line of metrics.
    """
    if not lines:
        return None
    begin = (1.0 - LATE) * lines[-1]["iteration"]
    late = [line["multiplier"] for line in lines if line["iteration"] > begin]
    rows = [[math.inf if row[task] is None else row[task] for task in tasks] for row in late]
    return np.asarray(np.mean(np.array(rows, dtype=np.float64), axis=0))


class Averages:
    """Numbers of several iterations, gathered into one line of metrics.

    What is noisy is averaged since the last line; what bounds something keeps its largest
    value, so that no iteration is lost from view.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self._tasks = tuple(tasks)
        self._reports: list[IterationReport] = []

    def add(self, report: IterationReport) -> None:
        """Take in one iteration."""
        self._reports.append(report)

    @property
    def pending(self) -> bool:
        """Whether iterations were taken in since the last line."""
        return bool(self._reports)

    def line(self, steps: int) -> dict[str, Any]:
        """Return the line since the last one, and start afresh."""
        reports, self._reports = self._reports, []
        last = reports[-1]
        pruning = [report.pruning for report in reports]
        # The budget guards the policies and the centre, not the directions of momentum.
        moves = [float(np.max(p.errors[: len(self._tasks) + 1])) for p in pruning]

        def mean(values: Sequence[Any]) -> list[float]:
            return [float(v) for v in np.mean(values, axis=0)]

        def largest(values: Sequence[Any]) -> list[float]:
            return [float(v) for v in np.max(values, axis=0)]

        line = {
            "iteration": last.iteration,
            "steps": steps,
            "return": self._named(mean([r.returns for r in reports])),
            **{
                name: self._named(mean([r.numbers[name] for r in reports])) for name in last.numbers
            },
            "distance": self._named(largest([r.distances for r in reports])),
            "multiplier": self._named(mean([r.projection.multipliers for r in reports])),
            "projection_residual": max(r.projection.residual for r in reports),
            "knots": last.pruning.knots,
            "pruning_error": max(moves),
            "pruning_spent": sum(moves),
            "removed": sum(p.removed for p in pruning),
            "forced_by_cap": sum(p.forced_by_cap for p in pruning),
            "forced_by_conditioning": sum(p.forced_by_conditioning for p in pruning),
            "over_budget": sum(not p.within_budget for p in pruning),
            "over_budget_by_cap": sum(p.forced_by_cap > 0 for p in pruning),
            "rebuilds": sum(p.rebuilds for p in pruning),
        }
        checks = [r.check for r in reports if r.check is not None]
        if checks:
            line["gap_bound"] = self._named(checks[-1].bounds.tolist())
        return line

    def _named(self, values: Sequence[float]) -> dict[str, float | None]:
        # JSON has no infinity; it stands for "no bound", as null does.
        return {
            name: value if math.isfinite(value) else None
            for name, value in zip(self._tasks, values, strict=True)
        }


class MetricsLog:
    """Appends lines to a file; opened again at an iteration, it forgets what came later.

    Parameters
    ----------
    path : Path
        The file.
    iteration : int
        Where the run goes on: later lines, which a killed run may have left, are dropped.
    tensorboard : Path, optional
        Folder for TensorBoard events.
    """

    def __init__(self, path: Path, iteration: int, tensorboard: Path | None = None) -> None:
        kept = []
        if path.exists():
            for text in path.read_text().splitlines():
                try:
                    line = json.loads(text)
                except ValueError:
                    break  # the line at which the run was killed
                if line["iteration"] <= iteration:
                    kept.append(text + "\n")
        write_atomically(path, "".join(kept).encode())
        self._path = path
        self._stream = path.open("a", encoding="utf-8")
        self._writer = None if tensorboard is None else _writer(tensorboard, iteration)

    def write(self, line: dict[str, Any]) -> None:
        """Append one line."""
        try:
            self._stream.write(json.dumps(line) + "\n")
        except OSError as problem:
            raise StorageError(
                f"cannot write {self._path}: {problem.strerror}; the last checkpoint is intact"
            ) from problem
        if self._writer is not None:
            step = line["iteration"]
            for name, value in line.items():
                if isinstance(value, dict):
                    for task, number in value.items():
                        if number is not None:
                            self._writer.add_scalar(f"{name}/{task}", number, step)
                elif name != "iteration":
                    self._writer.add_scalar(f"train/{name}", value, step)

    def flush(self) -> None:
        """Hand everything to the system, as before a checkpoint."""
        try:
            self._stream.flush()
        except OSError as problem:
            raise StorageError(
                f"cannot write {self._path}: {problem.strerror}; the last checkpoint is intact"
            ) from problem
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Close the files."""
        self._stream.close()
        if self._writer is not None:
            self._writer.close()


def summary_writer() -> Any:
    """Return the class that writes TensorBoard events, or say what to install."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError as problem:
        raise MissingExtraError(
            "TensorBoard events need the extra 'log': pip install 'crosslearning[log]', or in a "
            "checkout pip install -e '.[log]'"
        ) from problem
    return SummaryWriter


def _writer(folder: Path, iteration: int) -> Any:
    return summary_writer()(str(folder), purge_step=iteration + 1 if iteration else None)
