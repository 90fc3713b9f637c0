"""Verification from the files alone: fresh runs pass, tampered ones do not."""

import ast
import importlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crosslearning
from crosslearning._base.plain_kernels import (
    kernel_features,
    kernel_matrix,
    same_kernel,
)
from crosslearning.certificates.certificate import certify
from crosslearning.certificates.page import certificate_page
from crosslearning.certificates.verification.checks import Checks, read_plain_file
from crosslearning.certificates.verification.model import check_model
from crosslearning.certificates.verification.verify import verify_run
from crosslearning.errors import FileFormatError, InputError, MissingFormulaError
from crosslearning.figures.certificate import certificate_figure
from crosslearning.learner import CrossLearner
from crosslearning.rkhs import Dictionary, Family, PairKernel, kernel_from_dict
from crosslearning.runs import RunFolder
from tests.certificates.tampering import (
    FILES,
    KERNELS,
    copy_of,
    edit_model,
    edit_text,
    renew_digests,
    small_run,
)

MODEL = "model.safetensors"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("verify") / "run", snapshot_every=30)


@pytest.fixture(scope="module")
def other_seed(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("verify") / "other", seed=4)


def failed(run):
    return {check.name for check in verify_run(run).checks if check.status == "fail"}


# Runs that nobody touched ---------------------------------------------------------------


def assert_passes(path):
    verification = verify_run(path)
    assert not [check for check in verification.checks if check.status != "pass"]
    learner = RunFolder.open(path).load()
    np.testing.assert_allclose(
        verification.model.norms, learner.family.norms(), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        verification.model.ridged_distances,
        learner._core.iterate.distances(),
        rtol=1e-7,
        atol=1e-10,
    )
    return verification


@pytest.mark.parametrize("projection", ["exact", "relaxed", "free"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_fresh_run_passes(tmp_path, kernel, projection):
    extra = {} if KERNELS[kernel] is None else {"kernel": KERNELS[kernel]}
    path = small_run(tmp_path / "run", projection=projection, iterations=30, **extra)
    verification = assert_passes(path)
    assert len(verification.checks) >= 30


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": 0.0},
        {"epsilon": "inf"},
        {"epsilon": 0.0, "projection": "relaxed"},
        {"epsilon": 0.0, "projection": "free"},
        {"tasks": "paper:r=1"},
        {"tasks": "paper:r=1", "epsilon": "inf", "projection": "relaxed"},
        {"step_rule": "adam", "step_clip": "inf"},
        {"alpha": 1e6},
        {"budget": "inf"},
        {"max_knots": 1},
        {"log_every": 7, "iterations": 5},
        {"tasks": "linear-quadratic", "max_knots": 20},
    ],
    ids=str,
)
def test_a_fresh_run_of_any_kind_passes(tmp_path, fields):
    assert_passes(small_run(tmp_path / "run", **fields))


def renamed(description):
    description["method"]["name"] = "another"


def more_functions(description):
    description["method"]["functions"] += 1


def no_method(description):
    del description["method"]


def later_version(description):
    description["version"] = 3


@pytest.mark.parametrize("name", ["finished", "interrupted"])
def test_a_run_of_version_1_passes(tmp_path, name):
    path = copy_of(FILES / "version-1" / name, tmp_path)
    verification = verify_run(path)
    assert not verification.failed
    assert verification.model.method == "policy-gradient"
    certificate = certify(path, samples=100)
    assert certificate.passed
    assert len(certificate.gaps) == 3
    assert (certificate.checks, certificate.left_out) == (verification.checks, "")


@pytest.mark.parametrize("step_rule", ["adam", "decaying"])
def test_a_file_says_itself_what_its_method_keeps(tmp_path, step_rule):
    path = small_run(tmp_path / "run", step_rule=step_rule, iterations=20)
    verification = verify_run(path)
    assert not verification.failed
    assert verification.model.method == "policy-gradient"
    for change, expected in (
        (renamed, set()),
        (more_functions, {f"{MODEL}: shapes"}),
        (later_version, {f"{MODEL}: a learner"}),
        (no_method, {f"{MODEL}: a learner"}),
    ):
        edit_model(path / MODEL, lambda _, description, change=change: change(description))
        renew_digests(path)
        assert failed(path) == expected


def test_an_array_of_the_methods_must_be_finite(tmp_path, run):
    def infinite(arrays, description):
        arrays["method.mean_square"][0] = np.inf

    path = copy_of(run, tmp_path)
    edit_model(path / MODEL, infinite)
    renew_digests(path)
    assert failed(path) == {f"{MODEL}: finite numbers"}


def test_an_unfinished_run_is_checked_at_its_newest_checkpoint(tmp_path, run):
    path = copy_of(run, tmp_path)
    for name in (MODEL, "record.json"):
        (path / name).unlink()
    verification = verify_run(path)
    assert not verification.failed
    assert not verification.finished
    assert verification.source == "checkpoints/iteration-00000050.safetensors"
    assert [c.name for c in verification.checks if c.status == "not possible"] == ["record.json"]


def test_a_finished_run_without_its_record_fails(tmp_path, run):
    path = copy_of(run, tmp_path)
    (path / "record.json").unlink()
    (lacking,) = [check for check in verify_run(path).checks if check.status == "fail"]
    assert lacking.name == "record.json"
    assert "--replay" in lacking.expected


# Runs that somebody touched -------------------------------------------------------------


def move_knot(arrays, description):
    arrays["knots"][3, 0] += 1e-6


def move_knot_and_features(arrays, description):
    knots = arrays["knots"]
    knots[3, 0] += 1e-3
    arrays["features"][:] = kernel_from_dict(description["kernel"]).embed(knots)


def move_knot_and_all_that_follows(arrays, description):
    """Move a knot and compute everything that depends on it anew, as the library would."""
    kernel = kernel_from_dict(description["kernel"])
    size = description["dictionary"]["_size"]
    knots, rows = arrays["knots"][:size].copy(), arrays["rows"][:, :, :size]
    knots[3, 0] += 1e-3
    moved = Dictionary.of(Family(kernel, knots, rows.transpose(2, 0, 1)), guarded=4)
    moved.prune(0.0)
    assert len(moved) == size
    arrays.update(moved.state()[0])
    description["dictionary"] = moved.state()[1]


def scale_function(arrays, description):
    arrays["rows"][1] *= 1.001


def scale_one_weight(arrays, description):
    arrays["rows"][0, 0, np.argmax(np.abs(arrays["rows"][0, 0]))] *= 1.001


def scale_everything(arrays, description):
    arrays["rows"] *= 1.0 - 1e-6


def epsilon_in_model(arrays, description):
    description["settings"]["epsilon"] = 2.0


def kernel_width(arrays, description):
    description["kernel"]["covariance"][0][0] *= 1.01


def nan_weight(arrays, description):
    arrays["rows"][0, 0, 0] = np.nan


def hidden_weight(arrays, description):
    arrays["rows"][0, 0, -1] = 1.0


def edited_features(arrays, description):
    arrays["features"][0, 2] += 1e-3


def wrong_inverse(arrays, description):
    arrays["inverse"] *= 1.01


def other_tasks(arrays, description):
    description["tasks"][0] = "r=9"


def later_iteration(arrays, description):
    description["iteration"] += 1


def more_knots_allowed(arrays, description):
    description["settings"]["max_knots"] = 400


def fewer_functions(arrays, description):
    arrays["rows"] = arrays["rows"][:3].copy()


def no_inverse(arrays, description):
    del arrays["inverse"]


def no_settings(arrays, description):
    del description["settings"]


def unknown_kernel(arrays, description):
    description["kernel"]["kernel"] = "sinc"


def wild_counts(arrays, description):
    description["dictionary"]["_size"] = 10**9


#: What is done to the model, and the check that finds it though all digests were made anew.
TAMPERINGS = {
    move_knot: "Gram matrix",
    move_knot_and_features: "Gram matrix",
    move_knot_and_all_that_follows: "record.json: norms",
    scale_function: "record.json: norms",
    scale_one_weight: "record.json: norms",
    scale_everything: "record.json: norms",
    epsilon_in_model: "config.toml: ε",
    kernel_width: "Gram matrix",
    nan_weight: "finite numbers",
    hidden_weight: "empty slots",
    edited_features: "features",
    wrong_inverse: "inverse",
    other_tasks: "record.json: what was learned",
    later_iteration: "config.toml: iterations",
    more_knots_allowed: "config.toml: max_knots",
    fewer_functions: "shapes",
    no_inverse: "a learner",
    no_settings: "a learner",
    unknown_kernel: "a learner",
    wild_counts: "shapes",
}


@pytest.mark.parametrize("checksum", ["kept", "anew", "anew, the record's too"])
@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda f: f.__name__)
def test_a_tampered_model_fails(tmp_path, run, tampering, checksum):
    path = copy_of(run, tmp_path)
    edit_model(path / MODEL, tampering, checksum.split(",")[0])
    if "," in checksum:
        renew_digests(path)
    names = failed(path)
    if checksum == "kept":
        assert f"{MODEL}: checksum" in names
    if "," not in checksum:
        assert f"record.json: {MODEL}" in names
    expected = TAMPERINGS[tampering]
    assert (expected if "." in expected else f"{MODEL}: {expected}") in names


@pytest.mark.parametrize("record", ["left", "renewed"])
def test_a_model_of_another_seed_fails(tmp_path, run, other_seed, record):
    path = copy_of(run, tmp_path)
    shutil.copy(other_seed / MODEL, path / MODEL)
    if record == "renewed":
        renew_digests(path)
    names = failed(path)
    assert {"config.toml: other settings", "record.json: norms"} <= names
    assert (f"record.json: {MODEL}" in names) == (record == "left")


@pytest.mark.parametrize("length", [0, 5, 8, 100, 2000, -1, -8])
def test_a_truncated_model_fails(tmp_path, run, length):
    path = copy_of(run, tmp_path)
    content = (path / MODEL).read_bytes()
    (path / MODEL).write_bytes(content[:length])
    assert f"{MODEL}: whole" in failed(path)
    renew_digests(path)
    assert f"{MODEL}: whole" in failed(path)


def test_a_lengthened_model_fails(tmp_path, run):
    path = copy_of(run, tmp_path)
    (path / MODEL).write_bytes((path / MODEL).read_bytes() + b"\0")
    assert f"{MODEL}: whole" in failed(path)


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("epsilon = 1.5", "epsilon = 1.6", "config.toml: ε"),
        ("epsilon = 1.5", "epsilon = inf", "config.toml: ε"),
        ("epsilon = 1.5\n", "", "config.toml: ε"),
        ("max_knots = 40", "max_knots = 39", "config.toml: knots"),
        ("iterations = 60", "iterations = 61", "config.toml: iterations"),
        ("seed = 3", "seed = 5", "config.toml: other settings"),
        ('tasks = "paper"', 'tasks = "paper-radii"', "config.toml: tasks"),
        ('tasks = "paper"', "tasks = [", "config.toml: readable"),
        ("log_every = 5", "log_every = 2", "metrics.jsonl: complete"),
        ("iterations = 60\n", "", "config.toml"),
    ],
)
@pytest.mark.parametrize("record", ["left", "renewed"])
def test_an_edited_configuration_fails(tmp_path, run, old, new, check, record):
    path = copy_of(run, tmp_path)
    edit_text(path / "config.toml", old, new)
    if record == "renewed":
        renew_digests(path)
    names = failed(path)
    assert check in names
    assert ("record.json: config.toml" in names) == (record == "left")


def edited_line(change):
    def edit(path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        change(lines)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return edit


@edited_line
def far_apart(lines):
    lines[4]["distance"]["r=1"] = 1.51


@edited_line
def line_lost(lines):
    del lines[5]


@edited_line
def end_lost(lines):
    del lines[-1]


@edited_line
def closer_than_the_model(lines):
    lines[-1]["distance"]["r=1"] *= 0.5


@edited_line
def lines_swapped(lines):
    lines[2], lines[3] = lines[3], lines[2]


@edited_line
def field_lost(lines):
    del lines[4]["knots"]


@edited_line
def method_lost(lines):
    for line in lines:
        del line["gap"], line["gradient_norm"]


@edited_line
def method_unknown(lines):
    for line in lines:
        line["kl"] = dict.fromkeys(line["distance"], 0.01)
        line["return"]["r=1"] = line["gap"]["r=1"] = None
        line["clock"] = "noon"


@edited_line
def other_tasks_known(lines):
    lines[4]["kl"] = {"r=9": 0.01}


@edited_line
def a_word(lines):
    lines[4]["gap"]["r=1"] = "small"


@edited_line
def one_for_all(lines):
    lines[4]["gap"] = 1.0


@edited_line
def distance_unknown(lines):
    lines[4]["distance"]["r=1"] = None


@edited_line
def not_a_number(lines):
    lines[4]["return"]["r=1"] = math.nan


@edited_line
def a_better_return(lines):
    lines[4]["return"]["r=1"] += 1.0


def nothing_left(path):
    path.write_text("")


def garbled(path):
    path.write_bytes(path.read_bytes().replace(b'"knots"', b'"kn\xff', 1))


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (far_apart, "constraint"),
        (line_lost, "complete"),
        (end_lost, "tells of the model"),
        (closer_than_the_model, "pruning lengthened nothing"),
        (lines_swapped, "well formed"),
        (field_lost, "well formed"),
        (not_a_number, "well formed"),
        (nothing_left, "well formed"),
        (garbled, "well formed"),
        (other_tasks_known, "well formed"),
        (a_word, "well formed"),
        (one_for_all, "well formed"),
        (distance_unknown, "well formed"),
        # What a method tells of itself may be absent or unknown.
        (method_lost, None),
        (method_unknown, None),
        (a_better_return, None),
    ],
)
def test_edited_metrics_fail(tmp_path, run, edit, check):
    path = copy_of(run, tmp_path)
    edit(path / "metrics.jsonl")
    assert "record.json: metrics.jsonl" in failed(path)
    renew_digests(path)
    # A plausible number with all digests renewed is what only a replay can find.
    assert failed(path) == set() if check is None else f"metrics.jsonl: {check}" in failed(path)


@pytest.mark.parametrize(("distance", "fine"), [(2.59, True), (2.61, False)])
def test_a_policy_of_a_relaxed_run_may_have_all_of_the_room(tmp_path, distance, fine):
    """All of Nε² may be one policy's: √3 · 1.5 = 2.598 is the farthest of three tasks."""
    path = small_run(tmp_path / "run", projection="relaxed", iterations=10)
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    lines[0]["distance"]["r=1"] = distance
    (path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert ("metrics.jsonl: constraint" in failed(path)) is not fine


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("config.toml", "config.toml: readable"),
        ("metrics.jsonl", "metrics.jsonl: well formed"),
        ("run.json", "run.json"),
        (MODEL, f"{MODEL}: there"),
    ],
)
def test_a_missing_file_fails(tmp_path, run, name, check):
    path = copy_of(run, tmp_path)
    (path / name).unlink()
    assert check in failed(path)


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"sha256": 3}', "NaN"])
def test_a_damaged_record_fails(tmp_path, run, text):
    path = copy_of(run, tmp_path)
    (path / "record.json").write_text(text)
    assert failed(path) == {"record.json"}


def test_other_checkpoints_and_snapshots_are_checked(tmp_path, run):
    path = copy_of(run, tmp_path)
    checkpoint = path / "checkpoints" / "iteration-00000025.safetensors"
    snapshot = path / "snapshots" / "iteration-00000030.safetensors"
    edit_model(checkpoint, epsilon_in_model)
    snapshot.write_bytes(snapshot.read_bytes()[:-3])
    assert failed(path) == {
        "checkpoints/iteration-00000025.safetensors: of this run",
        "snapshots/iteration-00000030.safetensors: whole",
    }


def test_an_unfinished_run_fails_by_its_checkpoint(tmp_path, run):
    path = copy_of(run, tmp_path)
    for name in (MODEL, "record.json"):
        (path / name).unlink()
    edit_model(path / "checkpoints" / "iteration-00000050.safetensors", kernel_width)
    assert "iteration-00000050.safetensors: Gram matrix" in failed(path)
    shutil.rmtree(path / "checkpoints")
    assert failed(path) == {f"{MODEL}: there"}


def test_a_folder_without_a_run_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="holds no run"):
            verify_run(path)


@given(position=st.floats(0, 1), value=st.integers(1, 255))
def test_a_flipped_byte_anywhere_is_noticed(run, position, value):
    # The byte may be part of anything: the length, the header, the description or an array.
    path = run.parent / "flipped"
    if not path.exists():
        shutil.copytree(run, path)
    content = bytearray((run / MODEL).read_bytes())
    content[min(int(position * len(content)), len(content) - 1)] ^= value
    (path / MODEL).write_bytes(content)
    renew_digests(path)
    assert failed(path)


JUNK = st.sampled_from(
    [None, "x", "inf", -1, 0, 7, 1.5, 1e308, 10**30, True, [], {}, [[]], {"a": 1}]
)


def put_junk(data, value, choose):
    """Replace one entry, however deep, of nested tables and lists."""
    place = data
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = choose(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and choose([True, False]):
            place = inner
        else:
            place[key] = value
            return


@given(data=st.data(), junk=JUNK)
@settings(max_examples=50, deadline=None)
def test_junk_in_the_files_never_prevents_a_verdict(run, data, junk):
    """Junk in the description, the record or the metrics: no error, and the digests notice."""
    path = run.parent / "junk"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(run, path)

    def choose(options):
        return data.draw(st.sampled_from(options))

    which = choose(["model", "record", "metrics"])
    if which == "model":
        edit_model(path / MODEL, lambda _, description: put_junk(description, junk, choose))
    elif which == "record":
        record = json.loads((path / "record.json").read_text())
        put_junk(record, junk, choose)
        (path / "record.json").write_text(json.dumps(record))
    else:
        lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        put_junk(lines, junk, choose)
        (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    changed = any(
        (path / n).read_bytes() != (run / n).read_bytes() for n in (MODEL, "metrics.jsonl")
    )
    certificate = certify(path, samples=2) if failed(path) else None
    assert certificate is not None or not changed
    if which != "record":
        renew_digests(path)
        if failed(path):  # else the junk is where no check can know better
            certificate = certify(path, samples=2)
    if certificate is not None:
        json.loads(certificate.to_json())
        assert "NOT CERTIFIED" in certificate_page(certificate)
        if which == "metrics":
            certificate_figure(certificate.to_plain(), certificate.metrics)


# The independent path -------------------------------------------------------------------


def test_the_checks_use_nothing_of_the_library():
    seen, waiting = set(), ["crosslearning.certificates.verification.verify"]
    while waiting:
        name = waiting.pop()
        seen.add(name)
        tree = ast.parse(Path(importlib.import_module(name).__file__).read_text())
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module]
            for imported in names:
                assert imported.split(".")[0] not in ("numba", "scipy")
                if imported.split(".")[0] == "crosslearning" and imported not in seen:
                    waiting.append(imported)
    allowed = ("checks", "verify", "model")
    assert seen == {
        "crosslearning.errors",
        "crosslearning._base.ordinary_files",
        "crosslearning._base.plain_kernels",
        *(f"crosslearning.certificates.verification.{name}" for name in allowed),
    }
    assert Path(crosslearning.__file__).parent.name == "crosslearning"


@pytest.mark.parametrize("kernel", [k for k in KERNELS if KERNELS[k] is not None])
def test_kernels_agree_with_the_library(kernel):
    library = kernel_from_dict(KERNELS[kernel])
    points = np.random.default_rng(0).normal(size=(150, 5)) * [5, 3, 5, 3, 3]
    points[1] = points[0]
    description = library.to_dict()
    values, error = kernel_matrix(description, points)
    assert np.all(np.abs(values - library(points)) <= error)
    assert np.max(error / (1.0 + np.abs(values))) < 1e-10
    for i, j in ((0, 1), (2, 3), (4, 140)):
        assert values[i, j] == pytest.approx(library.formula(points[i], points[j]), rel=1e-10)
    np.testing.assert_allclose(
        kernel_features(description, points), library.embed(points), rtol=1e-12, atol=1e-12
    )
    assert same_kernel(description, KERNELS[kernel])
    assert same_kernel(KERNELS[kernel], description)
    for other in KERNELS:
        assert same_kernel(KERNELS[other], description) == (other == kernel)


def test_a_kernel_of_its_authors_formula_needs_the_formula(tmp_path):
    def cauchy(x, y):
        return 1.0 / (1.0 + np.sum((x - y) ** 2))

    kernel = PairKernel(cauchy, dimension=5)
    learner = CrossLearner("paper", kernel=kernel, max_knots=30).learn(15)
    learner.save(tmp_path / "learner.safetensors")
    content = read_plain_file(tmp_path / "learner.safetensors")
    with pytest.raises(MissingFormulaError):
        kernel_matrix(content.description["kernel"], content.arrays["knots"])
    without, given_it, wrong = Checks(), Checks(), Checks()
    model = check_model(without, content, "learner")
    np.testing.assert_allclose(model.norms, learner.family.norms(), rtol=1e-10)
    by_name = {check.name: check.status for check in without}
    assert by_name["learner: Gram matrix"] == "not possible"
    assert set(by_name.values()) == {"pass", "not possible"}
    check_model(given_it, content, "learner", formula=kernel)
    assert {check.status for check in given_it} == {"pass"}
    check_model(wrong, content, "learner", formula=lambda points: kernel(0.9 * points))
    assert "fail" in {check.status for check in wrong}


def test_the_reader_refuses_what_is_no_tensor_file(tmp_path, run):
    content = (run / MODEL).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    body = content[8 + length :]

    def refused(header):
        text = json.dumps(header).encode()
        path = tmp_path / "x.safetensors"
        path.write_bytes(len(text).to_bytes(8, "little") + text + body)
        with pytest.raises(FileFormatError):
            read_plain_file(path)

    refused([])
    refused({**header, "knots": {**header["knots"], "dtype": "F32"}})
    refused({**header, "knots": {**header["knots"], "shape": [-1, 3]}})
    refused({**header, "knots": {**header["knots"], "data_offsets": [0, 8]}})
    refused({**header, "knots": {**header["knots"], "data_offsets": "ab"}})
    refused({**header, "knots": 3})
    refused({**header, "__metadata__": {}})
    refused({**header, "__metadata__": {"crosslearning": "[]"}})
    refused({**header, "__metadata__": {"crosslearning": '{"a": NaN}'}})
