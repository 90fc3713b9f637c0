"""The benchmark of learning around controllers: what it counts, and one tiny question."""

import numpy as np
import pytest

from benchmarks import around as benchmark
from crosslearning.tasks.families import FAMILIES

HOVERING = benchmark.PARTS["hovering-masses"]


def answer(
    around,
    in_use=(-4.0, -2.0),
    knowing=(-3.0, -1.5),
    tuned=(-3.0, -2.0),
    cost=-0.2,
    fresh=None,
):
    """Return what a seed is said to have given on two machines."""

    def rows(returns):
        return [{"return": value, "first": -0.1, "steady": -0.01 * value} for value in returns]

    given = {"in use": in_use, "knowing": knowing, "best tuning": tuned, "around": around}
    given["from nothing"] = (-90.0, -80.0)
    costs = {"around": [cost, cost], "from nothing": [-2.0, -2.0]}
    named = {k: rows(v) for k, v in given.items()}
    return {"rows": named, "cost": costs, "steps": 50.0, "fresh": fresh or [[1.0, 0.5, 1.5]] * 2}


def rows_of(*answers):
    rows = benchmark.rows_of(HOVERING, answers, 0.3)
    return {row.what.removeprefix("the same, "): row for row in rows}


def test_a_seed_counts_if_every_machine_is_no_worse():
    fine, worse = answer((-2.0, -2.0)), answer((-2.0, -2.1))
    assert rows_of(fine, fine, fine)["no worse than in use"].met
    row = rows_of(fine, worse, fine)["no worse than in use"]
    assert not row.met
    assert row.measured == "every machine on 2 of 3 seeds; machines per seed [2, 1, 2]"


def test_machines_that_lose_are_told_with_their_intervals():
    fine = answer((-2.0, -1.9))
    gained = [1.0, 0.5, 1.5]
    unsure, sure = (answer((-2.0, -2.1), fresh=[gained, [-0.1, -0.2, h]]) for h in (0.1, -0.05))
    unlucky = answer((-2.0, -2.1), fresh=[gained, gained])
    fresh, below = f"on {benchmark.FRESH_TRIALS} fresh starts", "intervals below 0"
    rows = rows_of(fine, unlucky)
    assert rows[fresh].met
    assert "seed 1, machine 1: 1 [0.5, 1.5]; -0.1 above" in rows[fresh].measured
    rows = rows_of(unsure, fine)
    assert not rows[fresh].met
    assert rows[below].met
    assert rows_of(unsure, sure)[below].measured == "1 of 4"


def test_fresh_starts_are_paired():
    task = FAMILIES["hovering-masses"](1)[0].around(HOVERING.in_use())

    class Pushes:
        def predict(self, seen):
            return np.full((len(seen), 1), push), None

    push = 0.0
    assert benchmark.fresh_gain(task, Pushes(), 3) == [0.0, 0.0, 0.0]
    push = 5.0  # far too much thrust
    assert benchmark.fresh_gain(task, Pushes(), 3)[2] < 0.0


def test_differences_are_paired_by_the_seed():
    # Seeds differ much, what is gained on them does not.
    seeds = [answer((-s, -s), knowing=(-s - 0.5, -s - 0.5)) for s in (2.0, 20.0, 50.0)]
    ahead = rows_of(*seeds)["ahead of knowing"]
    assert ahead.met
    assert ahead.ratio == pytest.approx(0.5)
    assert benchmark.mean_over_seeds([0.5] * 3).low == pytest.approx(0.5)


def test_the_best_tuning_is_one_for_all_machines():
    ahead = rows_of(answer((-2.0, -1.0)), answer((-2.0, -2.0)))["ahead of the best tuning"]
    assert ahead.ratio == pytest.approx(0.75)
    assert ahead.met
    assert not rows_of(answer((-3.5, -1.6)))["ahead of the best tuning"].met
    pid = benchmark.PARTS["dc-motors"].in_use()
    gains = {
        (float(one.kp[0, 0] / pid.kp[0, 0]), float(one.ki[0, 0] / pid.ki[0, 0]))
        for one in benchmark.tunings(pid)
    }
    assert gains == {(a, b) for a in (0.5, 1.0, 2.0) for b in (0.5, 1.0, 2.0)}
    assert len(benchmark.tunings(HOVERING.in_use())) == 3


def test_the_tuning_with_the_best_mean_is_taken(monkeypatch):
    part = benchmark.Part("hovering-masses", None)
    returns = {(0.0, 0): -1.0, (0.0, 1): -9.0, (1.0, 0): -3.0, (1.0, 1): -4.0}

    class Machine(int):
        def around(self, tuning):
            return tuning, int(self)

    monkeypatch.setattr(benchmark.Part, "in_use", lambda self: None)
    monkeypatch.setattr(benchmark, "tunings", lambda _: [0.0, 1.0])
    monkeypatch.setattr(benchmark, "run", lambda task, *_: {"return": returns[task]})
    best = benchmark.best_tuning(part, [Machine(0), Machine(1)], 5)
    assert [one["return"] for one in best] == [-3.0, -4.0]


def test_the_interval_is_students():
    from scipy.stats import t

    values = [1.0, 2.0, 4.0, 4.5]
    interval = benchmark.mean_over_seeds(values)
    low, high = t.interval(0.95, 3, np.mean(values), np.std(values, ddof=1) / 2.0)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert np.isinf(benchmark.mean_over_seeds(values[:2]).high)


def test_costs_are_ratios_to_the_controllers_own():
    cheap, dear = (rows_of(answer((-2.0, -2.0), cost=cost)) for cost in (-0.19, -0.21))
    assert cheap["cost while learning around"].met
    assert not dear["cost while learning around"].met
    assert cheap["cost while learning from nothing"].ratio == pytest.approx(20.0)


@pytest.mark.parametrize("name", benchmark.PARTS)
def test_every_controller_in_use_runs_its_machines(name):
    part = benchmark.PARTS[name]
    task = FAMILIES[name](1)[0].around(part.in_use())
    with np.errstate(all="raise"):
        environment = task.make()
        environment.reset(seed=0)
        reward = environment.step(np.zeros(task.action_size))[1]
    assert np.isfinite(reward)


def test_a_run_counts_returns_first_steps_and_the_last_fifth(monkeypatch):
    monkeypatch.setattr(benchmark, "TRIALS", 1)
    task = FAMILIES["hovering-masses"](1)[0].around(HOVERING.in_use())
    result = benchmark.run(task, None, {0: 0.0}, 5)
    environment = task.make()
    environment.reset(seed=benchmark.FIRST)
    steps = [environment.step([0.0]) for _ in range(50)]
    rewards = [reward for _, reward, *_ in steps]
    assert result["return"] == pytest.approx(sum(rewards))
    assert result["first"] == pytest.approx(np.mean(rewards[:5]))
    assert result["steady"] == pytest.approx(np.mean([abs(seen[0]) for seen, *_ in steps[40:]]))


def test_a_seed_is_measured_once(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "TRIALS", 2)
    part = benchmark.Part("hovering-masses", HOVERING.controller, 2, held={0: 0.0}, fresh=3)
    settings = {"updates_per_round": 2, "rollouts": 4, "look_ahead": 4, "round_steps": 10}
    asked = (part, [0], 10, 0.3, settings, tmp_path)
    (found,) = benchmark.answers(*asked)
    assert found["steps"] == 10.0
    assert [len(machines) for machines in found["rows"].values()] == [2] * 5
    monkeypatch.setattr(benchmark, "measure", None)
    assert benchmark.answers(*asked) == [found]
