"""The processor and the libraries that numbers are computed with.

The same program and seed give the same bits only where all of this is the same: elsewhere BLAS,
NumPy, the C library and LLVM may round differently.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
import scipy
import scipy.linalg  # its BLAS must be loaded to be listed
from numba.core.registry import cpu_target
from threadpoolctl import threadpool_info


@functools.cache
def _system_info() -> tuple[tuple[str, str], ...]:
    from numpy._core._multiarray_umath import __cpu_features__  # type: ignore[import-not-found]

    from crosslearning import __version__

    blas = {f"{lib['internal_api']} {lib['version']} {lib.get('architecture', '')}".strip()
            for lib in threadpool_info() if lib["user_api"] == "blas"}  # fmt: skip
    _, numba_cpu, numba_features = cpu_target.target_context.codegen().magic_tuple()
    return tuple({
        "crosslearning": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()).strip(),
        "processor": _processor(),
        "features": " ".join(sorted(name for name, has in __cpu_features__.items() if has)),
        "blas": ", ".join(sorted(blas)),
        # LLVM's list of features is long; a digest is enough to compare.
        "numba_cpu": f"{numba_cpu} {hashlib.sha256(numba_features.encode()).hexdigest()[:8]}",
    }.items())  # fmt: skip


def system_info() -> dict[str, str]:
    """Return what two computations must share to give the same bits."""
    return dict(_system_info())


def _processor() -> str:
    """Return vendor and model, from Linux or from Python."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return platform.processor()
    lines = (line.partition(":") for line in text.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in lines}
    named = [fields.get(name, "") for name in ("vendor_id", "model name", "cpu family", "model")]
    return " ".join(filter(None, named)) or platform.processor()


def in_words(system: Mapping[str, Any]) -> str:
    """Return a short description of a system; files may hold anything."""
    names = ("processor", "libc", "blas", "numba_cpu", "python", "numpy", "scipy", "numba")
    known = [f"{name} {_shown(system[name])}" for name in names if name in system]
    return "; ".join(known) or "unknown"


def differences(made: Sequence[Mapping[str, Any]]) -> str:
    """Return how other systems differ from this one; empty if they do not."""
    texts = [_difference(system) for system in made] if made else ["an unrecorded system"]
    return "; and ".join(dict.fromkeys(filter(None, texts)))


def _difference(system: Mapping[str, Any]) -> str:
    now, texts = system_info(), []
    unknown = [name for name in now if not isinstance(system.get(name), str)]
    for name in now:
        if name not in unknown and system[name] != now[name]:
            made, here = set(system[name].split()), set(now[name].split())
            more, less = " ".join(sorted(made - here)), " ".join(sorted(here - made))
            whole = f"{_shown(system[name])}, here {now[name]}"
            listed = f"with {_shown(more) or 'none'} more and {less or 'none'} less than here"
            texts.append(f"{name} {listed if name == 'features' else whole}")
    if unknown:
        texts.append(f"an unrecorded {', '.join(unknown)}")
    return "; ".join(texts)


def _shown(value: Any) -> str:
    """Return a value of a file without control characters."""
    return "".join(filter(str.isprintable, str(value)[:200]))
