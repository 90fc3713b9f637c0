"""Evaluation: one paired table, the same starts for every kind of policy, on any thread."""

import dataclasses

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner, Task, task_set
from crosslearning.analysis.comparison import compare
from crosslearning.errors import InputError, NumericalError
from crosslearning.learner.evaluation import evaluate, evaluate_across, run_episodes
from crosslearning.tasks.linear_quadratic import cart


@pytest.fixture(scope="module")
def learner():
    return CrossLearner("paper", max_knots=30, seed=1).learn(40)


def test_policies_meet_the_same_starts(learner):
    task = learner.tasks[2]
    a = run_episodes(learner.central, task, 7, seed=4)
    b = run_episodes(learner.policy(0), task, 7, seed=4)
    np.testing.assert_array_equal(a.states[:, 0], b.states[:, 0])
    assert not np.array_equal(a.states[:, -1], b.states[:, -1])


def test_threads_do_not_matter(learner):
    task = learner.tasks[0]
    one = run_episodes(learner.central, task, 11, seed=1, deterministic=False, workers=1)
    three = run_episodes(learner.central, task, 11, seed=1, deterministic=False, workers=3)
    for name in ("rewards", "lengths", "terminated", "observations", "actions", "states"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


def test_numbers_are_those_of_the_episodes(learner):
    task = learner.tasks[1]
    episodes = run_episodes(learner.central, task, 9, horizon=12, seed=2)
    (result,) = evaluate([learner.central], [task], trials=9, horizon=12, seed=2)
    expected = np.mean([sum(0.9**t * r for t, r in enumerate(e)) for e in episodes.rewards])
    assert result.discounted_return.value == pytest.approx(expected)
    assert result.total_return.value == pytest.approx(episodes.rewards.sum(axis=1).mean())
    assert result.mean_cost.value == pytest.approx(-episodes.rewards.mean())
    outcomes = task.outcomes(np.ascontiguousarray(episodes.states[:, -1]))
    assert result.rates["crashed"].value == pytest.approx(np.mean(outcomes["crashed"]))
    assert result.means["path_length"].value == pytest.approx(np.mean(outcomes["path_length"]))
    assert (result.trials, result.horizon) == (9, 12)


def test_every_policy_on_every_task(learner):
    policies = [learner.central, learner.policy("r=2")]
    results = evaluate(policies, task_set("paper"), trials=3, horizon=5)
    assert [(r.task, r.policy) for r in results] == [
        (task, policy) for task in ("r=0.5", "r=1", "r=2") for policy in ("central", "r=2")
    ]


def test_discount_and_horizon_are_those_of_the_learner_and_of_the_task():
    task = dataclasses.replace(cart(1.0).task("cart"), horizon=7)
    learner = CrossLearner([task], discount=0.7, max_knots=10)
    policy = learner.policy(0)
    (own,) = evaluate([policy], [task], trials=3)
    (same,) = evaluate([policy], [task], trials=3, horizon=7, discount=0.7)
    (other,) = evaluate([policy], [task], trials=3, discount=0.9)
    assert own == same
    assert own.horizon == 7
    assert own.discounted_return != other.discounted_return
    # The first policy that has a discount decides for all; where none has, nothing is discounted.
    still = np.zeros(1)
    (_, second) = evaluate([lambda _: still, policy], [task], trials=3)
    assert second.discounted_return == own.discounted_return
    (alone,) = evaluate([lambda _: still], [task], trials=3)
    assert alone.discounted_return.value == pytest.approx(alone.total_return.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"discount": 1.5}, "discount must be between 0 and 1"),
        ({"trails": 3}, "did you mean 'trials'"),
        ({"trials": 10**9}, "1000000000 episodes of 50 steps would take .* GiB of memory; ask for"),
    ],
)
def test_bad_options_are_named(learner, options, message):
    with pytest.raises(InputError, match=message):
        evaluate([learner.central], learner.tasks, **options)


def test_nothing_to_evaluate_is_refused(learner):
    with pytest.raises(InputError, match="got 0 policies and 3 tasks"):
        evaluate([], learner.tasks)


# Whatever acts ------------------------------------------------------------------------------


class Wrapped:
    """What Stable-Baselines3's models look like from outside."""

    def __init__(self, policy):
        self._policy = policy
        self.asked = set()

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.asked.add(deterministic)
        return self._policy.predict(observation, deterministic=True)[0], ("hidden",)


def test_the_same_policy_in_any_form_is_the_same(learner):
    central = learner.central
    model = Wrapped(central)

    def drive(observation):
        return central.predict(observation)[0]

    results = evaluate([central, model, drive], learner.tasks, trials=6, horizon=30, seed=3)
    for task in range(3):
        own, *others = results[3 * task : 3 * task + 3]
        assert [other.policy for other in others] == ["Wrapped", "drive"]
        for other in others:
            assert other.discounted_return.value == pytest.approx(own.discounted_return.value)
            assert other.total_return.value == pytest.approx(own.total_return.value)
            assert other.rates == own.rates
            assert set(other.means) == set(own.means)
            assert other.means["path_length"].value == pytest.approx(own.means["path_length"].value)
    assert model.asked == {True}
    starts = [
        run_episodes(policy, learner.tasks[0], 6, seed=3).observations[:, 0]
        for policy in (central, drive)
    ]
    np.testing.assert_array_equal(*starts)
    (pair,) = compare(model, central, learner.tasks[:1], trials=6)
    assert (pair.first, pair.second) == ("Wrapped", "central")
    assert pair.rates["arrived"].value == 0.0
    assert pair.discounted_return.value == pytest.approx(0.0, abs=1e-9)


class Integrating:
    """A controller that remembers, and takes nothing but an observation."""

    name = "integrating"

    def __init__(self):
        self.sum, self.begun = 0.0, 0

    def reset(self):
        self.sum, self.begun = 0.0, self.begun + 1

    def predict(self, observation):
        self.sum += observation[0]
        return -0.5 * observation[0] - 0.1 * self.sum


def test_a_controller_that_remembers_begins_every_episode_anew():
    task = cart(1.0).task("cart")
    controller = Integrating()
    both = run_episodes(controller, task, 4, horizon=6)
    assert controller.begun == 4
    # A scalar is an action of one number; the third episode does not know of the first two.
    x = both.observations[2, :, 0]
    np.testing.assert_allclose(both.actions[2, :, 0], -0.5 * x[:6] - 0.1 * np.cumsum(x[:6]))


def test_names_are_made_unique(learner):
    policies = [learner.central, learner.central, Wrapped(learner.central)]
    results = evaluate(policies, learner.tasks[:1], trials=1, horizon=2)
    assert [r.policy for r in results] == ["central", "central (2)", "Wrapped"]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda _: np.zeros(3), r"returned the action .* expected finite numbers of shape \(1,\)"),
        (lambda _: np.nan, "expected finite numbers"),
        ("nothing", "'nothing' cannot act; give something with predict"),
    ],
)
def test_what_cannot_act_is_named(policy, message):
    with pytest.raises(InputError, match=message):
        run_episodes(policy, cart(1.0).task("cart"), 1)


class Countdown(gymnasium.Env):
    """Ends by itself after ``ends`` steps, and by its limit after ``limit``."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, ends, limit, reward=1.0):
        self.ends, self.limit, self.reward, self.count = ends, limit, reward, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.np_random.normal(size=1), {}

    def step(self, action):
        assert self.count < min(self.ends, self.limit), "stepped beyond the end"
        self.count += 1
        done = self.count == self.ends
        info = {"solved": done, "count": self.count}
        return (
            np.array([self.count], dtype=float),
            self.reward,
            done,
            self.count == self.limit,
            info,
        )


@pytest.mark.parametrize(("ends", "limit", "length"), [(3, 9, 3), (9, 4, 4), (99, 99, 6)])
def test_an_episode_ends_with_the_environment_whichever_way(ends, limit, length):
    task = Task("count", lambda render_mode=None: Countdown(ends, limit))
    played = run_episodes(lambda _: np.zeros(1), task, 2, horizon=6)
    assert played.lengths.tolist() == [length] * 2
    assert played.rewards.sum(axis=1).tolist() == [length] * 2
    (result,) = evaluate([lambda _: np.zeros(1)], [task], trials=2, horizon=6)
    # The truth values of the last info are rates; nothing else of it is an outcome.
    assert {name: rate.value for name, rate in result.rates.items()} == {"solved": float(ends == 3)}
    assert result.means == {}


def test_environments_start_from_seeds_of_their_own():
    task = Task("count", lambda render_mode=None: Countdown(9, 9))
    first = run_episodes(lambda _: np.zeros(1), task, 5, horizon=2, seed=1)
    again = run_episodes(lambda _: np.ones(1), task, 5, horizon=2, seed=1)
    np.testing.assert_array_equal(first.observations[:, 0], again.observations[:, 0])
    assert len(np.unique(first.observations[:, 0])) == 5


def test_a_reward_that_is_not_finite_names_the_task():
    task = Task("broken", lambda render_mode=None: Countdown(9, 9, np.inf))
    with pytest.raises(NumericalError, match=r"'broken' .* not finite at step 1"):
        run_episodes(lambda _: np.zeros(1), task, 1)


def test_over_tasks_only_what_all_of_them_tell_is_kept(learner):
    plain = dataclasses.replace(learner.tasks[0], dynamics=None)
    (mixed,) = evaluate_across([learner.central], [plain, learner.tasks[1]], trials=2, horizon=3)
    assert set(mixed.rates) == {"arrived", "crashed"}
    (both,) = evaluate_across([Wrapped(learner.central)], [plain, learner.tasks[1]], trials=2)
    assert set(both.rates) == {"arrived", "crashed"}


def test_one_policy_and_one_task_need_no_lists(learner):
    (alone,) = evaluate(learner.central, learner.tasks[0], trials=3, horizon=4)
    (listed,) = evaluate([learner.central], learner.tasks[:1], trials=3, horizon=4)
    assert alone == listed


class Rows:
    """Acts on rows of observations; ``width`` is the number of actions that it thinks there are."""

    def __init__(self, width=2):
        self.width = width

    def predict_rows(self, observations):
        return np.tile(observations[:, 3:4], (1, self.width))


def test_what_acts_on_rows_meets_the_same_starts_and_gives_the_same_numbers(learner):
    task = learner.tasks[2]
    together = run_episodes(Rows(), task, 5, horizon=9, seed=3)
    one_by_one = run_episodes(lambda seen: np.tile(seen[3:4], 2), task, 5, horizon=9, seed=3)
    np.testing.assert_array_equal(together.rewards, one_by_one.rewards)
    np.testing.assert_array_equal(together.observations, one_by_one.observations)


def test_rows_of_another_width_are_refused(learner):
    with pytest.raises(InputError, match=r"predict_rows of Rows returned .* \(5, 3\) .* \(5, 2\)"):
        run_episodes(Rows(3), learner.tasks[2], 5, horizon=9)
