"""Export of a policy: made, checked against Python, then written with its contract."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning import __version__
from crosslearning._base.files import document, write_atomically
from crosslearning.errors import InputError, MissingExtraError, NumericalError, unknown_name
from crosslearning.export import Precision, Target
from crosslearning.export.program import TYPES
from crosslearning.export.states import expected_actions, sensible_ends, states_for
from crosslearning.learner import Policy
from crosslearning.learner.policy import FILE_KIND, FILE_VERSION

if TYPE_CHECKING:  # a policy is exported without tasks and compilers, which these need
    from crosslearning.export.budget import Pruning
    from crosslearning.learner.deployment import LearnedController
    from crosslearning.tasks.loop_spec import LoopSpec

    _Exported = Policy | LearnedController

CONTRACT_KIND, CONTRACT_VERSION = "contract", 1

#: An export: from states (n, q), or a controller's arguments, to actions (n, p).
Act = Callable[[NDArray[np.floating]], NDArray[np.floating]]

#: The largest difference of an export, as a share of the action's range or of one unit.
TOLERANCES = {"double": 1e-9, "float": 1e-5}


@dataclass(frozen=True)
class Agreement:
    """The largest difference of an export from its policy."""

    states: int  #: the number of states
    difference: float  #: the largest difference of an action
    share: float  #: the same as a share of that action's range

    def __str__(self) -> str:
        return (
            f"largest difference {self.difference:.2g} in {self.states} states "
            f"({self.share:.2g} of the action's range)"
        )


@dataclass(frozen=True)
class Export:
    """The files of an export, and its measurements."""

    files: tuple[Path, ...]  #: the contract last
    agreement: Agreement | None  #: with the policy; None if it could not be run here
    arithmetic: Precision  #: double where single precision was requested but not enough
    size: int | None = None  #: of C: bytes of code and constants, if it was compiled here
    seconds: float | None = None  #: of C: processor time per action here
    pruning: Pruning | None = None  #: to the budget, if it was needed
    platform: str | None = None  #: of an FMU: what its library is for; None if it has sources alone


def export_policy(
    policy: Policy | LearnedController,
    to: Target,
    out: str | Path,
    precision: Precision = "double",
    run: Mapping[str, Any] | None = None,
    largest_seen: ArrayLike | None = None,
    max_knots: int | None = None,
    max_bytes: int | None = None,
) -> Export:
    """Write a policy for another language, after a check against Python.

    It takes the environment's observations, flat, and returns its actions, scaled and clipped,
    without noise. Discrete actions are the numbers of the options with the greatest scores.

    Parameters
    ----------
    policy : Policy or LearnedController
        A policy is a function without memory; of tasks with a controller, lags or set-points it
        is the correction alone. A learned controller is exported with all of these, except to
        ONNX, which has no memory and holds its correction.
    to : str
        ``"c"``, ``"fmu"``, ``"st"`` (Structured Text), ``"onnx"`` or ``"json"``.
    out : str or Path
        The file; of C the source. The header and the contract are written beside it.
    precision : str
        ``"double"`` or ``"float"``, of every number. Where large weights cancel and single
        precision is not enough, observations and actions are floats, and doubles in between.
    run : mapping, optional
        The origin of the policy, for the contract.
    largest_seen : array_like, shape (p,), optional
        For the contract: the largest changes of a controller's actions that were measured.
    max_knots, max_bytes : int, optional
        A budget for small machines: the policy is pruned to so many knots, or to so many bytes of
        knots and weights; ``Export.pruning`` bounds how far any action changes in any state.

    Examples
    --------
    >>> from crosslearning import CrossLearner
    >>> from crosslearning.export import export_policy
    >>> policy = CrossLearner("paper").learn(20, progress=False).central
    >>> export_policy(policy, "st", "drive.st", max_knots=10).pruning.knots
    10
    """
    if to not in get_args(Target):
        raise unknown_name("target", str(to), get_args(Target))
    if precision not in get_args(Precision):
        raise unknown_name("precision", str(precision), get_args(Precision))
    path = Path(out)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, such as {path}/policy.{to}")
    if path.suffix not in ("", f".{to}"):
        raise InputError(f"{path} does not end in .{to}, as a file of this kind should")
    path = path.with_name(f"{path.stem}.{to}")
    exported, about = policy, dict[str, Any]()
    if not isinstance(policy, Policy):
        # Without memory and controller a policy is all there is; its limits are its own.
        looped = has_loop(policy.loop.spec)
        exported = policy if looped and to != "onnx" else policy.policy
        if looped:
            about = loop_of_contract(policy, exported is policy, largest_seen)
        policy = policy.policy
    tries: tuple[Precision, ...] = (precision, "double")
    for arithmetic in dict.fromkeys(tries):
        within, pruning = exported, None
        if max_knots is not None or max_bytes is not None:
            from crosslearning.export.budget import prune_to_budget

            within, pruning = prune_to_budget(exported, max_knots, max_bytes, arithmetic)
        contents, act, cost = _DRAFTS[to](within, path, precision, arithmetic)
        agreement = None if act is None else measure(within, act, precision)
        problem = None if agreement is None else disagreement(agreement, precision)
        if problem is None:
            break
    if problem is not None:
        raise problem
    if pruning is not None:
        about["pruning"] = {**pruning.to_dict(), "policy_sha256": _digest(exported)}
    exported, policy = within, within if isinstance(within, Policy) else within.policy
    contract_path = path.with_name(f"{path.name}.contract.json")
    if not contract_path.exists():
        # Only an earlier export, which has a contract, is overwritten.
        for other in filter(Path.exists, map(path.with_name, contents)):
            raise InputError(f"{other} is there and is no export of a policy; choose another name")
    if policy.choices is not None:
        about["choices"] = policy.choices.to_dict()
    signals = policy.observations, policy.outputs
    if not isinstance(exported, Policy):
        from crosslearning.export.signals import machine_signals

        signals = machine_signals(exported)
    contract = document(
        CONTRACT_KIND,
        CONTRACT_VERSION,
        {
            "crosslearning": __version__,
            "target": to,
            "precision": precision,
            "arithmetic": arithmetic,
            "policy": policy.name,
            "policy_sha256": _digest(exported),
            "run": None if run is None else dict(run),
            "observations": signals[0].to_dict(),
            "actions": signals[1].to_dict(),
            "rate": policy.rate,
            **about,
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
    files = tuple(path.parent / name for name in contents)
    return Export(files, agreement, arithmetic, pruning=pruning, **cost)


# Each target returns the contents of files by name, a function that runs them, or None if that
# cannot be done here, and what running them cost.
_Draft = tuple[dict[str, bytes], Act | None, dict[str, Any]]


def _sources(
    policy: _Exported, name: str, precision: Precision, arithmetic: Precision
) -> tuple[dict[str, str], list[int]]:
    """Return the sources in C, and the lengths of the arguments of a controller with a state."""
    if isinstance(policy, Policy):
        from crosslearning.export.c_source import c_files

        return c_files(policy, name, precision, arithmetic), []
    from crosslearning.export.c_loop import c_loop_files
    from crosslearning.export.episodes import arguments_of

    return c_loop_files(policy, name, precision, arithmetic), arguments_of(policy)


def _c(policy: _Exported, path: Path, precision: Precision, arithmetic: Precision) -> _Draft:
    from crosslearning.export.c_compiler import compile_and_run, find_compiler

    files, arguments = _sources(policy, path.stem, precision, arithmetic)
    compiler = find_compiler()
    cost: dict[str, Any] = {}

    def act(rows: NDArray[np.floating]) -> NDArray[np.floating]:
        assert compiler is not None
        ran = compile_and_run(compiler, files, rows, arguments=arguments)
        cost.update(size=ran.size, seconds=ran.seconds)
        return ran.actions

    contents = {file: text.encode() for file, text in files.items()}
    return contents, None if compiler is None else act, cost


def _fmu(policy: _Exported, path: Path, precision: Precision, arithmetic: Precision) -> _Draft:
    from crosslearning.export.c_compiler import compile_library, find_compiler
    from crosslearning.export.fmu import fmu_archive, fmu_sources, run_fmu, this_platform, validate
    from crosslearning.export.signals import ports_of

    if isinstance(policy, Policy):
        rate = policy.rate
    else:  # integrals count in the rate of the loop
        rate = policy.loop.spec.rate or policy.policy.rate
    files, arguments = _sources(policy, path.stem, precision, arithmetic)
    given = path.stem, ports_of(policy), arguments, (precision, rate)
    sources, description = fmu_sources(files, *given)
    compiler = find_compiler()
    library = None if compiler is None else compile_library(compiler, sources)
    content = fmu_archive(path.stem, sources, description, library)
    if library is None:
        return {path.name: content}, None, {}
    validate(content)

    def act(rows: NDArray[np.floating]) -> NDArray[np.floating]:
        return run_fmu(library, description, rows, bool(arguments), rate)

    known = this_platform()
    return {path.name: content}, act, {"platform": None if known is None else known[0]}


def _st(policy: _Exported, path: Path, precision: Precision, arithmetic: Precision) -> _Draft:
    from crosslearning.export.structured_text import compile_text, run_text, structured_text

    text = structured_text(policy, path.stem, precision, arithmetic)
    compile_text(text)
    has_state = not isinstance(policy, Policy)
    return {path.name: text.encode()}, lambda rows: run_text(text, rows, has_state), {}


def _onnx(policy: Policy, path: Path, precision: Precision, arithmetic: Precision) -> _Draft:
    try:
        from crosslearning.export.onnx_graph import onnx_model, run_onnx
    except ImportError as problem:
        raise MissingExtraError(
            f"ONNX needs packages that are not here ({problem}); install the extra: "
            "pip install 'crosslearning[onnx]'"
        ) from problem
    content = onnx_model(policy, precision, arithmetic)
    return {path.name: content}, lambda states: run_onnx(content, states), {}


def _json(policy: _Exported, path: Path, precision: Precision, arithmetic: Precision) -> _Draft:
    if precision != "double":
        raise InputError("JSON holds double precision; leave out --precision float")
    text = json.dumps(document(FILE_KIND, FILE_VERSION, _plain(policy)), allow_nan=False)
    if not isinstance(policy, Policy):
        from crosslearning.export.episodes import run_episodes, without_code
        from crosslearning.learner.deployment import LearnedController

        code = without_code(policy).loop.spec.controller
        read = LearnedController.from_document(json.loads(text), code)
        content = {path.name: f"{text}\n".encode()}
        return content, lambda rows: _sent(read.policy, run_episodes(read, rows)), {}
    again = Policy.from_dict(json.loads(text))
    content = {path.name: f"{text}\n".encode()}
    return content, lambda states: _sent(again, expected_actions(again, states)), {}


def _sent(policy: Policy, vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return actions, or the numbers of the options that scores (n, p) choose."""
    return vectors if policy.choices is None else policy.choices.listed(vectors).astype(np.float64)


def _plain(policy: _Exported) -> dict[str, Any]:
    return policy.to_dict() if isinstance(policy, Policy) else policy.document()


def _digest(policy: _Exported) -> str:
    return str(document(FILE_KIND, FILE_VERSION, _plain(policy))["sha256"])


_DRAFTS: dict[Target, Callable[..., _Draft]] = {
    "c": _c,
    "onnx": _onnx,
    "json": _json,
    "fmu": _fmu,
    "st": _st,
}


def has_loop(spec: LoopSpec) -> bool:
    """Return whether a loop does more than limit a policy's actions, as the policy does itself."""
    keeps = spec.lags or spec.past_actions or spec.setpoints or spec.rates is not None
    return bool(keeps) or spec.controller is not None


def loop_of_contract(
    controller: LearnedController, inside: bool, largest_seen: ArrayLike | None
) -> dict[str, Any]:
    """Return what a contract says of a controller's loop, and whether the export holds it."""
    change = controller.change
    seen = None if largest_seen is None else np.ravel(np.asarray(largest_seen, dtype=np.float64))
    return {
        "part": "controller" if inside else "correction",
        "loop": controller.loop.spec.to_dict(),
        "change": {
            "largest_possible": None if change is None else change.tolist(),
            "largest_seen": None if seen is None else seen.tolist(),
        },
    }


# The check --------------------------------------------------------------------------------


def measure(policy: _Exported, act: Act, precision: Precision, **sizes: int) -> Agreement:
    """Return the agreement of an export with the policy, in states, or in whole episodes."""
    choices = (policy if isinstance(policy, Policy) else policy.policy).choices
    if isinstance(policy, Policy):
        states, (low, high) = states_for(policy).astype(TYPES[precision]), policy.actions.ends
        actions, expected = act(states), expected_actions(policy, states)
    else:
        from crosslearning.export.episodes import random_episodes, run_episodes
        from crosslearning.export.signals import machine_signals

        ends, (low, high) = sensible_ends(policy.policy), machine_signals(policy)[1].ends
        states = random_episodes(policy, ends, **sizes).astype(TYPES[precision])
        actions = act(states)
        expected = run_episodes(policy, states, None if choices else actions)
    if choices is not None:
        # Where the best scores are all but equal, either option will do.
        difference, spread = choices.shortfalls(expected, actions), np.ptp(expected)
        share = difference / max(1.0, float(spread))
        return Agreement(len(states), float(np.max(difference)), float(np.max(share)))
    difference = np.abs(np.asarray(actions, dtype=np.float64) - expected)
    width = high - low
    unit = np.where(np.isfinite(width) & (width > 0.0), width, 1.0)
    # Actions without bounds are measured by their range.
    unit = np.where(np.isfinite(width), unit, np.maximum(1.0, np.ptp(expected, axis=0)))
    share = difference / (np.maximum(1.0, unit) if precision == "double" else unit)
    return Agreement(len(states), float(np.max(difference)), float(np.max(share)))


def disagreement(agreement: Agreement, precision: Precision) -> NumericalError | None:
    """Return the error for an export beyond the tolerance of its precision, as NaN is."""
    if agreement.share <= TOLERANCES[precision]:
        return None
    remedy = "this is an error of crosslearning's: please report it with the policy"
    if precision == "float" and math.isfinite(agreement.share):
        remedy = "its actions are too large for single precision: export it with --precision double"
    return NumericalError(
        f"the export does not do what the policy does: {agreement}, at most "
        f"{TOLERANCES[precision]:g} of the range is allowed; {remedy}. Nothing was written"
    )
