"""The figure of a sweep, checked by what is drawn in it."""

import math

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from crosslearning.errors import InputError
from crosslearning.figures.sweep import sweep_figure
from tests.figures.examples import bars, labels


def sweep(epsilons=(0.0, 0.5, 2.0, math.inf), seeds=2, held_out=True):
    """Return what ``sweep.json`` holds; at every radius both seeds are 1 apart."""

    def plain(epsilon):
        return "inf" if math.isinf(epsilon) else epsilon

    def number(value, half=1.0):
        values = {"value": value, "low": value - half, "high": value + half}
        if seeds == 1:
            values |= {"low": None, "high": None}
        return {**values, "seeds": [value] * seeds}

    rows = []
    for k, epsilon in enumerate(epsilons):
        row = {"epsilon": plain(epsilon), "own": number(k - 0.5), "central": number(-0.5)}
        row["distance"] = number(min(epsilon, 1.5), 0.2)
        row["multiplier"] = {"value": None, "seeds": []} if epsilon == 0 else number(0.1 * k)
        rows.append(row | ({"held_out": number(float(k))} if held_out else {}))
    best = {
        "epsilon": plain(epsilons[-1]),
        "by": "held_out" if held_out else "central",
        "not_significantly_different": [plain(epsilon) for epsilon in epsilons[-2:]],
    }
    return {"seeds": list(range(seeds)), "recommendation": best, "rows": rows}


def points(axes, marker):
    (points,) = [line for line in axes.get_lines() if line.get_marker() == marker]
    return points


def test_there_is_a_place_for_every_radius():
    returns, held_out, ratios, _ = sweep_figure(sweep()).axes
    places = returns.get_xticks()
    assert [label.get_text() for label in returns.get_xticklabels()] == ["0", "0.5", "2", "∞"]
    assert places[2] - places[1] == pytest.approx(2.0)  # two doublings
    assert np.all(np.diff(places) > 0.9)
    assert [label.get_text() for label in held_out.get_xticklabels()] == ["0", "0.5", "2", "∞"]
    assert "recommended" in [text.get_text() for text in held_out.texts]
    np.testing.assert_allclose(points(returns, "o").get_ydata(), [-0.5, 0.5, 1.5, 2.5])
    np.testing.assert_allclose(points(returns, "s").get_ydata(), [-0.5] * 4)
    shares = points(ratios, "o").get_ydata()
    np.testing.assert_allclose(shares, [math.nan, 1.0, 0.75, math.nan])


def test_intervals_are_bars_and_never_where_a_number_cannot_be():
    figure = sweep_figure(sweep())
    returns, held_out, ratios, multipliers = figure.axes
    assert all(isinstance(one, LineCollection) for axes in figure.axes for one in axes.collections)
    np.testing.assert_allclose(bars(held_out), [[k - 1.0, k + 1.0] for k in range(4)])
    assert np.any(bars(returns) < 0.0)  # a return may be
    ends = bars(ratios)
    np.testing.assert_allclose(ends[np.isfinite(ends[:, 0])], [[0.6, 1.0], [0.65, 0.85]])
    ends = bars(multipliers)
    np.testing.assert_allclose(ends[np.isfinite(ends[:, 0])], [[0.0, 1.1], [0.0, 1.2], [0.0, 1.3]])
    assert "bars: 95 % intervals over 2 seeds" in labels(figure)


def test_a_relaxed_distance_above_epsilon_is_seen():
    content = sweep((1.0, 2.0))
    content["rows"][0]["distance"] = {"value": 1.05, "low": 1.0, "high": 1.1, "seeds": [1.04, 1.06]}
    ratios = sweep_figure(content).axes[2]
    assert points(ratios, "o").get_ydata()[0] == pytest.approx(1.05)
    assert ratios.get_ylim()[1] > 1.06


def test_one_seed_has_no_bars():
    figure = sweep_figure(sweep(seeds=1))
    for axes in figure.axes:
        low, high = bars(axes).T
        np.testing.assert_allclose(low, high, atol=1e-12)
        assert np.all(np.isfinite(axes.get_ylim()))
    assert "one seed: no intervals" in labels(figure)


@pytest.mark.parametrize("epsilons", [(1.0,), (0.0,), (math.inf,), (0.0, math.inf)])
@pytest.mark.parametrize("held_out", [False, True])
def test_few_radii_can_be_drawn_too(epsilons, held_out):
    figure = sweep_figure(sweep(epsilons, 1, held_out))
    assert len(figure.axes) == (4 if held_out else 3)
    figure.draw_without_rendering()


def test_a_sweep_without_a_radius_is_refused():
    with pytest.raises(InputError, match="nothing to draw"):
        sweep_figure({"rows": [], "recommendation": {}, "seeds": []})
