"""The second race: what is gained over a controller, steps outside of limits, and residuals."""

import dataclasses

import numpy as np
import pytest
from benchmarks.race import cells, gains, report
from benchmarks.race.cells import Cell
from benchmarks.race.entrants import BUDGETS, METHODS, Budget
from benchmarks.race.families import FAMILIES, MACHINES
from benchmarks.race.machines import Log, Still
from benchmarks.race.reading import entry
from benchmarks.rival import Seconds

from benchmarks import rival
from crosslearning.tasks.families import FAMILIES as SHIPPED

STEADY = (300.0, 0.0), (421.0, 0.0), (179.0, 0.0), (300.0, -20.0)


@pytest.fixture
def motors(monkeypatch):
    """Two motors with short evaluations."""
    few = dataclasses.replace(
        FAMILIES["dc-motors"],
        training=lambda seed: SHIPPED["dc-motors"](2, seed=seed),
        trials=2,
    )
    monkeypatch.setitem(FAMILIES, "dc-motors", few)
    return few


def answer(seed, *marks, outside=0.1, cost=2.0):
    """Return a seed with (steps, returns of the machines) at each mark."""
    return {
        "asked": {"seed": seed},
        "marks": [
            {
                "steps": steps,
                "seconds": [1.0, 1.0],
                "training": {"totals": list(totals)},
                "outside": outside,
                "cost": cost,
            }
            for steps, *totals in marks
        ],
    }


def test_steps_outside_of_limits_are_counted():
    log = Log(FAMILIES["dc-motors"])
    log.add(np.array(STEADY), [-1.0, -2.0, -3.0, -6.0])
    assert log.shares() == {"outside": 0.75, "cost": 3.0}
    (task,) = log.of(SHIPPED["dc-motors"](1))
    environment = task.make()
    environment.reset(seed=0)
    for _ in range(4):
        environment.step([-24.0])  # the current is at its limit at once
    assert log.shares()["outside"] == 7 / 8


@pytest.mark.parametrize("name", MACHINES)
def test_controllers_hardly_leave_the_limits(name):
    family = dataclasses.replace(FAMILIES[name], trials=1)
    (mark,) = cells.at_work(family, METHODS["controller-nominal"], 3)["marks"]
    assert len(mark["training"]["totals"]) == 6
    assert mark["outside"] < 0.2
    resting = np.zeros((1, family.training(0)[0].observation_size))
    assert family.outside(resting).shape == (1,)


def test_the_best_tuning_is_no_worse_than_what_it_is_tuned_from(motors):
    own, tuned = (
        cells.measure("dc-motors", f"controller-{who}", 0, Budget((0,), 1, 1.0))["marks"][0]
        for who in ("nominal", "tuned")
    )
    assert sum(tuned["training"]["totals"]) > sum(own["training"]["totals"])


def test_a_residual_agent_corrects_the_controller_as_far_as_ours_may(motors, monkeypatch, tmp_path):
    asked = {}

    def learn(algorithm, tasks, steps, seed, setting, *, contexts, reach, marks, look):
        asked.update(tasks=tasks, reach=reach, contexts=contexts)
        environment = tasks[0].make()
        environment.reset(seed=0)
        environment.step([0.0])
        look(_Still(), 1, Seconds(1.0, 1.0))

    monkeypatch.setattr(rival, "learn", learn)
    budget = Budget((1,), 1, 1.0)
    residual = Cell("dc-motors", "sac-around-context", 0, budget, tmp_path).measurement.answer()
    assert asked["reach"] == ([-0.3 * 24.0], [0.3 * 24.0])
    assert len(asked["contexts"]) == 2
    assert asked["tasks"][0].controller is not None
    # What corrects nothing is the controller, and its evaluation is not counted.
    nominal = cells.measure("dc-motors", "controller-nominal", 0, budget)
    (mark,), (own,) = residual["marks"], nominal["marks"]
    assert mark["training"]["totals"] == pytest.approx(own["training"]["totals"])
    assert (mark["outside"], mark["unseen"]) == (0.0, None)
    Cell("dc-motors", "sac-mixed", 0, budget, tmp_path).measurement.answer()
    assert asked["reach"] == ([-24.0], [24.0])
    assert asked["contexts"] is None
    assert asked["tasks"][0].controller is None


class _Still(Still):
    def __init__(self):
        super().__init__(1)

    def with_context(self, context):
        return self


def test_ours_learns_around_the_controller(motors, monkeypatch):
    quick = {"updates_per_round": 1, "round_steps": 15, "rollouts": 2, "look_ahead": 3}
    entrant = METHODS["models"]
    settings = {**entrant.settings, **quick}
    monkeypatch.setitem(METHODS, "models", dataclasses.replace(entrant, settings=settings))
    assert cells._settings(METHODS["models"], motors)["epsilon"] == 0.3
    (mark,) = cells.measure("dc-motors", "models", 0, Budget((30,), 1, 1.0))["marks"]
    assert mark["steps"] == 30
    assert mark["central"] is mark["unseen"] is None
    assert 0.0 <= mark["outside"] < 0.5
    # What is kept after so little is no worse than the controller.
    (own,) = cells.measure("dc-motors", "controller-nominal", 0, Budget((0,), 1, 1.0))["marks"]
    assert np.all(np.array(mark["training"]["totals"]) >= np.array(own["training"]["totals"]))


def test_gains_are_paired_by_the_seed_and_counted_in_steps_of_a_machine():
    # Of the second seed the machines are much worse.
    own = entry("controller-nominal", [answer(k, (0, -w, -w)) for k, w in ((0, 3), (1, 9), (2, 5))])
    ours = entry(
        "models", [answer(k, (200, -w, -w), (400, 1 - w, -w)) for k, w in ((2, 5), (1, 9), (0, 3))]
    )
    rival_ = entry(
        "sac-mixed",
        [
            answer(0, (400, -9.0, -9.0), (800, -1.0, -4.0), cost=6.0),
            answer(1, (400, -9.5, -9.0), (800, -8.0, -8.0), cost=6.0),
            answer(2, (400, -9.0, -9.0), (800, -9.0, -9.0), cost=6.0),
        ],
    )
    assert gains.gains(ours, own)[:, -1].tolist() == [[1.0, 0.0]] * 3
    table = {
        row[0]: dict(zip(gains.HEADINGS, row, strict=True))
        for row in gains.rows([own, ours, rival_])
    }
    row = table["models"]
    assert row["gain"] == "0.5 [0.5, 0.5]"
    assert row["worst machine's gain"] == "0 [0, 0]"
    assert row["machines worse"] == "0 of 6"
    assert row["steps until no worse"] == "100"
    assert row["ahead of ours"] == "–"
    row = table["SAC, one agent for all"]
    assert row["steps per machine"] == "400"
    assert row["machines worse"] == "3 of 6"
    assert row["gain after 200 steps"].startswith("−3.42")
    assert row["ahead of ours"].startswith("−1.33")
    assert row["cost of a step"] == "3.0"
    assert row["steps outside of limits"] == "10 %"
    # The first seed ends above on the mean, the second on every machine, the third nowhere.
    assert row["steps until no worse"] == "400 (400 … > 400)"
    assert row["steps until no machine worse"] == "> 400 (400 … > 400)"
    assert row["steps until as good as ours"] == "400 (400 … > 400)"
    assert table["controller, designed for the nominal machine"]["gain"] == "–"


def test_the_second_race_has_a_page_of_its_own(tmp_path):
    own = entry("controller-nominal", [answer(0, (0, -3.0, -3.0))])
    page, other = tmp_path / "second.md", tmp_path / "first.md"
    page.write_text(
        "".join(
            f"<!-- begin {n} -->\n<!-- end {n} -->\n" for n in ("results", "settings", "budgets")
        )
    )
    assert report.write({"four-tanks": [own]}, other, tmp_path, page) == [page]
    text = page.read_text()
    assert "### four-tanks" in text
    assert "normalised" in text
    assert "pendulums" not in text
    assert "four-tanks" not in report.settings(FAMILIES.keys() - MACHINES)
    assert set(BUDGETS) >= set(MACHINES)
