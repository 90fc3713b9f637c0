"""Verification of a run from its files alone, by a path of its own.

The library's readers and numerics are not used: the bytes are read, the kernels computed and
the distances taken again by plain NumPy in this module and those that it calls. So an edited
or damaged file is found, and so is an error of the library's own.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crosslearning.certificates.verification.checks import Check, Checks
from crosslearning.certificates.verification.model import (
    Formula,
    PlainModel,
    check_file,
    check_model,
)
from crosslearning.certificates.verification.plain_files import read_plain_json
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
    """What the files of a run say by themselves.

    Attributes
    ----------
    run : str
        The run's folder.
    source : str
        The file that was taken as the model, relative to the run.
    finished : bool
        Whether that is the finished model; else it is the newest checkpoint.
    checks : tuple of Check
    model : PlainModel or None
        Norms and distances computed anew, if the file could be read.
    config : dict
        The fields of ``config.toml``; empty if it could not be read.
    metrics : list of dict
        The readable lines of metrics.
    record : dict or None
        The run's record, if there is one.
    """

    run: str
    source: str
    finished: bool
    checks: tuple[Check, ...]
    model: PlainModel | None
    config: dict[str, Any]
    metrics: list[dict[str, Any]]
    record: dict[str, Any] | None

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked for: as the model says, or else the configuration."""
        return self.config if self.model is None else self.model.settings

    @property
    def reached(self) -> list[dict[str, Any]]:
        """The metrics up to the model; a run that has not ended may have logged more."""
        last = np.inf if self.model is None else self.model.iteration
        return [line for line in self.metrics if line["iteration"] <= last]

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check.name for check in self.checks if check.status == "fail"]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed


def verify_run(run: str | Path, formula: Formula | None = None) -> Verification:
    """Check the files of a run against one another and against the mathematics.

    Parameters
    ----------
    run : str or Path
        The run's folder.
    formula : callable, optional
        For a kernel of your own formula, which no file holds: points (n, q) to the matrix of
        its values, shape (n, n).

    Returns
    -------
    Verification
        Whatever the files hold; only a folder without any file of a run is an error.
    """
    folder = Path(run)
    names = ("config.toml", "model.safetensors", "record.json", "metrics.jsonl")
    if not any((folder / name).exists() for name in names):
        raise InputError(f"{run} holds no run: there is no config.toml in it")
    # What overflows is not finite, and fails where it is compared.
    with np.errstate(all="ignore"):
        return _verify(folder, formula)


def _verify(folder: Path, formula: Formula | None) -> Verification:
    checks = Checks()
    config = _read_settings(checks, folder)
    source, finished = _source(checks, folder)
    model = None
    if source is not None:
        content = check_file(checks, source, source.name)
        if content is not None:
            model = check_model(checks, content, source.name, formula)
    started = model is None or model.iteration > 0
    lines = read_metrics(checks, folder / "metrics.jsonl") if started else []
    if model is not None:
        with checks.guarding("config.toml", "the fields of a run"):
            check_config(checks, model, config, finished)
        if lines:
            with checks.guarding("metrics.jsonl", "the fields of a line of metrics"):
                check_metrics(checks, lines, model, config, finished)
    record = None
    if finished:
        record = check_record(checks, folder, model)
    else:
        checks.impossible(
            "record.json",
            "it is written at the end of a run, and this one has not ended",
            f"'crosslearning resume {folder}', then certify again",
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
        version = read_plain_json((folder / "run.json").read_text(encoding="utf-8"))["version"]
        checks.expect(
            "run.json", version == _FOLDER_VERSION, f"version {version}", f"{_FOLDER_VERSION}"
        )
    with checks.guarding("config.toml: readable", "a TOML file with all fields of a run"):
        config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
        checks.expect(
            "config.toml: readable", True, f"{len(config)} fields", "a TOML file with fields"
        )
    return config


def _source(checks: Checks, folder: Path) -> tuple[Path | None, bool]:
    """Return the file to certify, and whether it is the finished model."""
    model = folder / "model.safetensors"
    if model.exists():
        return model, True
    if (folder / "record.json").exists():
        checks.expect(
            "model.safetensors: there",
            False,
            "no such file",
            "a model: the run recorded that it finished",
        )
        return None, True
    found = [path for path in (folder / "checkpoints").glob("*") if _NUMBERED.fullmatch(path.name)]
    if not found:
        checks.expect(
            "model.safetensors: there",
            False,
            "neither a model nor a checkpoint",
            f"one of them; 'crosslearning resume {folder}' makes them",
        )
        return None, False
    return max(found, key=lambda path: int(path.stem.split("-")[1])), False


def _check_other(checks: Checks, path: Path, config: dict[str, Any]) -> None:
    """Check a checkpoint or a snapshot: whole, and of this run."""
    label = f"{path.parent.name}/{path.name}"
    content = check_file(checks, path, label)
    if content is None:
        return
    with checks.guarding(label, "what the run's other files say"):
        match = _NUMBERED.fullmatch(path.name)
        settings = content.description.get("settings")
        if settings is not None and match is not None:
            found = float(settings["epsilon"]), content.description["iteration"]
            asked = float(config["epsilon"]), int(match[1])
            checks.expect(
                f"{label}: of this run",
                found == asked and settings["seed"] == config["seed"],
                f"ε = {found[0]:g}, iteration {found[1]}, seed {settings['seed']}",
                f"ε = {asked[0]:g}, iteration {asked[1]}, seed {config['seed']}",
            )
