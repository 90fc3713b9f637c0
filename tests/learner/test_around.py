"""Learning around the controller in use: bounds, files, deployment and limits."""

import dataclasses
import json
import shlex
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Box

from crosslearning import PID, CrossLearner, StateFeedback, evaluate, learn_from
from crosslearning.analysis.adaptation import adapt_run
from crosslearning.errors import InputError, TaskError
from crosslearning.learner.deployment import LearnedController
from crosslearning.learner.evaluation import run_episodes
from crosslearning.runs import RunFolder, make_config, resume, train
from tests.certificates.examples import place
from tests.learner.examples import assert_same_bits, drift

FEEDBACK = StateFeedback([[0.3, 0.0], [0.0, 0.3]])
PLAIN_PID = PID(0.3 * np.eye(2), ki=0.05 * np.eye(2), measured=[0, 1])
#: Quick settings of every method.
QUICK = {
    "models": {"updates_per_round": 3, "round_steps": 15, "rollouts": 4, "look_ahead": 5},
    "trust-region": {"episode_steps": 10, "least_steps": 40},
    "policy-gradient": {"batch_size": 2},
}


def quick(method, around=PLAIN_PID, epsilon=0.2, tasks=None, **more):
    tasks = tasks or [drift("one"), drift("two")]
    settings = {"max_knots": 20, "seed": 1, **QUICK[method], **more}
    return CrossLearner(tasks, around=around, epsilon=epsilon, method=method, **settings)


every_method = pytest.mark.parametrize("method", QUICK)


@every_method
def test_no_policy_changes_an_action_by_more_than_its_bound(method):
    learner = quick(method).learn(6, progress=False)
    family = learner.last.family
    assert learner.settings.bound == 0.2
    assert np.all(family.norms() <= 0.2)
    assert family.norms()[:2].max() > 0.02  # something was learned
    states = np.random.default_rng(0).uniform(-10.0, 10.0, (100_000, learner.kernel.dimension))
    changes = family(states)
    assert np.abs(changes).max() <= 0.2


def test_policies_that_agree_are_still_bound_to_the_controller():
    """Their distance from one another is zero: ε alone would let them stay where they are."""
    learner = quick("trust-region")
    knot = np.zeros((1, learner.kernel.dimension))
    place(learner, knot, np.full((1, 3, 2), 4.0))
    assert learner.last.family.norms().min() > 4.0
    learner.learn(1, progress=False)
    assert learner.last.family.norms().max() <= 0.2


@every_method
def test_an_epsilon_of_zero_is_the_plant_of_today(method):
    learner = quick(method, epsilon=0.0).learn(3, progress=False)
    assert np.all(learner.family.weights == 0.0) or len(learner.family.knots) == 0
    pid = dataclasses.replace(PLAIN_PID, low=-1.0, high=1.0)
    now = SimpleNamespace(reset=pid.reset, predict=pid.act)
    for task, plain in zip(learner.tasks, [drift("one"), drift("two")], strict=True):
        mine = run_episodes(learner.central, task, 3, 20)
        today = run_episodes(now, plain, 3, 20)
        np.testing.assert_array_equal(mine.rewards, today.rewards)


@every_method
def test_a_saved_learner_goes_on_bit_for_bit_with_the_controllers_memory(method, tmp_path):
    learner = quick(method).learn(4, progress=False)
    learner.save(tmp_path / "half")
    # A controller of plain numbers is part of the file.
    again = CrossLearner.load(tmp_path / "half", tasks=[drift("one"), drift("two")])
    for one in (learner, again):
        one.learn(3, progress=False)
    assert_same_bits(learner.family, again.family)


def test_a_file_needs_the_controller_that_is_code(tmp_path):
    learner = quick("trust-region", around=lambda o: -0.3 * o).learn(1, progress=False)
    learner.save(tmp_path / "file")
    tasks = [drift("one"), drift("two")]
    with pytest.raises(InputError, match="around a controller of its author's"):
        CrossLearner.load(tmp_path / "file", tasks=tasks)
    again = CrossLearner.load(tmp_path / "file", tasks=tasks, around=lambda o: -0.3 * o)
    assert again.learn(1, progress=False).iteration == 2
    # Without tasks its corrections can be used, as those of any policies.
    alone = CrossLearner.load(tmp_path / "file")
    assert alone.predict([0.1, 0.2])[0].shape == (2,)


def test_another_controller_or_set_point_than_learned_around_is_refused(tmp_path):
    tasks = [dataclasses.replace(drift("one"), setpoints={0: 0.0})]
    quick("models", tasks=tasks).learn(3, progress=False).save(tmp_path / "file")
    other = dataclasses.replace(PLAIN_PID, setpoint=[0.5, 0.0])
    with pytest.raises(InputError, match="was learned with controller"):
        CrossLearner.load(tmp_path / "file", tasks=tasks, around=other)
    moved = [dataclasses.replace(drift("one"), setpoints={0: 0.5})]
    with pytest.raises(InputError, match="was learned with setpoints"):
        CrossLearner.load(tmp_path / "file", tasks=moved)


def test_a_bad_observation_changes_nothing_that_a_controller_remembers():
    task = dataclasses.replace(drift("one"), lags=1, setpoints={0: 0.0})
    learner = quick("models", tasks=[task]).learn(3, progress=False)
    one, other = learner.controller(0), learner.controller(0)
    for observation in np.random.default_rng(0).normal(size=(5, 2)):
        for bad in ([np.nan, 0.0], [1.0], [1.0, 2.0, 3.0]):
            with pytest.raises(InputError, match="give 2 finite numbers: observation 0"):
                one.act(bad)
        np.testing.assert_array_equal(one.act(observation), other.act(observation))


def test_the_controller_of_a_machine_does_what_the_task_does():
    task = dataclasses.replace(drift("one"), lags=1, past_actions=1, rates={0: 0.5})
    learner = quick("models", tasks=[task]).learn(3, progress=False)
    controller = learner.controller("one")
    assert isinstance(controller, LearnedController)
    mine = run_episodes(learner.policy("one"), learner.tasks[0], 4, 15)
    whole = run_episodes(controller, drift("one"), 4, 15)
    np.testing.assert_array_equal(mine.rewards, whole.rewards)


def test_the_controller_of_a_file_is_that_of_the_learner(tmp_path):
    learner = quick("models").learn(3, progress=False)
    learner.save(tmp_path / "file")
    one, other = learner.controller(0), CrossLearner.load(tmp_path / "file").controller(0)
    for observation in np.random.default_rng(2).normal(size=(10, 2)):
        np.testing.assert_array_equal(one.act(observation), other.act(observation))


def test_a_learned_controller_may_be_learned_around():
    first = quick("models").learn(3, progress=False)
    again = quick("trust-region", around=first.controller(0)).learn(1, progress=False)
    plain = evaluate(first.controller(0), [drift("one")], trials=3, horizon=10)[0]
    zero = evaluate(lambda o: np.zeros(2), [again.tasks[0]], trials=3, horizon=10)[0]
    assert plain.total_return.value == zero.total_return.value


def test_one_controller_each():
    feedbacks = {"one": StateFeedback(0.2 * np.eye(2)), "two": StateFeedback(0.4 * np.eye(2))}
    learner = quick("models", around=feedbacks)
    assert [task.controller for task in learner.tasks] == list(feedbacks.values())
    with pytest.raises(InputError, match="controllers for"):
        quick("models", around={"one": FEEDBACK})
    with pytest.raises(InputError, match="1 controllers for 2 tasks"):
        quick("models", around=[FEEDBACK])


def test_adapting_stays_around_the_controller():
    learner = quick("models").learn(3, progress=False)
    adapted = learner.adapt(drift("three"), 3)
    assert adapted.tasks[0].controller is PLAIN_PID
    assert adapted.settings.bound == 0.2
    assert np.all(adapted.family.norms() <= 0.2)


def test_how_far_must_be_said():
    with pytest.raises(InputError, match="how far may learning depart from the controller"):
        CrossLearner([drift("one")], around=FEEDBACK)
    two = CrossLearner([drift("one")], around=FEEDBACK, controller_epsilon=0.5)
    assert (two.settings.epsilon, two.settings.bound) == (3.0, 0.5)
    for projection in ("relaxed", "free"):
        with pytest.raises(InputError, match=f"the {projection} projection.*take exact"):
            CrossLearner([drift("one")], around=FEEDBACK, epsilon=0.5, projection=projection)


def test_exploration_is_as_wide_as_the_bound():
    learner = quick("models", epsilon=0.1)
    assert learner.settings.action_std == pytest.approx((0.01,))  # on the machine, where it costs
    assert learner.settings.imagined_std == pytest.approx(0.01)
    assert learner.settings.start_share == 0.0
    free = CrossLearner([drift("one")], method="models").settings
    assert (free.action_std, free.start_share) == ((0.4,), 0.25)


def test_corrections_and_actions_are_not_mixed_up():
    learner = quick("models").learn(3, progress=False)
    with pytest.raises(InputError, match="corrects a controller, and task 'one' has none"):
        evaluate(learner.policy(0), [drift("one")], trials=2)
    plain = CrossLearner([drift("one")], method="trust-region", **QUICK["trust-region"])
    with pytest.raises(InputError, match="takes corrections of its controller"):
        evaluate(plain.policy(0), [drift("one").around(FEEDBACK)], trials=2)


def test_a_bad_controller_costs_nothing_that_was_learned():
    calls = []

    def sometimes(observation):
        calls.append(1)
        return np.full(2, np.nan) if len(calls) > 700 else -0.3 * observation

    learner = quick("trust-region", around=sometimes)
    with pytest.raises(TaskError, match="its controller returned"):
        learner.learn(100, progress=False)
    assert learner.iteration >= 1
    assert np.all(np.isfinite(learner.family.weights))


def test_logged_data_of_other_controllers():
    generator, log = np.random.default_rng(0), {}
    for name in ("one", "two"):
        place, seen, actions = generator.normal(size=2), [], generator.uniform(-1, 1, (40, 2))
        for action in actions:
            seen.append(place)
            place = np.clip(place + 0.3 * action, -10, 10)
        rewards = -np.sum(np.square([*seen[1:], place]), axis=1)
        log[name] = [{"observations": [*seen, place], "actions": actions, "rewards": rewards}]
    limits = {"lags": 1, "limits": {"x": (-8.0, None)}}
    names = {"observation_names": ["x", "y"], "action_names": ["u", "v"]}
    given = {"iterations": 3, "around": FEEDBACK, "progress": False}
    with pytest.raises(InputError, match="action_space=Box"):
        learn_from(log, 0.3, task=limits | names, **given)
    given["action_space"] = Box(-1.0, 1.0, (2,), np.float64)
    with pytest.raises(InputError, match="did you mean 'lags'"):
        learn_from(log, 0.3, task={"lag": 1}, **given)
    learner = learn_from(log, 0.3, task=limits | names, **given)
    assert learner.tasks[0].observation_names == ("x", "y", "change 1 of x", "change 1 of y")
    assert np.all(learner.family.norms() <= 0.3)
    assert learner.controller("one").act([0.1, 0.2]).shape == (2,)


# Runs -------------------------------------------------------------------------------------

MODULE = """
import numpy as np
from crosslearning import StateFeedback
calm = StateFeedback([[0.5, 0.5]])
def rough(observation):
    return -0.5 * observation.sum(keepdims=True)
"""
RUN = {"tasks": "linear-quadratic", "method": "trust-region", "epsilon": 0.3, "max_knots": 20}
SHORT = {"iterations": 2, "checkpoint_every": 1, "episode_steps": 10, "least_steps": 20}


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_control.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_control"
    sys.modules.pop("my_control", None)


@pytest.mark.parametrize("name", ["calm", "rough"])
def test_a_run_around_a_named_controller_is_resumed_by_its_user_alone(module, name, tmp_path):
    config = make_config({**RUN, **SHORT, "around": f"{module}:{name}"})
    train("run", config)
    longer = resume("run", iterations=4).learner
    assert longer.tasks[0].controller is not None
    moved = tmp_path / "moved"
    (tmp_path / "run").rename(moved)
    with pytest.raises(InputError, match="not a run of yours in its place"):
        RunFolder.open(moved).source()
    with pytest.raises(InputError, match="name it too: --around"):
        resume(moved, iterations=5, tasks="linear-quadratic")
    again = resume(moved, iterations=5, tasks="linear-quadratic", around=f"{module}:{name}")
    assert again.learner.iteration == 5


def test_a_controller_that_a_folder_names_is_never_imported(module, tmp_path):
    config = make_config({**RUN, **SHORT, "around": f"{module}:calm"})
    train("run", config)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ncalm = None\n")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    for code in ({}, about["tasks"]["code"]):
        about["tasks"] |= {"around": "evil:calm", "code": code}
        (tmp_path / "run" / "run.json").write_text(json.dumps(about))
        text = (tmp_path / "run" / "config.toml").read_text().replace(module, "evil")
        (tmp_path / "run" / "config.toml").write_text(text)
        folder = RunFolder.open("run")
        folder.config()
        assert not folder.is_own()
        learner = folder.load()  # its policies can be used
        with pytest.raises(InputError):
            learner.learn(1, progress=False)
    assert not (tmp_path / "ran").exists()


def test_a_run_around_code_is_adapted_by_its_user_alone(module, tmp_path):
    train("run", make_config({**RUN, **SHORT, "around": f"{module}:calm"}))
    fields = {"iterations": 1}
    adapted = adapt_run("run", "mine", "linear-quadratic:m=1", **fields).learner
    assert adapted.tasks[0].controller is not None
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(InputError, match="name it: --around"):
        adapt_run("moved", "theirs", "linear-quadratic:m=1", **fields)


def test_a_file_of_fields_names_no_controller(module, tmp_path):
    from typer.testing import CliRunner

    from crosslearning import cli

    (tmp_path / "fields.toml").write_text(f'tasks = "linear-quadratic"\naround = "{module}:calm"\n')
    command = "train --config fields.toml --out run --epsilon 0.3 --iterations 1"
    result = CliRunner().invoke(cli.app, shlex.split(command))
    assert "is a controller; a file runs none" in str(result.exception)


def test_a_policys_file_is_a_controller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fields = {**QUICK["trust-region"], "max_knots": 20}
    first = CrossLearner("linear-quadratic", 0.5, method="trust-region", **fields)
    first.learn(1, progress=False).central.save("policy.json")
    around = CrossLearner("linear-quadratic", 0.1, around="policy.json", method="trust-region")
    plain = evaluate(first.central, [first.tasks[0]], trials=3, horizon=10)[0]
    zero = evaluate(lambda o: np.zeros(1), [around.tasks[0]], trials=3, horizon=10)[0]
    np.testing.assert_allclose(plain.total_return.value, zero.total_return.value, rtol=1e-9)


def test_the_certificate_checks_the_distance_from_the_controller(tmp_path, monkeypatch):
    from safetensors.numpy import load_file, save_file

    from crosslearning.certificates import certify

    monkeypatch.chdir(tmp_path)
    fields = {"tasks": "hovering-masses:2", "method": "models", "epsilon": 0.3, "max_knots": 30}
    fields |= {"iterations": 4, "updates_per_round": 4, "round_steps": 20}
    (tmp_path / "hover.py").write_text(
        "from crosslearning import StateFeedback\npd = StateFeedback([[4.0, 3.9]], bias=[9.81])\n"
    )
    train("run", make_config({**fields, "around": "hover:pd"}))
    sys.modules.pop("hover", None)
    found = {check.name: check.status for check in certify("run", samples=50).checks}
    names = ["model.safetensors: distance from the controller", "model.safetensors: kept policies"]
    assert [found[name] for name in names] == ["pass", "pass"]
    # Kept policies that somebody has made longer are noticed, whatever the record says.
    import safetensors

    path = tmp_path / "run" / "model.safetensors"
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
    arrays = load_file(path)
    arrays["kept.policies.weights"] = 50.0 * arrays["kept.policies.weights"] + 0.5
    save_file(arrays, path, metadata)
    found = {check.name: check.status for check in certify("run", samples=50).checks}
    assert found[names[1]] == "fail"


# What is refused ------------------------------------------------------------------------------


def test_choices_of_a_setting_are_listed():
    with pytest.raises(InputError, match="keep is 'worst': give one of 'best', 'expected', 'last'"):
        quick("models", keep="worst")


@pytest.mark.parametrize("method", [None, "models"])
def test_a_bound_around_no_controller_is_refused(method):
    given = {} if method is None else {"method": method}
    with pytest.raises(InputError, match=r"controller_epsilon is 0.5, but there is no controller"):
        CrossLearner([drift("one")], epsilon=0.3, controller_epsilon=0.5, **given)


def test_a_module_without_a_name_is_not_taken_for_a_file():
    with pytest.raises(InputError, match=r"around is 'my_control'; give package.module:name"):
        CrossLearner("pendulums:1", epsilon=0.3, around="my_control")


def test_a_pid_measures_by_names():
    by_name = CrossLearner("pendulums:1", epsilon=0.3, around=PID(2.0, measured="speed"))
    assert by_name.tasks[0].loop.controller.measured.tolist() == [2]
    with pytest.raises(InputError, match=r"no such measurement of the PID.*'sped'; did you mean"):
        CrossLearner("pendulums:1", epsilon=0.3, around=PID(2.0, measured="sped"))
    with pytest.raises(InputError, match="only a task knows the numbers"):
        PID(2.0, measured="speed").act([0.0])
    with pytest.raises(InputError, match=r"measured is \[0.5\]; give numbers of observations"):
        PID(2.0, measured=0.5)


def test_adapting_to_a_task_without_lags_names_them():
    fields = {"lags": 1, "past_actions": 2, "setpoints": {0: 0.5}}
    lagged = dataclasses.replace(drift("one"), **fields)
    learner = quick("models", tasks=[lagged]).learn(3, progress=False)
    with pytest.raises(InputError, match="same fields: lags=1; past_actions=2; setpoints=") as seen:
        learner.adapt(drift("two"), 1)
    assert "change 1 of" in str(seen.value)


def test_what_was_learned_can_be_read():
    learner = quick("models", around=FEEDBACK).learn(3, progress=False)
    assert "2 corrections of a controller and the central one" in repr(learner.best)
    shown = repr(learner.controller("one"))
    assert "LearnedController('one': " in shown
    assert "around StateFeedback(gain=" in shown
    assert "array" not in shown
    assert "changes of at most 0.2, 0.2" in shown
