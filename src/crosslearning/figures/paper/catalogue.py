"""The figures of the numerical section, by the names of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from crosslearning.errors import unknown_name
from crosslearning.figures import projections
from crosslearning.figures.paper import curves, scenes
from crosslearning.figures.paper.robot import robot_model_figure
from crosslearning.figures.style import save_figure
from crosslearning.paper.drives import SceneDrives
from crosslearning.paper.experiment import CROSS, Experiment, experiment_configs
from crosslearning.runs import RunConfig


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What figures are drawn from; the configuration is that of the cross-learned runs."""

    measurements: curves.Results
    adaptation: curves.Adaptation
    drives: Mapping[str, SceneDrives]
    config: RunConfig


FIGURES: dict[str, Callable[[Reproduction], Figure]] = {
    "robot-model": lambda _: robot_model_figure(),
    "projection-exact": lambda _: projections.exact_projection_figure()[0],
    "projection-relaxed": lambda _: projections.relaxed_projection_figure()[0],
    "trajectories": lambda given: scenes.trajectories_figure(given.drives),
    "cost-by-task": lambda given: curves.cost_by_task_figure(given.measurements),
    "cost-average": lambda given: curves.cost_average_figure(given.measurements),
    "mission": lambda given: scenes.mission_figure(given.drives),
    "distances-and-multipliers": lambda given: curves.constraint_figure(
        given.measurements, given.config.settings.epsilon
    ),
    "model-order": lambda given: curves.model_order_figure(
        given.measurements, given.config.settings.budget, given.config.settings.max_knots
    ),
    "held-out-maps": lambda given: curves.held_out_maps_figure(given.measurements),
    "adaptation": lambda given: curves.adaptation_figure(given.adaptation),
}


def check_names(only: Iterable[str] | None) -> None:
    """Refuse names of figures that there are not, before anything is run for them."""
    for name in only or ():
        if name not in FIGURES:
            raise unknown_name("figure", name, FIGURES)


def draw(
    experiment: Experiment,
    measurements: curves.Results,
    adaptation: curves.Adaptation,
    drives: Mapping[str, SceneDrives],
    only: Iterable[str] | None = None,
) -> Iterator[list[Path]]:
    """Draw an experiment's figures, all or some, into its folder; yield the files of each."""
    chosen = list(only or FIGURES)
    check_names(chosen)
    config = experiment_configs(experiment.seeds[0], experiment.scale, experiment.reading)[CROSS]
    given = Reproduction(measurements, adaptation, drives, config)
    for name, figure in FIGURES.items():
        if name in chosen:
            yield save_figure(figure(given), experiment.path / "figures" / name)
