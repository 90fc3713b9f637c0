"""The report as one page of HTML: no script, no network, all figures inside."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from crosslearning import __version__
from crosslearning._base.limits import MANY_TASKS
from crosslearning._base.pages import security_policy
from crosslearning._base.statistics import readable
from crosslearning.errors import InputError
from crosslearning.figures.certificate import certificate_figure
from crosslearning.figures.parts import minus, read_interval
from crosslearning.figures.paths import trajectory_figure
from crosslearning.figures.report.gathering import RunReport
from crosslearning.figures.run import (
    evaluation_figure,
    learning_figure,
    progress_figure,
    returns_figure,
)
from crosslearning.figures.style import figure_bytes
from crosslearning.runs.metrics import aims_of

Reports = Sequence[RunReport]
#: Marks a report, so that no other file is overwritten.
PAGE_MARK = '<p class="soft">Made by crosslearning'


def report_page(reports: Reports) -> str:
    """Return the page of one run, or of several beside one another."""
    if not reports:
        raise InputError("there is no run to report on; give the folder of one")
    title = f"Report of {reports[0].run}"
    if len(reports) > 1:
        title = f"{len(reports)} runs beside one another"
    sections = {
        "Summary": _summary(reports),
        "Evaluation": _evaluation(reports),
        "Learning": _learning(reports),
        "Paths": _each(reports, _paths) if any(one.paths for one in reports) else "",
        "Certificate": _each(reports, _certificate),
        "Configuration": _configuration(reports),
        "How to repeat it": _each(reports, _commands),
    }
    anchors = {name: name.lower().replace(" ", "-") for name, body in sections.items() if body}
    links = "".join(f'<a href="#{anchor}">{name}</a>' for name, anchor in anchors.items())
    bodies = "".join(
        f'<section id="{anchor}"><h2>{name}</h2>{sections[name]}</section>'
        for name, anchor in anchors.items()
    )
    style = files("crosslearning.figures.report").joinpath("page.css").read_text(encoding="utf-8")
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
            "tasks": escape(f"{one.config.tasks} ({len(one.tasks)})"),
            "ε": f"{one.config.settings.epsilon:g}".replace("inf", "∞"),
            "iterations": f"{one.iteration:,}",
            "environment steps": f"{one.steps:,}",
            "knots": f"{one.knots:,}",
            "return, own policies": _mean(one, "own"),
            "return, central policy": _mean(one, "central"),
            "certificate": _verdict(one),
        }
        for one in reports
    ]
    headings, *rows = ([name, *(column[name] for column in columns)] for name in columns[0])
    return f"{_table(headings, rows)}{_soft('Returns are discounted, means over the tasks.')}"


def _mean(one: RunReport, policy: str) -> str:
    values = [read_interval(row[policy]["discounted_return"]).value for row in one.evaluation]
    mean = math.fsum(values) / max(1, len(values))
    return minus(f"{mean:{readable(mean)}}") if values else "–"


def _verdict(one: RunReport) -> str:
    if one.certificate is None:
        return "–"
    if one.certificate["passed"]:
        return '<span class="good">files sound</span>'
    return '<span class="bad">a check of the files failed</span>'


def _evaluation(reports: Reports) -> str:
    known = {one.run: _worst(one.evaluation) for one in reports if one.evaluation}
    picture = _figure(lambda: returns_figure(known), "Returns with intervals") if known else ""
    return picture + _each(reports, _returns)


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


def _cell(plain: Mapping[str, Any] | None, percent: bool = False) -> str:
    """Return an interval of JSON; a dash where it is unknown."""
    interval = read_interval(plain or {"value": None})
    text = interval.percent() if percent else str(interval)
    return "–" if math.isnan(interval.value) else minus(text)


def _worst(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the evaluations to show: of many tasks the worst."""
    if len(rows) <= MANY_TASKS:
        return rows
    order = sorted(rows, key=lambda row: read_interval(row["own"]["discounted_return"]).value)
    return order[:MANY_TASKS]


def _learning(reports: Reports) -> str:
    lines = {one.run: one.metrics for one in reports}
    together = ""
    if len(reports) > 1:
        together = _figure(lambda: progress_figure(lines), "Returns of all runs over steps")
    return together + _each(reports, _curves)


def _curves(one: RunReport) -> str:
    settings = one.config.settings
    curves = _figure(
        lambda: learning_figure(one.metrics, settings.epsilon, aims_of(settings, one.metrics)),
        "Learning curves: returns, distances to the central policy, knots",
    )
    if one.on_the_way:
        text = "Evaluations on the way, with bands of 95 %"
        curves += _figure(lambda: evaluation_figure(one.on_the_way), text)
    return curves


def _paths(one: RunReport) -> str:
    if not one.paths:
        return _left_out(one.left_out["paths"])
    return _figure(lambda: trajectory_figure("central", one.paths), "Paths from random starts")


def _certificate(one: RunReport) -> str:
    certificate, page = one.certificate, one.certificate_page
    if certificate is None:
        return _left_out(one.left_out["certificate"])
    part = next((part for part in page.split("\n\n") if part.startswith("Verdict\n")), "")
    bullets = part.partition("\n- ")[2].split("\n- ")
    verdict = "".join(f"<li>{escape(' '.join(text.split()))}</li>" for text in bullets if text)
    text = "Distances, multipliers, pruning and stationarity gaps"
    figure = _figure(lambda: certificate_figure(certificate, one.metrics), text)
    return f"<ul>{verdict}</ul>{figure}{_details('All of it', f'<pre>{escape(page)}</pre>')}"


def _configuration(reports: Reports) -> str:
    """Return the configuration; of several runs the differences first."""
    plain = [one.config.to_plain() for one in reports]
    names = list(dict.fromkeys(name for values in plain for name in values))
    rows = [[escape(name), *(escape(_readable(p.get(name))) for p in plain)] for name in names]
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
    lines = [
        f"crosslearning train --out {again} --config config.toml",
        f"crosslearning evaluate {again} --trials {one.trials} --seed {one.seed}",
    ]
    if one.certificate is not None:
        samples, seed = (one.certificate[name] for name in ("samples", "seed"))
        lines.append(f"crosslearning certify {again} --samples {samples} --seed {seed}")
    text = "Save the configuration as <code>config.toml</code>; then:"
    if one.has_start:
        text = (
            "This run started from the policies of another, which its folder keeps, so that its "
            "configuration alone does not repeat it: begin with <code>crosslearning adapt</code> "
            "from that run instead of <code>train</code>."
        )
    whole = _details("config.toml", f"<pre>{escape(one.config_text)}</pre>")
    return f"<p>{text}</p><pre>{escape(chr(10).join(lines))}</pre>{whole}"


def _soft(text: str) -> str:
    return f'<p class="soft">{text}</p>'


def _left_out(reason: object) -> str:
    return _soft(f"Left out: {escape(str(reason))}.")


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def _figure(draw: Callable[[], Any], text: str) -> str:
    """Return a figure, or the reason why there is none."""
    try:
        content = figure_bytes(draw(), "svg")
    except InputError as reason:
        return _left_out(reason)
    source = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
    return f'<figure><img alt="{escape(text)}" src="{source}"></figure>'


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Return a table of HTML cells; the first of a row is its heading."""
    head = "".join(f"<th>{cell}</th>" for cell in headings)
    body = "".join(
        f"<tr><th>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{table}</table></div>'
