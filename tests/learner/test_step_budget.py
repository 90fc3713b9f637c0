"""Steps that are asked for are never exceeded, and used where they can be."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning import CrossLearner, ModelBased, PolicyGradient, Task, TrustRegion, task_set
from crosslearning.learner.settings import InitialExploration
from crosslearning.tasks import task_set_names
from tests.learner.examples import assert_same_bits

SMALL = {
    "policy-gradient": {"batch_size": 1},
    "trust-region": {"episode_steps": 20, "episodes": 3, "least_steps": 20},
    "models": {"round_steps": 15, "updates_per_round": 1, "rollouts": 2, "look_ahead": 3},
}


def small(tasks, method, **more):
    return CrossLearner(tasks, method=method, max_knots=15, **{**SMALL[method], **more})


def counted(learner):
    """Return a list to which every plan that the learner runs adds its environment steps."""
    taken, run = [], learner._executor.run

    def counting(*arguments, **keywords):
        result = run(*arguments, **keywords)
        taken.append(int((result.steps if hasattr(result, "steps") else result.lengths).sum()))
        return result

    learner._executor.run = counting
    return taken


class Trap(gymnasium.Env):
    """Drifts by its action, and ends after a few steps, at the latest ``longest``."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, longest, calls):
        self.longest, self.calls = longest, calls

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.left = self.np_random.uniform(-1.0, 1.0, 1), self.longest
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.calls.append(1)
        self.left -= 1
        self.place = np.clip(self.place + 0.3 * np.asarray(action), -9.0, 9.0)
        ends = self.left <= 0 or bool(self.np_random.uniform() < 0.1)
        return self.place.astype(np.float32), -float(abs(self.place[0])), ends, False, {}


@pytest.mark.parametrize("method", list(SMALL))
@pytest.mark.parametrize("name", task_set_names())
def test_no_task_set_takes_more_steps_than_asked(name, method):
    tasks = task_set(name)[:2]
    asked, more = (71, 21) if method == "models" else (400, 151)
    learner = small(tasks, method)
    taken = counted(learner)
    learner.learn(steps=asked)
    assert sum(taken) == learner.steps <= asked
    assert learner.steps + learner.method.steps_needed(learner._core.iterate) > asked
    # What is left is asked for again, and never exceeded either.
    learner.learn(steps=more)
    assert sum(taken) == learner.steps <= asked + more
    learner.close()


@pytest.mark.parametrize("method", list(SMALL))
@pytest.mark.parametrize("longest", [1, 3, 40])
def test_episodes_that_end_early_leave_steps_for_others(method, longest):
    calls = []
    tasks = [
        Task(f"trap {i}", lambda render_mode=None: Trap(longest, calls), horizon=50)
        for i in range(2)
    ]
    asked = 101 if method == "models" else 300
    learner = small(tasks, method, seed=4, on="threads")
    learner.learn(steps=asked)
    assert learner.steps <= asked
    assert 0 < len(calls) <= learner.steps  # a path that is replayed counts, even if it is known
    if method == "models":
        assert learner.steps >= asked - 1  # every round was filled
    learner.close()


@settings(max_examples=6, deadline=None)
@given(asked=st.integers(200, 700), seed=st.integers(0, 5), keep=st.sampled_from(["best", "last"]))
def test_any_number_of_steps_is_kept_to(asked, seed, keep):
    tasks = task_set("linear-quadratic")[:2]
    for method in SMALL:
        learner = small(tasks, method, seed=seed, keep=keep)
        taken = counted(learner)
        learner.learn(steps=asked)
        assert sum(taken) == learner.steps <= asked


def test_checks_of_the_stopping_rule_are_within_the_steps():
    asked = {"alpha": 1e-9, "check_every": 2, "check_batch": 100, "epsilon": 1.0}
    learner = small("linear-quadratic", "policy-gradient", **asked)
    taken, reports = counted(learner), []
    learner.learn(steps=30_000, callback=reports.append)
    assert sum(taken) == learner.steps <= 30_000
    # Some checks were made, and those that did not fit were left out.
    checked = [report.iteration for report in reports if report.check is not None]
    assert 1 <= len(checked) < len(reports) // 2


@pytest.mark.parametrize("method", ["policy-gradient", "trust-region"])
def test_tests_of_kept_policies_are_left_out_where_they_do_not_fit(method):
    learner = small("linear-quadratic", method, keep="best")
    taken, tested = counted(learner), []
    learner.learn(steps=487)
    keeper = learner._core.keeper

    def test_always(returns, iteration, family, again):
        tested.append(again is not None)
        return again(keeper.start.family.expansion)[1] if again else 0

    keeper.saw = test_always
    for _ in range(4):  # no number of steps is a multiple of what an iteration takes
        learner.learn(steps=487)
    assert sum(taken) == learner.steps <= 5 * 487
    assert any(tested)
    assert not all(tested)


def test_a_run_in_parts_is_the_same_with_the_same_end():
    whole, parts = (small("pendulums:2", "models", seed=2) for _ in range(2))
    whole.learn(steps=170)
    parts.learn(steps=170, callback=lambda report: report.iteration == 2)
    parts.learn(steps=170 - parts.steps)
    assert_same_bits(whole.family, parts.family)
    assert parts._core.iterate.step_limits == [(0, 170)]


def test_files_know_the_limits(tmp_path):
    learner = small("pendulums:2", "models").learn(steps=40)
    learner.learn(1)
    learner.save(tmp_path / "learner")
    again = CrossLearner.load(tmp_path / "learner")
    assert again._core.iterate.step_limits == [(0, 40), (2, None)]


@pytest.mark.parametrize(
    ("most", "episodes", "steps"),
    [(np.inf, 4, 100), (1600, 4, 100), (1200, 3, 100), (400, 1, 100), (100, 1, 25), (2, 1, 1)],
)
def test_exploration_takes_a_quarter_of_the_steps_at_most(most, episodes, steps):
    found = InitialExploration(4, 100).within(most)
    assert (found.episodes, found.steps) == (episodes, steps)


def test_rounds_end_with_the_steps():
    def lengths(left, **settings):
        rounds, method = [], ModelBased(round_steps=50, **settings)
        while left:
            rounds.append(method.next_round(sum(rounds), 200, left))
            left -= rounds[-1]
        return rounds

    assert lengths(1000) == [50, 50, 100, 200, 200, 200, 200]
    assert lengths(219) == [50, 50, 119]
    assert lengths(230) == [50, 50, 100, 30]
    assert lengths(20) == [20]
    assert lengths(75, longest_round=50) == [50, 25]
    assert ModelBased().next_round(0, 200, np.inf) == 50


def test_what_an_iteration_needs():
    assert PolicyGradient().fewest_steps == ModelBased().fewest_steps == 1
    assert TrustRegion(episode_steps=30).fewest_steps == 60


def test_a_round_shows_its_real_returns_beside_the_imagined():
    learner, reports = small("pendulums:2", "models", updates_per_round=2), []
    learner.learn(4, callback=reports.append)
    method = learner.method
    data = method.data[0]
    last = data.rewards[np.flatnonzero(data.first)[-1] :]
    numbers = reports[-1].numbers
    assert numbers["total_return"][0] == pytest.approx(last.sum())
    assert numbers["length"][0] == len(last) == 15
    discounts = learner.settings.gamma ** np.arange(15)
    assert reports[-1].returns[0] == pytest.approx(last @ discounts)
    assert reports[-2].returns[0] == reports[-1].returns[0]
    assert numbers["imagined_return"][0] != reports[-1].returns[0]
