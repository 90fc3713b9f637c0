"""The claims on adaptation, judged like the others: one number per seed, positive for the claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from crosslearning.paper.adapt import CENTRAL, ZERO
from crosslearning.paper.claims import Claim, Verdict, judge
from crosslearning.paper.experiment import AVERAGE, RADII

Curves = Mapping[str, Any]


def _areas(curves: Curves, kind: str, start: str) -> list[float]:
    """Return the mean return along every curve of one start, target by target."""
    return [by_start[start]["area"] for by_start in curves["curves"][kind].values()]


def _ahead_of(start: str, kind: str) -> Callable[[Curves], float]:
    return lambda curves: float(
        np.mean(np.subtract(_areas(curves, kind, CENTRAL), _areas(curves, kind, start)))
    )


def _ahead_of_a_guess(kind: str) -> Callable[[Curves], float]:
    """Against a task policy drawn at random: who does not know the task can only guess."""
    return lambda curves: float(np.mean([_ahead_of(radius, kind)(curves) for radius in RADII]))


def adaptation_claims() -> list[Claim]:
    """Return the claims of the abstract and the conclusions on adaptation."""
    measured = "mean return along the adaptation curve from g minus that from {}"
    claims = []
    for kind, where in (
        ("trained", "a trained task, not knowing which"),
        ("unseen", "unseen maps"),
    ):
        rivals = {
            "nothing": ("from nothing", "zero", _ahead_of(ZERO, kind)),
            "average": ("from the average policy", "the average policy", _ahead_of(AVERAGE, kind)),
            "guess": (
                "from a task policy chosen at random",
                "a task policy, averaged over the three",
                _ahead_of_a_guess(kind),
            ),
        }
        for key, (versus, words, value) in rivals.items():
            says = f"Adapting to {where}: the central policy is a better start than {versus}."
            claims.append(Claim(f"adapt-{kind}-{key}", says, measured.format(words), value))
    return claims


def adaptation_verdicts(curves: Mapping[int, Curves]) -> list[Verdict]:
    """Return the verdicts from the adaptation curves of every seed."""
    return [judge(claim, curves) for claim in adaptation_claims()]
