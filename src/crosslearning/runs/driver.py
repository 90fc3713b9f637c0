"""Training and resuming of runs: learns, logs, saves, and stops cleanly at a signal."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
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
from crosslearning.learner.callbacks import EvaluationCallback
from crosslearning.learner.internals import kept_line, worker_events
from crosslearning.learner.user_input import Length
from crosslearning.rkhs import Family
from crosslearning.runs.config import LOGGED, RunConfig
from crosslearning.runs.folder import RunFolder
from crosslearning.runs.lock import folder_lock
from crosslearning.runs.metrics import Averages, EvaluationLine, MetricsLog, summary_writer
from crosslearning.tasks.sources import check_code

#: Why a method suits the tasks, where none was named.
_WHY = {
    "policy-gradient": "as in the paper, for tasks that state the kernel that suits them",
    "trust-region": "for tasks that can be run for many steps",
    "models": "for so few steps",
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    learner: CrossLearner
    finished: bool  #: False if it was interrupted, and can be resumed
    reason: str  #: a sentence for people


def train(
    path: str | Path,
    config: RunConfig,
    console: Console | None = None,
    start: Family | None = None,
    related: CrossLearner | None = None,
    learner: CrossLearner | None = None,
) -> Outcome:
    """Train a run in a new folder.

    Parameters
    ----------
    path : str or Path
        The folder, which must not hold a run yet.
    config : RunConfig
    console : Console, optional
        Shows progress.
    start : Family, optional
        Initial policies, as for :class:`CrossLearner`; saved as the checkpoint of iteration 0.
    related : CrossLearner, optional
        A learner of related tasks, whose data this run uses; saved likewise.
    learner : CrossLearner, optional
        The learner of the run, which may hold logged data; saved likewise. By default it is
        made from the configuration.
    """
    console = console or Console(quiet=True)
    RunFolder(path).require_free()
    if config.tensorboard:
        summary_writer()  # a missing extra is reported before the folder is made
    begun = start is not None or related is not None or learner is not None
    learner = learner or config.learner(start=start)
    if config.left_open is not None:
        method = learner.settings.method
        config = config.chosen(method)
        choice = f"Method: {method}, {_WHY[method]}. Another: --method."
        console.print(choice, highlight=False, soft_wrap=True)
    if related is not None:
        learner.method.use_data_of(related.method)
    with folder_lock(Path(path)) as mine:
        folder = RunFolder.create(path, config, learner, has_start=begun)
        return _drive(folder, config, learner, console, mine)


def resume(
    path: str | Path,
    workers: int | None = None,
    console: Console | None = None,
    tasks: str | None = None,
    iterations: int | None = None,
    steps: int | None = None,
    on: str = "auto",
    step_seconds: float | None = None,
    around: str | None = None,
) -> Outcome:
    """Resume a run from its last checkpoint, bit for bit as if it had never stopped.

    Parameters
    ----------
    path : str or Path
        The run's folder.
    workers, on, step_seconds
        How rollouts are run, as for :class:`RunConfig`.
    console : Console, optional
        Shows progress.
    tasks : str, optional
        The tasks of a run of someone else, that was copied, moved or edited, or with other code:
        the run is then signed as the user's.
    iterations, steps : int, optional
        A new length, in one unit or the other; it can extend a finished run.
    around : str, optional
        The controller of such a run, as for :class:`RunConfig`.
    """
    how: dict[str, Any] = {"workers": workers, "on": on, "step_seconds": step_seconds}
    console = console or Console(quiet=True)
    folder, longer = RunFolder.open(path, tasks, around), None
    command = folder.resume_command
    if iterations is not None or steps is not None:
        longer = Length.of(iterations, steps, least=1)
    elif tasks is None and around is None and folder.model.exists():
        return _finished(folder, folder.load(fitting=True, **how))
    # A run that cannot be resumed is refused before anything is locked or changed.
    source = None
    if folder.config().tasks != LOGGED:
        source = folder.source()
        check_code(source)
    with folder_lock(folder.path) as mine:
        folder.tidy()
        config = msgspec.structs.replace(folder.config(), **how)
        saved = folder.load_newest(fitting=True, **how)
        if saved is not None and longer is None and folder.model.exists():
            folder.adopt()
            return _finished(folder, saved)
        if saved is None and folder.has_start:
            gone = f"{folder.path} did not start from zero, and the checkpoint of its start is gone"
            raise FileFormatError(f"{gone}; delete the folder and start the run again")
        if saved is None and folder.read_metrics():
            console.print("There is no checkpoint: the run begins anew.")
        learner = config.learner(tasks=source) if saved is None else saved
        if longer is not None:
            (unit, before), config = config.length, folder.extend(longer, saved)
            if longer.unit == unit and longer.amount < before:
                text = f"The run was to have {before} {unit}; it now ends at {longer.amount}."
                console.print(text, highlight=False)
        elif config.length.unit == "iterations" and learner.iteration > config.length.amount:
            raise InputError(
                f"config.toml asks for {config.iterations} iterations, and {path} has made "
                f"{learner.iteration} already; more: {command} --iterations {learner.iteration + 1}"
            )
        folder.adopt()
        return _drive(folder, msgspec.structs.replace(config, **how), learner, console, mine)


def _finished(folder: RunFolder, learner: CrossLearner) -> Outcome:
    """Return the outcome of a run that finished earlier."""
    config, command = folder.config(), folder.resume_command
    reason = f"The run had finished at iteration {learner.iteration}."
    unit, amount = config.length
    if getattr(config.settings, "alpha", None) is None and not config.length.reached(learner):
        reason += f" config.toml asks for {amount} {unit}; go on with: {command} --{unit} {amount}"
    return Outcome(learner, True, reason)


class _EvaluationLog(MetricsLog):
    """The log of evaluations of the task policies, which keeps the best of them.

    A resumed run drops the lines that it will evaluate again. The best policies in its folder may
    come from an iteration after its checkpoint: it reaches the same ones again.
    """

    def __init__(self, folder: RunFolder, config: RunConfig, learner: CrossLearner) -> None:
        super().__init__(folder.evaluations, learner.iteration, form=EvaluationLine)
        self._callback = EvaluationCallback(
            learner,
            config.evaluate_every,
            trials=config.evaluation_trials,
            workers=config.workers or 1,
            path=folder.best,
        )
        known = [line["mean_return"] for line in folder.read_evaluations()]
        self._callback.best_return = max((r for r in known if r is not None), default=-math.inf)

    def evaluate(self, metrics: MetricsLog) -> None:
        point = self._callback.evaluate()
        self.write(point.to_plain())
        self.flush()  # before a checkpoint after which it would not be repeated
        for one in point.results:
            tags = {f"evaluation/{one.task}": one.discounted_return.value}
            tags |= {f"evaluation_{k}/{one.task}": rate.value for k, rate in one.rates.items()}
            metrics.add_scalars(tags, point.iteration)


def _drive(
    folder: RunFolder,
    config: RunConfig,
    learner: CrossLearner,
    console: Console,
    mine: Callable[[], bool],
) -> Outcome:
    """Train a run to its end, or until it is interrupted; ``mine``: whether its lock is there."""
    folder.note_system()
    averages = Averages([task.name for task in learner.tasks])
    length, begun, essentials = config.length, learner.iteration, folder.essentials()
    command = folder.resume_command
    stopped: IterationReport | None = None
    lost = False

    def notice() -> None:
        if learner.iteration == begun:
            compiled = "which takes longer if it has to be compiled"
            console.print(f"Stopping after the first iteration, {compiled}. Again: at once.")

    def after(report: IterationReport) -> bool:
        nonlocal stopped, lost
        averages.add(report)
        if report.iteration == 1 and (evidence := learner.lag_evidence) is not None:
            console.print(str(evidence), highlight=False, soft_wrap=True)
            chosen = {"lags": evidence.chosen, "evidence": evidence.evidence}
            write_atomically(folder.lags, json.dumps(chosen).encode())
        for line in worker_events(learner):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        stopped = report if report.stop else None
        last = length.reached(learner) or report.stop
        checkpoint = report.iteration % config.checkpoint_every == 0 and not last
        # A line at every checkpoint too, so that no line averages over a resume.
        if written := report.iteration % config.log_every == 0 or checkpoint or last:
            log.write(averages.line(learner.steps))
        if config.snapshot_every and report.iteration % config.snapshot_every == 0:
            folder.save_snapshot(learner)
        if evaluations and (last or report.iteration % config.evaluate_every == 0):
            evaluations.evaluate(log)
        if checkpoint:
            log.flush()
            folder.save_checkpoint(learner)
        lost = written and (log.lost or not all(path.exists() for path in essentials))
        return lost or interrupted.is_set()

    with ExitStack() as stack:
        interrupted = stack.enter_context(deferred((signal.SIGINT, signal.SIGTERM), notice))
        stack.callback(learner.close)
        events = folder.path / "tensorboard" if config.tensorboard else None
        log = stack.enter_context(closing(MetricsLog(folder.metrics, begun, events)))
        logs, evaluations = [log], None
        if config.evaluate_every:
            evaluations = stack.enter_context(closing(_EvaluationLog(folder, config, learner)))
            logs.append(evaluations)
        try:
            learner.learn(callback=after, progress=console, **length.left(learner))
        except (TaskError, NumericalError) as problem:
            log.flush()
            # Between two lines of metrics the next line would average over fewer iterations.
            if not averages.pending and 0 < learner.iteration == averages.last:
                folder.save_checkpoint(learner)
            kept = folder.checkpoints()
            state = f"Iteration {kept[-1][0]} is kept" if kept else "No iteration is kept yet"
            raise type(problem)(f"{problem}. {state}; go on with: {command}") from problem
        if averages.pending:
            log.write(averages.line(learner.steps))
        if lost:
            # Unless another process has started a run in a folder of this name meanwhile.
            with nullcontext() if mine() else folder_lock(folder.path):
                for one in logs:
                    one.restore()
                for path, content in essentials.items():
                    write_atomically(path, content)
                folder.note_system()
                folder.save_checkpoint(learner)
        log.flush()
    iteration = learner.iteration
    if lost:
        raise StorageError(
            f"files of {folder.path} were removed while the run went on. What it knew was written "
            f"again, and iteration {iteration} saved; go on with: {command}"
        )
    if stopped is None and not length.reached(learner):
        folder.save_checkpoint(learner)
        reason = f"Interrupted and saved at iteration {iteration}. Go on with: {command}"
        return Outcome(learner, False, reason)
    folder.save_model(learner)
    if stopped is not None:
        reason = f"Stopped at iteration {iteration}: {learner.method.why(stopped)}"
    else:
        steps = f", {learner.steps} environment steps" if length.unit == "steps" else ""
        reason = f"Finished {iteration} iterations{steps}."
    return Outcome(learner, True, f"{reason} {kept_line(learner)}".rstrip())
