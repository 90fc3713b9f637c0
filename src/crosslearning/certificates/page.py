"""The certificate as a page of text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

from crosslearning.certificates.certificate import Certificate
from crosslearning.certificates.verdicts import verdicts
from crosslearning.files import write_atomically
from crosslearning.statistics import Interval
from crosslearning.theory.estimates import KINDS

WIDTH = 100


def certificate_page(certificate: Certificate) -> str:
    """Return the page that ``crosslearning certify`` prints, 100 columns wide."""
    parts = [
        _heading(certificate),
        _section("Verdict", _bullets(verdicts(certificate))),
        _section("1. Integrity, from the files alone", _integrity(certificate)),
        _section("2. The constraint", _constraint(certificate)),
        _section("3. Pruning", _pruning(certificate)),
        _section("4. Stationarity", _stationarity(certificate)),
        _section("5. Constants", _constants(certificate)),
        _section("6. The theorem", _theorem(certificate)),
    ]
    return "\n\n".join(parts) + "\n"


def save_certificate(certificate: Certificate, folder: Path) -> list[Path]:
    """Write ``certificate.txt`` and ``certificate.json`` into a folder, and return them."""
    texts = {"txt": certificate_page(certificate), "json": certificate.to_json() + "\n"}
    written = []
    for suffix, text in texts.items():
        path = folder / f"certificate.{suffix}"
        write_atomically(path, text.encode())
        written.append(path)
    return written


def _heading(certificate: Certificate) -> str:
    title = f"Certificate of {certificate.run}"
    lines = [title, "=" * len(title)]
    if certificate.iteration is not None:
        what = "finished" if certificate.finished else "not finished: its newest checkpoint"
        lines.append(
            f"{certificate.source} at iteration {certificate.iteration} ({what}); "
            f"{_count(len(certificate.tasks), 'task')}, ε = {certificate.epsilon:g}, "
            f"{certificate.projection} projection"
        )
    return "\n".join(lines)


def _section(title: str, body: str) -> str:
    return f"{title}\n{'-' * len(title)}\n{body}"


def _integrity(certificate: Certificate) -> str:
    words = {"pass": "ok  ", "fail": "FAIL", "not possible": "--  "}
    lines = []
    for check in certificate.checks:
        lines.append(_indented(f"{words[check.status]}  {check.name}, {check.found}", 8))
        if check.status == "fail":
            lines.append(_indented(f"      expected: {check.expected}", 8))
        elif check.status == "not possible":
            lines.append(_indented(f"      instead: {check.expected}", 8))
    if certificate.replayed:
        lines.append(_wrapped("The run was trained again from its seed and compared."))
    else:
        lines.append(
            _wrapped(
                "The run was not trained again. These checks find damage and edits, also where "
                "the checksums were made anew. They cannot find a forger who rewrites all files "
                "so that they agree, the record among them: --replay can, it trains the run "
                "again from its seed and compares byte for byte."
            )
        )
    return "\n".join(lines)


def _constraint(certificate: Certificate) -> str:
    if not certificate.constraint:
        return _wrapped("The model's numbers cannot be read.")
    rows = [
        (
            line.task,
            f"{line.distance:.6g}",
            f"{line.ridged_distance:.6g}",
            "–" if line.multiplier is None else f"{line.multiplier:.4g}",
            "binding" if line.binding else "slack",
        )
        for line in certificate.constraint
    ]
    headings = ("task", "‖h − g‖", "in κ + λδ", "multiplier", "constraint")
    kind = (
        f"The root mean square of the distances must be at most ε = {certificate.epsilon:g}."
        if certificate.projection == "relaxed"
        else f"Every distance must be at most ε = {certificate.epsilon:g}."
    )
    if certificate.epsilon == math.inf:
        kind = "No bound was asked (ε = ∞): every task learned alone."
    note = (
        "Distances are computed again from the file. The dictionary projects in the slightly "
        "larger norm of κ + λδ, so the bound holds there, and all the more in that of κ. "
        "Multipliers are means over the last quarter of the run."
    )
    return "\n".join([_table(headings, rows), _wrapped(kind), _wrapped(note)])


def _pruning(certificate: Certificate) -> str:
    pruning = certificate.pruning
    if pruning is None:
        return _wrapped("There are no readable metrics.")
    unknown = "not kept by the version that made this run"
    share = pruning.certified_share
    rows = [
        ("budget β per iteration", f"{pruning.budget:g}"),
        ("largest move of a policy in one iteration", f"{pruning.largest:.4g}"),
        (
            f"sum of the largest moves over {pruning.iterations} iterations",
            unknown if pruning.spent is None else f"{pruning.spent:.4g}",
        ),
        (
            "iterations within the budget",
            unknown
            if share is None or pruning.over_budget is None
            else f"{pruning.iterations - pruning.over_budget} ({100 * share:.1f} %)",
        ),
        (
            "iterations beyond it because of the cap",
            unknown if pruning.over_budget_by_cap is None else f"{pruning.over_budget_by_cap}",
        ),
        ("knots removed", f"{pruning.removed}"),
        (
            f"  beyond the budget, by the cap of {pruning.max_knots} knots",
            f"{pruning.forced_by_cap}",
        ),
        ("  beyond the budget, by conditioning", f"{pruning.forced_by_conditioning}"),
    ]
    return _table(("", ""), rows)


def _stationarity(certificate: Certificate) -> str:
    if certificate.left_out:
        return _wrapped(f"Not measured: {certificate.left_out}.")
    if certificate.epsilon == 0.0:
        return _wrapped(
            "ε = 0: every policy equals the centre and none can move alone, so every gap is 0. "
            "That says nothing about the quality of the consensus."
        )
    if certificate.epsilon == math.inf:
        return _wrapped(
            "ε = ∞: nothing bounds the policies, so the gap is infinite wherever a gradient is not "
            "zero. Look at the norms of the gradients below instead."
        )
    alpha = certificate.alpha
    last = "smallest certified α" if alpha is None else f"verdict at α = {alpha:g}"
    rows = [
        (
            gap.task,
            *_estimate(gap.gap),
            f"{gap.gap.high:.4g}" if alpha is None else gap.verdict(alpha),
        )
        for gap in certificate.gaps
    ]
    level, N = certificate.confidence, len(certificate.gaps)
    samples = certificate.gaps[0].samples
    note = (
        "The gap is how much a task could gain, to first order, by moving its policy alone within "
        f"the constraint. {samples} fresh samples per task, seed {certificate.seed}."
    )
    if N > 1:
        note += (
            f" Each interval holds with {100 * level:g} %, all {N} together with at least "
            f"{100 * max(0.0, 1 - N * (1 - level)):g} %."
        )
    return "\n".join(
        [_table(("task", "gap", f"{100 * level:g} % interval", last), rows), _wrapped(note)]
    )


def _constants(certificate: Certificate) -> str:
    if certificate.left_out:
        return _wrapped(f"Not estimated: {certificate.left_out}.")
    letters = {
        "deviation": "σ",
        "second_moment": "B",
        "gradient_norm": "μ",
        "lipschitz": "L",
    }
    rows = [
        (task.task, f"{letter}, {name.replace('_', ' ')}", *_estimate(getattr(task, name)))
        for task in certificate.constants
        for name, letter in letters.items()
    ]
    level = f"{100 * certificate.confidence:g} % interval"
    notes = [KINDS[name] for name in letters]
    doubtful = [task.task for task in certificate.constants if task.doubtful]
    if doubtful:
        notes.append(
            f"Rare samples decide these numbers for {', '.join(doubtful)}: the intervals here and "
            "in section 4 may be too short. More --samples help."
        )
    return "\n".join(
        [_table(("task", "constant", "estimate", level), rows), *(_wrapped(note) for note in notes)]
    )


def _theorem(certificate: Certificate) -> str:
    theorem = certificate.theorem
    if theorem is None:
        return _wrapped(f"Not evaluated: {certificate.left_out}.")
    if theorem.alpha is None:
        return _bullets(theorem.sentences)
    rows = [
        (
            "expected gain of an iteration, at least",
            _number(theorem.gain),
            _number(theorem.printed_gain),
        ),
        (
            f"α' of one look, with probability {1 - theorem.delta:g}",
            _number(theorem.accuracy),
            _number(theorem.printed_accuracy),
        ),
        (
            "largest step η with a positive gain",
            _number(theorem.largest_step),
            _number(theorem.printed_largest_step),
        ),
        ("step η with the largest gain", _number(theorem.best_step), ""),
        ("batch for a positive gain at this step", _number(theorem.batch_for_gain), ""),
        ("batch for α' = 2α", _number(theorem.batch_for_accuracy), ""),
        ("noise floor: smallest α with a gain", _number(theorem.noise_floor), ""),
    ]
    steps = ", ".join(f"{step:.4g}" for step in theorem.steps)
    return "\n".join(
        [
            f"at α = {theorem.alpha:.4g}, δ = {theorem.delta:g}, η = {steps}",
            _table(("", "corrected", "printed"), rows),
            _bullets(theorem.sentences),
        ]
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _number(value: float | int | None) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _estimate(estimate: Interval) -> tuple[str, str]:
    return f"{estimate.value:.4g}", f"[{estimate.low:.4g}, {estimate.high:.4g}]"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as columns; the first is set to the left, the others to the right."""
    lines = [headings, *rows] if any(headings) else list(rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(_indented(f"- {sentence}", 2) for sentence in sentences)


def _indented(text: str, width: int) -> str:
    leading = len(text) - len(text.lstrip())
    return textwrap.fill(
        text.strip(),
        WIDTH,
        initial_indent=" " * leading,
        subsequent_indent=" " * width,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _wrapped(text: str) -> str:
    return _indented(text, 0)
