"""The smallest ball that holds some points, from their inner products alone."""

from __future__ import annotations

import math

import numpy as np

from crosslearning.rkhs.checks import Floats

#: Coefficients, and distances relative to the spread, that count as zero.
_ROUNDING = 1e-12


def smallest_ball(gram: Floats) -> tuple[Floats, float]:
    """Return the centre of the smallest ball around N points, and its radius.

    The centre is Σ_i λ_i x_i with λ_i ≥ 0 and Σ λ_i = 1; λ is what is returned, shape (N,).

    The ball of Fischer, Gärtner and Kutz (2003): a centre, as far from every point of a set T
    as from its farthest point, walks towards the affine hull of T. It stops where one more
    point comes to be as far, and takes it into T; or at the centre of the sphere through T,
    where a point with a negative coefficient leaves T, and if there is none all is done.

    Parameters
    ----------
    gram : array, shape (N, N)
        ⟨x_i, x_j⟩, from any origin.
    """
    N = len(gram)
    values, vectors = np.linalg.eigh(gram)
    points = vectors * np.sqrt(np.maximum(values, 0.0))  # rows with these inner products
    spread = math.sqrt(float(np.max(np.sum((points - points[0]) ** 2, axis=1))))
    coefficients = np.eye(N)[0]
    if spread <= 0.0:
        return coefficients, 0.0
    points = (points - points.mean(axis=0)) / spread
    centre = points.mean(axis=0)
    held = [int(np.argmax(np.sum((points - centre) ** 2, axis=1)))]
    best, best_radius = coefficients, math.inf
    for _ in range(20 * N + 20):
        own = _affine_coefficients(points[held], centre)
        target = own @ points[held]
        step = target - centre
        length = float(step @ step)
        if length > _ROUNDING**2:
            # ‖x − (c + t·step)‖² falls along the step by as much for all of T; others catch up.
            radius = float(np.sum((points[held[0]] - centre) ** 2))
            slack = radius - np.sum((points - centre) ** 2, axis=1)
            closing = 2.0 * ((points[held[0]] - points) @ step)
            closing[held] = 0.0
            slack = np.maximum(slack, 0.0)
            share = np.where(closing > _ROUNDING * math.sqrt(length), slack, np.inf)
            share = share / np.where(closing > 0.0, closing, 1.0)
            first = int(np.argmin(share))
            if share[first] < 1.0:
                centre = centre + share[first] * step
                held.append(first)
                continue
            centre = target
        coefficients = np.zeros(N)
        coefficients[held] = np.maximum(own, 0.0)
        coefficients /= coefficients.sum()
        reached = _radius(points, coefficients)
        if reached < best_radius:
            best, best_radius = coefficients, reached
        if len(held) == 1 or own.min() >= -_ROUNDING:
            break
        held.pop(int(np.argmin(own)))
    return best, spread * best_radius


def _affine_coefficients(points: Floats, centre: Floats) -> Floats:
    """Return λ with Σ λ_i = 1 for which Σ λ_i x_i is the point of the affine hull nearest to c."""
    edges = points[1:] - points[0]
    rest = np.linalg.lstsq(edges.T, centre - points[0], rcond=None)[0]
    return np.concatenate([[1.0 - rest.sum()], rest])


def _radius(points: Floats, coefficients: Floats) -> float:
    centre = coefficients @ points
    return math.sqrt(float(np.max(np.sum((points - centre) ** 2, axis=1))))
