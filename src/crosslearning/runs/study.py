"""The study engine: many runs and measurements of them, each made once, in parallel processes.

A study is a set of independent chains of steps. A study that was interrupted is continued by the
same call, and ends with the same files: :meth:`Run.go` keeps a finished run, resumes an unfinished
one and refuses another; :meth:`Measurement.answer` reads a file that answers the same question by
the same version of the code.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

from crosslearning._base.files import guard, read_file, write_atomically
from crosslearning._base.plain_data import decode
from crosslearning._base.progress import progress_bar
from crosslearning.errors import FileFormatError, InputError
from crosslearning.rollouts.backends import read_backend
from crosslearning.rollouts.process_executor import safe_start
from crosslearning.runs.config import RunConfig
from crosslearning.runs.driver import resume, train
from crosslearning.runs.folder import RunFolder
from crosslearning.runs.metrics import last_line

#: On the progress bar a measurement counts as much as this fraction of the longest run.
_MEASUREMENT = 0.1
#: Seconds between two calls of ``update``, and for remote runs to save themselves.
_POLL, _PARTING = 0.5, 60.0
#: Set in a worker by Ctrl-C while it is not driving a run.
_pressed = threading.Event()


@dataclass(frozen=True)
class Run:
    """A step that trains in ``path``; ``start`` is the run whose policies it starts from.

    With ``scaled_by``, ε of the configuration is a multiple of the mean norm of the task policies
    of these runs, which are finished before.
    """

    path: Path
    config: RunConfig
    start: Path | None = None
    scaled_by: tuple[Path, ...] = ()

    def go(self) -> bool:
        """Train or resume the run; return False if it was interrupted."""
        folder, config = RunFolder(self.path), self._with_radius()
        if folder.exists():
            before = folder.config()
            # A method that is left open is the one that was chosen when the run began.
            asked = msgspec.structs.replace(config.chosen(before.settings.method), **before.how())
            _refuse_other(self.path, "a run", before.to_plain(), asked.to_plain())
            if folder.model.exists():
                return True
            tasks, around = naming(folder, config)
            how = config.how()
            return resume(self.path, tasks=tasks, around=around, **how).finished
        start = None if self.start is None else RunFolder(self.start).load().family
        return train(self.path, config, start=start).finished

    def _with_radius(self) -> RunConfig:
        if not self.scaled_by:
            return self.config
        norms = [RunFolder(path).load().family.norms()[:-1].mean() for path in self.scaled_by]
        return self.config.replace(epsilon=self.config.settings.epsilon * float(np.mean(norms)))

    def done(self) -> float:
        """Return how much of its length is done, from the end of the metrics."""
        folder, length = RunFolder(self.path), self.config.length
        if not self.path.exists():
            return 0.0
        if folder.model.exists():
            return float(length.amount)
        with suppress(FileFormatError):
            return float((last_line(folder.metrics) or {}).get(length.field, 0.0))
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
        if (stored := self.stored()) is not None:
            return stored
        result = {"asked": dict(self.asked), **self.make(*self.arguments)}
        write_atomically(self.path, json.dumps(result, indent=1).encode())
        return result

    def stored(self) -> dict[str, Any] | None:
        """Return the answer from the file; None if it must be made."""
        with suppress(FileNotFoundError, FileFormatError):
            stored = decode(read_file(self.path), dict[str, Any], self.path)
            return stored if stored.get("asked") == self.asked else None
        return None


def naming(folder: RunFolder, config: RunConfig) -> tuple[str | None, str | None]:
    """Return the tasks and the controller of a study to open a run with, if it needs them.

    The user named them for the study, so they are trusted also where the run was made on another
    computer of a cluster, or no signing key can be kept.
    """
    return (None, None) if folder.is_own() else (config.tasks, config.around)


Chain = Sequence[Run | Measurement]
#: Rounds of calls of a function, each with its arguments.
Rounds = Sequence[Sequence[tuple[Any, ...]]]


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
        unfinished, finished = list(steps), 0.0

        def update() -> None:
            # Of a thousand steps, to look at the finished ones again would take part of a core.
            nonlocal unfinished, finished
            under_way, rest = 0.0, []
            for step in unfinished:
                whole = step.config.length.amount if isinstance(step, Run) else length
                done = step.done() if isinstance(step, Run) else whole * step.path.exists()
                if done >= whole:
                    finished += whole
                else:
                    under_way += done
                    rest.append(step)
            unfinished = rest
            progress.update(bar, completed=finished + under_way)

        if where.kind == "ray":
            return on_ray(go_through, calls, workers, update, where.address)
        return in_processes(go_through, calls, workers or os.cpu_count() or 1, update)


def go_through(chain: Chain) -> bool:
    """Run the steps of one chain; return False if one was interrupted."""
    return all(not stop_is_asked() and step.go() for step in chain)


def in_processes(
    function: Callable[..., Any], rounds: Rounds, workers: int, update: Callable[[], None]
) -> bool:
    """Call a function for each tuple of arguments, in ``workers`` processes; False if interrupted.

    The function is of module level, and returns False if it was interrupted. A round of calls
    begins when the round before has ended. ``update`` is called repeatedly meanwhile.
    """
    # A fork of a process with threads may deadlock.
    context = multiprocessing.get_context("spawn")
    with safe_start():
        executor = ProcessPoolExecutor(workers, context, initializer=_leave_ctrl_c_to_parent)

    def submit(call: tuple[Any, ...]) -> Future[Any]:
        with safe_start():
            return executor.submit(function, *call)

    with executor:
        return _run(rounds, workers, submit, update)


def on_ray(
    function: Callable[..., Any],
    rounds: Rounds,
    workers: int | None,
    update: Callable[[], None],
    address: str | None = None,
) -> bool:
    """Do what :func:`in_processes` does on a Ray cluster, whose nodes share the working folder.

    A call that is lost with a node is repeated on another. ``workers`` None: all processors.
    """
    from cloudpickle import dumps

    from crosslearning.rollouts.ray_cluster import join, leave

    ray = join(address)
    remote = ray.remote(num_cpus=1, max_retries=10)(_call_remotely)
    here = str(Path.cwd()), [str(Path(place).absolute()) for place in sys.path]
    calls: dict[Future[Any], Any] = {}

    def submit(call: tuple[Any, ...]) -> Future[Any]:
        reference = remote.remote(*here, dumps((function, call)))
        future: Future[Any] = reference.future()
        calls[future] = reference
        return future

    def stop(running: Sequence[Future[Any]]) -> None:
        for future in running:
            ray.cancel(calls[future])  # like Ctrl-C: a run is saved
        wait(running, timeout=_PARTING)

    try:
        return _run(rounds, workers or sum(map(len, rounds)), submit, update, stop)
    finally:
        leave()


def _run(
    rounds: Rounds,
    most: int,
    submit: Callable[[tuple[Any, ...]], Future[Any]],
    update: Callable[[], None],
    stop: Callable[[Sequence[Future[Any]]], None] = lambda running: None,
) -> bool:
    """Submit rounds of calls, at most so many at a time; return False if one was interrupted."""
    for calls in rounds:
        waiting = list(reversed(calls))
        running: set[Future[Any]] = set()
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    running.add(submit(waiting.pop()))
                done, running = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
                if any(future.result() is False for future in done):
                    raise KeyboardInterrupt
                update()
        except BaseException as problem:
            stop([*running])
            if not isinstance(problem, KeyboardInterrupt):
                raise
            return False
    return True


def _call_remotely(folder: str, modules: list[str], packed: bytes) -> Any:
    """Call a function on a node, in the same folder and with the same module path."""
    from cloudpickle import loads

    try:
        os.chdir(folder)
    except OSError as problem:
        shared = "a study on several machines needs one that all of them share"
        place = f"the machine {platform.node()}"
        raise InputError(f"the folder {folder} is not on {place}: {problem}; {shared}") from problem
    sys.path += [place for place in modules if place not in sys.path]
    function, arguments = loads(packed)
    return function(*arguments)


def _leave_ctrl_c_to_parent() -> None:
    """Set up a worker: Ctrl-C ends the run that it drives; other steps are completed."""
    if hasattr(signal, "pthread_sigmask"):
        if signal.SIGINT in signal.sigpending():
            os._exit(130)  # pressed while this process was starting
        signal.signal(signal.SIGINT, lambda number, frame: _pressed.set())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def stop_is_asked() -> bool:
    """Return in a worker whether Ctrl-C was pressed: then it starts no new step."""
    return _pressed.is_set()


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
    # As read from a file: with lists instead of tuples.
    _refuse_other(path, what, before, _flat(json.loads(json.dumps(asked))))


def _refuse_other(path: Path, what: str, before: dict[str, Any], asked: dict[str, Any]) -> None:
    different = [name for name, value in asked.items() if before.get(name) != value]
    if different:
        other = f"{what} with another choice of {', '.join(different)}"
        raise InputError(f"{path} holds {other}; choose another folder with --out, or the same")


def _flat(asked: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in asked.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [f"| {' | '.join(cells)} |\n" for cells in (headings, *rows)]
    return "".join([lines[0], f"|{'---|' * len(headings)}\n", *lines[1:]])
