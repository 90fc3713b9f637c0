"""The playground in a real browser: how large, how fluent, and how soon it has learned.

``python -m benchmarks playground`` needs Chromium (``scripts/install_chromium.sh``). It has
no graphics card here: everything is drawn by the processor, as on a poor machine.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.browser import CHROMIUM, chromium
from benchmarks.table import Row
from crosslearning.errors import InputError
from crosslearning.playground import write_page

SEEDS = 10
#: A return of all three pendulums, on the mean, that counts as swung up.
SWUNG_UP = -250
#: What is wanted: a page of at most so many bytes, frames a second, seconds until all swing.
LARGEST, FLUENT, SOON = 1_000_000, 30.0, 60.0
_SIZE = {"width": 1440, "height": 900}


def ten_obstacles() -> str:
    """Return the address of a scene with ten obstacles."""
    places = [(2 + 3 * (n % 4), 1.5 + 3 * (n // 4), 0.3 + 0.05 * n) for n in range(10)]
    listed = ";".join(f"{x},{y},{a:.2f},{a / 2:.2f},{0.3 * x:.2f}" for x, y, a in places)
    return f"#drive&start=0.5,0.3,1&goals=9.5,9.5&obstacles={listed}"


def frames_a_second(page: Any, seconds: float = 4.0) -> float:
    """Return how many frames a page draws in a second."""
    page.evaluate("playground.frames.length = 0")
    page.wait_for_timeout(1000 * seconds)
    times = page.evaluate("playground.frames")
    return 1000.0 * (len(times) - 1) / (times[-1] - times[0])


def page_rows() -> list[Row]:
    """Measure the page's size, and its frames at rest and while an obstacle moves."""
    with tempfile.TemporaryDirectory() as folder, _browser() as browser:
        path = write_page(Path(folder) / "page.html")
        size = path.stat().st_size
        page = browser.new_page(viewport=_SIZE)
        page.goto(path.as_uri() + ten_obstacles())
        page.wait_for_timeout(1000)
        assert page.evaluate("playground.view.paths.length") == 5
        rest = frames_a_second(page)
        # As a hand that drags would: all is driven anew, and the field of actions with it.
        page.evaluate(
            """() => { const view = playground.view, draw = view.frame.bind(view); let n = 0;
            view.layers.field = true; window.dragged = "obstacles";
            view.frame = (seconds) => { n += 1;
              view.scene[dragged][0].x = 2 + Math.sin(n / 20); view.change(); draw(seconds); } }"""
        )
        obstacle = frames_a_second(page)
        page.evaluate('dragged = "goals"')
        goal = frames_a_second(page)
    measured = {
        "frames a second: five policies, ten obstacles": rest,
        "the same, an obstacle moving and the field shown": obstacle,
        "the same, the goal moving, by which all of the field changes": goal,
    }
    return [
        Row("size of the page", f"{size / 1000:.0f} kB", size / LARGEST, "< 1 MB", size < LARGEST),
        *(
            Row(what, f"{rate:.0f}", rate / FLUENT, f"≥ {FLUENT:g}", rate >= FLUENT)
            for what, rate in measured.items()
        ),
    ]


def learning_rows() -> list[Row]:
    """Measure how long the page takes until three pendulums swing up, for several seeds."""
    took, ends = [], []
    with tempfile.TemporaryDirectory() as folder, _browser() as browser:
        path = write_page(Path(folder) / "page.html")
        for seed in range(1, SEEDS + 1):
            page = browser.new_page(viewport=_SIZE)
            page.goto(f"{path.as_uri()}#learn&seed={seed}")
            page.click("#start")
            while page.evaluate("playground.view.worker !== null"):
                page.wait_for_timeout(200)
            curve = page.evaluate("playground.view.attempt.curve")
            reached = [one["seconds"] for one in curve if one["value"] >= SWUNG_UP]
            took.append(reached[0] if reached else math.inf)
            ends.append(curve[-1]["value"])
            page.close()
    good = float(np.mean(np.array(took) <= SOON))
    measured = (
        f"after {np.median(took):.0f} s (median), {np.max(took):.0f} s (slowest of {SEEDS} seeds); "
        f"at the end {np.mean(ends):.0f} (mean), {np.min(ends):.0f} (worst)"
    )
    return [
        Row(
            f"three pendulums learned in the page to {SWUNG_UP}",
            measured,
            good,
            "within 60 s",
            good == 1.0,
        )
    ]


def _browser() -> Any:
    if CHROMIUM is None:
        raise InputError("there is no Chromium; scripts/install_chromium.sh installs it")
    return chromium()


BENCHMARKS = [page_rows, learning_rows]
