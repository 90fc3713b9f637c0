"""Hostile folders, files and names: each is a change of an honest run, and the commands to try.

A case is built in a copy of a run that was trained once. Everything that a stranger can put into
a folder is here in some form: configurations that name code, JSON of every shape, links, pipes and
devices, exchanged and forged models and certificates, headers that lie, names that are markup,
terminal controls or no text at all.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from crosslearning.files import document, read_tensors, write_tensors
from crosslearning.learner.file_format import FILE_KIND, FILE_VERSION

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
LOOK = (*LIST, *INFO)
ALL = (*LOOK, *USE, *CERTIFY, *REPORT, *DRAW, *RESUME, *ADAPT)
#: What a sweep is asked for, so that one that was begun is gone on from.
SWEEP: Command = (
    *("sweep", "--out", "sweep", "--tasks", "linear-quadratic", "--epsilons", "0,1"),
    *("--seeds", "1", "--iterations", "2", "--stage-iterations", "1", "--trials", "1"),
    *("--method", "policy-gradient", "--max-knots", "5", "--batch-size", "2"),
)


def cases() -> Iterator[Case]:
    """Yield every case."""
    for group in (
        _configurations,
        _named_code,
        _strange_json,
        _strange_lines,
        _links,
        _odd_files,
        _models,
        _forgeries,
        _folder_names,
        _task_names,
        _task_files,
        _policies,
        _sweeps,
        _arguments,
    ):
        yield from group()


# JSON of every shape ------------------------------------------------------------------------

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
#: Files of JSON, and who reads them.
_JSON: dict[str, Sequence[Command]] = {
    "run.json": (*LOOK, *USE[:1], *RESUME[:1]),
    "record.json": (*CERTIFY, *LOOK[:1]),
    "certificate/certificate.json": (*REPORT, *CERTIFY),
    "report/evaluation.json": REPORT,
    "report/certificate.json": REPORT,
}


def _put(name: str, content: bytes) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        path = site.run / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    return build


def _strange_json() -> Iterator[Case]:
    for file, commands in _JSON.items():
        for kind, content in STRANGE.items():
            yield Case(f"json-{file}-{kind}", _put(file, content), commands)
        for kind, value in VALUES.items():
            yield Case(f"json-{file}-each-{kind}", _replace(file, value), commands)
    for kind, content in STRANGE.items():
        yield Case(f"json-lock-{kind}", _put(".lock", content), (*LOOK[:1], *RESUME[:1]))


def _replace(file: str, value: Any) -> Callable[[Site], None]:
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


def _strange_lines() -> Iterator[Case]:
    readers = (*LOOK, *DRAW[:2], *CERTIFY, *REPORT)
    for file in ("metrics.jsonl", "evaluations.jsonl"):
        for kind, content in STRANGE.items():
            yield Case(f"lines-{file}-{kind}", _put(file, content + b"\n"), readers)
        for kind, value in VALUES.items():
            yield Case(f"lines-{file}-each-{kind}", _replace_in_lines(file, value), readers)


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


# Configurations -----------------------------------------------------------------------------


def _config(*changes: str, unfinished: bool = False) -> Callable[[Site], None]:
    """Return a builder: the run's configuration with fields set, or removed by a minus."""

    def build(site: Site) -> None:
        path = site.run / "config.toml"
        held = tomllib.loads(path.read_text())
        for change in changes:
            if change.startswith("-"):
                del held[change[1:]]
            else:
                held |= tomllib.loads(change)
        path.write_text(tomli_w.dumps(held))
        if unfinished:
            _unfinish(site)

    return build


def _unfinish(site: Site) -> None:
    for name in ("model.safetensors", "record.json"):
        (site.run / name).unlink()


_TRAP = 'tasks = "trap:tasks"'
_SYSTEM = 'tasks = "os:system"'


def _configurations() -> Iterator[Case]:
    texts = {
        "system": ("method = ''", _SYSTEM, "task_options = {command = 'touch canary'}"),
        "system-no-method": ("-method", _SYSTEM, "task_options = {command = 'touch canary'}"),
        "popen": ("method = ''", 'tasks = "os:popen"', "task_options = {cmd = 'touch canary'}"),
        "call": (
            "-method",
            'tasks = "subprocess:call"',
            "task_options = {args = ['touch', 'canary']}",
        ),
        "eval": ("method = ''", 'tasks = "builtins:eval"', "task_options = {source = 'x'}"),
        "trap": ("method = ''", _TRAP),
        "trap-no-method": ("-method", _TRAP),
        "trap-policy-gradient": (_TRAP,),
        "trap-models": ("method = 'models'", _TRAP),
        "trap-method": ("method = 'trap:method'",),
        "trap-package": ("method = ''", 'tasks = "trap.inner:tasks"'),
        "trap-file": ("method = ''", 'tasks = "trap.toml"'),
        "trap-file-above": ("-method", 'tasks = "../work/trap.toml"'),
        "trap-python": ("method = ''", 'tasks = "trap.py"'),
        "trap-dotted": ("method = ''", 'tasks = "trap.tasks"'),
        "gymnasium-module": ("method = ''", 'tasks = "trap:Env-v0"'),
        "kernel": ("kernel = {kernel = 'trap:kernel'}",),
        "kernel-pair": ("kernel = {kernel = 'pair', formula = 'trap:kernel', inputs = 5}",),
        "kernel-deep": ("kernel = " + "{kernel = 'sum', parts = [" * 300 + "{}" + "]}" * 300,),
        "options-code": ("task_options = {crash = 'trap:crash'}",),
        "options-any": ("task_options = {a = [[[]]], b = {c = nan}}",),
        "cluster": ('on = "ray://198.51.100.7:10001"',),
        "cluster-name": ('on = "ray://hostile.invalid:10001"',),
        "cluster-local": ('on = "ray"',),
        "place-code": ('on = "trap:executor"',),
        "place-processes": ('on = "processes"', "workers = 100000"),
        "workers-many": ("workers = 1000000000",),
        "seed-huge": (f"seed = {2**63 - 1}",),
        "seed-negative": ("seed = -1",),
        "iterations-huge": (f"iterations = {2**63 - 1}",),
        "knots-huge": (f"max_knots = {2**62}",),
        "knots-none": ("max_knots = 0",),
        "epsilon-nan": ("epsilon = nan",),
        "epsilon-text": ("epsilon = 'inf; rm -rf ~'",),
        "log-never": (f"log_every = {2**62}",),
        "tensorboard": ("tensorboard = true",),
        "terminal": ('tasks = "\\u001b]0;owned\\u0007\\u001b[2Jpaper"',),
        "terminal-field": ('"\\u001b[2J" = 1',),
        "newline": ('tasks = "paper\\nstate: finished"',),
        "markup": ('tasks = "<img src=x onerror=alert(1)>{{scripts}}"',),
        "unknown": ("import = 'trap'", "__class__ = 'trap'"),
        "many-tasks": ('tasks = "random:1000000000000"',),
        "many-pendulums": ('tasks = "pendulums:99999999999"',),
    }
    for kind, changes in texts.items():
        wanted = (*LOOK, *CERTIFY, *USE[:1], *RESUME)
        yield Case(f"config-{kind}", _config(*changes), (*wanted, *DRAW[:1]))
        yield Case(f"config-{kind}-unfinished", _config(*changes, unfinished=True), wanted)
        train = ("train", "--config", "run/config.toml", "--out", "out/new")
        if kind.startswith(("kernel", "options", "epsilon", "seed-n", "knots-none", "unk", "many")):
            yield Case(f"train-config-{kind}", _config(*changes), (train,))
    contents = {
        "nothing": b"",
        "no-toml": b"\x00\x01[[[",
        "no-utf8": b'tasks = "\xff"',
        "json": b'{"tasks": "paper"}',
        "deep": b"a = " + b"[" * 50_000,
        "tables": b"[a]\n" * 3,
        "bom": b"\xef\xbb\xbftasks = 'paper'",
        "long-line": b"tasks = '" + b"p" * 2_000_000 + b"'",
        "digits": b"iterations = " + b"9" * 10_000,
        "date": b"tasks = 1979-05-27T07:32:00Z",
        "dotted": b"settings.method = 'models'",
    }
    train = (("train", "--config", "run/config.toml", "--out", "out/new", "--iterations", "1"),)
    for kind, content in contents.items():
        wanted = (*LOOK, *RESUME[:1], *CERTIFY, *(() if kind in ("nothing", "bom") else train))
        yield Case(f"config-file-{kind}", _put("config.toml", content), wanted)


def _named_code() -> Iterator[Case]:
    """Code that is named elsewhere than in the configuration: in run.json and in the model."""
    toml = '[[task]]\nid = "trap:Env-v0"\n'
    sources: dict[str, dict[str, Any]] = {
        "function": {"given": "trap:tasks", "content": "", "code": {"trap": "0" * 64}},
        "function-no-code": {"given": "trap:tasks", "content": "", "code": {}},
        "system": {"given": "os:system", "content": "", "code": {}},
        "file": {"given": "trap.toml", "content": toml, "code": {}},
        "wrapper": {
            "given": "t.toml",
            "content": '[[task]]\nid = "Pendulum-v1"\nwrappers = ["trap:Wrapper"]\n',
            "code": {},
        },
        "attribute": {
            "given": "t.toml",
            "content": '[[task]]\nid = "Pendulum-v1"\nset = {"__class__" = 1}\n',
            "code": {},
        },
        "entry-point": {
            "given": "t.toml",
            "content": '[[task]]\nid = "Pendulum-v1"\nentry_point = "trap:Env"\n',
            "code": {},
        },
        "code-only": {"given": "paper", "content": "", "code": {"trap": ""}},
        "dotted": {"given": "trap.inner:tasks", "content": "", "code": {"trap.inner": ""}},
        "wrong-types": {"given": ["trap"], "content": {"trap": 1}, "code": ["trap"]},
        "signed": {"given": "trap:tasks", "content": "", "code": {}, "signature": "0" * 64},
    }
    for kind, source in sources.items():
        given = str(source["given"])

        def about(site: Site, source: Any = source) -> None:
            path = site.run / "run.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "tasks": source}))

        def model(site: Site, source: Any = source, given: str = given) -> None:
            changed = {"task_source": source, "task_set": given, "task_options": {"command": "x"}}
            for path in site.run.rglob("*.safetensors"):
                if path.parent.name != "snapshots":
                    _rewrite(path, description=changed)

        def both(site: Site, about: Any = about, model: Any = model, given: str = given) -> None:
            about(site)
            model(site)
            _config(f"tasks = {json.dumps(given)}")(site)

        yield Case(f"source-run-{kind}", about, (*LOOK, *USE[:1], *RESUME))
        yield Case(f"source-model-{kind}", model, (*LOOK, *USE, *DRAW, *RESUME[:1], *ADAPT))
        yield Case(f"source-both-{kind}", both, (*LOOK, *USE[:2], *CERTIFY, *REPORT, *RESUME))


# Links, pipes, devices ------------------------------------------------------------------------

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
        other = _both(_unfinish, _link(name, lambda site, n=name: site.home / "other" / n))
        yield Case(f"link-others-{name}", other, (*RESUME, *CERTIFY, *LIST))
    yield Case("link-run", _link_run, (*LOOK, *RESUME, *CERTIFY))
    yield Case("link-cycle-below", _link("again", lambda site: site.run), (*LOOK, *CERTIFY))
    yield Case("link-root", _link("root", lambda site: "/"), LOOK)
    for name in ("config.toml", "run.json", "model.safetensors", "record.json", "metrics.jsonl"):
        secret = _link(name, lambda site: site.home / ".ssh" / "id")
        yield Case(f"link-secret-{name}", secret, (*LOOK, *CERTIFY, *REPORT))
    yield Case("hard-link-lock", _hard(".lock"), (*RESUME, *LIST))
    yield Case("hard-link-metrics", _both(_unfinish, _hard("metrics.jsonl")), RESUME)


def _link_run(site: Site) -> None:
    """Let the whole folder be a link to another run, as a user may have it."""
    site.run.rename(site.work / "real")
    site.run.symlink_to("real")


def _hard(name: str) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        (site.run / name).unlink(missing_ok=True)
        os.link(site.home / "notes.txt", site.run / name)

    return build


def _both(*builds: Callable[[Site], None]) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        for one in builds:
            one(site)

    return build


def _odd_files() -> Iterator[Case]:
    for name in (*WRITTEN[:8], "certificate/certificate.json", "report/evaluation.json"):
        wanted = (*LOOK, *CERTIFY, *REPORT, *RESUME[:1])
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
        _unfinish(site)
        newest = sorted((site.run / "checkpoints").glob("*"))[-1]
        shutil.copy(newest, newest.with_name(f"iteration-{number}.safetensors"))

    return build


# Models ---------------------------------------------------------------------------------------


def _rewrite(path: Path, arrays: Any = None, description: Any = None) -> None:
    """Write a learner's file again with other content and a right checksum, as a forger would."""
    held, about = read_tensors(path, FILE_KIND, FILE_VERSION)
    about = {k: v for k, v in about.items() if k not in ("kind", "version")}
    changed = {**about, **(description or {})}
    write_tensors(path, FILE_KIND, FILE_VERSION, {**held, **(arrays or {})}, changed)


def _model(**changes: Any) -> Callable[[Site], None]:
    return lambda site: _rewrite(site.run / "model.safetensors", description=changes)


def _models() -> Iterator[Case]:
    huge, readers = 1 << 60, (*LOOK, *USE[:1], *CERTIFY, *REPORT, *RESUME)
    headers: dict[str, bytes] = {
        "nothing": b"",
        "short": b"\x01",
        "long-header": struct.pack("<Q", huge) + b"{}",
        "negative-header": b"\xff" * 8 + b"{}",
        "no-json": struct.pack("<Q", 4) + b"[[[[",
        "deep": struct.pack("<Q", 100_000) + b"[" * 100_000,
        "list": struct.pack("<Q", 2) + b"[]",
        "no-metadata": struct.pack("<Q", 2) + b"{}",
        "beyond": _header({"a": {"dtype": "F64", "shape": [huge], "data_offsets": [0, 8 * huge]}}),
        "overlap": _header(
            {n: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]} for n in "ab"}
        ),
        "negative": _header({"a": {"dtype": "F64", "shape": [-1], "data_offsets": [0, -8]}}),
        "strange-type": _header({"a": {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 8]}}),
        "metadata-list": _header({"__metadata__": {"crosslearning": "[]"}}),
        "metadata-deep": _header({"__metadata__": {"crosslearning": "[" * 50_000}}),
        "metadata-null": _header({"__metadata__": {"crosslearning": "null"}}),
        "metadata-terminal": _header(
            {"__metadata__": {"crosslearning": '{"kind": "\\u001b[2J", "version": 1}'}}
        ),
        "metadata-version": _header(
            {"__metadata__": {"crosslearning": '{"kind": "learner", "version": "\\u001b[2J"}'}}
        ),
        "pickle": b"\x80\x04cposix\nsystem\n(X\x0c\x00\x00\x00touch canarytR.",
        "zip": b"PK\x03\x04" + b"\x00" * 100,
    }
    for kind, content in headers.items():
        yield Case(f"model-{kind}", _put("model.safetensors", content), readers)
        if kind in ("beyond", "deep", "pickle", "metadata-list"):
            newest = _both(_unfinish, _put("checkpoints/iteration-00000009.safetensors", content))
            yield Case(f"checkpoint-{kind}", newest, (*LOOK, *RESUME[:1], *CERTIFY))
            yield Case(f"best-{kind}", _put("best.safetensors", content), (*LOOK, *USE[1:2]))
    for field in (
        "tasks",
        "settings",
        "kernel",
        "spaces",
        "iteration",
        "steps",
        "dictionary",
        "method",
    ):
        for kind in ("null", "list", "text", "huge", "object"):
            yield Case(f"model-{field}-{kind}", _model(**{field: VALUES[kind]}), readers[:5])
    names = {
        "terminal": ["\x1b]0;owned\x07\x1b[2J", "b", "c"],
        "newline": ["a\nFiles: certified. 99 of 99 checks passed, none failed", "b", "c"],
        "markup": ["<img src=x onerror=alert(1)>", "{{scripts}}", "</script><!--"],
        "surrogate": ["\ud800", "b", "c"],
        "same": ["a", "a", "a"],
        "paths": ["../../x", "/etc/passwd", ".."],
        "long": ["n" * 1_000_000, "b", "c"],
        "numbers": [1, 2.5, None],
        "many": [f"t{i}" for i in range(10_000)],
        "direction": ["\u202egnp.exe", "b", "c"],
    }
    for kind, given in names.items():
        stranger = _model(tasks=given, task_set=None, task_source=None)
        yield Case(f"model-names-{kind}", stranger, (*readers, *USE[3:4], *DRAW))
    arrays = {
        "nan": lambda a: np.full_like(a, np.nan),
        "huge": lambda a: np.full_like(a, 1e308),
        "empty": lambda a: a[..., :0],
        "flat": lambda a: a.ravel(),
        "integers": lambda a: a.astype(np.int32),
        "tiny": lambda a: np.full_like(a, 5e-324),
    }
    for kind, change in arrays.items():
        yield Case(f"model-arrays-{kind}", _changed_arrays(change), readers)


def _changed_arrays(change: Callable[[Any], Any]) -> Callable[[Site], None]:
    def build(site: Site) -> None:
        path = site.run / "model.safetensors"
        held, _ = read_tensors(path, FILE_KIND, FILE_VERSION)
        floats = {n: change(a) for n, a in held.items() if a.dtype == np.float64 and a.size}
        _rewrite(path, arrays=floats)

    return build


def _header(entries: dict[str, Any]) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


# Forgeries ------------------------------------------------------------------------------------


def _forgeries() -> Iterator[Case]:
    readers = (*CERTIFY, *REPORT)
    yield Case("exchanged-model", _exchanged, readers)
    for file in ("certificate.txt", "certificate.json", "certificate.signature"):
        forged = _put(f"certificate/{file}", b"Verdict\n-------\n- Files: certified by Trent.\n")
        yield Case(f"forged-{file}", forged, REPORT)
    yield Case("forged-record", _both(_exchanged, _put("record.json", b'{"sha256": {}}')), readers)
    yield Case("stripped-certificate", _in_place("certificate"), readers)


def _exchanged(site: Site) -> None:
    """Exchange the model for one that somebody else made, with a right checksum."""
    path = site.run / "model.safetensors"
    held, _ = read_tensors(path, FILE_KIND, FILE_VERSION)
    _rewrite(path, arrays={"rows": held["rows"] * 0.5})


# Names ----------------------------------------------------------------------------------------

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
    "rich": b"[bold red]x[/bold red][/]",
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

        swapped = (tuple(place if w == "run" else w for w in c) for c in ALL)
        yield Case(f"name-{kind}", build, (*swapped, ("runs", place)))


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
        then = (*LOOK, *CERTIFY, *REPORT, DRAW[0], DRAW[1], DRAW[5], USE[0], USE[3])
        yield Case(f"task-name-{kind}", build, (train, *then))


def _task_files() -> Iterator[Case]:
    """Files that the user names, and who named others in them: no code beyond what they say."""
    texts = {
        "nothing": "",
        "no-toml": "[[[",
        "no-task": "[common]\nid = 'x'\n",
        "no-id": "[[task]]\nname = 'x'\n",
        "id-number": "[[task]]\nid = 5\n",
        "id-unknown": "[[task]]\nid = 'Nothing-v0'\n",
        "id-terminal": '[[task]]\nid = "\\u001b[2J"\n',
        "name-list": "[[task]]\nid = 'Pendulum-v1'\nname = ['x']\n",
        "wrapper-number": "[[task]]\nid = 'Pendulum-v1'\nwrappers = [1]\n",
        "wrapper-unknown": "[[task]]\nid = 'Pendulum-v1'\nwrappers = ['__builtins__']\n",
        "wrapper-dunder": "[[task]]\nid = 'Pendulum-v1'\nwrappers = ['__doc__']\n",
        "set-class": "[[task]]\nid = 'Pendulum-v1'\nset = {'__class__' = 1}\n",
        "set-deep": "[[task]]\nid = 'Pendulum-v1'\nset = {'step.__globals__.np' = 1}\n",
        "set-text": "[[task]]\nid = 'Pendulum-v1'\nset = {g = 'x'}\n",
        "grid-empty": "[[task]]\nid = 'Pendulum-v1'\ngrid = {g = []}\n",
        "grid-huge": "[[task]]\nid = 'Pendulum-v1'\ngrid = {"
        + ", ".join(f"{c} = [{', '.join(map(str, range(50)))}]" for c in "abcdefghij")
        + "}\n",
        "horizon-huge": f"[[task]]\nid = 'Pendulum-v1'\nhorizon = {2**62}\nrender_mode = 'x'\n",
        "horizon-negative": "[[task]]\nid = 'Pendulum-v1'\nhorizon = -5\n",
        "unknown-option": "[[task]]\nid = 'Pendulum-v1'\n'__init__' = 1\n",
        "unknown-table": "[trap]\nx = 1\n",
    }
    for kind, text in texts.items():

        def build(site: Site, text: str = text) -> None:
            (site.work / "tasks.toml").write_text(text)

        train = ("train", "--tasks", "tasks.toml", "--out", "out/new", "--iterations", "1")
        wanted = ((*USE[0][:2], "--tasks", "tasks.toml", "--trials", "1"),)
        # A horizon that is huge is a wish that can be granted.
        yield Case(f"tasks-{kind}", build, wanted if "huge" in kind else (train, *wanted))


# Exported policies ------------------------------------------------------------------------------

EXPORT: tuple[Command, ...] = (
    ("export", "policy.json", "--to", "json", "--out", "out/again.json"),
    ("export", "policy.json", "--to", "onnx", "--out", "out/again.onnx"),
)


def _policies() -> Iterator[Case]:
    for kind, content in STRANGE.items():

        def build(site: Site, content: bytes = content) -> None:
            (site.work / "policy.json").write_bytes(content)

        yield Case(f"policy-{kind}", build, EXPORT[:1])
    for field in ("name", "observations", "actions", "kernel", "knots", "weights", "scale", "rate"):
        for kind, value in VALUES.items():

            def change(site: Site, field: str = field, value: Any = value) -> None:
                path = site.work / "policy.json"
                held = json.loads(path.read_bytes())
                rest = {k: v for k, v in held.items() if k not in ("kind", "version", "sha256")}
                whole = document(held["kind"], held["version"], {**rest, field: value})
                path.write_text(json.dumps(whole))

            yield Case(f"policy-{field}-{kind}", change, EXPORT)


# Studies ----------------------------------------------------------------------------------------


def _sweeps() -> Iterator[Case]:
    files = {
        "sweep/request.json": (SWEEP,),
        "sweep/sweep.json": (("sweep", *SWEEP[1:], "--against", "sweep"),),
        "sweep/seed-0/epsilon-1/measurements.json": (SWEEP,),
        "sweep/seed-0/epsilon-0/run.json": (SWEEP,),
    }
    for file, commands in files.items():
        for kind, content in STRANGE.items():

            def build(site: Site, file: str = file, content: bytes = content) -> None:
                (site.work / file).write_bytes(content)

            yield Case(f"{file}-{kind}", build, commands)
    for file in list(files)[:3]:
        for kind, value in VALUES.items():

            def change(site: Site, file: str = file, value: Any = value) -> None:
                moved = Site(site.work, site.home)
                _replace(f"../{file}", value)(moved)

            yield Case(f"{file}-each-{kind}", change, files[file])
    elsewhere = {
        "sweep-in-run": ("sweep", "--out", "run", *SWEEP[3:]),
        "sweep-in-file": ("sweep", "--out", "policy.json", *SWEEP[3:]),
        "sweep-against-run": (*SWEEP, "--against", "run"),
        "sweep-against-nothing": (*SWEEP, "--against", "nowhere"),
    }
    for kind, command in elsewhere.items():
        yield Case(kind, lambda site: None, (command,))
    for kind, content in STRANGE.items():

        def study(site: Site, content: bytes = content) -> None:
            folder = site.work / "out" / "quick" / "seed-0"
            folder.mkdir(parents=True)
            (folder / "adaptation.json").write_bytes(content)
            shutil.copytree(site.run, folder / "cross")

        asked = ("reproduce", "--quick", "--out", "out", "--seeds", "1")
        yield Case(f"reproduce-{kind}", study, (asked,))


def _arguments() -> Iterator[Case]:
    """Numbers and words that no command expects."""
    digits = "9" * 80
    for command in (
        ("plot", "run", "--trials", digits),
        ("models", "run", "--horizon", digits),
        ("models", "run", "--episodes", digits),
        ("models", "run", "--steps", digits),
        ("quickstart", "--iterations=1000000000000", "--out", "out/new"),
        ("quickstart", f"--iterations={digits}", "--out", "out/new"),
        ("evaluate", "run", "--trials", digits),
        ("evaluate", "run", "--trials", "1", "--horizon", digits),
        ("evaluate", "run", "--trials", "1", "--seed", digits),
        ("compare", "run", "run", "--trials", digits),
        ("identify", "run", "--tasks", "paper", "--episodes", digits),
        ("identify", "run", "--tasks", "paper", "--horizon", digits),
        ("render", "run", "--horizon", digits),
        ("render", "run", "--episodes", digits),
        ("certify", "run", "--samples", digits),
        ("certify", "run", "--samples", "2", "--seed", digits),
        ("theory", "run", "--samples", digits),
        ("report", "run", "--no-open", "--trials", digits),
        ("report", "run", "--no-open", "--samples", digits),
        ("train", "--out", "out/new", "--iterations", digits),
        ("train", "--out", "out/new", "--tasks", f"random:{digits}"),
        ("train", "--out", "out/new", "--max-knots", digits),
        ("train", "--out", "out/new", "--seed", digits),
        ("train", "--out", "out/new", "--batch-size", digits),
        ("adapt", "run", "--tasks", "paper", "--out", "out/new", "--iterations", digits),
        ("resume", "run", "--iterations", digits),
        ("sweep", "--out", "run/figures", *SWEEP[3:], "--seeds", digits),
        ("sweep", "--out", "out/new", *SWEEP[3:], "--stage-iterations", digits),
        ("demo", "fleet", "--machines", digits, "--out", "out/new"),
        ("demo", "fleet", "--steps", digits, "--out", "out/new"),
        ("export", "run", "--to", "json", "--out", "out/p.json", "--policy", digits),
    ):
        yield Case(f"argument-{'-'.join(command)[:60]}", lambda site: None, (command,))
