"""The learning figure, checked by what is drawn in it."""

import math

import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.figures.run import learning_figure
from tests.figures.examples import curve, labels, metrics


@pytest.mark.parametrize("lines", [20, 200, 1000])
def test_the_thick_line_ends_where_the_data_are(lines):
    figure = learning_figure(metrics(["a", "b"], lines), 3.0)
    thick = curve(figure.axes[0], "task a").get_ydata()
    assert thick[-1] == pytest.approx(0.0, abs=1.0)
    assert thick[0] == pytest.approx(-100.0, abs=15.0)


def test_thin_and_thick_are_explained():
    figure = learning_figure(metrics(["a", "b"], 200, every=10), 3.0)
    assert labels(figure) == [
        "task a",
        "task b",
        "thin: means of 10 iterations",
        "thick: means of 110",
        "equal: colours take turns",
    ]
    widths = {line.get_linewidth() for line in figure.axes[0].get_lines()}
    assert len(widths) == 2
    # Where nothing is averaged, there is nothing to explain.
    few = learning_figure(metrics(["a"], 20), 3.0)
    assert labels(few) == ["task a"]
    assert len(few.axes[0].get_lines()) == 1


def test_an_axis_above_counts_environment_steps():
    lines = metrics(["a"], 100)
    for line in lines:
        line["steps"] = 10 * line["iteration"] ** 2  # later iterations take longer
    for axes in learning_figure(lines, 3.0).axes:
        (above,) = axes.child_axes
        assert above.get_xlabel() == "environment steps"
        ticks = dict(
            zip([t.get_text() for t in above.get_xticklabels()], above.get_xticks(), strict=True)
        )
        assert ticks["0"] == 0.0
        assert ticks["50k"] == pytest.approx(math.sqrt(5000.0), rel=0.01)


def test_distances_below_the_bound_are_told_apart_only_where_they_coincide():
    apart = {"a": 1.0, "b": 2.0}
    lines = metrics(apart, distance=lambda _, name: apart[name])
    figure = learning_figure(lines, 3.0)
    distances = figure.axes[1]
    assert "equal: colours take turns" not in labels(figure)
    assert [text.get_text() for text in distances.texts] == ["ε = 3"]
    for name, value in apart.items():
        np.testing.assert_array_equal(curve(distances, name).get_ydata(), value)


@pytest.mark.parametrize(
    ("epsilon", "words"), [(0.0, ["zero: with ε = 0 all policies are one"]), (math.inf, [])]
)
def test_without_a_bound_none_is_drawn(epsilon, words):
    lines = metrics(["a", "b"], distance=lambda k, _: 0.0 if epsilon == 0.0 else 0.1 * k)
    distances = learning_figure(lines, epsilon).axes[1]
    assert [text.get_text() for text in distances.texts] == words
    assert distances.get_ylim()[0] == 0.0
    assert not [line for line in distances.get_lines() if line.get_linestyle() == "--"]


def test_numbers_that_a_method_does_not_report_leave_gaps():
    lines = metrics(
        ["a", "b"],
        **{"return": lambda k, name: None if name == "b" or k < 50 else -1.0},
        distance=lambda k, name: None if name == "b" else 1.0,
    )
    figure = learning_figure(lines, 3.0)
    mean = curve(figure.axes[0], "task a").get_ydata()
    assert np.all(np.isnan(mean[:40]))
    np.testing.assert_array_equal(mean[60:], -1.0)
    figure.draw_without_rendering()
    nothing = metrics(["a"], **{"return": lambda *_: None})
    words = [text.get_text() for text in learning_figure(nothing, 3.0).axes[0].texts]
    assert words == ["no returns are known"]


@pytest.mark.parametrize("tasks", [1, 20, 40])
@pytest.mark.parametrize("lines", [1, 2, 50])
def test_any_number_of_tasks_and_lines_is_drawn(tasks, lines):
    figure = learning_figure(metrics([f"t{i}" for i in range(tasks)], lines), 3.0)
    figure.draw_without_rendering()
    assert ("mean of the tasks" in labels(figure)) == (tasks > 7)


def test_a_run_without_metrics_is_refused():
    with pytest.raises(InputError, match="no metrics to draw yet"):
        learning_figure([], 3.0)
