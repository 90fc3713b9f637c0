"""Figures of places: where the five policies drive, from one fixed start and heading."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from crosslearning.errors import InputError
from crosslearning.figures.paper.common import (
    GREY,
    LEGEND_ROW,
    POLICY_COLOURS,
    WIDE,
    Floats,
    line_style,
    policy_handles,
)
from crosslearning.figures.run import draw_map
from crosslearning.figures.style import figure_style
from crosslearning.paper.experiment import CROSS, LABELS, POLICIES, Experiment
from crosslearning.paper.scenes import play
from crosslearning.rkhs import Family
from crosslearning.tasks import Navigation, navigation_set

#: The start heading of every drawn path: from (0.5, 1.5) straight towards the goal (5, 6), and
#: so towards the middle of the obstacle between them.
HEADING = math.pi / 4
#: How far a path may leave the usual frame and still be seen whole.
_BEYOND = 2.0
_END: dict[str, Any] = {"linestyle": "none", "zorder": 6.0}

_BUNDLE: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.6}
_BUNDLE_LABEL = "cross-learned, other seeds"


@dataclass(frozen=True)
class Drive:
    """One path of a policy.

    Attributes
    ----------
    path : ndarray, shape (points, 2)
        Until the last goal or the crash, or else to the end of the episode.
    crashed, arrived : bool
    goals : int
        How many goals were reached.
    """

    path: Floats
    crashed: bool
    arrived: bool
    goals: int

    @property
    def ending(self) -> str:
        """How the path ends, to be added to the number of goals."""
        if self.arrived:
            return f" in {len(self.path) - 1} steps"
        return ", crash" if self.crashed else ", out of time"


def scene_with_heading(name: str, experiment: Experiment) -> Navigation:
    """Return the only map of a navigation set in the experiment's reading, heading fixed."""
    options = {**experiment.reading.task_options, "heading": HEADING}
    (navigation,) = navigation_set(name, **options).values()
    return navigation


def drive(function: Family, navigation: Navigation, scene: str) -> Drive:
    """Run a policy's mean action once from a map's fixed start.

    Parameters
    ----------
    function : Family
        Of one function.
    navigation : Navigation
    scene : str
        The scene's name, which decides how long an episode is.
    """
    if navigation.start is None or navigation.heading is None:
        raise InputError(f"the map of {scene!r} has no fixed start and heading to drive from")
    task = navigation.task(scene)
    states = play(function, task, 1).states
    assert states is not None and task.outcomes is not None  # noqa: PT018
    outcomes = task.outcomes(np.ascontiguousarray(states[:, -1]))
    crashed, arrived = bool(outcomes["crashed"][0]), bool(outcomes["arrived"][0])
    last = int(outcomes["arrival_time"][0]) if arrived else states.shape[1] - 1
    path = states[0, : last + 1, :2]
    return Drive(path, crashed and not arrived, arrived, int(outcomes["goals_reached"][0]))


def trajectories_figure(experiment: Experiment, seed: int | None = None) -> Figure:
    """Draw one path of each policy around the circle and around the ellipse.

    Parameters
    ----------
    experiment : Experiment
    seed : int, optional
        Whose policies; by default the first. The other seeds' cross-learned policies are
        drawn as a thin grey bundle.
    """
    chosen = _chosen(experiment, seed)
    others = [other for other in experiment.seeds if other != chosen]
    with figure_style():
        figure = Figure(figsize=(WIDE, 3.75), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        drives: list[Drive] = []
        for axes, scene in zip(panels, ("circle", "ellipse"), strict=True):
            navigation = scene_with_heading(f"paper-{scene}", experiment)
            draw_map(axes, navigation)
            for other in others:
                _draw_bundle(axes, drive(experiment.function(other, CROSS), navigation, scene))
            for policy in POLICIES:
                drives.append(drive(experiment.function(chosen, policy), navigation, scene))
                draw_drive(axes, drives[-1], policy)
            _draw_start(axes, navigation)
            axes.set_title(f"{scene} obstacle")
        for axes in panels:
            _frame(axes, drives, (-0.3, 6.3), (0.3, 7.0))
        panels[1].set_ylabel("")
        marks = _ending_handles()
        if others:
            marks.append(Line2D([], [], color=GREY, label=_BUNDLE_LABEL, **_BUNDLE))
        panels[0].legend(handles=marks, loc="lower right", fontsize=8, handlelength=1.4)
        figure.legend(handles=policy_handles(), loc="outside upper center", **LEGEND_ROW)
    return figure


def mission_figure(experiment: Experiment, seed: int | None = None) -> Figure:
    """Draw one path of each policy through the map with many obstacles and three goals.

    Parameters
    ----------
    experiment : Experiment
    seed : int, optional
        Whose policies; by default the first. The legend says how many goals each reached.
    """
    chosen = _chosen(experiment, seed)
    navigation = scene_with_heading("mission", experiment)
    drives = {
        policy: drive(experiment.function(chosen, policy), navigation, "mission")
        for policy in POLICIES
    }

    def describe(policy: str) -> str:
        one = drives[policy]
        return f"{LABELS[policy]}\n{one.goals} of {len(navigation.goals)} goals{one.ending}"

    with figure_style():
        figure = Figure(figsize=(WIDE, 4.1), layout="constrained")
        axes = figure.subplots()
        draw_map(axes, navigation)
        for policy, one in drives.items():
            draw_drive(axes, one, policy)
        _draw_start(axes, navigation)
        _frame(axes, list(drives.values()), (-0.3, 12.0), (-0.3, 8.6))
        for number in axes.texts:
            number.set(zorder=8, path_effects=[withStroke(linewidth=2.5, foreground="white")])
        handles = [*policy_handles(describe), *_ending_handles()]
        figure.legend(handles=handles, loc="outside right center", labelspacing=0.9, fontsize=8.5)
    return figure


def _chosen(experiment: Experiment, seed: int | None) -> int:
    if seed is None:
        return experiment.seeds[0]
    if seed not in experiment.seeds:
        raise InputError(f"seed {seed} is not of this experiment; it has {experiment.seeds}")
    return seed


def draw_drive(axes: Axes, one: Drive, policy: str) -> None:
    """Draw a path in its policy's colour: a cross at a crash, a ring where time ran out."""
    axes.plot(one.path[:, 0], one.path[:, 1], label=LABELS[policy], **line_style(policy))
    colour, (x, y) = POLICY_COLOURS[policy], one.path[-1]
    if one.crashed:
        # The white edge sets the mark off from the paths that it lies on.
        axes.plot(x, y, marker="X", markersize=9, color=colour, markeredgecolor="white", **_END)
    elif not one.arrived:
        axes.plot(x, y, marker="o", markersize=5.5, color="white", markeredgecolor=colour, **_END)


def _draw_bundle(axes: Axes, one: Drive) -> None:
    axes.plot(one.path[:, 0], one.path[:, 1], color=GREY, zorder=2, label="_bundle", **_BUNDLE)
    if one.crashed:
        axes.plot(*one.path[-1], marker="x", markersize=4.5, color=GREY, linestyle="none", zorder=2)


def _draw_start(axes: Axes, navigation: Navigation) -> None:
    assert navigation.start is not None
    x, y = navigation.start
    axes.plot(x, y, marker="o", markersize=4.5, color="#344054", zorder=7)
    axes.annotate(
        "start", (x, y), xytext=(4, -5), textcoords="offset points", va="top", color="#344054"
    )


def _ending_handles() -> list[Line2D]:
    marks: dict[str, dict[str, Any]] = {
        "crash": {"marker": "X", "markersize": 8, "markeredgecolor": "white"},
        "out of time": {"marker": "o", "markersize": 5.5, "markerfacecolor": "white"},
    }
    return [
        Line2D([], [], color=GREY, linestyle="none", label=label, **mark)
        for label, mark in marks.items()
    ]


def _frame(axes: Axes, drives: list[Drive], x: tuple[float, float], y: tuple[float, float]) -> None:
    """Show this part of the plane, and up to ``_BEYOND`` more where a path leaves it."""
    together = np.concatenate([one.path for one in drives])
    for (low, high), values, limit in (
        (x, together[:, 0], axes.set_xlim),
        (y, together[:, 1], axes.set_ylim),
    ):
        least = max(low - _BEYOND, min(low, float(values.min()) - 0.2))
        most = min(high + _BEYOND, max(high, float(values.max()) + 0.2))
        limit(least, most)
