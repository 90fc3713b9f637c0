"""The certificate as a page of text."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

from crosslearning.certificates.certificate import Certificate
from crosslearning.certificates.text import bullets, estimate, page_of, save_page, table, wrapped
from crosslearning.certificates.verdicts import verdicts


def certificate_page(certificate: Certificate) -> str:
    """Return the page that ``crosslearning certify`` prints, 100 columns wide."""
    sections = {
        "Verdict": bullets(verdicts(certificate)),
        "1. Integrity, from the files alone": _integrity(certificate),
        "2. The constraint": _constraint(certificate),
        "3. Pruning": _pruning(certificate),
        "4. Stationarity": _stationarity(certificate),
    }
    page = page_of(f"Certificate of {certificate.run}", certificate.subtitle, sections)
    more = "What the convergence theorem says of this run, with its constants estimated:"
    return f"{page}\n{more}\n  crosslearning theory {shlex.quote(certificate.run)}\n"


def save_certificate(certificate: Certificate, folder: Path) -> list[Path]:
    """Write ``certificate.txt`` and ``.json`` into a folder, and return them.

    An earlier certificate that says something else is kept, see :func:`text.save_page`.
    """
    return save_page(folder, "certificate", certificate_page(certificate), certificate.to_json())


def _integrity(certificate: Certificate) -> str:
    words = {"pass": "ok  ", "fail": "FAIL", "not possible": "--  "}
    instead = {"fail": "expected", "not possible": "instead"}
    lines = []
    for check in certificate.checks:
        lines.append(wrapped(f"{words[check.status]}  {check.name}, {check.found}", 8))
        if check.status in instead:
            lines.append(wrapped(f"      {instead[check.status]}: {check.expected}", 8))
    note = (
        "The run was trained again from its seed and compared."
        if certificate.replayed
        else "The run was not trained again. These checks find damage and edits, also where the "
        "checksums were made anew. They cannot find a forger who rewrites all files so that they "
        "agree, the record among them: --replay can, it trains the run again from its seed and "
        "compares byte for byte."
    )
    return "\n".join([*lines, wrapped(note)])


def _constraint(certificate: Certificate) -> str:
    if not certificate.constraint:
        return wrapped("The model's numbers cannot be read.")
    rows = []
    for line in certificate.constraint:
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
        "Distances are computed again from the file. The dictionary projects in the slightly "
        "larger norm of κ + λδ, so the bound holds there, and all the more in that of κ. "
        "Multipliers are means over the last quarter of the run."
    )
    return "\n".join([table(headings, rows), wrapped(kind), wrapped(note)])


def _pruning(certificate: Certificate) -> str:
    p = certificate.pruning
    if p is None:
        return wrapped("There are no readable metrics.")
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
    return table(("", ""), [(k, unknown if v is None else str(v)) for k, v in rows.items()])


def _stationarity(certificate: Certificate) -> str:
    if certificate.left_out:
        return wrapped(f"Not measured: {certificate.left_out}.")
    if certificate.gaps[0].note:
        return wrapped(certificate.gaps[0].note)
    gaps, alpha, level = certificate.gaps, certificate.alpha, certificate.confidence
    if alpha is None:
        last, ends = "smallest certified α", [f"{gap.gap.high:.4g}" for gap in gaps]
    else:
        last, ends = f"verdict at α = {alpha:g}", [gap.verdict(alpha) for gap in gaps]
    rows = [(gap.task, *estimate(gap.gap), end) for gap, end in zip(gaps, ends, strict=True)]
    N = len(gaps)
    note = (
        "The gap is how much a task could gain, to first order, by moving its policy alone within "
        f"the constraint. {gaps[0].samples} fresh samples per task, seed {certificate.seed}."
    )
    if N > 1:
        note += (
            f" Each interval holds with {100 * level:g} %, all {N} together with at least "
            f"{100 * max(0.0, 1 - N * (1 - level)):g} %."
        )
    notes = [note]
    doubtful = [gap.task for gap in gaps if gap.doubtful]
    if doubtful:
        notes.append(
            f"Rare samples decide the numbers of {', '.join(doubtful)}: these intervals may be too "
            "short. More --samples help."
        )
    headings = ("task", "gap", f"{100 * level:g} % interval", last)
    return "\n".join([table(headings, rows), *map(wrapped, notes)])
