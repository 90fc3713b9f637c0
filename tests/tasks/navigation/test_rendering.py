"""Pictures show what they should, where it should be."""

import numpy as np
import pytest

from crosslearning.tasks import Circle, Ellipse, Navigation
from crosslearning.tasks.rendering import Painter

SCENE = Navigation(
    obstacles=(Circle((7.0, 2.0), 1.0), Ellipse((2.0, 7.0), (0.5, 2.0), 0.6)),
    goals=((5.0, 6.0), (9.0, 9.0)),
)


def pixel(navigation, picture, x, y):
    """The colour at a place, by the documented limits: everything there is, and a margin."""
    height, width, _ = picture.shape
    low, high = -0.9, 10.9
    column, row = (x - low) / (high - low) * width, (high - y) / (high - low) * height
    return picture[int(row), int(column)].astype(int)


def frames(navigation, actions, start):
    environment = navigation.environment(render_mode="rgb_array")
    environment.reset(options={"start": start})
    yield environment.render()
    for action in actions:
        environment.step(action)
        yield environment.render()


def red_pixels(picture):
    red, green, blue = np.moveaxis(picture.astype(float), -1, 0)
    return np.count_nonzero(red > 1.8 * np.maximum(green, blue))


def test_a_picture_shows_the_scene_in_its_place():
    (picture,) = frames(SCENE, [], (1.0, 1.0, 0.0))
    assert picture.dtype == np.uint8
    assert picture.shape == (600, 600, 3)
    free = pixel(SCENE, picture, 3.5, 3.5)
    inside = [(7.0, 2.0), (7.6, 2.6), (2.0, 7.0), (1.05, 8.35)]
    outside = [(7.8, 2.8), (1.05, 5.65)]
    for place in inside:
        assert np.abs(pixel(SCENE, picture, *place) - free).sum() > 60
    for place in outside:
        assert np.abs(pixel(SCENE, picture, *place) - free).sum() < 30
    goal = pixel(SCENE, picture, 4.87, 6.0)
    assert goal[1] > goal[0] + 50


def test_the_robot_moves_and_leaves_a_trail():
    first, second = frames(SCENE, [(2.0, 0.0)], (1.0, 1.0, 0.0))
    assert np.abs(pixel(SCENE, first, 2.1, 1.0) - pixel(SCENE, second, 2.1, 1.0)).sum() > 60
    trail = pixel(SCENE, second, 1.5, 1.0)
    assert trail[2] > trail[0] + 20


def test_the_heading_shows():
    (east,) = frames(SCENE, [], (1.0, 1.0, 0.0))
    (north,) = frames(SCENE, [], (1.0, 1.0, np.pi / 2))
    assert (east != north).any()


def test_a_crash_shows():
    before, *_, after = frames(SCENE, [(2.0, 0.0)] * 3, (4.5, 2.05, 0.0))
    assert red_pixels(before) == 0
    assert red_pixels(after) > 100


def test_a_robot_outside_the_view_does_no_harm():
    *_, picture = frames(SCENE, [(2.0, 0.0)] * 5, (9.5, 1.0, 0.0))
    assert picture.shape == (600, 600, 3)


def test_the_view_keeps_its_shape_and_size():
    wide = Navigation(obstacles=(), start=(0.0, 0.0), goals=((20.0, 1.0),))
    state = np.zeros(9)
    picture = Painter(wide, size=300).picture(state)
    assert picture.shape[1] == 300
    assert picture.shape[0] == pytest.approx(300 * 2.8 / 21.8, abs=1)


def test_without_a_mode_there_is_no_picture():
    environment = Navigation().environment()
    environment.reset(seed=0)
    assert environment.render() is None


def test_only_the_redrawn_goal_of_the_episode_is_shown():
    redrawn = Navigation(goals="grid", goal_choice="redrawn")
    environment = redrawn.environment(render_mode="rgb_array")
    _, info = environment.reset(seed=4)
    assert info["goal"] > 0
    alone = redrawn.replace(goals=(redrawn.goals[info["goal"]],), goal_choice="ordered")
    other = alone.environment(render_mode="rgb_array")
    other.reset(seed=4)
    np.testing.assert_array_equal(environment.render(), other.render())
