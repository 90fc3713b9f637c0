"""What is understood of log files, and learning from them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from crosslearning import runs
from crosslearning.cli import options, output
from crosslearning.cli.application import app, console
from crosslearning.cli.options import option
from crosslearning.cli.output import show_files, show_line, show_table
from crosslearning.errors import InputError

if TYPE_CHECKING:
    from crosslearning.analysis.logged import LogDescription

#: The iterations of :func:`crosslearning.learn_from`.
_ITERATIONS = 120
#: Unused signals beyond this number are counted, not listed.
_LISTED = 30


@dataclass(frozen=True)
class LogFlags:
    """The flags that say what the signals of log files are."""

    observations: Annotated[
        str | None, option("Signals to observe: names with commas, or a prefix; default: obs….")
    ] = None
    actions: Annotated[str | None, option("Signals that are actions; default: act….")] = None
    next_observations: Annotated[
        str | None, option("Observations after the step, if every row holds them.")
    ] = None
    reward: Annotated[str | None, option("The signal that is the reward; default: reward.")] = None
    setpoint: Annotated[
        list[str] | None,
        option("Instead of a reward: OBSERVATION=NUMBER or OBSERVATION=SIGNAL; may be repeated."),
    ] = None
    machine: Annotated[
        str | None, option("The column that names the machine; default: machine, else the file.")
    ] = None
    episode: Annotated[str | None, option("The column that numbers the episodes.")] = None
    terminated: Annotated[str | None, option("The column that is 1 where one terminated.")] = None
    reset: Annotated[
        str | None, option("The column that is not 0 where the machine began anew.")
    ] = None
    time: Annotated[str | None, option("The column of time, in seconds or as ISO 8601.")] = None
    rate: Annotated[
        float | None,
        option(
            "Steps per second to resample to: observations linearly, actions by the previous "
            "value, rewards by their mean. Default: rows as they are."
        ),
    ] = None

    def columns(self) -> dict[str, Any]:
        """Return the columns as :func:`crosslearning.learn_from` takes them."""
        given: dict[str, Any] = {}
        for name in ("observations", "actions", "next_observations"):
            if (text := getattr(self, name)) is not None:
                parts = [part.strip() for part in text.split(",") if part.strip()]
                given[name] = parts if len(parts) > 1 else text.strip()
        for name in ("reward", "machine", "episode", "terminated", "reset", "time"):
            if (text := getattr(self, name)) is not None:
                given[name] = text
        if self.setpoint:
            given["setpoints"] = dict(map(_setpoint, self.setpoint))
        return given

    def given(self) -> bool:
        """Return whether any flag was given."""
        return any(value is not None for value in vars(self).values())


def _setpoint(text: str) -> tuple[str, float | str]:
    name, equals, aim = text.partition("=")
    if not (name.strip() and equals and aim.strip()):
        raise InputError(
            f"--setpoint is {text!r}; give the observation and its aim, such as temperature=350"
        )
    try:
        return name.strip(), float(aim)
    except ValueError:
        return name.strip(), aim.strip()


FLAGS = tuple(inspect.signature(LogFlags, eval_str=True).parameters.values())


@app.command()
@options.with_flags(FLAGS)
def logs(
    files: Annotated[list[Path], typer.Argument(help="CSV, Parquet or MDF files, or ROS bags.")],
    out: Annotated[Path, options.folder("Folder for the picture.")] = Path("runs/logs"),
    as_json: options.Json = False,
    **flags: Any,
) -> None:
    """Show what log files hold, before learning from them."""
    from crosslearning.analysis.logged import describe_log
    from crosslearning.figures.logs import logs_figure
    from crosslearning.figures.style import save_figure

    given = LogFlags(**flags)
    found = describe_log(files, given.columns(), given.rate)
    written = [output.write_json(out / "logs.json", found.to_dict(), as_json)]
    if found.log and not found.problem:
        written += save_figure(logs_figure(found), out / "logs")
    if not as_json:
        _show(found)
        show_files(written)


def _show(found: LogDescription) -> None:
    """Print machines, signals, notes, and what is missing for learning."""
    if found.machines:
        rows = [
            [
                one.name,
                str(one.rows),
                str(len(one.steps)),
                str(sum(one.steps)),
                f"{min(one.steps, default=0)}–{max(one.steps, default=0)}",
                "–" if one.rate is None else f"{one.rate:.4g} Hz",
                str(one.restarts),
                f"{one.gaps} (≤ {one.longest_gap:.3g} s)" if one.gaps else "0",
                str(one.missing + one.repeated),
            ]
            for one in found.machines
        ]
        headings = ["machine", "rows", "episodes", "steps", "of each", "rate", "restarts", "gaps"]
        show_table("Machines", [*headings, "rows left out"], rows)
        show_line("")
    used = [one for one in found.signals if one.role]
    others = [one for one in found.signals if not one.role]
    rows = [
        [
            one.name,
            one.unit or "–",
            one.role or "–",
            "text" if one.low != one.low else f"{one.low:.5g} to {one.high:.5g}",
            f"{100.0 * one.missing:.3g} %" if one.missing else "none",
            str(one.samples),
        ]
        for one in (*used, *others[:_LISTED])
    ]
    headings = ["signal", "unit", "role", "range", "missing", "samples"]
    show_table("Signals", headings, rows)
    if left := len(others[_LISTED:]):
        show_line(f"{left} more signals have no role.")
    for note in found.notes:
        show_line(f"Note: {note}.")
    if found.problem:
        show_line(f"Nothing can be learned yet: {found.problem}.")
        return
    steps = [sum(one.steps) for one in found.machines]
    show_line(
        f"Can be learned from: {sum(steps)} steps of {len(found.log)} machines. Next: "
        "crosslearning train --from FILE --out FOLDER, with the same flags."
    )


def train_from(
    out: Path, files: list[Path], flags: LogFlags, config: Path | None, fields: Mapping[str, Any]
) -> runs.Outcome:
    """Learn from log files, in a new run folder."""
    from crosslearning.analysis.logged.description import read_files
    from crosslearning.analysis.logged.learning import learner_of

    for name in ("tasks", "task_options", "around", "steps", "evaluate_every"):
        if fields.get(name) is not None:
            raise InputError(
                f"--{name.replace('_', '-')} does not go with --from: there are no environments. "
                "Around a controller: crosslearning.learn_from(..., around=...) in Python"
            )
    if fields.get("method") not in (None, "models"):
        raise InputError(f"--method is {fields['method']!r}; logs are learned from by models")
    found = read_files(files, flags.columns(), flags.rate, False)
    iterations = fields.get("iterations") or _ITERATIONS
    fixed = {"method": "models", "iterations": iterations, "updates_per_round": iterations}
    checked = options.config_from(config, {**fields, **fixed, "tasks": runs.LOGGED})
    settings = msgspec.structs.asdict(checked.settings)
    for name in ("method", "updates_per_round"):
        settings.pop(name)
    learner = learner_of(found, settings.pop("epsilon"), iterations=iterations, **settings)
    return runs.train(out, checked, console, learner=learner)
