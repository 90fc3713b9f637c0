"""The style of figures: fonts, sizes and colours."""

from __future__ import annotations

import io
import logging
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text

from crosslearning._base.files import write_atomically

#: Okabe and Ito's colours, which colour-blind people can distinguish.
CENTRAL = "#000000"
TASKS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
GOAL = "#009E73"
#: Kinds of dynamics models; others take the third colour.
MODELS = {"cross-learned": TASKS[0], "pooled": TASKS[1], "separate": TASKS[3]}
#: Greys, from dark to light: text, explanations, bounds, backgrounds.
DARK, GREY, LIGHT, PALE = "#344054", "#667085", "#98A2B3", "#D0D5DD"
#: Crashes and failed checks.
ALARM = "#B42318"
#: Widths in inches of two columns of a page, and of one and a half.
WIDE, NARROW = 7.0, 4.6

#: The style inside a ``with`` block or, as a decorator, inside a function.
figure_style = partial(
    mpl.rc_context,
    mpl.rc_params_from_file(
        Path(__file__).with_name("figures.mplstyle"), use_default_template=False
    ),
)


def save_figure(
    figure: Figure, path: Path, formats: tuple[str, ...] = ("png", "pdf")
) -> list[Path]:
    """Write a figure in every format beside ``path``, and return the files."""
    written = []
    for suffix in formats:
        written.append(path.with_name(f"{path.name}.{suffix}"))
        write_atomically(written[-1], figure_bytes(figure, suffix))
    return written


def figure_bytes(figure: Figure, suffix: str) -> bytes:
    """Return the file content of a figure, without dates: the same figure is the same file."""
    # matplotlib sets the fonts' dates low on purpose, and fontTools warns of it.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    undated = {"pdf": "CreationDate", "svg": "Date"}.get(suffix, "Software")
    options: dict[str, Any] = {"format": suffix, "bbox_inches": "tight"}
    options["metadata"] = {undated: None}
    content = io.BytesIO()
    with figure_style():
        try:
            figure.savefig(content, **options)
        except ValueError:
            # Names with dollars are not formulas.
            for text in figure.findobj(Text):
                text.set_parse_math(False)
            content = io.BytesIO()
            figure.savefig(content, **options)
    return content.getvalue()
