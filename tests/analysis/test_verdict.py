"""The verdict at the end: learned, or not and why."""

import json
import math
from functools import partial

import gymnasium
import numpy as np
import pytest
from typer.testing import CliRunner

from crosslearning import Constant, CrossLearner, StateFeedback, Task, cli, task_set, verdict
from crosslearning._base.statistics import Interval, student
from crosslearning.analysis.verdict import TaskVerdict, _outcome, _reason
from crosslearning.errors import InputError
from crosslearning.rollouts import plan_episodes
from crosslearning.runs import RunFolder
from crosslearning.runs.listing import summarise_runs

SMALL = {"method": "trust-region", "max_knots": 30, "episode_steps": 20, "seed": 3}


class Line(gymnasium.Env):
    """A point that its action moves: ``reward(place, action)``; ends after ``longest`` steps."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, reward, longest=math.inf):
        self.reward, self.longest = reward, longest

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = self.np_random.uniform(-1.0, 1.0, 1), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.count += 1
        self.place = np.clip(self.place + 0.3 * np.asarray(action, dtype=np.float64), -9.0, 9.0)
        reward = float(self.reward(self.place[0], action[0]))
        return self.place.astype(np.float32), reward, self.count >= self.longest, False, {}


def line(reward, **more):
    return [Task("line", lambda render_mode=None: Line(reward, **more), horizon=30)]


@pytest.fixture(scope="module")
def carts():
    return CrossLearner("linear-quadratic", **SMALL).learn(steps=6000)


def test_gains_are_paired_with_the_best_of_the_references(carts):
    before = carts.steps
    found = verdict(carts, trials=20, seed=1)
    assert carts.steps == before
    assert found.learned
    assert found.sentence.startswith("Learned")
    again = verdict(carts, trials=20, seed=1)
    assert again.to_dict() == found.to_dict()
    for one in found.tasks:
        means = {name: value.value for name, value in one.references.items()}
        assert set(means) == {"no action", "random actions"}
        assert one.best == max(means, key=means.get)
        assert one.gain.value == pytest.approx(one.policy.value - means[one.best])
        # Pairs of the same starts differ less than independent episodes would.
        gain, *others = (
            each.high - each.low for each in (one.gain, one.policy, one.references[one.best])
        )
        assert gain < np.hypot(*others)


def test_returns_are_those_of_whole_episodes(carts):
    found = verdict(carts, trials=5, seed=2)
    task, one = carts.tasks[0], found.tasks[0]
    generator = np.random.default_rng([2, 0x7E4D])
    from crosslearning.rollouts import plan_episodes

    plan = plan_episodes(generator, carts.tasks, 5, task.horizon)
    episodes = carts.method.executor.episodes(carts.family.expansion, plan)
    expected = student(episodes.rewards[0].sum(axis=1))
    assert (one.policy.value, one.policy.low) == (expected.value, expected.low)


def test_no_action_is_zero_in_the_units_of_the_task():
    class Heater(Line):
        action_space = gymnasium.spaces.Box(0.0, 8.0, (1,))

    tasks = [Task("heater", lambda render_mode=None: Heater(lambda x, a: -a), horizon=10)]
    learner = CrossLearner(tasks, **SMALL).learn(steps=400)
    (one,) = verdict(learner, trials=3).tasks
    assert one.references["no action"].value == 0.0
    assert one.references["random actions"].value == pytest.approx(-40.0, rel=0.3)


def test_around_a_controller_only_the_controller_counts():
    tasks = [task.around(Constant([0.0])) for task in task_set("linear-quadratic")[:2]]
    learner = CrossLearner(tasks, 0.3, **SMALL).learn(steps=1500)
    found = verdict(learner, trials=3)
    assert set(found.tasks[0].references) == {"controller"}
    assert "the controller" in found.sentence


def test_models_of_machines_behind_a_controller_are_judged_by_the_machines_actions():
    feedback = StateFeedback([[1.0, 1.5]])
    tasks = [task.around(feedback) for task in task_set("linear-quadratic")[:2]]
    learner = CrossLearner(tasks, 0.3, method="models", updates_per_round=3).learn(steps=300)
    known = verdict(learner, trials=2).model_error
    learner.method.controllers.used = False  # as if corrections were the machine's actions
    assert known < 0.6 * verdict(learner, trials=2).model_error


def test_what_learning_started_from_is_shown(carts):
    adapted = carts.adapt(task_set("linear-quadratic")[0], steps=1200)
    (one,) = verdict(adapted, trials=4).tasks
    assert "start" in one.references
    assert one.references["start"].value > one.references["no action"].value


@pytest.mark.parametrize("method", ["policy-gradient", "trust-region", "models"])
@pytest.mark.parametrize("reward", [0.0, -0.1])
def test_a_reward_that_never_changes_is_refused(method, reward):
    learner = CrossLearner(line(lambda x, a: reward), method=method)
    with pytest.raises(InputError, match=f"the reward was {reward:g} in every step of every task"):
        learner.learn(steps=2000)
    # Where episodes terminate, the number of steps makes the difference.
    if reward and method != "policy-gradient":
        with pytest.warns(UserWarning, match="terminated at step 9"):
            CrossLearner(line(lambda x, a: reward, longest=9), method=method).learn(1)


def test_episodes_that_end_at_once_are_named():
    learner = CrossLearner(line(lambda x, a: -abs(x), longest=1), **SMALL).learn(steps=200)
    found = verdict(learner, trials=4)
    assert not found.learned
    assert "Episodes end after 1.0 steps: check when the environment terminates." in found.sentence


def test_a_goal_that_was_never_reached_is_suspected():
    learner = CrossLearner(line(lambda x, a: 100.0 * (x > 8.0) - a**2), **SMALL).learn(steps=400)
    found = verdict(learner, trials=5)
    assert not found.learned
    assert found.tasks[0].best == "no action"
    assert "perhaps no goal was ever reached" in found.sentence


def test_mountain_cars_say_that_they_failed():
    make = partial(gymnasium.make, "MountainCarContinuous-v0")
    learner = CrossLearner([Task("car", make, horizon=200)], method="models", seed=1)
    found = verdict(learner.learn(steps=100), trials=3)
    assert not found.learned
    assert found.sentence.startswith("Not learned")


def test_limits_of_learning_are_named(carts):
    found = verdict(carts, trials=2)
    assert (found.knots, found.max_knots) == (len(carts.family.knots), 30)
    assert found.binding == int(np.sum(carts.family.distances() >= 3.0 * (1 - 1e-3)))
    assert found.model_error is None
    tight = CrossLearner("linear-quadratic", 0.0, **SMALL).learn(3)
    assert "ε binds on 3 of 3 tasks" in verdict(tight, trials=2).facts
    model = CrossLearner("linear-quadratic", method="models", updates_per_round=3).learn(steps=300)
    found = verdict(model, trials=2)
    # The carts are linear: their models are nearly exact.
    assert found.model_error < 0.05
    assert "models err by" in found.facts


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        ([(1, 2, 3), (1, 2, 3)], "Learned: all 2 tasks return more than with no action."),
        ([(1, 2, 3)], "Learned: the task returns more than with no action."),
        ([(1, 2, 3), (-1, 0, 1)], "Learned on 1 of 2 tasks; the others are not told apart from"),
        ([(-1, 0, 1)], "Not learned: no task returns more than with no action."),
        ([(1, 2, 3), (-3, -2, -1)], "Not learned: 1 of 2 tasks return less than with no action"),
    ],
)
def test_the_sentence_follows_from_the_intervals(gains, sentence):
    zero = Interval(0.0, 0.0, 0.0)
    tasks = [
        TaskVerdict(f"t{i}", zero, {"no action": zero}, "no action", Interval(middle, low, high))
        for i, (low, middle, high) in enumerate(gains)
    ]
    assert _outcome(tasks).startswith(sentence)


def test_too_few_trials_are_refused(carts):
    with pytest.raises(InputError, match="trials must be at least 2"):
        verdict(carts, trials=1)


def test_a_run_ends_with_its_verdict_and_runs_shows_it(tmp_path):
    invoke, path = CliRunner().invoke, tmp_path / "run"
    base = ["train", "--tasks", "linear-quadratic", "--method", "trust-region", "--steps", "1800"]
    shown = invoke(cli.app, [*base, "--out", str(path), "--verdict", "4"])
    assert shown.exit_code == 0, shown.output
    for text in ("Total returns, 4 episodes each", "gain over the best", "knots", "earned"):
        assert text in shown.output
    plain = json.loads((path / "verdict.json").read_text())
    returns = [one["policy"]["value"] for one in plain["tasks"]]
    (summary,) = summarise_runs(tmp_path)
    assert summary.final_return == pytest.approx(np.mean(returns))
    listed = invoke(cli.app, ["runs", str(tmp_path)]).output
    assert "Returns are totals of episodes, from the verdict at the end." in listed
    # A run that had finished is not judged again; a longer one is.
    assert "gain over" not in invoke(cli.app, ["resume", str(path)]).output
    longer = invoke(cli.app, ["resume", str(path), "--steps", "2600", "--verdict", "0"])
    assert longer.exit_code == 0
    assert not RunFolder(path).verdict.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "Take more steps."),
        ({"binding": 1}, "Take more steps."),  # of two tasks: not more than half
        ({"binding": 2}, "ε holds the policies back: try a larger one."),
        ({"knots": 30}, "The knots are at their cap: try a larger max_knots."),
        ({"error": 0.2}, "Take more steps."),
        ({"error": 0.4}, "The models are poor: take more steps, or lags if the state is hidden."),
    ],
)
def test_the_reason_is_what_stands_in_the_way(given, said):
    zero = Interval(0.0, -1.0, 1.0)
    tasks = [TaskVerdict(name, zero, {}, "random actions", zero) for name in "ab"]
    facts = {"trials": 2, "tasks": tasks, "binding": 0, "knots": 29, "max_knots": 30}
    facts = {**facts, "error": None, **given}
    learner = CrossLearner("linear-quadratic", max_knots=5)
    plan = plan_episodes(np.random.default_rng(0), learner.tasks, 2, 20, 0.1)
    episodes = learner._executor.episodes(learner.family.expansion, plan)
    assert _reason(tuple(facts.values()), [episodes]) == f" {said}"
