"""The content of a report: read from a run's folder, or measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from crosslearning._base.files import write_atomically
from crosslearning._base.limits import MANY_TASKS
from crosslearning._base.ordinary_files import read_bytes
from crosslearning._base.plain_data import read_json
from crosslearning._base.progress import progress_bar
from crosslearning.analysis.trajectories import Trajectories, trajectories, worth_drawing
from crosslearning.certificates import certificate_page, certify, kept_certificate, save_certificate
from crosslearning.certificates.text import plain
from crosslearning.errors import CrossLearningError, visible
from crosslearning.learner import CrossLearner
from crosslearning.learner.evaluation import evaluate
from crosslearning.runs import RunConfig, RunFolder
from crosslearning.runs.signature import content_signature, is_signature

#: Raised when the same request gets another result.
_VERSION = 2
_PURPOSE = "evaluation of a report"


@dataclass(eq=False, kw_only=True)
class RunReport:
    """The content of the report of one run."""

    run: str  #: its folder
    config: RunConfig
    config_text: str  #: the content of config.toml
    finished: bool
    has_start: bool  #: whether it started from the policies of another run
    tasks: tuple[str, ...]
    iteration: int
    steps: int
    knots: int
    metrics: Sequence[dict[str, Any]]
    on_the_way: Sequence[dict[str, Any]]  #: evaluations during the run
    trials: int  #: evaluation episodes per policy and task
    seed: int  #: of their starts
    #: Per task the results of its own and the central policy.
    evaluation: Sequence[dict[str, Any]] = ()
    certificate: dict[str, Any] | None = None  #: as in its JSON
    certificate_page: str = ""
    paths: tuple[Trajectories, ...] = ()  #: of the central policy; empty without maps
    left_out: dict[str, str] = field(default_factory=dict)  #: why a part is missing, by its name


def gather(
    run: str | Path,
    trials: int | None = None,
    seed: int = 0,
    samples: int = 1000,
    console: Console | None = None,
) -> RunReport:
    """Read a run, evaluate and certify it unless that was done, and return its report.

    The evaluation is stored in the run's folder ``report``, the certificate where ``certify``
    writes it. Both are signed: files of other users or of other policies are made again.

    Parameters
    ----------
    run : str or Path
        The run's folder; a run that has not finished is read at its newest checkpoint.
    trials : int, optional
        Evaluation episodes per policy and task; by default 500, or 20 for many tasks.
    seed : int
        Of their starts.
    samples : int
        Fresh gradient samples per task, if there is no certificate yet.
    console : Console, optional
        Shows progress.
    """
    folder = RunFolder.open(run)
    with closing(folder.load()) as learner, progress_bar(console) as shown:
        N = len(learner.tasks)
        report = RunReport(
            run=visible(run),
            config=folder.config(),
            config_text=read_bytes(folder.path / "config.toml").decode(),
            finished=folder.model.exists(),
            has_start=folder.has_start,
            tasks=tuple(task.name for task in learner.tasks),
            iteration=learner.iteration,
            steps=learner.steps,
            knots=len(learner.family.knots),
            metrics=folder.read_metrics(),
            on_the_way=folder.read_evaluations(),
            trials=trials or (500 if N <= MANY_TASKS else 20),
            seed=seed,
        )
        bar = shown.add_task("evaluating", total=N + 2)

        @contextmanager
        def part(name: str, description: str, completed: int) -> Iterator[None]:
            shown.update(bar, description=description, completed=completed)
            try:
                yield
            except CrossLearningError as problem:
                report.left_out[name] = str(problem)

        with part("evaluation", "evaluating", 0):
            report.evaluation = _evaluation(folder, learner, report, lambda: shown.advance(bar))
        with part("paths", "paths", N):
            tasks = worth_drawing(learner.tasks, report.metrics)
            report.paths = trajectories(learner.central, tasks)
        with part("certificate", "certifying", N + 1):
            made = _certificate(folder, learner.iteration, samples, seed)
            report.certificate, report.certificate_page = made
        shown.update(bar, completed=N + 2)
    return report


class _Stored(msgspec.Struct):
    """The stored evaluation: a request, its result, and the signature of both."""

    asked: dict[str, Any]
    tasks: list[dict[str, Any]]
    signature: str = ""

    def expected_signature(self) -> str | None:
        content = json.dumps([self.asked, self.tasks], sort_keys=True).encode()
        return content_signature(_PURPOSE, content)


def _evaluation(
    folder: RunFolder, learner: CrossLearner, report: RunReport, callback: Callable[[], object]
) -> list[dict[str, Any]]:
    """Return the evaluation of these policies, from the folder if this user has signed it."""
    file = folder.model if folder.model.exists() else folder.checkpoints()[-1][1]
    digest = hashlib.sha256(read_bytes(file)).hexdigest()
    asked = {"trials": report.trials, "seed": report.seed}
    request = {"version": _VERSION, **asked, "learner": digest}
    path = folder.path / "report" / "evaluation.json"
    with suppress(FileNotFoundError, CrossLearningError):
        stored = read_json(path, _Stored)
        signed = is_signature(stored.signature, stored.expected_signature())
        if stored.asked == request and signed:
            return stored.tasks
    rows = []
    for number, task in enumerate(learner.tasks):
        policies = [learner.policy(number), learner.central]
        own, central = evaluate(policies, [task], **asked)
        rows.append({"task": task.name, "own": plain(own), "central": plain(central)})
        callback()
    made = _Stored(request, rows)
    made.signature = made.expected_signature() or ""
    write_atomically(path, json.dumps(msgspec.to_builtins(made), indent=1).encode())
    return rows


def _certificate(
    folder: RunFolder, iteration: int, samples: int, seed: int
) -> tuple[dict[str, Any], str]:
    """Return the certificate of these policies, from the folder if this user has signed it."""
    stored = kept_certificate(folder.certificate)
    if stored is not None and stored[0].get("iteration") == iteration:
        return stored
    made = certify(folder.path, samples=samples, seed=seed)
    save_certificate(made, folder.certificate)
    return made.to_plain(), certificate_page(made)
