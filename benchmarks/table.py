"""The table of results."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One measurement: what, in which numbers, as which ratio, and what was wanted of it."""

    what: str
    measured: str
    ratio: float
    wanted: str
    met: bool | None


def show(rows: list[Row], console: Console) -> None:
    """Print the rows as a table."""
    table = Table(title="crosslearning benchmarks", show_lines=True)
    table.add_column("what")
    table.add_column("measured")
    table.add_column("ratio", justify="right")
    table.add_column("wanted", justify="right")
    table.add_column("met", justify="center")
    for row in rows:
        met = {True: "[green]yes", False: "[red]no", None: ""}[row.met]
        table.add_row(row.what, row.measured, f"{row.ratio:.3g}", row.wanted, met)
    console.print(table)
