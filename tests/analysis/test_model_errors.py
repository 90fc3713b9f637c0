"""How well models tell what they have not seen, on tasks whose answers are known."""

import json
import math

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.analysis.model_errors import KINDS, OVERALL, _HeldOut, model_errors
from crosslearning.errors import InputError
from crosslearning.rollouts import plan_episodes

TINY = {
    "round_steps": 40,
    "updates_per_round": 1,
    "rollouts": 2,
    "look_ahead": 4,
    "method": "models",
}


@pytest.fixture(scope="module")
def learner():
    return CrossLearner("pendulums:3", seed=2, **TINY).learn(2, progress=False)


@pytest.fixture(scope="module")
def found(learner):
    return model_errors(learner, episodes=3, horizon=30, steps=10)


def test_every_kind_is_measured_on_the_same_steps(found, learner):
    assert [kind.kind for kind in found.kinds] == list(KINDS)
    assert found.seen == learner.steps == 240
    assert found.held_out == 3 * 3 * 30
    assert found.steps == 10
    names = ["observation 0", "observation 1", "observation 2", "reward"]
    assert [one.output for one in found.outputs] == names
    for kind in found.kinds:
        assert list(kind.one_step) == list(kind.ahead) == [*names, OVERALL]
        assert len(kind.growth) == 10
        for interval in (*kind.one_step.values(), *kind.growth):
            assert 0.0 <= interval.low <= interval.value <= interval.high
        squares = [kind.one_step[name].value ** 2 for name in names]
        assert min(squares) <= kind.one_step[OVERALL].value ** 2 <= max(squares)


def test_an_open_loop_is_one_prediction_after_the_other(learner):
    method = learner.method
    plan = plan_episodes(np.random.default_rng(0), learner.tasks, 2, 20, method.noise.std)
    fresh = method.executor.episodes(learner.family.expansion, plan)
    held, dynamics = _HeldOut(fresh, method, 6), method.dynamics
    every = np.arange(len(held.task))
    text, rewards = held.open_loop(dynamics.functions(3), held.task, every)
    limits = method.frame.limits
    for k in every:
        state = held.observations[k, 0]
        for t in range(6):
            result = dynamics.predict(held.task[k], state[None], held.actions[k, t][None])[0]
            assert rewards[k, t] == pytest.approx(np.clip(result[3], *limits[:, 3]), abs=1e-5)
            state = np.clip(state + result[:3], *limits[:, :3])
            assert text[k, t + 1] == pytest.approx(state, abs=1e-5)


def test_a_model_that_knows_everything_does_not_err():
    # Linear systems are in the kernel's reach: a few data tell them exactly.
    learner = CrossLearner("linear-quadratic", seed=0, **TINY).learn(3, progress=False)
    result = model_errors(learner, episodes=2, horizon=20, steps=5)
    states = [name for name in result.kinds[0].one_step if name.startswith("observation")]
    assert all(result.kinds[0].one_step[name].value < 0.05 for name in states)


def test_errors_grow_with_the_steps(found):
    for kind in found.kinds:
        assert kind.growth[-1].value > kind.growth[0].value


def test_paths_begin_where_the_real_ones_do_and_lie_in_their_bands(found):
    assert len(found.paths) == 3
    for path in found.paths:
        assert path.task in found.tasks
        assert path.real.shape == path.low.shape == path.high.shape == (11, 3)
        for text in path.told.values():
            assert np.array_equal(text[0], path.real[0])
        assert np.all(path.low <= path.high + 1e-12)
        inside = (path.told["cross-learned"] >= path.low - 0.05) & (
            path.told["cross-learned"] <= path.high + 0.05
        )
        assert inside.mean() > 0.8


def test_the_curves_end_at_pooled_and_separate_models(found):
    for curve in found.curves:
        assert curve.radii[0] == 0.0
        assert math.isinf(curve.radii[-1])
        assert curve.radii[1] < curve.chosen < curve.radii[-2]
        # Radii beyond every distance change nothing.
        assert curve.errors[-1] == pytest.approx(curve.errors[-2], rel=0.3)


def test_a_radius_of_its_own_is_a_fourth_kind():
    learner = CrossLearner("pendulums:2", model_epsilon=0.5, **TINY).learn(1, progress=False)
    result = model_errors(learner, episodes=1, horizon=12, steps=25)
    assert [kind.kind for kind in result.kinds] == [*KINDS, "ε_m = 0.5"]
    assert result.steps == 12


def test_plain_data_are_json_and_the_same_for_the_same_seed(learner, found):
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["curves"][0]["radii"][-1] is None
    again = model_errors(learner, episodes=3, horizon=30, steps=10)
    assert again.to_dict() == found.to_dict()


def test_other_learners_have_no_models():
    paper = CrossLearner("paper", max_knots=10)
    with pytest.raises(InputError, match=r"policy-gradient, which learns no models; give a run"):
        model_errors(paper)
    with pytest.raises(InputError, match="has not fitted its models yet"):
        model_errors(CrossLearner("pendulums:2", **TINY))
    with pytest.raises(InputError, match="no folder"):
        model_errors("nowhere")


@pytest.mark.parametrize("name", ["episodes", "horizon", "steps"])
def test_numbers_must_be_positive(learner, name):
    with pytest.raises(InputError, match=f"{name} must be at least 1, got 0"):
        model_errors(learner, **{name: 0})
