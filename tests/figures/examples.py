"""Plain data for figures, as runs and certificates would hold it, and what was drawn of it."""

from __future__ import annotations

import math

import numpy as np


def metrics(tasks, lines=200, every=1, **changes):
    """Return lines of metrics whose returns rise from −100 to 0; changes replace fields.

    A change is a function of the line's number and the task's name, or of the number alone.
    """
    result = []
    for k in range(lines):
        share = (k + 1) / lines
        line = {
            "iteration": every * (k + 1),
            "steps": 300 * every * (k + 1),
            "return": dict.fromkeys(tasks, -100.0 * (1.0 - share) ** 3),
            "distance": dict.fromkeys(tasks, 3.0),
            "multiplier": dict.fromkeys(tasks, 0.01 * share),
            "knots": min(60, k + 1),
            "pruning_error": 1e-3 * share,
            "forced_by_cap": 0,
            "forced_by_conditioning": 0,
        }
        for field, change in changes.items():
            by_task = isinstance(line[field], dict)
            line[field] = {name: change(k, name) for name in tasks} if by_task else change(k)
        result.append(line)
    return result


def certificate(tasks, iteration=200, epsilon=3.0, **changes):
    """Return a certificate as its JSON holds it, as far as figures read it."""
    plain = {
        "passed": True,
        "tasks": list(tasks),
        "epsilon": "inf" if math.isinf(epsilon) else epsilon,
        "iteration": iteration,
        "constraint": [
            {"task": name, "ridged_distance": 2.9 + 0.01 * i} for i, name in enumerate(tasks)
        ],
        "pruning": {"budget": 1e-3},
        "gaps": [
            {"task": name, "gap": {"value": 10.0 + i, "low": 5.0, "high": 40.0 + i}}
            for i, name in enumerate(tasks)
        ],
        "alpha": None,
        "confidence": 0.95,
    }
    return plain | changes


def labels(figure):
    """Return the words of the figure's legend."""
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def curve(axes, label):
    """Return the line of a label."""
    (line,) = [one for one in axes.get_lines() if one.get_label() == label]
    return line


def bars(axes):
    """Return where the intervals of error bars end, shape (bars, 2), NaN for none."""
    segments = [
        segment
        for container in axes.containers
        for collection in container.lines[2]
        for segment in collection.get_segments()
    ]
    return np.array([s[:, 1] if np.ndim(s) == 2 and len(s) else [np.nan] * 2 for s in segments])
