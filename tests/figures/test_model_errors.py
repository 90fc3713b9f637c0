"""Figures of models' errors, checked by what is drawn."""

import numpy as np
import pytest

from crosslearning.figures.model_errors import errors_figure, paths_figure, radius_figure

KINDS = ("cross-learned", "pooled", "separate")


def plain(outputs=4, tasks=3, steps=6, chosen=0.2):
    """Return what ``models.json`` holds, with errors of 0.1, 0.2, 0.3 for the three kinds."""
    names = [f"observation {d}" for d in range(outputs - 1)] + ["reward"]

    def interval(value):
        return {"value": value, "low": 0.5 * value, "high": 2.0 * value}

    kinds = [
        {
            "kind": kind,
            "one_step": {name: interval(0.1 * k) for name in [*names, "overall"]},
            "ahead": {name: interval(0.2 * k) for name in [*names, "overall"]},
            "growth": [interval(0.1 * k * step) for step in range(1, steps + 1)],
        }
        for k, kind in enumerate(KINDS, start=1)
    ]
    path = np.linspace(0.0, 1.0, steps + 1)[:, None] * np.ones(outputs - 1)
    paths = [
        {
            "task": f"pendulum g={i} and more",
            "real": path.tolist(),
            "told": {kind: (path * 1.1).tolist() for kind in KINDS},
            "low": (path - 0.1).tolist(),
            "high": (path + 0.1).tolist(),
        }
        for i in range(tasks)
    ]
    curve = {"radii": [0.0, 0.01, 0.1, 1.0, 10.0, None], "errors": [0.5, 0.4, 0.1, 0.2, 0.6, 0.7]}
    curves = [{"output": name, **curve, "chosen": chosen, "error": 0.15} for name in names]
    return {"kinds": kinds, "paths": paths, "curves": curves, "steps": steps}


def test_errors_of_every_kind_are_drawn_by_output_and_by_steps():
    figure = errors_figure(plain())
    left, right = figure.axes
    labels = [label.get_text() for label in left.get_xticklabels()]
    assert labels == ["obs. 0", "obs. 1", "obs. 2", "reward", "overall"]
    heights = [line.get_ydata().tolist() for line in right.lines]
    assert heights == [pytest.approx([0.1 * k * s for s in range(1, 7)]) for k in (1, 2, 3)]
    figure.draw_without_rendering()


@pytest.mark.parametrize(("outputs", "rows"), [(2, 1), (4, 3), (12, 4)])
def test_paths_have_a_column_for_each_task_and_a_row_for_each_coordinate(outputs, rows):
    figure = paths_figure(plain(outputs))
    assert len(figure.axes) == 3 * rows
    assert figure.axes[0].get_title() == "pendulum\ng=0 and more"
    # Three kinds, and what happened.
    assert len(figure.axes[0].lines) == 4
    figure.draw_without_rendering()


@pytest.mark.parametrize("chosen", [0.2, 0.0, None])
def test_the_radius_that_was_chosen_is_marked_even_at_an_end(chosen):
    figure = radius_figure(plain(chosen=chosen))
    assert len(figure.axes) == 4
    axes = figure.axes[0]
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert ticks[0] == "0"
    assert ticks[-1] == "∞"
    low, high = axes.get_xlim()
    marked = axes.lines[-1]
    assert low < marked.get_xdata()[0] < high
    assert marked.get_ydata()[0] == 0.15
    figure.draw_without_rendering()


def test_many_outputs_take_more_rows():
    figure = radius_figure(plain(6))
    assert len(figure.axes) == 6
    figure.draw_without_rendering()
