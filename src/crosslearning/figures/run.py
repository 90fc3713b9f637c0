"""Figures of a run: where the policies drive, and how they learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Disc
from matplotlib.patches import Ellipse as EllipsePatch
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.evaluation import run_episodes
from crosslearning.figures.style import (
    CENTRAL,
    GOAL,
    OBSTACLE_EDGE,
    OBSTACLE_FACE,
    TASKS,
    figure_style,
)
from crosslearning.learner import Policy
from crosslearning.tasks import Navigation, Task

Floats = NDArray[np.float64]


def draw_map(axes: Axes, navigation: Navigation) -> None:
    """Draw the obstacles and goals of a navigation task."""
    for obstacle in navigation.obstacles:
        a, b = obstacle.semi_axes
        axes.add_patch(
            EllipsePatch(
                obstacle.centre,
                2 * a,
                2 * b,
                angle=float(np.degrees(obstacle.angle)),
                facecolor=OBSTACLE_FACE,
                edgecolor=OBSTACLE_EDGE,
                linewidth=1.0,
                zorder=1,
            )
        )
    for number, goal in enumerate(navigation.goals, start=1):
        axes.add_patch(
            Disc(goal, navigation.arrival_radius, facecolor=GOAL, alpha=0.18, linewidth=0, zorder=1)
        )
        axes.plot(*goal, marker="*", markersize=9, color=GOAL, zorder=4, linestyle="none")
        if len(navigation.goals) > 1:
            axes.annotate(str(number), goal, xytext=(6, 6), textcoords="offset points", color=GOAL)
    axes.set_aspect("equal")
    axes.set_xlabel("x")
    axes.set_ylabel("y")


def navigation_of(task: Task) -> Navigation:
    """Return the map of a navigation task, or say that the task has none."""
    environment = task.make()
    try:
        navigation = getattr(environment.unwrapped, "navigation", None)
    finally:
        environment.close()
    if not isinstance(navigation, Navigation):
        raise InputError(f"task {task.name!r} is not a navigation task and has no map to draw")
    return navigation


def trajectory_figure(
    policy: Policy, tasks: Sequence[Task], trials: int = 25, steps: int = 50, seed: int = 0
) -> Figure:
    """Draw a policy's paths from random starts, one panel per task.

    Grey dots are starts. Paths that crash are red and end in a cross.
    """
    with figure_style():
        figure = Figure(figsize=(3.1 * len(tasks), 3.5), layout="constrained")
        panels = figure.subplots(1, len(tasks), squeeze=False)[0]
        for axes, task in zip(panels, tasks, strict=True):
            navigation = navigation_of(task)
            draw_map(axes, navigation)
            episodes = run_episodes(policy, task, trials, steps, seed)
            paths = episodes.states
            if paths is None or task.outcomes is None:
                raise InputError(f"task {task.name!r} does not tell where its robot drove")
            outcomes = task.outcomes(np.ascontiguousarray(paths[:, -1]))
            for states, crashed in zip(paths, outcomes["crashed"], strict=True):
                colour = "#B42318" if crashed else CENTRAL
                axes.plot(states[:, 0], states[:, 1], color=colour, linewidth=0.7, alpha=0.6)
                axes.plot(*states[0, :2], marker="o", markersize=2.5, color="#98A2B3", zorder=3)
                if crashed:
                    axes.plot(*states[-1, :2], marker="x", markersize=6, color=colour, zorder=5)
            arrived = int(np.sum(outcomes["arrived"]))
            crashes = int(np.sum(outcomes["crashed"]))
            (x_low, x_high), (y_low, y_high) = navigation.start_area
            axes.set_xlim(x_low - 0.5, x_high + 0.5)
            axes.set_ylim(y_low - 0.5, y_high + 0.5)
            end = f"{arrived} of {trials} arrive, {crashes} crash"
            axes.set_title(f"task {task.name}\n{end}")
        figure.suptitle(f"The {policy.name} policy from random starts\n", fontsize=10.5)
    return figure


def learning_figure(metrics: Sequence[dict[str, Any]], epsilon: float, window: int = 25) -> Figure:
    """Draw returns, distances and model order against the iteration from a run's metrics."""
    if not metrics:
        raise InputError("there are no metrics to draw yet")
    iterations = np.array([line["iteration"] for line in metrics])
    names = list(metrics[0]["return"])
    with figure_style():
        figure = Figure(figsize=(9.3, 2.9), layout="constrained")
        returns, distances, knots = figure.subplots(1, 3)
        for name, colour in zip(names, _colours(len(names)), strict=True):
            values = np.array([line["return"][name] for line in metrics], dtype=float)
            returns.plot(iterations, values, color=colour, linewidth=0.4, alpha=0.25)
            returns.plot(iterations, _smooth(values, window), color=colour, label=f"task {name}")
            apart = np.array([line["distance"][name] for line in metrics], dtype=float)
            distances.plot(iterations, apart, color=colour, linewidth=1.0)
        lowest = min(_smooth_low(metrics, name, window) for name in names)
        returns.set_ylim(bottom=1.15 * lowest if lowest < 0 else None)
        returns.set_title("Discounted return while exploring")
        returns.legend(loc="lower right")
        distances.set_title("Distance to the central policy")
        if np.isfinite(epsilon):
            distances.axhline(epsilon, color="#98A2B3", linestyle="--", linewidth=1.0)
            distances.annotate(
                f"ε = {epsilon:g}",
                (iterations[-1], epsilon),
                xytext=(-2, 4),
                textcoords="offset points",
                ha="right",
                color="#667085",
            )
        farthest = max(max(line["distance"].values()) for line in metrics)
        distances.set_ylim(0, 1.2 * max(farthest, 1e-12))
        order = [line["knots"] for line in metrics]
        knots.plot(iterations, order, color=CENTRAL, linewidth=1.2)
        knots.set_ylim(bottom=0)
        knots.set_title("Knots in the common dictionary")
        for axes in (returns, distances, knots):
            axes.set_xlabel("iteration")
            axes.set_xlim(0, iterations[-1])
    return figure


def _colours(count: int) -> list[str]:
    return [TASKS[i % len(TASKS)] for i in range(count)]


def _smooth(values: Floats, window: int) -> Floats:
    """Return the running mean over the last ``window`` values, fewer at the start."""
    total = np.cumsum(np.insert(values, 0, 0.0))
    stop = np.arange(1, len(values) + 1)
    start = np.maximum(stop - window, 0)
    return np.asarray((total[stop] - total[start]) / (stop - start))


def _smooth_low(metrics: Sequence[dict[str, Any]], name: str, window: int) -> float:
    values = np.array([line["return"][name] for line in metrics], dtype=float)
    return float(np.min(_smooth(values, window)))
