"""Replay: train a run again from its seed and compare it byte for byte."""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from crosslearning.certificates.verification import Check, Checks, Verification
from crosslearning.certificates.verification.checks import read_plain_file
from crosslearning.errors import CrossLearningError, NumericalError
from crosslearning.learner import CrossLearner, IterationReport
from crosslearning.learner.internals import choose_method
from crosslearning.learner.user_input import Length
from crosslearning.runs import RunFolder
from crosslearning.runs.metrics import Averages
from crosslearning.runs.system_info import differences

#: Metrics whose numbers differ by less, relatively or absolutely, are said to agree.
_ALIKE = 1e-6


def replay_run(
    run: str | Path,
    verification: Verification,
    console: Console | None = None,
    tasks: str | None = None,
    around: str | None = None,
) -> list[Check]:
    """Train a run again, in memory, and compare its model, checkpoints and metrics.

    Its folder is not changed. If the run was made on another system (see
    :mod:`crosslearning.runs.system_info`), equal bits pass, and other bits are not comparable.
    ``tasks`` and ``around`` are those of ``RunFolder.open``.
    """
    checks = Checks()
    try:
        _replay(checks, RunFolder.open(run, tasks, around), verification, console)
    except CrossLearningError as problem:
        checks.expect("replay", False, str(problem), "the run can be trained again")
        if not isinstance(problem, NumericalError):
            return checks[-1:]
    elsewhere = differences(systems_of(run, verification))
    return [_incomparable(check, elsewhere) if elsewhere else check for check in checks]


def systems_of(run: str | Path, verification: Verification) -> tuple[dict[str, Any], ...]:
    """Return the systems that the run was computed on, by its folder and its record."""
    systems, made = RunFolder(run).systems(), (verification.record or {}).get("made_with")
    return (*systems, made) if isinstance(made, dict) and made not in systems else tuple(systems)


def _incomparable(check: Check, elsewhere: str) -> Check:
    """Turn a failed check into one that is not possible on this system."""
    if check.status != "fail":
        return check
    found = f"{check.found}; not comparable here, made on {elsewhere}"
    expected = "a replay on the system that made the run: only there must the bits be the same"
    return dataclasses.replace(check, status="not possible", found=found, expected=expected)


def _replay(
    checks: Checks, folder: RunFolder, verification: Verification, console: Console | None
) -> None:
    config, finished = folder.config(), verification.finished
    source, kept = folder.path / verification.source, folder.checkpoints()
    # A run that did not start from zero begins with its oldest checkpoint.
    if not folder.has_start:
        learner = config.learner(tasks=folder.source())
    elif kept:
        learner = folder.load_file(kept[0][1], **config.how())
    else:
        reason = "the run did not start from zero, and no checkpoint of it is left to begin with"
        checks.expect("replay", "not possible", reason, "train it again from where it started")
        return
    first = learner.iteration
    stages = _stages(source, config.length if finished else None)
    if stages[0][0].unit == "steps":  # of which the initial exploration is a share
        choose_method(learner, stages[0][0].amount)
    saved = {k: p for k, p in kept if p != source and k > first}
    logged = {k: line for line in verification.metrics if (k := line["iteration"]) > first}
    averages = Averages([task.name for task in learner.tasks])
    different: list[int] = []
    unlike: list[int] = []
    with tempfile.TemporaryDirectory() as place:
        again = Path(place) / "again.safetensors"

        def after(report: IterationReport) -> None:
            averages.add(report)
            # A line averages since the line before, which an interruption may have written.
            if report.iteration in logged:
                line = json.loads(json.dumps(averages.line(learner.steps)))
                # A run of an earlier version has fewer fields.
                old = {k: v for k, v in logged[report.iteration].items() if k in line}
                if old != {k: line[k] for k in old}:
                    different.append(report.iteration)
                    if not _alike(old, line):
                        unlike.append(report.iteration)
            if report.iteration in saved:
                _compare(checks, learner, saved[report.iteration], again, "checkpoints/")

        with closing(learner):
            for length, end in stages:

                def reached(_: IterationReport, end: int | None = end) -> bool:
                    return learner.iteration == end

                if end is None or learner.iteration < end:
                    left = length.left(learner)
                    learner.learn(callback=[after, reached], progress=console or False, **left)
        _compare(checks, learner, source, again, "" if finished else "checkpoints/")
    if finished:
        missing = [k for k in logged if k > learner.iteration]
        different, unlike = different + missing, unlike + missing
    found = f"{sum(k <= learner.iteration for k in logged)} lines the same"
    found += f", from iteration {first} on" if first else ""
    if different:
        alike = sum(k < min(unlike, default=math.inf) for k in logged)
        found = (
            f"other numbers at iteration {min(different)}, {len(different)} lines; the first "
            f"{alike} of {len(logged)} lines agree within {_ALIKE:g}"
        )
    expected = "every line as the replay gives it"
    checks.expect("replay: metrics.jsonl", not different, found, expected)


def _stages(source: Path, length: Length | None) -> list[tuple[Length, int | None]]:
    """Return the lengths that a run was given, one after the other, each until an iteration.

    None: until it ends by itself. ``length`` is that of a finished run.
    """
    description = read_plain_file(source).description
    last = description["iteration"]
    limits = description.get("step_limits") or [[0, None]]
    ends = [begin for begin, _ in limits[1:]] + [last]
    stages: list[tuple[Length, int | None]] = [
        (Length("iterations", end) if most is None else Length("steps", most), end)
        for (_, most), end in zip(limits, ends, strict=True)
    ]
    return stages if length is None else [*stages[:-1], (length, None)]


def _alike(old: Any, new: Any) -> bool:
    """Return whether all numbers of two lines of metrics nearly agree."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(name in new and _alike(value, new[name]) for name, value in old.items())
    if isinstance(old, int | float) and isinstance(new, int | float):
        return math.isclose(old, new, rel_tol=_ALIKE, abs_tol=_ALIKE)
    return bool(old == new)


def _compare(checks: Checks, learner: CrossLearner, path: Path, again: Path, place: str) -> None:
    learner.save(again)
    same = again.read_bytes() == path.read_bytes()
    found = "the same bytes" if same else "other bytes"
    if not same and same_numbers(path, again):
        same, found = True, "the same numbers, in the format of another version"
    expected = "the file that training again gives, byte for byte"
    checks.expect(f"replay: {place}{path.name}", same, found, expected)


def same_numbers(one: Path, other: Path) -> bool:
    """Return whether two files of learners differ only in their formats."""
    files = [read_plain_file(path) for path in (one, other)]
    arrays = [{name.removeprefix("method."): a for name, a in f.arrays.items()} for f in files]
    versions = [file.description.pop("version") for file in files]
    settings = [file.description.pop("settings") for file in files]

    def agree(some: dict[str, Any], others: dict[str, Any]) -> bool:
        return all(some[name] == others[name] for name in some.keys() & others.keys())

    return (
        versions[0] != versions[1]
        and arrays[0].keys() == arrays[1].keys()
        and all(np.array_equal(a, arrays[1][name]) for name, a in arrays[0].items())
        and agree(*settings)
        and agree(files[0].description, files[1].description)
    )
