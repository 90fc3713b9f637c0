"""Reports of runs: read from their folders or measured, on one page of HTML.

The page needs nothing else: it has no script and holds all figures.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup
from matplotlib.figure import Figure
from rich.console import Console

from crosslearning import __version__
from crosslearning._base.files import write_atomically
from crosslearning._base.limits import MANY_TASKS
from crosslearning._base.ordinary_files import read_bytes
from crosslearning._base.pages import security_policy
from crosslearning._base.plain_data import read_json
from crosslearning._base.progress import progress_bar
from crosslearning._base.statistics import readable
from crosslearning.analysis.departure import Departure, departures
from crosslearning.analysis.trajectories import Trajectories, trajectories, worth_drawing
from crosslearning.certificates import certificate_page, certify, kept_certificate, save_certificate
from crosslearning.certificates.text import plain, template
from crosslearning.errors import CrossLearningError, InputError, visible
from crosslearning.figures.certificate import certificate_figure
from crosslearning.figures.departure import departure_figure
from crosslearning.figures.lags import lag_figure
from crosslearning.figures.parts import minus, read_interval
from crosslearning.figures.paths import trajectory_figure
from crosslearning.figures.run import (
    evaluation_figure,
    learning_figure,
    progress_figure,
    returns_figure,
)
from crosslearning.figures.style import figure_bytes
from crosslearning.learner import CrossLearner
from crosslearning.learner.evaluation import evaluate
from crosslearning.learner.lags import LagEvidence
from crosslearning.runs import RunConfig, RunFolder
from crosslearning.runs.metrics import aims_of
from crosslearning.runs.signature import content_signature, is_signature

#: Marks a report, so that no other file is overwritten.
PAGE_MARK = '<p class="soft">Made by crosslearning'
#: Raised when the same request gets another result.
_VERSION = 2
#: The summary of a certificate, by whether it passed.
_STATES = {
    None: "–",
    True: Markup('<span class="good">files sound</span>'),
    False: Markup('<span class="bad">a check of the files failed</span>'),
}


@dataclass(eq=False, kw_only=True)
class RunReport:
    """The content of the report of one run."""

    run: str  #: its folder
    config: RunConfig
    config_text: str  #: the content of config.toml
    finished: bool
    has_start: bool  #: whether it started from the policies of another run
    tasks: int
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
    departures: Sequence[Departure] = ()  #: from the controller, for runs around one
    lags: LagEvidence | None = None  #: if their number was chosen
    paths: tuple[Trajectories, ...] = ()  #: of the central policy; empty without maps
    left_out: dict[str, str] = field(default_factory=dict)  #: why a part is missing, by its name


Reports = Sequence[RunReport]


def gather(
    run: str | Path,
    trials: int | None = None,
    seed: int = 0,
    samples: int = 1000,
    console: Console | None = None,
    tasks: str | None = None,
    around: str | None = None,
) -> RunReport:
    """Read a run, evaluate and certify it unless that was done, and return its report.

    A run that has not finished is read at its newest checkpoint. The evaluation is stored in the
    run's folder ``report``, the certificate where ``certify`` writes it. Both are signed: files of
    other users or of other policies are made again.

    Parameters
    ----------
    run : str or Path
        The run's folder.
    trials : int, optional
        Evaluation episodes per policy and task; by default 500, or 20 for many tasks.
    seed : int
        Of their starts.
    samples : int
        Fresh gradient samples per task, if there is no certificate yet.
    console : Console, optional
        Shows progress.
    tasks, around : str, optional
        The tasks and the controller of a run that is not the user's, or was moved or edited.
    """
    folder = RunFolder.open(run, tasks, around)
    with closing(folder.load()) as learner, progress_bar(console) as shown:
        N = len(learner.tasks)
        report = RunReport(
            run=visible(run),
            config=folder.config(),
            config_text=read_bytes(folder.path / "config.toml").decode(),
            finished=folder.model.exists(),
            has_start=folder.has_start,
            tasks=N,
            iteration=learner.iteration,
            steps=learner.steps,
            knots=len(learner.family.knots),
            metrics=folder.read_metrics(),
            on_the_way=folder.read_evaluations(),
            trials=trials or (500 if N <= MANY_TASKS else 20),
            seed=seed,
            lags=learner.lag_evidence,
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
            drawn = worth_drawing(learner.tasks, report.metrics)
            report.paths = trajectories(learner.central, drawn)
        if learner.tasks[0].controller is not None:
            with part("departure", "controller", N):
                report.departures = departures(learner, min(report.trials, 100), seed)
        with part("certificate", "certifying", N + 1):
            stored = kept_certificate(folder.certificate)
            if stored is None or stored[0].get("iteration") != learner.iteration:
                made = certify(folder.path, samples=samples, seed=seed, tasks=tasks, around=around)
                save_certificate(made, folder.certificate)
                stored = made.to_plain(), certificate_page(made)
            report.certificate, report.certificate_page = stored
        shown.update(bar, completed=N + 2)
    return report


class _Stored(msgspec.Struct):
    """The stored evaluation: a request, its result, and the signature of both."""

    asked: dict[str, Any]
    tasks: list[dict[str, Any]]
    signature: str = ""

    def expected_signature(self) -> str | None:
        content = json.dumps([self.asked, self.tasks], sort_keys=True).encode()
        return content_signature("evaluation of a report", content)


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
        own, central = evaluate([learner.policy(number), learner.central], [task], **asked)
        rows.append({"task": task.name, "own": plain(own), "central": plain(central)})
        callback()
    made = _Stored(request, rows)
    made.signature = made.expected_signature() or ""
    write_atomically(path, json.dumps(msgspec.to_builtins(made), indent=1).encode())
    return rows


# ------------------------------------------------------------------------------------------- page


def report_page(reports: Reports) -> str:
    """Return the page of one run, or of several side by side."""
    if not reports:
        raise InputError("there is no run to report on; give the folder of one")
    title, progress = f"Report of {reports[0].run}", None
    if len(reports) > 1:
        title = f"{len(reports)} runs beside one another"
        lines = {one.run: one.metrics for one in reports}
        progress = _figure("Returns of all runs over steps", progress_figure, lines)
    known = {one.run: _worst(one.evaluation) for one in reports if one.evaluation}
    configs = [one.config.to_plain() for one in reports]
    names = dict.fromkeys(name for config in configs for name in config)
    fields = [[name, *(_readable(config.get(name)) for config in configs)] for name in names]
    return template("crosslearning.figures", "report.html.j2", html=True).render(
        title=title,
        mark=Markup(PAGE_MARK),
        version=__version__,
        security_policy=Markup(security_policy()),
        returns=_figure("Returns with intervals", returns_figure, known) if known else None,
        progress=progress,
        runs=[_run(one) for one in reports],
        maps=any(one.paths for one in reports),
        around=any(one.departures or "departure" in one.left_out for one in reports),
        fields=fields,
        differences=[row for row in fields if len(set(row[1:])) > 1],
        states=_STATES,
        mean=_mean,
        interval=_interval,
    )


def _mean(one: RunReport, policy: str) -> str:
    values = [read_interval(row[policy]["discounted_return"]).value for row in one.evaluation]
    mean = math.fsum(values) / max(1, len(values))
    return minus(f"{mean:{readable(mean)}}") if values else "–"


def _run(one: RunReport) -> dict[str, Any]:
    """Return a report with its tables and figures; a missing one has its reason instead."""
    missing = {name: {"left_out": reason} for name, reason in one.left_out.items()}
    settings, lines = one.config.settings, one.metrics
    rates = dict.fromkeys(name for row in one.evaluation for name in row["own"]["rates"])
    evaluation = {"shown": _worst(one.evaluation), "rates": list(rates)}
    part: dict[str, Any] = {"evaluation": evaluation, "on_the_way": None, "paths": None}
    text = "Learning curves: returns, distances to the centre g, knots"
    aims = aims_of(settings, lines)
    part["curves"] = _figure(text, learning_figure, lines, settings.epsilon, aims)
    if one.on_the_way:
        text = "Evaluations on the way, with bands of 95 %"
        part["on_the_way"] = _figure(text, evaluation_figure, one.on_the_way)
    if one.paths:
        part["paths"] = _figure("Paths from random starts", trajectory_figure, "central", one.paths)
    part["lags"] = part["departure"] = None
    if one.lags is not None:
        part["lags"] = _figure("The evidence by which the lags were chosen", lag_figure, one.lags)
    if one.departures:
        text = "Returns, changes of the actions and limits crossed, beside the controller"
        part["departure"] = _figure(text, departure_figure, one.departures)
    if one.certificate is not None:
        text = "Distances, multipliers, pruning and stationarity gaps"
        part["certificate"] = _figure(text, certificate_figure, one.certificate, lines)
    again = shlex.quote(f"{Path(one.run).name}-again")
    shown = {"report": one, "again": again, "verdicts": _verdicts(one.certificate_page)}
    return {**shown, **part, **missing}


def _interval(given: Mapping[str, Any] | None, percent: bool = False) -> str:
    """Return an interval of JSON; a dash where it is unknown."""
    interval = read_interval(given or {"value": None})
    text = interval.percent() if percent else str(interval)
    return "–" if math.isnan(interval.value) else minus(text)


def _worst(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the evaluations to show: of many tasks the worst."""
    if len(rows) <= MANY_TASKS:
        return rows
    order = sorted(rows, key=lambda row: read_interval(row["own"]["discounted_return"]).value)
    return order[:MANY_TASKS]


def _verdicts(page: str) -> list[str]:
    """Return the verdicts of a certificate's page, each on one line."""
    part = next((part for part in page.split("\n\n") if part.startswith("Verdict\n")), "")
    return [" ".join(text.split()) for text in part.split("\n- ")[1:]]


def _readable(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_readable, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _figure(text: str, draw: Callable[..., Figure], *data: Any) -> dict[str, str]:
    """Return a figure's description and content, or the reason why there is none."""
    try:
        content = figure_bytes(draw(*data), "svg")
    except InputError as reason:
        return {"left_out": str(reason)}
    return {"text": text, "source": f"data:image/svg+xml;base64,{b64encode(content).decode()}"}
