"""The readings: each differs in one point, and the tables say what the measurements say."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from crosslearning.reproduction.paper import adapt
from crosslearning.reproduction.paper.claims import CLAIMS
from crosslearning.reproduction.paper.experiment import (
    CROSS,
    DEFAULT_READING,
    POLICIES,
    RADII,
    Experiment,
    Scale,
)
from crosslearning.reproduction.paper.measure import load_measurements, rates_table, scenes
from crosslearning.reproduction.paper.readings import (
    READINGS,
    changed,
    compare_readings,
    readings_table,
    worst_arrival,
)
from crosslearning.runs import study
from tests.runs.examples import one_after_another

TINY = Scale(iterations=8, max_knots=20, snapshots=1, trials=4, maps=1)
OTHERS = READINGS[1:]


@pytest.mark.parametrize("reading", OTHERS, ids=lambda r: r.name)
def test_a_reading_changes_one_point_of_the_training(reading, tmp_path):
    before = Experiment(tmp_path, 1, TINY).configs(0)[CROSS]
    after = Experiment(tmp_path, 1, TINY, reading).configs(0)[CROSS]
    plain = before.to_plain(), after.to_plain()
    differing = {name for name in plain[0] if plain[0][name] != plain[1][name]}
    expected = set(reading.settings) | (
        {"task_options"} if reading.task_options or reading.training_options else set()
    )
    assert differing == expected
    assert len(differing - {"step_size"}) == 1
    # And the tasks can be made.
    assert len(reading.training_tasks()) == 3
    assert all(scenes(reading, 1).values())


def test_the_goal_of_training_does_not_move_the_goal_of_the_evaluation():
    (reading,) = [r for r in READINGS if r.name == "goal-corner"]
    default, other = scenes(DEFAULT_READING, 1), scenes(reading, 1)
    for name in default:
        same = all(
            np.array_equal(a.dynamics.parameters, b.dynamics.parameters)
            for a, b in zip(default[name], other[name], strict=True)
        )
        assert same == (name != "training")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    path = tmp_path_factory.mktemp("readings")
    chosen = (DEFAULT_READING, next(r for r in READINGS if r.name == "crash-terminate"))
    console = Console(file=io.StringIO(), force_terminal=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "in_processes", one_after_another)
        patch.setattr(adapt, "ITERATIONS", 2)
        assert compare_readings(path, 2, TINY, 2, console, chosen)
    return path, chosen


def test_every_reading_is_learned_and_judged_under_its_own_rules(done):
    path, chosen = done
    content = json.loads((path / "readings.json").read_text())
    assert [row["name"] for row in content["readings"]] == [r.name for r in chosen]
    for row, reading in zip(content["readings"], chosen, strict=True):
        assert [claim["key"] for claim in row["claims"]] == [c.key for c in CLAIMS]
        experiment = Experiment(path / reading.name, 2, TINY, reading)
        for policy in POLICIES:
            options = experiment.folder(1, policy).config().task_options
            assert options == dict(reading.task_options)
        results = load_measurements(experiment)
        assert row["worst_arrival"] == worst_arrival(results)
        assert (path / reading.name / "rates.md").read_text() == rates_table(results)
    text = (path / "readings.md").read_text()
    assert text.startswith("2 seeds, 8 iterations")
    assert text.count("\n| `") == 2


def test_the_worst_arrival_is_that_of_a_task_over_seeds():
    rates = [dict(zip(RADII, own, strict=True)) for own in ((1.0, 0.0, 1.0), (1.0, 1.0, 0.5))]
    training = [{r: {"arrived": arrived} for r, arrived in own.items()} for own in rates]
    results = {seed: {CROSS: {"final": {"training": own}}} for seed, own in enumerate(training)}
    assert worst_arrival(results) == 0.5


def test_a_claim_has_changed_only_if_it_was_decided_both_ways(done):
    path, chosen = done
    claims = json.loads((path / "readings.json").read_text())["readings"][0]["claims"]
    words = ["holds", "does not hold", "undecided"]
    before = [claim | {"verdict": words[i % 3]} for i, claim in enumerate(claims)]
    after = [claim | {"verdict": words[(i // 3) % 3]} for i, claim in enumerate(claims)]
    both_ways = {("holds", "does not hold"), ("does not hold", "holds")}
    expected = [
        a["key"]
        for a, b in zip(before, after, strict=True)
        if (a["verdict"], b["verdict"]) in both_ways
    ]
    assert changed(before, after) == expected
    assert len(expected) > 3
    result = [
        {"name": r.name, "says": r.says, "worst_arrival": 0.5, "claims": claims}
        for r, claims in zip(chosen, (before, after), strict=True)
    ]
    rows = readings_table(result).splitlines()[2:]
    assert "| – |" in rows[0]
    assert all(f"`{key}`" in rows[1] for key in expected)
    counts = [int(cell) for cell in rows[1].split("|")[4:7]]
    assert sum(counts) == len(claims)
