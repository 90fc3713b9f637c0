"""Links, pipes and devices in a run folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.security.cases import (
    CERTIFY,
    DRAW,
    INFO,
    LIST,
    LOOK,
    REPORT,
    RESUME,
    Case,
    Site,
    both,
    unfinish,
)


def cases() -> Iterator[Case]:
    """Yield the cases of this module."""
    yield from _links()
    yield from _odd_files()


#: Everything in a run folder that a command may write to or remove.
WRITTEN = (
    ".lock",
    "run.json",
    "config.toml",
    "metrics.jsonl",
    "evaluations.jsonl",
    "best.safetensors",
    "model.safetensors",
    "record.json",
    "relatedness.json",
    "models.json",
    "report.html",
    "certificate/certificate.txt",
    "certificate/certificate.json",
    "certificate/certificate.png",
    "certificate/certificate.signature",
    "report/evaluation.json",
    "theory/theory.txt",
    "theory/theory.json",
    "figures/learning.png",
    "figures/film.gif",
)
FOLDERS = (
    "checkpoints",
    "snapshots",
    "certificate",
    "certificate/earlier",
    "report",
    "theory",
    "figures",
    "tensorboard",
)
_WRITERS = (
    *RESUME,
    *CERTIFY,
    *REPORT,
    *DRAW[:4],
    ("render", "run", "--horizon", "2"),
    *LIST[:1],
)


def _link(name: str, target: Callable[[Site], Path | str]) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        path = site.run / name
        path.parent.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(target(site))

    return build


def _links() -> Iterator[Case]:
    for name in WRITTEN:
        yield Case(f"link-{name}", _link(name, lambda site: site.home / "notes.txt"), _WRITERS)
    for name in (".lock", "metrics.jsonl", "certificate/certificate.json", "report.html"):
        yield Case(f"dangling-{name}", _link(name, lambda site: site.home / "new"), _WRITERS)
        yield Case(f"cycle-{name}", _link(name, lambda _, n=name: Path(n).name), (*_WRITERS, *INFO))
    for name in FOLDERS:
        yield Case(f"link-{name}", _link(name, lambda site: site.home / "folder"), _WRITERS)
        yield Case(
            f"link-above-{name}", _link(name, lambda site: "../../home/folder"), _WRITERS[:4]
        )
    for name in ("checkpoints", "snapshots"):
        other = both(unfinish, _link(name, lambda site, n=name: site.home / "other" / n))
        yield Case(f"link-others-{name}", other, (*RESUME, *CERTIFY, *LIST))
    yield Case("link-run", _link_run, (*LOOK, *RESUME, *CERTIFY))
    yield Case("link-cycle-below", _link("again", lambda site: site.run), (*LOOK, *CERTIFY))
    yield Case("link-root", _link("root", lambda site: "/"), LOOK)
    for name in ("config.toml", "run.json", "model.safetensors", "record.json", "metrics.jsonl"):
        secret = _link(name, lambda site: site.home / ".ssh" / "id")
        yield Case(f"link-secret-{name}", secret, (*LOOK, *CERTIFY, *REPORT))
    yield Case("hard-link-lock", _hard(".lock"), (*RESUME, *LIST))
    yield Case("hard-link-metrics", both(unfinish, _hard("metrics.jsonl")), RESUME)


def _link_run(site: Site) -> None:
    """Let the whole folder be a link to another run, as a user may have it."""
    site.run.rename(site.work / "real")
    site.run.symlink_to("real")


def _hard(name: str) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        (site.run / name).unlink(missing_ok=True)
        os.link(site.home / "notes.txt", site.run / name)

    return build


def _odd_files() -> Iterator[Case]:
    for name in (*WRITTEN[:8], "certificate/certificate.json", "report/evaluation.json"):
        wanted = (*LOOK, *CERTIFY, *RESUME[:1])
        yield Case(f"pipe-{name}", _other(name, os.mkfifo), wanted)
        yield Case(f"folder-{name}", _other(name, Path.mkdir), wanted)
        yield Case(f"endless-{name}", _link(name, lambda site: "/dev/zero"), wanted)
        yield Case(f"sparse-{name}", _other(name, _sparse), wanted)
    for name in ("checkpoints", "certificate", "report", "figures"):
        yield Case(f"file-for-{name}", _in_place(name), (*LOOK, *CERTIFY, *REPORT, *RESUME[1:]))
    for number in ("99999999999999999999", "00000000", "-1", "1e3", "١٢", "00000009\n"):
        yield Case(f"checkpoint-{number!r}", _checkpoint(number), (*LOOK, *CERTIFY, *RESUME[:1]))


def _other(name: str, make: Callable[[Path], Any]) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        path = site.run / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        make(path)

    return build


def _sparse(path: Path) -> None:
    """Make a file that says it has four terabytes and takes no space."""
    with path.open("wb") as stream:
        stream.truncate(1 << 42)


def _in_place(name: str) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        shutil.rmtree(site.run / name, ignore_errors=True)
        (site.run / name).write_text("a file")

    return build


def _checkpoint(number: str) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        unfinish(site)
        newest = sorted((site.run / "checkpoints").glob("*"))[-1]
        shutil.copy(newest, newest.with_name(f"iteration-{number}.safetensors"))

    return build
