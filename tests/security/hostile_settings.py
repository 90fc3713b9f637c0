"""Configurations and files of tasks that name code or ask for too much, and odd arguments."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import tomli_w

from tests.security.cases import (
    ADAPT,
    CERTIFY,
    DRAW,
    LIST,
    LOOK,
    REPORT,
    RESUME,
    SWEEP,
    USE,
    Case,
    Site,
    put,
    rewrite,
    unfinish,
)


def cases() -> Iterator[Case]:
    """Yield the cases of this module."""
    yield from _configurations()
    yield from _named_code()
    yield from _task_files()
    yield from _arguments()


def config(*changes: str, unfinished: bool = False) -> Callable[[Site], None]:
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
            unfinish(site)

    return build


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
        "kernel-deep": ("kernel = " + "{kernel = 'sum', parts = [" * 60 + "{}" + "]}" * 60,),
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
    for number, (kind, changes) in enumerate(texts.items()):
        wanted = (*LOOK, *RESUME[1:], *CERTIFY)
        yield Case(f"config-{kind}", config(*changes), wanted)
        if number % 2 or kind.startswith(("system", "trap", "cluster", "place")):
            begun = config(*changes, unfinished=True)
            yield Case(f"config-{kind}-unfinished", begun, (*LIST[1:], *RESUME[:1]))
        train = ("train", "--config", "run/config.toml", "--out", "out/new")
        if kind.startswith(("kernel", "options", "epsilon", "seed-n", "knots-none", "unk", "many")):
            yield Case(f"train-config-{kind}", config(*changes), (train,))
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
        yield Case(f"config-file-{kind}", put("config.toml", content), wanted)


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
    for number, (kind, source) in enumerate(sources.items()):
        given = str(source["given"])

        def about(site: Site, source: Any = source) -> None:
            path = site.run / "run.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "tasks": source}))

        def model(site: Site, source: Any = source, given: str = given) -> None:
            changed = {"task_source": source, "task_set": given, "task_options": {"command": "x"}}
            for path in site.run.rglob("*.safetensors"):
                if path.parent.name != "snapshots":
                    rewrite(path, description=changed)

        def both(site: Site, about: Any = about, model: Any = model, given: str = given) -> None:
            about(site)
            model(site)
            config(f"tasks = {json.dumps(given)}")(site)

        # Each is used by some of the commands that load a model, all of them by all.
        used = [*USE, *DRAW, *ADAPT][number % 3 :: 3]
        yield Case(f"source-run-{kind}", about, (*LOOK, *RESUME[1:]))
        yield Case(f"source-model-{kind}", model, (*LOOK[:1], *used))
        yield Case(f"source-both-{kind}", both, (*LOOK, *USE[:1], *REPORT, *RESUME[:1]))


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
        ("train", "--out", "out/new", "--iterations", "1", "--seed", digits),
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
