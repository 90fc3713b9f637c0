"""Adaptation drawn: return against rollouts, by where the policy started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from crosslearning.figures.paper.common import line_style
from crosslearning.figures.parts import Floats, band_handle, draw_band, ends, legend_outside
from crosslearning.figures.style import CENTRAL, LIGHT, WIDE, figure_style
from crosslearning.paper.adapt import CENTRAL as CENTRAL_START
from crosslearning.paper.adapt import STARTS, ZERO
from crosslearning.paper.experiment import AVERAGE, CROSS, RADII
from crosslearning.statistics import student

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
        return {"color": LIGHT, "linestyle": ":", "linewidth": 1.4}
    return line_style(CROSS if start == CENTRAL_START else start)


def mean_curves(adaptation: Adaptation, kind: str, start: str) -> tuple[Floats, Floats]:
    """Return the rollouts, shape (n,), and each seed's mean return over targets, (seeds, n)."""
    episodes: Floats = np.empty(0)
    rows = []
    for curves in adaptation.values():
        targets = [by_start[start] for by_start in curves["curves"][kind].values()]
        episodes = np.asarray(targets[0]["episodes"])
        rows.append(np.mean([target["returns"] for target in targets], axis=0))
    return episodes, np.stack(rows)


@figure_style()
def adaptation_figure(adaptation: Adaptation) -> Figure:
    """Draw mean returns over seeds against rollouts, one panel for each kind of target.

    The band is Student's 95 % interval of the mean over seeds, for the central start alone.
    """
    figure = Figure(figsize=(WIDE, 2.6), layout="constrained")
    for axes, (kind, title) in zip(figure.subplots(1, 2), _TITLES.items(), strict=True):
        for start in reversed(STARTS):
            episodes, values = mean_curves(adaptation, kind, start)
            axes.plot(episodes, values.mean(axis=0), **_style(start))
            if start == CENTRAL_START:
                low, high = zip(*(ends(student(column)) for column in values.T), strict=True)
                draw_band(axes, episodes, low, high, CENTRAL)
        axes.set_title(f"adapting to {title}")
        axes.set_xlabel("rollouts")
        axes.set_xlim(0, episodes[-1])
        axes.set_ylabel("discounted return")
    handles: list[Any] = [Line2D([], [], label=_LABELS[s], **_style(s)) for s in STARTS]
    if len(adaptation) > 1:
        handles.append(band_handle("its 95 % interval over seeds", CENTRAL))
    legend_outside(figure, handles)
    return figure
