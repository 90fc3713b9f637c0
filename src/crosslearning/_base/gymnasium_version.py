"""Importing this module refuses a version of Gymnasium that is too old.

Packages of environments often require an old one, and installing them replaces the one that was
installed with this library.
"""

from __future__ import annotations

import re

import gymnasium

from crosslearning.errors import MissingExtraError

#: The oldest version, as in pyproject.toml: before it, vector environments have no autoreset mode.
LEAST = "1.1"


def check_version(version: str) -> None:
    """Raise an error for a version of Gymnasium that is too old."""
    given, least = (tuple(map(int, re.findall(r"\d+", text)[:2])) for text in (version, LEAST))
    if given < least:
        raise MissingExtraError(
            f"Gymnasium {version} is installed, and crosslearning needs {LEAST} or later: pip "
            f"install 'gymnasium>={LEAST}'. If pip then says that another package requires the old "
            "one, that package may work all the same; if it does not, give it and crosslearning "
            "environments (venv) of their own"
        )


check_version(gymnasium.__version__)
