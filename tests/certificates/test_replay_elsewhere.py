"""A replay compares bits where a run was made on this system, and elsewhere never fails it."""

import json
import os
import platform
import subprocess
import sys

import pytest

from crosslearning.certificates import certificate_page, certify
from crosslearning.certificates.replay import replay_run
from crosslearning.certificates.verification import verify_run
from crosslearning.runs.system_info import differences, in_words, system_info
from tests.certificates.tampering import FILES, copy_of, edit_model, small_run
from tests.certificates.test_certify import MODEL, forge_metrics, forge_model

#: One of them is not the kernel of this processor; both run on every x86-64 of these days.
KERNELS = ("Nehalem", "Sandybridge")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("elsewhere") / "run")


def replayed(path):
    """Return the checks of a replay, without the rest of a certificate."""
    return {check.name: check for check in replay_run(path, verify_run(path))}


def edit_systems(path, change):
    for name in ("systems.json", "record.json"):
        data = json.loads((path / name).read_text())
        system = data["made_with"] if name == "record.json" else data[0]
        change(system)
        (path / name).write_text(json.dumps(data))


def test_here_a_changed_weight_fails(tmp_path, run):
    path = copy_of(run, tmp_path)
    forge_model(path)
    checks = replayed(path)
    assert checks[f"replay: {MODEL}"].status == "fail"
    assert "not comparable" not in checks[f"replay: {MODEL}"].found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("processor", "GenuineIntel Intel(R) Xeon(R) 6 85"),
        ("blas", "openblas 0.3.30 Nehalem"),
        ("libc", "musl 1.2"),
        ("features", "SSE SSE2"),
        ("crosslearning", "0.0.1"),
        ("numba_cpu", ""),
    ],
)
def test_elsewhere_other_bits_are_not_comparable(tmp_path, run, name, value):
    path = copy_of(run, tmp_path)
    forge_metrics(path)
    edit_systems(path, lambda system: system.update({name: value}))
    checks = replayed(path)
    assert {check.status for check in checks.values()} == {"pass", "not possible"}
    metrics = checks["replay: metrics.jsonl"]
    assert metrics.status == "not possible"
    assert "not comparable here, made on " in metrics.found
    assert name in metrics.found
    # Return 4 was changed, and nothing before it.
    assert "; the first 4 of 12 lines agree within 1e-06; " in metrics.found


def test_a_certificate_says_where_a_run_was_made_and_that_a_replay_proves_nothing(tmp_path, run):
    path = copy_of(run, tmp_path)
    forge_model(path)
    edit_systems(path, lambda system: system.update(processor="Vendor X"))
    certificate = certify(path, samples=100, replay=True)
    assert certificate.passed
    assert certificate.to_plain()["made_on"][0]["processor"] == "Vendor X"
    page = " ".join(certificate_page(certificate).split())
    assert "Made on: processor Vendor X; libc" in page
    assert "proves nothing of its bytes" in page
    assert "gave the same bytes" not in page


def test_a_run_of_version_1_passes_or_is_not_comparable(tmp_path):
    # Made on a processor that nobody recorded: here its bits may come out or not.
    path = copy_of(FILES / "version-1" / "finished", tmp_path)
    assert all(check.status != "fail" for check in replayed(path).values())
    edit_model(path / MODEL, lambda arrays, _: arrays["rows"].__imul__(0.999))
    check = replayed(path)[f"replay: {MODEL}"]
    assert check.status == "not possible"
    assert "an unrecorded python, scipy" in check.found


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or "openblas" not in system_info()["blas"],
    reason="only OpenBLAS on x86-64 can use another processor's kernel",
)
def test_a_run_that_another_kernel_made(tmp_path):
    path = tmp_path / "run"
    kernel = next(name for name in KERNELS if name not in system_info()["blas"])
    code = f"from tests.certificates.tampering import small_run; small_run({str(path)!r})"
    surroundings = {**os.environ, "OPENBLAS_CORETYPE": kernel}
    subprocess.run([sys.executable, "-c", code], env=surroundings, check=True, timeout=300)
    (system,) = json.loads((path / "systems.json").read_text())
    assert system["blas"] != system_info()["blas"]
    assert {**system, "blas": ""} == {**system_info(), "blas": ""}
    checks = replayed(path)
    assert all(check.status != "fail" for check in checks.values())
    forge_model(path)  # whose record is made here: the folder still knows of the other
    assert replayed(path)[f"replay: {MODEL}"].status == "not possible"


def test_a_list_of_systems_that_cannot_be_read_is_unknown(tmp_path, run):
    path = copy_of(run, tmp_path)
    for text in (
        "",
        "{}",
        "[1]",
        '[{"processor": [1]}]',
        "\xff",
        "[" * 100_000,
        "[{}" + ",{}" * 100 + "]",
    ):
        (path / "systems.json").write_text(text)
        (path / "record.json").unlink(missing_ok=True)
        assert "unrecorded" in differences(certify(path, samples=10).made_on)


def test_systems_in_words():
    now = system_info()
    assert differences([now, now]) == ""
    assert differences([]) == "an unrecorded system"
    assert differences([now, {**now, "numpy": "1.0"}]) == f"numpy 1.0, here {now['numpy']}"
    other = {**now, "features": now["features"] + " NEON"}
    assert differences([other]) == "features with NEON more and none less than here"
    assert in_words(now).startswith("processor ")
    assert in_words({}) == "unknown"
    assert in_words({"processor": "a\x1b[2Jb\n"}) == r"processor a\x1b[2Jb\n"
    assert "\x1b" not in differences([{**now, "libc": "\x1b[2J"}])
