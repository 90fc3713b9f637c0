"""The theorem at a run: numbers, units, page, JSON and the command."""

import dataclasses
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning.certificates import certify
from crosslearning.errors import InputError
from crosslearning.reproduction.theorem import (
    KINDS,
    Constants,
    accuracy,
    evaluate_theorem,
    gain,
    noise_floor,
    sentences,
    study_run,
    theory_page,
)
from crosslearning.runs import RunFolder
from tests.certificates.tampering import (
    copy_of,
    edit_model,
    edit_text,
    renew_digests,
    small_run,
)

runner = CliRunner()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("study") / "run")


@pytest.fixture(scope="module")
def study(run):
    return study_run(run, samples=200)


def strict(text):
    """Read JSON; NaN and infinities, which JSON lacks, are an error."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))


def flat(page):
    return " ".join(page.split())


# The command -----------------------------------------------------------------------------


def test_the_command_prints_and_writes_everything(tmp_path, run, study):
    path = copy_of(run, tmp_path)
    result = runner.invoke(cli.app, ["theory", str(path), "--samples", "200"])
    assert result.exit_code == 0, result.output
    page = (path / "theory" / "theory.txt").read_text()
    assert page in result.output
    for section in ("Verdict", "1. Constants", "2. The theorem"):
        assert f"\n{section}\n" in page
    for kind in KINDS.values():
        assert flat(kind) in flat(page)
    for sentence in study.theorem.sentences.values():
        assert flat(sentence) in flat(page)
    assert page.replace(str(path), str(run)) == theory_page(study).replace(
        "=" * len(f"The theorem at {run}"), "=" * len(f"The theorem at {path}")
    )
    data = strict((path / "theory" / "theory.json").read_text())
    assert data["theorem"] == strict(study.to_json())["theorem"]
    assert [row["task"] for row in data["constants"]] == ["r=0.5", "r=1", "r=2"]


def test_the_command_prints_json_alone_and_keeps_what_was_there(tmp_path, run):
    path = copy_of(run, tmp_path)
    for alpha in ("3.0", "4.0"):
        arguments = ["theory", str(path), "--samples", "100", "--alpha", alpha, "--json"]
        result = runner.invoke(cli.app, arguments)
        assert result.exit_code == 0, result.output
        data = strict(result.output)
        assert data["theorem"]["alpha"] == float(alpha)
        assert data == strict((path / "theory" / "theory.json").read_text())
    (earlier,) = (path / "theory" / "earlier").iterdir()
    assert strict((earlier / "theory.json").read_text())["theorem"]["alpha"] == 3.0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere"], 1, "holds no run"),
        (["nowhere", "--samples", "1"], 2, "samples"),
        (["nowhere", "--alpha", "1e308"], 1, "alpha must be positive and finite, from 1e-70"),
        (["nowhere", "--delta", "1e-320"], 1, "delta must be between 0 and 1, at least 1e-70"),
        (["nowhere", "--delta", "0"], 1, "delta must be between 0 and 1"),
    ],
)
def test_wrong_usage(arguments, code, words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["crosslearning", "theory", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    said = capsys.readouterr().err
    assert stop.value.code == code
    assert words in said
    assert "Traceback" not in said
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(("alpha", "delta"), [(1e70, 0.05), (1e-68, 0.05), (1.0, 1e-70)])
def test_whatever_may_be_asked_has_a_page(run, alpha, delta):
    page = theory_page(study_run(run, alpha, delta, samples=100))
    assert "cannot be evaluated" not in page
    assert max(map(len, page.splitlines())) <= max(100, len(f"The theorem at {run}"))


def test_files_that_were_edited_have_no_theorem(tmp_path, run):
    path = copy_of(run, tmp_path)
    edit_text(path / "config.toml", "epsilon = 1.5", "epsilon = 1.6")
    with pytest.raises(InputError, match=r"config.toml: ε.*certify .* says more"):
        study_run(path)


def test_another_method_is_not_what_the_theorem_speaks_of(tmp_path, run):
    path = copy_of(run, tmp_path)

    def other(arrays, description):
        description["method"]["name"] = "trust-region"

    edit_model(path / "model.safetensors", other)
    renew_digests(path)
    result = runner.invoke(cli.app, ["theory", str(path)])
    assert result.exit_code == 0, result.output
    said = flat(result.output)
    assert "speaks of the paper's method, policy-gradient, only" in said
    assert "learned by trust-region" in said
    data = strict((path / "theory" / "theory.json").read_text())
    assert (data["theorem"], data["constants"]) == (None, [])


# The numbers -----------------------------------------------------------------------------


def test_the_theorem_is_evaluated_at_the_upper_ends(tmp_path):
    path = small_run(tmp_path / "run", step_rule="constant", step_size=1e-5, iterations=20)
    study = study_run(path, alpha=2.0, delta=0.1, samples=100)
    theorem, estimates = study.theorem, study.constants
    assert theorem.step_sizes == (1e-5,) * 3
    assert theorem.weighted_alpha == theorem.alpha == 2.0
    assert theorem.budget == max(1e-3, certify(path, samples=100).pruning.largest)
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
    said = theorem.sentences
    assert f"α' = {theorem.accuracy:.4g}" in said["stop"]
    assert not {"alpha", "units", "rule"} & set(said)
    assert "weighted" not in theory_page(study)


def test_without_an_alpha_it_takes_the_smallest_certified(run, study):
    gaps = certify(run, samples=200).gaps
    assert study.theorem.alpha == max(own.gap.high for own in gaps)
    assert "No alpha was given" in study.theorem.sentences["alpha"]
    assert next(iter(study.theorem.sentences)) == "alpha"


def test_the_runs_alpha_is_the_default(tmp_path):
    path = small_run(tmp_path / "run", alpha=1e6, check_every=20, check_batch=100)
    assert study_run(path, samples=100).theorem.alpha == 1e6
    assert study_run(path, samples=100, alpha=3.0).theorem.alpha == 3.0


def test_numbers_say_in_which_unit_they_are(run, study):
    learner = RunFolder.open(run).load()
    numbers = evaluate_theorem(learner, study.constants, 5.0, 0.05, 0.0)
    # The tasks' steps differ by their gradients; the gain's α is that of the weighted sum.
    share = min(numbers.step_sizes) / max(numbers.step_sizes)
    assert share < 1.0
    assert numbers.weighted_alpha == pytest.approx(5.0 * share)
    plain = Constants.from_estimates(learner, study.constants)
    weighted = plain.weighted(numbers.step_sizes)
    assert numbers.gain == pytest.approx(gain(weighted, 5.0 * share))
    assert numbers.noise_floor == pytest.approx(noise_floor(weighted) / share)
    assert numbers.accuracy == pytest.approx(accuracy(plain, 5.0, 0.05))
    said = numbers.sentences
    assert f"a gap of α = 5 counts there as {5.0 * share:.4g} or more" in said["units"]
    assert said["possible"].count("weighted gap") == 2
    assert f"the weighted α = {5.0 * share:.4g}" in said["gain"]
    assert said["stop"] == sentences(plain, 5.0, 0.05)["stop"]
    page = theory_page(dataclasses.replace(study, theorem=numbers))
    assert f"at α = 5 (weighted by the steps: {5.0 * share:.4g})" in flat(page)
    assert "expected gain of the weighted returns" in page


def test_a_broken_budget_is_named(run, study):
    learner = RunFolder.open(run).load()
    kept = evaluate_theorem(learner, study.constants, 5.0, 0.05, 0.0)
    assert kept.budget == 1e-3
    assert "budget" not in kept.sentences
    broken = evaluate_theorem(learner, study.constants, 5.0, 0.05, 0.25)
    assert broken.budget == 0.25
    assert "0.25, stands for β = 0.001" in broken.sentences["budget"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"epsilon": 0.0}, ["ε is 0", "it says nothing here; section 2 says why"]),
        ({"epsilon": "inf"}, ["ε is infinite"]),
        ({"tasks": "paper:r=1"}, ["1 task,"]),
        ({"projection": "relaxed"}, ["relaxed projection"]),
        ({"projection": "free"}, ["free projection"]),
        ({"step_rule": "adam"}, ["Momentum"]),
        ({"estimator": "baseline"}, ["μ, gradient norm"]),
        ({"budget": "inf"}, ["α' of one look"]),
    ],
    ids=str,
)
def test_every_kind_of_run_gets_its_page(tmp_path, fields, words):
    path = small_run(tmp_path / "run", **{"iterations": 30, **fields})
    study = study_run(path, samples=100)
    page = theory_page(study)
    for word in words:
        assert word in flat(page)
    assert max(map(len, page.splitlines())) <= max(100, len(f"The theorem at {path}"))
    assert strict(study.to_json())["epsilon"] == fields.get("epsilon", 1.5)


def test_the_page_doubts_intervals_of_heavy_tails(study):
    calm = [dataclasses.replace(own, tail=0.1) for own in study.constants]
    page = theory_page(dataclasses.replace(study, constants=tuple(calm)))
    assert "may be too short" not in flat(page)
    calm[1] = dataclasses.replace(calm[1], tail=0.5)
    page = theory_page(dataclasses.replace(study, constants=tuple(calm)))
    assert "Rare samples decide these numbers for r=1: " in flat(page)


def test_the_same_seed_gives_the_same_study(run, study):
    assert study_run(run, samples=200).to_json() == study.to_json()
    assert study_run(run, samples=200, seed=1).constants != study.constants
