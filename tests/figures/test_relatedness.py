"""The map of the policies and their cosines, checked by what is drawn."""

import numpy as np
import pytest

from crosslearning.figures.relatedness import relatedness_figure


def related(tasks, epsilon=4.0):
    """Return what ``relatedness.json`` holds of policies around their mean; the second is far."""
    generator = np.random.default_rng(3)
    points = generator.standard_normal((tasks, 8))
    points[1] += 9.0
    points -= points.mean(axis=0)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    names = [f"task {i}" for i in range(tasks)]
    places = dict(zip([*names, "centre"], [*points[:, :2].tolist(), [0.0, 0.0]], strict=True))
    return {
        "epsilon": epsilon,
        "tasks": [{"task": name, "stands_apart": i == 1} for i, name in enumerate(names)],
        "cosines": (unit @ unit.T).tolist(),
        "map": places,
        "map_share": 0.5,
    }


@pytest.mark.parametrize("tasks", [3, 12])
def test_the_figure_shows_every_task(tasks):
    figure = relatedness_figure(related(tasks))
    plane, matrix = figure.axes[:2]
    labels = [label.get_text() for label in matrix.get_yticklabels()]
    assert labels == [f"task {i}  {i + 1}" for i in range(tasks)]
    written = {text.get_text() for text in plane.texts}
    assert {str(i + 1) for i in range(tasks)} <= written
    assert "task 1" in written
    assert "task 0" not in written
    figure.draw_without_rendering()


@pytest.mark.parametrize(("tasks", "alone"), [(3, "−0.50"), (21, "−0.05")])
def test_cosines_are_shown_against_what_geometry_alone_gives(tasks, alone):
    content = related(tasks)
    _, matrix, bar = relatedness_figure(content).axes
    cosines = np.array(content["cosines"])
    mean = (cosines.sum() - tasks) / (tasks * (tasks - 1))
    assert f"geometry alone gives −1/(N−1) = {alone}" in matrix.get_title()
    assert f"mean of pairs {mean:.2f}".replace("-", "−") in matrix.get_title()
    # The middle of the colours is there, and the bar says so.
    (image,) = matrix.get_images()
    assert image.norm(-1.0 / (tasks - 1)) == pytest.approx(0.5)
    assert alone in bar.get_yticklabels()[1].get_text()


@pytest.mark.parametrize("epsilon", [None, 4.0])
def test_the_radius_is_drawn_if_there_is_one(epsilon):
    plane = relatedness_figure(related(4, epsilon)).axes[0]
    assert len(plane.patches) == (0 if epsilon is None else 1)
    assert ("ε = 4" in [text.get_text() for text in plane.texts]) == (epsilon is not None)
