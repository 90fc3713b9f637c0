"""The page: one HTML file with its style, its code and its data, that asks for nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslearning._base.files import check_page, write_atomically
from crosslearning._base.pages import data_script, fill, security_policy

_HERE = Path(__file__).parent
_ASSETS, _SHIPPED = _HERE / "assets", _HERE / "shipped"
#: In the order in which they build on one another.
SCRIPTS = (
    "dom.js",
    "random.js",
    "kernels.js",
    "policies.js",
    "navigation.js",
    "drive_drawing.js",
    "action_field.js",
    "drive_view.js",
    "pendulum.js",
    "swing_drawing.js",
    "pendulums_view.js",
    "swing_view.js",
    "algebra.js",
    "models.js",
    "improvement.js",
    "learning.js",
    "learn_view.js",
    "app.js",
)
#: How the page is known, so that no other file is written over.
_MARK = "<title>crosslearning playground</title>"


def write_page(path: str | Path, families: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Write the playground to a file.

    Parameters
    ----------
    path : str or Path
    families : sequence of mappings
        What :func:`~crosslearning.playground.families.family_of` told of learners. Where none is of
        navigation, or none of pendulums, the family that ships is played.
    """
    target = Path(path)
    check_page(target, _MARK, "playground")
    write_atomically(target, page_text(families).encode())
    return target


def page_text(families: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the text of the page."""
    scripts = {name: f"\n{_asset(name)}" for name in SCRIPTS}
    parts = {
        "policy": security_policy([*scripts.values()], worker_src="blob:"),
        "style": _asset("style.css"),
        "data": data_script("data", page_data(families)),
        "scripts": "\n".join(
            f'<script id="{name}">{text}</script>' for name, text in scripts.items()
        ),
    }
    return fill(_asset("page.html"), parts)


def page_data(families: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return what the page is about: the families to drive and to swing, and what learns in it."""
    shipped = {kind: json.loads((_SHIPPED / f"{kind}.json").read_bytes()) for kind in KINDS}
    given = {kind: [one for one in families if one["kind"] == kind] for kind in KINDS}
    drive, swing = (given[kind] or [shipped[kind]] for kind in KINDS)
    return {"drive": drive, "swing": swing, "learn": shipped["pendulums"]["learn"]}


#: The kinds of tasks that the page knows.
KINDS = ("navigation", "pendulums")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
