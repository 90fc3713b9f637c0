"""Figures of many tasks: distributions instead of lines, and legends that can be read."""

import numpy as np
import pytest

from crosslearning.figures import parts
from crosslearning.figures.relatedness import relatedness_figure
from crosslearning.figures.run import evaluation_figure, learning_figure

NAMES = [f"task-{k}" for k in range(1000)]


def labels(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def lines(count=3):
    def named(generator):
        return dict(zip(NAMES, generator.standard_normal(1000).tolist(), strict=True))

    generator = np.random.default_rng(0)
    return [
        {"iteration": k + 1, "steps": 10 * (k + 1), "knots": 5}
        | {field: named(generator) for field in ("return", "distance", "multiplier")}
        for k in range(count)
    ]


def test_curves_of_a_thousand_tasks_are_a_spread():
    figure = learning_figure(lines(), 3.0)
    assert labels(figure) == ["all 1000 tasks", "80 % of them", "median task"]
    assert all(len(axes.lines) <= 3 for axes in figure.axes)
    returns = figure.axes[0].lines[0].get_ydata()
    expected = [np.median(list(line["return"].values())) for line in lines()]
    np.testing.assert_allclose(returns, expected)


def test_the_inner_band_holds_four_tasks_in_five():
    _, axes = parts.new_figure((3, 2))
    curves = {str(k): np.full(2, float(k)) for k in range(101)}
    parts.draw_spread(axes, np.arange(2.0), curves)
    heights = [band.get_paths()[0].vertices[:, 1] for band in axes.collections]
    assert [(band.min(), band.max()) for band in heights] == [(0.0, 100.0), (10.0, 90.0)]


def test_evaluations_of_a_thousand_tasks_are_a_spread():
    interval = {"value": 1.0, "low": 0.0, "high": 2.0}
    results = [{"task": name, "discounted_return": interval, "rates": {}} for name in NAMES]
    line = {"iteration": 1, "steps": 10, "mean_return": 1.0, "results": results}
    assert labels(evaluation_figure([line, {**line, "iteration": 2, "steps": 20}])) == [
        "all 1000 tasks",
        "80 % of them",
        "median task",
        "best mean return",
    ]


def test_what_is_not_known_leaves_a_gap():
    _, axes = parts.new_figure((3, 2))
    curves = {"a": np.array([1.0, np.nan, np.nan]), "b": np.array([3.0, np.nan, 5.0])}
    parts.draw_spread(axes, np.arange(3.0), curves)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [2.0, np.nan, 5.0])


@pytest.mark.parametrize("count", [25, 200])
def test_relations_of_many_tasks_name_few(count):
    generator = np.random.default_rng(0)
    names = NAMES[:count]
    tasks = [{"task": name, "rank": k + 1, "stands_apart": k < 9} for k, name in enumerate(names)]
    places = generator.standard_normal((count + 1, 2)).tolist()
    cosines = np.eye(count).tolist()
    content = {"tasks": tasks, "epsilon": 3.0, "cosines": cosines, "map_share": 0.5}
    content["map"] = dict(zip((*names, "centre"), places, strict=True))
    figure = relatedness_figure(content)
    written = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert sum(text.startswith("task-") for text in written) == 5
    ticks = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert len(ticks) < 20
