"""Learning in models: rounds are whole, what was seen is never lost, and it learns."""

from functools import partial

import msgspec
import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.errors import InputError, NumericalError, TaskError
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes
from crosslearning.learner.model_based.exploration import explorers
from crosslearning.learner.model_based.imagination import imagine
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.tasks import Task, task_set
from tests.learner.examples import UNPRUNED, Drift, assert_same_bits, drift, recorded_reports

SMALL = {
    "method": "models",
    "round_steps": 12,
    "updates_per_round": 3,
    "rollouts": 4,
    "look_ahead": 5,
}
SMALL |= {"max_knots": 30, "seed": 1}
SIDES = {"right": 1.0, "left": -1.0}


def two(**changes):
    return CrossLearner("pendulums:2", **{**SMALL, **changes})


def counts(learner):
    return [len(own.rewards) for own in learner.method.data]


def test_learning_by_steps_ends_after_whole_rounds():
    learner = two()
    learner.learn(steps=25)
    # A round of twelve steps of two tasks leaves one, with which no other can begin.
    assert (learner.steps, learner.iteration, counts(learner)) == (24, 3, [12, 12])
    assert learner.method.round_finished
    learner.learn(4)
    # The third round is as long as both before it.
    assert (learner.steps, learner.method.round_finished) == (96, False)
    # Steps that were taken are learned from before learning ends.
    learner.learn(steps=1)
    assert (learner.steps, learner.iteration, learner.method.round_finished) == (96, 9, True)
    # The last round has the steps that are left: those of a short one belong to the one before.
    learner.learn(steps=100)
    assert (learner.steps, learner.iteration) == (196, 12)
    assert two().learn(steps=58).method.data[0].first.nonzero()[0].tolist() == [0, 12]


def test_the_first_look_is_the_first_round_and_counted():
    learner = two()
    assert learner.steps == 0  # the machines do not move before learning begins
    report = recorded_reports(learner, 1)[0]
    assert (learner.steps, counts(learner)) == (24, [12, 12])
    assert report.steps == 0
    assert counts(learner) == [12, 12]
    # A kernel that is given needs no look: the first iteration acts, with noise alone.
    given = two(kernel={"kernel": "gaussian", "std": [1.0, 1.0, 3.0]})
    assert given.steps == 0
    assert recorded_reports(given, 1)[0].steps == 24
    assert np.std(given.method.data[0].actions) > 0.3


def test_rounds_double_up_to_the_longest():
    def lengths(**settings):
        tasks = [Task(name, lambda render_mode=None: Drift(), horizon=40) for name in "ab"]
        reports = recorded_reports(CrossLearner(tasks, **{**SMALL, **settings}), 15)
        return [report.steps // 2 for report in reports[3::3]]

    assert lengths() == [12, 24, 40, 40]
    assert lengths(longest_round=20) == [12, 20, 20, 20]
    assert lengths(longest_round=5) == [12, 12, 12, 12]
    with pytest.raises(InputError, match="longest_round"):
        two(longest_round=0)


def test_the_reward_that_was_seen_is_a_mean_over_steps():
    learner = two()
    report = recorded_reports(learner, 1)[0]
    means = [own.rewards.mean() for own in learner.method.data]
    np.testing.assert_allclose(report.numbers["seen_reward"], means)


class Paying(Drift):
    """Pays for going right, or left."""

    def __init__(self, sign, render_mode=None):
        super().__init__()
        self.sign = sign

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.sign * float(self.place[0]), *rest


@pytest.mark.parametrize("samples", [0, 3])
def test_every_policy_learns_in_the_model_of_its_own_task(samples):
    tasks = [Task(name, partial(Paying, sign), horizon=50) for name, sign in SIDES.items()]
    learner = CrossLearner(tasks, np.inf, **SMALL, samples=samples).learn(3)
    for i, sign in enumerate(SIDES.values()):
        assert sign * learner.policy(i).mean(np.zeros((1, 2)))[0, 0] > 0.1


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_imagined_rollouts_begins_where_episodes_began(share):
    learner = two(start_share=share).learn(4)
    method = learner.method
    begun = np.concatenate([own.states[own.first == 1.0] for own in method.data])
    starts = method._imagined.states[:, 0].reshape(2, SMALL["rollouts"], -1)
    first = np.any(np.all(starts[:, :, None] == begun, axis=3), axis=2)
    n = round(share * SMALL["rollouts"])
    assert first[:, :n].all()
    assert share == 1.0 or not first[:, n:].all()


def test_steps_shorten_with_the_square_of_what_is_left_of_a_round():
    """The second of two has a quarter of δ, the second of four nine sixteenths: lengths as 2 : 3.

    The first step is the same in both, and so is the direction of the second.
    """
    places = np.random.default_rng(0).uniform(-1.0, 1.0, (6, 2))

    def second(updates_per_round):
        learner = CrossLearner(
            [drift("a"), drift("b")],
            np.inf,
            **{**SMALL, **UNPRUNED, "updates_per_round": updates_per_round},
        )
        first, after = (learner.learn(1).family(places) for _ in range(2))
        return after - first

    np.testing.assert_allclose(second(2), second(4) * 2.0 / 3.0, rtol=1e-6, atol=1e-9)


def test_exploration_goes_where_the_models_disagree():
    """The more ways to act there are to choose from, the farther apart the models come on it."""
    learner = two(look_ahead=20).learn(3)
    method, iterate = learner.method, learner._core.iterate
    N, S, q = 2, learner.settings.samples, 3
    starts = np.concatenate([own.states[:1] for own in method.data])
    task, still = np.arange(N), np.zeros((N, 20, 1))

    def apart(ways):
        """Return the spread of the models' paths, all by the way to act that was chosen."""
        settings = msgspec.structs.replace(learner.settings, explorers=ways)
        units = method.noise.std, method.frame.unit[:q]
        chosen = explorers(iterate, settings, method.data, method.world, units, 20)
        paths = [
            imagine(chosen, method.world, starts, task, task + N * s, still).states
            for s in range(S)
        ]
        return np.mean(np.std(paths, axis=0) / method.frame.unit[:q])

    one, many = (np.mean([apart(ways) for _ in range(20)]) for ways in (1, 12))
    assert many > one


def test_reports_tell_of_the_models():
    report = recorded_reports(two(), 1)[0]
    for name in ("imagined_reward", "seen_reward", "model_distance", "model_multiplier"):
        assert report.numbers[name].shape == (2,)
        assert np.all(np.isfinite(report.numbers[name]))


def test_a_killed_run_goes_on_with_the_same_bits(tmp_path):
    fields = {"tasks": "pendulums:2", **SMALL, "checkpoint_every": 1}
    whole = train(tmp_path / "whole", make_config({**fields, "iterations": 8})).learner
    for stop in (1, 4):  # within a round
        path = tmp_path / f"stopped-{stop}"
        train(path, make_config({**fields, "iterations": stop}))
        again = resume(path, iterations=8).learner
        assert_same_bits(again.family, whole.family)
        assert again.steps == whole.steps
    lines = [RunFolder(p).read_metrics() for p in (tmp_path / "whole", path)]
    assert lines[0] == lines[1]


def test_workers_do_not_matter():
    assert_same_bits(two(workers=1).learn(4).family, two(workers=3).learn(4).family)


def test_it_stops_when_more_data_change_nothing():
    learner = two(settled=10.0)
    reports = recorded_reports(learner, 30)
    # The first round has nothing to be compared with; then two rounds in a row are quiet.
    assert [report.stop for report in reports] == [False] * 8 + [True]
    assert "changed the policies' actions by no more than 10" in learner.method.why(reports[-1])
    assert not any(report.stop for report in recorded_reports(two(settled=1e-9), 12))


def test_quiet_rounds_are_remembered(tmp_path):
    half = two(settled=10.0).learn(7)
    half.save(tmp_path / "half")
    again = CrossLearner.load(tmp_path / "half")
    assert recorded_reports(again, 30)[-1].iteration == 9


class Failing(Drift):
    """Fails at the step that comes so many steps later."""

    left = 10**9

    def step(self, action):
        Failing.left -= 1
        if Failing.left == 0:
            raise OSError("the cable came off")
        return super().step(action)


def test_an_environment_that_fails_leaves_the_data_as_they_were():
    task = Task("one", lambda render_mode=None: Failing(), horizon=50)
    learner = CrossLearner([task, drift("two")], **SMALL).learn(3)
    before = learner.method.state()
    Failing.left = 5
    with pytest.raises(TaskError, match="the cable came off"):
        learner.learn(1)
    assert (learner.iteration, learner.steps) == (3, 24)
    after = learner.method.state()
    assert before[1] == after[1]
    for name, array in before[0].items():
        np.testing.assert_array_equal(array, after[0][name])
    learner.learn(3)
    assert counts(learner) == [24, 24]


def test_a_fit_that_fails_leaves_the_data_as_they_were(monkeypatch):
    learner = two().learn(3)

    def broken(*_):
        raise NumericalError("no fit")

    with monkeypatch.context() as patch:
        patch.setattr("crosslearning.learner.model_based.method.fit", broken)
        with pytest.raises(NumericalError):
            learner.learn(1)
    assert (counts(learner), learner.steps) == ([12, 12], 24)
    assert_same_bits(learner.learn(3).family, two().learn(6).family)


def test_rewards_that_are_too_large_are_told_of():
    class Rich(Drift):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, 1e200, *rest

    with pytest.raises(NumericalError, match="'rich' is too large"):
        CrossLearner([Task("rich", lambda render_mode=None: Rich(), horizon=50)], **SMALL).learn(1)


@pytest.mark.parametrize("radius", [0.0, 0.5, np.inf])
def test_models_are_kept_within_the_radius(radius):
    learner = two(model_epsilon=radius).learn(1)
    for own in learner.method.dynamics.fits:
        assert np.sqrt(np.mean(own.distances**2)) <= radius * (1 + 1e-6)
    with pytest.raises(InputError, match="model_epsilon"):
        two(model_epsilon=-1.0)


def test_three_pendulums_swing_up_after_sixty_steps_each():
    tasks = task_set("pendulums:3")
    options = {"method": "models", "round_steps": 30, "updates_per_round": 40, "seed": 1}
    learner = CrossLearner(tasks, **options)

    def mean_return():
        asked = EpisodeOptions(trials=50, seed=0)
        played = [
            measure_episodes(learner.policy(i), task, asked, 1.0) for i, task in enumerate(tasks)
        ]
        return np.mean([own.returns for own in played])

    nothing = mean_return()
    learner.learn(steps=180)
    assert learner.steps == 180
    assert nothing < -1000.0
    assert mean_return() > -400.0
