"""The strongest check: train the run again from its seed and compare, byte for byte."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from crosslearning.certificates.verification import Check, Checks, Verification
from crosslearning.certificates.verification.plain_files import read_plain_file
from crosslearning.errors import CrossLearningError
from crosslearning.learner import CrossLearner, IterationReport
from crosslearning.learner.length import Length
from crosslearning.runs import RunFolder
from crosslearning.runs.metrics import Averages
from crosslearning.runs.record import versions


def replay_run(
    run: str | Path, verification: Verification, console: Console | None = None
) -> list[Check]:
    """Train a run again, in memory, and compare what it left with what comes out.

    Nothing in its folder is changed. The checks are of the model's file (or of the newest
    checkpoint), of the other checkpoints and of the lines of metrics.
    """
    checks = Checks()
    try:
        _replay(checks, RunFolder.open(run), verification, console)
    except CrossLearningError as problem:
        return [Check("replay", "fail", str(problem), "the run can be trained again")]
    differ = _versions_differ(verification.record or {})
    return [
        dataclasses.replace(one, found=one.found + differ) if one.status == "fail" else one
        for one in checks.made
    ]


def _versions_differ(record: Mapping[str, Any]) -> str:
    """Say which versions are not those of the run: they may round otherwise."""
    made = record.get("made_with")
    if not isinstance(made, dict):
        return ""
    changed = [(name, now) for name, now in versions().items() if made.get(name) != now]
    other = "; ".join(f"{name} {made.get(name)}, now {now}" for name, now in changed)
    return f" (made with {other}: these may round otherwise)" if other else ""


def _replay(
    checks: Checks, folder: RunFolder, verification: Verification, console: Console | None
) -> None:
    config, finished = folder.config(), verification.finished
    source, lines = folder.path / verification.source, verification.metrics
    # A run that did not start from zero keeps its start as a checkpoint, until later ones take
    # its place: then the oldest that is left is the beginning.
    kept = folder.checkpoints()
    if not folder.has_start:
        learner = config.learner(tasks=folder.source())
    elif kept:
        learner = folder.load_file(kept[0][1], **config.how())
    else:
        reason = "the run did not start from zero, and no checkpoint of it is left to begin with"
        checks.impossible("replay", reason, "train it again from where it started")
        return
    first = learner.iteration
    target = config.length if finished else Length("iterations", int(source.stem.split("-")[1]))
    saved = {k: p for k, p in kept if p != source and k > first}
    logged = {line["iteration"]: line for line in lines if line["iteration"] > first}
    averages = Averages([task.name for task in learner.tasks])
    different: list[int] = []
    with tempfile.TemporaryDirectory() as place:
        again = Path(place) / "again.safetensors"

        def after(report: IterationReport) -> None:
            averages.add(report)
            # A line averages since the one before it, wherever an interruption put that one.
            if report.iteration in logged:
                line = json.loads(json.dumps(averages.line(learner.steps)))
                # A run of an earlier version has fewer fields.
                old = {k: v for k, v in logged[report.iteration].items() if k in line}
                if old != {k: line[k] for k in old}:
                    different.append(report.iteration)
            if report.iteration in saved:
                _compare(checks, learner, saved[report.iteration], again, "checkpoints/")

        with closing(learner):
            learner.learn(callback=after, progress=console or False, **target.left(learner))
        _compare(checks, learner, source, again, "" if finished else "checkpoints/")
    if finished:
        different += [k for k in logged if k > learner.iteration]
    found = f"{sum(k <= learner.iteration for k in logged)} lines the same"
    found += f", from iteration {first} on" if first else ""
    if different:
        found = f"other numbers at iteration {min(different)}, {len(different)} lines"
    expected = "every line as the replay gives it"
    checks.expect("replay: metrics.jsonl", not different, found, expected)


def _compare(checks: Checks, learner: CrossLearner, path: Path, again: Path, place: str) -> None:
    learner.save(again)
    same = again.read_bytes() == path.read_bytes()
    found = "the same bytes" if same else "other bytes"
    if not same and same_numbers(path, again):
        same, found = True, "the same numbers, in the format of another version"
    expected = "the file that training again gives, byte for byte"
    checks.expect(f"replay: {place}{path.name}", same, found, expected)


def same_numbers(one: Path, other: Path) -> bool:
    """Tell whether two files of learners differ in their formats alone."""
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
