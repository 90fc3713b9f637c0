"""The whole reproduction in miniature: its numbers, its files, stopping and going on."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console

from crosslearning.errors import InputError
from crosslearning.reproduction.paper import adapt
from crosslearning.reproduction.paper.adapt import STARTS
from crosslearning.reproduction.paper.claims import CLAIMS
from crosslearning.reproduction.paper.experiment import (
    AVERAGE,
    CROSS,
    DEFAULT_READING,
    POLICIES,
    RADII,
    REDRAWN_GOALS,
    Experiment,
    Scale,
)
from crosslearning.reproduction.paper.measure import (
    load_measurements,
    measurement,
    outcome,
    play,
    scenes,
)
from crosslearning.reproduction.paper.reproduce import FULL, QUICK, reproduce
from crosslearning.rkhs import Family
from crosslearning.runs import RunFolder, study, train
from tests.runs.examples import one_after_another

SCALE = Scale(iterations=40, max_knots=30, snapshots=2, trials=10, maps=2)


def quiet():
    return Console(file=io.StringIO(), force_terminal=False)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    path = tmp_path_factory.mktemp("reproduce") / "r"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "in_processes", one_after_another)
        patch.setattr(adapt, "ITERATIONS", 2)
        assert reproduce(path, 2, SCALE, 2, quiet())
    return path


def test_every_policy_was_learned_as_asked(done):
    experiment = Experiment(done, 2, SCALE)
    for seed in (0, 1):
        for policy in POLICIES:
            config = experiment.folder(seed, policy).config()
            assert config.settings.seed == seed
            assert config.settings.epsilon == {CROSS: 3.0, AVERAGE: 0.0}.get(policy, float("inf"))
            assert config.tasks == ("paper" if policy in (CROSS, AVERAGE) else f"paper:{policy}")
            assert (config.settings.discount, config.settings.batch_size) == (0.9, 4)
            assert (config.settings.step_size, config.settings.action_variance) == (0.1, (0.05,))
            iterations = [i for i, _ in experiment.folder(seed, policy).snapshots()]
            assert iterations == [20, 40]
    family = Family.load(experiment.folder(0, CROSS).snapshots()[-1][1])
    np.testing.assert_array_equal(
        experiment.function(0, CROSS).weights[:, 0], family.weights[:, -1]
    )
    consensus = Family.load(experiment.folder(0, AVERAGE).snapshots()[-1][1])
    assert np.max(consensus.distances()) <= 1e-12


def test_measurements_are_those_of_the_snapshots(done):
    experiment = Experiment(done, 2, SCALE)
    stored = measurement(experiment, 1, CROSS).answer()
    places = scenes(DEFAULT_READING, SCALE.maps)
    task = places["radii"][2]
    again = outcome(experiment.function(1, CROSS), task, SCALE.trials)
    assert stored["final"]["radii"]["r=2"]["cost"] == again["cost"]
    first = outcome(experiment.function(1, CROSS, 20), task, SCALE.trials)
    assert stored["curves"]["radii"]["r=2"]["cost"][0] == first["cost"]
    assert stored["curves"]["radii"]["r=2"]["iteration"] == [20.0, 40.0]
    played = play(experiment.function(1, CROSS, 20), task, SCALE.trials)
    costs = [sum(-r * 0.9**t for t, r in enumerate(rewards)) for rewards in played.rewards]
    assert stored["curves"]["radii"]["r=2"]["deviation"][0] == pytest.approx(np.std(costs))
    assert set(stored["training"]["distance"]) == set(RADII)
    assert max(map(max, stored["training"]["distance"].values())) <= 3.0 * (1 + 1e-9)


def test_claims_are_written_for_people_and_for_programs(done):
    content = json.loads((done / "claims.json").read_text())
    keys = [claim["key"] for claim in content["claims"]]
    assert keys[: len(CLAIMS)] == [claim.key for claim in CLAIMS]
    assert len(keys) == len(CLAIMS) + 6
    assert content["scale"]["iterations"] == 40
    for claim in content["claims"]:
        assert claim["seeds"] == 2
        assert claim["low"] <= claim["estimate"] <= claim["high"]
        positive, negative = claim["low"] > 0, claim["high"] < 0
        expected = "holds" if positive else "does not hold" if negative else "undecided"
        assert claim["verdict"] == expected
    text = (done / "claims.md").read_text()
    assert text.startswith("2 seeds, 40 iterations")
    assert text.count("\n|") == 2 + len(keys)
    measurements = load_measurements(Experiment(done, 2, SCALE))
    by_hand = np.mean(
        [m[AVERAGE]["final"]["circle"]["circle"]["crashed"] - 0.5 for m in measurements.values()]
    )
    row = next(c for c in content["claims"] if c["key"] == "circle-average-crashes")
    assert row["estimate"] == pytest.approx(by_hand)


def test_adaptation_curves_start_where_they_say(done):
    stored = json.loads((done / "seed-0" / "adaptation.json").read_text())["curves"]
    assert set(stored) == {"trained", "unseen"}
    for targets in stored.values():
        for by_start in targets.values():
            assert set(by_start) == set(STARTS)
            assert all(curve["episodes"][0] == 0 for curve in by_start.values())


def test_a_second_run_makes_identical_numbers(done, tmp_path):
    experiment = Experiment(tmp_path, 1, SCALE)
    train(experiment.folder(0, "r=1").path, experiment.configs(0)["r=1"])
    first = json.loads((done / "seed-0" / "r-1" / "measurements.json").read_text())
    assert measurement(experiment, 0, "r=1").answer() == first


def test_an_interrupted_reproduction_goes_on(tmp_path, monkeypatch):
    def stopping(function, rounds, workers, bar):
        # As a Ctrl-C after the first two runs: what is done stays, the rest is not begun.
        for call in rounds[0][:2]:
            function(*call)
        return False

    small = Scale(iterations=10, max_knots=20, snapshots=1, trials=4, maps=1)
    monkeypatch.setattr(adapt, "ITERATIONS", 2)
    monkeypatch.setattr(study, "in_processes", stopping)
    assert reproduce(tmp_path / "r", 1, small, 1, quiet()) is None
    finished = sorted(p.parent.name for p in (tmp_path / "r").rglob("model.safetensors"))
    assert finished == ["average", "cross"]
    assert not (tmp_path / "r" / "claims.md").exists()
    model = RunFolder(tmp_path / "r" / "seed-0" / "cross").model.read_bytes()
    monkeypatch.setattr(study, "in_processes", one_after_another)
    result = reproduce(tmp_path / "r", 1, small, 1, quiet())
    assert RunFolder(tmp_path / "r" / "seed-0" / "cross").model.read_bytes() == model
    assert [one.experiment.reading for one in result] == [DEFAULT_READING, REDRAWN_GOALS]
    for one in result:
        assert set(one.measurements[0]) == set(POLICIES)
        assert {verdict.verdict for verdict in one.verdicts} == {"undecided"}  # one seed
    claims = json.loads((tmp_path / "r" / "claims.json").read_text())["claims"]
    assert {claim["low"] for claim in claims} == {None}


def test_a_folder_of_another_size_is_refused(done):
    other = Scale(iterations=40, max_knots=20, snapshots=2, trials=10, maps=2)
    with pytest.raises(InputError, match="another choice of max_knots"):
        reproduce(done, 1, other, 1, quiet())


def test_what_is_not_converged_says_so(done):
    content = json.loads((done / "claims.json").read_text())
    assert content["converged"] is False
    text = (done / "claims.md").read_text()
    assert "Not converged: 40 iterations of the paper's 29000" in text
    other = (done / "redrawn-goals" / "claims.md").read_text()
    assert "The reading redrawn-goals has 16 iterations in the place of 40." in other
    assert "in the place of" not in text
    assert text.count("** (not converged) |") == len(content["claims"])
    assert QUICK.converged is False
    assert FULL.converged is True
    assert "onverged" not in FULL.describe(3)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="Windows has no process groups to signal")
def test_ctrl_c_stops_the_command_cleanly(tmp_path):
    command = [
        sys.executable,
        "-m",
        "crosslearning",
        "reproduce",
        "--quick",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    metrics = tmp_path / "quick" / "seed-0" / "cross" / "metrics.jsonl"
    until = time.monotonic() + 600.0
    while not (metrics.exists() and metrics.stat().st_size):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 130, output
    assert "Interrupted. The same command goes on from here." in output
    assert "Traceback" not in output
    folder = RunFolder(tmp_path / "quick" / "seed-0" / "cross")
    assert folder.checkpoints() or folder.model.exists()
