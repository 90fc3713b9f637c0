"""The race: what is asked, kept, counted and written, with a rival that is made up."""

import dataclasses
import json
import math

import numpy as np
import pytest
from benchmarks.race import __main__ as command
from benchmarks.race import cells, plan, report, results
from benchmarks.race.cells import Cell
from benchmarks.race.entrants import AGAIN, BUDGETS, METHODS, Budget, Engineer, Rival, is_former
from benchmarks.race.families import FAMILIES
from benchmarks.race.reading import entries, entry, fewest, on_unseen
from benchmarks.rival import Seconds

from benchmarks import rival
from crosslearning.errors import InputError, MissingExtraError
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes
from crosslearning.tasks import task_set


def mark(steps, *totals, seconds=1.0, unseen=-5.0):
    """Return what is said to have been found after so many steps."""
    there = None if unseen is None else {"totals": [unseen]}
    spent = [9.0 * seconds, seconds]
    return {"steps": steps, "seconds": spent, "training": {"totals": totals}, "unseen": there}


def never():
    """Return a seed on which no task ever was good enough."""
    return {"marks": [mark(90, -900.0)]}


class Standing:
    """An agent that never moves, and records its context."""

    def __init__(self, context=()):
        self.context = context

    def with_context(self, context):
        return Standing(context)

    def predict_rows(self, observations):
        return np.zeros((len(observations), 1))


@pytest.fixture
def little(monkeypatch):
    """Make the pendulums few, their evaluations short, and the rival one that learns nothing."""
    family = dataclasses.replace(
        FAMILIES["pendulums"],
        training=lambda seed: task_set("pendulums:2", seed=seed),
        unseen=lambda seed: task_set("pendulums:unseen:2", seed=seed),
        trials=2,
        unseen_trials=1,
    )
    monkeypatch.setitem(FAMILIES, "pendulums", family)
    asked = []

    def learn(algorithm, tasks, steps, seed, setting, *, contexts=None, reach=None, marks=(), look):
        asked.append((algorithm, len(tasks), steps, contexts))
        for number, at in enumerate(marks):
            look(Standing(), at, Seconds(2.0, float(number + 1)))

    monkeypatch.setattr(rival, "learn", learn)
    monkeypatch.setattr(rival, "installed", lambda: True)
    return asked


def test_every_family_has_budgets_whose_methods_can_race():
    assert set(BUDGETS) <= set(FAMILIES)
    for family, budgets in BUDGETS.items():
        for method, budget in budgets.items():
            entrant = METHODS[method]
            assert list(budget.marks) == sorted(set(budget.marks))
            if isinstance(entrant, Rival):
                assert family in rival.ZOO[entrant.algorithm]
            if isinstance(entrant, Engineer) and entrant.knows_machine:
                assert FAMILIES[family].machine


@pytest.mark.parametrize("name", ["pendulums", "cart-poles", "navigation", "linear-quadratic"])
def test_contexts_are_scaled_and_unseen_tasks_are_others(name):
    family = FAMILIES[name]
    training, unseen = family.training(1), family.unseen(1)
    contexts = np.array([family.scaled_context(task) for task in [*training, *unseen]])
    assert np.all(np.abs(contexts) <= 1.0)
    assert np.ptp(contexts, axis=0).min() > 0.5
    assert not {task.name for task in training} & {task.name for task in unseen}
    assert [task.name for task in unseen] == [task.name for task in family.unseen(1)]


@pytest.mark.parametrize(("name", "least"), [("pendulums", -210.0), ("navigation", 300.0)])
def test_controllers_do_what_they_are_written_for(name, least):
    family = FAMILIES[name]
    for task in family.training(0)[:3]:
        act = family.controller(task.context)
        result = measure_episodes(act, task, EpisodeOptions(trials=5), 1.0)
        assert result.returns.mean() >= least


def test_the_controller_of_the_own_mass_is_the_optimum():
    family = FAMILIES["linear-quadratic"]
    for task in family.training(0):
        best, other = (
            measure_episodes(family.controller(context), task, EpisodeOptions(trials=5), 1.0)
            for context in (task.context, {"mass": 1.3 * task.context["mass"]})
        )
        assert best.returns.mean() > other.returns.mean()


def test_names_are_asked_for_and_unknown_ones_refused(tmp_path):
    result = plan.planned(tmp_path, ["pendulums"], ["sac", "models"], seeds=2)
    assert {cell.method for cell in result} >= {"sac-mixed", "sac-context", "models", "models-0"}
    assert {cell.seed for cell in result} == {0, 1}
    # All methods come along, seed by seed.
    assert [cell.seed for cell in result] == sorted(cell.seed for cell in result)
    (only,) = plan.planned(tmp_path, ["pendulums"], ["models-pooled"], small=True)
    assert only.budget.marks == BUDGETS["pendulums"]["models-pooled"].marks[:1]
    with pytest.raises(InputError, match="did you mean 'pendulums'"):
        plan.planned(tmp_path, ["pendulum"])
    with pytest.raises(InputError, match="no such method 'sca'"):
        plan.planned(tmp_path, methods=["sca"])
    with pytest.raises(InputError, match="give at least 1"):
        plan.planned(tmp_path, seeds=0)


def test_a_cell_is_measured_once_and_another_question_anew(little, tmp_path, monkeypatch):
    cell = Cell("pendulums", "sac-context", 3, Budget((4, 8), 1, 1.0), tmp_path)
    assert cell.go()
    (asked,) = little
    assert asked[:3] == ("sac", 2, 8)
    assert asked[3] == [
        FAMILIES["pendulums"].scaled_context(task) for task in task_set("pendulums:2", seed=3)
    ]
    stored = cell.measurement.stored()
    assert [one["steps"] for one in stored["marks"]] == [4, 8]
    assert len(stored["marks"][0]["unseen"]["totals"]) == 2
    cell.go()
    assert len(little) == 1
    longer = Cell("pendulums", "sac-context", 3, Budget((4, 8, 12), 1, 1.0), tmp_path)
    assert longer.measurement.stored() is None
    longer.go()
    assert len(little) == 2


def test_separate_agents_share_the_steps_and_their_seconds_add_up(little, tmp_path):
    cell = Cell("pendulums", "ppo-separate", 0, Budget((10, 20), 1, 1.0), tmp_path)
    result = cell.measurement.answer()
    assert little == [("ppo", 1, 10, None)] * 2
    assert [one["steps"] for one in result["marks"]] == [10, 20]
    assert result["marks"][1]["seconds"] == [4.0, 4.0]
    assert len(result["marks"][1]["training"]["totals"]) == 2
    assert result["marks"][1]["unseen"] is None


@pytest.mark.parametrize(
    ("method", "marks", "settings"),
    [
        (
            "models-inf",
            (30, 60),
            {"updates_per_round": 1, "round_steps": 15, "rollouts": 2, "look_ahead": 3},
        ),
        ("trust-region-0", (900, 1200), {"most_steps": 20, "least_steps": 10, "max_knots": 20}),
    ],
)
def test_ours_is_measured_at_marks_and_adapts(little, monkeypatch, method, marks, settings):
    entrant = METHODS[method]
    quick = dataclasses.replace(entrant, settings={**entrant.settings, **settings})
    monkeypatch.setitem(METHODS, method, quick)
    monkeypatch.setattr(cells, "ADAPTED", 1)
    result = cells.measure("pendulums", method, 0, Budget(marks, 1, 1.0, adapt=170))
    first, second = result["marks"]
    assert first["steps"] <= marks[0]
    assert first["steps"] < second["steps"] <= marks[1]
    assert second["seconds"][0] > first["seconds"][0] > 0.0
    for part in ("training", "central", "unseen"):
        assert np.all(np.isfinite(second[part]["totals"]))
    assert len(result["adapted"]["after"]["totals"]) == 1
    json.dumps(result)


def test_seeds_that_never_get_there_are_censored():
    answers = [
        {"marks": [mark(10, -300.0, -100.0), mark(20, -190.0, -100.0, seconds=2.0)]},
        {"marks": [mark(10, -150.0, -100.0), mark(20, -900.0, -100.0, seconds=2.0)]},
        {"marks": [mark(10, -300.0, -100.0), mark(20, -201.0, -100.0, seconds=2.0)]},
    ]
    reached = entry("sac-mixed", answers).reached(-200.0)
    assert reached.steps.tolist() == [20.0, 10.0, math.inf]
    # It happened after the mark before, or after the last one.
    assert reached.steps_before.tolist() == [10.0, 0.0, 20.0]
    assert reached.seconds.tolist() == [2.0, 1.0, math.inf]
    assert reached.seconds_before.tolist() == [1.0, 0.0, 2.0]
    assert reached.seeds == "2 of 3"
    assert reached.text() == "20 (10 … > 20)"
    assert reached.text("seconds") == "2 (1 … –)"
    # With one more that never gets there, the median is not known.
    reached = entry("sac-mixed", [*answers, answers[2]]).reached(-200.0)
    assert reached.seeds == "2 of 4"
    assert reached.text() == "> 20 (10 … > 20)"
    assert reached.text("seconds") == "– (1 … –)"


def test_ours_is_held_against_the_first_rival_and_agents_for_all():
    def ended(method, *ends, unseen=-5.0):
        """Return seeds of which all tasks are good at the end, and not at half of the steps."""
        marks = [[mark(n / 2, -900.0), mark(n, -100.0, unseen=unseen)] for n in ends]
        return entry(method, [{"marks": pair} for pair in marks])

    ours = ended("models", 40, 40, 40, 80, unseen=-3.0)
    slow = ended("ppo-mixed", 4000, 4000, 4000, 4000, unseen=-9.0)
    first = ended("sac-context", 400, 500, 500, 600)
    never = entry("sac-mixed", [{"marks": [mark(9, -900.0)]}] * 4)
    entries = [slow, ours, never, first]
    ratio = fewest(entries, -200.0)
    assert (ratio.ours, ratio.rival) == (ours, first)
    # Ours right after the mark before and the rival at its own, and the other way round.
    assert (ratio.least.value, ratio.most.value) == (20 / 500, 40 / 250)
    # Of four seeds each, Mann and Whitney's test leaves no factor out but those beyond all ratios.
    assert (ratio.least.low, ratio.least.high) == (20 / 600, 40 / 400)
    assert (ratio.most.low, ratio.most.high) == (40 / 300, 80 / 200)
    assert fewest([ours, never], -200.0) is None
    assert fewest([ours], -200.0) is None
    # Only agents for all, and only after as many steps: the other had nine of them.
    *_, pair = on_unseen(entries)
    assert all(one.rival is slow for one in on_unseen(entries))
    assert (pair.ours, pair.steps) == (ours, (80.0, 4000.0))
    assert (pair.found.value, pair.found.low, pair.found.high) == (6.0, 6.0, 6.0)
    assert on_unseen([ours, ended("ppo-mixed", 4000, 4000)]) == []
    # Each of our marks beside the rival's last one before our next.
    grown = entry("models", [{"marks": [mark(n, -9.0) for n in (50, 100, 900)]}] * 3)
    rival = entry("ppo-mixed", [{"marks": [mark(n, -9.0) for n in (20, 60, 80, 200, 800)]}] * 3)
    assert [one.steps for one in on_unseen([grown, rival])] == [(50.0, 80.0), (100.0, 800.0)]
    text = report.sections({"pendulums": entries})
    assert (
        "`models` (4 of 4 seeds) takes 0.04 to 0.16 times the environment steps of the first "
        "rival, SAC, one agent, observes the context (4 of 4 seeds); 95 % interval [0.033, 0.4]."
    ) in text
    assert "| `models`, 80 steps | PPO, one agent for all, 4,000 steps | 6 [6, 6] |" in text


def test_the_report_stands_between_its_marks(little, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(BUDGETS, "pendulums", {"sac-mixed": Budget((10, 20), 2, 1.0)})
    asked = plan.planned(tmp_path, ["pendulums"])
    for cell in asked:
        cell.go()
    result = entries(results.stored(asked))
    page = tmp_path / "race.md"
    parts = ("results", "settings", "budgets")
    page.write_text(
        "before\n"
        + "".join(f"<!-- begin {n} -->\nto be replaced\n<!-- end {n} -->\n" for n in parts)
        + "after"
    )
    report.write(result, page, tmp_path)
    first = page.read_text()
    assert "to be replaced" not in first
    assert "| SAC, one agent for all | 2 | 20 | 2 |" in first
    assert "`Pendulum-v1`" in first
    assert first.startswith("before")
    assert first.endswith("after")
    assert (tmp_path / "race-pendulums.png").stat().st_size > 10_000
    report.write(result, page, tmp_path)
    assert page.read_text() == first
    page.write_text("nothing")
    with pytest.raises(InputError, match="no place for results"):
        report.write(result, page, tmp_path)


def test_rows_with_former_defaults_say_so(tmp_path):
    for family, methods in AGAIN.items():
        assert set(methods) <= set(BUDGETS[family])
    assert is_former("pendulums", "models-inf")
    # What has not changed is not former: the paper's method, rivals and controllers.
    for method in ("models", "policy-gradient", "sac-mixed", "controller-own"):
        assert not is_former("pendulums", method)
    found = [entry(method, [{"marks": [mark(9, -9.0)]}]) for method in ("models", "models-inf")]
    names = [row[0] for row in report.rows("pendulums", found)]
    assert names == ["models", "models, ε = ∞ (former defaults)"]
    cells = plan.planned(tmp_path, ["pendulums"], ["models"], seeds=1)
    versions = {cell.method: cell.measurement.asked["version"] for cell in cells}
    assert versions["models"] > versions["models-inf"]


def test_one_seed_has_no_interval():
    one = entry("sac-mixed", [{"marks": [mark(10, -300.0, -100.0)]}])
    (row,) = report.rows("pendulums", [one])
    assert row[4] == "−200"


def test_a_ratio_with_too_many_censored_seeds_has_no_upper_end():
    ours = entry("models", [{"marks": [mark(n, -100.0)]} for n in (40, 40, 80)] + [never()] * 2)
    theirs = [400, 500, 500, 600, 800]
    rival = entry(
        "sac-context", [{"marks": [mark(n / 2, -900.0), mark(n, -100.0)]} for n in theirs]
    )
    ratio = fewest([ours, rival], -200.0)
    # At the first mark of ours it may have been there at once; on two seeds it never was.
    assert (ratio.least.low, ratio.most.high) == (0.0, math.inf)
    assert ratio.most.low == 40 / 300
    # A rival that is there at its first mark may have been so at once, too.
    early = entry("sac-context", [{"marks": [mark(n, -100.0)]} for n in theirs])
    assert fewest([ours, early], -200.0).most.value == math.inf
    assert "takes 0 to 0.32 times the environment steps" in report.sections(
        {"pendulums": [ours, rival]}
    )
    assert "[0, ∞]." in report.sections({"pendulums": [ours, early]})


def test_measured_cells_are_folded_into_a_table_and_read_from_it(little, tmp_path):
    folder, table = tmp_path / "cells", tmp_path / "results.jsonl.gz"
    first, second = (
        Cell("pendulums", "sac-mixed", seed, Budget((10, 20), 2, 1.0), folder) for seed in (0, 1)
    )
    assert results.fold([first], table) == 0
    second.go()
    assert results.fold([first, second], table) == 1
    first.go()
    assert results.fold([second, first], table) == 2
    once = table.read_bytes()
    results.fold([first, second], table)
    assert table.read_bytes() == once
    # Without the files the table has the same numbers, to six digits, for the same question alone.
    elsewhere = [dataclasses.replace(cell, out=tmp_path / "none") for cell in (first, second)]
    assert results.stored(elsewhere) == {}
    read = results.stored(elsewhere, table)
    kept = results.stored([first, second])
    for cell, file in zip(elsewhere, (first, second), strict=True):
        ours, theirs = (
            [mark["training"]["totals"] for mark in result["marks"]]
            for result in (read[cell], kept[file])
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    longer = dataclasses.replace(elsewhere[0], budget=Budget((10, 20, 30), 2, 1.0))
    assert results.stored([longer], table) == {}


def test_every_planned_cell_is_published(tmp_path):
    asked = plan.planned(tmp_path)
    assert set(results.stored(asked, results.TABLE)) == set(asked)
    assert plan.estimate(asked, [], 2) == f"{len(asked)} cells, 0 left"


def test_what_fails_does_not_stop_the_others(little, tmp_path, monkeypatch):
    def measure(*arguments):
        raise ValueError("no luck")

    monkeypatch.setattr(cells, "measure", measure)
    cell = Cell("pendulums", "sac-mixed", 0, Budget((10,), 1, 1.0), tmp_path)
    assert cell.go()
    assert "no luck" in cell.failure.read_text()
    assert cell.measurement.stored() is None


def test_the_command_says_what_it_would_take_and_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(rival, "installed", lambda: False)
    out = ["--out", str(tmp_path), "--plan"]
    assert command.main(["--families", "pendulums", "--seeds", "1", *out]) == 0
    printed = capsys.readouterr().err
    assert "crosslearning[bench" in printed.replace("\n", "")
    assert "min, 2 at a time" in printed
    assert command.main(["--methods", "nonsense", *out]) == 2
    assert command.main(["report", "--out", str(tmp_path)]) == 2
    assert "nothing was measured yet" in capsys.readouterr().err


def test_what_a_rival_does_with_its_settings_does_not_change_the_question():
    setting = rival.ZOO["sac"]["reachers"]
    before = json.dumps(dataclasses.asdict(setting))
    given = rival._keywords("sac", setting, 3)
    given["policy_kwargs"]["use_sde"] = True
    assert json.dumps(dataclasses.asdict(setting)) == before
    # PPO's rollouts stay about as long, in whole batches, whatever the number of environments.
    given = rival._keywords("ppo", rival.ZOO["ppo"]["cart-poles"], 6)
    assert given["n_steps"] % given["batch_size"] == 0
    assert 6 * given["n_steps"] == pytest.approx(8 * 2048, rel=0.05)
    # Agents without rollouts update as often for each step, whatever the number of environments.
    for algorithm, updates in (("sac", 1), ("crossq", 1), ("sac20", 20), ("mbpo", 20)):
        given = rival._keywords(algorithm, rival.ZOO[algorithm]["pendulums"], 8)
        assert (given["train_freq"], given["gradient_steps"]) == (1, 8 * updates)


@pytest.mark.skipif(rival.installed(), reason="the extra 'bench' is installed")
def test_without_the_extra_a_rival_names_it():
    with pytest.raises(MissingExtraError, match="crosslearning\\[bench"):
        rival.learn("sac", task_set("pendulums:1"), 10, 0, rival.ZOO["sac"]["pendulums"])


@pytest.mark.skipif(not rival.installed(), reason="the extra 'bench' is not installed")
@pytest.mark.parametrize("algorithm", ["sac", "ppo", "crossq", "mbpo"])
def test_a_real_rival_observes_contexts_and_is_evaluated_at_marks(algorithm):
    looks = []
    tasks = task_set("pendulums:2")
    setting = rival.ZOO[algorithm]["pendulums"]
    short = {"ppo": {"n_steps": 8}, "mbpo": {"learning_starts": 100, "gradient_steps": 1}}
    keywords = {**setting.keywords, **short.get(algorithm, {})}
    agent, spent = rival.learn(
        algorithm,
        tasks,
        120,
        0,
        rival.Setting("", keywords),
        contexts=[[0.5], [-0.5]],
        reach=([-1.0], [1.5]),
        marks=(40, 120),
        look=lambda agent, steps, spent: looks.append((steps, spent.clock)),
    )
    # PPO takes whole rollouts.
    assert [steps for steps, _ in looks] == [40, looks[-1][0]]
    assert 120 <= looks[-1][0] < 130
    assert 0.0 < looks[0][1] < looks[1][1] <= spent.clock
    rows = agent.with_context([0.5]).predict_rows(np.zeros((7, 3)))
    assert rows.shape == (7, 1)
    assert np.all((rows >= -1.0) & (rows <= 1.5))
