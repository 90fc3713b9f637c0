"""Models and certificates that were exchanged, forged, or lie in their headers."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from crosslearning._base.files import read_tensors
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION
from tests.security.cases import (
    CERTIFY,
    DRAW,
    LOOK,
    REPORT,
    RESUME,
    USE,
    VALUES,
    Case,
    Site,
    both,
    put,
    rewrite,
    unfinish,
)


def cases() -> Iterator[Case]:
    """Yield the cases of this module."""
    yield from _models()
    yield from _forgeries()


def _model(**changes: Any) -> Callable[[Site], None]:
    return lambda site: rewrite(site.run / "model.safetensors", description=changes)


def _models() -> Iterator[Case]:
    huge, readers = 1 << 60, (*LOOK, *USE[:1], *CERTIFY, *RESUME[1:])
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
        yield Case(f"model-{kind}", put("model.safetensors", content), readers)
        if kind in ("beyond", "deep", "pickle", "metadata-list"):
            newest = both(unfinish, put("checkpoints/iteration-00000009.safetensors", content))
            yield Case(f"checkpoint-{kind}", newest, (*LOOK, *RESUME[:1], *CERTIFY))
            yield Case(f"best-{kind}", put("best.safetensors", content), (*LOOK, *USE[1:2]))
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
        for kind in ("null", "text", "huge"):
            yield Case(
                f"model-{field}-{kind}",
                _model(**{field: VALUES[kind]}),
                (*LOOK[:1], *USE[:1], *CERTIFY),
            )
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
        yield Case(f"model-names-{kind}", stranger, (*readers, *USE[3:4], *REPORT, *DRAW[::2]))
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
        rewrite(path, arrays=floats)

    return build


def _header(entries: dict[str, Any]) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


def _forgeries() -> Iterator[Case]:
    readers = (*CERTIFY, *REPORT)
    yield Case("exchanged-model", _exchanged, readers)
    for file in ("certificate.txt", "certificate.json", "certificate.signature"):
        forged = put(f"certificate/{file}", b"Verdict\n-------\n- Files: certified by Trent.\n")
        yield Case(f"forged-{file}", forged, REPORT)
    yield Case("forged-record", both(_exchanged, put("record.json", b'{"sha256": {}}')), readers)
    yield Case("stripped-certificate", put("certificate/certificate.txt", b""), readers)


def _exchanged(site: Site) -> None:
    """Exchange the model for one that somebody else made, with a right checksum."""
    path = site.run / "model.safetensors"
    held, _ = read_tensors(path, FILE_KIND, FILE_VERSION)
    rewrite(path, arrays={"rows": held["rows"] * 0.5})
