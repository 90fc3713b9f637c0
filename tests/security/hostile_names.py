"""Names that are markup, terminal controls, paths, or no text at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

from tests.security.cases import (
    CERTIFY,
    DRAW,
    INFO,
    LIST,
    LOOK,
    REPORT,
    USE,
    Case,
    Site,
)


def cases() -> Iterator[Case]:
    """Yield the cases of this module."""
    yield from _folder_names()
    yield from _task_names()


NAMES: dict[str, bytes] = {
    "markup": b"<img src=x onerror=alert(1)>",
    "script": b"<script>alert(1)<",
    "template": b"{{scripts}}{{data}}{% x %}${x}",
    "comment": b"<!--",
    "quotes": b"'\"`;touch canary;",
    "substitution": b"$(touch canary)",
    "terminal": b"\x1b]0;owned\x07\x1b[2J\x1b[31m",
    "c1": "\x9b2J".encode(),
    "newline": b"a\nFiles: certified",
    "return": b"a\rstate: finished",
    "backspace": b"evil\x08\x08\x08\x08good",
    "no-utf8": b"run-\xff\xfe\x80",
    "surrogates": b"\xed\xa0\x80",
    "direction": "\u202egnp.exe".encode(),
    "option": b"--help",
    "dots": b"...",
    "blank": b" ",
    "rich": b"[bold red]x[link=file:]",
    "percent": b"%s%n{0.__class__}",
    "maths": b"$\\frac{$ \\undefined",
    "backslash": b"a\\b\\..\\..",
    "long": b"n" * 255,
    "line-ends": "a\u2028b\u2029c".encode(),
    "tilde": b"~root",
}


def _folder_names() -> Iterator[Case]:
    for kind, raw in NAMES.items():
        name = os.fsdecode(raw)
        place = f"./{name}"

        def build(site: Site, name: str = name) -> None:
            site.run.rename(site.work / name)

        wanted = (*LIST, *INFO, ("runs", "run"), USE[1], *CERTIFY, *REPORT, DRAW[5])
        commands = [tuple(place if word == "run" else word for word in one) for one in wanted]
        yield Case(f"name-{kind}", build, commands, drawn=kind in ("maths", "no-utf8"))


#: Names that a task file may give, and some that it may not.
TASK_NAMES: dict[str, str] = {
    "markup": "<img src=x onerror=alert(1)>",
    "script": "</script><script>alert(1)</script>",
    "template": "{{scripts}}{{data}}",
    "comment": "<!--<script>",
    "terminal": "\x1b]0;owned\x07\x1b[2J",
    "newline": "a\nFiles: certified",
    "maths": "$\\frac{$ \\undefined",
    "rich": "[bold red]x[/]",
    "path": "../../etc/passwd",
    "c-comment": '*/ int main(void) { return system("touch canary"); } /*',
    "direction": "\u202egnp.exe",
    "long": "n" * 100_000,
    "empty": "",
    "percent": "%s%n{0.__class__}",
}


def _task_names() -> Iterator[Case]:
    for kind, name in TASK_NAMES.items():

        def build(site: Site, name: str = name) -> None:
            shutil.rmtree(site.run)
            text = f'[[task]]\nid = "Pendulum-v1"\nname = {json.dumps(name)}\nhorizon = 3\n'
            (site.work / "tasks.toml").write_text(text)

        train = ("train", "--tasks", "tasks.toml", "--out", "run", "--iterations", "1")
        train += ("--method", "policy-gradient", "--batch-size", "2", "--max-knots", "4")
        then = (*LOOK, *CERTIFY, *REPORT, DRAW[0], USE[0], USE[3])
        drawn = kind in ("maths", "markup")
        yield Case(f"task-name-{kind}", build, (train, *then), drawn)
