"""The figures of the numerical section, by the names of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from crosslearning.errors import unknown_name
from crosslearning.figures import projections
from crosslearning.figures.paper import curves, scenes
from crosslearning.figures.paper.robot import robot_model_figure
from crosslearning.figures.style import save_figure
from crosslearning.reproduction.paper.experiment import CROSS, Experiment
from crosslearning.reproduction.paper.measure import SceneDrives

#: Every figure as a function of measurements, adaptation, drives and the cross-learned settings.
FIGURES: dict[str, Callable[..., Figure]] = {
    "robot-model": lambda **_: robot_model_figure(),
    "projection-exact": lambda **_: projections.exact_projection_figure()[0],
    "projection-relaxed": lambda **_: projections.relaxed_projection_figure()[0],
    "trajectories": lambda drives, **_: scenes.trajectories_figure(drives),
    "cost-by-task": lambda measurements, **_: curves.cost_by_task_figure(measurements),
    "cost-average": lambda measurements, **_: curves.cost_average_figure(measurements),
    "mission": lambda drives, **_: scenes.mission_figure(drives),
    "distances-and-multipliers": lambda measurements, settings, **_: curves.constraint_figure(
        measurements, settings.epsilon
    ),
    "model-order": lambda measurements, settings, **_: curves.model_order_figure(
        measurements, settings.budget, settings.max_knots
    ),
    "held-out-maps": lambda measurements, **_: curves.held_out_maps_figure(measurements),
    "adaptation": lambda adaptation, **_: curves.adaptation_figure(adaptation),
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
    given = {"measurements": measurements, "adaptation": adaptation, "drives": drives}
    for name, figure in FIGURES.items():
        if name in chosen:
            drawn = figure(**given, settings=settings)
            yield save_figure(drawn, experiment.path / "figures" / name)
