"""How figures look: the same fonts, and the same colour for the same thing everywhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

#: Okabe and Ito's colours, which colour-blind people tell apart.
CENTRAL = "#000000"
TASKS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
OBSTACLE_FACE, OBSTACLE_EDGE = "#CBCFDC", "#667085"
GOAL = "#009E73"

_SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": False,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "svg.hashsalt": "crosslearning",
    "pdf.fonttype": 42,
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply the style inside a ``with`` block."""
    with mpl.rc_context(_SETTINGS):
        yield


def save_figure(
    figure: Figure, path: Path, formats: tuple[str, ...] = ("png", "pdf")
) -> list[Path]:
    """Write a figure in every format beside ``path``, and return the files."""
    # Fonts carry a date that matplotlib sets low on purpose; fontTools remarks on it.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix in formats:
        target = path.with_suffix(f".{suffix}")
        # A fixed date makes the same figure the same file.
        metadata = {"CreationDate": None} if suffix == "pdf" else {"Software": None}
        with figure_style():
            figure.savefig(target, bbox_inches="tight", metadata=metadata)
        written.append(target)
    return written
