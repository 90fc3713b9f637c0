"""The processor and the libraries that numbers are computed with.

The same program and seed give the same bits only where all of this is the same: elsewhere BLAS,
NumPy, the C library and LLVM may round differently.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
import scipy
import scipy.linalg  # its BLAS must be loaded to be listed
from numba.core.registry import cpu_target
from threadpoolctl import threadpool_info

from crosslearning.errors import visible


@functools.cache
def system_info() -> dict[str, str]:
    """Return what two computations must share to give the same bits."""
    from numpy._core._multiarray_umath import __cpu_features__  # type: ignore[import-not-found]

    from crosslearning import __version__

    blas = {
        f"{library['internal_api']} {library['version']} {library.get('architecture', '')}".strip()
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    _, numba_cpu, numba_features = cpu_target.target_context.codegen().magic_tuple()
    return {
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
    }


def _processor() -> str:
    """Return vendor and model, from Linux or from Python."""
    text = ""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    fields = dict(re.findall(r"^(.*?)\s*: (.*?)\s*$", text, re.MULTILINE))
    named = (fields.get(name) for name in ("vendor_id", "model name", "cpu family", "model"))
    return " ".join(filter(None, named)) or platform.processor()


def in_words(system: Mapping[str, Any]) -> str:
    """Return a short description of a system; files may hold anything."""
    names = ("processor", "libc", "blas", "numba_cpu", "python", "numpy", "scipy", "numba")
    known = [f"{name} {visible(system[name], 200)}" for name in names if name in system]
    return "; ".join(known) or "unknown"


def differences(made: Sequence[Mapping[str, Any]]) -> str:
    """Return how other systems differ from this one; empty if they do not."""
    texts = [_difference(system) for system in made] if made else ["an unrecorded system"]
    return "; and ".join(dict.fromkeys(filter(None, texts)))


def _difference(system: Mapping[str, Any]) -> str:
    texts, unknown = [], []
    for name, here in system_info().items():
        made = system.get(name)
        if not isinstance(made, str):
            unknown.append(name)
        elif name == "features" and made != here:
            then, now = set(made.split()), set(here.split())
            more, less = (" ".join(sorted(one)) or "none" for one in (then - now, now - then))
            texts.append(f"{name} with {visible(more, 200)} more and {less} less than here")
        elif made != here:
            texts.append(f"{name} {visible(made, 200)}, here {here}")
    if unknown:
        texts.append(f"an unrecorded {', '.join(unknown)}")
    return "; ".join(texts)
