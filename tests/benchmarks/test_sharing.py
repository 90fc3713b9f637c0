"""The map of when sharing pays: what it measures on tiny grids, and what it says of numbers."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.sharing import gains, parts, report
from benchmarks.sharing.__main__ import main

from crosslearning._base.statistics import Interval
from crosslearning.errors import InputError

CARTS = next(one for one in gains.QUANTITIES if one.part == "carts")
GRID = parts.Grid((0.0, 0.3, 1.0, math.inf), (100,), seeds=4, spreads=(1.0,))


def told(together, low, high, apart, held_out=None):
    """Return a measurement of one point, radii by seeds, as if it had been read."""
    own = np.array([together, low, high, apart], dtype=float)[None, None]
    return {"own": own, "held_out": own if held_out is None else np.array(held_out)[None, None]}


def test_a_radius_is_chosen_by_the_other_seeds():
    values = np.array([[10.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    # Seed 0 made the first row look best: it is not to choose for itself.
    np.testing.assert_array_equal(gains.chosen_blind(values), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(gains.chosen_blind(values[:1]), values[0])


def test_gains_are_paired_by_the_seed():
    seeds = np.array([-300.0, -200.0, -100.0, 0.0])
    measured = told(seeds - 5.0, seeds - 9.0, seeds, seeds + 2.0)
    (point,) = gains.points(CARTS, GRID, measured)
    assert point.best == 1.0
    assert point.over_together == Interval(5.0, 5.0, 5.0)
    assert point.over_apart == Interval(-2.0, -2.0, -2.0)
    assert gains.shown(point.over_apart)
    assert (point.chosen, point.cost.value) == (math.inf, 0.0)


def test_what_a_sweep_takes_costs_what_the_best_gives_more():
    flat = np.zeros(4)
    held_out = [flat + 3.0, flat, flat, flat + 1.0]
    (point,) = gains.points(CARTS, GRID, told(flat - 7.0, flat, flat + 1.0, flat, held_out))
    assert (point.chosen, point.cost.value) == (0.0, 8.0)


def test_the_models_own_choice_is_held_against_every_radius():
    grid = replace(GRID, radii=(0.0, None, math.inf))
    own = np.array([[-3.0, -3.0], [-2.0, -2.0], [-1.0, -2.0]])[None, None]
    quantity = next(one for one in gains.QUANTITIES if one.part == "models")
    (point,) = gains.points(quantity, grid, {"own": own})
    assert point.chosen is None
    assert point.cost.value == 0.5
    one_step = next(one for one in gains.QUANTITIES if one.name == "one step")
    more = {"chosen": np.array([[[-2.0, -2.0]]]), "hindsight": np.array([[[-1.5, -1.0]]])}
    (point,) = gains.points(one_step, grid, {"one step": own, **more})
    assert point.cost.value == 0.75


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Measure every part on its tiny grid."""
    out = tmp_path_factory.mktemp("sharing")
    for part, grid in parts.SMALL.items():
        for one in parts.questions(part, grid, out):
            one.go()
    return out


@pytest.mark.parametrize("part", parts.SMALL)
def test_every_part_fills_its_map(part, measured):
    grid = parts.SMALL[part]
    shape = (len(grid.spreads), len(grid.data), len(grid.radii), grid.seeds)
    result = gains.read(part, grid, measured)
    for name, table in result.items():
        assert np.all(np.isfinite(table))
        assert table.shape == (shape if table.ndim == 4 else (*shape[:2], shape[3])), name
    own = {one.name for one in gains.QUANTITIES if one.part == part}
    assert own <= set(result)
    # A radius is more than a name: the ends differ.
    first = result[next(iter(own))]
    assert not np.array_equal(first[:, :, 0], first[:, :, -1])


def test_only_seeds_that_are_whole_count(measured, tmp_path):
    grid = parts.SMALL["carts"]
    first, *rest = parts.questions("carts", grid, measured)
    for one in rest:
        copy = tmp_path / "carts" / one.path.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(one.path.read_bytes())
    assert gains.read("carts", grid, tmp_path)["own"].shape[-1] == grid.seeds - 1
    other = replace(grid, data=(300,))
    with pytest.raises(InputError, match="no seed of the part carts is measured"):
        gains.read("carts", other, tmp_path)
    assert not (tmp_path / "carts" / first.path.name).exists()


def test_the_report_fills_the_page_and_draws(measured, tmp_path):
    (tmp_path / "images").mkdir()
    names = [f"{one.part}: {one.name}" for one in gains.QUANTITIES]
    marks = "".join(f"<!-- {n}: begin -->\nold\n<!-- {n}: end -->\n" for n in names)
    page = tmp_path / report.PAGE
    page.parent.mkdir()
    page.write_text(f"words\n{marks}more words\n")
    report.report(parts.SMALL, measured, write=True, docs=tmp_path)
    text = page.read_text()
    assert text.startswith("words\n")
    assert text.endswith("more words\n")
    assert "old" not in text
    assert text.count("| spread |") == len(names)
    for name in report.FIGURES:
        assert (tmp_path / "images" / f"{name}.png").stat().st_size > 10_000
    page.write_text("words")
    with pytest.raises(InputError, match="must hold <!-- identified: own: begin -->"):
        report.report(parts.SMALL, measured, write=True, docs=tmp_path)


def test_the_published_page_has_a_place_for_every_table():
    text = (report.DOCS / report.PAGE).read_text(encoding="utf-8")
    for one in gains.QUANTITIES:
        assert text.count(f"<!-- {one.part}: {one.name}: begin -->") == 1


def test_carts_that_are_alike_are_better_identified_together_and_unlike_ones_apart():
    grid = parts.Grid((0.0, None, math.inf), (5, 100), seeds=3, machines=6)
    alike, unlike = (
        np.mean([parts.identified(grid, spread, seed)["own"] for seed in range(3)], axis=0)
        for spread in (0.0, 1.5)
    )
    assert alike[0, 0] > alike[2, 0] + 1.0
    assert unlike[2, 1] > unlike[0, 1] + 1.0
    # The data's choice is never as bad as the wrong end.
    assert alike[1, 0] > alike[2, 0]
    assert unlike[1, 1] > unlike[0, 1]


def test_the_command_measures_once_and_says_what_is_wrong(measured, capsys, monkeypatch):
    monkeypatch.setattr(parts, "measured", None)
    small = ["--small", "--out", str(measured)]
    assert main(["report", *small, "carts"]) == 0
    assert "policies of carts" in capsys.readouterr().out
    assert main(["report", *small[:2], str(measured / "nowhere")]) == 1
    assert "python -m benchmarks.sharing measure" in " ".join(capsys.readouterr().err.split())
    for words in (["report", "cart"], ["measure", "--write"], ["measure", "--seeds", "-1"]):
        with pytest.raises(SystemExit):
            main(words)
    assert "give a number above zero" in capsys.readouterr().err


def test_questions_are_plain_data(tmp_path):
    for part, grid in parts.GRIDS.items():
        for one in parts.questions(part, grid, tmp_path):
            assert json.loads(json.dumps(one.asked, allow_nan=False)) == one.asked
