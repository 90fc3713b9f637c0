"""Adaptation: from any function to a policy for one task."""

import dataclasses

import numpy as np
import pytest

from benchmarks import adaptation as benchmark
from crosslearning import CrossLearner
from crosslearning.analysis.adaptation import AdaptationCurve, adapt_run, adaptation_curve
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import evaluate
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.tasks import task_set
from tests.learner.examples import assert_same_bits, drift


@pytest.fixture(scope="module")
def learner():
    settings = {"epsilon": 1.0, "step_size": 0.1, "max_knots": 40, "seed": 0}
    return CrossLearner("linear-quadratic", **settings).learn(200)


def test_adapt_starts_at_the_policy_and_goes_on(learner):
    task = learner.tasks[1]
    still = learner.adapt(task, 0)
    states = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    np.testing.assert_allclose(still.family(states)[:, 0], learner.central.mean(states), atol=1e-12)
    np.testing.assert_allclose(still.family(states)[:, 1], learner.central.mean(states), atol=1e-12)
    other = learner.adapt(task, 0, start=task.name)
    np.testing.assert_allclose(
        other.family(states)[:, 0], learner.policy(1).mean(states), atol=1e-12
    )
    moved = learner.adapt(task, 5, seed=3)
    assert moved.iteration == 5
    assert not np.allclose(moved.family(states)[:, 0], learner.central.mean(states))
    assert len(learner.tasks) == 3  # the first learner is as it was


def test_a_curve_from_a_good_start_is_ahead(learner):
    task = learner.tasks[0]
    settings = {"iterations": 60, "points": 4, "trials": 50, "seed": 1, "step_size": 0.05}
    good = adaptation_curve(task, learner.central.function, **settings)
    nothing = adaptation_curve(task, None, kernel=learner.kernel, **settings)
    assert good.episodes.tolist() == [0.0, 120.0, 240.0, 360.0, 480.0]
    assert good.returns[0] > nothing.returns[0]
    assert good.area > nothing.area
    assert good.steps[0] == 0
    again = adaptation_curve(task, learner.central.function, **settings)
    np.testing.assert_array_equal(good.returns, again.returns)


def test_a_curve_is_measured_on_the_starts_of_its_seed(learner):
    task, settings = learner.tasks[0], {"iterations": 1, "points": 1, "trials": 3, "horizon": 5}
    for seed in (0, 1):
        curve = adaptation_curve(task, learner.central.function, seed=seed, **settings)
        (own,) = evaluate([learner.central], [task], seed=seed, trials=3, horizon=5)
        assert curve.returns[0] == pytest.approx(own.discounted_return.value)


def test_rollouts_are_counted_whatever_the_estimator(learner):
    task = learner.tasks[0]
    settings = {"iterations": 4, "points": 2, "trials": 2, "horizon": 3, "kernel": learner.kernel}
    spent = {}
    for estimator in ("geometric", "antithetic"):
        curve = adaptation_curve(task, None, estimator=estimator, batch_size=3, **settings)
        spent[estimator] = curve.episodes.tolist()
        assert np.all(np.diff(curve.steps) > 0)
    assert spent == {"geometric": [0.0, 6.0, 12.0], "antithetic": [0.0, 12.0, 24.0]}


def test_the_area_is_the_mean_along_the_curve():
    curve = AdaptationCurve(np.array([0.0, 1.0, 3.0]), np.zeros(3), np.array([0.0, 2.0, 2.0]))
    assert curve.area == pytest.approx((1.0 + 4.0) / 3.0)


def test_a_start_that_does_not_fit_is_named(learner):
    with pytest.raises(InputError, match="one function"):
        CrossLearner(learner.tasks, start=learner.family.select(0, 1))
    other = CrossLearner("paper").kernel
    with pytest.raises(InputError, match="kernel of its own"):
        CrossLearner(learner.tasks, start=learner.central.function, kernel=other)


# A run of its own ---------------------------------------------------------------------------

SMALL = {"epsilon": 0.3, "step_size": 0.1, "max_knots": 30, "seed": 4, "alpha": 1e-9}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("adaptation") / "trained"
    train(path, make_config({"tasks": "linear-quadratic", "iterations": 60, **SMALL}))
    return path


def test_a_run_adapts_from_its_central_policy_and_can_be_resumed(trained, tmp_path):
    centre = RunFolder.open(trained).load().central
    adapted = adapt_run(trained, tmp_path / "a", "linear-quadratic", iterations=12)
    assert adapted.finished
    config = RunFolder.open(tmp_path / "a").config()
    assert config.settings.epsilon == np.inf
    assert config.settings.alpha is None
    assert (config.settings.step_size, config.settings.max_knots) == (0.1, 30)
    # Its start is the central policy, for every task.
    adapt_run(trained, tmp_path / "b", "linear-quadratic", iterations=1, checkpoint_every=1)
    begun = CrossLearner.load(RunFolder.open(tmp_path / "b").checkpoints()[0][1])
    states = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    assert begun.iteration == 0
    for i in range(3):
        np.testing.assert_allclose(begun.policy(i).mean(states), centre.mean(states), atol=1e-12)
    # Gone on with, it is the run that was never stopped.
    whole = resume(tmp_path / "b", iterations=12).learner
    assert_same_bits(whole.family, adapted.learner.family)


def test_adaptation_takes_another_start_and_together(trained, tmp_path):
    made = adapt_run(
        trained, tmp_path / "a", "linear-quadratic:m=1", start="m=0.5", iterations=1, epsilon=0.2
    )
    assert made.learner.settings.epsilon == 0.2
    begun = CrossLearner.load(RunFolder.open(tmp_path / "a").checkpoints()[0][1])
    states = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    wanted = RunFolder.open(trained).load().policy("m=0.5").mean(states)
    np.testing.assert_allclose(begun.policy(0).mean(states), wanted, atol=1e-12)
    with pytest.raises(InputError, match="no such policy"):
        adapt_run(trained, tmp_path / "c", "linear-quadratic", start="m=9")
    with pytest.raises(InputError, match="already holds a run"):
        adapt_run(trained, tmp_path / "a", "linear-quadratic")
    with pytest.raises(InputError, match=r"start must be one function to R\^2"):
        adapt_run(trained, tmp_path / "d", "paper")
    assert not (tmp_path / "d").exists()


def test_actions_keep_their_meaning():
    learner = CrossLearner([drift("plain", bound=3.0)], epsilon=0.01).learn(2)
    stated = dataclasses.replace(drift("stated", bound=3.0), kernel_covariance=(1.0, 1.0))
    adapted = learner.adapt(stated, 0)
    seen = [0.3, -0.2]
    np.testing.assert_allclose(adapted.predict(seen)[0], learner.central.predict(seen)[0])


def test_a_start_from_nothing_is_told(tmp_path):
    # So wide that no policy is held back in two iterations: nothing moves the centre.
    fields = {"tasks": "linear-quadratic", "epsilon": 1e6, "iterations": 2, "max_knots": 20}
    wide = train(tmp_path / "wide", make_config(fields)).learner
    task = task_set("linear-quadratic")[0]
    words = r"the central policy is still zero: .* learn longer, take a smaller epsilon, or"
    with pytest.warns(UserWarning, match=words):
        wide.adapt(task, 0)
    with pytest.warns(UserWarning, match=words):
        adapt_run(tmp_path / "wide", tmp_path / "new", "linear-quadratic", iterations=1)
    wide.adapt(task, 0, start="m=1")  # which has learned
    with pytest.warns(UserWarning, match="the m=1 policy is still zero: .*, learn longer$"):
        CrossLearner("linear-quadratic").adapt(task, 0, start="m=1")


# The benchmark counts what it says ----------------------------------------------------------


def test_episodes_to_a_level_are_counted_along_straight_lines():
    curve = AdaptationCurve(np.array([0.0, 10.0, 20.0]), np.zeros(3), np.array([-4.0, 0.0, 1.0]))
    assert benchmark.episodes_to(curve, -2.0) == 5.0
    assert benchmark.episodes_to(curve, 0.5) == 15.0
    assert benchmark.episodes_to(curve, -5.0) == 0.0
    assert benchmark.episodes_to(curve, 2.0) == np.inf
    quick = AdaptationCurve(curve.episodes, curve.steps, np.array([0.0, 2.0, 2.0]))
    lost = AdaptationCurve(curve.episodes, curve.steps, np.array([-9.0, -8.0, -9.0]))
    # The level is −4 + 0.9 · 5 = 0.5, which nothing reaches after 15 episodes.
    assert benchmark.ratio_of(quick, curve, 0.9) == pytest.approx(2.5 / 15.0)
    assert benchmark.ratio_of(lost, curve, 0.9) == pytest.approx(20.0 / 15.0)
    assert np.isnan(benchmark.ratio_of(quick, lost, 0.9))


def test_the_benchmark_measures_and_keeps_what_it_measured(tmp_path):
    asked = {"maps": 2, "train_iterations": 4, "iterations": 4, "points": 2, "trials": 4}
    first = benchmark.measure(tmp_path, **asked, max_knots=20, adapt_step_size=0.3)
    assert [len(one["centre"].returns) for one in first] == [3, 3]
    assert len(benchmark.rows(first)) == 2
    stored = (tmp_path / "map-0.json").stat().st_mtime_ns
    again = benchmark.measure(tmp_path, **asked, max_knots=20, adapt_step_size=0.3)
    np.testing.assert_array_equal(again[1]["nothing"].returns, first[1]["nothing"].returns)
    assert (tmp_path / "map-0.json").stat().st_mtime_ns == stored


def test_adapting_keeps_the_method_unless_another_is_named():
    learner = CrossLearner("pendulums:2", 0.01, max_knots=30, episode_steps=20, reliable=0.0).learn(
        1
    )
    (task,) = task_set("pendulums:unseen:1")
    with pytest.raises(InputError, match="step_size is a setting of the method policy-gradient"):
        learner.adapt(task, 1, step_size=0.1)
    same = learner.adapt(task, steps=300)
    assert same.settings.method == "trust-region"
    assert same.steps >= 300
    np.testing.assert_allclose(same.settings.action_std, learner.method.noise.std)
    other = learner.adapt(task, 1, method="policy-gradient", step_size=0.1)
    assert other.settings.method == "policy-gradient"


def test_one_length_puts_that_of_the_old_run_aside(tmp_path):
    fields = {"tasks": "pendulums:2", "steps": 3000, "max_knots": 30, "episode_steps": 20}
    fields["epsilon"] = 0.01  # so that there is a centre to start from
    train(tmp_path / "old", make_config(fields))
    outcome = adapt_run(tmp_path / "old", tmp_path / "new", "pendulums:unseen:1", iterations=2)
    assert outcome.learner.iteration == 2


# With models ---------------------------------------------------------------------------------

MODELS = {
    "method": "models",
    "round_steps": 15,
    "updates_per_round": 3,
    "rollouts": 4,
    "look_ahead": 5,
}


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "trained"
    fields = {"tasks": "pendulums:2", "steps": 60, "max_knots": 30, "seed": 1, **MODELS}
    fields["epsilon"] = 0.1  # so small that the central policy moves at once
    return path, train(path, make_config(fields)).learner


def test_one_more_model_is_fitted_beside_those_of_the_family(family):
    _, learner = family
    (task,) = task_set("pendulums:unseen:1")
    adapted = learner.adapt(task, steps=15)
    assert (adapted.steps, adapted.iteration) == (15, 3)
    method = adapted.method
    assert [len(own.rewards) for own in method.data] == [15]
    assert [len(own.rewards) for own in method.related] == [30, 30]
    # Three models and their centre, of which the policy is learned in the first alone.
    assert method.dynamics.fits[0].family.functions == 4
    assert method.models[0].functions == learner.settings.samples
    assert [len(own.rewards) for own in learner.method.data] == [30, 30]  # as it was


def test_the_first_round_acts_with_the_start_and_noise(family):
    _, learner = family
    (task,) = task_set("pendulums:unseen:1")
    adapted = learner.adapt(task, 1, action_std=1e-9)
    seen = adapted.method.data[0]
    wanted = np.clip(learner.central.mean(seen.states), -1.0, 1.0)
    np.testing.assert_allclose(seen.actions, wanted, atol=1e-6)
    restless = learner.adapt(task, 1).method.data[0]
    wanted = np.clip(learner.central.mean(restless.states), -1.0, 1.0)
    assert np.std(restless.actions - wanted) > 0.1


def test_an_adapted_learner_keeps_the_data_of_the_family(family, tmp_path):
    _, learner = family
    (task,) = task_set("pendulums:unseen:1")
    half = learner.adapt(task, 2)
    half.save(tmp_path / "half")
    again = CrossLearner.load(tmp_path / "half", tasks=[task])
    assert len(again.method.related) == 2
    assert_same_bits(again.learn(4).family, half.learn(4).family)
    # What is adapted once more knows of all three.
    assert len(half.adapt(task, 0).method.related) == 3


def test_a_run_adapts_with_the_data_of_the_family_and_can_be_resumed(family, tmp_path):
    path, learner = family
    tasks = "pendulums:unseen:1"
    whole = adapt_run(path, tmp_path / "a", tasks, iterations=5)
    assert len(whole.learner.method.related) == 2
    adapt_run(path, tmp_path / "b", tasks, iterations=1)
    (tmp_path / "b" / "model.safetensors").unlink()  # as if killed before its end
    assert_same_bits(resume(tmp_path / "b", iterations=5).learner.family, whole.learner.family)
    direct = learner.adapt(task_set(tasks)[0], 5)
    assert_same_bits(direct.family, whole.learner.family)


def test_other_methods_inherit_nothing(family):
    _, learner = family
    (task,) = task_set("pendulums:unseen:1")
    other = learner.adapt(task, 1, method="trust-region", episode_steps=20)
    assert other.settings.method == "trust-region"
    how = {"method": "trust-region", "episode_steps": 20, "reliable": 0.0}
    alone = CrossLearner("pendulums:2", 0.01, **how).learn(1)
    assert alone.adapt(task, 1, **MODELS).method.related == []
