"""Options of a reading: who acts, where costs are measured, knots for each function, relative ε."""

import dataclasses
import io
import json

import numpy as np
import pytest
from rich.console import Console

from crosslearning.errors import InputError
from crosslearning.reproduction.paper.experiment import (
    AVERAGE,
    CROSS,
    DEFAULT_READING,
    POLICIES,
    RADII,
    REDRAWN_GOALS,
    Experiment,
    Reading,
    Scale,
)
from crosslearning.reproduction.paper.measure import (
    load_measurements,
    measurement,
    outcome,
    rounds_of,
    scenes,
)
from crosslearning.rkhs import Family
from crosslearning.runs import RunFolder, study
from crosslearning.runs.study import run_study
from tests.runs.examples import one_after_another

TINY = Scale(iterations=60, max_knots=20, snapshots=2, trials=6, maps=1)
EACH = Reading("each", "", knots="each", relative_epsilon=0.2)


def learned(path, reading):
    experiment = Experiment(path, 1, TINY, reading, first_seed=3)
    console = Console(file=io.StringIO(), force_terminal=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "in_processes", one_after_another)
        assert run_study(rounds_of([experiment]), 1, console)
    return experiment


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return learned(tmp_path_factory.mktemp("redrawn"), REDRAWN_GOALS)


def test_the_default_reading_asks_for_what_it_always_asked(tmp_path):
    scale = Scale()
    configs = Experiment(tmp_path, 1, scale).configs(0)
    for policy, config in configs.items():
        settings = config.settings
        assert (config.iterations, config.snapshot_every) == (29_000, 1000)
        assert (config.checkpoint_every, config.log_every) == (2900, 58)
        assert (settings.max_knots, settings.projection) == (400, "exact")
        assert (settings.step_rule, settings.step_size) == ("normalised", 0.1)
        assert config.task_options == {}
        assert settings.epsilon == {AVERAGE: 0.0, CROSS: 3.0}.get(policy, np.inf)
    asked = measurement(Experiment(tmp_path, 1, scale), 0, CROSS)
    assert asked.path.name == "measurements.json"
    assert set(asked.asked) == {*dataclasses.asdict(scale), "reading", "version"}


def test_the_reading_with_redrawn_goals_is_as_described(tmp_path):
    experiment = Experiment(tmp_path, 1, Scale(), REDRAWN_GOALS)
    config = experiment.configs(0)[CROSS]
    assert (config.settings.projection, config.settings.step_size) == ("relaxed", 0.5)
    assert config.iterations == pytest.approx(12_000, rel=1e-3)
    assert config.iterations % config.snapshot_every == 0  # the end is measured
    for task in REDRAWN_GOALS.training_tasks():
        navigation = task.make().navigation
        assert (navigation.goal_choice, navigation.obstacle_distance) == ("redrawn", "centre")
    for name, tasks in scenes(REDRAWN_GOALS, 1).items():
        for task in tasks:
            navigation = task.make().navigation
            assert navigation.obstacle_distance == "centre"
            assert (navigation.goal_choice == "redrawn") == (name == "training")


def test_who_acts_comes_from_the_snapshot(done):
    family = Family.load(done.folder(3, CROSS).snapshots()[-1][1])
    places = {"centre": [3] * 4, "own": [0, 1, 2, 3]}
    for acts, expected in places.items():
        other = Experiment(done.path, 1, TINY, dataclasses.replace(REDRAWN_GOALS, acts=acts), 3)
        for task, index in zip((*RADII, "mission"), expected, strict=True):
            acting = other.function(3, CROSS, task=task)
            np.testing.assert_array_equal(acting.weights[:, 0], family.weights[:, index])
        agnostic = other.function(3, "r=1", task="r=0.5")
        np.testing.assert_array_equal(agnostic.weights, done.function(3, "r=1").weights)
    mean = Experiment(done.path, 1, TINY, dataclasses.replace(REDRAWN_GOALS, acts="mean"), 3)
    acting = mean.function(3, CROSS, task="r=1")
    np.testing.assert_allclose(acting.weights[:, 0], family.weights[:, :3].mean(axis=1))


def test_who_acts_and_where_is_measured_without_training(done, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("nothing may be trained")

    monkeypatch.setattr(study, "train", refuse)
    monkeypatch.setattr(study, "resume", refuse)
    before = {path: path.stat().st_mtime_ns for path in done.path.rglob("*.safetensors")}
    other = Experiment(done.path, 1, TINY, dataclasses.replace(REDRAWN_GOALS, acts="own"), 3)
    own, centre = load_measurements(other)[3], load_measurements(done)[3]
    assert before == {path: path.stat().st_mtime_ns for path in done.path.rglob("*.safetensors")}
    task = REDRAWN_GOALS.training_tasks()[2]
    expected = outcome(other.function(3, CROSS, task="r=2"), task, TINY.trials)
    assert own[CROSS]["final"]["radii"]["r=2"] == expected  # in the training task
    assert own[CROSS]["curves"]["radii"]["r=2"]["cost"][-1] == expected["cost"]
    assert own[CROSS]["final"]["radii"] != centre[CROSS]["final"]["radii"]
    for scene in ("circle", "ellipse", "mission", "maps"):
        assert own[CROSS]["final"][scene] == centre[CROSS]["final"][scene]
    for policy in POLICIES[:-1]:
        assert own[policy] == centre[policy]
    circles = load_measurements(done, "circles")[3]
    stored = json.loads((done.folder(3, CROSS).path / "measurements.json").read_text())
    assert circles[CROSS]["final"]["radii"] == stored["final"]["radii"]
    assert circles[CROSS]["final"]["radii"] != centre[CROSS]["final"]["radii"]


def test_epsilon_relative_to_the_norm_of_the_agnostic_policies(tmp_path):
    experiment = learned(tmp_path, EACH)
    norms = [experiment.function(3, radius).norms()[0] for radius in RADII]
    config = experiment.folder(3, CROSS).config()
    assert config.settings.epsilon == pytest.approx(0.2 * np.mean(norms), rel=1e-12)
    assert experiment.folder(3, AVERAGE).config().settings.epsilon == 0.0
    family = Family.load(experiment.folder(3, CROSS).snapshots()[-1][1])
    farthest = family.distances().max() / config.settings.epsilon
    assert 0.9 < farthest <= 1.0 + 1e-9  # the constraint is active
    # Three tasks and the centre have four times the knots of one task.
    caps = {p: experiment.folder(3, p).config().settings.max_knots for p in POLICIES}
    assert caps == {**dict.fromkeys(RADII, 20), AVERAGE: 80, CROSS: 80}
    model = RunFolder(experiment.folder(3, CROSS).path).model.read_bytes()
    learned(tmp_path, EACH)  # finished, and the same
    assert RunFolder(experiment.folder(3, CROSS).path).model.read_bytes() == model


@pytest.mark.parametrize("wrong", [{"acts": "center"}, {"costs": "circle"}, {"knots": "share"}])
def test_an_unknown_choice_is_refused(wrong):
    with pytest.raises(InputError, match="did you mean"):
        dataclasses.replace(DEFAULT_READING, **wrong)
