"""Run the numerical tests as they would run on other processors, and print a table.

OpenBLAS, Numba and NumPy each choose code for the processor that they find, and can be told to
find a lesser one::

    python scripts/portable.py                       # every emulation, the numerical tests
    python scripts/portable.py --quick               # one emulation, where rounding matters most
    python scripts/portable.py --only numba tests/rkhs -x    # whatever else is given is pytest's

Every emulation is first asked what it computes with; one that this processor cannot execute, or
that changes nothing here, is left out and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
QUICK = ["tests/rkhs", "tests/learner"]
NUMERICAL = [
    *(f"tests/{name}" for name in ("analysis", "base", "certificates", "contracts", "learner")),
    *(f"tests/{name}" for name in ("reproduction", "rkhs", "rollouts", "runs", "tasks")),
    "tests/test_documentation.py",
    "--ignore=tests/rollouts/test_ray.py",
]
PROBE = """
import json
from crosslearning.runs.system_info import system_info
from numpy._core._multiarray_umath import __cpu_dispatch__
print(json.dumps(system_info() | {"dispatch": " ".join(__cpu_dispatch__)}))
"""


@dataclass(frozen=True)
class Emulation:
    """Variables that make libraries choose other code, and what they need and lead to."""

    name: str
    variables: dict[str, str]
    needs: str = ""  #: the processor's features, in NumPy's names
    blas: str = ""  #: the kernel that OpenBLAS then names
    numba: str = ""  #: the processor that Numba then compiles for

    def left_out(self, native: dict[str, str]) -> str:
        """Return why there is nothing to run here, or nothing."""
        if lacking := set(self.needs.split()) - set(native["features"].split()):
            return f"this processor has no {' '.join(sorted(lacking))}"
        if not self.variables:
            return "NumPy dispatches on no feature of this processor"
        if (self.blas or self.numba) and "x86_64" not in native["machine"]:
            return "its names are those of x86-64"
        return "OpenBLAS is not used" if self.blas and "openblas" not in native["blas"] else ""

    def effect(self, found: dict[str, str]) -> str:
        """Return what it computes with, or stop: an emulation without effect proves nothing."""
        disabled = self.variables.get("NPY_DISABLE_CPU_FEATURES", "").split()
        if (
            self.blas not in found["blas"]
            or not found["numba_cpu"].startswith(self.numba)
            or set(disabled) & set(found["features"].split())
        ):
            sys.exit(f"{self.name} has no effect: {found}")
        kernels = sorted({library.split()[-1] for library in found["blas"].split(", ")})
        dispatched = [
            name for name in found["dispatch"].split() if name in found["features"].split()
        ]
        return (
            f"{' '.join(kernels)}; {found['numba_cpu'].split()[0]}; {' '.join(dispatched) or '-'}"
        )


def emulations(native: dict[str, str]) -> list[Emulation]:
    """Return all of them, for what NumPy dispatches on here; the cheapest first."""
    dispatched = [name for name in native["dispatch"].split() if name in native["features"].split()]
    numpy = {"NPY_DISABLE_CPU_FEATURES": " ".join(dispatched)} if dispatched else {}
    cache = {"NUMBA_CACHE_DIR": str(ROOT / ".portable")}
    # OpenBLAS calls its oldest kernel by another name than it is asked for.
    return [
        Emulation("old", {"OPENBLAS_CORETYPE": "Prescott"} | numpy, "SSE3", "Katmai"),
        Emulation("prescott", {"OPENBLAS_CORETYPE": "Prescott"}, "SSE3", "Katmai"),
        Emulation("sandybridge", {"OPENBLAS_CORETYPE": "Sandybridge"}, "AVX", "Sandybridge"),
        Emulation("haswell", {"OPENBLAS_CORETYPE": "Haswell"}, "AVX2 FMA3", "Haswell"),
        Emulation("skylakex", {"OPENBLAS_CORETYPE": "SkylakeX"}, "AVX512_SKX", "SkylakeX"),
        Emulation("numpy", numpy),
        Emulation("numba", {"NUMBA_CPU_NAME": "generic"} | cache, numba="generic"),
    ]


def probe(variables: dict[str, str]) -> dict[str, str]:
    """Return what a process with these variables computes with."""
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def main() -> None:
    """Run the tests under the emulations that were asked for; exit with 1 if one failed."""
    native = probe({})
    known = {one.name: one for one in emulations(native)}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"only 'old', on {' '.join(QUICK)}")
    parser.add_argument("--only", choices=known, action="append", help="an emulation, or several")
    parser.epilog = "Anything else is for pytest; tests that it names take the place of these."
    asked, options = parser.parse_known_args()
    named = any((ROOT / word.split("::")[0]).exists() for word in options)
    tests = [*([] if named else QUICK if asked.quick else NUMERICAL), *options]
    # "old" is two of the others at once: one run in the place of two.
    every = [name for name in known if name != "old"]
    rows = [("native", native["blas"], "", "")]
    failed = False
    for one in map(known.__getitem__, ["old"] if asked.quick else asked.only or every):
        if reason := one.left_out(native):
            rows.append((one.name, reason, "left out", ""))
            continue
        effect, begun = one.effect(probe(one.variables)), time.monotonic()
        print(f"\n{one.name}: {effect}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        status = subprocess.run(command, env=os.environ | one.variables, cwd=ROOT).returncode
        failed |= status != 0
        took = f"{time.monotonic() - begun:.0f} s"
        rows.append((one.name, effect, "FAILED" if status else "passed", took))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print()
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
