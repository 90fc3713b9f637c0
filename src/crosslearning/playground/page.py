"""The playground as one HTML file, with its style, code and data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslearning._base.files import check_page, write_atomically
from crosslearning._base.pages import data_script, fill, security_policy

_HERE = Path(__file__).parent
_ASSETS, _SHIPPED = _HERE / "assets", _HERE / "shipped"
#: In the order of their dependencies.
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
#: Marks the page, so that no other file is overwritten.
_MARK = "<title>crosslearning playground</title>"


def write_page(path: str | Path, families: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Write the playground to a file.

    ``families`` are results of :func:`~crosslearning.playground.families.family_of`. Without one of
    navigation, or of pendulums, the shipped family is used.
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
    """Return the data of the page: the families to drive and to swing, and the learning demo."""
    shipped = {kind: json.loads((_SHIPPED / f"{kind}.json").read_bytes()) for kind in KINDS}
    given = {kind: [one for one in families if one["kind"] == kind] for kind in KINDS}
    drive, swing = (given[kind] or [shipped[kind]] for kind in KINDS)
    return {"drive": drive, "swing": swing, "learn": shipped["pendulums"]["learn"]}


#: The kinds of tasks that the page knows.
KINDS = ("navigation", "pendulums")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
