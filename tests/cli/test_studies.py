"""The commands of studies: they print, draw, and say what is not to be believed yet."""

import json

import pytest
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning.figures.paper import FIGURES
from crosslearning.reproduction.paper import adapt, readings, reproduce, search
from crosslearning.reproduction.paper.experiment import Scale
from crosslearning.runs import study
from tests.runs.examples import one_after_another

runner = CliRunner()
TINY = Scale(iterations=8, max_knots=20, snapshots=2, trials=4, maps=1)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(study, "in_processes", one_after_another)
    monkeypatch.setattr(adapt, "ITERATIONS", 2)
    monkeypatch.setattr(reproduce, "QUICK", TINY)
    monkeypatch.setattr(readings, "QUICK", TINY)


def test_reproduce_draws_every_figure_or_some(tmp_path, request):
    arguments = ["reproduce", "--quick", "--out", str(tmp_path), "--seeds", "2"]
    shown = runner.invoke(cli.app, [*arguments, "--only", "cost-average"])
    assert shown.exit_code == 0, shown.output
    figures = tmp_path / "quick" / "figures"
    assert sorted(p.name for p in figures.iterdir()) == ["cost-average.pdf", "cost-average.png"]
    assert "Of 35 claims" in shown.output
    assert "Not converged: 8 iterations" in shown.output
    assert (figures / "cost-average.png").stat().st_size > 5_000
    assert (figures / "cost-average.pdf").read_bytes().startswith(b"%PDF")
    request.getfixturevalue("undrawn")  # another test draws each of them
    shown = runner.invoke(cli.app, arguments)
    assert shown.exit_code == 0, shown.output
    others = tmp_path / "quick" / "redrawn-goals" / "figures"
    expected = sorted(f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "png"))
    assert sorted(p.name for p in figures.iterdir()) == expected
    assert sorted(p.name for p in others.iterdir()) == expected
    assert "under the reading redrawn-goals" in shown.output


def test_an_unknown_figure_is_named_before_anything_runs(tmp_path):
    arguments = ["reproduce", "--quick", "--out", str(tmp_path / "r"), "--only", "misson"]
    assert "did you mean 'mission'" in str(runner.invoke(cli.app, arguments).exception)
    assert not (tmp_path / "r").exists()


def test_readings_have_a_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(readings.compare_readings, "__defaults__", (readings.READINGS[:2],))
    arguments = ["reproduce", "--readings", "--quick", "--seeds", "1", "--out", str(tmp_path)]
    shown = runner.invoke(cli.app, arguments)
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "readings" / "quick" / "figures" / "readings.png").stat().st_size > 5_000
    assert "One seed says nothing about others" in shown.output


def test_a_search_has_a_figure_and_tells_how_many_readings_were_tried(tmp_path, monkeypatch):
    few = tuple(f for f in search.FACTORS if f.name in ("goal", "steps", "costs"))
    monkeypatch.setattr(search.search, "__defaults__", ("processes", few))
    monkeypatch.setattr(
        search, "QUICK", search.SearchPlan(TINY, TINY, runs=4, seeds=2, fresh_seeds=2, best=1)
    )
    arguments = ["reproduce", "--search", "--quick", "--seeds", "1", "--out", str(tmp_path)]
    shown = runner.invoke(cli.app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "8 of 8 readings tried" in shown.output
    assert "Not converged" in shown.output
    assert (tmp_path / "search" / "quick" / "figures" / "search.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--search", "--readings"], "give one of them"),
        (["--search", "--only", "mission"], "--search draws one figure of its own"),
    ],
)
def test_studies_that_exclude_each_other(tmp_path, flags, message):
    arguments = ["reproduce", "--quick", "--out", str(tmp_path / "r"), *flags]
    assert message in str(runner.invoke(cli.app, arguments).exception)
    assert not (tmp_path / "r").exists()


SWEEP = ["--tasks", "linear-quadratic", "--max-knots", "10", "--seeds", "2", "--trials", "4"]
SWEEP += ["--horizon", "6", "--iterations", "6", "--epsilons", "0,0.3"]


def test_sweep_prints_a_table_and_draws(tmp_path):
    shown = runner.invoke(cli.app, ["sweep", "--out", str(tmp_path / "s"), *SWEEP])
    assert shown.exit_code == 0, shown.output
    assert "| " not in shown.output
    assert shown.output.count("\n0.3  ") == 2  # its returns, and its geometry
    assert max(map(len, shown.output.split("Recommended")[0].splitlines())) <= 80
    assert (tmp_path / "s" / "sweep.md").read_text().count("\n| 0.3 |") <= 1
    assert (tmp_path / "s" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "s" / "sweep.pdf").read_bytes().startswith(b"%PDF")


def test_a_sweep_against_another(tmp_path):
    cold, warm = tmp_path / "cold", tmp_path / "warm"
    missing = ["sweep", "--out", str(warm), *SWEEP, "--against", str(cold)]
    assert "no finished sweep" in str(runner.invoke(cli.app, missing).exception)
    assert not warm.exists()
    runner.invoke(cli.app, ["sweep", "--out", str(cold), *SWEEP, "--origin", "zero"])
    shown = runner.invoke(cli.app, missing)
    assert shown.exit_code == 0, shown.output
    assert f"{warm} minus {cold}" in shown.output
    lines = (warm / "against.md").read_text().splitlines()
    assert lines[-2].startswith("| 0 | 0 [0, 0] |")  # the first stage is the same in both
    values = [
        json.loads((folder / "sweep.json").read_text())["rows"][1]["own"]["seeds"]
        for folder in (warm, cold)
    ]
    mean = sum(a - b for a, b in zip(*values, strict=True)) / 2
    assert lines[-1].startswith(f"| 0.3 | {mean:.3g} [")
