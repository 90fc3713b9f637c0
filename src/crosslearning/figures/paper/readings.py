"""The figure of the readings: every claim under every reading, at one look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from crosslearning.figures.parts import legend_outside, new_figure
from crosslearning.figures.style import TASKS, figure_style

#: Colours that are told apart in grey too: dark for what holds, middle for what does not.
VERDICTS = {"holds": TASKS[0], "does not hold": TASKS[4], "undecided": "#ECEEF2"}


@figure_style()
def readings_figure(content: Mapping[str, Any]) -> Figure:
    """Draw the content of ``readings.json`` as a grid: claims down, readings across."""
    readings = content["readings"]
    claims = [claim["key"] for claim in readings[0]["claims"]]
    words = list(VERDICTS)
    grid = np.array([[words.index(c["verdict"]) for c in row["claims"]] for row in readings]).T
    figure, axes = new_figure((2.6 + 0.3 * len(readings), 1.3 + 0.19 * len(claims)))
    colours = ListedColormap(list(VERDICTS.values()))
    axes.imshow(grid, cmap=colours, vmin=-0.5, vmax=len(words) - 0.5, aspect="auto")
    names: dict[str, Any] = {"rotation": 50, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(readings)), [row["name"] for row in readings], **names)
    axes.set_yticks(range(len(claims)), claims)
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
    axes.set_xticks(np.arange(0.5, len(readings) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(claims) - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    legend_outside(figure, [Patch(color=c, label=word) for word, c in VERDICTS.items()])
    return figure
