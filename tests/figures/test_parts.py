"""What figures share, on numbers whose answers are known."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from crosslearning._base.statistics import Interval, student
from crosslearning.errors import StorageError
from crosslearning.figures import parts
from crosslearning.figures.style import TASKS, save_figure
from tests.figures.examples import bars


@pytest.mark.parametrize("lines", [1, 2, 19, 20, 200, 1000])
def test_the_window_follows_the_run(lines):
    window = parts.window_of(lines)
    assert 1 <= window <= max(1, lines / 20 + 1)
    assert window % 2 == 1


def test_the_running_mean_is_centred_and_does_not_lag():
    line = np.arange(200.0)
    mean = parts.running_mean(line)
    np.testing.assert_allclose(mean[5:-5], line[5:-5])  # a trailing mean would be 5 behind
    assert mean[-1] == pytest.approx(np.mean(line[-6:]))
    assert line[-1] - mean[-1] <= 0.02 * (line[-1] - line[0])
    np.testing.assert_array_equal(parts.running_mean(line[:7]), line[:7])


def test_the_running_mean_leaves_out_what_is_not_known():
    values = np.arange(200.0)
    values[50] = math.nan
    values[100:130] = math.nan
    mean = parts.running_mean(values)
    assert mean[50] == pytest.approx(50.0)
    assert np.all(np.isnan(mean[105:125]))
    assert np.isfinite(mean[101])


def test_columns_have_nan_for_what_lines_lack():
    lines = [{"a": 1.0, "b": {"x": 2.0}}, {"a": None, "b": {"x": None}}, {"b": None}, {}]
    np.testing.assert_array_equal(parts.column(lines, "a"), [1.0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(parts.column(lines, "b", "x"), [2.0, *[np.nan] * 3])


def test_ends_that_are_not_known_are_the_number_itself():
    alone = student([0.4])
    assert parts.ends(alone) == (0.4, 0.4)
    assert parts.ends(alone, 0.0, 1.0) == (0.4, 0.4)  # not the whole range of a share
    assert parts.ends(Interval(0.4, -0.2, 1.3), 0.0, 1.0) == (0.0, 1.0)
    assert parts.read_interval({"value": 1.0, "low": None, "high": None}) == Interval(
        1.0, -math.inf, math.inf
    )
    assert math.isnan(parts.read_interval({"value": None}).value)


def test_error_bars_are_cut_to_where_the_number_can_be():
    axes = Figure().subplots()
    given = [Interval(0.1, -0.3, 0.5), Interval(0.9, 0.4, 1.4), Interval(0.5, -math.inf, math.inf)]
    parts.error_bars(axes, [0.0, 1.0, 2.0], given, within=(0.0, 1.0))
    np.testing.assert_allclose(bars(axes), [[0.0, 0.5], [0.4, 1.0], [0.5, 0.5]])


def test_tasks_have_colours_of_their_own():
    for count in (1, 7, 8, 20, 100):
        colours = parts.task_colours([f"t{i}" for i in range(count)])
        assert len(set(colours.values())) == count
    assert list(parts.task_colours("abc").values()) == list(TASKS[:3])
    few, many = (parts.task_colours(map(str, range(count))) for count in (24, 25))
    assert [h.get_label() for h in parts.task_handles(few)] == [f"task {i}" for i in range(24)]
    assert parts.task_handles(many) == []


def visible(axes, x, names):
    """Return whose colour is on top at every x where curves coincide, by their turns."""
    turns = {}
    for line in axes.get_lines():
        if line.get_label() == "_turn":
            turns[line.get_color()] = np.isfinite(np.asarray(line.get_ydata()))
    return [turns.get(colour, np.zeros(len(x), dtype=bool)) for colour in names]


@pytest.mark.parametrize("count", [2, 3, 20])
def test_coincident_curves_take_turns(count):
    axes = Figure().subplots()
    x = np.arange(200.0)
    names = [f"t{i}" for i in range(count)]
    colours = parts.task_colours(names)
    curves = {name: np.full(200, 3.0) for name in names}
    assert parts.draw_tasks(axes, x, curves, colours, 3.6)
    shown = visible(axes, x, colours.values())
    share = [np.mean(turn) for turn in shown]
    assert min(share) > 0.5 / count  # each is seen, about equally often
    assert np.all(np.any(shown, axis=0))  # and together they leave no gap


def test_curves_that_cross_or_lie_apart_do_not_take_turns():
    axes = Figure().subplots()
    x = np.arange(200.0)
    curves = {"up": x, "down": 199.0 - x, "above": x + 50.0}
    assert not parts.draw_tasks(axes, x, curves, parts.task_colours(curves), 250.0)
    assert len(axes.get_lines()) == 3


def test_only_the_part_that_coincides_alternates():
    axes = Figure().subplots()
    x = np.arange(200.0)
    curves = {"a": np.maximum(100.0 - x, 0.0), "b": np.zeros(200)}
    colours = parts.task_colours(curves)
    assert parts.draw_tasks(axes, x, curves, colours, 100.0)
    first, second = visible(axes, x, colours.values())
    assert not np.any(first[:90] | second[:90])
    assert np.all((first | second)[110:])


@pytest.mark.parametrize("lines", [[], [{"iteration": 1}], [{"iteration": 1, "steps": None}]])
def test_steps_that_are_not_told_have_no_axis(lines):
    axes = Figure().subplots()
    parts.steps_axis(axes, lines)
    assert not axes.child_axes


def test_steps_that_come_all_at_once_are_at_their_iteration_and_not_written_over_one_another():
    def ticks(steps):
        axes = Figure().subplots()
        parts.steps_axis(axes, [{"iteration": n + 1, "steps": s} for n, s in enumerate(steps)])
        return [list(one.get_xticks()) for one in axes.child_axes]

    assert ticks([100 * n for n in range(1, 11)]) == [[0.0, 5.0, 10.0]]
    assert ticks([50] * 30 + [100] * 30) == [[0.0, 31.0]]
    assert ticks([100] * 60) == []
    # Steps are counted where they are: there is none between two rounds.
    assert ticks([75] * 15 + [150] * 15) == [[0.0, 16.0]]
    # Many rounds have labels of round numbers, whose places are in between.
    (many,) = ticks(np.repeat(33.0 * np.arange(1, 13), 5))
    assert 2 < len(many) < 6
    np.testing.assert_allclose(np.diff(many[1:]), 500.0 / 33.0, rtol=0.5)
    assert ticks([75] * 20 + [150] * 20 + [225] * 20) == [[0.0, 21.0, 41.0]]


def test_what_holds_for_a_round_is_drawn_in_steps_and_not_averaged():
    lines = [{"iteration": n + 1, "seen_reward": {"a": float(n // 50)}} for n in range(200)]
    axes = Figure().subplots()
    parts.draw_noisy(axes, lines, {"a": "red"}, "seen_reward", by_round=True)
    (line,) = axes.lines
    assert line.get_drawstyle() == "steps-post"
    assert sorted(set(line.get_ydata())) == [0.0, 1.0, 2.0, 3.0]


def test_a_figure_is_written_whole_or_an_error_says_why_not(tmp_path):
    figure = Figure()
    first, second = save_figure(figure, tmp_path / "a.b")
    assert (first.name, second.name) == ("a.b.png", "a.b.pdf")
    assert not list(tmp_path.glob(".*"))
    before = first.read_bytes()
    save_figure(figure, tmp_path / "a.b")
    assert first.read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        save_figure(figure, tmp_path / "file" / "figure")
