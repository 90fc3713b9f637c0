"""One policy to one target: made, checked against Python, then written beside its contract."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning import __version__
from crosslearning.errors import InputError, unknown_name
from crosslearning.export.check import Agreement, compare, expected_actions
from crosslearning.export.targets import PRECISIONS, TARGETS, Precision, Target
from crosslearning.files import document, write_atomically
from crosslearning.learner import Policy
from crosslearning.learner.policy import FILE_KIND, FILE_VERSION

CONTRACT_KIND, CONTRACT_VERSION = "contract", 1


@dataclass(frozen=True)
class Export:
    """What was written.

    Attributes
    ----------
    files : tuple of Path
        The contract last.
    agreement : Agreement or None
        How far it is from the policy; None if it could not be run here.
    size : int or None
        Of C: bytes of code and constants on this machine, if it could be compiled.
    seconds : float or None
        Of C: processor time of an action on this machine.
    """

    files: tuple[Path, ...]
    agreement: Agreement | None
    size: int | None = None
    seconds: float | None = None


def export_policy(
    policy: Policy,
    to: Target,
    out: str | Path,
    precision: Precision = "double",
    run: Mapping[str, Any] | None = None,
) -> Export:
    """Write a policy for another language, after it was seen to do the same as in Python.

    It takes observations as they come from the environment, flat, and returns actions as the
    environment takes them: scaled and clipped, without noise.

    Parameters
    ----------
    policy : Policy
    to : str
        ``"onnx"``, ``"c"`` or ``"json"``.
    out : str or Path
        The file; of C the source, beside which the header is put. The contract is beside it too.
    precision : str
        ``"double"`` or ``"float"``: of every number, the observations and actions included.
    run : mapping, optional
        What the contract is to say of where the policy comes from.
    """
    if to not in TARGETS:
        raise unknown_name("target", str(to), TARGETS)
    if precision not in PRECISIONS:
        raise unknown_name("precision", str(precision), PRECISIONS)
    path = _path(out, to)
    size = seconds = None
    if to == "c":
        contents, agreement, size, seconds = _c(policy, path.stem, precision)
    elif to == "onnx":
        contents, agreement = _onnx(policy, path.name, precision)
    else:
        contents, agreement = _json(policy, path.name, precision)
    contract = document(
        CONTRACT_KIND,
        CONTRACT_VERSION,
        {
            "crosslearning": __version__,
            "target": to,
            "precision": precision,
            "policy": policy.name,
            "policy_sha256": document(FILE_KIND, FILE_VERSION, policy.to_dict())["sha256"],
            "run": None if run is None else dict(run),
            "observations": policy.observations.to_dict(),
            "actions": policy.actions.to_dict(),
            "rate": policy.rate,
            "knots": len(policy.plain.knots),
            "largest_difference": None if agreement is None else agreement.difference,
            "files": {
                name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
            },
        },
    )
    contents[f"{path.name}.contract.json"] = f"{json.dumps(contract, indent=2)}\n".encode()
    for name, content in contents.items():
        write_atomically(path.parent / name, content)
    files = tuple(path.parent / name for name in contents)
    return Export(files, agreement, size, seconds)


def _path(out: str | Path, to: Target) -> Path:
    path = Path(out)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, such as {path}/policy.{to}")
    if path.suffix not in ("", f".{to}"):
        raise InputError(f"{path} does not end in .{to}, as a file of this kind should")
    return path.with_name(f"{path.stem}.{to}")


def _c(
    policy: Policy, name: str, precision: Precision
) -> tuple[dict[str, bytes], Agreement | None, int | None, float | None]:
    from crosslearning.export.c_compiler import Compiled, compile_and_run, find_compiler
    from crosslearning.export.c_source import c_files

    files, compiler = c_files(policy, name, precision), find_compiler()
    contents = {file: text.encode() for file, text in files.items()}
    if compiler is None:
        return contents, None, None, None
    made: list[Compiled] = []

    def act(states: NDArray[np.floating]) -> NDArray[np.floating]:
        made.append(compile_and_run(compiler, files, states))
        return made[-1].actions

    agreement = compare(policy, act, precision)
    return contents, agreement, made[-1].size, made[-1].seconds


def _onnx(
    policy: Policy, name: str, precision: Precision
) -> tuple[dict[str, bytes], Agreement | None]:
    from crosslearning.export.onnx_graph import onnx_model, run_onnx

    content = onnx_model(policy, precision)
    return {name: content}, compare(policy, lambda states: run_onnx(content, states), precision)


def _json(
    policy: Policy, name: str, precision: Precision
) -> tuple[dict[str, bytes], Agreement | None]:
    if precision != "double":
        raise InputError("JSON holds double precision; leave out --precision float")
    text = json.dumps(document(FILE_KIND, FILE_VERSION, policy.to_dict()), allow_nan=False)
    again = Policy.from_dict(json.loads(text))
    agreement = compare(policy, lambda states: expected_actions(again, states), precision)
    return {name: f"{text}\n".encode()}, agreement
