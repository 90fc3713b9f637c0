"""Figures of the paper's numerical section, and the styles of its policies."""

from __future__ import annotations

from typing import Any

from crosslearning.figures.style import CENTRAL, TASKS
from crosslearning.reproduction.paper.experiment import AVERAGE, CROSS, RADII

#: The colour of a policy, and of the task of that name, in every figure.
POLICY_COLOURS = dict(zip(RADII, TASKS, strict=False)) | {AVERAGE: TASKS[3], CROSS: CENTRAL}


def line_style(policy: str) -> dict[str, Any]:
    """Return the line style of a policy; dashes are for prints without colour."""
    return {
        "color": POLICY_COLOURS[policy],
        "linestyle": (0, (4, 1.5)) if policy == AVERAGE else "-",
        "linewidth": 2.2 if policy == CROSS else 1.2,
        "zorder": 3.5 if policy == CROSS else 3.0,
    }
