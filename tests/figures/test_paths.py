"""Paths on maps, checked by what is drawn."""

import dataclasses

import numpy as np
import pytest

from crosslearning.analysis.trajectories import Trajectories
from crosslearning.errors import InputError
from crosslearning.figures.paths import trajectory_figure
from crosslearning.figures.style import ALARM, CENTRAL
from crosslearning.tasks import Navigation


def driven(name="a"):
    """Return four paths: one arrives, one crashes, two stand still."""
    paths = np.zeros((4, 3, 2))
    paths[0, 1:] = [[2.0, 2.0], [5.0, 6.0]]
    paths[1, 1:] = [7.0, 1.5]
    paths[2:] = [[[1.0, 1.0]] * 3, [[2.0, 3.0]] * 3]
    crashed = np.array([False, True, False, False])
    arrived = np.array([True, False, False, False])
    return Trajectories(name, Navigation(), paths, crashed, arrived)


def places(axes, marker):
    return [tuple(one.get_xydata()[0]) for one in axes.get_lines() if one.get_marker() == marker]


def test_every_ending_is_marked_and_counted():
    figure = trajectory_figure("central", [driven()])
    (axes,) = figure.axes
    assert axes.get_title() == "task a\n1 of 4 arrive, 1 crash, 2 out of time"
    assert places(axes, "X") == [(7.0, 1.5)]
    rings = [one for one in axes.get_lines() if one.get_markerfacecolor() == "white"]
    assert [tuple(one.get_xydata()[0]) for one in rings] == [(1.0, 1.0), (2.0, 3.0)]
    drawn = [one.get_color() for one in axes.get_lines() if len(one.get_xdata()) == 3]
    assert drawn == [CENTRAL, ALARM, CENTRAL, CENTRAL]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["start", "path", "crash", "out of time"]
    assert "The central policy" in figure.get_suptitle()


@pytest.mark.parametrize(("tasks", "panels"), [(1, 1), (3, 3), (7, 7), (20, 20)])
def test_many_tasks_go_into_rows(tasks, panels):
    figure = trajectory_figure("central", [driven(f"t{i}") for i in range(tasks)])
    assert len(figure.axes) == panels
    assert figure.get_figwidth() < 20.0
    assert [axes.get_title().split("\n")[0] for axes in figure.axes if axes.get_title()] == [
        f"task t{i}" for i in range(tasks)
    ]
    figure.draw_without_rendering()


def test_nothing_to_draw_is_refused():
    with pytest.raises(InputError, match="no paths to draw"):
        trajectory_figure("central", [])


def test_goals_that_are_redrawn_are_points_without_numbers():
    redrawn = Navigation(goals="grid", goal_choice="redrawn")
    one = dataclasses.replace(driven(), navigation=redrawn)
    (axes,) = trajectory_figure("central", [one]).axes
    points = next(line for line in axes.get_lines() if len(line.get_xydata()) == len(redrawn.goals))
    np.testing.assert_array_equal(points.get_xydata(), redrawn.goals)
    assert places(axes, "*") == []
    assert "2" not in [text.get_text() for text in axes.texts]
