"""Films: the same episodes as evaluations, as pictures; and a sentence where there are none."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner, Task
from crosslearning.analysis.recording import MOST_PIXELS, record
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import run_episodes


class Dial(gymnasium.Env):
    """A dial that turns; its picture is as bright as it is far, and it ends at 0.5 or beyond."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    shape, kind = (6, 8, 3), np.uint8

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.2 * self.np_random.random()
        return np.array([self.place]), {}

    def step(self, action):
        self.place += 0.1
        return np.array([self.place]), self.place, self.place >= 0.5, False, {}

    def render(self):
        return np.full(self.shape, round(100 * self.place), self.kind)


def dial(**changes):
    kind = type("Other", (Dial,), changes)
    return Task("dial", kind, horizon=10)


@pytest.fixture(scope="module")
def learner():
    return CrossLearner([dial()], method="policy-gradient", max_knots=10)


def test_a_film_shows_the_episodes_that_an_evaluation_runs(learner):
    seen = []
    result = record(learner.central, learner.tasks[0], 3, seed=5, callback=lambda: seen.append(1))
    played = run_episodes(learner.central, learner.tasks[0], 3, seed=5)
    assert [len(own) - 1 for own in result.episodes] == played.lengths.tolist()
    assert len(seen) == sum(map(len, result.episodes))
    assert np.array_equal(result.returns, played.rewards.sum(axis=1))
    for own, observations in zip(result.episodes, played.observations, strict=True):
        brightness = [int(frame[0, 0, 0]) for frame in own]
        assert brightness == [round(100 * float(o[0])) for o in observations[: len(own)]]
    assert (result.task, result.policy, result.rate) == ("dial", "central", 4.0)


def test_compiled_tasks_are_filmed_from_the_same_starts():
    learner = CrossLearner("paper:r=1", method="policy-gradient", max_knots=10)
    task = learner.tasks[0]
    result = record(learner.policy(0), task, 2, horizon=3)
    played = run_episodes(learner.policy(0), task, 2, 3)
    assert np.allclose(result.returns, played.rewards.sum(axis=1))
    assert {frame.shape for own in result.episodes for frame in own} == {(480, 480, 3)}


def test_large_pictures_are_made_smaller_and_sides_even(learner):
    task = dial(shape=(301, 1203, 4))
    frame = record(learner.central, task, horizon=1).episodes[0][0]
    assert frame.shape == (120, MOST_PIXELS, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"render": lambda self: None}, "render.. returned NoneType, expected uint8 of shape"),
        ({"kind": np.float64}, r"render.. returned float64 of shape \(6, 8, 3\)"),
        ({"render": lambda self: 1 / 0}, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_shows_no_pictures_is_told(changes, words, learner):
    with pytest.raises(InputError, match=f"task 'dial' cannot be recorded: {words}"):
        record(learner.central, dial(**changes))


def test_makers_that_know_no_render_mode_are_told(learner):
    with pytest.raises(InputError, match=r"cannot be recorded: TypeError.*make\(render_mode="):
        record(learner.central, replace(dial(), make=lambda: Dial()))
    tasks = CrossLearner("linear-quadratic", method="policy-gradient", max_knots=10)
    with pytest.raises(InputError, match="cannot be recorded: no such render mode"):
        record(tasks.central, tasks.tasks[0])


def test_a_film_that_would_not_fit_is_refused(learner):
    with pytest.raises(InputError, match="GiB of memory; ask for fewer episodes"):
        record(learner.central, learner.tasks[0], 10**7)
