"""The theorem at a run as a page of text."""

from __future__ import annotations

from pathlib import Path

from crosslearning.certificates.text import (
    bullets,
    estimate,
    number,
    page_of,
    save_page,
    table,
    wrapped,
)
from crosslearning.theory.estimates import KINDS
from crosslearning.theory.study import TheoremNumbers, TheoryStudy

_LETTERS = {"deviation": "σ", "second_moment": "B", "gradient_norm": "μ", "lipschitz": "L"}


def theory_page(study: TheoryStudy) -> str:
    """Return the page that ``crosslearning theory`` prints, 100 columns wide."""
    if study.theorem is None:
        sections = {"Verdict": bullets([f"Theorem: not evaluated: {study.left_out}."])}
    else:
        sections = {
            "Verdict": bullets([_verdict(study.theorem)]),
            "1. Constants": _constants(study),
            "2. The theorem": _theorem(study.theorem),
        }
    return page_of(f"The theorem at {study.run}", study.subtitle, sections)


def save_theory(study: TheoryStudy, folder: Path) -> list[Path]:
    """Write ``theory.txt`` and ``.json`` into a folder, and return them.

    An earlier study that says something else is kept, see
    :func:`crosslearning.certificates.text.save_page`.
    """
    return save_page(folder, "theory", theory_page(study), study.to_json())


def _verdict(theorem: TheoremNumbers) -> str:
    if theorem.gain is None or theorem.alpha is None:
        return "Theorem: it says nothing here; section 2 says why."
    if theorem.gain > 0:
        return (
            f"Theorem: not vacuous at α = {theorem.alpha:.4g}, if the constants hold wherever the "
            f"policies come: an iteration gains at least {theorem.gain:.4g} in expectation while "
            "some gap is larger."
        )
    return (
        f"Theorem: vacuous at α = {theorem.alpha:.4g}. With the estimated constants it promises no "
        "gain per iteration; section 2 says why, and what would be needed. The gaps that 'certify' "
        "measures do not depend on it."
    )


def _constants(study: TheoryStudy) -> str:
    rows = [
        (task.task, f"{letter}, {name.replace('_', ' ')}", *estimate(getattr(task, name)))
        for task in study.constants
        for name, letter in _LETTERS.items()
    ]
    headings = ("task", "constant", "estimate", f"{100 * study.confidence:g} % interval")
    drawn = study.constants[0].samples
    notes = [*KINDS.values(), f"{drawn} fresh samples per task, seed {study.seed}."]
    doubtful = [task.task for task in study.constants if task.doubtful]
    if doubtful:
        notes.append(
            f"Rare samples decide these numbers for {', '.join(doubtful)}: the intervals may be "
            "too short. More --samples help."
        )
    return "\n".join([table(headings, rows), *map(wrapped, notes)])


def _theorem(theorem: TheoremNumbers) -> str:
    said = bullets(list(theorem.sentences.values()))
    if theorem.alpha is None or theorem.weighted_alpha is None:
        return said
    weighted = theorem.weighted_alpha < theorem.alpha
    of = " of the weighted returns" if weighted else ""
    t = theorem
    rows: dict[str, tuple[float | None, ...]] = {
        f"expected gain{of} in an iteration, at least": (t.gain, t.printed_gain),
        f"α' of one look, with probability {1 - t.delta:g}": (t.accuracy, t.printed_accuracy),
        "largest step η with a positive gain": (t.largest_step, t.printed_largest_step),
        "step η with the largest gain": (t.best_step,),
        "batch for a positive gain at this step": (t.batch_for_gain,),
        "batch for α' = 2α": (t.batch_for_accuracy,),
        "noise floor: smallest α with a gain": (t.noise_floor,),
    }
    cells = [[name, *map(number, row), *[""] * (2 - len(row))] for name, row in rows.items()]
    sizes = ", ".join(f"{size:.4g}" for size in theorem.step_sizes)
    asked = f" (weighted by the steps: {theorem.weighted_alpha:.4g})" if weighted else ""
    at = f"at α = {theorem.alpha:.4g}{asked}, δ = {theorem.delta:g}, η = {sizes}"
    return "\n".join([wrapped(at), table(("", "corrected", "printed"), cells), said])
