"""Pictures of pendulums and cart-poles: what they show is where it is."""

import math

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.analysis.recording import record
from crosslearning.tasks.cart_pole import TRACK, CartPole
from crosslearning.tasks.pendulum import Pendulum
from crosslearning.tasks.rendering import BLUE, GREEN, INK, ORANGE


def shown(kind, state, action=None, **context):
    """Return the picture of a state, or of what an action leads to."""
    environment = kind(render_mode="rgb_array", **context)
    environment.reset(options={"state": state})
    if action is not None:
        environment.step([action])
    return environment.render()


def places(picture, colour):
    """Return where a colour is, shape (n, 2): across and down."""
    down, across = np.nonzero(np.all(picture == colour, axis=2))
    return np.stack([across, down], axis=1)


@pytest.mark.parametrize("length", [0.8, 1.25])
def test_a_rod_points_where_the_angle_says(length):
    picture = shown(Pendulum, [0.5 * math.pi, 0.0], l=length)
    assert picture.shape == (480, 480, 3)
    across, down = places(picture, BLUE).max(axis=0)
    # To the right, as far as it is long: the picture ends after 1.4 m, or 1.2 lengths.
    assert across == pytest.approx(240 * (1 + length / max(1.4, 1.2 * length)), abs=8)
    assert down == pytest.approx(240, abs=8)


def test_who_stands_is_green():
    down = places(shown(Pendulum, [0.1, 0.0]), GREEN)[:, 1]
    assert down.min() < 120
    assert len(places(shown(Pendulum, [0.1, 0.0]), BLUE)) == 0
    assert len(places(shown(CartPole, [0.0, 0.0, 0.1, 0.0, 0.0]), BLUE)) == 0
    assert len(places(shown(CartPole, [0.0, 0.0, math.pi, 0.0, 0.0]), BLUE)) > 50


@pytest.mark.parametrize(("kind", "state"), [(Pendulum, [0.0] * 2), (CartPole, [0.0] * 5)])
def test_the_last_action_is_shown_at_its_side(kind, state):
    assert len(places(shown(kind, state), ORANGE)) == 0
    middle = 240
    assert places(shown(kind, state, 1.5), ORANGE)[:, 0].mean() > middle
    assert places(shown(kind, state, -1.5), ORANGE)[:, 0].mean() < middle
    # One that is clipped looks like the largest that there is.
    assert np.array_equal(shown(kind, state, 100.0), shown(kind, state, 10.0))


def test_a_cart_at_the_end_of_its_track_is_in_the_picture():
    for x in (-TRACK, 0.0, TRACK):
        cart = places(shown(CartPole, [x, 0.0, math.pi, 0.0, 0.0]), INK)
        assert len(cart) > 300


@pytest.mark.parametrize("family", ["pendulums:2", "cart-poles:2"])
def test_families_can_be_filmed(family):
    learner = CrossLearner(family, method="policy-gradient", max_knots=10)
    recording = record(learner.central, learner.tasks[1], horizon=3)
    assert len(recording.episodes[0]) == 4
    assert recording.rate == 20.0
    assert not np.array_equal(recording.episodes[0][0], recording.episodes[0][3])
