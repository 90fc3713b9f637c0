"""Which cells are raced, in which order, and how long they will take."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from benchmarks import rival
from benchmarks.race.cells import Cell
from benchmarks.race.entrants import BUDGETS, METHODS, Budget, Rival
from crosslearning.errors import InputError, unknown_name


def planned(
    out: Path,
    families: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    small: bool = False,
) -> list[Cell]:
    """Return the cells that are asked for, seed by seed, so that all methods come along.

    Parameters
    ----------
    families, methods : sequence of str, optional
        Names, of methods also their beginnings; by default all.
    seeds : int, optional
        At most so many of each.
    small : bool
        Whether to race one seed up to the first mark alone.
    """
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds is {seeds}; give at least 1")
    for family in families or ():
        if family not in BUDGETS:
            raise unknown_name("family", family, BUDGETS)
    for method in methods or ():
        if not any(_named(name, method) for name in METHODS):
            raise unknown_name("method", method, METHODS)
    cells = []
    for family in families or BUDGETS:
        for method, budget in BUDGETS[family].items():
            if methods and not any(_named(method, one) for one in methods):
                continue
            budget = _short(budget) if small else budget
            most = min(budget.seeds, seeds or budget.seeds)
            cells += [Cell(family, method, seed, budget, out) for seed in range(most)]
    if not cells:
        raise InputError(
            f"none of {', '.join(methods or ())} races on {', '.join(families or BUDGETS)}"
        )
    return sorted(cells, key=lambda cell: cell.seed)


def _named(method: str, asked: str) -> bool:
    """Tell whether a method is asked for: by its name, or by the algorithm before a dash."""
    return method == asked or method.startswith(f"{asked}-")


def _short(budget: Budget) -> Budget:
    share = budget.marks[0] / max(budget.marks[-1], 1)
    return Budget(budget.marks[:1], 1, max(5.0, share * budget.seconds))


def without_missing(cells: Sequence[Cell], found: Container[Cell]) -> tuple[list[Cell], str]:
    """Return the cells that can be measured here, and what is to be said of the others."""
    theirs = {cell for cell in cells if isinstance(METHODS[cell.method], Rival)}
    if not theirs or rival.installed():
        return list(cells), ""
    waiting = [cell for cell in theirs if cell not in found]
    return [cell for cell in cells if cell not in theirs], rival.MISSING if waiting else ""


def estimate(cells: Sequence[Cell], left: Sequence[Cell], jobs: int) -> str:
    """Return how many cells there are, and about how long those that are left take."""
    lines = [f"{len(cells)} cells, {len(left)} left"]
    for family in dict.fromkeys(cell.family for cell in left):
        entries = [cell for cell in left if cell.family == family]
        seconds = sum(cell.budget.seconds for cell in entries)
        lines.append(f"  {family}: {len(entries)} cells, {seconds / 60.0:.0f} min of one core")
    seconds = sum(cell.budget.seconds for cell in left)
    if left:
        # What is begun last may take long alone.
        whole = max(seconds / jobs, max(cell.budget.seconds for cell in left))
        lines.append(f"about {whole / 60.0:.0f} min, {jobs} at a time")
    return "\n".join(lines)
