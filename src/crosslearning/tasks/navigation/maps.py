"""Maps of navigation tasks: those of the paper, a mission, and random ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from crosslearning.errors import InputError
from crosslearning.tasks.navigation.environment import Navigation
from crosslearning.tasks.navigation.obstacles import Circle, Ellipse, Obstacle, clearances, outline
from crosslearning.tasks.numbers import check_names, read_numbers, read_probability

#: The seed of maps for evaluation; training maps have smaller ones.
UNSEEN_SEED = 30_000
#: Of random maps: least distance between two obstacles, and between an obstacle and the rim of a
#: goal, or a fixed start; least free fraction of the start area. Convex obstacles that do not touch
#: never enclose a part of the plane, so that every goal can be reached from everywhere.
GAP, CLEARANCE, FREE_SHARE = 1.0, 0.5, 0.6
#: How many maps are tried, and how many obstacles are drawn for each.
_ATTEMPTS, _DRAWS = 20, 200


def navigation_set(name: str, /, **options: Any) -> dict[str, Navigation]:
    """Return the descriptions of a set of navigation tasks.

    The options are parameters of :class:`Navigation` to change in every task; for ``"random"``
    also those of :func:`random_maps`.

    Examples
    --------
    >>> from crosslearning.tasks import navigation_set
    >>> [len(map_.obstacles) for map_ in navigation_set("paper").values()]
    [1, 1, 1]
    """
    check_names("navigation task set", [name], NAVIGATION_SETS)
    return NAVIGATION_SETS[name](**options)


def _scenes(scenes: dict[str, dict[str, Any]], /, **options: Any) -> dict[str, Navigation]:
    return {name: Navigation().replace(**(scene | options)) for name, scene in scenes.items()}


def _radii(*circles: tuple[float, float, float]) -> dict[str, dict[str, Any]]:
    return {f"r={radius:g}": {"obstacles": [(x, y, radius)]} for x, y, radius in circles}


_START = (0.5, 1.5)
_SCENES: dict[str, dict[str, dict[str, Any]]] = {
    # The three training tasks of the paper.
    "paper": _radii((7, 2, 0.5), (2, 2, 1.0), (7, 7, 2.0)),
    # The scenes of its sample trajectories, around a circle and around an ellipse.
    "paper-circle": {"circle": {"obstacles": [(2.5, 3.5, 0.5)], "start": _START}},
    "paper-ellipse": {"ellipse": {"obstacles": [(2.5, 3.5, 0.5, 2.0)], "start": _START}},
    # The scenes of its cost figures: one centre, three radii.
    "paper-radii": _radii((2, 2, 0.5), (2, 2, 1.0), (2, 2, 2.0)),
    # Three goals among many obstacles; the map is ours, as the paper's is lost.
    "mission": {
        "mission": {
            "obstacles": [
                (2.5, 3.5, 0.5),  # on the way to the first goal
                (5.3, 3.8, 0.6),  # on the way to the second
                (8.3, 3.4, 0.7, 2.0, 0.3),  # the large one, before the last
                (2.4, 6.8, 1.0),
                (3.3, 0.8, 0.4),
                (8.2, 7.4, 1.1, 0.5, -0.5),
                (10.8, 2.2, 0.5),
            ],
            "goals": [(5.0, 6.0), (5.5, 1.5), (11.0, 5.0)],
            "start": _START,
        }
    },
}


def random_maps(
    seed: int = 0,
    count: int = 3,
    *,
    unseen: bool = False,
    obstacle_count: tuple[int, int] = (1, 3),
    sizes: tuple[float, float] = (0.4, 1.6),
    ellipse_share: float = 0.5,
    **options: Any,
) -> dict[str, Navigation]:
    """Return random maps; each depends only on the seed and its number.

    Obstacles keep a distance from goals and from one another, and at least 60 % of the start area
    is free, so that every goal can be reached.

    Parameters
    ----------
    seed, count : int
        The seed, and the number of maps.
    unseen : bool
        Whether to use :data:`UNSEEN_SEED`, which is kept for evaluation.
    obstacle_count : pair of int
        Bounds of the number of obstacles in a map.
    sizes : pair of float
        Bounds of the radii and semi-axes.
    ellipse_share : float
        Probability that an obstacle is an ellipse, rotated at random.
    **options
        Parameters of :class:`Navigation`. Without ``goals`` there is one, drawn from the inner
        80 % of the start area.

    Examples
    --------
    >>> from crosslearning.tasks import random_maps
    >>> len(random_maps(seed=7, count=3))
    3
    """
    fewest, most = (int(number) for number in read_numbers("obstacle_count", obstacle_count, 2))
    smallest, largest = read_numbers("sizes", sizes, 2)
    if unseen and seed:
        raise InputError(f"unseen maps have seed {UNSEEN_SEED}, but seed is {seed}; drop one")
    seed = UNSEEN_SEED if unseen else seed
    if seed < 0 or count < 1:
        raise InputError(f"seed is {seed} and count {count}; give at least 0 and 1")
    if not 0 <= fewest <= most:
        raise InputError(f"obstacle_count is {obstacle_count}; give 0 ≤ fewest ≤ most")
    if not 0.0 < smallest <= largest:
        raise InputError(f"sizes is {sizes}; give 0 < smallest ≤ largest")
    read_probability("ellipse_share", ellipse_share)
    bare = Navigation(obstacles=()).replace(**options)
    if bare.obstacles:
        raise InputError("random maps draw their own obstacles; drop the option 'obstacles'")
    (x_low, x_high), (y_low, y_high) = bare.start_area
    maps = {}
    for number in range(count):
        generator = np.random.default_rng([seed, number])
        for _ in range(_ATTEMPTS):
            x, y = generator.uniform(0.1, 0.9, size=2)
            goal = (x_low + x * (x_high - x_low), y_low + y * (y_high - y_low))
            empty = bare if "goals" in options else bare.replace(goals=(goal,))
            wanted = int(generator.integers(fewest, most + 1))
            obstacles: list[Obstacle] = []
            for _ in range(_DRAWS):
                if len(obstacles) == wanted:
                    break
                x, y = (generator.uniform(low, high) for low, high in empty.start_area)
                a, b = generator.uniform(smallest, largest, size=2)
                turned = Ellipse((x, y), (a, b), generator.uniform(0.0, math.pi))
                drawn = turned if generator.random() < ellipse_share else Circle((x, y), a)
                if _fits(empty, obstacles, drawn):
                    obstacles.append(drawn)
            if len(obstacles) == wanted:
                maps[f"random-{seed}-{number}"] = empty.replace(obstacles=tuple(obstacles))
                break
        else:
            raise InputError(
                f"no room for {fewest} to {most} obstacles of sizes {sizes} in the start area "
                f"{bare.start_area}; ask for fewer or smaller ones, or a larger area"
            )
    return maps


def _fits(scene: Navigation, placed: list[Obstacle], drawn: Obstacle) -> bool:
    """Return whether a drawn obstacle is clear of the goals, the others and the starts."""
    if clearances(scene.goals, [drawn]).min() < scene.arrival_radius + CLEARANCE:
        return False
    if scene.start is not None and clearances(scene.start, [drawn])[0] < CLEARANCE:
        return False
    for other in placed:
        # Both ways, because one may contain the other.
        apart = clearances(outline(drawn), [other]).min()
        if min(apart, clearances(outline(other), [drawn]).min()) < GAP:
            return False
    free = clearances(scene.grid(41), [*placed, drawn]) > 0.0
    return bool(free.mean() >= FREE_SHARE)


NAVIGATION_SETS: dict[str, Callable[..., dict[str, Navigation]]] = {
    **{name: partial(_scenes, scenes) for name, scenes in _SCENES.items()},
    "random": random_maps,
}
