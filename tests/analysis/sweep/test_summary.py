"""Intervals and the recommended radius, on numbers whose answers are known."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from crosslearning._base.statistics import student
from crosslearning.analysis.sweep.summary import (
    differences,
    not_significantly_different,
    recommend,
    summarise,
)
from crosslearning.errors import InputError


def test_rows_are_compared_on_the_same_seeds():
    seeds = 50.0 * np.random.default_rng(0).standard_normal(6)  # far more than the rows differ
    noise = [[0.1, -0.1, 0.0, 0.2, -0.2, 0.0], [0.0] * 6, [0.1, 0.0, -0.1, 0.1, -0.1, 0.0]]
    rows = np.array([0.0, 1.0, 0.99])[:, None] + seeds + np.array(noise)
    assert not_significantly_different(rows) == [1, 2]
    # Against scipy's paired test, at a level divided by the two others.
    worse = stats.ttest_rel(rows[1], rows[0], alternative="greater").pvalue
    alike = stats.ttest_rel(rows[1], rows[2], alternative="greater").pvalue
    assert worse < 0.05 / 2 < alike


@pytest.mark.parametrize("means", [(0.0, 0.0, 0.0, 0.0), (0.0, 0.5, 1.0, 0.9)])
def test_the_truly_best_row_is_hardly_ever_left_out(means):
    generator = np.random.default_rng(5)
    trials, kept = 1500, 0
    for _ in range(trials):
        values = np.array(means)[:, None] + generator.standard_normal((4, 5))
        kept += int(np.argmax(means)) in not_significantly_different(values)
    assert kept / trials >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / trials)


def test_rows_without_noise():
    values = np.array([[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]])
    assert not_significantly_different(values) == [1, 2]
    assert not_significantly_different(values[:, :1]) == [0, 1, 2]  # one seed tells nothing apart
    assert not_significantly_different(values[:1]) == [0]


def test_the_recommendation():
    values = np.array([[1.0, 1.1, 0.9], [3.0, 3.2, 2.9], [3.1, 3.0, 2.9]])
    best = recommend((0.0, 1.0, math.inf), values, "held_out")
    assert best.epsilon == 1.0
    assert best.not_significantly_different == (1.0, math.inf)
    assert best.value.value == pytest.approx(np.mean(values[1]))
    # The seeds other than 0 choose 1.0 (3.05 against 2.95), those but 1 choose inf (3.0 against
    # 2.95), and those but 2 choose 1.0.
    assert best.chosen_blind == pytest.approx((3.0 + 3.0 + 2.9) / 3)
    for part in (
        "ε = 1:",
        "held-out tasks",
        "optimistic, as the largest of 3",
        "Not significantly different: ∞",
    ):
        assert part in best.sentence


def test_choosing_blind_takes_the_optimism_off():
    generator = np.random.default_rng(2)
    naive, blind = [], []
    for _ in range(400):
        best = recommend(range(8), generator.standard_normal((8, 5)), "central")
        naive.append(best.value.value)
        blind.append(best.chosen_blind)
    assert np.mean(naive) > 0.4  # the truth is 0
    assert abs(np.mean(blind)) < 4 * np.std(blind) / 20


def test_one_seed_and_one_radius_say_so():
    alone = recommend((0.0, 1.0), np.array([[1.0], [2.0]]), "central")
    assert "from one seed" in alone.sentence
    assert "none were held out" in alone.sentence
    assert alone.not_significantly_different == (0.0, 1.0)
    only = recommend((1.0,), np.array([[1.0, 2.0]]), "central")
    assert "no other was tried" in only.sentence
    worse = recommend((0.0, 1.0), np.array([[1.0, 1.1, 1.0], [2.0, 2.1, 2.05]]), "central")
    assert "All others are significantly worse." in worse.sentence


def record(own, central, held_out, distance, multiplier):
    tasks = {"a": {"return": own - 1, "crashed": 0.0}, "b": {"return": own + 1, "crashed": 0.5}}
    return {
        "own": tasks,
        "central": {name: {"return": central} for name in tasks},
        "held_out": {} if held_out is None else {"x": {"return": held_out, "crashed": 0.1}},
        "distance": {"a": distance, "b": 0.5 * distance},
        "multiplier": {"a": multiplier, "b": multiplier},
        "knots": 20,
    }


@pytest.fixture
def sweep():
    epsilons = (0.0, 0.5, 2.0, math.inf)
    records = {
        (seed, epsilon): record(
            min(epsilon, 3.0) + seed, -seed, k, min(epsilon, 1.5), None if epsilon == 0 else 0.1 * k
        )
        for seed in (0, 1)
        for k, epsilon in enumerate(epsilons)
    }
    return summarise(epsilons, (0, 1), records)


def test_a_sweep_gathers_means_over_tasks(sweep):
    np.testing.assert_array_equal(sweep.values["own"], [[0, 1], [0.5, 1.5], [2, 3], [3, 4]])
    np.testing.assert_array_equal(sweep.values["distance"][:, 0], [0.0, 0.5, 1.5, 1.5])
    np.testing.assert_array_equal(sweep.values["own_crashed"], 0.25)
    assert "central_crashed" not in sweep.values
    assert np.all(np.isnan(sweep.values["multiplier"][0]))
    assert sweep.recommendation.epsilon == math.inf
    np.testing.assert_array_equal(sweep.values["held_out"][1], 1.0)


def test_a_sweep_is_plain_data_and_a_table(sweep):
    data = json.loads(json.dumps(sweep.to_dict(), allow_nan=False))
    assert [row["epsilon"] for row in data["rows"]] == [0.0, 0.5, 2.0, "inf"]
    assert data["rows"][0]["multiplier"] == {"value": None, "seeds": [None, None]}
    assert data["recommendation"]["epsilon"] == "inf"
    lines = sweep.table().splitlines()
    assert len(lines) == 2 + 4
    assert lines[-1].startswith("| **∞** | 3.5 [")
    assert "| – |" in lines[2]
    assert len({line.count("|") for line in lines}) == 1
    assert "25.0 %" in sweep.table(sweep.rates)


def test_two_sweeps_are_compared_seed_by_seed(sweep):
    generator = np.random.default_rng(3)
    epsilons, seeds = (0.5, 2.0, 8.0), (1, 0, 5)
    records = {
        (seed, epsilon): record(*generator.normal(size=3), 0.5, 0.1)
        for seed in seeds
        for epsilon in epsilons
    }
    other = summarise(epsilons, seeds, records)
    headings, rows = differences(sweep, json.loads(json.dumps(other.to_dict())))
    assert headings[0] == "ε"
    assert [row[0] for row in rows] == ["0.5", "2"]  # the radii that both have
    for row, mine, its in zip(rows, (1, 2), (0, 1), strict=True):
        for cell, name in zip(row[1:], ("own", "central", "held_out"), strict=True):
            pairs = [
                sweep.values[name][mine, sweep.seeds.index(seed)]
                - other.values[name][its, other.seeds.index(seed)]
                for seed in (0, 1)
            ]
            assert cell == str(student(pairs))
    with pytest.raises(InputError, match="no radius and seed in common"):
        differences(sweep, {**other.to_dict(), "seeds": [7, 8, 9]})
