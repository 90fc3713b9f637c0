"""The figures of the numerical section, checked by what is drawn in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Arc, FancyArrowPatch
from scipy import stats

from crosslearning.errors import InputError
from crosslearning.figures.paper import FIGURES, check_names, curves, draw, scenes
from crosslearning.figures.paper.curves import POLICY_COLOURS
from crosslearning.figures.projections import CENTRE, EPSILON, POINTS, exact_projection_figure
from crosslearning.reproduction.paper.adapt import STARTS
from crosslearning.reproduction.paper.experiment import (
    AVERAGE,
    CROSS,
    LABELS,
    POLICIES,
    RADII,
    Experiment,
    Reading,
    Scale,
)
from crosslearning.reproduction.paper.measure import drive, scene_drives
from crosslearning.rkhs import Family, Gaussian, Linear
from crosslearning.tasks import Navigation

ITERATIONS = [100.0, 200.0, 300.0]
TRAINING = 2 * curves.BLOCKS

# Synthetic measurements --------------------------------------------------------------------


def measurements(seed: int, policy: str, offset: float = 0.0) -> dict[str, Any]:
    generator = np.random.default_rng([seed, POLICIES.index(policy)])

    def curve() -> dict[str, list[float]]:
        costs = offset + generator.uniform(10.0, 200.0, len(ITERATIONS))
        spread = generator.uniform(20.0, 40.0, len(ITERATIONS))
        return {"iteration": ITERATIONS, "cost": costs.tolist(), "deviation": spread.tolist()}

    arrived, crashed = generator.uniform(0.3, 0.7), generator.uniform(0.0, 0.3)
    result: dict[str, Any] = {
        "final": {"maps": {"maps": {"arrived": arrived, "crashed": crashed}}},
        "curves": {"radii": {radius: curve() for radius in RADII}},
    }
    if policy == CROSS:

        def series(low: float, high: float) -> list[float]:
            return generator.uniform(low, high, TRAINING).tolist()

        result["training"] = {
            "iteration": [4 * (i + 1) for i in range(TRAINING)],
            "distance": {radius: series(2.5, 3.0) for radius in RADII},
            "multiplier": {radius: series(1e-4, 1e-2) for radius in RADII},
            "knots": series(100, 400),
            "pruning_error": series(1e-3, 1e-1),
            "forced_by_cap": series(0, 40),
        }
    return result


def synthetic(seeds: int = 3, offset: float = 0.0) -> dict[int, dict[str, dict[str, Any]]]:
    return {
        seed: {policy: measurements(seed, policy, offset) for policy in POLICIES}
        for seed in range(seeds)
    }


# Policies that need no learning: the speed and the turn rate are simple by hand ---------------


def steady(speed: float, turn: float) -> Family:
    """Return a policy that acts the same everywhere: one knot under a very wide kernel."""
    kernel = Gaussian(std=[1e9] * 5)
    return Family(kernel, np.zeros((1, 5)), np.array([[[speed, turn]]]))


def seeker() -> Family:
    """Return a policy that turns towards the goal and slows down near it."""
    kernel = Linear(std=[1.0] * 5)
    knots = np.zeros((2, 5))
    knots[0, 2] = knots[1, 3] = 1.0  # d_g and φ_g
    return Family(kernel, knots, np.array([[[0.8, 0.0]], [[0.0, 2.0]]]))


class ByHand(Experiment):
    """An experiment whose policies are given instead of learned."""

    def __init__(self, functions: Mapping[str, Family], seeds: int = 1, **options: Any) -> None:
        scale = Scale(iterations=10)
        super().__init__(Path("nowhere"), seeds, scale, Reading("test", "", task_options=options))
        self.functions = functions

    def function(self, seed: int, policy: str, iteration: int | None = None) -> Family:
        return self.functions[policy]


def by_hand(seeds: int = 1, **options: Any) -> ByHand:
    """Return an experiment in which the average policy stands still and the others crash."""
    functions = dict.fromkeys(POLICIES, steady(1.0, 0.0)) | {AVERAGE: steady(0.0, 0.0)}
    return ByHand(functions, seeds, **options)


# What was drawn ------------------------------------------------------------------------------


def line(axes: Axes, label: str) -> Line2D:
    (chosen,) = [one for one in axes.get_lines() if one.get_label() == label]
    return chosen


def marks(axes: Axes, marker: str) -> list[Line2D]:
    return [one for one in axes.get_lines() if one.get_marker() == marker]


def coloured(axes: Axes, colour: str) -> Line2D:
    """Return the curve of a colour, not the stretches in which it takes its turn."""
    (chosen,) = [
        one
        for one in axes.get_lines()
        if to_hex(one.get_color()) == colour.lower() and one.get_label() != "_turn"
    ]
    return chosen


def legend_labels(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


# Costs ---------------------------------------------------------------------------------------


def test_cost_panels_draw_means_over_seeds_in_the_policies_colours() -> None:
    results = synthetic()
    figure = curves.cost_by_task_figure(results)
    assert len(figure.axes) == len(RADII)
    for axes, radius in zip(figure.axes, RADII, strict=True):
        assert radius.removeprefix("r=") in axes.get_title()
        for policy in POLICIES:
            costs = [results[s][policy]["curves"]["radii"][radius]["cost"] for s in results]
            drawn = line(axes, LABELS[policy])
            np.testing.assert_allclose(drawn.get_xdata(), ITERATIONS)
            np.testing.assert_allclose(drawn.get_ydata(), np.mean(costs, axis=0))
            assert drawn.get_color() == POLICY_COLOURS[policy]
    # Every band is explained, too.
    bands = ["its deviation over starts", "and over seeds"]
    assert legend_labels(figure) == [*(LABELS[policy] for policy in POLICIES), *bands]


def test_one_seed_has_no_band_over_seeds() -> None:
    figure = curves.cost_by_task_figure(synthetic(seeds=1))
    assert "and over seeds" not in legend_labels(figure)
    assert all(len(axes.collections) == 1 for axes in figure.axes)
    assert "range over seeds" not in legend_labels(curves.constraint_figure(synthetic(1), 3.0))
    figure = curves.adaptation_figure({0: adaptation_by_hand(0)})
    assert "its 95 % interval over seeds" not in legend_labels(figure)


def test_the_bands_are_deviations_of_the_cross_learned_policy_alone() -> None:
    results = synthetic()
    axes = curves.cost_by_task_figure(results).axes[1]
    drawn = [results[s][CROSS]["curves"]["radii"]["r=1"] for s in results]
    costs = np.array([curve["cost"] for curve in drawn])
    over_starts = np.sqrt(np.mean([np.square(curve["deviation"]) for curve in drawn], axis=0))
    for band, spreads in zip(axes.collections, (over_starts, costs.std(0, ddof=1)), strict=True):
        edges = band.get_paths()[0].vertices
        for x, mean, spread in zip(ITERATIONS, costs.mean(0), spreads, strict=True):
            heights = edges[edges[:, 0] == x, 1]
            assert heights.min() == pytest.approx(mean - spread)
            assert heights.max() == pytest.approx(mean + spread)


def test_the_average_figure_averages_over_radii_and_seeds() -> None:
    results = synthetic()
    (axes,) = curves.cost_average_figure(results).axes
    for policy in POLICIES:
        costs = [results[s][policy]["curves"]["radii"][r]["cost"] for s in results for r in RADII]
        np.testing.assert_allclose(line(axes, LABELS[policy]).get_ydata(), np.mean(costs, axis=0))


def test_costs_are_on_a_log_axis_only_while_all_are_positive() -> None:
    assert curves.cost_average_figure(synthetic()).axes[0].get_yscale() == "log"
    below_zero = curves.cost_by_task_figure(synthetic(offset=-150.0))
    assert {axes.get_yscale() for axes in below_zero.axes} == {"linear"}


def test_the_cross_learned_policy_has_the_thickest_line() -> None:
    axes = curves.cost_average_figure(synthetic()).axes[0]
    widths = {policy: line(axes, LABELS[policy]).get_linewidth() for policy in POLICIES}
    assert all(widths[CROSS] > widths[policy] for policy in POLICIES if policy != CROSS)
    assert len(set(POLICY_COLOURS.values())) == len(POLICIES)


def test_seeds_with_different_points_are_told_apart_from_finished_ones() -> None:
    results = synthetic()
    results[1][CROSS]["curves"]["radii"]["r=1"]["cost"].pop()
    with pytest.raises(InputError, match=r"different numbers of points.*\[3, 2, 3\]"):
        curves.cost_by_task_figure(results)


# Training ------------------------------------------------------------------------------------


def test_blocks_are_means_of_neighbours_and_few_points_stay_as_they_are() -> None:
    values = np.arange(2.0 * TRAINING).reshape(2, TRAINING)
    expected = values.reshape(2, curves.BLOCKS, 2).mean(axis=2)
    np.testing.assert_allclose(curves.in_blocks(values), expected)
    np.testing.assert_array_equal(curves.in_blocks(values[:, :5]), values[:, :5])


def test_distances_and_multipliers_are_drawn_with_the_bound() -> None:
    results = synthetic()
    figure = curves.constraint_figure(results, 3.0)
    distances, multipliers = figure.axes
    for radius in RADII:
        for axes, key in ((distances, "distance"), (multipliers, "multiplier")):
            values = curves.in_blocks(curves.over_seeds(results, CROSS, "training", key, radius))
            drawn = coloured(axes, POLICY_COLOURS[radius])
            np.testing.assert_allclose(drawn.get_ydata(), values.mean(axis=0))
    assert [text.get_text() for text in distances.texts] == ["ε = 3"]
    bound = [one for one in distances.get_lines() if one.get_linestyle() == "--"]
    assert [list(one.get_ydata()) for one in bound] == [[3.0, 3.0]]
    low, high = distances.get_ylim()
    assert low < 2.5 + 0.25
    assert high > 3.0
    assert legend_labels(figure) == [*(f"task {radius}" for radius in RADII), "range over seeds"]


def test_equal_distances_take_turns() -> None:
    results = synthetic()
    for measured in results.values():
        distances = measured[CROSS]["training"]["distance"]
        distances.update(dict.fromkeys(RADII, [3.0] * TRAINING))
    figure = curves.constraint_figure(results, 3.0)
    turns = [one for one in figure.axes[0].get_lines() if one.get_label() == "_turn"]
    assert [one.get_color() for one in turns] == [POLICY_COLOURS[radius] for radius in RADII]
    assert "equal: colours take turns" in legend_labels(figure)


def test_model_order_shows_knots_errors_and_forced_removals() -> None:
    results = synthetic()
    figure = curves.model_order_figure(results, 1e-3, 400)
    knots, error, forced = figure.axes
    assert legend_labels(figure) == ["mean over seeds", "range over seeds"]
    raw = curves.over_seeds(results, CROSS, "training", "knots")
    np.testing.assert_allclose(knots.get_lines()[0].get_ydata(), raw.mean(axis=0))
    for axes, key in ((error, "pruning_error"), (forced, "forced_by_cap")):
        values = curves.in_blocks(curves.over_seeds(results, CROSS, "training", key))
        np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), values.mean(axis=0))
        (band,) = axes.collections
        assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(values.max())
    assert error.get_yscale() == "log"
    assert error.texts[0].get_text() == "budget β = 0.001"
    assert knots.texts[0].get_text() == "cap 400"


def test_rates_on_maps_have_students_interval() -> None:
    results = synthetic()
    figure = curves.held_out_maps_figure(results)
    for axes, rate in zip(figure.axes, ("arrived", "crashed"), strict=True):
        for row, policy in enumerate(reversed(POLICIES)):
            rates = np.array([results[s][policy]["final"]["maps"]["maps"][rate] for s in results])
            bars = [one for one in axes.containers if one.lines[0].get_ydata()[0] == row]
            assert len(bars) == 1
            point, _, (bar,) = bars[0].lines
            assert point.get_xdata()[0] == pytest.approx(rates.mean())
            low, high = stats.t.interval(0.95, 2, rates.mean(), stats.sem(rates))
            ends = bar.get_segments()[0][:, 0]
            assert ends == pytest.approx([max(0.0, low), min(1.0, high)])
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [LABELS[policy] for policy in POLICIES]


def test_one_seed_is_drawn_without_an_interval() -> None:
    figure = curves.held_out_maps_figure(synthetic(seeds=1))
    for container in figure.axes[0].containers:
        (bar,) = container.lines[2]
        low, high = bar.get_segments()[0][:, 0]
        assert low == pytest.approx(high)


# Places --------------------------------------------------------------------------------------


def test_a_straight_drive_ends_where_the_line_meets_the_circle() -> None:
    one = scene_drives(by_hand())["circle"].drives[CROSS]
    share = 0.5 * math.sqrt(0.5)  # of the radius 0.5, along each axis
    assert one.crashed
    assert not one.arrived
    np.testing.assert_allclose(one.path[0], [0.5, 1.5])
    np.testing.assert_allclose(one.path[-1], [2.5 - share, 3.5 - share], atol=1e-12)


def test_a_drive_is_cut_at_its_arrival() -> None:
    navigation = Navigation(obstacles=(), start=(0.5, 1.5), heading=0.0)
    one = drive(seeker(), navigation, "circle")
    away = np.linalg.norm(one.path - [5.0, 6.0], axis=1)
    assert one.arrived
    assert one.goals == 1
    assert away[-1] <= 0.5 < away[:-1].min()
    assert one.ending == f" in {len(one.path) - 1} steps"


def test_trajectories_mark_crashes_and_robots_that_stand_still() -> None:
    figure = scenes.trajectories_figure(scene_drives(by_hand(seeds=3)))
    assert [axes.get_title() for axes in figure.axes] == ["circle obstacle", "ellipse obstacle"]
    for axes in figure.axes:
        crossed = [one.get_color() for one in marks(axes, "X")]
        assert crossed == [POLICY_COLOURS[policy] for policy in (*RADII, CROSS)]
        (ring,) = [one for one in marks(axes, "o") if one.get_markerfacecolor() == "white"]
        assert ring.get_markeredgecolor() == POLICY_COLOURS[AVERAGE]
        bundle = [one for one in axes.get_lines() if one.get_label() == "_bundle"]
        assert len(bundle) == 2  # the other two seeds
        end = line(axes, LABELS[CROSS]).get_xydata()[-1]
        np.testing.assert_allclose(marks(axes, "X")[-1].get_xydata()[0], end)
    assert legend_labels(figure) == [LABELS[policy] for policy in POLICIES]


def test_a_policy_that_arrives_has_no_mark() -> None:
    functions = dict.fromkeys(POLICIES, seeker())
    drives = scene_drives(ByHand(functions, crash="continue", obstacles=()))
    figure = scenes.trajectories_figure(drives)
    for axes in figure.axes:
        assert not marks(axes, "X")
        ends = [line(axes, LABELS[policy]).get_xydata()[-1] for policy in POLICIES]
        assert all(np.linalg.norm(end - [5.0, 6.0]) <= 0.5 for end in ends)


def test_the_mission_says_how_many_goals_each_policy_reached() -> None:
    functions = dict.fromkeys(POLICIES, steady(1.0, 0.0))
    functions |= {AVERAGE: steady(0.0, 0.0), CROSS: seeker()}
    figure = scenes.mission_figure(scene_drives(ByHand(functions, obstacles=())))
    labels = dict(zip(POLICIES, legend_labels(figure), strict=False))
    assert labels[AVERAGE] == f"{LABELS[AVERAGE]}\n0 of 3 goals, out of time"
    axes = figure.axes[0]
    steps = len(line(axes, LABELS[CROSS]).get_xdata()) - 1
    assert labels[CROSS] == f"{LABELS[CROSS]}\n3 of 3 goals in {steps} steps"
    assert {"1", "2", "3"} <= {text.get_text() for text in axes.texts}


def test_the_mission_marks_crashes() -> None:
    figure = scenes.mission_figure(scene_drives(by_hand()))
    assert len(marks(figure.axes[0], "X")) == len(POLICIES) - 1
    assert f"{LABELS[CROSS]}\n0 of 3 goals, crash" in legend_labels(figure)


# Illustrations -------------------------------------------------------------------------------


@pytest.mark.parametrize("to_centre", [False, True])
def test_the_distance_to_the_obstacle_ends_where_the_reading_says(to_centre) -> None:
    (axes,) = scenes.robot_model_figure(to_centre).axes
    (circle,) = scenes.SCENE.obstacles
    arrows = [one for one in axes.patches if isinstance(one, FancyArrowPatch)]
    ends = [one._posA_posB[1] for one in arrows if tuple(one._posA_posB[0]) == scenes.PLACE]
    beyond = [math.dist(end, circle.centre) for end in ends]
    assert min(beyond) == pytest.approx(0.0 if to_centre else circle.semi_axes[0], abs=1e-9)


def test_the_robot_model_draws_the_geometry_that_it_names() -> None:
    (axes,) = scenes.robot_model_figure().axes
    (circle,), (goal,) = scenes.SCENE.obstacles, scenes.SCENE.goals
    to_centre = np.subtract(circle.centre, scenes.PLACE)
    to_goal = np.subtract(goal, scenes.PLACE)
    d_o, phi_o, d_g, phi_g, phi_obs = scenes.observation()
    # The observation, by school geometry.
    assert d_o == pytest.approx(np.hypot(*to_centre) - circle.semi_axes[0])
    assert d_g == pytest.approx(np.hypot(*to_goal))
    assert phi_o == pytest.approx(math.atan2(to_centre[1], to_centre[0]) - scenes.HEADING)
    assert phi_g == pytest.approx(math.atan2(to_goal[1], to_goal[0]) - scenes.HEADING)
    assert phi_obs == pytest.approx(2 * math.asin(circle.semi_axes[0] / np.hypot(*to_centre)))
    # What is drawn.
    for label, angle in ((r"$\phi_o$", phi_o), (r"$\phi_g$", phi_g)):
        from_robot = line(axes, label).get_xydata() - np.array(scenes.PLACE)
        ends = np.arctan2(from_robot[[0, -1], 1], from_robot[[0, -1], 0])
        assert ends == pytest.approx([scenes.HEADING, scenes.HEADING + angle])
    touched = np.array([one.get_xydata()[0] for one in marks(axes, "o")])
    from_centre = touched - np.array(circle.centre)
    assert np.hypot(*from_centre.T) == pytest.approx([circle.semi_axes[0]] * 2)
    # A tangent is perpendicular to the radius.
    along = np.sum(from_centre * (touched - np.array(scenes.PLACE)), axis=1)
    assert along == pytest.approx([0.0, 0.0])
    (arc,) = [patch for patch in axes.patches if isinstance(patch, Arc)]
    assert arc.theta2 - arc.theta1 == pytest.approx(math.degrees(phi_obs))
    names = {text.get_text() for text in axes.texts}
    assert {r"$\phi_o$", r"$\phi_g$", r"$\phi_{obs}$", "$d_o$", "$d_g$"} <= names


def test_the_projection_figure_draws_projected_points_on_the_circle() -> None:
    figure, sentence = exact_projection_figure()
    points, centre, given, given_centre = (
        np.asarray(one.get_offsets()) for one in figure.axes[0].collections
    )
    np.testing.assert_array_equal(given, POINTS)
    np.testing.assert_array_equal(given_centre[0], CENTRE)
    distances = np.linalg.norm(points - centre, axis=1)
    assert distances.max() == pytest.approx(EPSILON)
    assert "3 end on the circle, 1 was inside" in sentence


# Adaptation ----------------------------------------------------------------------------------


def adaptation_by_hand(seed: int) -> dict[str, Any]:
    """Return adaptation curves that were never measured."""
    curve = {"episodes": [0.0, 8.0], "returns": [-9.0 - seed, -5.0]}
    targets = {"a": dict.fromkeys(STARTS, curve)}
    return {"curves": {"trained": targets, "unseen": targets}}


def test_the_adaptation_figure_draws_the_means() -> None:
    def one(offset: float) -> dict[str, Any]:
        by_start = {
            start: {"episodes": [0.0, 8.0, 16.0], "returns": [offset + i, offset, offset - i]}
            for i, start in enumerate(STARTS)
        }
        return {"curves": {"trained": {"a": by_start}, "unseen": {"b": by_start, "c": by_start}}}

    figure = curves.adaptation_figure({0: one(-10.0), 1: one(-20.0)})
    assert len(figure.axes) == 2
    for axes in figure.axes:
        # Drawn in reverse, so that the central start lies on top.
        lines = axes.get_lines()
        assert len(lines) == len(STARTS)
        np.testing.assert_allclose(lines[-1].get_ydata(), [-15.0, -15.0, -15.0])
        np.testing.assert_allclose(lines[-2].get_ydata(), [-14.0, -15.0, -16.0])
        np.testing.assert_allclose(lines[-1].get_xdata(), [0.0, 8.0, 16.0])
    labels = legend_labels(figure)
    assert labels[0] == "from the central policy $g$"
    assert labels[-1] == "its 95 % interval over seeds"
    assert len(labels) == len(STARTS) + 1


# All of them ---------------------------------------------------------------------------------


def drawn_from(experiment: Experiment, seeds: int) -> tuple[Any, ...]:
    adaptation = {seed: adaptation_by_hand(seed) for seed in range(seeds)}
    return experiment, synthetic(seeds), adaptation, scene_drives(experiment)


def test_every_figure_is_drawn_and_written(tmp_path: Path) -> None:
    experiment = by_hand(seeds=2)
    experiment.path = tmp_path
    written = list(draw(*drawn_from(experiment, 2)))
    assert [png.stem for png, _ in written] == list(FIGURES)
    for png, pdf in written:
        assert png.parent == tmp_path / "figures"
        assert png.read_bytes().startswith(b"\x89PNG")
        assert pdf.read_bytes().startswith(b"%PDF")


def test_some_figures_are_drawn_with_the_bounds_of_the_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    for name in ("constraint_figure", "model_order_figure"):
        figure = getattr(curves, name)

        def record(results: Any, *bounds: float, figure: Any = figure) -> Figure:
            given.append(bounds)
            return figure(results, *bounds)

        monkeypatch.setattr(curves, name, record)
    experiment = by_hand()
    experiment.path = tmp_path
    only = ["distances-and-multipliers", "model-order"]
    assert len(list(draw(*drawn_from(experiment, 1), only))) == 2
    assert given == [(3.0,), (1e-3, 400)]


def test_an_unknown_figure_is_named() -> None:
    check_names(None)
    check_names(["mission"])
    with pytest.raises(InputError, match="did you mean 'mission'"):
        check_names(["misson"])
