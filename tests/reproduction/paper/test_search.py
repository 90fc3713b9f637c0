"""The search over readings: its factors, its stages, and what it reports, in miniature."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks import paper_search
from crosslearning.errors import InputError
from crosslearning.reproduction.paper import search as searching
from crosslearning.reproduction.paper.claims import CLAIMS
from crosslearning.reproduction.paper.experiment import (
    CROSS,
    DEFAULT_READING,
    REDRAWN_GOALS,
    Experiment,
    Scale,
)
from crosslearning.reproduction.paper.measure import scenes
from crosslearning.reproduction.paper.search import FACTORS, FULL, SearchPlan, reading_of, search
from crosslearning.runs import study, train
from crosslearning.runs.design import crossed, fractional_factorial
from tests.runs.examples import one_after_another

TINY = Scale(iterations=6, max_knots=10, snapshots=1, trials=3, maps=1)
PLAN = SearchPlan(TINY, TINY, runs=4, seeds=2, fresh_seeds=2, best=1)
#: Two factors of training and two of measuring.
FEW = tuple(f for f in FACTORS if f.name in ("goal", "epsilon", "acts", "costs"))


def levels_of(**names):
    return [list(f.levels).index(names.get(f.name, next(iter(f.levels)))) for f in FACTORS]


def test_the_first_levels_are_the_default_reading():
    reading = reading_of([0] * len(FACTORS))
    assert (reading.settings, reading.task_options, reading.training_options) == ({}, {}, {})
    assert (reading.name, reading.iterations) == ("default", DEFAULT_READING.iterations)
    assert (reading.acts, reading.costs, reading.knots) == ("centre", "circles", "shared")
    assert reading.relative_epsilon is None
    assert len(FACTORS) >= 8


def test_the_reading_with_redrawn_goals_is_one_of_the_combinations():
    names = {"goal": "redrawn", "distance": "centre", "steps": "long", "projection": "relaxed"}
    g, own = levels_of(**names, costs="training"), levels_of(**names, costs="training", acts="own")
    assert searching._known(FACTORS) == {"redrawn-goals, g": g, "redrawn-goals, h_i": own}
    reading = reading_of(g)
    for field in ("settings", "task_options", "training_options", "iterations", "costs", "acts"):
        assert getattr(reading, field) == getattr(REDRAWN_GOALS, field), field
    assert searching._known(FEW) == {}


@pytest.mark.parametrize("factor", FACTORS, ids=lambda factor: factor.name)
def test_every_level_changes_something_and_can_be_run(factor, tmp_path):
    index = FACTORS.index(factor)
    for level in range(1, len(factor.levels)):
        levels = [0] * len(FACTORS)
        levels[index] = level
        reading = reading_of(levels)
        experiment = Experiment(tmp_path, 1, TINY, reading)
        before, after = Experiment(tmp_path, 1, TINY), experiment.configs(0)
        same = all(after[p] == config for p, config in before.configs(0).items())
        assert same == factor.measured
        assert all(scenes(reading, 1).values())


def test_factors_of_joint_runs_change_no_policy_of_a_single_task(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "in_processes", one_after_another)
    weights = []
    for name, level in [("", 0), *((f.name, i) for f in FACTORS if f.joint for i in (1, 2))]:
        factor = next((f for f in FACTORS if f.name == name), FACTORS[0])
        if level >= len(factor.levels):
            continue
        reading = reading_of([level * (f is factor) for f in FACTORS])
        experiment = Experiment(tmp_path / f"{name}-{level}", 1, TINY, reading)
        train(experiment.folder(0, "r=1").path, experiment.configs(0)["r=1"])
        weights.append(experiment.function(0, "r=1").weights)
    assert len(weights) == 4
    for other in weights[1:]:
        np.testing.assert_array_equal(other, weights[0])


def test_the_full_plan_confounds_no_main_effect_with_an_interaction():
    counts = [len(f.levels) for f in FACTORS if not f.measured]
    design = crossed(
        fractional_factorial(counts, FULL.runs), [len(f.levels) for f in FACTORS if f.measured]
    )
    for one in searching.interactions(design, np.zeros(len(design))):
        assert all(len(alias) == 2 for alias in one.aliases)
    assert FULL.screen.iterations * 4 == FULL.confirm.iterations
    assert len(design) == 192
    assert len(FACTORS) >= 8


def run(path, plan=PLAN, seeds=2):
    console = Console(file=io.StringIO(), force_terminal=False)
    return search(path, seeds, plan, 1, console, factors=FEW)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    path = tmp_path_factory.mktemp("search")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "in_processes", one_after_another)
        return path, run(path)


def test_a_combination_is_trained_once_and_measured_for_all_that_act(done):
    path, content = done
    assert content["readings_tried"] == content["combinations"] == 4 * 3 * 2
    assert sorted(p.name for p in (path / "screen").iterdir()) == ["00", "01", "10", "11"]
    folder = path / "screen" / "10" / "seed-1" / "cross"
    kept = sorted(p.name for p in folder.glob("measurements*.json"))
    assert kept == ["measurements-mean.json", "measurements-own.json", "measurements.json"]
    # ε changes no run of a single task.
    single = path.glob("screen/*/seed-0/r-0.5/model.safetensors")
    assert sorted(p.parts[-4] for p in single) == ["00", "10"]
    seeds = sorted(p.name for p in (path / "confirm" / "00").iterdir())
    assert seeds == ["seed-1000", "seed-1001"]
    assert content["fresh_seeds"] == [1000, 1001]


def test_scores_and_effects_are_those_of_the_verdicts(done):
    path, content = done
    stored = json.loads((path / "search.json").read_text())
    assert stored["effects"] == content["effects"]
    points = {"holds": 1, "undecided": 0, "does not hold": -1}
    for row in content["readings"]:
        assert row["score"] == sum(points[one["verdict"]] for one in row["claims"])
        assert [one["key"] for one in row["claims"]] == [one.key for one in CLAIMS]
    effect = next(row for row in content["effects"] if row["level"] == "goal=redrawn")
    means = {
        level: np.mean([r["score"] for r in content["readings"] if r["levels"]["goal"] == level])
        for level in ("fixed", "redrawn")
    }
    assert effect["score"] == pytest.approx(means["redrawn"] - means["fixed"])
    assert effect["score"] == pytest.approx(sum(effect["claims"].values()))
    text = (path / "search.md").read_text()
    assert "24 of 24 readings tried" in text
    assert "fresh seeds, 1000–1001" in text
    assert "Not converged" in text


def test_readings_that_differ_in_the_place_of_costs_differ_only_in_those_claims(done):
    _, content = done
    by_levels = {tuple(row["levels"].values()): row for row in content["readings"]}
    moved = set()
    for (*first, where), row in by_levels.items():
        if where == "training":
            other = by_levels[*first, "circles"]
            for a, b in zip(row["claims"], other["claims"], strict=True):
                if a["estimate"] != b["estimate"]:
                    moved.add(a["key"])
    assert moved
    assert all(key.startswith(("cost-", "mean-")) for key in moved)


def test_a_finished_search_is_read_and_an_interrupted_one_goes_on(done, monkeypatch, tmp_path):
    path, content = done
    monkeypatch.setattr(study, "in_processes", one_after_another)
    monkeypatch.setattr(study, "train", None)  # it would fail
    assert run(path) == content
    monkeypatch.undo()

    def stopping(function, rounds, workers, bar):
        for call in rounds[0][:3]:
            function(*call)
        return False

    monkeypatch.setattr(study, "in_processes", stopping)
    assert run(tmp_path) is None
    models = {p: p.read_bytes() for p in tmp_path.rglob("model.safetensors")}
    assert len(models) == 3
    monkeypatch.setattr(study, "in_processes", one_after_another)
    assert run(tmp_path) == content
    assert all(p.read_bytes() == model for p, model in models.items())


def test_another_design_is_refused(done, monkeypatch):
    path, _ = done
    monkeypatch.setattr(study, "in_processes", one_after_another)
    with pytest.raises(InputError, match="another choice of runs"):
        run(path, SearchPlan(TINY, TINY, runs=8, seeds=2, fresh_seeds=2, best=1))


def test_finalists_are_the_default_the_best_the_predicted_and_that_with_most_claims():
    design = crossed(fractional_factorial([2, 2, 2], 4), [2])
    scores = 3 * design[:, 0] + 2 * design[:, 1] + design[:, 2] + design[:, 3]
    points = np.stack([scores, np.zeros_like(scores), np.zeros_like(scores)], axis=1)
    # Of these two claims hold, with the same scores as before; of the others one.
    points[design.tolist().index([0, 1, 1, 0])] = [4, 1, -2]
    points[design.tolist().index([0, 1, 1, 1])] = [3, 1, 0]
    rows = searching._finalists(design, points, 3, 2)
    assert rows["default"] == [0, 0, 0, 0]
    assert rows["screened, 1"] == [1, 1, 0, 1]
    assert rows["screened, 2"] == [1, 0, 1, 1]
    assert rows["most hold"] == [0, 1, 1, 1]
    assert rows["predicted"] == [1, 1, 1, 1]  # not in the fraction
    assert len(rows) == 5


def test_the_configuration_of_a_confirmed_run_has_a_fresh_seed(done):
    path, _ = done
    experiment = Experiment(path / "confirm" / "00", 2, TINY, first_seed=1000)
    assert experiment.folder(1001, CROSS).config().settings.seed == 1001


def test_measurements_alone_are_enough_and_can_be_kept_in_one_file(done, tmp_path, monkeypatch):
    path, content = done
    table, again = tmp_path / "kept.jsonl.gz", tmp_path / "again"
    count = paper_search.fold(path, table)
    assert count == len(list(path.glob("*/*/seed-*/*/measurements*.json")))
    assert paper_search.unfold(again, table) == count
    # One that is missing is trained and measured again, and no other.
    missing = again / "screen" / "00" / "seed-0" / "r-1" / "measurements.json"
    missing.unlink()
    monkeypatch.setattr(study, "in_processes", one_after_another)
    assert run(again) == content
    assert [p.parent for p in again.rglob("model.safetensors")] == [missing.parent]
    assert paper_search.fold(again, tmp_path / "both.jsonl.gz") == count
    assert paper_search.read(tmp_path / "both.jsonl.gz") == paper_search.read(table)
