"""The figure of a run: how its policies learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from crosslearning.errors import InputError
from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, TASKS, figure_style


@figure_style()
def learning_figure(metrics: Sequence[parts.Line], epsilon: float) -> Figure:
    """Draw returns, distances under their bound ε, and model order from a run's metrics."""
    if not metrics:
        raise InputError("there are no metrics to draw yet")
    iterations = parts.column(metrics, "iteration")
    colours = parts.task_colours(metrics[0]["return"])
    figure, (returns, distances, knots) = parts.new_figure((9.3, 3.1), 1, 3)
    handles = [*parts.task_handles(colours), *_draw_returns(returns, metrics, colours)]
    handles += parts.draw_distances(distances, metrics, colours, epsilon)
    order = parts.column(metrics, "knots")
    knots.plot(iterations, order, color=CENTRAL, linewidth=1.2)
    most = max(1.0, np.nanmax(order, initial=0.0))
    knots.set(title="Knots in the common dictionary", ylim=(0, 1.1 * most))
    for axes in (returns, distances, knots):
        parts.iteration_axis(axes, float(iterations[-1]))
        parts.steps_axis(axes, metrics)
    parts.legend_outside(figure, handles)
    return figure


def _draw_returns(
    axes: Axes, metrics: Sequence[parts.Line], colours: dict[str, str]
) -> list[Line2D]:
    """Draw every task's returns, thin, and their running means, thick; return what these are."""
    axes.set_title("Discounted return while exploring")
    iterations = parts.column(metrics, "iteration")
    window, many = parts.window_of(len(iterations)), len(colours) > len(TASKS)
    means = []
    for name, colour in colours.items():
        values = parts.column(metrics, "return", name)
        means.append(parts.running_mean(values))
        if window > 1:
            axes.plot(iterations, values, color=colour, linewidth=0.4, alpha=0.3)
        width = 0.8 if many else 1.5
        axes.plot(iterations, means[-1], color=colour, linewidth=width, label=f"task {name}")
    handles = []
    if many:
        mean = np.mean(means, axis=0)
        handles = axes.plot(iterations, mean, color=CENTRAL, label="mean of the tasks")
    known = np.ravel(means)[np.isfinite(np.ravel(means))]
    if len(known) == 0:
        parts.say(axes, "no returns are known")
        return handles
    # The scatter of the thin lines may leave the panel; the means never do.
    low, high = float(known.min()), float(known.max())
    pad = 0.1 * (high - low) or 1.0
    axes.set_ylim(low - pad, high + pad)
    return [*handles, *parts.mean_handles(iterations)]
