"""``python -m benchmarks.faults``: break runs on purpose, and count what is lost.

Every fault is injected into a small run of its own, in a process of its own. The run is then
resumed without the fault, and its model and metrics are compared, byte for byte, with those of a
run that nothing happened to. Survived means: the process went on, or ended with a sentence and no
traceback, and the resumed run came to its end. Data lost counts the runs whose files differ, and
of killed ones those that fell back by more than the iterations between two checkpoints.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn

from benchmarks import failing_tasks
from crosslearning._base.progress import progress_bar
from crosslearning.cli.output import show_table
from crosslearning.errors import CrossLearningError
from crosslearning.learner import CrossLearner
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.runs.metrics import Averages

SMALL = {"max_knots": 12, "batch_size": 2, "checkpoint_every": 5, "log_every": 2}
COMPILED = {**SMALL, "tasks": "linear-quadratic", "iterations": 300}
PYTHON = {
    **SMALL,
    "tasks": "benchmarks.failing_tasks:tasks",
    "iterations": 40,
    "method": "policy-gradient",
}
#: How a child exits: the run ended, or was ended with a sentence; anything else is a bare error.
DONE, SENTENCE = 0, 3


# Runs in processes of their own --------------------------------------------------------------


def child(function: Callable[..., Any], *arguments: Any) -> multiprocessing.Process:
    """Start a function in a fork of this process, which has imported and compiled everything."""
    process = multiprocessing.get_context("fork").Process(target=_go, args=(function, arguments))
    process.start()
    return process


def _go(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    warnings.simplefilter("ignore")
    try:
        function(*arguments)
    except CrossLearningError:
        os._exit(SENTENCE)
    os._exit(DONE)


def code(function: Callable[..., Any], *arguments: Any) -> int | None:
    """Return the exit code of a function in a process of its own."""
    process = child(function, *arguments)
    process.join()
    return process.exitcode


def take_up(path: Path, fields: dict[str, Any]) -> None:
    """Begin a run, or go on with it."""
    if RunFolder(path).exists():
        resume(path)
    else:
        train(path, make_config(fields))


def files_of(path: Path) -> tuple[bytes, bytes]:
    return RunFolder(path).model.read_bytes(), RunFolder(path).metrics.read_bytes()


class Place(NamedTuple):
    """Where faults happen: a folder, a run that nothing happens to, and how long it takes."""

    folder: Path
    whole: Path
    fields: dict[str, Any]
    seconds: float
    generator: np.random.Generator

    def new(self) -> Path:
        """Return where there is nothing yet."""
        return self.folder / f"run-{len(list(self.folder.iterdir()))}"

    def begun(self) -> Path:
        """Return a copy of the run as it was before its end."""
        path = self.new()
        shutil.copytree(self.whole, path)
        RunFolder(path).model.unlink()
        return path

    def verdict(self, path: Path, ended_well: bool = True) -> tuple[bool, bool]:
        """Go on with a run; return whether it survived, and whether anything is lost."""
        finished = code(take_up, path, self.fields) == DONE
        lost = not finished or files_of(path) != files_of(self.whole)
        shutil.rmtree(path, ignore_errors=True)
        return ended_well and finished, lost


def killed(place: Place) -> tuple[bool, bool]:
    """Kill a run, and what resumes it, at moments drawn over its whole length."""
    path = place.new()
    made = multiprocessing.get_context("fork").Value("q", 0)
    fell_back = False
    for _ in range(2):
        process = child(_counted, path, place.fields, made)
        time.sleep(place.generator.uniform(0.0, place.seconds))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        if not RunFolder(path).model.exists():
            saved = RunFolder(path).checkpoints()
            kept = saved[-1][0] if saved else 0
            fell_back |= made.value - kept > place.fields["checkpoint_every"]
    survived, lost = place.verdict(path)
    return survived, lost or fell_back


def _counted(path: Path, fields: dict[str, Any], made: Any) -> None:
    """Take a run up, and tell after every iteration how many are made."""
    add = Averages.add

    def counted(self: Averages, report: Any) -> None:
        made.value = report.iteration
        add(self, report)

    Averages.add = counted  # type: ignore[method-assign]
    take_up(path, fields)


def _limited(path: Path, fields: dict[str, Any], size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    take_up(path, fields)


def full_disk(place: Place) -> tuple[bool, bool]:
    """Let no file grow beyond a size that is drawn."""
    path, largest = place.new(), max(map(len, files_of(place.whole)))
    ended = code(_limited, path, place.fields, int(place.generator.integers(1, largest)))
    return place.verdict(path, ended in (DONE, SENTENCE))


def _as_nobody(path: Path, fields: dict[str, Any]) -> None:
    if os.geteuid() == 0:  # whom nothing is forbidden
        os.seteuid(65534)
    take_up(path, fields)


def read_only(place: Place) -> tuple[bool, bool]:
    """Forbid writing into the folder."""
    path = place.begun()
    places = [path, path / "checkpoints"]
    for one in places:
        one.chmod(0o555)
    ended = code(_as_nobody, path, place.fields)
    for one in places:
        one.chmod(0o755)
    return place.verdict(path, ended == SENTENCE)


def damaged(harm: Callable[[Path, np.random.Generator], None]) -> Callable[..., tuple[bool, bool]]:
    """Return a fault that harms the newest checkpoint."""

    def inject(place: Place) -> tuple[bool, bool]:
        path = place.begun()
        harm(RunFolder(path).checkpoints()[-1][1], place.generator)
        return place.verdict(path)

    return inject


def _cut(path: Path, generator: np.random.Generator) -> None:
    os.truncate(path, int(generator.integers(0, path.stat().st_size)))


def _flip(path: Path, generator: np.random.Generator) -> None:
    content = bytearray(path.read_bytes())
    content[generator.integers(len(content))] ^= 1 << int(generator.integers(8))
    path.write_bytes(content)


def _replace(path: Path, generator: np.random.Generator) -> None:
    seed = int(generator.integers(1, 10**6))
    CrossLearner("linear-quadratic", seed=seed, max_knots=12, batch_size=2).learn(3).save(path)


def removed(place: Place) -> tuple[bool, bool]:
    """Remove the folder of a run that is under way."""
    path = place.new()
    process = child(take_up, path, place.fields)
    while process.is_alive() and not RunFolder(path).checkpoints():
        time.sleep(0.001)
    time.sleep(place.generator.uniform(0.0, 0.5 * place.seconds))
    with suppress(OSError):
        shutil.rmtree(path)
    process.join()
    return place.verdict(path, process.exitcode in (DONE, SENTENCE))


def two_writers(place: Place) -> tuple[bool, bool]:
    """Start a run twice in one folder, at once."""
    path = place.new()
    processes = [child(take_up, path, place.fields) for _ in range(2)]
    for process in processes:
        process.join()
    codes = sorted(process.exitcode for process in processes)
    return place.verdict(path, codes in ([DONE, SENTENCE], [DONE, DONE]))


def wrong(what: str) -> Callable[..., tuple[bool, bool]]:
    """Return a fault of an environment, after a thousand steps."""

    def inject(place: Place) -> tuple[bool, bool]:
        path = place.new()
        ended = code(_with_fault, what, path, place.fields)
        return place.verdict(path, ended == SENTENCE)

    return inject


def _with_fault(what: str, path: Path, fields: dict[str, Any]) -> None:
    failing_tasks.fault, failing_tasks._taken = what, 0
    take_up(path, fields)


KILLS = "two SIGKILLs, each while training, saving or resuming"
# name -> (fault, share of the asked number, whether the environments are Python's)
FAULTS: dict[str, tuple[Callable[[Place], tuple[bool, bool]], float, bool]] = {
    KILLS: (killed, 1.0, False),
    "full disk": (full_disk, 0.5, False),
    "read-only folder": (read_only, 0.1, False),
    "newest checkpoint cut short": (damaged(_cut), 0.5, False),
    "newest checkpoint with a flipped bit": (damaged(_flip), 0.5, False),
    "newest checkpoint of another run": (damaged(_replace), 0.1, False),
    "folder removed under way": (removed, 0.25, False),
    "two processes on one folder": (two_writers, 0.5, False),
    "environment raises": (wrong("raises"), 0.1, True),
    "environment returns NaN": (wrong("returns NaN"), 0.1, True),
    "environment changes shape": (wrong("changes shape"), 0.1, True),
}


class Row(NamedTuple):
    """How often a fault was injected, survived, and cost data."""

    fault: str
    injected: int
    survived: int
    lost: int


def measure(times: int, seed: int, console: Console, kills: int | None = None) -> list[Row]:
    """Inject every fault, some ``times`` times, others less often; kills as often as said."""
    generator = np.random.default_rng(seed)
    counts = {name: max(1, round(share * times)) for name, (_, share, _) in FAULTS.items()}
    counts[KILLS] = kills or times
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="faults-") as name,
        progress_bar(console, MofNCompleteColumn()) as progress,
    ):
        bar = progress.add_task("breaking runs", total=sum(counts.values()))
        Path(name).chmod(0o755)
        places = {}
        for python, fields in enumerate((COMPILED, PYTHON)):
            folder = Path(name) / str(python)
            folder.mkdir()
            train(folder / "first", make_config(fields))  # compiles
            begun = time.perf_counter()
            train(folder / "whole", make_config(fields))
            seconds = time.perf_counter() - begun
            places[bool(python)] = Place(folder, folder / "whole", fields, seconds, generator)
        for fault, (inject, _, python) in FAULTS.items():
            result = []
            for _ in range(counts[fault]):
                result.append(inject(places[python]))
                progress.advance(bar)
            survived, lost = (sum(answers) for answers in zip(*result, strict=True))
            rows.append(Row(fault, counts[fault], survived, lost))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="kills; other faults in proportion")
    parser.add_argument("--kills", type=int, help="runs that are killed; default: as --times")
    parser.add_argument("--long", action="store_true", help="the same as --times 200")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and places")
    asked = parser.parse_args()
    times = 200 if asked.long else asked.times
    if times < 1 or (asked.kills is not None and asked.kills < 1):
        parser.error(f"--times and --kills must be at least 1, got {times} and {asked.kills}")
    rows = measure(times, asked.seed, Console(stderr=True), asked.kills)
    headings = ["fault", "injected", "survived", "data lost"]
    show_table("Faults", headings, [[row.fault, *map(str, row[1:])] for row in rows])
    sys.exit(0 if all(row.survived == row.injected and not row.lost for row in rows) else 1)


if __name__ == "__main__":
    main()
