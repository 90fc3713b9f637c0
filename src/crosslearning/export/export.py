"""Export of a policy: made, checked against Python, then written with its contract."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning import __version__
from crosslearning._base.files import document, write_atomically
from crosslearning.errors import InputError, unknown_name
from crosslearning.export.check import Act, Agreement, compare, expected_actions, is_close, measure
from crosslearning.export.targets import PRECISIONS, TARGETS, Precision, Target
from crosslearning.learner import Policy
from crosslearning.learner.policy import FILE_KIND, FILE_VERSION

CONTRACT_KIND, CONTRACT_VERSION = "contract", 1


@dataclass(frozen=True)
class Export:
    """The files of an export, and its measurements."""

    files: tuple[Path, ...]  #: the contract last
    agreement: Agreement | None  #: with the policy; None if it could not be run here
    arithmetic: Precision  #: double where single precision was requested but not enough
    size: int | None = None  #: of C: bytes of code and constants, if it was compiled here
    seconds: float | None = None  #: of C: processor time per action here


def export_policy(
    policy: Policy,
    to: Target,
    out: str | Path,
    precision: Precision = "double",
    run: Mapping[str, Any] | None = None,
) -> Export:
    """Write a policy for another language, after a check against Python.

    It takes the environment's observations, flat, and returns its actions, scaled and clipped,
    without noise.

    Parameters
    ----------
    policy : Policy
    to : str
        ``"onnx"``, ``"c"`` or ``"json"``.
    out : str or Path
        The file; of C the source. The header and the contract are written beside it.
    precision : str
        ``"double"`` or ``"float"``, of every number. Where large weights cancel and single
        precision is not enough, observations and actions are floats, and doubles in between.
    run : mapping, optional
        The origin of the policy, for the contract.
    """
    if to not in TARGETS:
        raise unknown_name("target", str(to), TARGETS)
    if precision not in PRECISIONS:
        raise unknown_name("precision", str(precision), PRECISIONS)
    path = _path(out, to)
    contents, made = _MAKERS[to](policy, path, precision)
    agreement = made.agreement
    contract_path = path.with_name(f"{path.name}.contract.json")
    if not contract_path.exists():
        # Only an earlier export, which has a contract, is overwritten.
        for other in filter(Path.exists, map(path.with_name, contents)):
            raise InputError(
                f"{other} is there and is no export of a policy; choose another name, so that "
                "nothing is lost"
            )
    contract = document(
        CONTRACT_KIND,
        CONTRACT_VERSION,
        {
            "crosslearning": __version__,
            "target": to,
            "precision": precision,
            "arithmetic": made.arithmetic,
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
    contents[contract_path.name] = f"{json.dumps(contract, indent=2)}\n".encode()
    for name, content in contents.items():
        write_atomically(path.parent / name, content)
    return replace(made, files=tuple(path.parent / name for name in contents))


def _path(out: str | Path, to: Target) -> Path:
    path = Path(out)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, such as {path}/policy.{to}")
    if path.suffix not in ("", f".{to}"):
        raise InputError(f"{path} does not end in .{to}, as a file of this kind should")
    return path.with_name(f"{path.stem}.{to}")


#: The contents of files by name, and an export whose files are not written yet.
_Made = tuple[dict[str, bytes], Export]


def _c(policy: Policy, path: Path, precision: Precision) -> _Made:
    from crosslearning.export.c_compiler import Compiled, compile_and_run, find_compiler
    from crosslearning.export.c_source import c_files

    compiler = find_compiler()
    ran: list[Compiled] = []

    def make(arithmetic: Precision) -> tuple[dict[str, bytes], Act]:
        files = c_files(policy, path.stem, precision, arithmetic)

        def act(states: NDArray[np.floating]) -> NDArray[np.floating]:
            assert compiler is not None
            ran.append(compile_and_run(compiler, files, states))
            return ran[-1].actions

        return {file: text.encode() for file, text in files.items()}, act

    if compiler is None:
        return make(precision)[0], Export((), None, precision)
    contents, made = _precise_enough(policy, precision, make)
    return contents, replace(made, size=ran[-1].size, seconds=ran[-1].seconds)


def _onnx(policy: Policy, path: Path, precision: Precision) -> _Made:
    from crosslearning.export.onnx_graph import onnx_model, run_onnx

    def make(arithmetic: Precision) -> tuple[dict[str, bytes], Act]:
        content = onnx_model(policy, precision, arithmetic)
        return {path.name: content}, lambda states: run_onnx(content, states)

    return _precise_enough(policy, precision, make)


def _json(policy: Policy, path: Path, precision: Precision) -> _Made:
    if precision != "double":
        raise InputError("JSON holds double precision; leave out --precision float")
    text = json.dumps(document(FILE_KIND, FILE_VERSION, policy.to_dict()), allow_nan=False)
    again = Policy.from_dict(json.loads(text))
    agreement = compare(policy, lambda states: expected_actions(again, states), precision)
    return {path.name: f"{text}\n".encode()}, Export((), agreement, precision)


_MAKERS: dict[Target, Callable[[Policy, Path, Precision], _Made]] = {
    "c": _c,
    "onnx": _onnx,
    "json": _json,
}


def _precise_enough(
    policy: Policy,
    precision: Precision,
    make: Callable[[Precision], tuple[dict[str, bytes], Act]],
) -> _Made:
    """Make an export that computes in its own precision or, if that is not enough, in double."""
    if precision == "float":
        contents, act = make("float")
        agreement = measure(policy, act, precision)
        if is_close(agreement, precision):
            return contents, Export((), agreement, "float")
    contents, act = make("double")
    return contents, Export((), compare(policy, act, precision), "double")
