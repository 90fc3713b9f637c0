"""Logged data in whatever form they come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslearning.analysis.logged.episodes import read_episodes
from crosslearning.analysis.logged.log import Log, check_log
from crosslearning.analysis.logged.tables import read_table
from crosslearning.errors import InputError


def read_log(data: Any, columns: Mapping[str, Any] | None = None) -> Log:
    """Return the episodes of every machine, checked to be whole and to fit together.

    Parameters
    ----------
    data : mapping, sequence, Minari dataset or path
        As :func:`crosslearning.learn_from` takes it.
    columns : mapping, optional
        What the columns of a table are called.
    """
    if isinstance(data, str | Path):
        log = read_table(data, columns or {})
    elif columns is not None:
        raise InputError("columns are those of a table; leave them out for episodes as arrays")
    else:
        log = read_episodes(data)
    check_log(log)
    return log
