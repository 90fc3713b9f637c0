"""The figures of the paper's numerical section, by the names of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from crosslearning.errors import unknown_name
from crosslearning.figures import projections
from crosslearning.figures.paper import curves, scenes
from crosslearning.figures.style import save_figure
from crosslearning.reproduction.paper.experiment import CROSS, Experiment
from crosslearning.reproduction.paper.measure import SceneDrives


class _Data(NamedTuple):
    """What the figures show, the cross-learned settings, and what d_o is measured to."""

    measurements: curves.Results
    adaptation: curves.Adaptation
    drives: Mapping[str, SceneDrives]
    settings: Any
    to_centre: bool


FIGURES: dict[str, Callable[[_Data], Figure]] = {
    "robot-model": lambda of: scenes.robot_model_figure(of.to_centre),
    "projection-exact": lambda _: projections.exact_projection_figure()[0],
    "projection-relaxed": lambda _: projections.relaxed_projection_figure()[0],
    "trajectories": lambda of: scenes.trajectories_figure(of.drives),
    "cost-by-task": lambda of: curves.cost_by_task_figure(of.measurements),
    "cost-average": lambda of: curves.cost_average_figure(of.measurements),
    "mission": lambda of: scenes.mission_figure(of.drives),
    "distances-and-multipliers": lambda of: curves.constraint_figure(
        of.measurements, of.settings.epsilon
    ),
    "model-order": lambda of: curves.model_order_figure(
        of.measurements, of.settings.budget, of.settings.max_knots
    ),
    "held-out-maps": lambda of: curves.held_out_maps_figure(of.measurements),
    "adaptation": lambda of: curves.adaptation_figure(of.adaptation),
}


def check_names(only: Iterable[str] | None) -> None:
    """Refuse unknown names of figures before anything is run."""
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
    settings = experiment.configs(experiment.seeds[0])[CROSS].settings
    to_centre = experiment.reading.task_options.get("obstacle_distance") == "centre"
    data = _Data(measurements, adaptation, drives, settings, to_centre)
    for name, figure in FIGURES.items():
        if name in chosen:
            yield save_figure(figure(data), experiment.path / "figures" / name)
