"""The picture of the evidence by which lags are chosen."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from crosslearning.figures.parts import draw_bound, new_figure
from crosslearning.figures.style import CENTRAL, figure_style
from crosslearning.learner.lags import LagEvidence


@figure_style()
def lag_figure(found: LagEvidence) -> Figure:
    """Draw the evidence of models with 0, 1, … lags, and the number that is chosen."""
    figure, axes = new_figure((3.4, 2.6))
    axes.plot(range(len(found.evidence)), found.evidence, "o-", color=CENTRAL, ms=4, lw=1.2)
    axes.margins(x=0.12, y=0.2)
    draw_bound(axes, found.chosen, f"chosen: {found.chosen}", vertical=True)
    axes.set(title="How many lags pay", xlabel="lags")
    axes.set_ylabel("log evidence per step\nand observation, nats")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
