"""Verification of a run from its files alone, independent of the library's readers and numerics.

So it finds damaged and edited files, and also errors of the library.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.certificates.verification.checks import Check, Checks
from crosslearning.certificates.verification.model import Formula, PlainModel, check_model
from crosslearning.certificates.verification.plain_files import (
    PlainFile,
    read_plain_file,
    read_plain_json,
)
from crosslearning.certificates.verification.records import (
    check_config,
    check_metrics,
    check_record,
    read_metrics,
)
from crosslearning.errors import InputError

_FOLDER_VERSION = 1
_NUMBERED = re.compile(r"iteration-(\d+)\.safetensors")


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
        For a kernel of your own formula, which no file holds: points (n, q) to the matrix of
        its values, shape (n, n).
    """
    folder = Path(run)
    names = ("config.toml", "model.safetensors", "record.json", "metrics.jsonl")
    if not any((folder / name).exists() for name in names):
        raise InputError(f"{run} holds no run: there is no config.toml in it")
    # A number that overflows is not finite, and fails where it is compared.
    with np.errstate(all="ignore"):
        return _verify(folder, formula)


def _verify(folder: Path, formula: Formula | None) -> Verification:
    checks = Checks()
    config = _read_settings(checks, folder)
    source, finished = _source(checks, folder)
    content = None if source is None else _check_file(checks, source, source.name)
    model = None
    if source is not None and content is not None:
        model = check_model(checks, content, source.name, formula)
    started = model is None or model.iteration > 0
    lines = read_metrics(checks, folder / "metrics.jsonl") if started else []
    if model is not None:
        with checks.guarding("config.toml", "the fields of a run"):
            check_config(checks, model, config, finished)
        if lines:
            with checks.guarding("metrics.jsonl", "the fields of a line of metrics"):
                check_metrics(checks, lines, model, config, finished)
    record = check_record(checks, folder, model) if finished else None
    if not finished:
        reason = "it is written at the end of a run, and this one has not ended"
        checks.impossible(
            "record.json", reason, f"'crosslearning resume {folder}', then certify again"
        )
    for place in ("checkpoints", "snapshots"):
        for path in sorted((folder / place).glob("*.safetensors")):
            if path != source:
                _check_other(checks, path, config)
    name = "" if source is None else source.relative_to(folder).as_posix()
    made = tuple(checks.made)
    return Verification(str(folder), name, finished, made, model, config, lines, record)


def _read_settings(checks: Checks, folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = {}
    with checks.guarding("run.json", "the version of the folder's layout"):
        version = read_plain_json(read_bytes(folder / "run.json").decode())["version"]
        checks.expect("run.json", version == _FOLDER_VERSION, f"version {version}", "1")
    name = "config.toml: readable"
    with checks.guarding(name, "a TOML file with all fields of a run"):
        config = tomllib.loads(read_bytes(folder / "config.toml").decode())
        checks.expect(name, True, f"{len(config)} fields", "a TOML file with fields")
    return config


def _source(checks: Checks, folder: Path) -> tuple[Path | None, bool]:
    """Return the file to certify, and whether it is the finished model."""
    model, missing = folder / "model.safetensors", "model.safetensors: there"
    if model.exists():
        return model, True
    if (folder / "record.json").exists():
        expected = "a model: the run recorded that it finished"
        checks.expect(missing, False, "no such file", expected)
        return None, True
    found = [path for path in (folder / "checkpoints").glob("*") if _NUMBERED.fullmatch(path.name)]
    if not found:
        expected = f"one of them; 'crosslearning resume {folder}' makes them"
        checks.expect(missing, False, "neither a model nor a checkpoint", expected)
        return None, False
    return max(found, key=lambda path: int(path.stem.split("-")[1])), False


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
