"""The study engine: many runs and what is measured of them, each made only once.

A study is a set of chains that know nothing of one another. A chain is a list of steps, one after
the other. What happens when a study is started again stands in :meth:`Run.go` and
:meth:`Measurement.answer`, and nowhere else:

- a run that has finished stays as it is; one that was begun is resumed from its last checkpoint;
  a folder with another run is refused; what is not there is trained;
- a measurement whose file answers the same question, by the same version of the code, is read;
  any other is made.

So a study that is stopped at any moment goes on by the same call, and ends with the same files.
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

#: On the progress bar a measurement counts as much as so many of the longest run.
_MEASUREMENT = 0.1


@dataclass(frozen=True)
class Run:
    """A step that trains in ``path``; ``start`` is the run whose policies it starts from."""

    path: Path
    config: RunConfig
    start: Path | None = None

    def go(self) -> bool:
        """Take the run to its end; return False if it was interrupted."""
        folder = RunFolder(self.path)
        if folder.exists():
            before, asked = folder.config().to_plain(), self.config.chosen().to_plain()
            # How its rollouts are run does not matter.
            _refuse_other(
                self.path, "a run", before, asked | {k: before[k] for k in EXECUTION_FIELDS}
            )
            if folder.model.exists():
                return True
            # The user named the tasks of the study: a run that was made by another machine of a
            # cluster, or where no key can be kept, is theirs too.
            tasks = None if folder.is_own() else self.config.tasks
            return resume(self.path, tasks=tasks, **self.config.how()).finished
        start = None if self.start is None else RunFolder(self.start).load().family
        return train(self.path, self.config, start=start).finished

    def done(self) -> float:
        """Return how much of its length was made, from the end of the metrics."""
        folder, length = RunFolder(self.path), self.config.length
        if folder.model.exists():
            return float(length.amount)
        try:
            return float((last_line(folder.metrics) or {})[length.field])
        except (FileFormatError, KeyError):
            return 0.0


@dataclass(frozen=True)
class Measurement:
    """A step that measures, and keeps the answer in a JSON file beside the question.

    The question, ``asked``, is plain data. Its ``version`` is raised when the code comes to answer
    the same question otherwise. ``make(*arguments)``, of module level, returns the answer.
    """

    path: Path
    asked: Mapping[str, Any]
    make: Callable[..., Mapping[str, Any]]
    arguments: tuple[Any, ...]

    def go(self) -> bool:
        """Measure, unless that was done before."""
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
        """Return the answer that the file holds to this question; None if it must be made."""
        try:
            stored = decode(read_file(self.path), dict[str, Any], self.path)
            return stored if stored.get("asked") == self.asked else None
        except (FileNotFoundError, FileFormatError):
            return None  # not there, or damaged


#: Steps that follow one another.
Chain = Sequence[Run | Measurement]


def run_study(
    rounds: Sequence[Sequence[Chain]], workers: int | None, console: Console, on: str = "processes"
) -> bool:
    """Go through the chains of a study, one a process; return False if interrupted.

    The chains of a round begin when those of the round before have ended. One progress bar is
    shown for everything.

    Parameters
    ----------
    rounds : sequence of sequences of Chain
    workers : int, optional
        Processes; by default one for every processor.
    console : Console
    on : str
        ``"processes"`` of this machine, or those of a cluster: ``"ray"``, ``"ray://host:port"``.
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

        def look() -> None:
            done = (s.done() if isinstance(s, Run) else length * s.path.exists() for s in steps)
            progress.update(bar, completed=sum(done))

        if where.kind == "ray":
            return on_ray(go_through, calls, workers, look, where.address)
        return in_processes(go_through, calls, workers or os.cpu_count() or 1, look)


def go_through(chain: Chain) -> bool:
    """Take the steps of one chain; return False if one was interrupted."""
    return all(not stop_is_asked() and step.go() for step in chain)


def claim(path: Path, asked: Mapping[str, Any], what: str) -> None:
    """Write down in ``request.json`` what a folder is for, or refuse one for another thing."""
    guard(path)
    file = path / "request.json"
    if RunFolder(path).exists():
        raise InputError(f"{path} holds a run; choose another folder with --out")
    if not file.exists():
        write_atomically(file, json.dumps(asked, indent=1).encode())
        return
    before = _flat(decode(read_file(file), dict[str, Any], file))
    # As a file gives it back, lists in the place of tuples.
    _refuse_other(path, what, before, _flat(json.loads(json.dumps(asked))))


def _refuse_other(path: Path, what: str, before: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to go on with what was begun for another question."""
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
