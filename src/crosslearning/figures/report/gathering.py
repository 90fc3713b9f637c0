"""What a report tells of a run: what its folder holds, and what is measured if it does not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from crosslearning._base.files import write_atomically
from crosslearning._base.ordinary_files import read_bytes
from crosslearning._base.plain_data import read_json
from crosslearning._base.progress import progress_bar
from crosslearning.analysis.trajectories import Trajectories, trajectories, worth_drawing
from crosslearning.certificates import (
    certificate_page,
    certify,
    kept_certificate,
    save_certificate,
)
from crosslearning.certificates.text import plain
from crosslearning.errors import CrossLearningError, visible
from crosslearning.learner import CrossLearner
from crosslearning.learner.evaluation import evaluate
from crosslearning.runs import RunConfig, RunFolder
from crosslearning.runs.signature import content_signature, is_signature

#: Raised when the same question comes to be answered otherwise.
_VERSION = 2
_PURPOSE = "evaluation of a report"
#: Tasks up to which each is evaluated as if it were alone.
_FEW_TASKS = 24


@dataclass(frozen=True, eq=False, kw_only=True)
class RunReport:
    """Everything that the page says of one run.

    Attributes
    ----------
    run : str
        Its folder.
    config : RunConfig
    config_text : str
        The file of it.
    finished, has_start : bool
        Whether it came to its end, and whether it started from the policies of another run.
    tasks : tuple of str
    iteration, steps, knots : int
    metrics, on_the_way : sequence of dict
        Lines of metrics, and evaluations on the way.
    trials, seed : int
        Episodes of the evaluation, a policy and a task, and the seed of their starts.
    evaluation : sequence of dict
        For every task what its own and the central policy achieve, as JSON holds it.
    certificate : dict or None
        As JSON holds it.
    certificate_page : str
    paths : tuple of Trajectories
        Of the central policy; empty if the tasks have no maps.
    left_out : dict of str to str
        Why a part is not there, by its name.
    """

    run: str
    config: RunConfig
    config_text: str
    finished: bool
    has_start: bool
    tasks: tuple[str, ...]
    iteration: int
    steps: int
    knots: int
    metrics: Sequence[dict[str, Any]]
    on_the_way: Sequence[dict[str, Any]]
    trials: int
    seed: int
    evaluation: Sequence[dict[str, Any]]
    certificate: dict[str, Any] | None
    certificate_page: str
    paths: tuple[Trajectories, ...]
    left_out: dict[str, str]


def gather(
    run: str | Path,
    trials: int | None = None,
    seed: int = 0,
    samples: int = 1000,
    console: Console | None = None,
) -> RunReport:
    """Read a run, evaluate and certify it unless that was done, and return what is known.

    The evaluation is kept in the run's folder ``report``, the certificate where ``certify``
    writes it. Both are signed: what somebody else left there, or left of other files, is made
    again and never repeated.

    Parameters
    ----------
    run : str or Path
        The run's folder; one that has not finished is taken at its newest checkpoint.
    trials : int, optional
        Of the evaluation: episodes a policy and a task; by default 500, or 20 of many tasks.
    seed : int
        Of their starts.
    samples : int
        Fresh gradient samples a task, if there is no certificate yet.
    console : Console, optional
        Shows progress.
    """
    folder = RunFolder.open(run)
    left_out: dict[str, str] = {}
    evaluation: Sequence[dict[str, Any]] = ()
    paths: tuple[Trajectories, ...] = ()
    certificate, page = None, ""
    with closing(folder.load()) as learner, progress_bar(console) as shown:
        bar = shown.add_task("evaluating", total=len(learner.tasks) + 2)
        trials = trials or (500 if len(learner.tasks) <= _FEW_TASKS else 20)
        try:
            evaluation = _evaluation(folder, learner, trials, seed, lambda: shown.advance(bar))
        except CrossLearningError as problem:
            left_out["evaluation"] = str(problem)
        shown.update(bar, description="paths", completed=len(learner.tasks))
        try:
            paths = trajectories(
                learner.central, worth_drawing(learner.tasks, folder.read_metrics())
            )
        except CrossLearningError as problem:
            left_out["paths"] = str(problem)
        shown.update(bar, description="certifying", completed=len(learner.tasks) + 1)
        try:
            certificate, page = _certificate(folder, learner.iteration, samples, seed)
        except CrossLearningError as problem:
            left_out["certificate"] = str(problem)
        shown.update(bar, completed=len(learner.tasks) + 2)
        return RunReport(
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
            trials=trials,
            seed=seed,
            evaluation=evaluation,
            certificate=certificate,
            certificate_page=page,
            paths=paths,
            left_out=left_out,
        )


class _Kept(msgspec.Struct):
    """What the folder keeps of a report: a question, its answer, and who signed both."""

    asked: dict[str, Any]
    tasks: list[dict[str, Any]]
    signature: str

    def signed(self) -> bytes:
        """Return what the signature is of."""
        return json.dumps([self.asked, self.tasks], sort_keys=True).encode()


def _evaluation(
    folder: RunFolder, learner: CrossLearner, trials: int, seed: int, look: Callable[[], object]
) -> list[dict[str, Any]]:
    """Return what the policies achieve, measured once for these policies.

    What stands in the folder without a signature of this user's is measured again.
    """
    file = folder.model if folder.model.exists() else folder.checkpoints()[-1][1]
    digest = hashlib.sha256(read_bytes(file)).hexdigest()
    asked = {"version": _VERSION, "trials": trials, "seed": seed, "learner": digest}
    place = folder.path / "report" / "evaluation.json"
    with suppress(FileNotFoundError, CrossLearningError):
        kept = read_json(place, _Kept)
        if kept.asked == asked and is_signature(
            kept.signature, content_signature(_PURPOSE, kept.signed())
        ):
            return kept.tasks
    made = _Kept(asked, _measured(learner, trials, seed, look), "")
    made.signature = content_signature(_PURPOSE, made.signed()) or ""
    write_atomically(place, json.dumps(msgspec.to_builtins(made), indent=1).encode())
    return made.tasks


def _measured(
    learner: CrossLearner, trials: int, seed: int, look: Callable[[], object]
) -> list[dict[str, Any]]:
    rows = []
    for number, task in enumerate(learner.tasks):
        policies = [learner.policy(number), learner.central]
        own, central = evaluate(policies, [task], trials=trials, seed=seed)
        rows.append({"task": task.name, "own": plain(own), "central": plain(central)})
        look()
    return rows


def _certificate(
    folder: RunFolder, iteration: int, samples: int, seed: int
) -> tuple[dict[str, Any], str]:
    """Return the certificate of these policies, made now unless this user's is of these files."""
    kept = kept_certificate(folder.certificate)
    if kept is not None and kept[0].get("iteration") == iteration:
        return kept
    made = certify(folder.path, samples=samples, seed=seed)
    save_certificate(made, folder.certificate)
    return made.to_plain(), certificate_page(made)
