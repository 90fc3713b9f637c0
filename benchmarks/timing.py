"""Measuring on a noisy machine: what is compared is timed in turns, and medians are taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np


def in_turns(
    *calls: Callable[[], object], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the median seconds of each call, the calls taking turns ``rounds`` times."""
    for call in calls:
        call()
    times = np.empty((rounds, len(calls)))
    for r in range(rounds):
        for c, call in enumerate(calls):
            start = clock()
            call()
            times[r, c] = clock() - start
    return [float(t) for t in np.median(times, axis=0)]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of log time against log size over the larger half of the sizes."""
    half = len(sizes) // 2
    slope, _ = np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)
    return float(slope)


def human(seconds: float) -> str:
    """Return a duration with a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
