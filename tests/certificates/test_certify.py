"""The certificate of a run: page, JSON, figure, verdicts, replay and the command."""

import dataclasses
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning.certificates.certificate import certify
from crosslearning.certificates.history import pruning_history
from crosslearning.certificates.page import certificate_page
from crosslearning.certificates.stationarity import StationarityGap
from crosslearning.certificates.verdicts import verdicts
from crosslearning.errors import InputError
from crosslearning.figures.certificate import certificate_figure
from crosslearning.files import write_atomically
from crosslearning.runs import RunFolder, make_config, train
from crosslearning.runs.record import make_record
from crosslearning.statistics import Interval
from crosslearning.theory import Constants, gain
from crosslearning.theory.section import evaluate_theorem
from tests.certificates.tampering import (
    FIELDS,
    copy_of,
    edit_model,
    edit_text,
    renew_digests,
    small_run,
)

runner = CliRunner()
MODEL = "model.safetensors"
SECTIONS = (
    "Verdict",
    "1. Integrity, from the files alone",
    "2. The constraint",
    "3. Pruning",
    "4. Stationarity",
    "5. Constants",
    "6. The theorem",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("certify") / "run")


@pytest.fixture(scope="module")
def certificate(run):
    return certify(run, alpha=50.0, samples=200)


def strict(text):
    """Read JSON; NaN and infinities, which JSON lacks, are an error."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))


# The command ----------------------------------------------------------------------------


def test_the_command_prints_and_writes_everything(tmp_path, run):
    path = copy_of(run, tmp_path)
    result = runner.invoke(cli.app, ["certify", str(path), "--samples", "200"])
    assert result.exit_code == 0, result.output
    page = (path / "certificate" / "certificate.txt").read_text()
    assert page in result.output
    for section in SECTIONS:
        assert f"\n{section}\n" in page
    assert "FAIL" not in page
    assert "The smallest at which each task is certified" in " ".join(page.split())
    assert "not trained again" in page
    data = strict((path / "certificate" / "certificate.json").read_text())
    assert data["passed"] is True
    assert data["alpha"] is None
    assert [row["verdict"] for row in data["gaps"]] == [None] * 3
    assert (path / "certificate" / "certificate.png").read_bytes().startswith(b"\x89PNG")
    assert (path / "certificate" / "certificate.pdf").read_bytes().startswith(b"%PDF")


def test_the_command_prints_json_alone(tmp_path, run):
    path = copy_of(run, tmp_path)
    arguments = ["certify", str(path), "--samples", "200", "--alpha", "1e9", "--json"]
    result = runner.invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    data = strict(result.output)
    assert data == strict((path / "certificate" / "certificate.json").read_text())
    assert [row["verdict"] for row in data["gaps"]] == ["stationary"] * 3


def scale_weight(arrays, description):
    arrays["rows"][0] *= 1.001


def test_a_tampered_model_yields_the_page_and_exit_code_1(tmp_path, run):
    path = copy_of(run, tmp_path)
    edit_model(path / MODEL, scale_weight)
    result = runner.invoke(cli.app, ["certify", str(path)])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    page = (path / "certificate" / "certificate.txt").read_text()
    assert "NOT CERTIFIED" in page
    assert "FAIL  record.json: norms" in page
    assert "Not measured: a check of the files failed" in page
    data = strict((path / "certificate" / "certificate.json").read_text())
    assert data["passed"] is False
    assert data["gaps"] == []
    assert (path / "certificate" / "certificate.png").exists()


@pytest.mark.parametrize("lost", ["model", "metrics", "config", "all but the record"])
def test_a_damaged_run_yields_the_page(tmp_path, run, lost):
    path = copy_of(run, tmp_path)
    names = {"model": [MODEL], "metrics": ["metrics.jsonl"], "config": ["config.toml"]}
    for name in names.get(lost, [MODEL, "metrics.jsonl", "config.toml"]):
        (path / name).write_bytes(b"\xff\x00")
    certificate = certify(path, replay=True)
    assert not certificate.passed
    page = certificate_page(certificate)
    for section in SECTIONS:
        assert f"\n{section}\n" in page
    figure = certificate_figure(strict(certificate.to_json()), certificate.metrics)
    figure.draw_without_rendering()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nowhere"], 1),
        (["nowhere", "--samples", "1"], 2),
        (["nowhere", "--seed", "-1"], 2),
        (["nowhere", "--alpha", "much"], 2),
        ([], 2),
    ],
)
def test_wrong_usage(arguments, code, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["crosslearning", "certify", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == code
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -1.0}, "alpha must be positive"),
        ({"alpha": math.nan}, "alpha must be positive"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"samples": 1}, "samples"),
    ],
)
def test_wrong_arguments_are_named(run, arguments, message):
    with pytest.raises(InputError, match=message):
        certify(run, **arguments)


# Replay ---------------------------------------------------------------------------------


def statuses(certificate):
    return {check.name: check.status for check in certificate.checks}


def test_a_replay_gives_the_same_bytes(run):
    certificate = certify(run, samples=200, replay=True)
    replayed = {k: v for k, v in statuses(certificate).items() if k.startswith("replay")}
    assert replayed == {
        "replay: checkpoints/iteration-00000025.safetensors": "pass",
        "replay: checkpoints/iteration-00000050.safetensors": "pass",
        "replay: model.safetensors": "pass",
        "replay: metrics.jsonl": "pass",
    }
    assert "Training the run again gave the same bytes." in certificate_page(certificate)


def forge_metrics(path):
    """A better return in one line, and every digest made to fit."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    lines[4]["return"]["r=1"] += 1.0
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    renew_digests(path)


def forge_model(path):
    """Other weights, and a record that the library itself makes of them."""

    def turn(arrays, description):
        arrays["rows"] *= 0.999

    edit_model(path / MODEL, turn)
    files = {"model": MODEL, "config": "config.toml", "metrics": "metrics.jsonl"}
    record = make_record(
        RunFolder.open(path).load(), {key: path / name for key, name in files.items()}
    )
    write_atomically(path / "record.json", json.dumps(record).encode())


@pytest.mark.parametrize(
    ("forge", "check"),
    [(forge_metrics, "replay: metrics.jsonl"), (forge_model, "replay: model.safetensors")],
)
def test_only_a_replay_finds_a_careful_forger(tmp_path, run, forge, check):
    path = copy_of(run, tmp_path)
    forge(path)
    assert certify(path, samples=200).passed
    certificate = certify(path, samples=200, replay=True)
    assert [name for name, status in statuses(certificate).items() if status == "fail"] == [check]
    assert not certificate.gaps


def test_a_replay_says_so_if_versions_differ(tmp_path, run):
    path = copy_of(run, tmp_path)
    forge_model(path)
    edit_text(path / "record.json", '"crosslearning": "', '"crosslearning": "0.0.')
    certificate = certify(path, samples=200, replay=True)
    found = {check.name: check.found for check in certificate.checks}
    assert "these may round otherwise" in found["replay: model.safetensors"]


@pytest.mark.parametrize("every", [25, 100])
def test_a_run_that_did_not_start_from_zero_is_replayed_from_its_oldest_checkpoint(
    tmp_path, run, every
):
    start = RunFolder.open(run).load().family
    path = tmp_path / "run"
    config = make_config({**FIELDS, "checkpoint_every": every, "epsilon": 2.0})
    assert train(path, config, start=start).finished
    certificate = certify(path, samples=100, replay=True)
    assert certificate.passed
    found = {check.name: check.found for check in certificate.checks}
    # Two checkpoints are kept: 25 and 50, or the start itself.
    expected = "7 lines the same, from iteration 25 on" if every == 25 else "12 lines the same"
    assert found["replay: metrics.jsonl"] == expected
    (path / "checkpoints" / f"iteration-000000{25 if every == 25 else 0:02d}.safetensors").unlink()
    if every == 100:
        lacking = certify(path, samples=100, replay=True)
        assert statuses(lacking)["replay"] == "not possible"
        assert "replay: model.safetensors" not in statuses(lacking)


def test_an_unfinished_run_is_certified_at_its_checkpoint(tmp_path, run):
    path = copy_of(run, tmp_path)
    for name in (MODEL, "record.json"):
        (path / name).unlink()
    certificate = certify(path, samples=200, replay=True)
    assert certificate.passed
    assert not certificate.finished
    assert certificate.iteration == 50
    assert certificate.pruning.iterations == 50
    assert statuses(certificate)["replay: checkpoints/iteration-00000050.safetensors"] == "pass"
    page = certificate_page(certificate)
    assert "not finished: its newest checkpoint" in page


def test_the_same_seed_gives_the_same_certificate(run, certificate):
    assert certify(run, alpha=50.0, samples=200).to_json() == certificate.to_json()


# The numbers ----------------------------------------------------------------------------


def test_the_constraint_is_that_of_the_learner(run, certificate):
    learner = RunFolder.open(run).load()
    np.testing.assert_allclose(
        [line.distance for line in certificate.constraint], learner.family.distances(), rtol=1e-9
    )
    lines = RunFolder.open(run).read_metrics()
    for line in certificate.constraint:
        # Twelve lines: a tenth is one.
        assert line.multiplier == lines[-1]["multiplier"][line.task]
        assert line.binding == (line.multiplier > 0 or line.ridged_distance >= 0.999 * 1.5)


def test_the_pruning_is_summed_over_the_metrics(run, certificate):
    lines = RunFolder.open(run).read_metrics()
    pruning = certificate.pruning
    assert pruning.iterations == 60
    assert pruning.largest == max(line["pruning_error"] for line in lines)
    assert pruning.spent == pytest.approx(sum(line["pruning_spent"] for line in lines))
    assert pruning.over_budget == sum(line["over_budget"] for line in lines)
    assert pruning.certified_share == pytest.approx(1 - pruning.over_budget / 60)
    assert pruning.cap_decides
    assert "the cap, not the budget, decides" in " ".join(certificate_page(certificate).split())


def test_a_run_within_its_budget_is_certified_so(tmp_path):
    path = small_run(tmp_path / "run", max_knots=4000, iterations=20)
    certificate = certify(path, samples=200)
    assert certificate.pruning.certified_share == 1.0
    assert certificate.pruning.largest <= 1e-3 * (1 + 1e-9)
    assert any(line.startswith("Pruning: certified.") for line in verdicts(certificate))


def test_metrics_of_an_earlier_version_leave_gaps_in_the_page(run, certificate):
    old = RunFolder.open(run).read_metrics()
    for line in old:
        for name in ("pruning_spent", "over_budget", "over_budget_by_cap"):
            del line[name]
    pruning = pruning_history(old, {"budget": 1e-3, "max_knots": 40})
    assert pruning.spent is None
    assert pruning.certified_share is None
    assert pruning.cap_decides
    page = certificate_page(dataclasses.replace(certificate, pruning=pruning))
    assert "not kept by the version that made this run" in page


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"epsilon": 0.0}, ["every gap is 0", "ε is 0"]),
        ({"epsilon": "inf"}, ["none was asked (ε = ∞)", "ε is infinite"]),
        ({"tasks": "paper:r=1"}, ["1 task,"]),
        ({"projection": "relaxed"}, ["root mean square"]),
        ({"step_rule": "constant", "step_size": 1e-4}, ["every task policy is"]),
        ({"step_rule": "adam"}, ["Momentum"]),
        ({"estimator": "baseline"}, ["Constraint: certified"]),
        ({"budget": "inf"}, ["Pruning: certified"]),
    ],
    ids=str,
)
def test_every_kind_of_run_gets_its_page(tmp_path, fields, words):
    path = small_run(tmp_path / "run", **{"iterations": 30, **fields})
    certificate = certify(path, samples=100)
    assert certificate.passed
    assert not certificate.left_out
    page = certificate_page(certificate)
    flat = " ".join(page.split())
    for word in words:
        assert word in flat
    assert max(map(len, page.splitlines())) <= 100
    data = strict(certificate.to_json())
    assert data["epsilon"] == fields.get("epsilon", 1.5)
    assert len(certificate_figure(data, certificate.metrics).axes) in (4, 5)


def with_gaps(certificate, alpha, *intervals):
    gaps = tuple(
        StationarityGap(task, Interval((low + high) / 2, low, high), samples=9, confidence=0.95)
        for task, (low, high) in zip(certificate.tasks, intervals, strict=True)
    )
    return dataclasses.replace(certificate, gaps=gaps, alpha=alpha)


def test_the_verdicts_follow_the_intervals(certificate):
    mixed = with_gaps(certificate, 5.0, (1.0, 4.0), (6.0, 9.0), (4.0, 7.0))
    said = " ".join(verdicts(mixed))
    assert "NOT CERTIFIED at α = 5" in said
    assert "stationary: r=0.5; not stationary: r=1; undecided: r=2." in said
    good = with_gaps(certificate, 5.0, (1.0, 4.0), (1.0, 5.0), (0.0, 0.1))
    assert "Stationarity: certified. Every task's gap is at most α = 5." in verdicts(good)
    asked = with_gaps(certificate, None, (1.0, 4.0), (1.0, 5.0), (0.0, 0.25))
    assert "r=0.5 at 4, r=1 at 5, r=2 at 0.25." in " ".join(verdicts(asked))
    data = strict(mixed.to_json())
    assert [row["verdict"] for row in data["gaps"]] == ["stationary", "not stationary", "undecided"]


def test_the_page_doubts_intervals_of_heavy_tails(certificate):
    calm = [dataclasses.replace(own, tail=0.1) for own in certificate.constants]
    assert "may be too short" not in " ".join(
        certificate_page(dataclasses.replace(certificate, constants=tuple(calm))).split()
    )
    calm[1] = dataclasses.replace(calm[1], tail=0.5)
    page = certificate_page(dataclasses.replace(certificate, constants=tuple(calm)))
    assert "Rare samples decide these numbers for r=1: " in " ".join(page.split())


def test_the_runs_alpha_is_the_default(tmp_path):
    path = small_run(tmp_path / "run", alpha=1e6, check_every=20, check_batch=100)
    certificate = certify(path, samples=100, replay=True)
    assert certificate.passed
    assert certificate.iteration == 20  # the rule stopped it, and stops the replay
    assert certificate.alpha == 1e6
    assert certify(path, samples=100, alpha=3.0).alpha == 3.0


def test_the_theorem_is_evaluated_at_the_upper_ends(tmp_path):
    path = small_run(tmp_path / "run", step_rule="constant", step_size=1e-5, iterations=20)
    certificate = certify(path, alpha=2.0, delta=0.1, samples=100)
    theorem, estimates = certificate.theorem, certificate.constants
    assert theorem.steps == (1e-5,) * 3
    assert theorem.budget == max(1e-3, certificate.pruning.largest)
    constants = Constants(
        deviation=np.array([task.deviation.high for task in estimates]),
        gradient_norm=np.array([task.gradient_norm.high for task in estimates]),
        second_moment=np.array([task.second_moment.high for task in estimates]),
        lipschitz=np.array([task.lipschitz.high for task in estimates]),
        batch_size=4,
        epsilon=1.5,
        step_size=1e-5,
        budget=theorem.budget,
    )
    assert theorem.gain == pytest.approx(gain(constants, 2.0))
    # α' = α + 2ε max σ / √(δ b)
    sigma = max(task.deviation.high for task in estimates)
    assert theorem.accuracy == pytest.approx(2.0 + 3.0 * sigma / math.sqrt(0.1 * 4))
    assert theorem.printed_accuracy == pytest.approx(theorem.accuracy)
    assert f"α' = {theorem.accuracy:.4g}" in theorem.sentences[-1]


def test_the_theorem_without_an_alpha_takes_the_smallest_certified(run, certificate):
    learner = RunFolder.open(run).load()
    asked = with_gaps(certificate, None, (1.0, 4.0), (1.0, 5.0), (0.0, 0.25))
    section = evaluate_theorem(learner, asked.constants, asked.gaps, None, 0.05, 0.0)
    assert section.alpha == 5.0
    assert "No alpha was asked" in section.sentences[0]
    # The tasks' steps differ by their gradients; the gain's α is that of the weighted sum.
    share = min(section.steps) / max(section.steps)
    assert share < 1.0
    weighted = Constants.from_estimates(
        asked.constants,
        batch_size=4,
        epsilon=1.5,
        step_size=max(section.steps),
        budget=1e-3,
    ).weighted(section.steps)
    assert section.gain == pytest.approx(gain(weighted, 5.0 * share))
