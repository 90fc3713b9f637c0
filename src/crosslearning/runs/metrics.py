"""Metrics: lines of JSON and optional TensorBoard events, continued by a resumed run."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from crosslearning._base.files import cannot_read, open_file, read_file, write_atomically
from crosslearning._base.plain_data import decode
from crosslearning._base.statistics import Floats, mean_of_known
from crosslearning.errors import LARGEST, FileFormatError, MissingExtraError, StorageError, visible

if TYPE_CHECKING:
    from crosslearning.learner import IterationReport, LearnerSettings

#: The fraction of a run, at its end, that is called late.
LATE = 0.25
#: A distance within this fraction of ε counts as at the bound.
AT_BOUND = 1e-3

_Number = int | float | None
_Numbers = dict[str, _Number]


class MetricsLine(msgspec.Struct, rename={"returns": "return"}):
    """The fields that every line of metrics has."""

    iteration: int
    steps: int
    returns: _Numbers
    distance: _Numbers
    multiplier: _Numbers
    knots: int


class _EvaluationResult(msgspec.Struct):
    task: str
    discounted_return: _Numbers
    rates: dict[str, _Numbers]


class EvaluationLine(msgspec.Struct):
    """A line of the evaluations during training."""

    iteration: int
    steps: int
    mean_return: _Number
    results: list[_EvaluationResult]


def late_multipliers(
    lines: Sequence[Mapping[str, Any]], tasks: Sequence[str], field: str = "multiplier"
) -> Floats | None:
    """Return every task's mean multiplier late in a run, shape (N,); infinite for ε = 0.

    ``field`` is ``"multiplier"`` for ε or ``"controller_multiplier"`` for the distance ε₀ from a
    controller. Without lines that have it the answer is None.
    """
    begin = (1.0 - LATE) * lines[-1]["iteration"] if lines else 0.0
    late = [line[field] for line in lines if line["iteration"] > begin and field in line]
    if not late:
        return None
    rows = [[math.inf if row[task] is None else row[task] for task in tasks] for row in late]
    return np.asarray(np.mean(np.array(rows, dtype=np.float64), axis=0))


def recent_returns(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return every task's mean training return, if known, over the last lines; worst first."""
    recent = lines[-max(1, min(25, len(lines) // 4)) :]
    known = {
        name: [line["return"][name] for line in recent if line["return"].get(name) is not None]
        for name in (lines[-1]["return"] if lines else ())
    }
    means = {name: math.fsum(values) / len(values) for name, values in known.items() if values}
    return dict(sorted(means.items(), key=lambda item: item[1]))


def read_lines(path: Path, form: Any) -> list[dict[str, Any]]:
    """Return the lines of a file, if it exists, but for damaged ones, with a warning."""
    return [line for _, line in _parsed(path, form) if line is not None]


def _parsed(path: Path, form: Any) -> list[tuple[bytes, dict[str, Any] | None]]:
    """Return the lines of a file as bytes, each with its content, None if damaged."""
    try:
        # The last line without an end is where a run was killed, or is still writing.
        texts = read_file(path).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except StorageError:
        raise
    except OSError as problem:
        raise cannot_read(path, problem) from problem
    rows = [(text, _content(text, form)) for text in texts]
    damaged = [str(number) for number, (_, line) in enumerate(rows, start=1) if line is None]
    if damaged:
        numbers = ", ".join(damaged[:10]) + (" …" if damaged[10:] else "")
        text = f"{path}: line {numbers} of {len(rows)} cannot be read; the others are used"
        warnings.warn(text, stacklevel=3)
    return rows


def _content(text: bytes, form: Any) -> dict[str, Any] | None:
    """Return a line of a form, whose other fields are plain too, or None."""
    try:
        line = decode(text, dict[str, Any], "a line")
        msgspec.convert(line, form)
    except (FileFormatError, msgspec.ValidationError):
        return None
    return line if all(map(_is_plain, line.values())) else None


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number that can be drawn, a name, or holds only these."""
    if isinstance(value, dict):
        return all(visible(key, 500) == key and _is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return visible(value, 500) == value
    return value is None or abs(value) < LARGEST


def aims_of(settings: LearnerSettings, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a method's targets, by name and for every line of metrics."""
    each = [settings.aims(line["iteration"], line) for line in lines]
    return {name: [one[name] for one in each] for name in (each[0] if each else ())}


def last_line(path: Path) -> dict[str, Any] | None:
    """Return the last whole line of a file, reading only its end; None if there is none."""
    try:
        with os.fdopen(open_file(path), "rb") as stream:
            size = stream.seek(0, 2)
            for most in (1 << 16, 1 << 28):
                stream.seek(max(0, size - most))
                # The first of these lines may be cut, unless the whole file was read.
                *_, before, line, _ = b"", b"", *stream.read().split(b"\n")
                if before:
                    break
    except OSError:
        return None
    content = _content(line, MetricsLine) if line else None
    if line and content is None:
        raise FileFormatError(f"the last line of {path} is damaged")
    return content


class Averages:
    """Collects iterations into lines: means of noisy numbers, maxima of bounded ones."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self._tasks = tuple(tasks)
        #: The iterations since the last line.
        self.pending: list[IterationReport] = []
        #: The last iteration that was added.
        self.last = 0

    def add(self, report: IterationReport) -> None:
        """Add one iteration."""
        self.pending.append(report)
        self.last = report.iteration

    def line(self, steps: int) -> dict[str, Any]:
        """Return the line of the iterations since the last one."""
        reports, self.pending = self.pending, []
        last, pruning = reports[-1], [report.pruning for report in reports]
        # The budget bounds the policies and the centre, not the directions of momentum.
        moves = [float(np.max(p.errors[: len(self._tasks) + 1])) for p in pruning]

        def mean(values: Sequence[Any]) -> dict[str, float | None]:
            return self._named(mean_of_known(values))

        # A number that a method did not report in an iteration is NaN.
        nothing = np.full(len(self._tasks), np.nan)
        names = dict.fromkeys(name for report in reports for name in report.numbers)
        line = {
            "iteration": last.iteration,
            "steps": steps,
            "return": mean([r.returns for r in reports]),
            **{name: mean([r.numbers.get(name, nothing) for r in reports]) for name in names},
            "distance": self._named(np.max([r.distances for r in reports], axis=0)),
            "multiplier": mean([r.projection.multipliers for r in reports]),
            **self._of_controllers(reports),
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
            line["gap_bound"] = self._named(checks[-1].bounds)
        return line

    def _of_controllers(self, reports: Sequence[IterationReport]) -> dict[str, Any]:
        """Return the multipliers of the distance from controllers, if it is bounded."""
        multipliers = [r.projection.bound_multipliers[:-1] for r in reports]
        if any(one.size == 0 for one in multipliers):
            return {}
        return {"controller_multiplier": self._named(np.mean(multipliers, axis=0))}

    def _named(self, values: Floats) -> dict[str, float | None]:
        # JSON has neither infinity nor NaN: null stands for "no bound" and for "unknown".
        numbers = [value if math.isfinite(value) else None for value in values.tolist()]
        return dict(zip(self._tasks, numbers, strict=True))


class MetricsLog:
    """Appends lines to a file, and to TensorBoard events if their folder is given.

    Opened again at an iteration, it drops later lines. Damaged lines among earlier ones stay.
    """

    def __init__(
        self, path: Path, iteration: int, tensorboard: Path | None = None, form: Any = MetricsLine
    ) -> None:
        rows, kept = _parsed(path, form), 0
        for number, (_, line) in enumerate(rows, start=1):
            if line is not None and line["iteration"] <= iteration:
                kept = number
        write_atomically(path, b"".join(text + b"\n" for text, _ in rows[:kept]))
        self._path = path
        self._stream = os.fdopen(open_file(path, os.O_RDWR | os.O_APPEND), "a+", encoding="utf-8")
        self._writer: Any = None
        if tensorboard is not None:
            purge = iteration + 1 if iteration else None
            self._writer = summary_writer()(str(tensorboard), purge_step=purge)

    def write(self, line: dict[str, Any]) -> None:
        """Append one line."""
        with self._naming_the_file():
            self._stream.write(json.dumps(line) + "\n")
        for name, value in line.items() if self._writer is not None else ():
            if isinstance(value, dict):
                self.add_scalars({f"{name}/{k}": v for k, v in value.items()}, line["iteration"])
            elif name != "iteration":
                self.add_scalars({f"train/{name}": value}, line["iteration"])

    def add_scalars(self, tags: Mapping[str, float | None], iteration: int) -> None:
        """Add known numbers to the TensorBoard events, if there are any."""
        for tag, number in tags.items() if self._writer is not None else ():
            if number is not None and not math.isnan(number):
                self._writer.add_scalar(tag, number, iteration)

    def flush(self) -> None:
        """Write everything to the disk, as before a checkpoint."""
        with self._naming_the_file():
            self._stream.flush()
            os.fsync(self._stream.fileno())
        if self._writer is not None:
            self._writer.flush()

    @property
    def lost(self) -> bool:
        """Whether the file was removed or replaced."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._stream.fileno()))
        except OSError:
            return True

    def restore(self) -> None:
        """Write the file again, if it was removed: the open file still has its content."""
        self.flush()
        if self.lost:
            self._stream.seek(0)
            write_atomically(self._path, self._stream.read().encode())

    def close(self) -> None:
        """Close the files."""
        with self._naming_the_file():
            self._stream.close()
        if self._writer is not None:
            self._writer.close()

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise StorageError(
                f"cannot write {self._path}: {problem.strerror}; the last checkpoint is intact"
            ) from problem


def summary_writer() -> Any:
    """Return the class that writes TensorBoard events; raise MissingExtraError without it."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError as problem:
        raise MissingExtraError(
            "TensorBoard events need the extra 'log': pip install 'crosslearning[log]', or in a "
            "checkout pip install -e '.[log]'"
        ) from problem
    return SummaryWriter
