"""The certificate's figure, checked by what is drawn in it."""

import math

import numpy as np
import pytest

from crosslearning.figures.certificate import certificate_figure
from tests.figures.examples import certificate, curve, labels, metrics

TASKS = ["r=0.5", "r=1", "r=2"]


def words(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_figure_shows_the_numbers():
    content = certificate(TASKS, alpha=50.0)
    figure = certificate_figure(content, metrics(TASKS))
    distances, multipliers, pruning, gaps = figure.axes
    np.testing.assert_array_equal(curve(distances, "r=1").get_ydata(), 3.0)
    drawn = [float(line.get_ydata()[0]) for line in distances.get_lines()]
    assert {row["ridged_distance"] for row in content["constraint"]} <= set(drawn)
    assert "ε = 3" in [text.get_text() for text in distances.texts]
    assert len([line for line in multipliers.get_lines() if line.get_label() != "_turn"]) == 6
    assert pruning.get_yscale() == "log"
    assert "budget 0.001" in [text.get_text() for text in pruning.texts]
    assert [label.get_text() for label in gaps.get_yticklabels()] == TASKS
    assert any(line.get_xdata()[0] == 50.0 for line in gaps.get_lines())  # α
    ends = [bar.lines[2][0].get_segments()[0][:, 0] for bar in gaps.containers]
    np.testing.assert_allclose(ends, [[5.0, 40.0], [5.0, 41.0], [5.0, 42.0]])
    assert labels(figure)[:3] == ["task r=0.5: 2.900", "task r=1: 2.910", "task r=2: 2.920"]
    assert {"thin: each iteration", "thick: means of 11"} <= set(labels(figure))
    assert "final distance, from the file" in labels(figure)
    assert [axes.child_axes[0].get_xlabel() for axes in (distances, multipliers)] == [
        "environment steps"
    ] * 2


def test_forced_removals_have_a_panel_of_their_own():
    lines = metrics(
        TASKS, 50, every=10, forced_by_cap=lambda k: 30, forced_by_conditioning=lambda k: k
    )
    figure = certificate_figure(certificate(TASKS), lines)
    assert len(figure.axes) == 5
    forced = figure.axes[-1]
    assert "forced" in forced.get_title()
    (area,) = forced.patches
    values, edges, _ = area.get_data()
    np.testing.assert_allclose(values, (30 + np.arange(50)) / 10.0)  # per iteration
    np.testing.assert_allclose(edges, np.arange(0, 501, 10))
    pruning = figure.axes[2]
    assert pruning.get_shared_x_axes().get_siblings(pruning) == [pruning]  # no twin
    assert forced.get_xlim() == pruning.get_xlim()


def test_the_figure_stands_without_metrics():
    empty = certificate(TASKS, None, constraint=[], gaps=[], pruning=None)
    figure = certificate_figure(empty, ())
    assert words(figure).count("no readable metrics") == 3
    assert "not measured" in words(figure)
    figure.draw_without_rendering()


@pytest.mark.parametrize("tasks", [1, 3, 20, 30])
@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        (0.0, {"infinite: ε = 0 forces consensus", "always 0 for ε = 0"}),
        (3.0, {"ε = 3"}),
        (math.inf, {"zero: nothing is held back", "infinite for ε = ∞"}),
    ],
)
def test_any_radius_and_number_of_tasks_is_drawn(tasks, epsilon, said):
    names = [f"t{i}" for i in range(tasks)]
    multiplier = {0.0: None, 3.0: 0.1, math.inf: 0.0}[epsilon]
    gap = {0.0: 0.0, 3.0: 1.0, math.inf: "inf"}[epsilon]
    lines = metrics(names, 60, multiplier=lambda *_: multiplier)
    gaps = [{"task": name, "gap": dict.fromkeys(("value", "low", "high"), gap)} for name in names]
    figure = certificate_figure(certificate(names, 60, epsilon, gaps=gaps), lines)
    assert said <= set(words(figure))
    figure.draw_without_rendering()


def test_a_failed_check_is_said():
    figure = certificate_figure(certificate(TASKS, passed=False), metrics(TASKS))
    assert "NOT CERTIFIED" in figure.get_suptitle()


def test_lines_without_a_methods_own_numbers_are_drawn():
    lines = metrics(TASKS, 30)
    for line in lines:
        assert not {"gap", "gradient_norm"} & set(line)
        line["multiplier"]["r=1"] = None
    certificate_figure(certificate(TASKS), lines).draw_without_rendering()
