"""Adaptation drawn: return against rollouts, by where the policy started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from crosslearning.figures.paper.common import (
    POLICY_COLOURS,
    POLICY_STYLES,
    WIDE,
)
from crosslearning.figures.style import figure_style
from crosslearning.paper.adapt import CENTRAL as CENTRAL_START
from crosslearning.paper.adapt import STARTS, ZERO
from crosslearning.paper.experiment import AVERAGE, CROSS, RADII
from crosslearning.statistics import student

Floats = NDArray[np.float64]

#: adaptation[seed]; see :func:`crosslearning.paper.adapt.measure_adaptation`.
Adaptation = Mapping[int, Mapping[str, Any]]

_TITLES = {"trained": "a trained task, not told which", "unseen": "maps never trained for"}
_LABELS = {
    CENTRAL_START: "from the central policy $g$",
    **{radius: f"from the task policy of {radius}" for radius in RADII},
    AVERAGE: "from the average policy (ε = 0)",
    ZERO: "from nothing",
}


def _style(start: str) -> dict[str, Any]:
    if start == ZERO:
        return {"color": "#98A2B3", "linestyle": ":", "linewidth": 1.4}
    policy = CROSS if start == CENTRAL_START else start
    width = 2.2 if policy == CROSS else 1.2
    return {
        "color": POLICY_COLOURS[policy],
        "linestyle": POLICY_STYLES[policy],
        "linewidth": width,
    }


def mean_curves(adaptation: Adaptation, kind: str, start: str) -> tuple[Floats, Floats]:
    """Return the rollouts, shape (n,), and each seed's mean return over targets, (seeds, n)."""
    episodes: Floats = np.empty(0)
    rows = []
    for curves in adaptation.values():
        targets = [by_start[start] for by_start in curves["curves"][kind].values()]
        episodes = np.asarray(targets[0]["episodes"])
        rows.append(np.mean([target["returns"] for target in targets], axis=0))
    return episodes, np.stack(rows)


def adaptation_figure(adaptation: Adaptation) -> Figure:
    """Draw mean returns over seeds against rollouts, one panel for each kind of target.

    The band is Student's 95 % interval of the mean over seeds, for the central start alone.
    """
    with figure_style():
        figure = Figure(figsize=(WIDE, 3.0), layout="constrained")
        for axes, (kind, title) in zip(figure.subplots(1, 2), _TITLES.items(), strict=True):
            for start in reversed(STARTS):
                episodes, values = mean_curves(adaptation, kind, start)
                axes.plot(episodes, values.mean(axis=0), **_style(start))
                if start == CENTRAL_START:
                    ends = [student(column) for column in values.T]
                    low, high = [one.low for one in ends], [one.high for one in ends]
                    axes.fill_between(episodes, low, high, color="#000000", alpha=0.12, linewidth=0)
            axes.set_title(f"adapting to {title}")
            axes.set_xlabel("rollouts")
            axes.set_xlim(0, episodes[-1])
            axes.set_ylabel("discounted return")
        handles = [Line2D([], [], label=_LABELS[start], **_style(start)) for start in STARTS]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure
