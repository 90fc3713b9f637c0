"""The learning figure, checked by what is drawn in it."""

import math

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.errors import InputError
from crosslearning.figures.run import evaluation_figure, learning_figure
from crosslearning.learner.settings import METHODS
from crosslearning.learner.user_input import make_settings
from crosslearning.runs.metrics import Averages, aims_of
from tests.figures.examples import curve, labels, metrics
from tests.learner.examples import recorded_reports


@pytest.mark.parametrize("lines", [20, 200, 1000])
def test_the_thick_line_ends_where_the_data_are(lines):
    figure = learning_figure(metrics(["a", "b"], lines), 3.0)
    thick = curve(figure.axes[0], "a").get_ydata()
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
    numbers = {"return": lambda k, name: k * apart[name], "distance": lambda _, name: apart[name]}
    figure = learning_figure(metrics(apart, **numbers), 3.0)
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
    mean = curve(figure.axes[0], "a").get_ydata()
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
    assert ("mean of the tasks" in labels(figure)) == (7 < tasks <= 24)


def test_a_run_without_metrics_is_refused():
    with pytest.raises(InputError, match="no metrics to draw yet"):
        learning_figure([], 3.0)
    with pytest.raises(InputError, match="no evaluations to draw yet"):
        evaluation_figure([])


def test_what_else_a_method_tells_of_every_task_has_a_panel():
    lines = metrics(["a", "b"], 20)
    for k, line in enumerate(lines):
        line["gradient_norm"] = {"a": 1.0, "b": 1.0}
        line["length"] = {"a": 10.0 + k, "b": 20.0}
        # Of task b it is known from the middle on, and the first line does not have it at all.
        if k:
            line["crashed"] = {"a": 0.5, "b": None if k < 10 else 0.25}
    figure = learning_figure(lines, 3.0)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[3:] == ["Length of an episode, steps", "Crashed, mean of the episodes"]
    lengths, crashed = figure.axes[3:]
    np.testing.assert_array_equal(curve(lengths, "a").get_ydata(), 10.0 + np.arange(20))
    seen = curve(crashed, "b").get_ydata()
    assert np.all(np.isnan(seen[:10]))
    np.testing.assert_array_equal(seen[10:], 0.25)
    figure.draw_without_rendering()
    assert len(learning_figure(metrics(["a"], 20), 3.0).axes) == 3


def test_what_the_methods_tell_has_titles_in_words():
    for method in METHODS:
        learner = CrossLearner("linear-quadratic", method=method, max_knots=20)
        reports = recorded_reports(learner, 2)
        averages = Averages([task.name for task in learner.tasks])
        averages.add(reports[0])
        figure = learning_figure([averages.line(1)], 3.0)
        for axes in figure.axes:
            assert "_" not in axes.get_title()
            assert axes.get_title()[0].isupper(), axes.get_title()


def test_a_thin_line_shows_the_step_that_was_asked_for():
    given = {"step_kl": 0.08, "step_decay": 10.0, "reliable": 0.5}
    settings = make_settings({"method": "trust-region", **given})
    lines = metrics(["a", "b"], 30)
    for line in lines:
        line["kl"] = {"a": 0.01, "b": 0.02}
    lines[10]["reliability"] = {"a": 0.25, "b": 0.25}
    figure = learning_figure(lines, 3.0, aims_of(settings, lines))
    (asked,) = [one for one in figure.axes[3].get_lines() if one.get_linestyle() == "--"]
    np.testing.assert_allclose(asked.get_ydata()[[0, 10]], [0.08, 0.04 / 2**4])
    assert figure.axes[3].get_ylim()[1] > 0.08
    assert "dashed: requested" in labels(figure)
    assert make_settings({"method": "policy-gradient"}).aims(1, {}) == {}


def test_numbers_that_coincide_hide_no_task():
    lines = metrics(["a", "b"], 60)
    for line in lines:
        line["entropy"] = {"a": 0.5, "b": 0.5}
    entropy = learning_figure(lines, 3.0).axes[3]
    turns = {
        line.get_color(): np.isfinite(line.get_ydata()).sum()
        for line in entropy.get_lines()
        if line.get_label() == "_turn"
    }
    assert len(turns) == 2
    assert min(turns.values()) > 20
    low, high = entropy.get_ylim()
    assert (low, high) == (0.45, 0.55)


# Evaluations on the way --------------------------------------------------------------------


def evaluations(tasks, lines=12, rates=("crashed",)):
    """Return lines of evaluations whose returns rise, but for the last, and crashes fall."""

    def interval(value, half):
        return {"value": value, "low": value - half, "high": value + half}

    result = []
    for k in range(lines):
        value = -100.0 + 5.0 * k if k < lines - 1 else -200.0
        results = [
            {
                "task": task,
                "discounted_return": interval(value + number, 4.0),
                "rates": {name: interval(0.5 - 0.02 * k, 0.05) for name in rates},
            }
            for number, task in enumerate(tasks)
        ]
        line = {"iteration": 50 * (k + 1), "steps": 9000 * (k + 1), "mean_return": value}
        result.append({**line, "results": results})
    return result


def test_evaluations_are_drawn_with_bands_rates_and_the_best():
    figure = evaluation_figure(evaluations(["a", "b"], rates=("crashed", "arrived")))
    returns, crashed, arrived = figure.axes
    titles = ["Discounted return, evaluated", "Episodes: crashed", "Episodes: arrived"]
    assert [axes.get_title() for axes in figure.axes] == titles
    np.testing.assert_allclose(curve(returns, "b").get_ydata()[:3], [-99.0, -94.0, -89.0])
    np.testing.assert_allclose(curve(crashed, "a").get_ydata()[:2], [0.5, 0.48])
    band = returns.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == -204.0
    assert {-104.0, -96.0} <= set(band[:, 1])
    for axes in (returns, crashed, arrived):
        (dashed,) = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
        assert list(dashed.get_xdata()) == [550.0, 550.0]
        assert axes.child_axes[0].get_xlabel() == "environment steps"
    assert {"task a", "task b", "95 % interval", "best mean return"} <= set(labels(figure))
    figure.draw_without_rendering()


@pytest.mark.parametrize("lines", [1, 2, 40])
@pytest.mark.parametrize("tasks", [1, 20])
@pytest.mark.parametrize("rates", [(), ("crashed", "arrived", "stalled", "lost")])
def test_any_number_of_evaluations_is_drawn(lines, tasks, rates):
    figure = evaluation_figure(evaluations([f"t{i}" for i in range(tasks)], lines, rates))
    figure.draw_without_rendering()
    assert len(figure.axes) == 1 + len(rates)
    assert ("mean of the tasks" in labels(figure)) == (7 < tasks <= 24)


def test_what_an_evaluation_does_not_know_leaves_a_gap():
    lines = evaluations(["a", "b"], 5)
    lines[2]["results"][0]["rates"] = {"crashed": {"value": None, "low": None, "high": None}}
    lines[3]["results"][0]["rates"] = {}
    lines[3]["mean_return"] = None
    figure = evaluation_figure(lines)
    shown = curve(figure.axes[1], "a").get_ydata()
    assert np.isnan(shown).tolist() == [False, False, True, True, False]
    figure.draw_without_rendering()
