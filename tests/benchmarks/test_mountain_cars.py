"""The cars that are paid for the goal alone, and the kernel of those that know their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.mountain_cars import FAMILY, from_bounds, paid_for_the_goal

from crosslearning.tasks import task_set


def test_only_arriving_is_paid():
    car = paid_for_the_goal(task_set(FAMILY)[0])
    car.reset(seed=0)
    rewards, arrived = [], False
    position, speed = -0.5, 0.0
    while not arrived:
        # Pushing along the speed swings a car up.
        (position, speed), reward, arrived, truncated, _ = car.step([np.sign(speed) or 1.0])
        assert not truncated
        rewards.append(reward)
    assert position >= 0.45
    assert set(rewards[:-1]) == {0.0}
    assert rewards[-1] == 100.0


def test_widths_are_a_quarter_of_half_the_ranges():
    kernel = from_bounds(task_set(FAMILY)[0])
    # Positions from −1.2 to 0.6, speeds of at most 0.07.
    assert kernel["std"] == pytest.approx([0.225, 0.0175])
