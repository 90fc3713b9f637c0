"""What the figures of the numerical section share: colours, legends, and means over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.figures.style import CENTRAL, TASKS
from crosslearning.paper.experiment import AVERAGE, CROSS, LABELS, POLICIES, RADII

Floats = NDArray[np.float64]

#: results[seed][policy]; see :func:`crosslearning.paper.measure.load_measurements`.
Results = Mapping[int, Mapping[str, Mapping[str, Any]]]

#: The colour of a policy, and of the task of that name, in every figure.
POLICY_COLOURS: dict[str, str] = {
    **dict(zip(RADII, TASKS, strict=False)),
    AVERAGE: "#CC79A7",
    CROSS: CENTRAL,
}
#: Lines also differ in style, for prints without colour.
POLICY_STYLES: dict[str, Any] = {
    **dict.fromkeys(RADII, "-"),
    AVERAGE: (0, (4, 1.5)),
    CROSS: "-",
}
POLICY_WIDTHS: dict[str, float] = {**dict.fromkeys((*RADII, AVERAGE), 1.2), CROSS: 2.2}

#: Widths in inches of a page's two columns together, and of one and a half.
WIDE, NARROW = 7.0, 4.6
GREY = "#667085"
#: A legend of the five policies in one row that is as wide as the page.
LEGEND_ROW: dict[str, Any] = {
    "ncols": len(POLICIES),
    "columnspacing": 1.1,
    "handlelength": 1.6,
    "fontsize": 8.5,
}


def line_style(policy: str) -> dict[str, Any]:
    """Return how the line of a policy is drawn."""
    return {
        "color": POLICY_COLOURS[policy],
        "linestyle": POLICY_STYLES[policy],
        "linewidth": POLICY_WIDTHS[policy],
        "zorder": 3.5 if policy == CROSS else 3.0,
    }


def policy_handles(
    describe: Callable[[str], str] = LABELS.__getitem__, policies: Iterable[str] = POLICIES
) -> list[Line2D]:
    """Return the legend's entries for policies, by default with their labels alone."""
    return [
        Line2D([], [], label=describe(policy), **{**line_style(policy), "zorder": 1})
        for policy in policies
    ]


def over_seeds(results: Results, policy: str, *keys: str) -> Floats:
    """Return one measured number or list of a policy for every seed.

    Parameters
    ----------
    results : Results
    policy : str
    *keys : str
        The way into the measurements, such as ``"curves", "radii", "r=1", "cost"``.

    Returns
    -------
    ndarray, shape (seeds,) or (seeds, points)

    Raises
    ------
    InputError
        If the seeds have lists of different lengths.
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


def deviation(values: Floats) -> Floats:
    """Return the standard deviation over seeds, the first axis; 0 for a single seed."""
    if len(values) == 1:
        return np.zeros(values.shape[1:])
    return np.asarray(np.std(values, axis=0, ddof=1))
