"""Paths of radii: each stage from the one before, in memory and in folders, stopped or not."""

import json
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from crosslearning.analysis.sweep import EpsilonPath, epsilon_path, run_sweep
from crosslearning.analysis.sweep import study as sweep_study
from crosslearning.analysis.sweep.study import MEASURE_SEED, measure_family
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, make_settings
from crosslearning.learner.evaluation import run_episodes
from crosslearning.runs import RunFolder, driver, study
from crosslearning.tasks import task_set
from crosslearning.tasks.linear_quadratic import cart
from tests.analysis.sweep.examples import EPSILONS, SETTINGS, small_request
from tests.runs.examples import one_after_another


def held_out_carts():
    return [cart(0.7).task("m=0.7"), cart(1.5).task("m=1.5")]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(study, "in_processes", one_after_another)


@pytest.fixture(scope="module")
def path():
    return epsilon_path(
        "linear-quadratic",
        EPSILONS,
        24,
        held_out=held_out_carts(),
        stage_iterations=12,
        seeds=2,
        trials=8,
        horizon=10,
        **SETTINGS,
    )


def test_every_stage_starts_from_the_family_before(path):
    assert path.epsilons == EPSILONS
    assert path.seeds == (0, 1)
    for seed in path.seeds:
        start = None
        stages = EpsilonPath(EPSILONS, 24, 12).stages(make_settings(SETTINGS), seed)
        for number, (stage, epsilon) in enumerate(zip(stages, EPSILONS, strict=True)):
            settings = SETTINGS | stage.changes
            learner = CrossLearner("linear-quadratic", epsilon, start=start, **settings)
            learner.learn(12 if number else 24)
            result = path.families[seed, epsilon]
            np.testing.assert_array_equal(learner.family.knots, result.knots)
            np.testing.assert_array_equal(learner.family.weights, result.weights)
            assert result.distances().max() <= epsilon + 1e-9
            start = learner.family
    assert not np.array_equal(path.families[0, 0.5].weights, path.families[1, 0.5].weights)


def test_consensus_comes_out_as_one_policy_and_no_multiplier(path):
    assert path.values["distance"][0].max() == 0.0
    np.testing.assert_array_equal(path.values["own"][0], path.values["central"][0])
    assert np.all(np.isnan(path.values["multiplier"][0]))
    assert np.all(path.values["multiplier"][1:] >= 0.0)
    assert np.any(path.values["multiplier"][1] > 0.0)
    assert path.recommendation.by == "held_out"


def test_returns_are_those_of_the_policies_on_the_same_starts(path):
    family = path.families[1, 0.5]
    learner = CrossLearner("linear-quadratic", 0.5, start=family, **SETTINGS)
    weights = learner.settings.discount ** np.arange(10)

    def mean_return(policy, task, trials):
        rewards = run_episodes(policy, task, trials, 10, MEASURE_SEED).rewards
        return np.mean(rewards @ weights)

    own = [mean_return(learner.policy(i), task, 8) for i, task in enumerate(learner.tasks)]
    assert path.values["own"][2, 1] == pytest.approx(np.mean(own), rel=1e-12)
    # Two held-out tasks share the episodes of the three training tasks, 24.
    held_out = [mean_return(learner.central, task, 12) for task in held_out_carts()]
    assert path.values["held_out"][2, 1] == pytest.approx(np.mean(held_out), rel=1e-12)


def test_without_a_radius_the_mean_of_the_policies_is_central():
    learner = CrossLearner("linear-quadratic", float("inf"), **SETTINGS).learn(10)
    states = [[0.5, 0.1], [-0.2, 0.4]]
    mean = np.mean([learner.policy(i).mean(states) for i in range(3)], axis=0)
    np.testing.assert_allclose(learner.central.mean(states), mean, atol=1e-12)
    bounded = CrossLearner("linear-quadratic", 1.0, **SETTINGS).learn(3)
    central = bounded.family.select(3)(states)[:, 0]
    np.testing.assert_array_equal(bounded.central.mean(states), central)


def test_rates_are_measured_where_tasks_have_outcomes():
    learner = CrossLearner("paper", 1.0, max_knots=20).learn(2)
    record = measure_family(learner, np.zeros(3), task_set("paper-circle"), 5, 20)
    assert set(record["held_out"]["circle"]) == {"return", "arrived", "crashed"}
    assert json.loads(json.dumps(record, allow_nan=False)) == record


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 1.0}, "a path sets epsilon itself"),
        ({"seeds": 0}, "at least 1 seed"),
        ({"trials": 0}, "at least 1 seed and trial"),
        ({"stage_iterations": 0}, "stage_iterations must be at least 1"),
        ({"origin": "comon"}, "did you mean 'common'"),
        ({"step_sise": 1.0}, "did you mean 'step_size'"),
    ],
)
def test_a_path_that_cannot_be_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        epsilon_path("linear-quadratic", EPSILONS, 2, **changes)


def test_held_out_tasks_of_another_shape_are_refused():
    with pytest.raises(InputError, match="held-out task 'circle' has shape"):
        epsilon_path("linear-quadratic", EPSILONS, 2, held_out=task_set("paper-circle"))


# In folders -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "in_processes", one_after_another)
        out = tmp_path_factory.mktemp("sweep") / "whole"
        sweep = run_sweep(out, small_request(), seeds=2, workers=1)
    return out, sweep


def test_folders_and_memory_give_the_same(whole, path):
    _, sweep = whole
    for name in ("own", "central", "distance", "knots"):
        np.testing.assert_array_equal(sweep.values[name], path.values[name])
    np.testing.assert_allclose(sweep.values["multiplier"], path.values["multiplier"], rtol=1e-12)
    assert sweep.recommendation.by == "central"


def test_what_is_written(whole):
    out, sweep = whole
    content = json.loads((out / "sweep.json").read_text())
    assert content["rows"] == json.loads(json.dumps(sweep.to_dict()))["rows"]
    assert content["config"]["tasks"] == "linear-quadratic"
    text = (out / "sweep.md").read_text()
    assert sweep.table() in text
    assert sweep.recommendation.sentence in text
    runs = sorted(p.parent.name for p in (out / "seed-1").glob("*/model.safetensors"))
    assert runs == ["epsilon-0", "epsilon-0.2", "epsilon-0.5"]


def stop_after(monkeypatch, iterations):
    """Press Ctrl-C after so many iterations of all runs together."""
    left = [iterations]

    class Pressed(threading.Event):
        def is_set(self):
            left[0] -= 1
            return left[0] <= 0

    @contextmanager
    def interrupts(signals, notice):
        yield Pressed()

    monkeypatch.setattr(driver, "deferred", interrupts)


@pytest.mark.parametrize("moment", [5, 29, 36, 50])
def test_an_interrupted_sweep_ends_as_if_it_had_not_been(whole, tmp_path, monkeypatch, moment):
    with monkeypatch.context() as patch:
        stop_after(patch, moment)
        assert run_sweep(tmp_path / "s", small_request(), seeds=2, workers=1) is None
    assert not (tmp_path / "s" / "sweep.json").exists()
    run_sweep(tmp_path / "s", small_request(), seeds=2, workers=1)
    for name in ("sweep.json", "sweep.md"):
        assert (tmp_path / "s" / name).read_bytes() == (whole[0] / name).read_bytes(), name


def test_more_seeds_and_other_trials_go_on_from_the_runs(tmp_path, monkeypatch):
    out = tmp_path / "s"
    short = {"epsilons": (0.1, 0.3), "iterations": 4, "stage_iterations": 4}
    run_sweep(out, small_request(**short), seeds=1, workers=1)
    before = {p: p.stat().st_mtime_ns for p in out.glob("seed-*/*/model.safetensors")}
    sweep = run_sweep(out, small_request(**short, trials=4), seeds=2, workers=1)
    assert sweep.values["own"].shape == (2, 2)
    assert json.loads((out / "sweep.json").read_text())["trials"] == 4
    assert before == {p: p.stat().st_mtime_ns for p in before}
    # Measurements that were made are not made again.
    monkeypatch.setattr(sweep_study, "measure_family", None)
    run_sweep(out, small_request(**short, trials=4), seeds=2, workers=1)


def test_another_request_is_refused_in_the_same_folder(whole):
    out, _ = whole
    before = (out / "sweep.json").read_bytes()
    for changes, named in (
        ({"epsilons": (0.0, 0.2)}, "epsilons"),
        ({"origin": "zero"}, "origin"),
        ({"max_knots": 16}, "max_knots"),
    ):
        with pytest.raises(InputError, match=f"another choice of {named}"):
            run_sweep(out, small_request(**changes), seeds=2, workers=1)
    assert (out / "sweep.json").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": "liner-quadratic"}, "did you mean 'linear-quadratic'"),
        ({"alpha": 0.1}, "alpha needs an epsilon between 0 and infinity"),
        ({"held_out": "paper-circle"}, "held-out task 'circle' has shape"),
        ({"action_variance": [0.1, 0.1]}, "action_variance has 2 numbers"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_written(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        run_sweep(tmp_path / "s", small_request(**changes), seeds=1, workers=1)
    assert not (tmp_path / "s").exists()


def test_stages_from_zero_do_not_know_one_another(tmp_path):
    request = small_request(origin="zero", epsilons=(0.1, 0.4), iterations=6)
    run_sweep(tmp_path / "s", request, seeds=1, workers=1)
    learner = CrossLearner("linear-quadratic", 0.4, seed=0, **SETTINGS).learn(6)
    result = RunFolder(tmp_path / "s" / "seed-0" / "epsilon-0.4").load().family
    np.testing.assert_array_equal(result.weights, learner.family.weights)


def test_stages_of_a_common_origin_start_from_one_family(tmp_path):
    request = small_request(origin="common", epsilons=(0.1, 0.4), iterations=8, stage_iterations=5)
    swept = run_sweep(tmp_path / "s", request, seeds=1, workers=1)
    start = CrossLearner("linear-quadratic", 0.1, seed=0, **SETTINGS).learn(8).family
    changes = request.path.stages(make_settings(SETTINGS), 0)[1].changes
    in_memory = epsilon_path(
        "linear-quadratic",
        (0.1, 0.4),
        8,
        stage_iterations=5,
        origin="common",
        seeds=1,
        trials=8,
        horizon=10,
        **SETTINGS,
    )
    for epsilon in (0.1, 0.4):
        learner = CrossLearner(
            "linear-quadratic", epsilon, start=start, **(SETTINGS | changes)
        ).learn(5)
        result = RunFolder(tmp_path / "s" / "seed-0" / f"epsilon-{epsilon}").load().family
        np.testing.assert_array_equal(result.weights, learner.family.weights)
        np.testing.assert_array_equal(in_memory.families[0, epsilon].weights, result.weights)
    np.testing.assert_array_equal(swept.values["own"], in_memory.values["own"])
