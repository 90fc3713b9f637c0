"""Compiling and running an exported policy with the local C compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import NumericalError
from crosslearning.export.c_source import TEMPLATES

FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic")


class Compiled(NamedTuple):
    """The results of a compiled policy."""

    actions: NDArray[np.floating]  #: shape (n, p)
    size: int | None  #: bytes of code and constants, if the tool ``size`` is installed
    seconds: float  #: processor time per action


def find_compiler() -> str | None:
    """Return the C compiler: that of the variable CC, or ``cc``, ``gcc`` or ``clang``."""
    names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def compile_and_run(
    compiler: str,
    files: dict[str, str],
    rows: NDArray[np.floating],
    flags: Sequence[str] = FLAGS,
    arguments: Sequence[int] = (),
) -> Compiled:
    """Compile ``name.h`` and ``name.c``, and run the policy on every row of its arguments.

    Rows are observations, shape (n, q). Of a controller with a state, ``arguments`` are the
    lengths of its arguments, and a number before them tells whether to reset it.
    """
    name = next(Path(file).stem for file in files)
    starts = [1 + sum(arguments[:i]) for i in range(len(arguments))]
    given = ", ".join(["&state", *(f"given + {start}" for start in starts)]) if starts else "given"
    harness = TEMPLATES.get_template("check.c.j2").render(
        name=name, NAME=name.upper(), row=rows.shape[1], starts=starts, arguments=given
    )
    with tempfile.TemporaryDirectory(prefix="crosslearning-") as folder:
        for file, text in {**files, "main_of_check.c": harness}.items():
            Path(folder, file).write_text(text, encoding="utf-8")
        _run([compiler, *flags, "-c", f"{name}.c", "-o", "policy.o"], folder)
        _run([compiler, *flags, "main_of_check.c", "policy.o", "-lm", "-o", "check"], folder)
        done = _run([str(Path(folder, "check"))], folder, rows.tobytes())
        actions, size = np.frombuffer(done.stdout, dtype=rows.dtype), None
        if tool := shutil.which("size"):
            row = _run([tool, "policy.o"], folder).stdout.decode().splitlines()[1]
            size = sum(map(int, re.findall(r"\d+", row)[:3]))
    return Compiled(actions.reshape(len(rows), -1), size, float(done.stderr))


def compile_library(compiler: str, files: dict[str, str], flags: Sequence[str] = FLAGS) -> bytes:
    """Return the shared library of C sources, which exports what they mark."""
    more = ("-Wno-unused-parameter", "-fPIC", "-fvisibility=hidden", "-shared")
    with tempfile.TemporaryDirectory(prefix="crosslearning-") as folder:
        for file, text in files.items():
            Path(folder, file).write_text(text, encoding="utf-8")
        sources = [file for file in files if file.endswith(".c")]
        _run([compiler, *flags, *more, *sources, "-lm", "-o", "library"], folder)
        return Path(folder, "library").read_bytes()


def _run(
    command: list[str], folder: str, given: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, check=False)
    if done.returncode:
        output = done.stderr.decode(errors="replace")[-2000:]
        raise NumericalError(
            f"the exported C could not be checked, and nothing was written: {' '.join(command)} "
            f"failed with the status {done.returncode}. Set the variable CC to a C compiler that "
            f"works here. Its output: {output}"
        )
    return done
