"""The benchmark of learning in models: what it counts, and one tiny question that is measured."""

import numpy as np
import pytest

from benchmarks import models as benchmark
from benchmarks import pendulum_optimum
from crosslearning.tasks import task_set


def answer(*totals, upright=1.0):
    """Return what a seed is said to have given: the same return on two tasks at every mark."""
    rates = {"upright": [upright, 1.0]}
    return {"marks": [{"totals": [total, total - 10.0], "rates": rates} for total in totals]}


@pytest.fixture
def told(monkeypatch):
    """Make up what seeds give, by the label of what was asked."""
    answers = {}

    def seeds_of(part, label, settings, **options):
        return answers[label]

    monkeypatch.setattr(benchmark, "seeds_of", seeds_of)
    return answers


def test_kinds_of_models_are_compared_by_the_seed(told):
    told["cross-learned"] = [answer(-160.0 - s, -150.0 - s, -140.0 - s) for s in range(4)]
    told["pooled"] = [answer(-300.0 - s, -151.0 - s) for s in range(4)]
    told["separate"] = [answer(-500.0, -100.0 - s) for s in range(4)]
    rows = {row.what: row for row in benchmark.fleet()}
    level = next(row for what, row in rows.items() if "cross-learned models, 100 steps" in what)
    assert level.ratio == pytest.approx(-156.5)
    assert level.met
    # A difference of one for every seed is one, whatever the seeds are like.
    assert rows["the same, cross-learned less pooled, 100 steps each"].ratio == pytest.approx(1.0)
    assert rows["the same, cross-learned less pooled, 100 steps each"].met
    assert not rows["the same, cross-learned less separate, 100 steps each"].met


def test_the_best_radius_in_between_is_held_against_both_ends(told):
    for radius, value in {
        "0": -200.0,
        "1": -170.0,
        "3": -150.0,
        "10": -155.0,
        "inf": -150.0,
    }.items():
        told[radius] = [answer(value + s) for s in range(4)]
    rows = {row.what: row for row in benchmark.radius()}
    assert rows["the same, ε = 3 less ε = 0"].ratio == pytest.approx(50.0)
    assert rows["the same, ε = 3 less ε = 0"].met
    assert not rows["the same, ε = 3 less ε = inf"].met


@pytest.mark.parametrize(("bad", "met"), [(1, True), (2, False)])
def test_cart_poles_count_the_seeds_whose_every_machine_stands(told, bad, met):
    stands = [answer(-15.0, -15.0, -15.0) for _ in range(5)]
    for one in range(bad):
        stands[one] = answer(-15.0, -15.0, -15.0, upright=0.89)
    told["cross-learned"] = stands
    *_, last = benchmark.carts()
    assert last.ratio == pytest.approx(1.0 - bad / 5)
    assert last.met is met


def test_a_seed_is_measured_once(monkeypatch, tmp_path):
    monkeypatch.setitem(benchmark.FAMILIES, "fleet", "pendulums:2")
    monkeypatch.setitem(benchmark.MARKS, "fleet", (15, 30))
    monkeypatch.setitem(benchmark.TRIALS, "fleet", 2)
    settings = {
        "updates_per_round": 1,
        "round_steps": 15,
        "rollouts": 2,
        "look_ahead": 3,
        "epsilon": "inf",
    }
    (result,) = benchmark.seeds_of("fleet", "pooled", settings, seeds=1, out=tmp_path)
    assert [one["steps"] for one in result["marks"]] == [15.0, 30.0]
    assert np.all(np.isfinite([one["totals"] for one in result["marks"]]))
    monkeypatch.setattr(benchmark, "measure", None)
    assert benchmark.seeds_of("fleet", "pooled", settings, seeds=1, out=tmp_path) == [result]


def test_a_round_is_timed_with_the_data_that_were_asked_for(monkeypatch):
    tiny = {
        "round_steps": 15,
        "updates_per_round": 2,
        "rollouts": 2,
        "look_ahead": 3,
        "model_knots": 20,
    }
    learner = benchmark.with_data(2, 40, **tiny)
    assert [len(own.rewards) for own in learner.method.data] == [40, 40]
    clock, processor = benchmark.a_round(learner)
    assert (learner.iteration, len(learner.method.models)) == (2, 4)
    assert min(clock, processor) > 0.0
    # Of what grows with the square of its size the exponent is 2.
    monkeypatch.setattr(benchmark, "with_data", lambda **given: given)
    grown = {"steps": 1.0, "model_knots": 1.0, "tasks": 2.0}

    def squared(given):
        return 0.0, float(np.prod([given.get(name, 1) ** power for name, power in grown.items()]))

    monkeypatch.setattr(benchmark, "a_round", squared)
    assert [row.ratio for row in benchmark.growth()] == pytest.approx([1.0, 1.0, 2.0])


def test_the_best_policies_are_held_against_what_was_learned(told, monkeypatch, tmp_path):
    told["cross-learned"] = [answer(-160.0, -150.0, -140.0)] * 3
    best = {"totals": [-130.0, -130.0]}
    monkeypatch.setattr(pendulum_optimum, "measure", lambda seed, trials: best)
    rows = benchmark.optimum(seeds=3, out=tmp_path)
    assert [row.ratio for row in rows] == pytest.approx([-130.0, 35.0, 25.0, 15.0])


def test_the_best_policy_is_what_dynamic_programming_says(monkeypatch):
    # From upright at rest nothing is to be paid, but for what the grid rounds off.
    (task,) = task_set("pendulums:1")
    parameters = np.array([task.context[name] for name in ("g", "m", "l")])
    monkeypatch.setattr(pendulum_optimum, "GRID", (40, 41))
    values = np.empty((31, *pendulum_optimum.GRID))
    pendulum_optimum._values(parameters, values)
    states = np.array([[0.0, 0.0], [0.3, 0.0], [np.pi, 0.0]])
    upright, near, hanging = pendulum_optimum._played(parameters, values, states.copy())
    assert upright == pytest.approx(0.0, abs=1e-12)
    assert -10.0 < near < -0.5
    assert hanging < -150.0
    # What is played is what the compiled pendulum gives for the same torques.
    first = pendulum_optimum._best(parameters, values[1], states[1], pendulum_optimum.PLAYED)[0]
    assert first < 0.0  # back to the top
    # The starts are those of an evaluation.
    starts = pendulum_optimum.starts_of(task, 5)
    assert starts.shape == (5, 2)
    assert np.all(np.abs(starts) <= [np.pi, 1.0])


def test_a_mark_is_held_against_the_best_before_it(told):
    better = [answer(*(-60.0 + 10.0 * k for k in range(4))) for _ in range(3)]
    # 18 % below the best before it, at every later mark.
    told["cross-learned"] = [*better, answer(-100.0, -119.0, -119.0, -119.0)]
    *_, mean, worst = benchmark.reactors()
    assert mean.met
    assert mean.ratio == 4
    told["cross-learned"] = [*better, answer(-150.0, -100.0, -60.0, -75.0)]
    *_, mean, worst = benchmark.reactors()
    assert not mean.met
    assert mean.ratio == worst.ratio == 3
    assert "0.23" in mean.measured
