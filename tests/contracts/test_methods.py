"""What every method of learning satisfies: it proposes, can be stopped anywhere and goes on."""

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.errors import FileFormatError, TaskError
from crosslearning.learner.settings import METHODS
from crosslearning.learner.user_input import method_settings
from tests.learner.examples import Drift, assert_same_bits, drift, recorded_reports

#: Variants of a method whose state differs in kind.
VARIANTS = {
    "policy-gradient": [{}, {"step_rule": "adam"}, {"estimator": "baseline"}],
    "models": [{"updates_per_round": 3, "round_steps": 15, "rollouts": 4, "look_ahead": 5}],
    "trust-region": [{"episode_steps": 20}, {"episode_steps": 20, "reuse": 1}],
}
CASES = [(method, given) for method in METHODS for given in VARIANTS[method]]
every_method = pytest.mark.parametrize(("method", "given"), CASES)
SMALL = {"max_knots": 12, "kernel": {"kernel": "gaussian", "std": [1.0, 1.0]}, "seed": 2}


def learner_of(method, given, **more):
    return CrossLearner([drift("one"), drift("two")], 0.5, method=method, **SMALL, **given, **more)


@every_method
def test_an_improvement_has_the_promised_shapes(method, given):
    learner = learner_of(method, given)
    improvement = learner.method.improve(learner._core.iterate)
    n = len(improvement.knots)
    assert improvement.knots.shape == (n, 2)
    own = learner.method.functions
    assert improvement.weights.shape == (n, 2 + 1 + own if own else 2, 2)
    assert (improvement.momentum is not None) == (own > 0)
    assert improvement.returns.shape == (2,)
    assert improvement.steps > 0
    assert all(numbers.shape == (2,) for numbers in improvement.numbers.values())
    # A method proposes: it moves nothing by itself.
    assert len(learner.family.knots) == 0


@every_method
def test_the_core_keeps_the_constraint_and_the_cap(method, given):
    learner = learner_of(method, given)
    for report in recorded_reports(learner, 15):
        assert np.max(report.distances) <= 0.5 * (1 + 1e-9)
        assert report.pruning.knots <= 12
    assert learner.family.norms().max() > 0.0


@every_method
def test_a_saved_state_goes_on_bit_for_bit(method, given, tmp_path):
    learner = learner_of(method, given).learn(6)
    learner.save(tmp_path / "half")
    again = CrossLearner.load(tmp_path / "half", tasks=learner.tasks)
    assert again.settings == learner.settings
    for one, other in zip(recorded_reports(learner, 6), recorded_reports(again, 6), strict=True):
        np.testing.assert_array_equal(one.returns, other.returns)
    assert_same_bits(learner.family, again.family)


@every_method
def test_a_state_that_does_not_fit_is_refused(method, given):
    learner = learner_of(method, given).learn(2)
    arrays, numbers = learner.method.state()
    for name, array in arrays.items():
        for wrong in (array[:0], array * np.nan):
            with pytest.raises(FileFormatError):
                learner.method.restore({**arrays, name: wrong}, numbers)


class OnceBroken(Drift):
    """Fails once, at the first step after it was told to."""

    fail = False

    def step(self, action):
        if OnceBroken.fail:
            OnceBroken.fail = False
            raise OSError("the cable came off")
        return super().step(action)


@every_method
def test_an_iteration_that_fails_can_be_repeated(method, given):
    def make():
        task = drift("one")
        object.__setattr__(task, "make", lambda render_mode=None: OnceBroken())
        return CrossLearner([task, drift("two")], 0.5, method=method, **SMALL, **given)

    smooth, rough = make().learn(6), make().learn(3)
    OnceBroken.fail = True
    with pytest.raises(TaskError, match="the cable came off"):
        rough.learn(1)
    assert rough.iteration == 3
    assert_same_bits(rough.learn(3).family, smooth.family)


@every_method
def test_settings_extend_the_shared_ones(method, given):
    kind = method_settings(method)
    assert kind(**{k: v for k, v in SMALL.items() if k != "kernel"}, **given).method == method
