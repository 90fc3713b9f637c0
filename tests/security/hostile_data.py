"""JSON of every shape: in runs, policies and studies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crosslearning._base.files import document
from tests.security.cases import (
    CERTIFY,
    DRAW,
    LOOK,
    REPORT,
    RESUME,
    STRANGE,
    SWEEP,
    VALUES,
    Case,
    Command,
    Site,
    put,
    replace,
)

SOME = dict(list(STRANGE.items())[2::3])
FEW = dict(list(VALUES.items())[::2])


def cases() -> Iterator[Case]:
    """Yield the cases of this module."""
    yield from _strange_json()
    yield from _strange_lines()
    yield from _policies()
    yield from _sweeps()


#: Files of JSON, and who reads them.
_JSON: dict[str, Sequence[Command]] = {
    "run.json": (*LOOK, *RESUME[:1]),
    "record.json": CERTIFY,
    "certificate/certificate.json": REPORT,
    "report/evaluation.json": REPORT,
}


def _strange_json() -> Iterator[Case]:
    for file, commands in _JSON.items():
        for kind, content in (STRANGE if file == "run.json" else SOME).items():
            yield Case(f"json-{file}-{kind}", put(file, content), commands)
        for kind, value in VALUES.items():
            yield Case(f"json-{file}-each-{kind}", replace(file, value), commands)
    for kind, content in SOME.items():
        yield Case(f"json-lock-{kind}", put(".lock", content), (*LOOK[:1], *RESUME[:1]))


def _strange_lines() -> Iterator[Case]:
    every = {"metrics.jsonl": (*LOOK, *DRAW[:1], *CERTIFY), "evaluations.jsonl": (*LOOK, *DRAW[:1])}
    for file, readers in every.items():
        for kind, content in (STRANGE if file == "metrics.jsonl" else SOME).items():
            yield Case(f"lines-{file}-{kind}", put(file, content + b"\n"), readers)
        for kind, value in VALUES.items():
            build = _replace_in_lines(file, value)
            yield Case(f"lines-{file}-each-{kind}", build, (*readers, *REPORT))


def _replace_in_lines(file: str, value: Any) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        path = site.run / file
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        for number, line in enumerate(lines):
            for key in list(line)[number % 2 :: 2]:
                if isinstance(line[key], dict):
                    line[key] = dict.fromkeys(line[key], value)
                elif key != "iteration":
                    line[key] = value
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return build


EXPORT: tuple[Command, ...] = (
    ("export", "policy.json", "--to", "json", "--out", "out/again.json"),
    ("export", "policy.json", "--to", "onnx", "--out", "out/again.onnx"),
    ("export", "policy.json", "--to", "st", "--out", "out/again.st"),
)


def _policies() -> Iterator[Case]:
    for kind, content in STRANGE.items():

        def build(site: Site, content: bytes = content) -> None:
            (site.work / "policy.json").write_bytes(content)

        yield Case(f"policy-{kind}", build, EXPORT[:1])
    for field in ("name", "observations", "actions", "kernel", "knots", "weights", "scale", "rate"):
        for kind, value in FEW.items():

            def change(site: Site, field: str = field, value: Any = value) -> None:
                path = site.work / "policy.json"
                held = json.loads(path.read_bytes())
                rest = {k: v for k, v in held.items() if k not in ("kind", "version", "sha256")}
                whole = document(held["kind"], held["version"], {**rest, field: value})
                path.write_text(json.dumps(whole))

            yield Case(f"policy-{field}-{kind}", change, EXPORT)


def _sweeps() -> Iterator[Case]:
    files = {
        "sweep/request.json": (SWEEP,),
        "sweep/sweep.json": (("sweep", *SWEEP[1:], "--against", "sweep"),),
        "sweep/seed-0/epsilon-1/measurements.json": (SWEEP,),
        "sweep/seed-0/epsilon-0/run.json": (SWEEP,),
    }
    for file, commands in files.items():
        for kind, content in SOME.items():

            def build(site: Site, file: str = file, content: bytes = content) -> None:
                (site.work / file).write_bytes(content)

            yield Case(f"{file}-{kind}", build, commands)
    for file in list(files)[:3]:
        for kind, value in FEW.items():

            def change(site: Site, file: str = file, value: Any = value) -> None:
                moved = Site(site.work, site.home)
                replace(f"../{file}", value)(moved)

            yield Case(f"{file}-each-{kind}", change, files[file])
    elsewhere = {
        "sweep-in-run": ("sweep", "--out", "run", *SWEEP[3:]),
        "sweep-in-file": ("sweep", "--out", "policy.json", *SWEEP[3:]),
        "sweep-against-run": (*SWEEP, "--against", "run"),
        "sweep-against-nothing": (*SWEEP, "--against", "nowhere"),
    }
    for kind, command in elsewhere.items():
        yield Case(kind, lambda site: None, (command,))
    for kind, content in SOME.items():

        def study(site: Site, content: bytes = content) -> None:
            folder = site.work / "out" / "quick" / "seed-0"
            folder.mkdir(parents=True)
            (folder / "adaptation.json").write_bytes(content)
            shutil.copytree(site.run, folder / "cross")

        asked = ("reproduce", "--quick", "--out", "out", "--seeds", "1")
        yield Case(f"reproduce-{kind}", study, (asked,))
