"""What the figures of the numerical section share: how policies look, and numbers by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslearning.errors import InputError
from crosslearning.figures.parts import Floats
from crosslearning.figures.style import CENTRAL, TASKS
from crosslearning.paper.experiment import AVERAGE, CROSS, RADII

#: results[seed][policy]; see :func:`crosslearning.paper.measure.load_measurements`.
Results = Mapping[int, Mapping[str, Mapping[str, Any]]]

#: The colour of a policy, and of the task of that name, in every figure.
POLICY_COLOURS = dict(zip(RADII, TASKS, strict=False)) | {AVERAGE: TASKS[3], CROSS: CENTRAL}


def line_style(policy: str) -> dict[str, Any]:
    """Return how the line of a policy is drawn; dashes are for prints without colour."""
    return {
        "color": POLICY_COLOURS[policy],
        "linestyle": (0, (4, 1.5)) if policy == AVERAGE else "-",
        "linewidth": 2.2 if policy == CROSS else 1.2,
        "zorder": 3.5 if policy == CROSS else 3.0,
    }


def over_seeds(results: Results, policy: str, *keys: str) -> Floats:
    """Return one measured number or list of a policy for every seed, shape (seeds[, points]).

    The keys are the way into the measurements, such as ``"curves", "radii", "r=1", "cost"``.
    NaN stands for what is not known.
    """
    rows = []
    for measurements in results.values():
        value: Any = measurements[policy]
        for key in keys:
            value = value[key]
        rows.append(np.asarray(value, dtype=np.float64))
    if len({row.shape for row in rows}) != 1:
        raise InputError(
            f"the seeds have different numbers of points of {'/'.join((policy, *keys))}: "
            f"{[row.size for row in rows]}; finish and measure all of them at one scale"
        )
    return np.stack(rows)
