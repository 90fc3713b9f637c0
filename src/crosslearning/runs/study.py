"""The study engine: many runs and measurements of them, each made once.

A study is a set of independent chains of steps. A study that was interrupted is continued by the
same call, and ends with the same files: :meth:`Run.go` keeps a finished run, resumes an unfinished
one and refuses another; :meth:`Measurement.answer` reads a file that answers the same question by
the same version of the code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

from crosslearning._base.files import guard, read_file, write_atomically
from crosslearning._base.plain_data import decode
from crosslearning._base.progress import progress_bar
from crosslearning.errors import FileFormatError, InputError
from crosslearning.rollouts.backends import read_backend
from crosslearning.runs.config import EXECUTION_FIELDS, RunConfig
from crosslearning.runs.driver import resume, train
from crosslearning.runs.folder import RunFolder
from crosslearning.runs.metrics import last_line
from crosslearning.runs.parallel import in_processes, on_ray, stop_is_asked

#: On the progress bar a measurement counts as much as this fraction of the longest run.
_MEASUREMENT = 0.1


@dataclass(frozen=True)
class Run:
    """A step that trains in ``path``; ``start`` is the run whose policies it starts from."""

    path: Path
    config: RunConfig
    start: Path | None = None

    def go(self) -> bool:
        """Train or resume the run; return False if it was interrupted."""
        folder = RunFolder(self.path)
        if folder.exists():
            before, asked = folder.config().to_plain(), self.config.chosen().to_plain()
            asked |= {name: before[name] for name in EXECUTION_FIELDS}
            _refuse_other(self.path, "a run", before, asked)
            if folder.model.exists():
                return True
            # The user named the tasks of the study, so they are trusted also where the run was
            # made on another computer of a cluster, or no signing key can be kept.
            tasks = None if folder.is_own() else self.config.tasks
            return resume(self.path, tasks=tasks, **self.config.how()).finished
        start = None if self.start is None else RunFolder(self.start).load().family
        return train(self.path, self.config, start=start).finished

    def done(self) -> float:
        """Return how much of its length is done, from the end of the metrics."""
        folder, length = RunFolder(self.path), self.config.length
        if folder.model.exists():
            return float(length.amount)
        try:
            return float((last_line(folder.metrics) or {})[length.field])
        except (FileFormatError, KeyError):
            return 0.0


@dataclass(frozen=True)
class Measurement:
    """A step that measures, and writes the question ``asked`` and the answer to a JSON file.

    The question is plain data; its ``version`` is raised when the code changes the answer.
    ``make(*arguments)``, a function of module level, returns the answer.
    """

    path: Path
    asked: Mapping[str, Any]
    make: Callable[..., Mapping[str, Any]]
    arguments: tuple[Any, ...]

    def go(self) -> bool:
        """Measure, unless the file has the answer."""
        self.answer()
        return True

    def answer(self) -> dict[str, Any]:
        """Return the answer with its question under ``asked``, from the file if it is there."""
        stored = self.stored()
        if stored is not None:
            return stored
        result = {"asked": dict(self.asked), **self.make(*self.arguments)}
        write_atomically(self.path, json.dumps(result, indent=1).encode())
        return result

    def stored(self) -> dict[str, Any] | None:
        """Return the answer from the file; None if it must be made."""
        try:
            stored = decode(read_file(self.path), dict[str, Any], self.path)
            return stored if stored.get("asked") == self.asked else None
        except (FileNotFoundError, FileFormatError):
            return None  # missing or damaged


Chain = Sequence[Run | Measurement]


def run_study(
    rounds: Sequence[Sequence[Chain]], workers: int | None, console: Console, on: str = "processes"
) -> bool:
    """Run the chains of a study, one per process; return False if interrupted.

    A round of chains begins when the round before has ended. ``workers`` is the number of
    processes, by default one for every processor; ``on`` is ``"processes"``, ``"ray"`` or
    ``"ray://host:port"``.
    """
    where = read_backend(on)
    if where.kind not in ("processes", "ray"):
        raise InputError(f"on is {on!r}; a study runs on processes, ray or ray://host:port")
    steps = [step for chains in rounds for chain in chains for step in chain]
    lengths = [step.config.length.amount for step in steps if isinstance(step, Run)]
    length = _MEASUREMENT * max(lengths, default=1)
    total = sum(lengths) + length * (len(steps) - len(lengths))
    calls = [[(chain,) for chain in chains] for chains in rounds]
    columns = TaskProgressColumn(), TimeElapsedColumn(), "left:", TimeRemainingColumn()
    with progress_bar(console, *columns) as progress:
        bar = progress.add_task("learning and measuring", total=total)

        def update() -> None:
            done = (s.done() if isinstance(s, Run) else length * s.path.exists() for s in steps)
            progress.update(bar, completed=sum(done))

        if where.kind == "ray":
            return on_ray(go_through, calls, workers, update, where.address)
        return in_processes(go_through, calls, workers or os.cpu_count() or 1, update)


def go_through(chain: Chain) -> bool:
    """Run the steps of one chain; return False if one was interrupted."""
    return all(not stop_is_asked() and step.go() for step in chain)


def claim(path: Path, asked: Mapping[str, Any], what: str) -> None:
    """Write ``request.json`` into a folder, or refuse a folder that has another one."""
    guard(path)
    file = path / "request.json"
    if RunFolder(path).exists():
        raise InputError(f"{path} holds a run; choose another folder with --out")
    if not file.exists():
        write_atomically(file, json.dumps(asked, indent=1).encode())
        return
    before = _flat(decode(read_file(file), dict[str, Any], file))
    # As read from a file: with lists in the place of tuples.
    _refuse_other(path, what, before, _flat(json.loads(json.dumps(asked))))


def _refuse_other(path: Path, what: str, before: dict[str, Any], asked: dict[str, Any]) -> None:
    different = [name for name, value in asked.items() if before.get(name) != value]
    if different:
        raise InputError(
            f"{path} holds {what} with another choice of {', '.join(different)}; choose another "
            "folder with --out, or ask for the same"
        )


def _flat(asked: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in asked.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [f"| {' | '.join(cells)} |\n" for cells in (headings, *rows)]
    return "".join([lines[0], f"|{'---|' * len(headings)}\n", *lines[1:]])
