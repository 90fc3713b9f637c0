"""Verification of a run from its files alone, independent of the library's readers and numerics.

So it finds damaged and edited files, and also errors of the library.
"""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from crosslearning._base.ordinary_files import read_bytes
from crosslearning._base.plain_kernels import same_kernel
from crosslearning.certificates.verification.checks import (
    Check,
    Checks,
    PlainFile,
    read_plain_file,
    read_plain_json,
)
from crosslearning.certificates.verification.model import Formula, PlainModel, check_model
from crosslearning.errors import InputError

_NUMBERED = re.compile(r"iteration-(\d+)\.safetensors")
_FILES = {"model": "model.safetensors", "config": "config.toml", "metrics": "metrics.jsonl"}
#: Settings with checks of their own.
_NAMED = ("epsilon", "kernel", "max_knots")
#: The tasks in the configuration of a run that learned from log files.
_LOGGED = "logs"
#: Larger numbers are not measured, and would overflow in sums and figures.
_Number = Annotated[float, msgspec.Meta(gt=-1e150, lt=1e150)]
#: By task; null stands for infinity, or for a number that was not measured.
_Table = dict[str, _Number | None]
#: Fields that a line has if the line before it has them: early runs do not.
_SINCE = {"pruning_spent", "over_budget", "over_budget_by_cap"}


class _Metrics(msgspec.Struct, rename={"returns": "return"}):
    """A line of metrics; a method adds tables, a later version anything."""

    iteration: _Number
    distance: dict[str, _Number]
    multiplier: _Table
    returns: _Table
    steps: _Number
    knots: _Number
    pruning_error: _Number
    removed: _Number
    forced_by_cap: _Number
    forced_by_conditioning: _Number
    pruning_spent: _Number = 0.0
    over_budget: _Number = 0.0
    over_budget_by_cap: _Number = 0.0


@dataclass(frozen=True)
class Verification:
    """The checks of a run's files, and the data read from them."""

    run: str  #: the run's folder
    source: str  #: the file in it that was read as the model
    finished: bool  #: whether that is the finished model; otherwise it is the newest checkpoint
    checks: tuple[Check, ...]
    model: PlainModel | None  #: norms and distances recomputed, if the file could be read
    config: dict[str, Any]  #: the fields of ``config.toml``; empty if it could not be read
    metrics: list[dict[str, Any]]  #: the readable lines of metrics
    record: dict[str, Any] | None  #: the run's record, if there is one

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the model, or of the configuration if there is no model."""
        return self.config if self.model is None else self.model.settings

    @property
    def reached(self) -> list[dict[str, Any]]:
        """The metrics up to the model; an unfinished run may have logged more."""
        last = np.inf if self.model is None else self.model.iteration
        return [line for line in self.metrics if line["iteration"] <= last]

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check.name for check in self.checks if check.status == "fail"]


def verify_run(run: str | Path, formula: Formula | None = None) -> Verification:
    """Check the files of a run against one another and against the mathematics.

    Parameters
    ----------
    run : str or Path
        The run's folder. Only one without any file of a run is an error.
    formula : callable, optional
        For a user-defined kernel, whose formula no file holds: points (n, q) to the matrix of
        its values, shape (n, n).
    """
    folder = Path(run)
    if not any((folder / name).exists() for name in (*_FILES.values(), "record.json")):
        raise InputError(f"{run} holds no run: there is no config.toml in it")
    # A number that overflows is not finite, and fails where it is compared.
    with np.errstate(all="ignore"):
        return _verify(folder, formula)


def _verify(folder: Path, formula: Formula | None) -> Verification:
    checks = Checks()
    config = _read_config(checks, folder)
    source, finished = _source(checks, folder)
    content = None if source is None else _check_file(checks, source, source.name)
    model = None
    if source is not None and content is not None:
        model = check_model(checks, content, source.name, formula)
    lines: list[dict[str, Any]] = []
    if model is None or model.iteration > 0:
        lines = _read_metrics(checks, folder / "metrics.jsonl")
    if model is not None:
        with checks.guarding("config.toml", "the fields of a run"):
            _check_config(checks, model, config, finished)
        if lines:
            with checks.guarding("metrics.jsonl", "the fields of a line of metrics"):
                _check_metrics(checks, lines, model, config, finished)
    record = None
    if finished:
        record = _check_record(checks, folder, model)
    else:
        reason = "it is written at the end of a run, and this one has not ended"
        remedy = f"'crosslearning resume {folder}', then certify again"
        checks.expect("record.json", "not possible", reason, remedy)
    for place in ("checkpoints", "snapshots"):
        for path in sorted((folder / place).glob("*.safetensors")):
            if path != source:
                _check_other(checks, path, config)
    name = "" if source is None else source.relative_to(folder).as_posix()
    made = tuple(checks)
    return Verification(str(folder), name, finished, made, model, config, lines, record)


def _read_config(checks: Checks, folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = {}
    with checks.guarding("run.json", "the version of the folder's layout"):
        version = read_plain_json(read_bytes(folder / "run.json"))["version"]
        checks.expect("run.json", version == 1, f"version {version}", "1")
    name = "config.toml: readable"
    with checks.guarding(name, "a TOML file with all fields of a run"):
        config = tomllib.loads(read_bytes(folder / "config.toml").decode())
        checks.expect(name, True, f"{len(config)} fields", "a TOML file with fields")
    return config


def _source(checks: Checks, folder: Path) -> tuple[Path | None, bool]:
    """Return the file to certify, and whether it is the finished model."""
    model = folder / "model.safetensors"
    if model.exists():
        return model, True
    finished = (folder / "record.json").exists()
    numbered = [p for p in (folder / "checkpoints").glob("*") if _NUMBERED.fullmatch(p.name)]
    if numbered and not finished:
        return max(numbered, key=lambda path: int(path.stem.split("-")[1])), False
    found = "no such file" if finished else "neither a model nor a checkpoint"
    expected = f"one of them; 'crosslearning resume {folder}' makes them"
    if finished:
        expected = "a model: the run recorded that it finished"
    checks.expect("model.safetensors: there", False, found, expected)
    return None, finished


def _check_file(checks: Checks, path: Path, label: str) -> PlainFile | None:
    """Check that a tensor file is whole and unedited; return its content if it can be read."""
    name, expected = f"{label}: whole", "a file as long as its header says"
    content: PlainFile | None = None
    with checks.guarding(name, expected):
        content = read_plain_file(path)
        checks.expect(name, True, f"{path.stat().st_size} bytes", expected)
        found = f"SHA-256 {content.computed[:16]}… of its content"
        expected = f"{content.claimed[:16]}…, as the file says"
        checks.expect(f"{label}: checksum", content.claimed == content.computed, found, expected)
    return content


def _check_other(checks: Checks, path: Path, config: dict[str, Any]) -> None:
    """Check a checkpoint or a snapshot: whole, and of this run."""
    label = f"{path.parent.name}/{path.name}"
    content = _check_file(checks, path, label)
    if content is None:
        return
    with checks.guarding(label, "what the run's other files say"):
        match, settings = _NUMBERED.fullmatch(path.name), content.description.get("settings")
        if settings is not None and match is not None:
            text = "ε = {:g}, iteration {}, seed {}"
            found = float(settings["epsilon"]), content.description["iteration"], settings["seed"]
            asked = float(config["epsilon"]), int(match[1]), config["seed"]
            fine = found == asked
            checks.expect(f"{label}: of this run", fine, text.format(*found), text.format(*asked))


def _check_config(
    checks: Checks, model: PlainModel, config: dict[str, Any], finished: bool
) -> None:
    """Check that the model is what ``config.toml`` asks for."""
    settings, description = model.settings, model.description
    for name, label in (("epsilon", "ε"), ("max_knots", "max_knots")):
        asked = _plain(config.get(name))
        found = f"the model was learned with {settings.get(name)}"
        fine = _plain(settings.get(name)) == asked
        checks.expect(f"config.toml: {label}", fine, found, f"{asked}, as config.toml says")
    others = [
        f"{name} is {settings[name]} in the model, {config[name]} in config.toml"
        for name in settings
        if name in config and name not in _NAMED and _plain(settings[name]) != _plain(config[name])
    ]
    found, expected = "; ".join(others), "the model's settings are those of config.toml"
    checks.expect("config.toml: other settings", not others, found or "no difference", expected)
    asked = (config.get("tasks"), config.get("task_options") or {})
    known = _LOGGED if description["task_set"] is None else description["task_set"]
    learned = (known, description["task_options"] or {})
    more = f" and {len(model.tasks) - 10} more" if len(model.tasks) > 24 else ""
    found = f"{learned[0]}: {', '.join(model.tasks[:10] if more else model.tasks)}{more}"
    checks.expect("config.toml: tasks", asked == learned, found, f"{asked[0]}, as config.toml says")
    if config.get("kernel") is not None:
        fine = same_kernel(description["kernel"], config["kernel"])
        found = f"the model's kernel is {description['kernel']}"
        expected = f"{config['kernel']}, as config.toml says"
        checks.expect("config.toml: kernel", fine, found, expected)
    early = config.get("alpha") is not None or not finished
    if "steps" in config:
        unit, last, made = "steps", int(config["steps"]), description["steps"]
        limits = description.get("step_limits")
        # Up to version 0.3 the last iteration was completed, and might take more steps.
        fine = limits[-1][1] == last and made <= last if limits else early or made >= last
        expected = f"at most {last}"
    else:
        unit, last, made = "iterations", int(config["iterations"]), model.iteration
        fine = 0 <= made <= last if early else made == last
        expected = f"at most {last}" if early else f"{last}"
    checks.expect(f"config.toml: {unit}", fine, f"the model is at {made}", expected)
    fine = model.knots <= int(config["max_knots"])
    expected = f"at most max_knots = {config['max_knots']}"
    checks.expect("config.toml: knots", fine, f"{model.knots} knots", expected)


def _plain(value: Any) -> Any:
    """Return a setting in a form common to TOML and JSON: infinities as text, lists as lists."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _read_metrics(checks: Checks, path: Path) -> list[dict[str, Any]]:
    """Check that the metrics are well formed, and return the lines before the first bad one."""
    lines: list[dict[str, Any]] = []
    name = "metrics.jsonl: well formed"
    expected = "one JSON object of finite numbers a line, iterations increasing"
    with checks.guarding(name, expected):
        texts = read_bytes(path).decode().splitlines()
        try:
            for text in texts:
                lines.append(_read_line(text, lines))
        except (ValueError, RecursionError) as problem:
            checks.expect(name, False, f"line {len(lines) + 1}: {problem}", expected)
        else:
            checks.expect(name, bool(lines), f"{len(lines)} lines", expected)
    return lines


def _read_line(text: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a line of metrics that fits the ``lines`` before it; raise ValueError otherwise."""
    line: dict[str, Any] = read_plain_json(text)
    msgspec.convert(line, _Metrics)
    first, before = (lines[0], lines[-1]) if lines else (line, {})
    lacking = _SINCE & before.keys() - line.keys()
    if lacking:
        raise ValueError(f"lacks {', '.join(sorted(lacking))}")
    tables = {
        n: v for n, v in line.items() if isinstance(v, dict) or isinstance(first.get(n), dict)
    }
    for name, table in msgspec.convert(tables, dict[str, _Table]).items():
        if list(table) != list(first["distance"]):
            raise ValueError(f"{name} has the tasks {list(table)}, not {list(first['distance'])}")
    if before and line["iteration"] <= before["iteration"]:
        raise ValueError(f"iteration {line['iteration']} after {before['iteration']}")
    return line


def _check_metrics(
    checks: Checks,
    lines: list[dict[str, Any]],
    model: PlainModel,
    config: dict[str, Any],
    finished: bool,
) -> None:
    """Check that the metrics describe this model, and that every line keeps to ε."""
    at = [line for line in lines if line["iteration"] == model.iteration]
    last, steps = lines[-1], model.description["steps"]
    agrees = (
        bool(at)
        and (not finished or at[-1] is last)
        and (at[-1]["knots"], at[-1]["steps"]) == (model.knots, steps)
        and tuple(at[-1]["distance"]) == model.tasks
    )
    text = "line: iteration {}, {} knots, {} steps"
    found = "last " + text.format(last["iteration"], last["knots"], last["steps"])
    expected = ("last " if finished else "a ") + text.format(model.iteration, model.knots, steps)
    checks.expect("metrics.jsonl: tells of the model", agrees, found, expected)
    logged, every = {line["iteration"] for line in lines}, int(config["log_every"])
    lacking = [k for k in range(every, last["iteration"] + 1, every) if k not in logged]
    found = f"no line for iteration {lacking[0]}, {len(lacking)} in all" if lacking else "complete"
    checks.expect("metrics.jsonl: complete", not lacking, found, f"a line every {every} iterations")
    # A line holds each task's largest distance since the line before. The relaxed projection
    # bounds only their mean square, so a single distance may be √N ε.
    relaxed, bound = model.settings["projection"] == "relaxed", model.farthest
    largest = max(max(line["distance"].values()) for line in lines)
    fine, found = largest <= bound + model.tolerance(bound), f"largest distance {largest:.6g}"
    expected = f"at most {'√N ε' if relaxed else 'ε'} = {bound:g} at every line"
    checks.expect("metrics.jsonl: constraint", fine, found, expected, topic="constraint")
    if agrees:
        before = np.array(list(at[-1]["distance"].values()))
        longer = float(np.max(model.ridged_distances - before))
        fine = longer <= model.tolerance(float(np.max(before)))
        found = f"the model's distances exceed the logged ones by at most {max(longer, 0.0):.2g}"
        expected = "not above the distances before the last pruning, up to rounding"
        checks.expect("metrics.jsonl: pruning lengthened nothing", fine, found, expected)


def _check_record(checks: Checks, folder: Path, model: PlainModel | None) -> dict[str, Any] | None:
    """Check the model and the other files against what the run recorded at its end."""
    path = folder / "record.json"
    if not path.exists():
        expected = "the record that every finished run leaves; --replay tells what it would be"
        checks.expect("record.json", False, "no such file", expected)
        return None
    record: dict[str, Any] | None = None
    with checks.guarding("record.json", "the record that the run wrote at its end"):
        content: dict[str, Any] = read_plain_json(read_bytes(path))
        for key, name in _FILES.items():
            recorded, digest, found = content["sha256"][key], None, "no such file"
            if (folder / name).exists():
                digest = hashlib.sha256(read_bytes(folder / name)).hexdigest()
                found = f"SHA-256 {digest[:16]}…"
            expected = f"{recorded[:16]}…, as recorded at the end of the run"
            checks.expect(f"record.json: {name}", digest == recorded, found, expected)
        if model is not None:
            _compare(checks, content, model)
        record = content
    return record  # noqa: RET504  (damage ends the block early)


def _compare(checks: Checks, record: dict[str, Any], model: PlainModel) -> None:
    description = model.description
    facts = {
        "iteration": (model.iteration, record["iteration"]),
        "steps": (description["steps"], record["steps"]),
        "knots": (model.knots, record["knots"]),
        "tasks": (list(model.tasks), record["tasks"]),
        "epsilon": (model.epsilon, float(record["epsilon"])),
    }
    wrong = [f"{name} {now}, not {was}" for name, (now, was) in facts.items() if now != was]
    if not same_kernel(description["kernel"], record["kernel"]):
        wrong.append(f"kernel {description['kernel']}, not {record['kernel']}")
    found = "; ".join(wrong) or f"iteration {model.iteration}, {model.knots} knots"
    expected = "iteration, steps, knots, tasks, ε and kernel as recorded"
    checks.expect("record.json: what was learned", not wrong, found, expected)
    for name, squares, errors in (
        ("norms", model.squared_norms, model.norm_errors),
        ("distances", model.squared_distances, model.distance_errors),
    ):
        recorded = np.array(record[name], dtype=np.float64)
        fine, apart = recorded.shape == squares.shape, math.inf
        if fine:
            # Both sides are rounded, so twice the bound of one.
            fine = bool(np.all(np.abs(squares - recorded**2) <= 2.0 * errors))
            apart = np.max(np.abs(np.sqrt(squares) - recorded))
        found = f"farthest from the recorded ones: {apart:.2g}"
        expected = f"the {name} of all functions, computed again, as recorded"
        checks.expect(f"record.json: {name}", fine, found, expected)
