"""Runs with evaluations on their way: the same files after any interruption, and the best kept."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from crosslearning import CrossLearner, EvaluationCallback, cli
from crosslearning.errors import InputError
from crosslearning.runs import RunFolder, make_config, resume, train
from tests.learner.examples import assert_same_bits

FIELDS = {
    "tasks": "linear-quadratic",
    "max_knots": 20,
    "batch_size": 2,
    "step_size": 0.3,
    "seed": 4,
    "iterations": 42,
    "checkpoint_every": 12,
    "log_every": 6,
    "evaluate_every": 5,
    "evaluation_trials": 4,
}
runner = CliRunner()


def files_of(path):
    folder = RunFolder(path)
    files = (folder.model, folder.metrics, folder.evaluations, folder.best)
    return [file.read_bytes() for file in files]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    assert train(path, make_config(FIELDS)).finished
    return path


def test_the_file_is_the_curve_of_the_callback(whole):
    settings = {name: FIELDS[name] for name in ("max_knots", "batch_size", "step_size", "seed")}
    learner = CrossLearner("linear-quadratic", **settings)
    watch = EvaluationCallback(learner, 5, trials=4)
    learner.learn(42, watch)
    watch.evaluate()  # a run evaluates its end, too
    lines = RunFolder(whole).read_evaluations()
    assert [line["iteration"] for line in lines] == [5, 10, 15, 20, 25, 30, 35, 40, 42]
    assert lines == [point.to_plain() for point in watch.curve]
    best = RunFolder(whole).load(best=True)
    assert best.iteration == watch.best.iteration < 42
    assert_same_bits(best.family, watch.best_family)
    # What is learned does not depend on it.
    assert_same_bits(RunFolder(whole).load().family, learner.family)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_run_that_goes_on_ends_with_the_same_files(tmp_path, whole, kept):
    path = tmp_path / "run"
    train(path, make_config(FIELDS))
    folder = RunFolder(path)
    folder.model.unlink()  # as if killed at its end, with so many checkpoints whole
    for _, checkpoint in folder.checkpoints()[kept:]:
        checkpoint.unlink()
    with folder.evaluations.open("a") as stream:
        stream.write('{"iteration": 4')
    assert resume(path).finished
    assert files_of(path) == files_of(whole)


def test_two_threads_give_the_same_files(tmp_path, whole):
    train(tmp_path / "run", make_config({**FIELDS, "workers": 2}))
    assert files_of(tmp_path / "run") == files_of(whole)


def test_a_longer_run_goes_on_with_the_curve(tmp_path, whole):
    path = tmp_path / "run"
    train(path, make_config({**FIELDS, "iterations": 30}))
    resume(path, iterations=42)
    assert files_of(path) == files_of(whole)


def test_without_evaluations_there_are_no_files(tmp_path):
    train(tmp_path / "run", make_config({**FIELDS, "evaluate_every": 0, "iterations": 3}))
    folder = RunFolder(tmp_path / "run")
    assert not folder.evaluations.exists()
    assert folder.read_evaluations() == []
    with pytest.raises(InputError, match=r"keeps no best evaluation; .* --evaluate-every"):
        folder.load(best=True)


def test_commands_evaluate_compare_and_draw_the_best(whole):
    best = RunFolder(whole).load(best=True)
    flags = ["--trials", "3", "--json", "--best"]
    result = json.loads(runner.invoke(cli.app, ["evaluate", str(whole), *flags]).output)
    last = json.loads(runner.invoke(cli.app, ["evaluate", str(whole), *flags[:3]]).output)
    assert result != last
    flags[3] = "--best-evaluated"  # --best was its name up to 0.3
    assert json.loads(runner.invoke(cli.app, ["evaluate", str(whole), *flags]).output) == result
    from crosslearning.learner.evaluation import evaluate

    (expected,) = evaluate(best.policy(0), best.tasks[0], trials=3)
    row = next(r for r in result if r["policy"] == r["task"] == best.tasks[0].name)
    assert row["total_return"]["value"] == expected.total_return.value
    same = runner.invoke(cli.app, ["compare", str(whole), str(whole), *flags])
    assert {r["discounted_return"]["value"] for r in json.loads(same.output)} == {0.0}
    shown = runner.invoke(cli.app, ["info", str(whole)]).output
    assert f"best of 9 evaluations on the way: iteration {best.iteration}" in shown
    assert runner.invoke(cli.app, ["plot", str(whole)]).exit_code == 0
    assert (whole / "figures" / "evaluations.png").read_bytes().startswith(b"\x89PNG")


def test_tensorboard_shows_evaluations(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    fields = {**FIELDS, "iterations": 10, "tensorboard": True}
    train(tmp_path / "run", make_config(fields))
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    lines = RunFolder(tmp_path / "run").read_evaluations()
    scalars = events.Scalars("evaluation/m_1")
    assert [scalar.step for scalar in scalars] == [5, 10]
    values = [line["results"][1]["discounted_return"]["value"] for line in lines]
    np.testing.assert_allclose([scalar.value for scalar in scalars], values, rtol=1e-5)


@pytest.mark.parametrize("fields", [{"evaluate_every": -1}, {"evaluation_trials": 0}])
def test_wrong_fields_are_named(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        make_config(fields)
