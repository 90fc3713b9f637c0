"""Runs whose length is counted in environment steps."""

import shutil

import pytest
from typer.testing import CliRunner

from crosslearning import CrossLearner, cli
from crosslearning.certificates import certify
from crosslearning.certificates.verification import verify_run
from crosslearning.errors import InputError
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.runs.study import Run
from tests.certificates.tampering import edit_model
from tests.learner.examples import assert_same_bits

FIELDS = {
    "tasks": "linear-quadratic",
    "max_knots": 20,
    "batch_size": 2,
    "step_size": 0.1,
    "checkpoint_every": 4,
    "log_every": 2,
}
STEPS = 3000


def files_of(path):
    folder = RunFolder(path)
    return folder.model.read_bytes(), folder.metrics.read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    outcome = train(path, make_config({**FIELDS, "steps": STEPS}))
    assert outcome.finished
    return path


def test_a_run_ends_before_an_iteration_that_would_exceed_the_steps(whole):
    lines, learner = RunFolder(whole).read_metrics(), RunFolder(whole).load()
    assert lines[-1]["iteration"] == learner.iteration > 8
    needed = learner.method.steps_needed(learner._core.iterate)
    assert lines[-1]["steps"] == learner.steps <= STEPS < learner.steps + needed
    config = RunFolder(whole).config()
    assert (config.iterations, config.steps) == (None, STEPS)
    assert "iterations" not in (whole / "config.toml").read_text().split()
    assert learner.iteration == config.learner().learn(steps=STEPS).iteration


def test_it_goes_on_to_the_same_bits(tmp_path, whole):
    train(tmp_path / "run", make_config({**FIELDS, "steps": STEPS}))
    RunFolder(tmp_path / "run").model.unlink()  # as if killed after the last checkpoint
    assert resume(tmp_path / "run").finished
    assert files_of(tmp_path / "run") == files_of(whole)


def test_a_finished_run_is_made_longer_in_either_unit(tmp_path, whole):
    path = tmp_path / "run"
    train(path, make_config({**FIELDS, "steps": 1000}))
    with pytest.raises(InputError, match=r"has made \d+ steps already; ask for more"):
        resume(path, steps=700)
    with pytest.raises(InputError, match="iterations is 3 and steps is 4000; give one"):
        resume(path, iterations=3, steps=4000)
    outcome = resume(path, steps=STEPS)
    assert outcome.reason.endswith(f"{outcome.learner.steps} environment steps.")
    assert_same_bits(outcome.learner.family, RunFolder(whole).load().family)
    certificate = certify(path, samples=100, replay=True)
    assert {c.status for c in certificate.checks if c.name.startswith("replay")} == {"pass"}
    further = outcome.learner.iteration + 3
    assert resume(path, iterations=further).learner.iteration == further
    assert RunFolder(path).config().length == ("iterations", further)


def test_certificates_know_the_length(tmp_path, whole):
    assert all(check.status != "fail" for check in verify_run(whole).checks)
    certificate = certify(whole, samples=100, replay=True)
    assert {c.status for c in certificate.checks if c.name.startswith("replay")} == {"pass"}
    path = tmp_path / "run"
    train(path, make_config({**FIELDS, "steps": 1000}))
    text = (path / "config.toml").read_text()
    (path / "config.toml").write_text(text.replace("steps = 1000", "steps = 9000"))
    assert "config.toml: steps" in [c.name for c in verify_run(path).checks if c.status == "fail"]


def test_certificates_find_steps_beyond_those_asked_for(tmp_path, whole):
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    edit_model(RunFolder(path).model, lambda _, description: description.update(steps=STEPS + 1))
    check = next(c for c in verify_run(path).checks if c.name == "config.toml: steps")
    assert check.status == "fail"


def test_a_study_counts_the_steps(whole):
    run = Run(whole, RunFolder(whole).config())
    assert run.done() == STEPS
    assert run.go()


def test_flags_put_the_other_length_of_a_file_aside(tmp_path):
    runner = CliRunner()
    (tmp_path / "c.toml").write_text("iterations = 5\ntasks = 'linear-quadratic'\n")
    base = ["train", "--out", str(tmp_path / "run"), "--config", str(tmp_path / "c.toml")]
    both = runner.invoke(cli.app, [*base, "--steps", "500", "--iterations", "3"])
    assert "iterations is 3 and steps is 500; give one of the two" in str(both.exception)
    result = runner.invoke(cli.app, [*base, "--steps", "500"])
    assert result.exit_code == 0, result.output
    assert RunFolder(tmp_path / "run").config().length == ("steps", 500)
    longer = runner.invoke(cli.app, ["resume", str(tmp_path / "run"), "--steps", "9000"])
    assert longer.exit_code == 0, longer.output
    shown = runner.invoke(cli.app, ["info", str(tmp_path / "run")]).output.replace("\n", " ")
    assert " of 9000 environment steps" in shown


def test_a_sweep_counts_iterations(tmp_path):
    (tmp_path / "c.toml").write_text("steps = 500\n")
    base = ["sweep", "--out", str(tmp_path / "s"), "--config", str(tmp_path / "c.toml")]
    assert "a sweep sets steps itself" in str(CliRunner().invoke(cli.app, base).exception)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1, got 0"),
        ({"steps": 10, "iterations": 10}, "give one of the two"),
        ({"iterations": None}, "give one of the two"),
    ],
)
def test_wrong_lengths_are_named(fields, message):
    with pytest.raises(InputError, match=message):
        make_config(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "trust-region", "episode_steps": 20, "max_knots": 20, "steps": 1100},
        {"method": "models", "round_steps": 15, "updates_per_round": 2, "rollouts": 4, "steps": 60},
    ],
)
def test_what_was_looked_at_before_the_first_iteration_is_counted_once(fields, tmp_path):
    outcome = train(tmp_path / "run", make_config({"tasks": "pendulums:2", **fields}))
    assert outcome.finished
    assert 0.7 * fields["steps"] < outcome.learner.steps <= fields["steps"]
    alone = CrossLearner("pendulums:2", **{k: v for k, v in fields.items() if k != "steps"})
    assert alone.learn(steps=fields["steps"]).steps == outcome.learner.steps


@pytest.mark.parametrize("fields", [{}, {"method": "trust-region"}])
def test_too_few_steps_leave_no_folder_behind(tmp_path, fields):
    with pytest.raises(InputError, match=r"steps is 9, but the first iteration of .* needs \d+"):
        train(tmp_path / "run", make_config({"tasks": "linear-quadratic", "steps": 9, **fields}))
    assert not (tmp_path / "run").exists()
