"""How commands print numbers: tables for people, JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from crosslearning.cli.application import console
from crosslearning.evaluation import Evaluation


def show_evaluation(run: Path, trials: int, results: list[Evaluation]) -> None:
    """Print evaluations as a table."""
    table = Table(title=escape(f"{run}: {trials} episodes each, 95 % intervals"))
    for heading in ("task", "policy", "discounted return", *results[0].rates):
        table.add_column(heading, overflow="fold")
    for result in results:
        shares = (rate.percent() for rate in result.rates.values())
        cells = (result.task, result.policy, str(result.discounted_return), *shares)
        table.add_row(*(escape(cell) for cell in cells))
    console.print(table)


def print_json(rows: list[dict[str, Any]]) -> None:
    """Print plain data as JSON, with null in the place of NaN."""
    print(json.dumps(_without_nan(rows), indent=2))


def _without_nan(value: Any) -> Any:
    """Return plain data with null in the place of NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value
