"""What the fuzzing of files and of the command line shares: strange values, and a watch on code.

``CROSSLEARNING_FUZZ=100000 pytest tests/fuzz`` runs so many cases in all, each time other ones;
``make fuzz`` also draws other examples for the property tests of all packages.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from crosslearning.errors import CrossLearningError

#: Cases in all that are asked for; none: a few, the same in every run.
ASKED = int(os.environ.get("CROSSLEARNING_FUZZ", "0"))

#: Numbers and words that programs do not expect; those with a colon name code.
STRANGE = st.one_of(
    st.sampled_from([None, True, -1, 0, 3, 2**31, 2**63, 2**70, -(2**70), 1e-320, 1e308, -1e308]),
    st.sampled_from(
        [float("nan"), float("inf"), "", "x", "inf", "trap", "trap:tasks", "os:system"]
    ),
    st.sampled_from(["../../x", "a" * 300, "\x00", "\ud800", "é", [], {}, [[0]], [None], {"": 0}]),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.integers(1, 200).map(lambda depth: json.loads("[" * depth + "]" * depth)),
).map(copy.deepcopy)  # what is changed further must not change what others draw


def cases(share: float, few: int):
    """Return a decorator: a share of the cases that are asked for, or else a few."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    most = max(1, round(share * ASKED)) if ASKED else few
    return settings(max_examples=most, suppress_health_check=quiet)


def paths_of(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where every part of plain data is."""
    inner = data.items() if isinstance(data, dict) else enumerate(data)
    for name, value in inner:
        yield (*path, name)
        if isinstance(value, dict | list):
            yield from paths_of(value, (*path, name))


@st.composite
def changed(draw: Any, data: Any) -> Any:
    """Draw plain data with some of its parts replaced, removed or added."""
    result = copy.deepcopy(data)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(paths_of(result))))
        place = result
        for name in path[:-1]:
            place = place[name]
        how = draw(st.sampled_from(["replace", "replace", "remove", "add", "copy"]))
        if how == "replace":
            place[path[-1]] = draw(STRANGE)
        elif how == "remove":
            del place[path[-1]]
        elif how == "copy":
            other = draw(st.sampled_from(list(paths_of(result))))
            results = result
            for name in other:
                results = results[name]
            place[path[-1]] = copy.deepcopy(results)
        elif isinstance(place, dict):
            place[draw(st.text(max_size=5))] = draw(STRANGE)
        else:
            place.append(draw(STRANGE))
        if not list(paths_of(result)):
            break
    return result


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """Draw bytes that are cut, flipped, overwritten, repeated or mixed up."""
    result = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, max(0, len(result) - 1)))
        length = draw(st.integers(1, 40))
        how = draw(st.sampled_from(["flip", "cut", "write", "repeat", "remove"]))
        if how == "flip" and result:
            result[where] ^= 1 << draw(st.integers(0, 7))
        elif how == "cut":
            del result[where:]
        elif how == "write":
            result[where : where + length] = draw(st.binary(max_size=40))
        elif how == "repeat":
            result[where:where] = result[where : where + length]
        else:
            del result[where : where + length]
    return bytes(result)


# Code that must not run ----------------------------------------------------------------------

_FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")
_watching = False
_seen: list[str] = []


def _hook(event: str, given: tuple[Any, ...]) -> None:
    if not _watching:
        return
    bad = event in _FORBIDDEN or (event == "import" and given[0].split(".")[0] == "trap")
    if event == "pickle.find_class":  # compiled code is kept in pickles of the compiler's own
        bad = given[1] in ("eval", "exec", "system", "Popen", "__import__")
    if bad:
        _seen.append(f"{event} {given}")


sys.addaudithook(_hook)


@contextmanager
def safely(*files: Path) -> Iterator[None]:
    """Allow one of the library's own errors, with a sentence; no code, no change of files."""
    global _watching
    before = [path.read_bytes() for path in files]
    beside = {path.parent: sorted(path.parent.iterdir()) for path in files}
    _seen.clear()
    _watching = True
    try:
        yield
    except CrossLearningError as problem:
        said = str(problem)
    else:
        said = "it was taken"
    finally:
        _watching = False
    assert len(said) > 10
    assert _seen == []
    assert [path.read_bytes() for path in files] == before
    assert {folder: sorted(folder.iterdir()) for folder in beside} == beside


def set_trap(folder: Path) -> None:
    """Write a module that says that it was imported."""
    (folder / "trap.py").write_text("raise SystemExit('the trap was sprung')\n")
