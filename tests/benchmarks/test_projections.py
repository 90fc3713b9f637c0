"""The comparison of the projections: what it asks, and that gains are paired by the seed."""

import numpy as np
import pytest

from benchmarks import projections


def test_gains_over_the_exact_projection_are_paired(monkeypatch, tmp_path):
    gains = {"exact": 0.0, "free": 5.0, "relaxed": -5.0}

    def measure(method, projection, epsilon, seed):
        own = [-100.0 * seed + gains[projection]] * 8
        return {"own": own, "central": [2.0 * one for one in own]}

    monkeypatch.setattr(projections, "measure", measure)
    rows = projections.compared("models", 1.0, 5, tmp_path)
    assert [row.ratio for row in rows] == pytest.approx([-200, -195, -205, -400, -390, -410])
    assert "less exact 5 [5, 5]" in rows[1].measured
    assert "less exact -10 [-10, -10]" in rows[5].measured
    assert len(list(tmp_path.iterdir())) == 15


@pytest.mark.parametrize("projection", projections.PROJECTIONS)
def test_a_seed_is_measured(monkeypatch, projection):
    monkeypatch.setattr(projections, "FAMILY", "pendulums:2")
    monkeypatch.setattr(projections, "TRIALS", 2)
    monkeypatch.setitem(projections.STEPS, "trust-region", 3000)
    answer = projections.measure("trust-region", projection, 0.3, 0)
    assert len(answer["own"]) == len(answer["central"]) == 2
    assert answer["steps"] >= 3000
    assert np.all(np.isfinite(answer["own"]))
