"""What hostile cases are made of: where they are built, the commands, and strange values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosslearning._base.files import read_tensors, write_tensors
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION

Command = tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """Where a case is built: a working folder with the run, and a home that is not to change."""

    work: Path
    home: Path

    @property
    def run(self) -> Path:
        """The copy of the run."""
        return self.work / "run"


@dataclass(frozen=True)
class Case:
    """A hostile thing: how it is built, and which commands meet it."""

    name: str
    build: Callable[[Site], None]
    commands: Sequence[Command]
    #: Whether pictures are drawn, which takes most of the time.
    drawn: bool = False


LIST: tuple[Command, ...] = (("runs", "."), ("runs", ".", "--json"))
INFO: tuple[Command, ...] = (("info", "run"),)
RESUME: tuple[Command, ...] = (("resume", "run"), ("resume", "run", "--iterations", "4"))
USE: tuple[Command, ...] = (
    ("evaluate", "run", "--trials", "1"),
    ("evaluate", "run", "--trials", "1", "--json", "--best"),
    ("compare", "run", "run", "--trials", "1"),
    ("export", "run", "--to", "json", "--out", "out/policy.json"),
    ("identify", "run", "--tasks", "paper:r=1", "--episodes", "1", "--horizon", "2"),
)
ADAPT: tuple[Command, ...] = (
    ("adapt", "run", "--tasks", "paper:r=1", "--out", "out/adapted", "--iterations", "1"),
)
CERTIFY: tuple[Command, ...] = (("certify", "run", "--samples", "2"),)
REPORT: tuple[Command, ...] = (("report", "run", "--no-open", "--trials", "1", "--samples", "2"),)
DRAW: tuple[Command, ...] = (
    ("plot", "run", "--trials", "1"),
    ("relate", "run"),
    ("theory", "run", "--samples", "2"),
    ("models", "run", "--episodes", "1", "--horizon", "2", "--steps", "1"),
    ("render", "run", "--out", "out/film.png", "--horizon", "2"),
    ("play", "run", "--no-open", "--out", "out/page.html"),
)
LOOK = (*LIST[:1], *INFO)
#: What a sweep is asked for, so that one that was begun is gone on from.
SWEEP: Command = (
    *("sweep", "--out", "sweep", "--tasks", "linear-quadratic", "--epsilons", "0,1"),
    *("--seeds", "1", "--iterations", "2", "--stage-iterations", "1", "--trials", "1"),
    *("--method", "policy-gradient", "--max-knots", "5", "--batch-size", "2"),
)

STRANGE: dict[str, bytes] = {
    "nothing": b"",
    "blank": b"\n\n",
    "null": b"null",
    "true": b"true",
    "number": b"-1",
    "text": b'"text"',
    "list": b"[]",
    "object": b"{}",
    "lists": b"[[[]], {}]",
    "deep-lists": b"[" * 100_000,
    "deep-closed": b"[" * 100_000 + b"]" * 100_000,
    "deep-objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "nan": b'{"version": NaN, "iteration": NaN}',
    "infinity": b'{"version": Infinity, "asked": -Infinity}',
    "huge-number": b'{"version": 1e999999}',
    "many-digits": b'{"version": ' + b"9" * 100_000 + b"}",
    "beyond-64-bits": b'{"version": 36893488147419103232, "iteration": 36893488147419103232}',
    "duplicate-keys": b'{"version": 1, "version": [], "passed": true, "passed": {}}',
    "surrogate": b'{"version": 1, "tasks": {"given": "\\ud800", "content": "", "code": {}}}',
    "no-utf8": b'{"version": 1, "\xff\xfe": "\x80"}',
    "utf16": '{"version": 1}'.encode("utf-16"),
    "nul": b"\x00" * 1000,
    "cut": b'{"version": 1',
    "more": b'{"version": 1}}{',
    "version-text": b'{"version": "1"}',
    "version-true": b'{"version": true}',
    "version-list": b'{"version": [1]}',
    "terminal": b'{"version": "\\u001b]0;owned\\u0007\\u001b[2J", "kind": "\\u001b[31m"}',
    "markup": b'{"version": "<script>alert(1)</script>", "tasks": "<img src=x onerror=alert(1)>"}',
}
#: What stands in the place of one value of an honest file.
VALUES: dict[str, Any] = {
    "null": None,
    "list": [[]],
    "object": {"x": {}},
    "text": "\x1b[2J{{scripts}}</script>",
    "huge": 10**400,
    "large": 1e308,
    "negative": -(2**70),
    "nan": float("nan"),
}


def put(name: str, content: bytes) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        path = site.run / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    return build


def replace(file: str, value: Any) -> Callable[[Site], None]:
    """Put a value in the place of every other one of the first two levels, all at once."""

    def build(site: Site) -> None:
        path = site.run / file
        if not path.exists():
            return
        content = json.loads(path.read_bytes())
        for number, key in enumerate(content):
            if isinstance(content[key], dict):
                content[key] = dict.fromkeys(content[key], value)
            elif number % 2 and key != "asked":
                content[key] = value
        path.write_text(json.dumps(content))

    return build


def unfinish(site: Site) -> None:
    for name in ("model.safetensors", "record.json"):
        (site.run / name).unlink()


def both(*builds: Callable[[Site], None]) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        for one in builds:
            one(site)

    return build


def rewrite(path: Path, arrays: Any = None, description: Any = None) -> None:
    """Write a learner's file again with other content and a right checksum, as a forger would."""
    held, about = read_tensors(path, FILE_KIND, FILE_VERSION)
    about = {k: v for k, v in about.items() if k not in ("kind", "version")}
    changed = {**about, **(description or {})}
    write_tensors(path, FILE_KIND, FILE_VERSION, {**held, **(arrays or {})}, changed)
