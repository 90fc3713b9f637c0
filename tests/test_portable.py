"""The script that runs tests as on other processors: what it leaves out, and that it has effect."""

import importlib.util
import platform
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "portable.py"
SYSTEM = {
    "machine": "Linux x86_64",
    "features": "AVX AVX2 FMA3 SSE3 X86_V3",
    "dispatch": "X86_V3 X86_V4",
    "blas": "openblas 0.3.30 Haswell",
    "numba_cpu": "haswell 1234",
}


@pytest.fixture(scope="module")
def portable():
    spec = importlib.util.spec_from_file_location("portable", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["portable"] = module  # where its dataclass looks for its types
    spec.loader.exec_module(module)
    yield module
    del sys.modules["portable"]


def left_out(portable, system):
    return {one.name: one.left_out(system) for one in portable.emulations(system)}


def test_what_this_processor_cannot_execute_is_left_out(portable):
    reasons = left_out(portable, SYSTEM)
    assert reasons.pop("skylakex") == "this processor has no AVX512_SKX"
    assert set(reasons.values()) == {""}
    arm = SYSTEM | {"machine": "Darwin arm64", "features": "NEON", "dispatch": "SVE"}
    assert all(left_out(portable, arm).values())
    assert left_out(portable, SYSTEM | {"blas": "mkl 2024"})["haswell"] == "OpenBLAS is not used"


def test_an_emulation_without_effect_is_an_error(portable):
    known = {one.name: one for one in portable.emulations(SYSTEM)}
    assert known["numpy"].variables == {"NPY_DISABLE_CPU_FEATURES": "X86_V3"}
    assert known["haswell"].effect(SYSTEM) == "Haswell; haswell; X86_V3"
    for name in ("prescott", "numpy", "numba"):
        with pytest.raises(SystemExit, match=f"{name} has no effect"):
            known[name].effect(SYSTEM)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels' names are of x86-64")
def test_the_quick_one_computes_with_other_code(portable):
    native = portable.probe({})
    old = portable.emulations(native)[0]
    if reason := old.left_out(native):
        pytest.skip(reason)
    result = portable.probe(old.variables)
    assert old.effect(result)
    assert result["blas"] != native["blas"]


def test_the_tests_that_it_runs_are_there(portable):
    for path in (*portable.QUICK, *portable.NUMERICAL):
        assert (portable.ROOT / path.removeprefix("--ignore=")).exists(), path
