"""``crosslearning check``: tasks that can be learned, what policies see of them, and warnings."""

import sys
import warnings

import pytest
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning.errors import InputError

MODULE = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict


class Cart(gymnasium.Env):
    observation_space = Dict(place=Box(-9.0, 9.0, (1,)), speed=Box(-9.0, 9.0, (1,)))
    action_space = Box(-1.0, 1.0, (1,))

    def __init__(self, limit=0, render_mode=None):
        self.limit = limit

    def show(self):
        return {"place": self.x.astype(np.float32), "speed": self.v.astype(np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        (self.x, self.v), self.steps = self.np_random.uniform(-1.0, 1.0, (2, 1)), 0
        return self.show(), {}

    def step(self, action):
        self.steps += 1
        self.v = 0.9 * self.v + 0.1 * action
        self.x = np.clip(self.x + 0.1 * self.v, -9.0, 9.0)
        ended = self.steps == self.limit
        return self.show(), -float(self.x[0] ** 2), ended, False, {}


def carts():
    return {name: {"make": Cart, "horizon": 30} for name in ("one", "two")}


def limited():
    return {"limited": lambda: Cart(30)}


def missing():
    import no_such_package

    return {}
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    (tmp_path / "checked_tasks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda *arguments: CliRunner().invoke(
        cli.app, ["check", *arguments, "--steps", "40"], catch_exceptions=False
    )
    sys.modules.pop("checked_tasks", None)


def test_it_shows_what_policies_see(check):
    shown = check("checked_tasks:carts").output
    assert "checked_tasks:carts can be learned" in shown
    assert [line.split()[1:] for line in shown.splitlines() if line.startswith(("one", "two"))] == [
        ["2", "1", "30"]
    ] * 2
    assert "observations: place, speed" in shown


def test_it_warns(check):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert check("checked_tasks:limited").exit_code == 0
    said = " ".join(str(one.message) for one in caught)
    assert "all 4 episodes terminated at step 30" in said
    assert "no time limit is known of the tasks 'limited'" in said


def test_a_missing_package_is_named_with_how_to_get_it(check):
    with pytest.raises(
        InputError, match=r"no_such_package'; install .* pip install no_such_package"
    ):
        check("checked_tasks:missing")
