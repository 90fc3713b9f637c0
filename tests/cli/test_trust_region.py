"""Every command that reads a run serves one that the trust region learned."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from crosslearning import CrossLearner, cli
from crosslearning.runs import RunFolder, make_config, resume, study, train
from tests.learner.examples import assert_same_bits
from tests.runs.examples import one_after_another

runner = CliRunner()
FIELDS = {
    "tasks": "pendulums:3",
    "method": "trust-region",
    "iterations": 6,
    "checkpoint_every": 2,
    "episode_steps": 20,
    "max_knots": 15,
    "epsilon": 1.0,
    "seed": 1,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("trust-region") / "run"
    assert train(path, make_config(FIELDS)).finished
    return path


def said(*arguments):
    """Return what a command prints."""
    result = runner.invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def as_options(fields):
    return [f"--{name.replace('_', '-')}={value}" for name, value in fields.items()]


def test_a_certificate_holds_and_a_replay_gives_the_same_bytes(run):
    content = json.loads(said("certify", run, "--samples", 50, "--replay", "--json"))
    assert content["passed"] is True
    replayed = [check for check in content["checks"] if check["name"].startswith("replay")]
    assert replayed
    assert all(check["status"] == "pass" for check in replayed)
    assert (run / "certificate" / "certificate.txt").exists()


def test_tasks_are_related(run):
    content = json.loads(said("relate", run, "--json"))
    names = {task.name for task in RunFolder(run).load().tasks}
    assert {task["task"] for task in content["tasks"]} == names


def test_the_theorem_speaks_of_another_method(run):
    assert "speaks of the paper's method, policy-gradient, only" in said("theory", run)


def test_a_run_is_compared_with_itself(run):
    rows = json.loads(said("compare", run, run, "--trials", 4, "--json"))
    assert len(rows) == 3
    assert all(row["discounted_return"]["value"] == 0.0 for row in rows)


def test_a_sweep_of_radii(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "in_processes", one_after_another)
    fields = {name: FIELDS[name] for name in FIELDS if name not in ("epsilon", "seed")}
    asked = ["--epsilons", "0,1", "--seeds", 2, "--trials", 4, "--workers", 1]
    assert "Recommended" in said("sweep", "--out", tmp_path / "sweep", *asked, *as_options(fields))
    content = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert content["epsilons"] == [0.0, 1.0]


def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(run, tmp_path):
    path = shutil.copytree(run, tmp_path / "half")
    folder = RunFolder(path)
    whole = folder.load()
    folder.model.unlink()
    assert folder.checkpoints()[-1][0] == 4
    again = resume(path).learner
    assert again.iteration == 6
    assert_same_bits(again.family, whole.family)
    for one, other in zip(again.method.batches, whole.method.batches, strict=True):
        for steps, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(steps.rewards, same.rewards)


@pytest.mark.parametrize("tasks", ["pendulums:3", "paper"])
def test_threads_do_not_change_what_is_learned(tasks):
    fields = {name: FIELDS[name] for name in ("method", "episode_steps", "max_knots", "seed")}
    families = []
    for workers in (1, 2):
        learner = CrossLearner(tasks, 1.0, workers=workers, **fields).learn(6)
        families.append(learner.family)
        learner.close()
    assert_same_bits(*families)
