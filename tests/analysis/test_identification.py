"""Identification: the right task is named, and the certainty is worth what it says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import crosslearning
from crosslearning import CrossLearner, cli
from crosslearning._base.statistics import wilson
from crosslearning.analysis import identification
from crosslearning.analysis.identification import Identification, identify_all
from crosslearning.errors import InputError
from crosslearning.runs import make_config, train
from crosslearning.tasks import Task
from crosslearning.tasks.linear_quadratic import cart
from tests.learner.examples import Drift


class Windy(Drift):
    """A point that a wind of its own blows along, in gusts."""

    def __init__(self, wind):
        super().__init__()
        self.wind = wind

    def step(self, action):
        self.place = self.place + 0.1 * (self.wind + self.np_random.normal(0.0, 1.0, 2))
        return super().step(action)


def windy(wind):
    return Task(f"wind {wind:g}", lambda render_mode=None: Windy(wind), horizon=15)


@pytest.fixture(scope="module")
def breezes():
    """Return a learner of tasks that few episodes do not tell apart for certain."""
    return CrossLearner([windy(wind) for wind in (-0.6, -0.2, 0.2, 0.6)], max_knots=20).learn(2)


@pytest.fixture(scope="module")
def carts():
    tasks = [cart(mass).task(f"m={mass:g}") for mass in (0.5, 1.0, 2.0)]
    return CrossLearner(tasks, 0.5, step_size=0.1, max_knots=30).learn(30)


def test_trained_tasks_are_known_again(carts):
    for task, result in zip(carts.tasks, identify_all(carts, carts.tasks, episodes=3), strict=True):
        assert result.nearest == task.name
        assert result.familiar
        # 18 trials, all right, are worth no more.
        assert 0.9 < result.certainty <= 1.0 - (2.0 / 3.0) / 20.0
        assert sum(result.probabilities.values()) == pytest.approx(1.0)
        assert result.errors[task.name] == min(result.errors.values())
        assert result.errors[task.name] < 2.0
        assert f"most like {task.name}, with a certainty of 9" in str(result)


def test_the_certainty_is_that_of_being_right(breezes, monkeypatch):
    monkeypatch.setattr(identification, "_CENTRES", 30)  # small models are fast
    right, certainty = [], []
    for seed in range(12):
        result = identify_all(breezes, breezes.tasks, episodes=2, seed=seed)
        right += [one.nearest == task.name for one, task in zip(result, breezes.tasks, strict=True)]
        certainty += [one.certainty for one in result]
    share, claimed = wilson(np.array(right)), np.array(certainty)
    # Neither sure nor clueless, so that there is something to be calibrated.
    assert 0.35 < np.mean(claimed) < 0.9
    assert share.low <= np.mean(claimed) <= share.high
    surer = claimed > np.median(claimed)
    assert np.mean(np.array(right)[surer]) > np.mean(np.array(right)[~surer])


def test_more_episodes_make_it_surer(breezes, monkeypatch):
    monkeypatch.setattr(identification, "_CENTRES", 30)
    few, many = (
        np.mean([one.certainty for one in identify_all(breezes, breezes.tasks, episodes=n)])
        for n in (1, 12)
    )
    assert many > few + 0.1


def test_a_task_between_two_is_given_to_the_nearer_or_to_none_with_certainty(carts):
    near = cart(1.9).task("nearly two")
    between = cart(1.4).task("between")
    result, middle = identify_all(carts, [near, between], episodes=3)
    assert result.nearest == "m=2"
    assert middle.nearest in ("m=1", "m=2")
    assert middle.probabilities["m=0.5"] < 0.2
    assert not middle.familiar
    assert min(middle.errors.values()) > 2.0
    assert "like none of them" in str(middle)


def test_it_is_a_function_of_its_seed(breezes):
    new = windy(0.5)
    one, again = (crosslearning.identify(breezes, new, episodes=2, seed=3) for _ in range(2))
    assert one == again
    assert one.probabilities != crosslearning.identify(breezes, new, episodes=2).probabilities
    assert (one.episodes, one.steps) == (2, 30)


def test_one_trained_task_says_whether_a_new_one_is_like_it():
    learner = CrossLearner([cart(1.0).task("cart")], max_knots=20, step_size=0.1).learn(3)
    assert crosslearning.identify(learner, cart(1.0).task("same"), episodes=3).familiar
    assert not crosslearning.identify(learner, cart(3.0).task("heavy"), episodes=3).familiar


def test_what_is_wrong_is_named(carts, tmp_path):
    with pytest.raises(InputError, match="episodes must be a whole number"):
        crosslearning.identify(carts, carts.tasks[0], episodes=0)
    with pytest.raises(InputError, match="identify takes a Task"):
        crosslearning.identify(carts, "linear-quadratic")
    with pytest.raises(InputError, match="policy reads 2 numbers"):
        crosslearning.identify(carts, crosslearning.task_set("paper")[0])
    carts.save(tmp_path / "carts.safetensors")
    alone = CrossLearner.load(tmp_path / "carts.safetensors")
    with pytest.raises(InputError, match=r"not here.*load\(path, tasks="):
        crosslearning.identify(alone, carts.tasks[0])


def test_the_sentence_tells_what_matters():
    result = Identification("new", {"a": 0.2, "b": 0.8}, {"a": 3.0, "b": 1.04}, 1.2, 5, 100)
    assert (result.nearest, result.certainty) == ("b", 0.8)
    assert str(result) == (
        "new is most like b, with a certainty of 80 % (a 20 %); it is predicted 1 times as badly "
        "as b itself."
    )


def test_the_command_line(tmp_path):
    config = {"tasks": "linear-quadratic", "iterations": 5, "max_knots": 20, "step_size": 0.1}
    train(tmp_path / "run", make_config(config))
    arguments = ["identify", str(tmp_path / "run"), "--tasks", "linear-quadratic:m=1"]
    arguments += ["--episodes", "2"]
    shown = CliRunner().invoke(cli.app, arguments).output
    assert shown.startswith("m=1 is most like m=1, with a certainty of")
    (row,) = json.loads(CliRunner().invoke(cli.app, [*arguments, "--json"]).output)
    assert row["nearest"] == "m=1"
    assert row["familiar"] is True
    assert set(row["errors"]) == {"m=0.5", "m=1", "m=2"}
