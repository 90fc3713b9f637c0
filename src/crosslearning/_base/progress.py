"""Progress bars of learning and of studies, shown in terminals only."""

from __future__ import annotations

import math
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from crosslearning._base.statistics import readable

#: Iterations over which returns are averaged.
_RECENT = 10


class Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        if not task.speed:
            return Text("")
        return Text(f"{task.speed:.0f}/s" if task.speed >= 10.0 else f"{task.speed:.2g}/s")


def progress_bar(console: Console | None, *columns: str | ProgressColumn) -> Progress:
    """Return a bar with columns; it is hidden outside terminals."""
    # The bar of a worker process would be drawn over that of its parent.
    worker = multiprocessing.parent_process() is not None
    hidden = console is None or console.quiet or not console.is_terminal or worker
    head = "[bold]{task.description}", BarColumn()
    return Progress(*head, *columns, console=console, disable=hidden)


@contextmanager
def learning_bar(
    progress: bool | Console, unit: str, done: int, total: int
) -> Iterator[Callable[..., object]]:
    """Show a learner's progress, rate, remaining time, return, knots and workers.

    ``progress`` is a console, True for standard error or False for no bar; ``unit`` is
    ``"iterations"`` or ``"steps"``. Yields ``show(done, knots, mean_return, workers="")``; of
    the returns a running mean is shown, while they are known.
    """
    console = Console(stderr=True) if progress is True else progress or None
    columns = MofNCompleteColumn(), unit, TaskProgressColumn(), Rate(), TimeRemainingColumn()
    last = "{task.fields[shown]} [dim]{task.fields[knots]} knots {task.fields[workers]}"
    with progress_bar(console, *columns, last) as shown:
        if shown.disable:
            yield lambda *_: None
            return
        fields: dict[str, Any] = {"knots": 0, "workers": "", "shown": ""}
        bar = shown.add_task("learning", total=total, completed=done, **fields)
        recent: deque[float] = deque(maxlen=_RECENT)

        def show(done: int, knots: int, mean_return: float, workers: str = "") -> None:
            if math.isfinite(mean_return):
                recent.append(mean_return)
            mean = fmean(recent) if recent else math.nan
            text = f"return {mean:{readable(mean)}}" if recent else ""
            shown.update(bar, completed=min(done, total), knots=knots, workers=workers, shown=text)

        yield show
