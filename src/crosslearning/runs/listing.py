"""The runs of a folder: the state of each, and what to do next.

Of every run only the configuration, the end of the metrics and the header of the newest model are
read. No task is imported, and no file is changed.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from crosslearning._base.files import read_description
from crosslearning.errors import CrossLearningError, InputError
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION
from crosslearning.runs.folder import RunFolder
from crosslearning.runs.lock import lock_owner
from crosslearning.runs.metrics import last_line

#: A folder with the first of these is a run, with others alone a damaged one. A ``config.toml``
#: alone may belong to another program.
_MARKS = ("run.json", "metrics.jsonl", "model.safetensors", "checkpoints")

State = Literal["finished", "running", "interrupted", "damaged"]
#: What to do next with a run, by its state.
_NEXT: dict[State, str] = {
    "finished": "evaluate",
    "running": "info",
    "interrupted": "resume",
    "damaged": "certify",
}


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The state of a run; None is unknown."""

    run: str  #: its folder
    state: State  #: "running" while a process trains in its folder
    writer: str | None = None  #: that process, since when, its command
    problem: str = ""  #: of a damaged run, in a sentence
    method: str | None = None
    tasks: str | None = None  #: as in the configuration
    task_count: int | None = None
    length: str | None = None  #: of the configuration, such as ``"2000 iterations"``
    iteration: int | None = None  #: of the model, or of the checkpoint to resume from
    steps: int | None = None
    knots: int | None = None  #: in the last line of metrics
    epsilon: float | None = None
    final_return: float | None = None  #: mean total return of the verdict at the end
    controller_epsilon: float | None = None  #: ε₀, the bound around a controller
    best_return: float | None = None  #: highest mean discounted return of the evaluations
    recent_return: float | None = None  #: mean over the tasks in the last line, while exploring
    changed: str | None = None  #: when a file was last written, in UTC
    next: str  #: a command, quoted for a shell

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: an infinite ε is ``"inf"``."""
        return {name: "inf" if value == math.inf else value for name, value in vars(self).items()}


def summarise_runs(folder: str | Path) -> list[RunSummary]:
    """Return the state of all runs in a folder and its subfolders, sorted by name."""
    place = Path(folder)
    if not place.is_dir():
        begin = f"crosslearning train --out {shlex.quote(str(place / 'first'))}"
        what = "is a file" if place.exists() else "is not there"
        raise InputError(f"{place} {what}; give a folder that holds runs, or begin one: {begin}")
    return [_summarise(path) for path in _run_folders(place)]


def _run_folders(place: Path) -> Iterator[Path]:
    """Yield the folders that hold a run, whole or damaged, then those that cannot be listed."""
    unreadable: list[OSError] = []
    for path, names, files in os.walk(place, onerror=unreadable.append):
        if any(mark in files or mark in names for mark in _MARKS):
            names.clear()
            yield Path(path)
        names[:] = sorted(name for name in names if not name.startswith("."))
    yield from (Path(problem.filename) for problem in unreadable)


def _summarise(path: Path) -> RunSummary:
    # The lock is read first: a run that ends while its files are read was running before.
    fields: dict[str, Any] = {"run": str(path), "writer": lock_owner(path)}
    try:
        state = _read(RunFolder.open(path), fields)
    # Edited files may hold anything.
    except (CrossLearningError, OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        text = str(wrong) or type(wrong).__name__
        state, fields["problem"] = "damaged", " ".join(text.split())
    if fields["writer"] is not None:
        state = "running"
    command = f"crosslearning {_NEXT[state]} {shlex.quote(str(path))}"
    if state == "finished" and RunFolder(path).best.exists():
        command += " --best-evaluated"
    return RunSummary(**fields, state=state, next=command)


def _read(folder: RunFolder, fields: dict[str, Any]) -> State:
    """Add the fields of a run to ``fields``; raise if a file is damaged."""
    config = folder.config()
    length = config.length
    files = [*folder.path.glob("*"), *(path for _, path in folder.checkpoints())]
    newest = datetime.fromtimestamp(max(path.stat().st_mtime for path in files), UTC)
    fields |= {
        "method": config.settings.method,
        "tasks": config.tasks,
        "epsilon": float(config.settings.epsilon),
        "controller_epsilon": config.settings.controller_epsilon,
        "length": f"{length.amount} {length.unit}",
        "changed": f"{newest:%Y-%m-%dT%H:%M:%SZ}",
    }
    if (line := last_line(folder.metrics)) is not None:
        returns = [float(value) for value in line["return"].values() if value is not None]
        fields |= {name: line[name] for name in ("iteration", "steps", "knots")}
        fields["task_count"] = len(line["return"])
        fields["recent_return"] = fmean(returns) if returns else None
    known = [one["mean_return"] for one in folder.read_evaluations()]
    fields["best_return"] = max((float(r) for r in known if r is not None), default=None)
    fields["final_return"] = folder.final_return()
    if (description := _newest(folder)) is not None:
        fields |= {"task_count": len(description["tasks"]), "steps": int(description["steps"])}
        fields["iteration"] = int(description["iteration"])
    return "finished" if folder.model.exists() else "interrupted"


def _newest(folder: RunFolder) -> dict[str, Any] | None:
    """Return the header of the model, or of the newest intact checkpoint."""
    saved = [folder.model] if folder.model.exists() else [p for _, p in folder.checkpoints()]
    problems = []
    for path in reversed(saved):
        try:
            return read_description(path, FILE_KIND, FILE_VERSION)
        except CrossLearningError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
    return None
