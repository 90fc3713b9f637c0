"""The conductor of a run: learns, logs, saves, and stops cleanly when asked to."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from crosslearning._base.files import write_atomically
from crosslearning._base.interrupts import deferred
from crosslearning.errors import (
    FileFormatError,
    InputError,
    NumericalError,
    StorageError,
    TaskError,
)
from crosslearning.learner import CrossLearner, IterationReport
from crosslearning.learner.internals import worker_events
from crosslearning.learner.length import Length
from crosslearning.rkhs import Family
from crosslearning.runs.config import RunConfig
from crosslearning.runs.evaluations import Evaluations
from crosslearning.runs.folder import RunFolder
from crosslearning.runs.lock import folder_lock
from crosslearning.runs.metrics import Averages, MetricsLog, summary_writer
from crosslearning.tasks.sources import TaskSource, check_code, load_tasks, read_source


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    learner : CrossLearner
    finished : bool
        False if it was interrupted, and can be resumed.
    reason : str
        A sentence for people.
    """

    learner: CrossLearner
    finished: bool
    reason: str


def train(
    path: str | Path,
    config: RunConfig,
    console: Console | None = None,
    start: Family | None = None,
    related: CrossLearner | None = None,
) -> Outcome:
    """Start a run in a new folder and take it to its end.

    Parameters
    ----------
    path : str or Path
        The folder, which must not hold a run yet.
    config : RunConfig
    console : Console, optional
        Shows progress.
    start : Family, optional
        Where the policies start, as for :class:`CrossLearner`. It is kept as the checkpoint of
        iteration 0, so that the run can be resumed from its files alone.
    related : CrossLearner, optional
        A learner of related tasks, whose knowledge of them this run begins with; it is kept in
        the same place.
    """
    RunFolder(path).require_free()
    RunFolder(path).guard()
    if config.tensorboard:
        summary_writer()  # what is missing is said before a folder is begun
    learner = config.learner(start=start)
    config = config.chosen(learner.settings.method)
    if related is not None:
        learner.method.use_data_of(related.method)
    begun = start is not None or related is not None
    with folder_lock(Path(path)) as mine:
        folder = RunFolder.create(path, config, learner, has_start=begun)
        return _drive(folder, config, learner, console or Console(quiet=True), mine)


def resume(
    path: str | Path,
    workers: int | None = None,
    console: Console | None = None,
    tasks: str | None = None,
    iterations: int | None = None,
    steps: int | None = None,
    on: str | None = None,
    step_seconds: float | None = None,
) -> Outcome:
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped.

    Parameters
    ----------
    path : str or Path
        The run's folder.
    workers : int, optional
        Threads or processes for the rollouts, however many the run began with.
    console : Console, optional
        Shows progress.
    tasks : str, optional
        The tasks of a run that someone else trained, that was copied, moved or edited, or whose
        code has changed.
    iterations, steps : int, optional
        A new length, in one or the other, which makes a finished run go on.
    on : str, optional
        Where rollouts run, wherever the run began; by default ``"auto"``.
    step_seconds : float, optional
        How long a step may take.
    """
    how = {"workers": workers, "on": on or "auto", "step_seconds": step_seconds}
    console = console or Console(quiet=True)
    folder = RunFolder.open(path)
    longer = iterations is not None or steps is not None
    if not longer and tasks is None and folder.model.exists():
        return _finished(folder, how, None)
    # What cannot go on is told before anything is locked or changed.
    source = read_source(tasks) if tasks else folder.source()
    check_code(source)
    with folder_lock(folder.path) as mine:
        folder.tidy()
        if longer:
            _lengthen(folder, Length.of(iterations, steps, least=1), console, tasks or source)
        elif folder.model.exists():
            outcome = _finished(folder, how, tasks or source)
            folder.adopt(source)
            return outcome
        config = msgspec.structs.replace(folder.config(), **how)
        learner = folder.load_newest(how, tasks or source, fitting=True)
        if learner is None:
            if folder.has_start:
                raise FileFormatError(
                    f"{path} did not start from zero, and the checkpoint of its start is gone; "
                    "delete the folder and start the run again"
                )
            if folder.read_metrics():
                console.print("There is no checkpoint: the run begins anew.")
            learner = config.learner(tasks=source)
        length = config.length
        if length.unit == "iterations" and learner.iteration > length.amount:
            raise InputError(
                f"config.toml asks for {length.amount} iterations, and {path} has made "
                f"{learner.iteration} already; ask for more: {folder.resume_command} --iterations "
                f"{learner.iteration + 1}"
            )
        folder.adopt(source)
        return _drive(folder, config, learner, console, mine)


def _finished(folder: RunFolder, how: Mapping[str, Any], tasks: str | TaskSource | None) -> Outcome:
    """Return a run that has come to its end before."""
    config = folder.config()
    learner = folder.load(tasks=tasks, **how)
    folder.require_fit(learner, folder.model)
    reason, length = f"The run had finished at iteration {learner.iteration}.", config.length
    if getattr(config.settings, "alpha", None) is None and not length.reached(learner):
        reason += (
            f" config.toml asks for {length.amount} {length.unit}; go on with: "
            f"{folder.resume_command} --{length.unit} {length.amount}"
        )
    return Outcome(learner, True, reason)


def _kept(folder: RunFolder, learner: CrossLearner, averages: Averages) -> str:
    """Save a run whose next iteration failed, and say which is kept and how to go on."""
    kept = folder.checkpoints()
    # Between two lines of metrics the next one would average over fewer iterations.
    if not averages.pending and learner.iteration > 0 and averages.last == learner.iteration:
        folder.save_checkpoint(learner)
        kept = folder.checkpoints()
    said = f"Iteration {kept[-1][0]} is kept" if kept else "No iteration is kept yet"
    return f"{said}; go on with: {folder.resume_command}"


def _lengthen(folder: RunFolder, length: Length, console: Console, tasks: str | TaskSource) -> None:
    """Give a run another length, or say why it cannot have that."""
    before, options = folder.config().length, folder.config().task_options
    if isinstance(tasks, TaskSource):
        # What cannot go on is told before the folder is changed.
        load_tasks(tasks, options)
    folder.extend(length, tasks)
    if length.unit == before.unit and length.amount < before.amount:
        console.print(
            f"The run was to have {before.amount} {length.unit}; it now ends at {length.amount}.",
            highlight=False,
        )


def _drive(
    folder: RunFolder,
    config: RunConfig,
    learner: CrossLearner,
    console: Console,
    mine: Callable[[], bool],
) -> Outcome:
    folder.note_system()
    events = folder.path / "tensorboard" if config.tensorboard else None
    log = MetricsLog(folder.metrics, learner.iteration, events)
    averages = Averages([task.name for task in learner.tasks])
    watching: Any = nullcontext()
    if config.evaluate_every:
        watching = closing(Evaluations(folder, config, learner, log))
    length = config.length
    stopped: IterationReport | None = None
    begun = learner.iteration
    essentials = folder.essentials()
    lost = False

    def notice() -> None:
        if learner.iteration == begun:
            console.print(
                "Stopping after the first iteration, which takes longer if it has to be compiled. "
                "Again: at once."
            )

    stopping = deferred((signal.SIGINT, signal.SIGTERM), notice)
    with watching as evaluations, stopping as interrupted:

        def after(report: IterationReport) -> bool:
            nonlocal stopped, lost
            averages.add(report)
            for line in worker_events(learner):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
            stopped = report if report.stop else None
            last = length.reached(learner) or report.stop
            checkpoint = report.iteration % config.checkpoint_every == 0 and not last
            # A line at every checkpoint too, so that none averages over a resume.
            if told := report.iteration % config.log_every == 0 or checkpoint or last:
                log.write(averages.line(learner.steps))
            if config.snapshot_every and report.iteration % config.snapshot_every == 0:
                folder.save_snapshot(learner)
            if config.evaluate_every and (last or report.iteration % config.evaluate_every == 0):
                evaluations.look()
            if checkpoint:
                log.flush()
                folder.save_checkpoint(learner)
            lost = told and (log.lost or not all(path.exists() for path in essentials))
            return lost or interrupted.is_set()

        try:
            try:
                learner.learn(callback=after, progress=console, **length.left(learner))
            except (TaskError, NumericalError) as problem:
                log.flush()
                raise type(problem)(f"{problem}. {_kept(folder, learner, averages)}") from problem
            if averages.pending:
                log.write(averages.line(learner.steps))
            if lost:
                # Unless somebody else has begun a run in a folder of this name meanwhile.
                with nullcontext() if mine() else folder_lock(folder.path):
                    for file in (log, evaluations) if config.evaluate_every else (log,):
                        file.restore()
                    for path, content in essentials.items():
                        write_atomically(path, content)
                    folder.note_system()
                    folder.save_checkpoint(learner)
            log.flush()
        finally:
            try:
                log.close()
            finally:
                learner.close()

    if lost:
        raise StorageError(
            f"files of {folder.path} were removed while the run went on. What it knew was written "
            f"again, and iteration {learner.iteration} saved; go on with: {folder.resume_command}"
        )
    finished = length.reached(learner) or stopped is not None
    if not finished:
        folder.save_checkpoint(learner)
        return Outcome(
            learner,
            False,
            f"Interrupted and saved at iteration {learner.iteration}. Go on with: "
            f"{folder.resume_command}",
        )
    folder.save_model(learner)
    reason = f"Finished {learner.iteration} iterations."
    if length.unit == "steps":
        reason = f"Finished {learner.iteration} iterations, {learner.steps} environment steps."
    if stopped is not None:
        reason = f"Stopped at iteration {stopped.iteration}: {learner.method.why(stopped)}"
    return Outcome(learner, True, reason)
