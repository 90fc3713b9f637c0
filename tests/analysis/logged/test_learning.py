"""Learning from logged episodes: good policies, no environment, and a word where data end."""

import warnings

import gymnasium
import numpy as np
import pytest

import crosslearning
from crosslearning import CrossLearner, learn_from
from crosslearning.analysis.logged import learning, out_of_data_fraction
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes
from crosslearning.learner.model_based.imagination import imagine
from tests.analysis.logged.examples import pendulum_log
from tests.learner.examples import assert_same_bits

SMALL = {"rollouts": 4, "look_ahead": 5, "progress": False, "seed": 1}


@pytest.fixture(scope="module")
def logged():
    return pendulum_log(3, 60)


@pytest.fixture(scope="module")
def learned(logged):
    log, tasks = logged
    spaces = {k: getattr(tasks[0], k) for k in ("observation_space", "action_space")}
    return learn_from(log, iterations=60, progress=False, **spaces)


def test_pendulums_swing_up_after_sixty_logged_steps(logged, learned):
    asked = EpisodeOptions(trials=50, seed=0)
    returns = [
        np.mean(measure_episodes(learned.policy(i), task, asked, 1.0).returns)
        for i, task in enumerate(logged[1])
    ]
    assert np.mean(returns) > -500.0  # a pendulum that is left alone gets about −1200
    assert learned.steps == 0  # nothing was done there


def test_where_data_are_enough_nothing_is_warned_of(learned):
    assert all(share < 0.1 for share in out_of_data_fraction(learned).values())


def test_acting_is_refused(learned):
    with pytest.raises(InputError, match="known from logged data alone"):
        learned.learn(1)
    with pytest.raises(InputError, match=r"CrossLearner\.load"):
        measure_episodes(learned.policy(0), learned.tasks[0], EpisodeOptions(trials=1), 1.0)


def test_it_is_saved_and_goes_on_with_real_tasks(logged, learned, tmp_path):
    learned.save(tmp_path / "learner")
    again = CrossLearner.load(tmp_path / "learner")
    assert_same_bits(again.family, learned.family)
    seen = [1.0, 0.0, 0.1]
    name = learned.tasks[1].name
    assert again.predict(seen, task=name)[0] == learned.predict(seen, task=name)[0]
    assert out_of_data_fraction(again) == out_of_data_fraction(learned)
    with pytest.raises(InputError, match="are not here"):
        again.learn(1)
    real = CrossLearner.load(tmp_path / "learner", tasks=logged[1])
    real.learn(1)
    # A round is as long as what was logged.
    assert [len(own.rewards) for own in real.method.data] == [120] * 3
    assert real.steps == 180


def test_tasks_with_other_actions_are_refused(logged, tmp_path):
    log, tasks = logged
    small = {
        name: [{**one, "actions": 0.4 * one["actions"]} for one in own] for name, own in log.items()
    }
    learner = learn_from(small, iterations=2, **SMALL)
    assert learner.tasks[0].action_space.high < 0.9  # nothing beyond what was done
    learner.save(tmp_path / "learner")
    with pytest.raises(InputError, match="actions would mean something else"):
        CrossLearner.load(tmp_path / "learner", tasks=tasks)


def test_the_same_data_give_the_same_bits(logged):
    one, other = (learn_from(logged[0], iterations=3, **SMALL) for _ in range(2))
    assert_same_bits(one.family, other.family)


class Episode:
    """What Minari's episodes are like."""

    def __init__(self, given):
        self.observations, self.actions, self.rewards = (
            given[name] for name in ("observations", "actions", "rewards")
        )
        self.terminations = np.zeros(len(self.rewards), dtype=bool)


class Dataset:
    """What Minari's datasets are like."""

    def __init__(self, name, episodes, task):
        self.id, self.episodes = name, episodes
        self.observation_space, self.action_space = task.observation_space, task.action_space

    def iterate_episodes(self):
        return map(Episode, self.episodes)


def test_datasets_of_minari_are_machines(logged):
    log, tasks = logged
    sets = [Dataset(name, own, tasks[0]) for name, own in log.items()]
    plain = learn_from(
        log,
        iterations=2,
        observation_space=tasks[0].observation_space,
        action_space=tasks[0].action_space,
        **SMALL,
    )
    several = learn_from(sets, iterations=2, **SMALL)
    assert [task.name for task in several.tasks] == list(log)
    assert_same_bits(several.family, plain.family)
    alone = learn_from(sets[0], iterations=2, **SMALL)
    assert [task.name for task in alone.tasks] == [sets[0].id]


def test_lists_have_machines_by_number(logged):
    log = [list(own) for own in logged[0].values()]
    learner = learn_from(log, iterations=2, **SMALL)
    assert [task.name for task in learner.tasks] == ["machine 0", "machine 1", "machine 2"]


def test_policies_that_leave_the_data_are_told_of():
    # So few points of so rough a function say nothing between them, whatever was learned.
    draw = np.random.default_rng(0)
    seen = draw.uniform(-1.0, 1.0, (12, 1))
    log = [
        {
            "observations": np.stack([x, x + 0.3 * np.sin(9.0 * x) + a]),
            "actions": a[None],
            "rewards": np.sin(7.0 * x + 5.0 * a),
        }
        for x, a in zip(seen, draw.uniform(-1.0, 1.0, (12, 1)), strict=True)
    ]
    with pytest.warns(UserWarning, match=r"policies leave the data.*'rough' in \d+%"):
        learner = learn_from({"rough": log}, iterations=3, progress=False)
    assert out_of_data_fraction(learner)["rough"] > 0.5


def test_a_rollout_that_ended_does_not_end_the_others(learned, monkeypatch):
    """Of its steps one is counted; of the others, of which nothing is known here, all are."""
    H, sizes = learned.method.settings.look_ahead, []

    def first_ends(*given):
        path = imagine(*given)
        bootstrap_mask = np.ones_like(path.bootstrap_mask)
        bootstrap_mask[0] = 0.0
        return path._replace(bootstrap_mask=bootstrap_mask)

    def unsure(dynamics, task, points, generator):
        sizes.append(len(points))
        return (np.arange(len(points)) >= H).astype(float)

    monkeypatch.setattr(learning, "imagine", first_ends)
    monkeypatch.setattr(learning, "_deviations", unsure)
    first, other, *_ = out_of_data_fraction(learned).values()
    assert first == pytest.approx((sizes[0] - H) / (sizes[0] - H + 1))
    assert other == pytest.approx((sizes[1] - H) / sizes[1])


def test_an_end_that_was_seen_is_learned():
    draw = np.random.default_rng(1)
    episodes = []
    for _ in range(12):
        x, actions = [draw.uniform(-1.0, 0.5, 1)], []
        while x[-1][0] < 0.8 and len(actions) < 8:
            actions.append(draw.uniform(-1.0, 1.0, 1))
            x.append(x[-1] + 0.5 * actions[-1])
        rewards = -np.abs(np.concatenate(x[1:]))
        ended = x[-1][0] >= 0.8
        episodes.append(
            {"observations": x, "actions": actions, "rewards": rewards, "terminated": ended}
        )
    learner = learn_from({"edge": episodes}, iterations=2, **SMALL)
    method = learner.method
    assert method.frame.ends == 1
    assert method.data[0].terminated.sum() == sum(one["terminated"] for one in episodes)
    assert method.data[0].first.sum() == 12


# Data that are wrong --------------------------------------------------------------------------


def episode(n=20, seed=0, **changes):
    draw = np.random.default_rng(seed)
    result = {
        "observations": draw.normal(size=(n + 1, 2)),
        "actions": draw.uniform(-1.0, 1.0, (n, 1)),
        "rewards": draw.normal(size=n),
    }
    return {**result, **changes}


def holed(array, row):
    array = np.array(array)
    array[row] = np.nan
    return array


GOOD = episode()
WRONG = {
    "not a number": (
        {"a": [GOOD, {**GOOD, "rewards": holed(GOOD["rewards"], 3)}]},
        "machine 'a', episode 1: rewards hold a number that is not finite, at step 3",
    ),
    "nothing at all": ({}, "there are no machines"),
    "no data of one": ({"a": [GOOD], "b": []}, "machine 'b' has no data; leave it out"),
    "three steps": ({"a": [episode(3)]}, "there are 3 steps in all; give at least 10"),
    "too few observations": (
        {"a": [{**GOOD, "observations": GOOD["observations"][:-1]}]},
        r"shapes \(20, 2\), \(20, 1\) and \(20,\).*the observation after the last step",
    ),
    "one number": ({"a": [{**GOOD, "rewards": 1.0}]}, "shapes"),
    "other sizes": (
        {"a": [GOOD], "b": [{**GOOD, "observations": np.zeros((21, 3))}]},
        r"machine 'b', episode 0 has .*\(3, 1\) a step, but machine 'a' has \(2, 1\)",
    ),
    "a part missing": (
        {"a": [{k: v for k, v in GOOD.items() if k != "actions"}]},
        "there are no actions; an episode has",
    ),
    "words": ({"a": [{**GOOD, "actions": ["left"] * 20}]}, "actions are not an array of numbers"),
    "constant action": (
        {"a": [{**GOOD, "actions": np.ones((20, 1))}]},
        "action 0 is always 1: its effect cannot be learned",
    ),
    "constant reward": ({"a": [{**GOOD, "rewards": np.zeros(20)}]}, "all rewards are 0"),
    "goes on after its end": (
        {"a": [{**GOOD, "terminated": np.arange(20) == 7}]},
        "it goes on after step 7, which terminated it",
    ),
    "ends of another length": (
        {"a": [{**GOOD, "terminated": np.zeros(4)}]},
        r"terminated has the shape \(4,\)",
    ),
    "one episode": (GOOD, "data must be a mapping of machines"),
    "a list of episodes": ([GOOD, GOOD], "data must be a mapping of machines"),
    "a number": (7, "data must be a mapping of machines"),
}


@pytest.mark.parametrize("case", WRONG)
def test_data_that_are_wrong_are_refused(case):
    data, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        learn_from(data, iterations=1, **SMALL)


def test_spaces_must_hold_the_data():
    small = gymnasium.spaces.Box(-0.1, 0.1, (1,))
    with pytest.raises(
        InputError, match=r"action 0 of machine 'a' is between .* but the action_sp"
    ):
        learn_from({"a": [GOOD]}, action_space=small)
    with pytest.raises(InputError, match="observation_space has 1 coordinates"):
        learn_from({"a": [GOOD]}, observation_space=small)
    with pytest.raises(InputError, match="method is not for you to set"):
        learn_from({"a": [GOOD]}, method="trust-region")
    with pytest.raises(InputError, match="no such setting 'colour'"):
        learn_from({"a": [GOOD]}, colour=1)


def told_of(data):
    """Return what is warned of while data are learned from."""
    with warnings.catch_warnings(record=True) as text:
        warnings.simplefilter("always")
        learn_from(data, iterations=1, **SMALL)
    return [str(one.message) for one in text]


@pytest.mark.parametrize("change", [[1.0, 57.3], [1.0, 1000.0]])
def test_other_units_are_asked_about(change):
    other = {**GOOD, "observations": GOOD["observations"] * change}
    texts = told_of({"a": [GOOD], "b": [episode(seed=2)], "c": [other]})
    asked = [text for text in texts if "units" in text]
    assert len(asked) == 1
    assert "the observation 1 of machine 'c'" in asked[0]


def test_other_offsets_are_asked_about_and_small_movements_are_not():
    kelvin = {**GOOD, "observations": GOOD["observations"] + [0.0, 273.15]}
    assert any("units" in text for text in told_of({"a": [GOOD], "b": [kelvin]}))
    lazy = {**GOOD, "observations": GOOD["observations"] * [1.0, 0.01] + [0.0, 1.0]}
    assert not any("units" in text for text in told_of({"a": [GOOD], "b": [lazy]}))


def test_a_column_that_tells_nothing_is_told_of():
    still = {**GOOD, "observations": GOOD["observations"] * [1.0, 0.0]}
    assert "observation 1 is always 0: it has no information" in told_of({"a": [still]})


def test_noise_is_no_data():
    # Numbers that follow from nothing: nothing is known anywhere.
    assert any("policies leave the data" in text for text in told_of({"a": [GOOD]}))


def test_it_is_exported():
    assert crosslearning.learn_from is learn_from
