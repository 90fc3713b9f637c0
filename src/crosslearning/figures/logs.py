"""What was understood of log files: the signals in use, machine by machine, episode by episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from crosslearning.analysis.logged.description import LogDescription
from crosslearning.analysis.logged.log import Episode
from crosslearning.figures.parts import dot, legend_outside, new_figure, task_colours, task_handles
from crosslearning.figures.style import DARK, LIGHT, WIDE, figure_style
from crosslearning.rkhs.checks import Floats

#: The most panels, and the most points of a line.
_PANELS, _POINTS = 12, 4000
#: Of many machines only so many are drawn.
_MACHINES = 7
#: The space between two episodes, as a share of all steps.
_SPACE = 0.01
#: Names are cut to so many characters.
_LONGEST = 26


@figure_style()
def logs_figure(found: LogDescription) -> Figure:
    """Draw observations, actions and reward over time; a dot is the first step of an episode."""
    names = [*found.names("observations"), *found.names("actions"), "reward"]
    shown = list(found.log.items())[:_MACHINES]
    columns = {name: _columns(episodes) for name, episodes in shown}
    rows = min(len(names), _PANELS)
    size = (WIDE, 0.95 * rows + 0.8)
    figure, panels = new_figure(size, rows, 1, sharex=True, squeeze=False)
    colours = task_colours(columns)
    step = 1.0 if found.rate is None else 1.0 / found.rate
    for j, axes in enumerate(panels[:, 0]):
        # The reward is always the last panel.
        which = len(names) - 1 if j == rows - 1 else j
        for name, (index, values, firsts) in columns.items():
            every = max(1, len(index) // _POINTS)
            axes.plot(index[::every] * step, values[::every, which], color=colours[name], lw=0.9)
            axes.plot(index[firsts] * step, values[firsts, which], "o", ms=2.6, color=colours[name])
        label = names[which]
        axes.set_title(label if len(label) <= 3 * _LONGEST else f"{label[: 3 * _LONGEST]}…")
        axes.title.set(fontsize=8, color=DARK, horizontalalignment="left", position=(0.0, 1.0))
        axes.margins(x=0.01)
        axes.grid(color=LIGHT, alpha=0.35, lw=0.5)
        axes.locator_params(axis="y", nbins=3)
    unit = "steps" if found.rate is None else "seconds"
    panels[-1, 0].set_xlabel(f"{unit} of operation, episodes one after the other")
    handles = [*task_handles(colours), dot("begin of an episode", DARK, ms=2.6)]
    legend_outside(figure, handles)
    return figure


def _columns(episodes: Sequence[Episode]) -> tuple[Floats, Floats, list[int]]:
    """Return places on the axis, values with NaN between episodes, and the rows of first steps."""
    space = max(1, round(_SPACE * sum(len(one.rewards) for one in episodes)))
    index: list[Floats] = []
    values: list[Floats] = []
    firsts: list[int] = []
    place = 0
    for one in episodes:
        T = len(one.rewards)
        rows = np.hstack([one.observations[:-1], one.actions, one.rewards[:, None]])
        firsts.append(sum(len(part) for part in index))
        index.append(np.arange(place, place + T + 1.0))
        values.append(np.vstack([rows, np.full((1, rows.shape[1]), np.nan)]))
        place += T + space
    return np.concatenate(index), np.concatenate(values), firsts
