"""The playground as one HTML file, with its style, code and data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslearning._base.files import check_page, write_atomically
from crosslearning._base.pages import data_script, fill, security_policy

ASSETS, _SHIPPED = (Path(__file__).parent / name for name in ("assets", "shipped"))
_SCRIPT = re.compile(r'(?<=<script id=")(\w+\.js)">')
#: The kinds of tasks that the page knows.
KINDS = ("navigation", "pendulums")
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
    """Return the text of the page, whose template names its scripts in their order."""
    template = _asset("page.html")
    scripts = {name: f"\n{_asset(name)}" for name in _SCRIPT.findall(template)}
    parts = {
        "policy": security_policy([*scripts.values()], worker_src="blob:"),
        "style": _asset("style.css"),
        "data": data_script("data", page_data(families)),
    }
    return fill(_SCRIPT.sub(lambda tag: tag[0] + scripts[tag[1]], template), parts)


def page_data(families: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the data of the page: the families to drive and to swing, and the learning demo."""
    shipped = {kind: json.loads((_SHIPPED / f"{kind}.json").read_bytes()) for kind in KINDS}
    given = {kind: [one for one in families if one["kind"] == kind] for kind in KINDS}
    drive, swing = (given[kind] or [shipped[kind]] for kind in KINDS)
    return {"drive": drive, "swing": swing, "learn": shipped["pendulums"]["learn"]}


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
