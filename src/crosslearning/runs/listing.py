"""The shelf: which runs a folder holds, how each of them stands, and what to do next.

Of every run only a few lines are read: what was asked, the end of the metrics, the header of the
newest model. Nothing is imported, trained or changed.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from crosslearning._base.files import read_description
from crosslearning.errors import CrossLearningError, InputError
from crosslearning.learner.file_format import FILE_KIND, FILE_VERSION
from crosslearning.runs.folder import RunFolder
from crosslearning.runs.lock import lock_owner
from crosslearning.runs.metrics import last_line

#: A folder with the first of these is a run; one with others, but without it, is what is left of
#: one. A ``config.toml`` alone may be anybody's.
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
    """How a run stands; what is None is not known.

    Attributes
    ----------
    run : str
        Its folder.
    state : str
        A run is running while somebody trains in its folder.
    writer : str
        Who does: the process, since when, its command.
    problem : str
        What is wrong with a damaged one, in a sentence; else empty.
    method, tasks : str
        As they were asked for.
    task_count : int
    length : str
        What was asked for, such as ``"2000 iterations"``.
    iteration, steps : int
        Of the model, or of the checkpoint to go on from.
    knots : int
        At the last line of metrics.
    epsilon : float
    best_return : float
        The highest mean over the tasks, discounted, of the evaluations on the way.
    recent_return : float
        The mean over the tasks, discounted, while exploring, in the last line of metrics.
    changed : str
        When a file of it was last written, in UTC.
    next : str
        A command, quoted for a shell.
    """

    run: str
    state: State
    writer: str | None = None
    problem: str = ""
    method: str | None = None
    tasks: str | None = None
    task_count: int | None = None
    length: str | None = None
    iteration: int | None = None
    steps: int | None = None
    knots: int | None = None
    epsilon: float | None = None
    best_return: float | None = None
    recent_return: float | None = None
    changed: str | None = None
    next: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: an infinite ε is the word ``"inf"``."""
        return {**vars(self), **({"epsilon": "inf"} if self.epsilon == math.inf else {})}


def summarise_runs(folder: str | Path) -> list[RunSummary]:
    """Return how all runs in a folder stand, and in the folders within it, by their names."""
    place = Path(folder)
    if not place.is_dir():
        if place.exists():
            raise InputError(f"{place} is a file; give a folder that holds runs")
        raise InputError(
            f"{place} is not there; give a folder that holds runs, or begin one: crosslearning "
            f"train --out {shlex.quote(str(place / 'first'))}"
        )
    return [_look(path) for path in _run_folders(place)]


def _run_folders(place: Path) -> Iterator[Path]:
    """Yield the folders that hold a run or what is left of one; nothing is looked for in them."""

    def refuse(problem: OSError) -> None:
        # A folder that may not be listed could hold runs: it is told of, not passed over.
        unreadable.append(Path(problem.filename))

    unreadable: list[Path] = []
    for path, names, files in os.walk(place, onerror=refuse):
        if any(mark in files or mark in names for mark in _MARKS):
            names.clear()
            yield Path(path)
        names[:] = sorted(name for name in names if not name.startswith("."))
    yield from unreadable


def _look(path: Path) -> RunSummary:
    """Return how one run stands, whatever its files hold."""
    # Who writes is asked first: a run that ends while its files are read was running, then.
    found: dict[str, Any] = {"run": str(path), "writer": lock_owner(path)}
    try:
        state = _read(RunFolder.open(path), found)
    # Files that somebody edited may hold anything.
    except (CrossLearningError, OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        text = str(wrong) or type(wrong).__name__
        state, found["problem"] = "damaged", " ".join(text.split())
    if found["writer"] is not None:
        state = "running"
    command = f"crosslearning {_NEXT[state]} {shlex.quote(str(path))}"
    if state == "finished" and RunFolder(path).best.exists():
        command += " --best"
    return RunSummary(**found, state=state, next=command)


def _read(folder: RunFolder, found: dict[str, Any]) -> State:
    """Write down what is known of a run; raise at what is damaged."""
    config = folder.config()
    length = config.length
    found |= {
        "method": config.settings.method,
        "tasks": config.tasks,
        "epsilon": float(config.settings.epsilon),
        "length": f"{length.amount} {length.unit}",
        "changed": _changed(folder),
    }
    line = last_line(folder.metrics)
    if line is not None:
        returns = [value for value in line["return"].values() if value is not None]
        found |= {name: int(line[name]) for name in ("iteration", "steps", "knots")}
        found["task_count"] = len(line["return"])
        if returns:
            found["recent_return"] = sum(map(float, returns)) / len(returns)
    known = [one["mean_return"] for one in folder.read_evaluations()]
    found["best_return"] = max((float(r) for r in known if r is not None), default=None)
    description = _newest(folder)
    if description is not None:
        found |= {"task_count": len(description["tasks"]), "steps": int(description["steps"])}
        found["iteration"] = int(description["iteration"])
    return "finished" if folder.model.exists() else "interrupted"


def _newest(folder: RunFolder) -> dict[str, Any] | None:
    """Return the header of the model, or of the newest checkpoint that is whole."""
    if folder.model.exists():
        return read_description(folder.model, FILE_KIND, FILE_VERSION)
    wrong: CrossLearningError | None = None
    for _, path in reversed(folder.checkpoints()):
        try:
            return read_description(path, FILE_KIND, FILE_VERSION)
        except CrossLearningError as problem:
            wrong = wrong or problem
    if wrong is not None:
        raise wrong
    return None


def _changed(folder: RunFolder) -> str:
    files = [*folder.path.glob("*"), *(path for _, path in folder.checkpoints())]
    newest = max(path.stat().st_mtime for path in files)
    return f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%dT%H:%M:%SZ}"
