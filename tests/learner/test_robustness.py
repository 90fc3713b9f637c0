"""Bad tasks and crafted files: refused by name, before compiled code meets them."""

import signal

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner, Task
from crosslearning._base.files import read_tensors, write_tensors
from crosslearning.errors import FileFormatError, InputError, NumericalError, TaskError
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION, METHODS
from crosslearning.rkhs import Family, Gaussian
from tests.learner.examples import Drift, drift
from tests.learner.test_learner_files import saved  # noqa: F401  (a fixture)

KERNEL = Gaussian(std=[1.0, 1.0])


def test_a_reward_that_is_not_finite_before_the_sample_is_noticed():
    tasks = [drift("sound"), drift("broken", fault="reward", first=1, last=1)]
    learner = CrossLearner(tasks, kernel=KERNEL, step_size=0.1, batch_size=1, seed=2)
    reports = []
    with pytest.raises(NumericalError, match="task 'broken' returned a reward"):
        learner.learn(30, reports.append)
    assert all(np.isfinite(report.returns).all() for report in reports)


class Strict(Drift):
    """An environment that fails on an action outside its space, as many do."""

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError("bad action")
        return super().step(action)


def test_an_observation_that_is_not_finite_never_becomes_an_action():
    def make(render_mode=None):
        return Strict(fault="observation", first=15)

    broken = Task("broken", make, horizon=50)
    learner = CrossLearner([drift("sound"), broken], kernel=KERNEL, discount=0.7, batch_size=1)
    with pytest.raises(NumericalError, match="task 'broken' returned an observation"):
        learner.learn(200)


def test_exploration_noise_is_new_at_every_call():
    learner = CrossLearner("paper").learn(2)
    one, other = (learner.predict([2, 0, 5, 0, 0.5], deterministic=False)[0] for _ in range(2))
    assert not np.array_equal(one, other)


def test_a_described_kernel_survives_the_file(tmp_path):
    learner = CrossLearner("linear-quadratic", kernel={"kernel": "gaussian", "std": [1.0, 2.0]})
    assert learner.kernel == Gaussian(std=[1.0, 2.0])
    learner.save(tmp_path / "learner")
    assert CrossLearner.load(tmp_path / "learner").settings == learner.settings


def test_compiled_code_meets_one_kind_of_array():
    family = Family(Gaussian(std=[1.0]), [[0.0], [1.0]], np.zeros((2, 1, 1)))
    assert family.expansion.rows.flags.writeable


CRAFTS = {
    "size": lambda arrays, d: d["dictionary"].update(_size=10**6),
    "guarded": lambda arrays, d: d["dictionary"].update(guarded=2),
    "iteration": lambda arrays, d: d.update(iteration=-5),
    "outputs": lambda arrays, d: arrays.update(rows=np.repeat(arrays["rows"], 2, axis=1)),
    "generator": lambda arrays, d: d["generator"]["state"].update(state="many"),
    "steps": lambda arrays, d: d.update(steps=1.5),
    "nan": lambda arrays, d: arrays.update(rows=arrays["rows"] * np.nan),
    "mean square": lambda arrays, d: arrays.update({"method.mean_square": np.zeros(7)}),
    "features": lambda arrays, d: arrays.update(features=arrays["features"][:, :1]),
    "knots": lambda arrays, d: arrays.update(knots=arrays["knots"][:1]),
    "gram": lambda arrays, d: arrays.update(gram=arrays["gram"][:1]),
    "rows": lambda arrays, d: arrays.update(rows=arrays["rows"][:1]),
}


@pytest.mark.parametrize("craft", CRAFTS.values(), ids=CRAFTS.keys())
def test_a_crafted_file_with_a_right_checksum_is_refused(saved, craft):  # noqa: F811
    arrays, description = read_tensors(saved, FILE_KIND, FILE_VERSION)
    craft(arrays, description)
    content = {k: v for k, v in description.items() if k not in ("kind", "version")}
    write_tensors(saved, FILE_KIND, FILE_VERSION, arrays, content)
    with pytest.raises((FileFormatError, InputError)):
        CrossLearner.load(saved)


def test_ctrl_c_ends_learning_between_iterations():
    learner = CrossLearner("paper", epsilon=0.5, max_knots=30, seed=1)
    pruned = learner._core.iterate.dictionary.prune

    def interrupted(*given):
        # In the middle of an iteration, where a half-done one would break the constraint.
        if learner.iteration == 4:
            signal.raise_signal(signal.SIGINT)
        return pruned(*given)

    learner._core.iterate.dictionary.prune = interrupted
    with pytest.raises(KeyboardInterrupt):
        learner.learn(50)
    assert learner.iteration == 5
    assert np.max(learner.family.distances()) <= 0.5 * (1 + 1e-9)
    expected = CrossLearner("paper", epsilon=0.5, max_knots=30, seed=1).learn(8)
    np.testing.assert_array_equal(learner.learn(3).family.weights, expected.family.weights)


def test_an_iteration_that_failed_is_tried_again_to_the_same_bits():
    class Shy(Drift):
        fails = False

        def step(self, action):
            if Shy.fails:
                raise ValueError("not now")
            return super().step(action)

    tasks = [drift("bold"), Task("shy", lambda render_mode=None: Shy(), horizon=50)]
    given = {"kernel": KERNEL, "discount": 0.7, "batch_size": 1, "method": "policy-gradient"}
    learner = CrossLearner(tasks, **given).learn(2)
    Shy.fails = True
    with pytest.raises(TaskError, match="not now"):
        learner.learn(1)
    Shy.fails = False
    learner.learn(2)
    expected = CrossLearner(tasks, **given).learn(4)
    np.testing.assert_array_equal(learner.family.weights, expected.family.weights)


@pytest.mark.parametrize("method", METHODS)
def test_rewards_that_overflow_are_told(method):
    class Rich(Drift):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, 1e160 * reward, *rest

    tasks = [drift("poor"), Task("rich", lambda render_mode=None: Rich(), horizon=50)]
    learner = CrossLearner(tasks, kernel=KERNEL, method=method)
    with pytest.raises(NumericalError, match=r"gradient of task 'rich' .* scale its rewards"):
        learner.learn(1)


@pytest.mark.parametrize(
    "space", [gymnasium.spaces.Box(0, 3, (2,), np.int64), gymnasium.spaces.Box(1.0, 1.0, (2,))]
)
def test_actions_that_cannot_be_learned_are_refused(space):
    class Odd(Drift):
        def __init__(self):
            super().__init__()
            self.action_space = space

    with pytest.raises(InputError, match="give a Box of floats"):
        CrossLearner([Task("odd", lambda render_mode=None: Odd())], kernel=KERNEL)


def test_one_task_is_not_a_list():
    with pytest.raises(InputError, match=r"the one task 'lone'; give a list, such as \[task\]"):
        CrossLearner(drift("lone"))
