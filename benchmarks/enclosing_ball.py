"""Random smallest balls against a quadratic program and a certificate, and how many are wrong.

    python -m benchmarks.enclosing_ball --cases 100000

A case is one to thirty points of one of nine kinds, at a scale from 1e-150 to 1e150. Its ball is
wrong if it misses one of two references, both computed from the points and not from their inner
products:

- the certificate, in extended precision: the farthest point is as far from the centre as the
  radius says, and so is, in the mean square, what carries the ball. The first is no less and the
  second no more than the squared radius of the smallest ball, whatever the centre;
- Clarabel's solution of: minimise |c|² + s under |x_i|² − 2⟨x_i, c⟩ ≤ s.

Inner products of points of length L tell squared distances to a few ε L². The certificate allows
1e-13 L² in the square of the radius, Clarabel, which ends at 1e-8, 1e-6 L in the radius.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable

import clarabel
import numpy as np
from scipy import sparse

from crosslearning.rkhs.enclosing_ball import smallest_ball

KINDS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "normal": lambda draw, n, q: draw.normal(size=(n, q)),
    "grid": lambda draw, n, q: draw.integers(-2, 3, (n, q)).astype(float),
    "duplicates": lambda draw, n, q: draw.normal(size=(n, q))[
        draw.integers(max(n // 3, 1), size=n)
    ],
    "collinear": lambda draw, n, q: draw.normal(size=(n, 1)) * draw.normal(size=q),
    "collinear grid": lambda draw, n, q: draw.integers(-2, 3, (n, 1)) * draw.normal(size=q),
    "flat": lambda draw, n, q: draw.normal(size=(n, q)) * (draw.random(q) < 0.5),
    "unequal axes": lambda draw, n, q: draw.normal(size=(n, q)) * 10.0 ** draw.integers(-9, 1, q),
    "sphere": lambda draw, n, q: _unit(draw.normal(size=(n, q))),
    "clusters": lambda draw, n, q: (
        draw.normal(size=(n, q))[draw.integers(max(n // 3, 1), size=n)]
        + 10.0 ** draw.integers(-12, -3) * draw.normal(size=(n, q))
    ),
}


def _unit(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def points_of(seed: int) -> tuple[str, np.ndarray]:
    """Return the kind and the points of a case, a third of them far from the origin."""
    draw = np.random.default_rng(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    points = KINDS[kind](draw, int(draw.integers(1, 31)), int(draw.integers(1, 9)))
    offset = draw.normal(size=points.shape[1]) * 10.0 ** draw.integers(0, 4)
    points = points + (draw.random() < 1 / 3) * offset
    # Squares of what is much smaller than 1e-150 are no numbers with sixteen digits any more.
    size = float(np.max(np.abs(points))) or 1.0
    return kind, points / size * 10.0 ** draw.uniform(-150.0, 150.0)


def solved_radius(points: np.ndarray) -> float | None:
    """Return the radius that a quadratic program finds, or None if it was not solved."""
    n, q = points.shape
    centred = points - points.mean(axis=0)
    size = float(np.max(np.abs(centred)))
    if size == 0.0:
        return 0.0
    centred = centred / size
    squares = np.sum(centred**2, axis=1)
    quadratic = sparse.csc_matrix(np.diag([2.0] * q + [0.0]))
    constraints = sparse.csc_matrix(np.column_stack([-2.0 * centred, -np.ones(n)]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(n)]
    linear = np.array([0.0] * q + [1.0])
    solution = clarabel.DefaultSolver(
        quadratic, linear, constraints, -squares, cones, settings
    ).solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        return None
    return size * math.sqrt(max(solution.obj_val, 0.0))


def fault_of(points: np.ndarray, reference: bool = True) -> str:
    """Return what is wrong with the smallest ball of some points; nothing if it is right."""
    coefficients, radius = smallest_ball(points @ points.T)
    if np.any(coefficients < 0.0) or abs(coefficients.sum() - 1.0) > 1e-12:
        return "not a convex combination"
    scale = float(np.max(np.abs(points))) or 1.0
    precise = (points / scale).astype(np.longdouble)
    size = float(np.max(np.sum(precise**2, axis=1)))
    weights = coefficients / coefficients.sum(dtype=np.longdouble)
    distances = np.sum((precise - weights @ precise) ** 2, axis=1)
    square = np.longdouble(radius / scale) ** 2
    if float(np.max(distances) - square) > 1e-13 * size:
        return "a point is outside"
    if float(square - weights @ distances) > 1e-13 * size:
        return "not the smallest"
    if reference:
        solved = solved_radius(points / scale)
        if solved is None:
            return "no reference"
        if abs(radius / scale - solved) > 1e-6 * math.sqrt(size):
            return "not the radius of the quadratic program"
    return ""


def main() -> None:
    """Count the wrong cases, by kind."""
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS)
    parser.add_argument("--cases", type=int, default=100_000)
    cases = parser.parse_args().cases
    faults: Counter[tuple[str, str]] = Counter()
    for seed in range(cases):
        kind, points = points_of(seed)
        fault = fault_of(points)
        if fault:
            faults[kind, fault] += 1
            print(f"case {seed} ({kind}): {fault}")
    unsolved = sum(count for (_, fault), count in faults.items() if fault == "no reference")
    wrong = sum(faults.values()) - unsolved
    print(f"{cases:,} cases: {wrong} wrong, {unsolved} without a reference")


if __name__ == "__main__":
    main()
