"""The corpus: every hostile folder, file and name, with the commands that meet it.

Each is a change of an honest run, or of a sweep or a policy, built in a copy. Everything that a
stranger can put into a folder is here in some form.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.security import (
    hostile_data,
    hostile_files,
    hostile_models,
    hostile_names,
    hostile_settings,
)
from tests.security.cases import Case


def cases() -> Iterator[Case]:
    """Yield every case."""
    for module in (
        hostile_settings,
        hostile_data,
        hostile_files,
        hostile_models,
        hostile_names,
    ):
        yield from module.cases()
