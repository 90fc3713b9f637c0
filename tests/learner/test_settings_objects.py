"""Typed settings objects, keywords and configurations mean the same; old names are still read."""

import math
import pydoc

import numpy as np
import pytest

from crosslearning import CrossLearner, ModelBased, PolicyGradient, Task, TrustRegion
from crosslearning._base.files import read_tensors, write_tensors
from crosslearning.errors import InputError
from crosslearning.learner import internals, make_settings
from crosslearning.learner.evaluation import evaluate
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION, LearnerSettings
from crosslearning.rkhs import Gaussian
from crosslearning.runs import make_config
from tests.learner.examples import assert_same_bits

PLAIN = ("kind", "version")


@pytest.mark.parametrize(
    ("settings", "method", "keywords"),
    [
        (PolicyGradient, "policy-gradient", {"epsilon": 0.5, "max_knots": 12, "batch_size": 2}),
        (TrustRegion, "trust-region", {"epsilon": 1.0, "step_kl": 0.1, "max_knots": 20}),
        (ModelBased, "models", {"epsilon": 2.0, "round_steps": 10, "updates_per_round": 2}),
    ],
)
def test_objects_and_keywords_give_the_same_settings_and_bits(settings, method, keywords):
    first = CrossLearner("linear-quadratic", settings(seed=3, **keywords)).learn(2)
    second = CrossLearner("linear-quadratic", method=method, seed=3, **keywords).learn(2)
    assert type(first.settings) is settings
    assert first.settings == second.settings
    assert_same_bits(first.family, second.family)


@pytest.mark.parametrize("kind", [LearnerSettings, PolicyGradient, TrustRegion, ModelBased])
def test_help_lists_the_settings_in_words(kind):
    shown = pydoc.plain(pydoc.render_doc(kind))
    head = shown[: shown.index("Method resolution order")]
    assert "Annotated" not in head
    assert "Meta(" not in head
    assert "epsilon: float = 3.0" in head
    assert "epsilon : float\n |      Centrality radius ε" in head
    assert head.index("Parameters") < head.index("Examples")


def test_an_object_is_checked_like_keywords():
    learner = CrossLearner("linear-quadratic", TrustRegion(epsilon=np.float64(2.0), action_std=0.3))
    assert (learner.settings.epsilon, learner.settings.action_std) == (2.0, (0.3,))
    with pytest.raises(InputError, match=r"step_kl is -1\.0: expected float > 0"):
        CrossLearner("linear-quadratic", TrustRegion(step_kl=-1.0))
    with pytest.raises(InputError, match="method is 'models' in TrustRegion; take ModelBased"):
        TrustRegion(method="models")


def test_a_number_is_the_radius():
    assert CrossLearner("linear-quadratic", 0.7).settings.epsilon == 0.7
    assert math.isinf(CrossLearner("linear-quadratic", math.inf).settings.epsilon)


def test_a_kernel_by_name_goes_with_an_object():
    kernel = {"kernel": "gaussian", "std": [1.0, 2.0]}
    learner = CrossLearner("linear-quadratic", TrustRegion(), kernel=kernel)
    assert learner.settings.kernel == kernel
    assert learner.kernel == Gaussian(std=[1.0, 2.0])


@pytest.mark.parametrize(
    ("settings", "keywords", "message"),
    [
        (TrustRegion(), {"step_kl": 0.1}, r"step_kl was given beside TrustRegion\(…\); put it the"),
        (ModelBased(), {"epsilon": 1, "seed": 2}, r"epsilon, seed was given beside ModelBased"),
        (1.0, {"epsilon": 2.0}, "epsilon was given twice: 1.0 and 2.0; give one"),
        (None, {"method": "trust-region", "samples": 3}, "samples is a setting of the method mod"),
        (None, {"step_lk": 0.1}, "no such setting 'step_lk'; did you mean 'step_kl'"),
        (None, {"steps": 800}, r"learner\.learn\(steps=800\)"),
    ],
)
def test_a_wrong_mixture_is_refused(settings, keywords, message):
    with pytest.raises(InputError, match=message):
        CrossLearner("pendulums:2", settings, **keywords)


@pytest.mark.parametrize(
    ("tasks", "steps", "method"),
    [
        ("pendulums:8", 800, "models"),
        ("pendulums:8", 8_000, "models"),
        ("pendulums:8", 8_001, "trust-region"),
        ("paper", 800, "policy-gradient"),
    ],
)
def test_python_and_configurations_decide_alike(tasks, steps, method):
    run = make_config({"tasks": tasks, "steps": steps}).learner()
    learner = internals.choose_method(CrossLearner(tasks), steps)
    assert run.settings == learner.settings
    assert learner.settings.method == method
    assert type(run._executor) is type(learner._executor)
    assert [task.name for task in run.tasks] == [task.name for task in learner.tasks]


def test_the_length_of_learning_decides():
    learner = CrossLearner("pendulums:8")
    assert learner.settings.method == "trust-region"
    learner.learn(steps=800, callback=lambda report: True)
    assert learner.settings.method == "models"
    config = make_config({"tasks": "pendulums:8", "steps": 800})
    assert config.learner().settings == learner.settings
    assert config.chosen().settings.method == "models"


def test_the_old_name_of_updates_per_round_is_read():
    learner = CrossLearner("linear-quadratic", bout=7, round_steps=10)
    assert (learner.settings.method, learner.settings.updates_per_round) == ("models", 7)
    assert make_settings({"method": "models", "bout": 7}).updates_per_round == 7
    config = make_config({"tasks": "linear-quadratic", "bout": 7, "iterations": 3})
    assert config.settings.updates_per_round == 7


def test_a_file_with_old_names_goes_on_bit_for_bit(tmp_path):
    learner = CrossLearner("linear-quadratic", TrustRegion(reuse=2, seed=1)).learn(2)
    learner.save(tmp_path / "new.st")
    arrays, about = read_tensors(tmp_path / "new.st", FILE_KIND, FILE_VERSION)
    assert "method.batches.bootstrap_mask" in arrays
    arrays["method.batches.goes_on"] = arrays.pop("method.batches.bootstrap_mask")
    about = {name: value for name, value in about.items() if name not in PLAIN}
    write_tensors(tmp_path / "old.st", FILE_KIND, FILE_VERSION, arrays, about)
    old = CrossLearner.load(tmp_path / "old.st")
    assert_same_bits(old.learn(2).family, learner.learn(2).family)


def test_a_file_with_the_old_setting_goes_on_bit_for_bit(tmp_path):
    learner = CrossLearner("linear-quadratic", ModelBased(updates_per_round=2, round_steps=10))
    learner.learn(3).save(tmp_path / "new.st")
    arrays, about = read_tensors(tmp_path / "new.st", FILE_KIND, FILE_VERSION)
    about = {name: value for name, value in about.items() if name not in PLAIN}
    about["settings"]["bout"] = about["settings"].pop("updates_per_round")
    write_tensors(tmp_path / "old.st", FILE_KIND, FILE_VERSION, arrays, about)
    old = CrossLearner.load(tmp_path / "old.st")
    assert old.settings.updates_per_round == 2
    assert_same_bits(old.learn(2).family, learner.learn(2).family)


def test_names_that_moved_warn_and_work():
    learner = CrossLearner("linear-quadratic", 0.5)
    with pytest.warns(DeprecationWarning, match=r"CrossLearner\.radii is deprecated; use .*radii_"):
        np.testing.assert_array_equal(learner.radii(), np.full(len(learner.tasks), 0.5))
    with pytest.warns(DeprecationWarning, match="use learner.method.sampling"):
        assert learner.sampling.batch_size == learner.settings.batch_size
    with pytest.warns(DeprecationWarning, match="worker_status"):
        assert learner.workers == ""


def test_evaluate_takes_one_policy_or_a_learner():
    learner = CrossLearner("linear-quadratic", 0.5, max_knots=10).learn(3)
    task = learner.tasks[0]
    assert isinstance(task, Task)
    (listed,) = evaluate([learner.central], [task], trials=3)
    assert evaluate(learner, task, trials=3) == [listed]
    assert evaluate(learner.central, task, trials=3) == [listed]
    assert listed.policy == "central"
