"""The certificate as a page of text, with a verdict in a few sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from crosslearning._base.files import write_atomically
from crosslearning._base.ordinary_files import read_bytes
from crosslearning._base.plain_data import decode
from crosslearning.certificates import text
from crosslearning.certificates.certificate import Certificate
from crosslearning.runs.signature import content_signature, is_signature
from crosslearning.runs.system_info import in_words

_Line = TypeVar("_Line")
_PURPOSE, _SIGNATURE = "certificate", "certificate.signature"
_PLACES = ("checkpoints", "snapshots")


def certificate_page(certificate: Certificate) -> str:
    """Return the page that ``crosslearning certify`` prints, 100 columns wide."""
    page = text.template("crosslearning.certificates", "certificate.txt.j2")
    return page.render(
        certificate=certificate,
        verdicts=verdicts(certificate),
        in_words=in_words,
        few=text.FEW,
        distances=_distances(certificate),
        gaps=_gaps(certificate),
        limits=_limits(certificate),
    )


def verdicts(certificate: Certificate) -> list[str]:
    """Return what is certified and what is not, one sentence or two for each part."""
    checks, gaps, alpha = certificate.checks, certificate.gaps, certificate.alpha
    failed, impossible = (
        [check.name for check in checks if check.status == status]
        for status in ("fail", "not possible")
    )
    order = sorted(gaps, key=lambda gap: -gap.gap.high) if len(gaps) > text.MANY else gaps
    tasks: dict[str, list[str]] = {"stationary": [], "not stationary": [], "undecided": []}
    if alpha is not None:
        for gap in gaps:
            tasks[gap.verdict(alpha)].append(gap.task)
    limits: dict[str, list[str]] = {"hold": [], "do not hold": [], "undecided": []}
    for line in certificate.limits:
        limits[line.verdict].append(line.task)
    said = text.sentences_of(
        "crosslearning.certificates",
        "verdicts.j2",
        certificate=certificate,
        failed=failed,
        impossible=impossible,
        replayable=not any(name.startswith("replay") for name in impossible),
        broken=any(check.status == "fail" for check in checks if check.topic == "constraint"),
        binding=[line.task for line in certificate.constraint if line.binding],
        smallest=[f"{gap.task} at {gap.gap.high:.4g}" for gap in order],
        tasks=tasks,
        limits=limits,
    )
    return list(said.values())


def _distances(certificate: Certificate) -> dict[str, Any]:
    """Return the table of distances, of many tasks the farthest, and how many are left out."""
    shown, left = _worst(certificate.constraint, lambda line: line.ridged_distance)
    around = any(line.controller_multiplier is not None for line in shown)
    rows = [
        (
            line.task,
            f"{line.distance:.6g}",
            f"{line.ridged_distance:.6g}",
            _known(line.multiplier),
            *([_known(line.controller_multiplier)] if around else []),
            "binding" if line.binding else "slack",
        )
        for line in shown
    ]
    multipliers = ("multiplier of ε", "of ε₀") if around else ("multiplier",)
    headings = ("task", "‖h − g‖", "in κ + λδ", *multipliers, "constraint")
    return {"table": text.table(rows, headings), "left": left, "around": around}


def _known(number: float | None) -> str:
    return "–" if number is None else f"{number:.4g}"


def _gaps(certificate: Certificate) -> dict[str, Any]:
    """Return the table of gaps, of many the largest, how many are left out, and the doubtful."""
    alpha, (shown, left) = certificate.alpha, _worst(certificate.gaps, lambda gap: gap.gap.high)
    last = "smallest certified α" if alpha is None else f"verdict at α = {alpha:g}"
    rows = [
        (
            gap.task,
            *text.estimate(gap.gap),
            f"{gap.gap.high:.4g}" if alpha is None else gap.verdict(alpha),
        )
        for gap in shown
    ]
    headings = ("task", "gap", f"{100 * certificate.confidence:g} % interval", last)
    doubtful = [gap.task for gap in certificate.gaps if gap.doubtful]
    return {"table": text.table(rows, headings), "left": left, "doubtful": doubtful}


def _limits(certificate: Certificate) -> dict[str, Any]:
    """Return the table of crossed limits, of many tasks the worst, and how many are left out."""
    shown, left = _worst(certificate.limits, lambda line: line.crossed.value)
    rows = [
        (line.task, line.crossed.percent(), f"{100 * line.allowed:.3g} %", line.verdict)
        for line in shown
    ]
    headings = ("task", "crossed", "allowed", "limits")
    return {"table": text.table(rows, headings), "left": left}


def _worst(lines: Sequence[_Line], key: Callable[[_Line], float]) -> tuple[list[_Line], int]:
    """Return the lines to show, of many tasks the largest, and how many are left out."""
    if len(lines) <= text.MANY:
        return list(lines), 0
    return sorted(lines, key=key, reverse=True)[: text.FEW], len(lines) - text.FEW


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
