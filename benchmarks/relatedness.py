"""Does the unrelated task rank first? ``python -m benchmarks.relatedness``.

Families of related tasks, with one unrelated task planted at a random place in the set, or with
none. For every seed the tasks, the place and the learning are new. Counted are: how often the
planted task ranks first, how often it is said to stand apart, and how often some task is said to
stand apart where none was planted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from crosslearning._base.statistics import wilson
from crosslearning.analysis.relatedness import Relatedness, relatedness
from crosslearning.learner import CrossLearner
from crosslearning.runs.metrics import LATE
from crosslearning.tasks import Task, random_maps
from crosslearning.tasks.linear_quadratic import cart

#: Kernel widths that suit random maps: wider than the paper's, which take far longer to fill.
WIDTHS = (2.8, 1.4, 2.8, 1.4, 1.4)


@dataclass(frozen=True)
class Plant:
    """A kind of family, and how it is learned.

    ``make(seed, place)`` returns the tasks, with the unrelated one at ``place``, or with none if
    that is None.
    """

    says: str
    tasks: int
    make: Callable[[int, int | None], list[Task]]
    iterations: int
    settings: dict[str, Any] = field(default_factory=dict)


def carts(seed: int, place: int | None, tasks: int = 6, spread: float = 1.25) -> list[Task]:
    """Return carts of random mass; the planted one answers to every force the wrong way."""
    generator = np.random.default_rng([seed, 1])
    described = [cart(spread ** generator.uniform(-1.0, 1.0)) for _ in range(tasks)]
    if place is not None:
        one = described[place]
        described[place] = one.replace(B=tuple((-value,) for (value,) in one.B))
    return [one.task(f"cart-{number}") for number, one in enumerate(described)]


def few_carts(seed: int, place: int | None) -> list[Task]:
    """Return three carts."""
    return carts(seed, place, tasks=3)


def unlike_carts(seed: int, place: int | None) -> list[Task]:
    """Return carts whose masses differ by up to a factor of four."""
    return carts(seed, place, spread=2.0)


def maps(seed: int, place: int | None, tasks: int = 6) -> list[Task]:
    """Return random maps; in the planted one the robot is paid for driving away from the goal."""
    described = random_maps(seed, tasks)
    made = []
    for number, (name, navigation) in enumerate(described.items()):
        changes = {"distance_cost": -10.0} if number == place else {}
        made.append(navigation.replace(**changes).task(name))
    return made


_CART_SETTINGS = {"epsilon": 0.5, "step_size": 0.1}
_MAP_SETTINGS = {
    "epsilon": 5.0,
    "step_size": 0.3,
    "max_knots": 100,
    "kernel": {"kernel": "gaussian", "covariance": [w * w for w in WIDTHS], "periodic": []},
}
PLANTS = {
    "carts": Plant("6 carts, masses 0.8 to 1.25", 6, carts, 400, _CART_SETTINGS),
    "unlike-carts": Plant("6 carts, masses 0.5 to 2", 6, unlike_carts, 400, _CART_SETTINGS),
    "few-carts": Plant("3 carts, masses 0.8 to 1.25", 3, few_carts, 400, _CART_SETTINGS),
    "maps": Plant("6 random maps, wide kernels", 6, maps, 600, _MAP_SETTINGS),
    # Where the steps are not small against ε, the noise of learning hides the tasks.
    "narrow-maps": Plant("6 random maps, all defaults", 6, maps, 600, {"epsilon": 3.0}),
}


def learn_family(kind: str, seed: int, planted: bool) -> tuple[Relatedness, int]:
    """Learn one family; return its relatedness and the place of the planted task."""
    plant = PLANTS[kind]
    place = int(np.random.default_rng([seed, 2]).integers(plant.tasks))
    tasks = plant.make(seed, place if planted else None)
    multipliers: list[Any] = []
    learner = CrossLearner(tasks, seed=seed, **plant.settings)
    learner.learn(
        plant.iterations,
        lambda report: multipliers.append(report.projection.multipliers),
        progress=False,
    )
    learner.close()
    last = multipliers[-int(LATE * plant.iterations) :]
    return relatedness(learner, np.mean(last, axis=0)), place


def judge(kind: str, seed: int) -> tuple[bool, bool, bool, bool]:
    """Return: planted ranks first; has the largest pull; stands apart; a false alarm without."""
    result, place = learn_family(kind, seed, planted=True)
    one = result.tasks[place]
    pulls = [task.share_of_pull or 0.0 for task in result.tasks]
    without, _ = learn_family(kind, seed, planted=False)
    alarm = any(task.stands_apart for task in without.tasks)
    return one.rank == 1, int(np.argmax(pulls)) == place, one.stands_apart, alarm


def main() -> None:
    """Learn, count and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("families", nargs="*", default=list(PLANTS), help="which; default: all")
    arguments = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 140)
    table = Table(title=f"One planted task, {arguments.seeds} seeds, 95 % intervals")
    for heading in ("family", "ranks first", "largest pull", "stands apart", "alarms without"):
        table.add_column(heading)
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        for kind in arguments.families:
            if kind not in PLANTS:
                parser.error(f"no such family {kind!r}; known: {', '.join(PLANTS)}")
            jobs = pool.map(judge, [kind] * arguments.seeds, range(arguments.seeds))
            counted = track(
                jobs, kind, arguments.seeds, console=console, disable=not console.is_terminal
            )
            rows = np.array(list(counted))
            table.add_row(PLANTS[kind].says, *(_cell(column) for column in rows.T))
    console.print(table)


def _cell(successes: Any) -> str:
    rate = wilson(successes)
    return f"{int(successes.sum())} [{100 * rate.low:.0f}, {100 * rate.high:.0f}] %"


if __name__ == "__main__":
    main()
