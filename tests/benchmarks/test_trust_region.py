"""The benchmark of the trust-region method: what it counts, with a rival that is made up."""

import numpy as np
import pytest
from benchmarks.rival import Seconds

from benchmarks import rival
from benchmarks import trust_region as benchmark
from benchmarks import trust_region_sharing as sharing

#: Settings with which a learner is done at once.
QUICK = {"most_steps": 2, "least_steps": 1, "max_knots": 20}


@pytest.fixture
def little(monkeypatch):
    """Make every part short."""
    # A little more than what initial exploration takes.
    for table, value in ((benchmark.STEPS, 1300), (benchmark.SEEDS, 2), (benchmark.TRIALS, 2)):
        for part in table:
            monkeypatch.setitem(table, part, value)


def answer(total, seconds=(3.0, 2.0), **more):
    """Return what a seed is said to have given: the same return on three tasks."""
    ours = {"totals": [total] * 3, "discounted": [total] * 3, "rates": {"crashed": [0.0] * 3}}
    return {"ours": ours, "seconds": seconds, "steps": 10, "knots": 5, **more}


def given(monkeypatch, answers):
    monkeypatch.setattr(benchmark, "seeds_of", lambda part, settings, **options: answers)


@pytest.mark.parametrize(("bad", "met"), [(2, True), (3, False)])
def test_pendulums_count_the_seeds_on_which_every_task_is_good(monkeypatch, bad, met):
    between = {"between": {"totals": [-150.0, -160.0]}}
    result = [answer(-150.0, **between) for _ in range(10)]
    for one in result[:bad]:
        one["ours"]["totals"] = [-150.0, -150.0, -201.0]
    given(monkeypatch, result)
    learned, centre = benchmark.pendulums()
    assert learned.ratio == pytest.approx(1.0 - bad / 10)
    assert learned.met is met
    assert centre.met is True
    assert "g = 11: -160" in centre.measured


@pytest.mark.parametrize(("fallen", "met"), [(1, True), (2, False)])
def test_marks_count_the_seeds_that_fall_below_their_best(monkeypatch, fallen, met):
    def seed(last):
        marks = {"40000": [-260.0, -230.0], "80000": [-190.0, -190.0], "320000": [last, last]}
        return {"marks": marks, "before": [-180.0], "after": [-190.0]}

    given(monkeypatch, [seed(-210.0 if k < fallen else -208.0) for k in range(10)])
    first, second, last, settled, adapted = benchmark.marks()
    assert (first.ratio, first.met) == (-245.0, True)
    assert (second.ratio, second.met) == (-190.0, False)
    assert last.met is None
    assert (settled.ratio, settled.met) == (pytest.approx(1.0 - fallen / 10), met)
    assert (adapted.ratio, adapted.met) == (-10.0, False)


def test_marks_are_taken_of_one_learner_that_never_exceeds_them(monkeypatch, tmp_path):
    for name, value in (
        ("MARKS", {2000: None, 4000: None}),
        ("ADAPTING", 700),
        ("MANY", "pendulums:2"),
    ):
        monkeypatch.setattr(benchmark, name, value)
    monkeypatch.setitem(benchmark.TRIALS, "marks", 2)
    monkeypatch.setattr(benchmark, "UNSEEN", "pendulums:unseen:1")
    # With a small ε the constraint binds at once, so that there is a central policy to adapt.
    settings = {"max_knots": 20, "epsilon": 0.01, "reliable": 0.0}
    (result,) = benchmark.seeds_of("marks", settings, seeds=1, out=tmp_path, steps=3500)
    assert [len(totals) for totals in result["marks"].values()] == [2, 2]
    assert list(result["marks"]) == ["2000", "3500"]
    assert len(result["before"]) == len(result["after"]) == 1


def test_plain_steps_are_taken_off_both_times(monkeypatch):
    more = {"ppo": {"totals": [-9.0] * 3}, "ppo_seconds": (21.0, 12.0), "stepping": (1.0, 1.5)}
    given(monkeypatch, [answer(-7.0, **more)] * 4)
    apart, clock, processor = benchmark.reachers()
    assert apart.ratio == 2.0
    assert apart.met is True
    assert (clock.ratio, clock.met) == (pytest.approx(2.0 / 20.0), True)
    assert processor.ratio == pytest.approx(0.5 / 10.5)


def test_without_the_rival_ours_is_measured_and_the_extra_named(monkeypatch):
    given(monkeypatch, [answer(-7.0)] * 4)
    (row,) = benchmark.reachers()
    assert row.ratio == -7.0
    assert row.met is None
    assert "crosslearning[bench,mujoco,box2d]" in row.measured


def test_a_seed_is_measured_once_for_a_question(little, tmp_path, monkeypatch):
    result = benchmark.seeds_of("pendulums", QUICK, seeds=1, out=tmp_path)
    assert len(result[0]["ours"]["totals"]) == 3
    assert len(result[0]["between"]["totals"]) == 2
    assert result[0]["steps"] >= 2
    monkeypatch.setattr(benchmark, "measure", lambda *arguments: pytest.fail("measured again"))
    assert benchmark.seeds_of("pendulums", QUICK, seeds=1, out=tmp_path) == result


def test_another_method_and_other_steps_may_be_asked_for(little, tmp_path):
    settings = {"method": "policy-gradient", "max_knots": 20}
    asked = {"settings": settings, "seeds": 1, "steps": 700, "out": tmp_path}
    learned, crashes = benchmark.navigation(**asked)
    assert "navigation, policy-gradient, 700 steps, 1 seeds: return" in learned.what
    assert crashes.ratio <= 1.0
    (kept,) = tmp_path.glob("*.json")
    assert '"steps": 700' in kept.read_text()


def test_the_rival_gets_an_equal_share_of_the_steps_that_ours_took(little, monkeypatch):
    pytest.importorskip("mujoco")
    asked = []

    def learn(algorithm, tasks, steps, seed, setting):
        asked.append((algorithm, len(tasks), steps, setting))
        return (lambda observation: np.zeros(1)), Seconds(2.0, 1.0)

    monkeypatch.setattr(rival, "learn", learn)
    result = benchmark.measure("inverted-pendulums", 0, 3300, QUICK, against=True)
    setting = rival.ZOO["ppo"]["inverted-pendulums"]
    assert asked == [("ppo", 1, result["steps"] // 3, setting)] * 3
    assert result["ppo_seconds"] == [6.0, 3.0]
    assert all(one > 0.0 for one in result["stepping"])


@pytest.mark.skipif(not rival.installed(), reason="the extra 'bench' is not installed")
def test_the_rival_acts_on_scaled_observations():
    task = benchmark.tasks_of("inverted-pendulums")[0]
    agent, spent = rival.learn("ppo", [task], 64, 0, rival.ZOO["ppo"]["inverted-pendulums"])
    assert spent.clock > 0.0
    action, _ = agent.predict(np.zeros(4))
    plain, _ = agent.model.predict(agent.scaling.normalize_obs(np.zeros(4)), deterministic=True)
    np.testing.assert_array_equal(action, plain)


def test_what_tasks_give_one_another_is_measured_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "MOST", 2_000)
    monkeypatch.setitem(sharing.LEARNED, "trust-region", {"linear-quadratic": 6_000})
    monkeypatch.setitem(sharing.ADAPTING, "trust-region", 400)
    monkeypatch.setattr(sharing, "TRIALS", 2)
    for part in (sharing.adapting, sharing.steps):
        rows = part(settings={}, seeds=2, out=tmp_path)
        assert [row.measured for row in part(settings={}, seeds=2, out=tmp_path)] == [
            row.measured for row in rows
        ]
    assert len(list(tmp_path.glob("*.json"))) == 4
