"""Checks of a run's configuration, metrics and record against its model."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from crosslearning._base.ordinary_files import read_bytes
from crosslearning._base.plain_kernels import same_kernel
from crosslearning.certificates.verification.checks import Checks
from crosslearning.certificates.verification.model import PlainModel
from crosslearning.certificates.verification.plain_files import read_plain_json

#: Per-task fields of every line; other per-task fields belong to the method.
_PER_TASK = ("distance", "multiplier", "return")
#: Fields of every line for the run.
_PLAIN = ("steps", "knots", "pruning_error", "removed", "forced_by_cap", "forced_by_conditioning")
#: Fields that a line has if the line before it has them: early runs do not.
_SINCE = ("pruning_spent", "over_budget", "over_budget_by_cap")
#: Larger numbers are not measured, and would overflow in sums and figures.
_HUGE = 1e150
_NAMED = ("epsilon", "kernel", "max_knots")


def check_config(checks: Checks, model: PlainModel, config: dict[str, Any], finished: bool) -> None:
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
    learned = (description["task_set"], description["task_options"] or {})
    more = f" and {len(model.tasks) - 10} more" if len(model.tasks) > 24 else ""
    found = f"{learned[0]}: {', '.join(model.tasks[:10] if more else model.tasks)}{more}"
    checks.expect("config.toml: tasks", asked == learned, found, f"{asked[0]}, as config.toml says")
    if config.get("kernel") is not None:
        fine = same_kernel(description["kernel"], config["kernel"])
        found = f"the model's kernel is {description['kernel']}"
        expected = f"{config['kernel']}, as config.toml says"
        checks.expect("config.toml: kernel", fine, found, expected)
    early = config.get("alpha") is not None or not finished
    unit = "steps" if "steps" in config else "iterations"
    last, made = int(config[unit]), description["steps"] if unit == "steps" else model.iteration
    if unit == "steps":
        # The last iteration may take more steps than were asked for.
        fine, expected = early or made >= last, f"{'on the way to' if early else 'at least'} {last}"
    else:
        fine = 0 <= made <= last if early else made == last
        expected = f"at most {last}" if early else f"{last}"
    checks.expect(f"config.toml: {unit}", fine, f"the model is at {made}", expected)
    fine = model.knots <= int(config["max_knots"])
    expected = f"at most max_knots = {config['max_knots']}"
    checks.expect("config.toml: knots", fine, f"{model.knots} knots", expected)


def read_metrics(checks: Checks, path: Path) -> list[dict[str, Any]]:
    """Check that the metrics are well formed, and return the lines before the first bad one."""
    lines: list[dict[str, Any]] = []
    expected = "one JSON object of finite numbers a line, iterations increasing"
    with checks.guarding("metrics.jsonl: well formed", expected):
        texts = read_bytes(path).decode().splitlines()
        problem = next(filter(None, (_problem_of(text, lines) for text in texts)), "")
        found = f"line {len(lines) + 1}: {problem}" if problem else f"{len(lines)} lines"
        checks.expect("metrics.jsonl: well formed", bool(lines) and not problem, found, expected)
    return lines


def _problem_of(text: str, lines: list[dict[str, Any]]) -> str:
    """Append a valid line of metrics to ``lines``, or return what is wrong with it."""
    try:
        line = read_plain_json(text)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(line, dict) or not _is_number(line.get("iteration")):
        return "no object with an iteration"
    first, before = (lines[0], lines[-1]) if lines else (line, {})
    lacking = {*_PER_TASK, *_PLAIN, *(set(_SINCE) & set(before))} - set(line)
    if lacking:
        return f"lacks {', '.join(sorted(lacking))}"
    for name, value in line.items():
        table = name in _PER_TASK or isinstance(first.get(name), dict)
        # A field that is neither known nor a table belongs to a later version.
        number_expected = name in _PLAIN + _SINCE and not _is_number(value)
        if number_expected or (table and not isinstance(value, dict)):
            return f"{name} is {value!r}"
        if isinstance(value, dict):
            if list(value) != list(first["distance"]):
                return f"{name} has the tasks {list(value)}, not {list(first['distance'])}"
            for number in value.values():
                # Null stands for infinity, or for a number that was not measured.
                if not _is_number(number) and (number is not None or name == "distance"):
                    return f"{name} is {number!r}"
    if before and line["iteration"] <= before["iteration"]:
        return f"iteration {line['iteration']} after {before['iteration']}"
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
    relaxed = model.settings["projection"] == "relaxed"
    bound = model.epsilon * (math.sqrt(len(model.tasks)) if relaxed else 1.0)
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


def check_record(checks: Checks, folder: Path, model: PlainModel | None) -> dict[str, Any] | None:
    """Check the model and the other files against what the run recorded at its end."""
    path = folder / "record.json"
    if not path.exists():
        expected = "the record that every finished run leaves; --replay tells what it would be"
        checks.expect("record.json", False, "no such file", expected)
        return None
    record: dict[str, Any] | None = None
    with checks.guarding("record.json", "the record that the run wrote at its end"):
        content: dict[str, Any] = read_plain_json(read_bytes(path).decode())
        files = {"model": "model.safetensors", "config": "config.toml", "metrics": "metrics.jsonl"}
        for key, name in files.items():
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


def _plain(value: Any) -> Any:
    """Return a setting in a form common to TOML and JSON: infinities as text, lists as lists."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value
