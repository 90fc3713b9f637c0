"""The certificate as a page of text, with a verdict in a few sentences."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from crosslearning._base.files import write_atomically
from crosslearning._base.ordinary_files import read_bytes
from crosslearning._base.plain_data import decode
from crosslearning.certificates import text
from crosslearning.certificates.certificate import Certificate, PruningHistory
from crosslearning.runs.signature import content_signature, is_signature
from crosslearning.runs.system_info import in_words

_Line = TypeVar("_Line")
_PURPOSE, _SIGNATURE = "certificate", "certificate.signature"
_PLACES = ("checkpoints", "snapshots")


def certificate_page(certificate: Certificate) -> str:
    """Return the page that ``crosslearning certify`` prints, 100 columns wide."""
    sections = {
        "Verdict": text.bullets(verdicts(certificate)),
        "1. Integrity, from the files alone": _integrity(certificate),
        "2. The constraint": _constraint(certificate),
        "3. Pruning": _pruning(certificate),
        "4. Stationarity": _stationarity(certificate),
    }
    page = text.page_of(f"Certificate of {certificate.run}", certificate.subtitle, sections)
    more = "What the convergence theorem says of this run, with its constants estimated:"
    return f"{page}\n{more}\n  crosslearning theory {shlex.quote(certificate.run)}\n"


def save_certificate(certificate: Certificate, folder: Path) -> list[Path]:
    """Write ``certificate.txt`` and ``.json``, and their signature; keep earlier ones."""
    page, data = certificate_page(certificate), certificate.to_json()
    written = text.save_page(folder, "certificate", page, data)
    signature = content_signature(_PURPOSE, *_parts(folder))
    if signature is not None:
        write_atomically(folder / _SIGNATURE, signature.encode())
    return written


def kept_certificate(folder: Path) -> tuple[dict[str, Any], str] | None:
    """Return the data and the page of a certificate that this user signed.

    None if there is none, or if it or any file of the run has changed since.
    """
    try:
        parts = _parts(folder)
        given = read_bytes(folder / _SIGNATURE).decode("ascii")
        if not is_signature(given, content_signature(_PURPOSE, *parts)):
            return None
        return decode(parts[1], dict[str, Any], folder), parts[0].decode()
    except (OSError, ValueError):
        return None


def _parts(folder: Path) -> list[bytes]:
    """Return what is signed: the page, the data, and digests of the run's files."""
    run = folder.parent
    names = ("config.toml", "model.safetensors", "record.json", "metrics.jsonl")
    files = [run / name for name in names]
    files += [path for place in _PLACES for path in sorted((run / place).glob("*.safetensors"))]
    digests = [
        f"{path.relative_to(run)}\0".encode("utf-8", "surrogateescape")
        + hashlib.sha256(read_bytes(path)).digest()
        for path in files
        if path.exists()
    ]
    return [*(read_bytes(folder / f"certificate.{end}") for end in ("txt", "json")), *digests]


def verdicts(certificate: Certificate) -> list[str]:
    """Return what is certified and what is not, one sentence or two for each part."""
    texts = [_files_verdict(certificate)]
    if certificate.constraint:
        texts.append(_constraint_verdict(certificate))
    if certificate.pruning is not None:
        texts.append(_pruning_verdict(certificate.pruning))
    return [*texts, _stationarity_verdict(certificate)]


def _files_verdict(certificate: Certificate) -> str:
    failed, impossible = (
        [check.name for check in certificate.checks if check.status == status]
        for status in ("fail", "not possible")
    )
    total = len(certificate.checks)
    if failed:
        named = "; ".join(failed[:6]) + (f"; and {len(failed) - 6} more" if len(failed) > 6 else "")
        return (
            f"Files: NOT CERTIFIED. {len(failed)} of {total} checks failed: {named}. The run was "
            "damaged or edited; restore it from a copy, or train it again."
        )
    summary = f"Files: certified. {total - len(impossible)} of {total} checks passed, none failed"
    if impossible:
        summary += f"; not possible: {', '.join(impossible)}"
    replay = "The run was not trained again (--replay)."
    if any(name.startswith("replay") for name in impossible):
        replay = "Training the run again here proves nothing of its bytes."
    elif certificate.replayed:
        replay = "Training the run again gave the same bytes."
    return f"{summary}. {replay}"


def _constraint_verdict(certificate: Certificate) -> str:
    epsilon = certificate.epsilon
    binding = [line.task for line in certificate.constraint if line.binding]
    if any(c.status == "fail" for c in certificate.checks if c.topic == "constraint"):
        return f"Constraint: NOT CERTIFIED. The bound ε = {epsilon:g} does not hold."
    if epsilon == math.inf:
        return "Constraint: none was asked (ε = ∞)."
    what = "every task policy is, in RKHS norm,"
    if certificate.projection == "relaxed":
        what = "the root mean square of the distances to the central policy is"
    held = f"back {text.some(binding)}"
    if not binding:
        held = "nobody back: a larger ε would not have changed the last iterations"
    return f"Constraint: certified, {what} within ε = {epsilon:g}. It holds {held}."


def _pruning_verdict(pruning: PruningHistory) -> str:
    share, by_cap, budget = pruning.certified_share, pruning.forced_by_cap, f"{pruning.budget:g}"
    forced = by_cap + pruning.forced_by_conditioning
    if forced == 0:
        every = "In every iteration every policy moved by at most the budget"
        return f"Pruning: certified. {every} {budget}."
    held = "" if share is None else f" The budget held in {100 * share:.1f} % of the iterations."
    by = "the cap, not the budget, decides" if pruning.cap_decides else "some were forced"
    remedy = "A larger max_knots or a smaller step would change that."
    if by_cap == 0:
        remedy = "Knots lie too close together; a narrower kernel would change that."
    return (
        f"Pruning: NOT CERTIFIED within the budget {budget}; {by}: {forced} removals broke it "
        f"({by_cap} by the cap of {pruning.max_knots} knots, {pruning.forced_by_conditioning} by "
        f"conditioning), and a policy moved by up to {pruning.largest:.3g} in one iteration.{held} "
        f"{remedy}"
    )


def _stationarity_verdict(certificate: Certificate) -> str:
    if certificate.left_out:
        return f"Stationarity: left out: {certificate.left_out}."
    if certificate.epsilon in (0.0, math.inf):
        return f"Stationarity: the gap says nothing for ε = {certificate.epsilon:g}."
    alpha = certificate.alpha
    if alpha is None:
        gaps = sorted(certificate.gaps, key=lambda gap: -gap.gap.high)
        order = gaps if len(gaps) > text.MANY else certificate.gaps
        smallest = text.some([f"{gap.task} at {gap.gap.high:.4g}" for gap in order])
        return (
            "Stationarity: no alpha was asked for (--alpha). The smallest at which each task is "
            f"certified: {smallest}."
        )
    tasks: dict[str, list[str]] = {"stationary": [], "not stationary": [], "undecided": []}
    for gap in certificate.gaps:
        tasks[gap.verdict(alpha)].append(gap.task)
    if len(tasks["stationary"]) == len(certificate.gaps):
        return f"Stationarity: certified. Every task's gap is at most α = {alpha:g}."
    groups = "; ".join(
        f"{verdict}: {text.some(names)}" for verdict, names in tasks.items() if names
    )
    more = " More samples (--samples) may decide." if tasks["undecided"] else ""
    return f"Stationarity: NOT CERTIFIED at α = {alpha:g} of every task: {groups}.{more}"


def _integrity(certificate: Certificate) -> str:
    marks = {"pass": "ok  ", "fail": "FAIL", "not possible": "--  "}
    instead = {"fail": "expected", "not possible": "instead"}
    lines = []
    for check in certificate.checks:
        lines.append(text.wrapped(f"{marks[check.status]}  {check.name}, {check.found}", 8))
        if check.status in instead:
            lines.append(text.wrapped(f"      {instead[check.status]}: {check.expected}", 8))
    note = (
        "The run was trained again from its seed and compared byte for byte, which is conclusive "
        "on the processor and with the libraries that made it."
        if certificate.replayed
        else "The run was not trained again. These checks find damage and edits, also where the "
        "checksums were renewed. They cannot find a forgery in which all files agree, the record "
        "among them: --replay can, it trains the run again and compares byte for byte."
    )
    made = [text.wrapped(f"Made on: {in_words(system)}.") for system in certificate.made_on]
    return "\n".join([*lines, text.wrapped(note), *made])


def _constraint(certificate: Certificate) -> str:
    if not certificate.constraint:
        return text.wrapped("The model's numbers cannot be read.")
    rows = []
    shown, left = _worst(certificate.constraint, lambda line: line.ridged_distance)
    for line in shown:
        distances = f"{line.distance:.6g}", f"{line.ridged_distance:.6g}"
        multiplier = "–" if line.multiplier is None else f"{line.multiplier:.4g}"
        rows.append((line.task, *distances, multiplier, "binding" if line.binding else "slack"))
    headings = ("task", "‖h − g‖", "in κ + λδ", "multiplier", "constraint")
    relaxed = certificate.projection == "relaxed"
    what = "The root mean square of the distances" if relaxed else "Every distance"
    kind = f"{what} must be at most ε = {certificate.epsilon:g}."
    if certificate.epsilon == math.inf:
        kind = "No bound was asked (ε = ∞): every task learned alone."
    note = (
        "Distances are recomputed from the file. The dictionary projects in the slightly larger "
        "norm of κ + λδ, so the bound holds there and in that of κ. Multipliers are means over "
        "the last quarter of the run."
    )
    more = [text.wrapped(f"The {text.FEW} farthest; {left} tasks are nearer.")] if left else []
    return "\n".join([text.table(headings, rows), *more, text.wrapped(kind), text.wrapped(note)])


def _worst(lines: Sequence[_Line], key: Callable[[_Line], float]) -> tuple[list[_Line], int]:
    """Return the lines to show, of many tasks the largest, and how many are left out."""
    if len(lines) <= text.MANY:
        return list(lines), 0
    return sorted(lines, key=key, reverse=True)[: text.FEW], len(lines) - text.FEW


def _pruning(certificate: Certificate) -> str:
    p = certificate.pruning
    if p is None:
        return text.wrapped("There are no readable metrics.")
    share, held = p.certified_share, p.iterations - (p.over_budget or 0)
    spent = None if p.spent is None else f"{p.spent:.4g}"
    within = None if share is None else f"{held} ({100 * share:.1f} %)"
    rows = {
        "budget β per iteration": f"{p.budget:g}",
        "largest move of a policy in one iteration": f"{p.largest:.4g}",
        f"sum of the largest moves over {p.iterations} iterations": spent,
        "iterations within the budget": within,
        "iterations beyond it because of the cap": p.over_budget_by_cap,
        "knots removed": p.removed,
        f"  beyond the budget, by the cap of {p.max_knots} knots": p.forced_by_cap,
        "  beyond the budget, by conditioning": p.forced_by_conditioning,
    }
    unknown = "not kept by the version that made this run"
    return text.table(("", ""), [(k, unknown if v is None else str(v)) for k, v in rows.items()])


def _stationarity(certificate: Certificate) -> str:
    if certificate.left_out:
        return text.wrapped(f"Not measured: {certificate.left_out}.")
    if certificate.gaps[0].note:
        return text.wrapped(certificate.gaps[0].note)
    every, alpha, level = certificate.gaps, certificate.alpha, certificate.confidence
    gaps, left = _worst(every, lambda gap: gap.gap.high)
    if alpha is None:
        last, ends = "smallest certified α", [f"{gap.gap.high:.4g}" for gap in gaps]
    else:
        last, ends = f"verdict at α = {alpha:g}", [gap.verdict(alpha) for gap in gaps]
    rows = [(gap.task, *text.estimate(gap.gap), end) for gap, end in zip(gaps, ends, strict=True)]
    N = len(every)
    note = (
        "The gap is how much a task could gain, to first order, by moving its policy alone within "
        f"the constraint. {gaps[0].samples} fresh samples per task, seed {certificate.seed}."
    )
    if N > 1:
        note += (
            f" Each interval holds with {100 * level:g} %, all {N} together with at least "
            f"{100 * max(0.0, 1 - N * (1 - level)):g} %."
        )
    notes = [f"The {text.FEW} largest; {left} tasks have smaller ones.", note] if left else [note]
    doubtful = [gap.task for gap in every if gap.doubtful]
    if doubtful:
        notes.append(
            f"Rare samples decide the numbers of {text.some(doubtful)}: these intervals may be too "
            "short. More --samples help."
        )
    headings = ("task", "gap", f"{100 * level:g} % interval", last)
    return "\n".join([text.table(headings, rows), *map(text.wrapped, notes)])
