"""Exported C compiles without a warning, runs clean, and does what policies do."""

import shutil
import subprocess

import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.export.c_compiler import FLAGS, compile_and_run, find_compiler
from crosslearning.export.c_source import c_files
from crosslearning.rkhs import Gaussian
from tests.export.examples import PLAIN, compare, policy_of

COMPILER = find_compiler()
pytestmark = pytest.mark.skipif(COMPILER is None, reason="this machine has no C compiler")
#: Without optimising, which takes the compiler longer than the program.
QUICK = (*FLAGS, "-O0")
#: Every wrong access, overflow or leak ends the program.
CLEAN = (*QUICK, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: Kernels that have every formula and every embedding between them.
TELLING = ("gaussian-logarithmic", "matern32", "matern52-periodic", "product-of-sums", "polynomial")


def difference(policy, precision, flags=QUICK, arithmetic=None):
    files = c_files(policy, "policy", precision, arithmetic or precision)
    return compare(
        policy, lambda states: compile_and_run(COMPILER, files, states, flags).actions, precision
    )


@pytest.mark.parametrize("precision", ["double", "float"])
@pytest.mark.parametrize("kernel", PLAIN.values(), ids=PLAIN)
def test_every_kernel(kernel, precision):
    agreement = difference(policy_of(kernel, spread=0.5), precision)
    assert agreement.states > 4000
    assert agreement.share <= (1e-12 if precision == "double" else 1e-5)


@pytest.mark.parametrize("name", TELLING)
def test_nothing_is_read_or_written_where_it_may_not(name):
    difference(policy_of(PLAIN[name], spread=0.5), "double", CLEAN)


def test_edges():
    difference(policy_of(knots=0), "double", CLEAN)
    periodic = policy_of(Gaussian(std=[1.0], periodic=[0]), knots=1, outputs=1)
    difference(periodic, "float", CLEAN)
    difference(policy_of(PLAIN["product-of-sums"]), "float", CLEAN, arithmetic="double")


def test_the_flags_are_strict():
    assert {"-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"} <= set(FLAGS)


def test_a_name_cannot_break_out_of_its_comment():
    policy = policy_of(name="*/ int main(void) { return 1; } /* \\ ??/ ε\n#error")
    header = c_files(policy, "policy", "double", "double")["policy.h"]
    assert header.count("*/") == header.count("/*") == 2
    assert header.isascii()
    difference(policy, "double")


def test_a_name_is_not_read_as_a_template():
    files = c_files(policy_of(name="{{ 7 * 7 }}{% if"), "policy", "double", "double")
    assert all("The policy {{ 7 * 7 }}{% if of crosslearning" in text for text in files.values())


@pytest.mark.parametrize("name", ["", "3d", "my policy", "a-b", "ε", "math"])
def test_names_that_c_does_not_take_are_refused(name):
    with pytest.raises(InputError, match="cannot begin the names of a C file"):
        c_files(policy_of(), name, "double", "double")


CALLS = """\
#include "policy.h"
#include "other.h"
#include <math.h>
#include <stdio.h>

int main(void)
{
    policy_real s[POLICY_OBSERVATIONS] = {0.1, 0.2, 0.3}, a[POLICY_ACTIONS] = {7.0, 8.0};
    other_real t[OTHER_OBSERVATIONS] = {0.1f, 0.2f, 0.3f}, b[OTHER_ACTIONS];

    s[1] = NAN;
    printf("%d %g %g\\n", policy_act(s, a), a[0], a[1]);
    s[1] = INFINITY;
    printf("%d %g %g\\n", policy_act(s, a), a[0], a[1]);
    s[1] = 0.2;
    printf("%d %d\\n", policy_act(s, a), other_act(t, b));
    printf("%.17g %.17g %.9g %.9g\\n", a[0], a[1], b[0], b[1]);
    return 0;
}
"""


@pytest.mark.parametrize("language", [["-std=c99"], ["-x", "c++", "-std=c++17"]])
def test_two_policies_in_one_program_of_c_or_cpp(tmp_path, language):
    if "c++" in language and shutil.which("g++") is None:
        language = ["-std=c11"]  # without a C++ compiler, one more C
    policy, other = policy_of(), policy_of(PLAIN["laplacian"])
    files = c_files(policy, "policy", "double", "double")
    files |= c_files(other, "other", "float", "float")
    for name, text in {**files, "main.c": CALLS}.items():
        (tmp_path / name).write_text(text)
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    c99 = ["-std=c99"]
    for unit, standard in (("policy.c", c99), ("other.c", c99), ("main.c", language)):
        command = [COMPILER, *strict, *standard, "-c", unit, "-o", f"{unit}.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
    objects = [f"{unit}.o" for unit in ("main.c", "policy.c", "other.c")]
    subprocess.run([COMPILER, *objects, "-lm", "-o", "program"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    lines = said.stdout.splitlines()
    # What is no number is refused, and the action stays.
    assert lines[:3] == ["1 7 8", "1 7 8", "0 0"]
    actions = [float(word) for word in lines[3].split()]
    state = [0.1, 0.2, 0.3]
    expected = np.concatenate([one.predict(state)[0] for one in (policy, other)])
    np.testing.assert_allclose(actions, expected, rtol=1e-6)


def test_the_compiler_of_the_variable_comes_first(monkeypatch):
    monkeypatch.setenv("CC", "python3")
    assert "python3" in find_compiler()
    monkeypatch.setenv("CC", "no-such-compiler")
    assert find_compiler() == COMPILER
    monkeypatch.setenv("PATH", "")
    assert find_compiler() is None
