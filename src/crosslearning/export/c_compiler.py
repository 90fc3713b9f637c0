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

FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic")

#: Reads arguments and writes actions as binary numbers, then measures the time of an action.
_HARNESS = """\
#include "{name}.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void)
{{
    static {name}_real given[{row}], action[{NAME}_ACTIONS];
    {state}
    long calls = 0;
    clock_t start, now;

    while (fread(given, sizeof given, 1, stdin) == 1) {{
        {begin}
        if ({name}_act({arguments}, action) != 0) {{
            return 1;
        }}
        fwrite(action, sizeof action, 1, stdout);
    }}
    start = clock();
    do {{
        int i;
        for (i = 0; i < 100; i++) {{
            given[{first}] = (({name}_real)i) / 100;
            {name}_act({arguments}, action);
        }}
        calls += i;
        now = clock();
    }} while (now - start < CLOCKS_PER_SEC / 50);
    fprintf(stderr, "%g\\n", (double)(now - start) / CLOCKS_PER_SEC / (double)calls);
    return 0;
}}
"""


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
    parts = {"arguments": "given", "state": "", "begin": "", "first": 0}
    if arguments:
        starts = [1 + sum(arguments[:i]) for i in range(len(arguments))]
        parts["arguments"] = ", ".join(["&state", *(f"given + {start}" for start in starts)])
        parts["state"], parts["first"] = f"static {name}_state state;", 1
        parts["begin"] = f"if (given[0] != 0) {name}_reset(&state);"
    with tempfile.TemporaryDirectory(prefix="crosslearning-") as folder:
        harness = {
            "main_of_check.c": _HARNESS.format(
                name=name, NAME=name.upper(), row=rows.shape[1], **parts
            )
        }
        for file, text in {**files, **harness}.items():
            Path(folder, file).write_text(text, encoding="utf-8")
        _run([compiler, *flags, "-c", f"{name}.c", "-o", "policy.o"], folder)
        _run([compiler, *flags, "main_of_check.c", "policy.o", "-lm", "-o", "check"], folder)
        done = _run([str(Path(folder, "check"))], folder, rows.tobytes())
        actions, size = np.frombuffer(done.stdout, dtype=rows.dtype), None
        if tool := shutil.which("size"):
            row = _run([tool, "policy.o"], folder).stdout.decode().splitlines()[1]
            size = sum(map(int, re.findall(r"\d+", row)[:3]))
    return Compiled(actions.reshape(len(rows), -1), size, float(done.stderr))


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
