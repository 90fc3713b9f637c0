"""Arrivals and crashes of every policy in every scene, and what consensus changes of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crosslearning.paper.claims import Measurements
from crosslearning.paper.experiment import AVERAGE, CROSS, LABELS, POLICIES, RADII
from crosslearning.runs.study import markdown
from crosslearning.statistics import student

#: (what it is called, scene, task): where rates are told.
PLACES = (
    *((f"training task {radius}", "training", radius) for radius in RADII),
    *((f"{scene}, any heading", scene, scene) for scene in ("circle", "ellipse", "mission")),
    ("random maps", "maps", "maps"),
)


def rates_table(results: Mapping[int, Measurements]) -> str:
    """Return Markdown: means over seeds of arrivals / crashes, and the crashes of ε = 0 less ε = 3.

    The last column has Student's 95 % interval over seeds, of differences seed by seed.
    """
    headings = ["scene", *(LABELS[policy] for policy in POLICIES), "crashes, average − cross"]
    rows = []
    for label, scene, task in PLACES:
        rates = {
            policy: np.array(
                [
                    [m[policy]["final"][scene][task][rate] for rate in ("arrived", "crashed")]
                    for m in results.values()
                ]
            )
            for policy in POLICIES
        }
        cells = [f"{a:.0%} / {c:.0%}" for a, c in (rates[p].mean(axis=0) for p in POLICIES)]
        change = student((rates[AVERAGE] - rates[CROSS])[:, 1]).percent("+.0f")
        rows.append([label, *cells, change])
    return markdown(headings, rows)
