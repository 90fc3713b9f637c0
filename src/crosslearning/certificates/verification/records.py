"""Checks of what surrounds a model: the configuration, the metrics and the run's record."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from crosslearning.certificates.verification.checks import Checks
from crosslearning.certificates.verification.model import PlainModel
from crosslearning.certificates.verification.plain_files import read_plain_json
from crosslearning.certificates.verification.plain_kernels import same_kernel

#: What every line holds for each task; other numbers for each task are the method's own.
_PER_TASK = ("distance", "multiplier", "return")
#: What every line holds for the run.
_PLAIN = ("steps", "knots", "pruning_error", "removed", "forced_by_cap", "forced_by_conditioning")
#: What a line holds if the one before it does: early runs have none of it.
_SINCE = ("pruning_spent", "over_budget", "over_budget_by_cap")
#: No measured number is as large; a larger one would overflow in sums and figures.
_HUGE = 1e150
_NAMED = ("epsilon", "kernel", "max_knots")
_RECORD_EXPECTED = "the record that every finished run leaves; --replay tells what it would be"


def check_config(checks: Checks, model: PlainModel, config: dict[str, Any], finished: bool) -> None:
    """Check that the model is what ``config.toml`` asks for."""
    settings = model.settings
    for name, word in (("epsilon", "ε"), ("max_knots", "max_knots")):
        asked = _plain(config.get(name))
        checks.expect(
            f"config.toml: {word}",
            _plain(settings.get(name)) == asked,
            f"the model was learned with {settings.get(name)}",
            f"{asked}, as config.toml says",
        )
    others = [
        f"{name} is {settings[name]} in the model, {config[name]} in config.toml"
        for name in settings
        if name in config and name not in _NAMED and _plain(settings[name]) != _plain(config[name])
    ]
    checks.expect(
        "config.toml: other settings",
        not others,
        "; ".join(others) or "no difference",
        "the model's settings are those of config.toml",
    )
    asked_tasks = (config.get("tasks"), config.get("task_options") or {})
    found_tasks = (model.description["task_set"], model.description["task_options"] or {})
    checks.expect(
        "config.toml: tasks",
        asked_tasks == found_tasks,
        f"{found_tasks[0]}: {', '.join(model.tasks)}",
        f"{asked_tasks[0]}, as config.toml says",
    )
    if config.get("kernel") is not None:
        checks.expect(
            "config.toml: kernel",
            same_kernel(model.description["kernel"], config["kernel"]),
            f"the model's kernel is {model.description['kernel']}",
            f"{config['kernel']}, as config.toml says",
        )
    last = int(config["iterations"])
    early = config.get("alpha") is not None or not finished
    checks.expect(
        "config.toml: iterations",
        0 <= model.iteration <= last if early else model.iteration == last,
        f"the model is at iteration {model.iteration}",
        f"at most {last}" if early else f"{last}",
    )
    checks.expect(
        "config.toml: knots",
        model.knots <= int(config["max_knots"]),
        f"{model.knots} knots",
        f"at most max_knots = {config['max_knots']}",
    )


def read_metrics(checks: Checks, path: Path) -> list[dict[str, Any]]:
    """Check that the metrics are well formed, and return the lines before the first bad one."""
    lines: list[dict[str, Any]] = []
    expected = "one JSON object of finite numbers a line, iterations increasing"
    with checks.guarding("metrics.jsonl: well formed", expected):
        problem = ""
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            problem = _problem_of(text, lines)
            if problem:
                problem = f"line {number}: {problem}"
                break
        found = problem or f"{len(lines)} lines"
        checks.expect("metrics.jsonl: well formed", bool(lines) and not problem, found, expected)
    return lines


def _problem_of(text: str, lines: list[dict[str, Any]]) -> str:
    """Append a good line of metrics to those before it, or say what is wrong with it."""
    try:
        line = read_plain_json(text)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(line, dict) or not _is_number(line.get("iteration")):
        return "no object with an iteration"
    first, before = (lines[0], lines[-1]) if lines else (line, {})
    needed = {*_PER_TASK, *_PLAIN, *(set(_SINCE) & set(before))}
    if needed - set(line):
        return f"lacks {', '.join(sorted(needed - set(line)))}"
    for name, value in line.items():
        table = name in _PER_TASK or isinstance(first.get(name), dict)
        # What is none of these, and no table, is a later version's.
        if (name in _PLAIN + _SINCE and not _is_number(value)) or (
            table and not isinstance(value, dict)
        ):
            return f"{name} is {value!r}"
        if isinstance(value, dict):
            if list(value) != list(first["distance"]):
                return f"{name} has the tasks {list(value)}, not {list(first['distance'])}"
            for number in value.values():
                # Null stands for infinity, or for what a method has not measured.
                if not _is_number(number) and (number is not None or name == "distance"):
                    return f"{name} is {number!r}"
    if lines and line["iteration"] <= lines[-1]["iteration"]:
        return f"iteration {line['iteration']} after {lines[-1]['iteration']}"
    lines.append(line)
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _HUGE


def check_metrics(
    checks: Checks,
    lines: list[dict[str, Any]],
    model: PlainModel,
    config: dict[str, Any],
    finished: bool,
) -> None:
    """Check that the metrics tell of this model, and that they have always kept to ε."""
    at = [line for line in lines if line["iteration"] == model.iteration]
    last, steps = lines[-1], model.description["steps"]
    agrees = (
        bool(at)
        and (not finished or at[-1] is last)
        and (at[-1]["knots"], at[-1]["steps"]) == (model.knots, steps)
        and tuple(at[-1]["distance"]) == model.tasks
    )
    checks.expect(
        "metrics.jsonl: tells of the model",
        agrees,
        f"last line: iteration {last['iteration']}, {last['knots']} knots, {last['steps']} steps",
        f"{'last' if finished else 'a'} line: iteration {model.iteration}, {model.knots} knots, "
        f"{steps} steps",
    )
    logged = {line["iteration"] for line in lines}
    every = int(config["log_every"])
    lacking = [k for k in range(every, lines[-1]["iteration"] + 1, every) if k not in logged]
    checks.expect(
        "metrics.jsonl: complete",
        not lacking,
        f"no line for iteration {lacking[0]}, {len(lacking)} in all"
        if lacking
        else "no line is lacking",
        f"a line every {every} iterations",
    )
    # A line keeps each task's largest distance since the one before. The relaxed projection
    # bounds only their mean square, so a single one may be √N ε.
    relaxed = model.settings["projection"] == "relaxed"
    bound = model.epsilon * (math.sqrt(len(model.tasks)) if relaxed else 1.0)
    largest = max(max(line["distance"].values()) for line in lines)
    checks.expect(
        "metrics.jsonl: constraint",
        largest <= bound + model.room(bound),
        f"largest distance of any line {largest:.6g}",
        f"at most {'√N ε' if relaxed else 'ε'} = {bound:g} at every line",
        topic="constraint",
    )
    if agrees:
        before = np.array(list(at[-1]["distance"].values()))
        longer = float(np.max(model.ridged_distances - before))
        checks.expect(
            "metrics.jsonl: pruning lengthened nothing",
            longer <= model.room(float(np.max(before))),
            f"the model's distances exceed the logged ones by at most {max(longer, 0.0):.2g}",
            "not above the distances before the last pruning, up to rounding",
        )


def check_record(checks: Checks, folder: Path, model: PlainModel | None) -> dict[str, Any] | None:
    """Check the model and the other files against what the run recorded at its end."""
    path = folder / "record.json"
    if not path.exists():
        checks.expect("record.json", False, "no such file", _RECORD_EXPECTED)
        return None
    record: dict[str, Any] | None = None
    with checks.guarding("record.json", "the record that the run wrote at its end"):
        content: dict[str, Any] = read_plain_json(path.read_text(encoding="utf-8"))
        files = {"model": "model.safetensors", "config": "config.toml", "metrics": "metrics.jsonl"}
        for key, name in files.items():
            recorded, found = content["sha256"][key], "no such file"
            if (folder / name).exists():
                found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            checks.expect(
                f"record.json: {name}",
                found == recorded,
                f"SHA-256 {found[:16]}…" if found != "no such file" else found,
                f"{recorded[:16]}…, as recorded at the end of the run",
            )
        if model is not None:
            _compare(checks, content, model)
        record = content
    return record  # noqa: RET504  (what is damaged ends the block)


def _compare(checks: Checks, record: dict[str, Any], model: PlainModel) -> None:
    description = model.description
    facts = {
        "iteration": (model.iteration, record["iteration"]),
        "steps": (description["steps"], record["steps"]),
        "knots": (model.knots, record["knots"]),
        "tasks": (list(model.tasks), record["tasks"]),
        "epsilon": (model.epsilon, float(record["epsilon"])),
    }
    wrong = [
        f"{name} {found}, not {said}" for name, (found, said) in facts.items() if found != said
    ]
    if not same_kernel(description["kernel"], record["kernel"]):
        wrong.append(f"kernel {description['kernel']}, not {record['kernel']}")
    checks.expect(
        "record.json: what was learned",
        not wrong,
        "; ".join(wrong) or f"iteration {model.iteration}, {model.knots} knots",
        "iteration, steps, knots, tasks, ε and kernel as recorded",
    )
    for name, squares, errors in (
        ("norms", model.squared_norms, model.norm_errors),
        ("distances", model.squared_distances, model.distance_errors),
    ):
        recorded = np.array(record[name], dtype=np.float64)
        fits = recorded.shape == squares.shape
        # Both sides round, so twice the bound for one.
        excess = np.abs(squares - recorded**2) if fits else np.array([math.inf])
        apart = np.max(np.abs(np.sqrt(squares) - recorded)) if fits else math.inf
        checks.expect(
            f"record.json: {name}",
            bool(fits and np.all(excess <= 2.0 * errors)),
            f"farthest from the recorded ones: {apart:.2g}",
            f"the {name} of all functions, computed again, as recorded",
        )


def _plain(value: Any) -> Any:
    """Return a setting as TOML and JSON hold it alike: infinities as words, lists as lists."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(float(value)) if math.isinf(value) or value != value else float(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value
