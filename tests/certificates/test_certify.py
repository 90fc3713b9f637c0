"""The certificate of a run: page, JSON, figure, verdicts, replay and the command."""

import dataclasses
import json
import math
import os
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning._base.files import write_atomically
from crosslearning._base.statistics import Interval
from crosslearning.certificates.certificate import certify, pruning_history
from crosslearning.certificates.page import certificate_page, save_certificate, verdicts
from crosslearning.certificates.replay import same_numbers
from crosslearning.certificates.stationarity import StationarityGap
from crosslearning.certificates.verification import Check
from crosslearning.errors import InputError, StorageError
from crosslearning.figures.certificate import certificate_figure
from crosslearning.runs import RunFolder, make_config, train
from crosslearning.runs.folder import make_record
from tests.certificates.tampering import (
    FIELDS,
    as_version_1,
    copy_of,
    edit_model,
    renew_digests,
    small_run,
)

runner = CliRunner()
MODEL = "model.safetensors"
NAMES = [f"certificate.{suffix}" for suffix in ("json", "pdf", "png", "txt")]
SECTIONS = (
    "Verdict",
    "1. Integrity, from the files alone",
    "2. The constraint",
    "3. Pruning",
    "4. Stationarity",
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
    assert page.endswith(f"\n  crosslearning theory {shlex.quote(str(path))}\n")
    data = strict((path / "certificate" / "certificate.json").read_text())
    assert data["passed"] is True
    assert data["alpha"] is None
    assert [row["verdict"] for row in data["gaps"]] == [None] * 3
    assert (path / "certificate" / "certificate.png").read_bytes().startswith(b"\x89PNG")
    assert (path / "certificate" / "certificate.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.usefixtures("undrawn")
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
        (["nowhere", "--alpha", "1e308"], 1),
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
        ({"alpha": 1e308}, "alpha must be positive and finite, from 1e-70 to 1e.70, got 1e.308"),
        ({"alpha": 1e-320}, "alpha must be positive"),
        ({"samples": 1}, "samples must be a whole number of at least 2, got 1"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
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


def test_a_replay_sees_through_the_format(tmp_path, run):
    one, other = run / MODEL, tmp_path / "other.safetensors"
    other.write_bytes(one.read_bytes())
    assert not same_numbers(one, other)  # one format: the bytes decide
    edit_model(other, as_version_1)
    assert same_numbers(one, other)
    assert same_numbers(other, one)
    for tamper in (
        lambda arrays, description: arrays["rows"].__setitem__((0, 0, 0), 0.5),
        lambda arrays, description: description["settings"].update(seed=9),
        lambda arrays, description: description.update(steps=9),
        lambda arrays, description: arrays.update({"more": np.zeros(1)}),
    ):
        edit_model(other, tamper)
        assert not same_numbers(one, other)
        other.write_bytes(one.read_bytes())
        edit_model(other, as_version_1)


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
    texts = {check.name: check.found for check in certificate.checks}
    # Two checkpoints are kept: 25 and 50, or the start itself.
    expected = "7 lines the same, from iteration 25 on" if every == 25 else "12 lines the same"
    assert texts["replay: metrics.jsonl"] == expected
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
        # Twelve lines: a quarter is three.
        late = [row["multiplier"][line.task] for row in lines[-3:]]
        assert line.multiplier == pytest.approx(np.mean(late))
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
        ({"epsilon": 0.0}, ["every gap is 0", "Stationarity: the gap says nothing for ε = 0"]),
        ({"epsilon": "inf"}, ["none was asked (ε = ∞)", "the gap is infinite unless"]),
        ({"tasks": "paper:r=1"}, ["1 task,"]),
        ({"projection": "relaxed"}, ["root mean square"]),
        ({"projection": "free"}, ["free projection", "every task policy is"]),
        ({"step_rule": "constant", "step_size": 1e-4}, ["every task policy is"]),
        ({"step_rule": "adam"}, ["Constraint: certified"]),
        ({"estimator": "baseline"}, ["Constraint: certified"]),
        ({"budget": "inf"}, ["Pruning: certified"]),
    ],
    ids=str,
)
def test_every_kind_of_run_gets_its_page(tmp_path, monkeypatch, fields, words):
    monkeypatch.chdir(tmp_path)  # a page is as wide as the longest path in it
    path = small_run(Path("run"), **{"iterations": 30, **fields})
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
    calm = [dataclasses.replace(gap, tail=0.1) for gap in certificate.gaps]
    assert "may be too short" not in " ".join(
        certificate_page(dataclasses.replace(certificate, gaps=tuple(calm))).split()
    )
    calm[1] = dataclasses.replace(calm[1], tail=0.5)
    page = certificate_page(dataclasses.replace(certificate, gaps=tuple(calm)))
    assert "Rare samples decide the numbers of r=1: " in " ".join(page.split())


def test_the_constraints_verdict_is_by_topic(certificate):
    assert any(line.startswith("Constraint: certified") for line in verdicts(certificate))
    topics = {check.name: check.topic for check in certificate.checks}
    assert [name for name, topic in topics.items() if topic == "constraint"] == [
        "model.safetensors: constraint",
        "metrics.jsonl: constraint",
    ]
    for broken, said in (("metrics.jsonl: constraint", "NOT CERTIFIED"), ("run.json", "certified")):
        checks = tuple(
            dataclasses.replace(check, status="fail") if check.name == broken else check
            for check in certificate.checks
        )
        (line,) = (
            line
            for line in verdicts(dataclasses.replace(certificate, checks=checks))
            if line.startswith("Constraint: ")
        )
        assert line.startswith(f"Constraint: {said}")


def test_names_are_text_and_never_templates(certificate):
    check = Check("{{ 7 * 7 }} {% if", "fail", "{# found #}", "{{ undefined }}")
    page = certificate_page(dataclasses.replace(certificate, checks=(check,)))
    assert "1 of 1 checks failed: {{ 7 * 7 }} {% if." in page
    assert "FAIL  {{ 7 * 7 }} {% if, {# found #}\n      expected: {{ undefined }}\n" in page


# Earlier certificates -------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_an_earlier_certificate_is_kept(tmp_path, run):
    path = copy_of(run, tmp_path)
    arguments = ["certify", str(path), "--samples", "100"]
    folder = path / "certificate"
    assert runner.invoke(cli.app, arguments).exit_code == 0
    first = {name: (folder / name).read_bytes() for name in NAMES}
    # The same again says the same, and nothing is kept.
    assert runner.invoke(cli.app, arguments).exit_code == 0
    assert sorted(p.name for p in folder.iterdir()) == sorted([*NAMES, "certificate.signature"])
    # Two others in one second, each under another name.
    for alpha, kept in (("1.0", 1), ("2.0", 2)):
        os.utime(folder / "certificate.json", (1e9, 1e9))
        assert runner.invoke(cli.app, [*arguments, "--alpha", alpha]).exit_code == 0
        earlier = sorted(p.name for p in (folder / "earlier").iterdir())
        assert earlier == ["2001-09-09T01-46-40Z", "2001-09-09T01-46-40Z-2"][:kept]
        assert strict((folder / "certificate.json").read_text())["alpha"] == float(alpha)
    place = folder / "earlier" / "2001-09-09T01-46-40Z"
    assert {name: (place / name).read_bytes() for name in NAMES} == first
    assert failed_checks(path) == []


def failed_checks(path):
    return [check.name for check in certify(path, samples=100).checks if check.status == "fail"]


def test_an_earlier_certificate_that_cannot_be_kept_stays(tmp_path, certificate):
    save_certificate(certificate, tmp_path)
    before = (tmp_path / "certificate.json").read_bytes()
    (tmp_path / "earlier").write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot keep the earlier .*nothing was written"):
        save_certificate(dataclasses.replace(certificate, alpha=7.0), tmp_path)
    assert (tmp_path / "certificate.json").read_bytes() == before


def test_the_runs_alpha_is_the_default(tmp_path):
    path = small_run(tmp_path / "run", alpha=1e6, check_every=20, check_batch=100)
    certificate = certify(path, samples=100, replay=True)
    assert certificate.passed
    assert certificate.iteration == 20  # the rule stopped it, and stops the replay
    assert certificate.alpha == 1e6
    assert certify(path, samples=100, alpha=3.0).alpha == 3.0
