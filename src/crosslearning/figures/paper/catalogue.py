"""The figures of the numerical section by name, each with a sentence for its caption."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from crosslearning.figures.paper.adaptation import adaptation_figure
from crosslearning.figures.paper.common import POLICY_COLOURS, Results
from crosslearning.figures.paper.curves import (
    BLOCKS,
    constraint_figure,
    cost_average_figure,
    cost_by_task_figure,
    held_out_maps_figure,
    model_order_figure,
)
from crosslearning.figures.paper.robot import robot_model_figure
from crosslearning.figures.paper.scenes import mission_figure, trajectories_figure
from crosslearning.figures.projections import exact_projection_figure, relaxed_projection_figure
from crosslearning.paper.adapt import measure_adaptation
from crosslearning.paper.experiment import CROSS, Experiment, experiment_configs
from crosslearning.runs import RunConfig

__all__ = ["FIGURES", "POLICY_COLOURS", "Draw"]

#: Draws one figure of an experiment from the measurements of all its seeds.
Draw = Callable[[Experiment, Results], Figure]


def _cross_config(experiment: Experiment) -> RunConfig:
    return experiment_configs(experiment.seeds[0], experiment.scale, experiment.reading)[CROSS]


def _constraint(experiment: Experiment, results: Results) -> Figure:
    return constraint_figure(results, _cross_config(experiment).epsilon)


def _model_order(experiment: Experiment, results: Results) -> Figure:
    config = _cross_config(experiment)
    return model_order_figure(results, config.budget, experiment.scale.max_knots)


_IN_BLOCKS = f"Iterations are averaged in up to {BLOCKS} blocks of neighbours."
_FROM = "from (0.5, 1.5) with the heading 45°, straight towards the first goal"

#: name → (draw, caption); the names are those of the files.
FIGURES: dict[str, tuple[Draw, str]] = {
    "robot-model": (
        lambda _, __: robot_model_figure(),
        "What the robot observes, (d_o, φ_o, d_g, φ_g, φ_obs), and its actions (ż, ψ̇), drawn to "
        "scale from the observation that the task gives at this place. Angles are measured from "
        "the heading.",
    ),
    "projection-exact": (
        lambda _, __: exact_projection_figure()[0],
        "The exact projection in R²: points and their centre move as little as possible until "
        "every point is within ε of the centre.",
    ),
    "projection-relaxed": (
        lambda _, __: relaxed_projection_figure()[0],
        "The relaxed projection, dashed blue, over the exact one, vermillion: it bounds only the "
        "mean square of the distances, so that points may end outside the circle of radius ε.",
    ),
    "trajectories": (
        lambda experiment, _: trajectories_figure(experiment),
        f"Paths of the first seed's five policies {_FROM}, around a circle and around an ellipse "
        "that no policy was trained on; thin grey lines are the cross-learned policies of the "
        "other seeds.",
    ),
    "cost-by-task": (
        lambda _, results: cost_by_task_figure(results),
        "Cost −U against the training iteration for an obstacle at (2, 2) of three radii: means "
        "over seeds and random starts; the bands are the standard deviation of the cross-learned "
        "policy over starts, wide, and over seeds, narrow.",
    ),
    "cost-average": (
        lambda _, results: cost_average_figure(results),
        "The cost averaged over the three radii against the training iteration: means over seeds "
        "and random starts; the bands are the standard deviation of the cross-learned policy over "
        "starts, wide, and over seeds, narrow.",
    ),
    "mission": (
        lambda experiment, _: mission_figure(experiment),
        f"Paths of the first seed's five policies {_FROM}, through a map with several obstacles "
        "and three goals, which are to be visited in this order.",
    ),
    "distances-and-multipliers": (
        _constraint,
        "Distances of the task policies to the central one, which ε bounds, and the multipliers "
        f"of these constraints, over training: mean and range over seeds. {_IN_BLOCKS}",
    ),
    "model-order": (
        _model_order,
        "Knots of the common dictionary, the error of pruning in an iteration against its "
        "budget, and the knots that the cap removed in an iteration beyond the budget: mean and "
        f"range over seeds. The last two: {_IN_BLOCKS[0].lower()}{_IN_BLOCKS[1:]}",
    ),
    "held-out-maps": (
        lambda _, results: held_out_maps_figure(results),
        "Arrivals and crashes on random maps that no policy was trained on: small dots are "
        "seeds, large ones their means with Student's 95 % interval, cut at 0 and 1.",
    ),
    "adaptation": (
        lambda experiment, _: adaptation_figure(
            {seed: measure_adaptation(experiment, seed) for seed in experiment.seeds}
        ),
        "Return while a policy goes on learning on another task, by where it starts: means over "
        "targets and seeds; the band is Student's 95 % interval over seeds for the start at the "
        "central policy.",
    ),
}
