"""A learner's file: it goes on bit for bit, and what does not fit is refused."""

import contextlib
import json
import math

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning._base.files import read_tensors, write_tensors
from crosslearning.errors import (
    CrossLearningError,
    FileFormatError,
    InputError,
    MissingFormulaError,
)
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION
from crosslearning.rkhs import Gaussian, Linear, PairKernel
from crosslearning.tasks import linear_quadratic_set, task_set
from tests.learner.examples import assert_same_bits, recorded_reports

SMALL = {"max_knots": 12, "batch_size": 2, "step_size": 0.2, "seed": 3}


@pytest.mark.parametrize("workers", [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize(
    "settings",
    [
        {"step_rule": "normalised", "epsilon": 0.3},
        {"step_rule": "adam", "epsilon": 0.3, "momentum": 0.8},
        {"step_rule": "adam", "epsilon": 0.0, "projection": "relaxed"},
        {"step_rule": "decaying", "epsilon": math.inf, "estimator": "baseline"},
        {"step_rule": "constant", "step_size": 1e-3, "budget": math.inf, "alpha": 1e-9},
    ],
    ids=["normalised", "adam", "consensus", "alone", "constant"],
)
def test_a_loaded_learner_goes_on_bit_for_bit(tmp_path, settings, workers):
    path = tmp_path / "learner.st"
    learner = CrossLearner("linear-quadratic", workers=workers[0], **(SMALL | settings)).learn(20)
    learner.save(path)
    loaded = CrossLearner.load(path, workers=workers[1])
    assert loaded.settings == learner.settings
    assert loaded.kernel == learner.kernel
    assert (loaded.iteration, loaded.steps) == (learner.iteration, learner.steps)
    assert_same_bits(loaded.family, learner.family)
    ahead, again = recorded_reports(learner, 20), recorded_reports(loaded, 20)
    assert_same_bits(loaded.family, learner.family)
    assert (loaded.iteration, loaded.steps) == (learner.iteration, learner.steps)
    for one, other in zip(ahead, again, strict=True):
        np.testing.assert_array_equal(one.returns, other.returns)
        np.testing.assert_array_equal(one.distances, other.distances)
        for name in ("gradient_norm", "gap"):
            np.testing.assert_array_equal(one.numbers[name], other.numbers[name])
    loaded.save(path)
    assert_same_bits(CrossLearner.load(path).learn(5).family, learner.learn(5).family)


def test_a_learner_that_has_not_begun(tmp_path):
    CrossLearner("paper", seed=4).save(tmp_path / "new.st")
    assert_same_bits(
        CrossLearner.load(tmp_path / "new.st").learn(4).family,
        CrossLearner("paper", seed=4).learn(4).family,
    )


def test_options_of_the_task_set_are_in_the_file(tmp_path):
    path = tmp_path / "options.st"
    options = {"crash": "terminate", "goals": [[3.0, 8.0]]}
    learner = CrossLearner("paper:r=1", task_options=options, **SMALL).learn(5)
    learner.save(path)
    loaded = CrossLearner.load(path)
    assert [task.name for task in loaded.tasks] == ["r=1"]
    assert loaded.tasks[0].make().navigation == learner.tasks[0].make().navigation
    assert_same_bits(loaded.learn(5).family, learner.learn(5).family)


def test_tasks_of_ones_own_are_given_again(tmp_path):
    path = tmp_path / "own.st"
    tasks = [system.task(name) for name, system in linear_quadratic_set().items()]
    learner = CrossLearner(tasks, **SMALL).learn(5)
    learner.save(path)
    with pytest.raises(InputError, match=r"tasks of its author's .*'m=1'.*pass them"):
        CrossLearner.load(path).learn(1)
    loaded = CrossLearner.load(path, tasks=tasks)
    assert_same_bits(loaded.learn(5).family, learner.learn(5).family)


def test_a_formula_of_ones_own_is_given_again(tmp_path):
    def bump(x, y):
        return math.exp(-abs(x[0] - y[0]) - abs(x[1] - y[1]))

    path = tmp_path / "formula.st"
    kernel = PairKernel(bump, 2)
    learner = CrossLearner("linear-quadratic", kernel=kernel, **SMALL).learn(5)
    learner.save(path)
    with pytest.raises(MissingFormulaError, match="bump"):
        CrossLearner.load(path)
    loaded = CrossLearner.load(path, kernel=kernel)
    assert_same_bits(loaded.learn(5).family, learner.learn(5).family)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "learner.st"
    CrossLearner("linear-quadratic", **SMALL).learn(5).save(path)
    return path


def test_other_tasks_are_refused(saved):
    with pytest.raises(InputError, match=r"was learned on \['m=0.5', 'm=1', 'm=2'\], got \['m=1'"):
        CrossLearner.load(saved, tasks=task_set("linear-quadratic")[1:])
    with pytest.raises(InputError, match="but paper gives"):
        CrossLearner.load(saved, tasks="paper")


def test_another_kernel_is_refused(saved):
    with pytest.raises(InputError, match=r"was learned with the kernel .*gaussian.*got .*linear"):
        CrossLearner.load(saved, kernel=Linear([1.0, 1.0]))
    with pytest.raises(InputError, match="was learned with the kernel"):
        CrossLearner.load(saved, kernel=Gaussian(std=[1.0, 1.1]))


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        CrossLearner.load(tmp_path / "nothing.st")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_file_cut_short_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileFormatError, match="damaged or cut short"):
        CrossLearner.load(saved)


def test_an_edited_file_is_refused(saved):
    content = bytearray(saved.read_bytes())
    content[-9] ^= 1  # one bit of the last number
    saved.write_bytes(bytes(content))
    with pytest.raises(FileFormatError, match="checksum does not match"):
        CrossLearner.load(saved)


def test_an_edited_description_is_refused(saved):
    content = saved.read_bytes()
    edited = content.replace(b'\\"iteration\\": 5', b'\\"iteration\\": 6')
    assert edited != content
    saved.write_bytes(edited)
    with pytest.raises(FileFormatError, match="checksum does not match"):
        CrossLearner.load(saved)


def rewrite(path, version=FILE_VERSION, kind=FILE_KIND, drop=(), **changes):
    """Write the file again with a right checksum, as another program could."""
    arrays, description = read_tensors(path, FILE_KIND, FILE_VERSION)
    kept = {name: array for name, array in arrays.items() if name not in drop}
    saved_description = {name: value for name, value in description.items() if name not in drop}
    for name in ("kind", "version"):
        saved_description.pop(name)
    write_tensors(path, kind, version, kept, saved_description | changes)


def test_a_newer_file_is_refused(saved):
    rewrite(saved, version=FILE_VERSION + 1)
    with pytest.raises(FileFormatError, match="install a newer crosslearning"):
        CrossLearner.load(saved)


def test_a_file_of_another_kind_is_refused(saved, tmp_path):
    learner = CrossLearner("linear-quadratic", **SMALL).learn(2)
    learner.family.save(tmp_path / "family.st")
    with pytest.raises(FileFormatError, match="holds a family, expected a learner"):
        CrossLearner.load(tmp_path / "family.st")


@pytest.mark.parametrize(
    "missing",
    [
        "method.mean_square",
        "method",
        "rows",
        "knots",
        "generator",
        "settings",
        "dictionary",
        "tasks",
    ],
)
def test_a_file_that_lacks_a_part_is_refused(saved, missing):
    rewrite(saved, drop=(missing,))
    with pytest.raises(FileFormatError, match="lacks a part of a learner"):
        CrossLearner.load(saved)


def test_settings_of_a_file_are_checked(saved):
    _, description = read_tensors(saved, FILE_KIND, FILE_VERSION)
    rewrite(saved, settings=description["settings"] | {"discount": 1.5})
    with pytest.raises(InputError, match="discount"):
        CrossLearner.load(saved)


def test_a_file_is_plain_data(saved):
    # Nothing in it is executed: arrays, and a description that JSON can hold.
    _, description = read_tensors(saved, FILE_KIND, FILE_VERSION)
    assert json.loads(json.dumps(description)) == description
    assert description["task_set"] == "linear-quadratic"


STRANGE = [None, "x", -1, 2**70, 1e400, math.nan, True, [], {}, [[0]]]


def leaves(data, path=()):
    """Return the path of everything in plain data."""
    inner = data.items() if isinstance(data, dict) else enumerate(data)
    for name, value in inner:
        yield (*path, name)
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, name))


def test_whatever_a_crafted_file_says_is_taken_or_refused_with_one_clear_line(saved):
    arrays, description = read_tensors(saved, FILE_KIND, FILE_VERSION)
    del description["kind"], description["version"]
    for k, path in enumerate(leaves(description)):
        # Every place gets some of the strange values, and every value comes to many places.
        for strange in (STRANGE[k % len(STRANGE)], STRANGE[(3 * k + 1) % len(STRANGE)]):
            crafted = json.loads(json.dumps(description))
            place = crafted
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = strange
            write_tensors(saved, FILE_KIND, FILE_VERSION, arrays, crafted)
            with contextlib.suppress(CrossLearningError):
                CrossLearner.load(saved)


def test_deep_nesting_and_strange_tensors_are_refused(saved, tmp_path):
    deep = '{"kind":' + "[" * 100_000
    for metadata, kind, size in ((deep, "F64", 8), ("{}", "F8_E4M3", 1), ("[]", "F64", 8)):
        header = {"a": {"dtype": kind, "shape": [4], "data_offsets": [0, 4 * size]}}
        text = json.dumps({"__metadata__": {"crosslearning": metadata}, **header}).encode()
        crafted = tmp_path / "crafted.st"
        crafted.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4 * size))
        with pytest.raises(FileFormatError, match=r"crafted\.st is"):
            CrossLearner.load(crafted)
