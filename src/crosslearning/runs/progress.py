"""The progress bars of runs, replays and studies."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.text import Text


class Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


def progress_bar(
    console: Console | None, *columns: str | ProgressColumn, transient: bool = False
) -> Progress:
    """Return a bar with columns behind it, hidden where nobody would see it move."""
    hidden = console is None or console.quiet or not console.is_terminal
    head = "[bold]{task.description}", BarColumn()
    return Progress(*head, *columns, console=console, disable=hidden, transient=transient)
