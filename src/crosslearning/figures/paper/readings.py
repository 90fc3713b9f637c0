"""The figure of the readings: every claim under every reading, at one look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from crosslearning.figures.style import figure_style
from crosslearning.paper.claims import Verdict

#: Colours that are told apart in grey too: dark for what holds, middle for what does not.
VERDICTS = {"holds": "#0072B2", "does not hold": "#E69F00", "undecided": "#ECEEF2"}


def readings_figure(verdicts: Mapping[str, Sequence[Verdict]]) -> Figure:
    """Draw the verdicts as a grid: claims down, readings across.

    Parameters
    ----------
    verdicts : mapping of str to sequence of Verdict
        By the reading's name, all for the same claims.
    """
    names = list(verdicts)
    claims = [verdict.key for verdict in verdicts[names[0]]]
    words = list(VERDICTS)
    grid = np.array([[words.index(v.verdict) for v in verdicts[name]] for name in names]).T
    with figure_style():
        width, height = 2.6 + 0.3 * len(names), 1.6 + 0.19 * len(claims)
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        colours = ListedColormap(list(VERDICTS.values()))
        axes.imshow(grid, cmap=colours, vmin=-0.5, vmax=len(words) - 0.5, aspect="auto")
        axes.set_xticks(range(len(names)), names, rotation=50, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(claims)), claims)
        axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
        axes.set_xticks(np.arange(0.5, len(names) - 1), minor=True)
        axes.set_yticks(np.arange(0.5, len(claims) - 1), minor=True)
        axes.grid(which="minor", color="white", linewidth=1.2)
        axes.tick_params(which="minor", length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        handles = [Patch(color=colour, label=word) for word, colour in VERDICTS.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure
