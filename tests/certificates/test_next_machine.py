"""Bounds on what machines never seen will return hold with their confidence, exactly."""

import math
from contextlib import closing

import numpy as np
import pytest

from crosslearning import CrossLearner, task_set
from crosslearning._base.statistics import least_share, tolerance_bound
from crosslearning.certificates import certificate_page, certify
from crosslearning.certificates.next_machine import next_machine, unseen_machines
from crosslearning.errors import InputError
from crosslearning.rkhs import Gaussian
from crosslearning.runs import RunFolder, make_config, train


def test_a_share_without_failures_has_a_bound_in_closed_form():
    """All of n succeed: p^n = 1 − confidence."""
    for n in (1, 10, 59):
        assert math.isclose(least_share(n, n), 0.05 ** (1 / n), rel_tol=1e-12)
    assert least_share(0, 5) == 0.0
    # One of n fails: p^n + n p^(n−1) (1 − p) = 1 − confidence.
    p = least_share(19, 20, 0.9)
    assert math.isclose(p**20 + 20 * p**19 * (1 - p), 0.1, rel_tol=1e-9)


@pytest.mark.parametrize(("share", "confidence", "needed"), [(0.9, 0.95, 29), (0.95, 0.95, 59)])
def test_the_smallest_sample_is_known(share, confidence, needed):
    values = np.arange(needed, dtype=float)
    assert tolerance_bound(values, share, confidence).value == 0.0
    fewer = tolerance_bound(values[:-1], share, confidence)
    assert (fewer.value, fewer.needed) == (-math.inf, needed)


def test_ranks_are_those_of_the_tables():
    """46 draws give the second smallest for 90 % at 95 %, 61 the third."""
    for n, rank in ((29, 1), (45, 1), (46, 2), (60, 2), (61, 3)):
        assert tolerance_bound(np.arange(n), 0.9).value == rank - 1


@pytest.mark.parametrize("draw", ["normal", "exponential", "coin"])
def test_the_bounds_hold_with_at_least_their_confidence(draw):
    """The share of the population at or above the bound, in 4,000 samples."""
    from scipy.special import ndtr

    generator, n, share = np.random.default_rng(0), 40, 0.9
    draws = {
        "normal": (generator.standard_normal, lambda x: 1.0 - ndtr(x)),
        "exponential": (generator.standard_exponential, lambda x: math.exp(-x)),
        "coin": (lambda size: generator.random(size) < 0.9, lambda x: 1.0 if x <= 0 else 0.9),
    }
    sample, above = draws[draw]
    samples = [np.asarray(sample(n), dtype=float) for _ in range(4000)]
    held = np.mean([above(tolerance_bound(one, share).value) >= share for one in samples])
    assert held >= 0.95 - 3.0 * math.sqrt(0.05 * 0.95 / 4000)
    bounds = [least_share(int(np.sum(one >= 0.5)), n) <= above(0.5) for one in samples]
    assert np.mean(bounds) >= 0.95 - 3.0 * math.sqrt(0.05 * 0.95 / 4000)


def test_a_learner_adapts_to_each_machine():
    few = {"method": "models", "round_steps": 10, "updates_per_round": 2}
    learner = CrossLearner("pendulums:2", 0.01, **few).learn(2, progress=False)
    tasks = task_set("pendulums:unseen:2")
    before = next_machine(learner, tasks, share=0.3, confidence=0.9, trials=1)
    assert before.bound.value == min(before.returns)
    assert before.adapted is None
    assert "With 90% confidence at least 30%" in str(before)
    adapted = next_machine(learner, tasks, trials=1, steps=10)
    assert (adapted.adapted, adapted.bound.value) == (10, -math.inf)
    assert "2 machines are too few" in str(adapted)


def test_machines_that_were_learned_are_refused():
    learner = CrossLearner("linear-quadratic")
    with pytest.raises(InputError, match="give tasks never seen"):
        next_machine(learner, learner.tasks)
    with pytest.raises(InputError, match="only a learner can adapt"):
        next_machine(lambda x: x, learner.tasks, steps=10)


def test_a_certificate_bounds_what_unseen_machines_return(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fields = {"tasks": "pendulums:2", "method": "trust-region", "iterations": 2, "epsilon": 1.0}
    fields |= {"episode_steps": 10, "least_steps": 20, "reliable": 0.0}
    train("run", make_config({**fields, "seed": 1}))
    made = certify("run", samples=20, next_machine=0.3, adapt_steps=40)
    before, after = made.unseen
    assert (before.adapted, after.adapted) == (None, 40)
    assert len(before.returns) == before.bound.needed == 3  # 0.3³ < 5 %
    with closing(RunFolder.open("run").load()) as learner:
        machines = task_set("pendulums:unseen:3")
        assert before == next_machine(learner, machines, 0.3, seed=0)
        assert {task.name for task in machines}.isdisjoint(task.name for task in learner.tasks)
    page = certificate_page(made)
    assert "6. Machines never seen" in page
    assert "after adapting with 40 steps" in " ".join(page.split())
    assert made.to_plain()["unseen"][1]["adapted"] == 40
    assert certify("run", samples=20).unseen == ()
    with pytest.raises(InputError, match="adapt_steps needs next_machine"):
        certify("run", samples=20, adapt_steps=40)


def test_only_a_family_has_unseen_machines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="only a named set that draws members"):
        unseen_machines(CrossLearner(task_set("pendulums:1"), kernel=Gaussian(std=[1.0] * 3)), 3)
