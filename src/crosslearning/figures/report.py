"""Reports of runs: read from their folders or measured, on one page of HTML.

The page needs nothing else: it has no script and holds all figures.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
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
from crosslearning.analysis.trajectories import Trajectories, trajectories, worth_drawing
from crosslearning.certificates import certificate_page, certify, kept_certificate, save_certificate
from crosslearning.certificates.text import plain
from crosslearning.errors import CrossLearningError, InputError, visible
from crosslearning.figures.certificate import certificate_figure
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
    True: '<span class="good">files sound</span>',
    False: '<span class="bad">a check of the files failed</span>',
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
    paths: tuple[Trajectories, ...] = ()  #: of the central policy; empty without maps
    left_out: dict[str, str] = field(default_factory=dict)  #: why a part is missing, by its name


Reports = Sequence[RunReport]


def gather(
    run: str | Path,
    trials: int | None = None,
    seed: int = 0,
    samples: int = 1000,
    console: Console | None = None,
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
            tasks=N,
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
            stored = kept_certificate(folder.certificate)
            if stored is None or stored[0].get("iteration") != learner.iteration:
                made = certify(folder.path, samples=samples, seed=seed)
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
    title = f"Report of {reports[0].run}"
    if len(reports) > 1:
        title = f"{len(reports)} runs beside one another"
    known = {one.run: _worst(one.evaluation) for one in reports if one.evaluation}
    lines = {one.run: one.metrics for one in reports}
    returns = _figure("Returns with intervals", returns_figure, known) if known else ""
    progress = "Returns of all runs over steps"
    together = _figure(progress, progress_figure, lines) if len(reports) > 1 else ""
    sections = {
        "Summary": _summary(reports),
        "Evaluation": returns + _each(reports, _returns),
        "Learning": together + _each(reports, _curves),
        "Paths": _each(reports, _paths) if any(one.paths for one in reports) else "",
        "Certificate": _each(reports, _verdict),
        "Configuration": _configuration(reports),
        "How to repeat it": _each(reports, _commands),
    }
    links, bodies = "", ""
    for name, body in sections.items():
        if body:
            anchor = name.lower().replace(" ", "-")
            links += f'<a href="#{anchor}">{name}</a>'
            bodies += f'<section id="{anchor}"><h2>{name}</h2>{body}</section>'
    style = files("crosslearning.figures").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{security_policy()}<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>"
        f"{PAGE_MARK} {escape(__version__)}. Intervals are of 95 %.</p>"
        f"<nav>{links}</nav>{bodies}</main></body></html>\n"
    )


def _each(reports: Reports, body: Callable[[RunReport], str]) -> str:
    """Return a part for every run, under its name if there are several."""
    if len(reports) == 1:
        return body(reports[0])
    return "".join(f"<h3>{escape(one.run)}</h3>{body(one)}" for one in reports)


def _summary(reports: Reports) -> str:
    columns = [
        {
            "": escape(one.run),
            "state": "finished" if one.finished else "not finished: its newest checkpoint",
            "method": escape(one.config.settings.method),
            "tasks": escape(f"{one.config.tasks} ({one.tasks})"),
            "ε": f"{one.config.settings.epsilon:g}".replace("inf", "∞"),
            "iterations": f"{one.iteration:,}",
            "environment steps": f"{one.steps:,}",
            "knots": f"{one.knots:,}",
            "return, own policies": _mean(one, "own"),
            "return, central policy": _mean(one, "central"),
            "certificate": _STATES[(one.certificate or {}).get("passed")],
        }
        for one in reports
    ]
    headings, *rows = ([name, *(column[name] for column in columns)] for name in columns[0])
    return f"{_table(headings, rows)}{_soft('Returns are discounted, means over the tasks.')}"


def _mean(one: RunReport, policy: str) -> str:
    values = [read_interval(row[policy]["discounted_return"]).value for row in one.evaluation]
    mean = math.fsum(values) / max(1, len(values))
    return minus(f"{mean:{readable(mean)}}") if values else "–"


def _returns(one: RunReport) -> str:
    if "evaluation" in one.left_out:
        return _left_out(one.left_out["evaluation"])
    shown = _worst(one.evaluation)
    rates = list(dict.fromkeys(name for row in one.evaluation for name in row["own"]["rates"]))
    rows = []
    for row in shown:
        for policy in ("own", "central"):
            result = row[policy]
            name = escape(row["task"]) if policy == "own" else ""  # once for both rows
            returns = [_cell(result[kind]) for kind in ("discounted_return", "total_return")]
            shares = [_cell(result["rates"].get(rate), percent=True) for rate in rates]
            rows.append([name, policy, *returns, *shares])
    headings = ["task", "policy", "discounted return", "total return", *map(escape, rates)]
    note = f"{one.trials} episodes each, starts of seed {one.seed}, without exploration noise."
    if left := len(one.evaluation) - len(shown):
        note += f" The {len(shown)} tasks whose own policies do worst; {left} do better."
    return f"{_table(headings, rows, 'numbers')}{_soft(note)}"


def _cell(given: Mapping[str, Any] | None, percent: bool = False) -> str:
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


def _curves(one: RunReport) -> str:
    settings = one.config.settings
    data = one.metrics, settings.epsilon, aims_of(settings, one.metrics)
    text = "Learning curves: returns, distances to the central policy, knots"
    curves = _figure(text, learning_figure, *data)
    if one.on_the_way:
        text = "Evaluations on the way, with bands of 95 %"
        curves += _figure(text, evaluation_figure, one.on_the_way)
    return curves


def _paths(one: RunReport) -> str:
    if not one.paths:
        return _left_out(one.left_out["paths"])
    return _figure("Paths from random starts", trajectory_figure, "central", one.paths)


def _verdict(one: RunReport) -> str:
    if one.certificate is None:
        return _left_out(one.left_out["certificate"])
    page = one.certificate_page
    part = next((part for part in page.split("\n\n") if part.startswith("Verdict\n")), "")
    bullets = part.partition("\n- ")[2].split("\n- ")
    verdict = "".join(f"<li>{escape(' '.join(text.split()))}</li>" for text in bullets if text)
    text = "Distances, multipliers, pruning and stationarity gaps"
    figure = _figure(text, certificate_figure, one.certificate, one.metrics)
    return f"<ul>{verdict}</ul>{figure}{_details('All of it', f'<pre>{escape(page)}</pre>')}"


def _configuration(reports: Reports) -> str:
    """Return the configuration; of several runs the differences first."""
    configs = [one.config.to_plain() for one in reports]
    names = dict.fromkeys(name for config in configs for name in config)
    rows = [[escape(name), *(escape(_readable(c.get(name))) for c in configs)] for name in names]
    if len(reports) == 1:
        pairs = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows)
        return f'<dl class="fields">{pairs}</dl>'
    headings = ["", *(escape(one.run) for one in reports)]
    different = [row for row in rows if len(set(row[1:])) > 1]
    first = _table(headings, different) if different else "<p>The runs are configured alike.</p>"
    return f"<h3>Differences</h3>{first}{_details('All fields', _table(headings, rows))}"


def _readable(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_readable, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _commands(one: RunReport) -> str:
    again = shlex.quote(f"{Path(one.run).name}-again")
    lines = (
        f"crosslearning train --out {again} --config config.toml\n"
        f"crosslearning evaluate {again} --trials {one.trials} --seed {one.seed}"
    )
    if one.certificate is not None:
        samples, seed = (one.certificate[name] for name in ("samples", "seed"))
        lines += f"\ncrosslearning certify {again} --samples {samples} --seed {seed}"
    text = "Save the configuration as <code>config.toml</code>; then:"
    if one.has_start:
        text = (
            "This run started from another's policies: begin with <code>crosslearning adapt</code> "
            "from that run instead of <code>train</code>."
        )
    whole = _details("config.toml", f"<pre>{escape(one.config_text)}</pre>")
    return f"<p>{text}</p><pre>{escape(lines)}</pre>{whole}"


def _soft(text: str) -> str:
    return f'<p class="soft">{text}</p>'


def _left_out(reason: object) -> str:
    return _soft(f"Left out: {escape(str(reason))}.")


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def _figure(text: str, draw: Callable[..., Figure], *data: Any) -> str:
    """Return a figure, or the reason why there is none."""
    try:
        content = figure_bytes(draw(*data), "svg")
    except InputError as reason:
        return _left_out(reason)
    source = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
    return f'<figure><img alt="{escape(text)}" src="{source}"></figure>'


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Return a table of HTML cells; the first of a row is its heading."""
    head = "".join(f"<th>{cell}</th>" for cell in headings)
    body = "".join(
        f"<tr><th>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{table}</table></div>'
