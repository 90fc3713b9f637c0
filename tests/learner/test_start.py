"""A learner may start from given policies: one for all, or the whole family."""

import json

import numpy as np
import pytest

from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner import CrossLearner
from crosslearning.rkhs import Gaussian
from crosslearning.runs import RunFolder, make_config, resume, train

SETTINGS = {"step_size": 0.1, "max_knots": 20, "batch_size": 2}


@pytest.fixture(scope="module")
def family():
    learner = CrossLearner("linear-quadratic", 0.3, seed=1, **SETTINGS).learn(60)
    assert learner.family.distances().max() > 0.2
    return learner.family


@pytest.mark.parametrize("rule", ["decaying", "adam"])
def test_a_family_is_taken_over_to_the_last_bit(family, rule):
    learner = CrossLearner("linear-quadratic", 0.5, start=family, step_rule=rule, **SETTINGS)
    np.testing.assert_array_equal(learner.family.knots, family.knots)
    np.testing.assert_array_equal(learner.family.weights, family.weights)
    learner.learn(5)
    assert learner.family.distances().max() <= 0.5 + 1e-9
    assert learner.family.distances().max() > 0.3


def test_one_function_is_given_to_all(family):
    learner = CrossLearner("linear-quadratic", 0.5, start=family.select(3), **SETTINGS)
    for i in range(4):
        np.testing.assert_array_equal(learner.family.weights[:, i], family.weights[:, 3])


def test_a_start_that_does_not_fit_is_refused(family):
    with pytest.raises(InputError, match=r"or 4 of them.*got 2 functions"):
        CrossLearner("linear-quadratic", 0.5, start=family.select(0, 3))
    with pytest.raises(InputError, match=r"from its centre, but epsilon is 0\.01"):
        CrossLearner("linear-quadratic", 0.01, start=family)
    with pytest.raises(InputError, match="kernel of its own"):
        CrossLearner("linear-quadratic", 0.5, start=family, kernel=Gaussian(std=[3.0, 3.0]))


def test_the_relaxed_projection_bounds_the_mean_square_of_a_start(family):
    distances = family.distances()
    between = float(0.5 * (np.sqrt(np.mean(distances**2)) + distances.max()))
    assert np.sqrt(np.mean(distances**2)) < between < distances.max()
    CrossLearner("linear-quadratic", between, start=family, projection="relaxed", **SETTINGS)
    with pytest.raises(InputError, match="from its centre"):
        CrossLearner("linear-quadratic", between, start=family, **SETTINGS)


def test_a_run_keeps_its_start_and_resumes_from_it(family, tmp_path):
    fields = {"tasks": "linear-quadratic", "epsilon": 0.5, "iterations": 30, **SETTINGS}
    config = make_config({**fields, "checkpoint_every": 1000})
    assert train(tmp_path / "whole", config, start=family).finished
    # As if it had been killed before the first checkpoint of its own.
    begun = CrossLearner("linear-quadratic", 0.5, start=family, **SETTINGS)
    killed = RunFolder.create(tmp_path / "killed", config, begun, has_start=True)
    (iteration, path), *rest = killed.checkpoints()
    assert (iteration, rest) == (0, [])
    kept = CrossLearner.load(path).family
    np.testing.assert_array_equal(kept.weights, family.weights)
    assert resume(tmp_path / "killed").finished
    files = [RunFolder(tmp_path / name).model.read_bytes() for name in ("whole", "killed")]
    assert files[0] == files[1]


def test_a_run_whose_start_is_gone_does_not_begin_from_zero(family, tmp_path):
    fields = {"tasks": "linear-quadratic", "epsilon": 0.5, "iterations": 30, **SETTINGS}
    learner = CrossLearner("linear-quadratic", 0.5, start=family, **SETTINGS)
    folder = RunFolder.create(tmp_path / "run", make_config(fields), learner, has_start=True)
    about = json.loads((folder.path / "run.json").read_text())
    assert (about["version"], about["has_start"]) == (1, True)
    folder.checkpoints()[0][1].unlink()
    with pytest.raises(FileFormatError, match="checkpoint of its start is gone"):
        resume(folder.path)
