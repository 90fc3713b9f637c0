"""The text page of the theorem at a run."""

from __future__ import annotations

from pathlib import Path

from crosslearning.certificates import text
from crosslearning.certificates.text import bullets, number, table, wrapped
from crosslearning.reproduction.theorem.estimates import KINDS
from crosslearning.reproduction.theorem.study import TheoremNumbers, TheoryStudy

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
    return text.page_of(f"The theorem at {study.run}", study.subtitle, sections)


def save_theory(study: TheoryStudy, folder: Path) -> list[Path]:
    """Write ``theory.txt`` and ``.json``, and keep earlier ones; see :mod:`text`."""
    return text.save_page(folder, "theory", theory_page(study), study.to_json())


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
        (task.task, f"{letter}, {name.replace('_', ' ')}", *text.estimate(getattr(task, name)))
        for task in study.constants
        for name, letter in _LETTERS.items()
    ]
    headings = ("task", "constant", "estimate", f"{100 * study.confidence:g} % interval")
    drawn = f"{study.constants[0].samples} fresh samples per task, seed {study.seed}."
    notes = [*KINDS.values(), drawn]
    doubtful = [task.task for task in study.constants if task.doubtful]
    if doubtful:
        notes.append(
            f"Rare samples decide these numbers for {', '.join(doubtful)}: the intervals may be "
            "too short. More --samples help."
        )
    return "\n".join([table(headings, rows), *map(wrapped, notes)])


def _theorem(t: TheoremNumbers) -> str:
    sentences = bullets(list(t.sentences.values()))
    if t.alpha is None or t.weighted_alpha is None:
        return sentences
    weighted = t.weighted_alpha < t.alpha
    of = " of the weighted returns" if weighted else ""
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
    sizes = ", ".join(f"{size:.4g}" for size in t.step_sizes)
    also = f" (weighted by the steps: {t.weighted_alpha:.4g})" if weighted else ""
    at = f"at α = {t.alpha:.4g}{also}, δ = {t.delta:g}, η = {sizes}"
    return "\n".join([wrapped(at), table(("", "corrected", "printed"), cells), sentences])
