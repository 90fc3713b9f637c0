"""Wrong input: the error names the setting or the task, and nothing is changed."""

import math

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner, Task
from crosslearning.errors import InputError, NumericalError
from crosslearning.learner.settings import METHODS
from crosslearning.rkhs import Gaussian
from crosslearning.runs import describe_fields
from crosslearning.tasks import task_set
from tests.learner.examples import Drift, assert_same_bits, drift

KERNEL = Gaussian(std=[1.0, 1.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilonn": 1.0}, "no such setting 'epsilonn'; did you mean 'epsilon'"),
        ({"step_sise": 1.0}, "did you mean 'step_size'"),
        ({"epsilon": -1.0}, "epsilon must be at least 0"),
        ({"epsilon": math.nan}, "epsilon must be at least 0"),
        ({"epsilon": "wide"}, "epsilon"),
        ({"projection": "exct"}, "projection"),
        ({"estimator": "reinforce"}, "estimator"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 1.5}, "batch_size"),
        ({"batch_size": 1, "estimator": "baseline"}, "needs batch_size ≥ 2"),
        ({"discount": 1.0}, "discount"),
        ({"discount": 0.0}, "discount"),
        ({"action_variance": 0.0}, "action_variance is .*: expected float >= 1e-70"),
        ({"action_variance": (0.1, -0.1)}, "action_variance is .*: expected float >= 1e-70"),
        ({"action_variance": (0.1, 0.2, 0.3)}, "has 3 numbers, but the tasks have 2 actions"),
        ({"step_rule": "sgd"}, "step_rule"),
        ({"step_size": 0.0}, "step_size"),
        ({"step_size": math.inf}, "step_size must be finite"),
        ({"step_decay": 0.0}, "step_decay"),
        ({"momentum": 1.0}, "momentum"),
        ({"second_moment": -0.1}, "second_moment"),
        ({"budget": -1e-3}, "budget"),
        ({"max_knots": 0}, "max_knots"),
        ({"alpha": -1.0}, "alpha is -1.0: expected float >= 0.0"),
        ({"alpha": 1.0, "epsilon": math.inf}, "alpha needs an epsilon"),
        ({"alpha": 1.0, "epsilon": 0.0}, "alpha needs an epsilon"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"kernel": "gaussian"}, "kernel must be a Kernel or its description"),
        ({"kernel": Gaussian(std=[1.0])}, "reads 1 numbers, but the tasks' observations have 5"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(InputError, match=message):
        CrossLearner("paper", **settings)


@pytest.mark.parametrize("iterations", [-1, 1.5, True])
def test_a_wrong_number_of_iterations(iterations):
    learner = CrossLearner("paper")
    with pytest.raises(InputError, match="iterations must be a whole number"):
        learner.learn(iterations)
    assert learner.learn(0).iteration == 0


@pytest.mark.parametrize(
    ("name", "written"), [("iterations", ""), ("steps", "steps="), ("total_timesteps", "steps=")]
)
def test_a_length_belongs_to_learn(name, written):
    message = rf"{name} = 500 is not taken here; .*: learner\.learn\({written}500\)"
    with pytest.raises(InputError, match=message):
        CrossLearner("paper", **{name: 500})


def test_learn_says_what_to_write_instead():
    learner = CrossLearner("paper")
    with pytest.raises(InputError, match=r"give one of the two: learn\(100\).*learn\(steps="):
        learner.learn()
    with pytest.raises(InputError, match=r"is not taken here; .*learn\(steps=1000\)"):
        learner.learn(total_timesteps=1000)
    with pytest.raises(InputError, match="no such argument of learn 'step'; did you mean 'steps'"):
        learner.learn(step=10)
    assert learner.iteration == 0


def test_a_learner_names_its_method():
    for method in METHODS:
        assert f"method={method!r}" in repr(CrossLearner("linear-quadratic", method=method))


def test_every_setting_is_documented():
    for field in describe_fields():
        assert len(field.description) > 10, field


def test_a_variance_may_be_one_number_or_one_for_each_action():
    one, each = (
        CrossLearner("paper", action_variance=0.2),
        CrossLearner("paper", action_variance=(0.2, 0.4)),
    )
    np.testing.assert_allclose(one.central.noise_std, np.sqrt([0.2, 0.2]))
    np.testing.assert_allclose(each.central.noise_std, np.sqrt([0.2, 0.4]))


def test_a_kernel_may_be_a_description():
    described = Gaussian(std=[1.0, 2.0]).to_dict()
    learner = CrossLearner("linear-quadratic", kernel=described)
    assert learner.kernel == Gaussian(std=[1.0, 2.0])
    assert learner.settings.kernel == described


class Discrete(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(3)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "no tasks were given"),
        ((), "no tasks were given"),
        ("papr", "did you mean 'paper'"),
        ([drift("one"), drift("one")], "two tasks have the name 'one'"),
        ([drift("one"), "paper"], r"tasks has 'paper' for a task; give Task\('a name', make\)"),
        (
            [drift("small"), drift("large", size=3)],
            r"observation_space of task 'large' has shape \(3,\), but that of 'small' has \(2,\)",
        ),
        (
            [drift("narrow"), drift("wide", bound=2.0)],
            "action_space of task 'wide' has other bounds than that of 'narrow'",
        ),
        (
            [drift("box"), Task("buttons", lambda render_mode=None: Discrete())],
            r"actions of task 'buttons' are a whole number from 0 to 2, but those of 'box' are Box",
        ),
        (
            [*task_set("paper")[:1], drift("plane")],
            "observation_space of task 'plane' has shape",
        ),
    ],
)
def test_tasks_that_do_not_fit_are_named(tasks, message):
    with pytest.raises(InputError, match=message):
        CrossLearner(tasks)


def test_options_of_a_task_set():
    learner = CrossLearner("paper", task_options={"crash": "terminate"})
    assert [task.make().navigation.crash for task in learner.tasks] == ["terminate"] * 3
    assert [task.name for task in CrossLearner("paper:r=1").tasks] == ["r=1"]
    with pytest.raises(InputError, match="did you mean 'crash'"):
        CrossLearner("paper", task_options={"crahs": "terminate"})
    with pytest.raises(InputError, match="task_options are for a named task set"):
        CrossLearner(task_set("paper"), task_options={"crash": "terminate"})


@pytest.mark.parametrize("rule", ["normalised", "adam"])
@pytest.mark.parametrize("fault", ["reward", "observation"])
def test_numbers_that_are_not_finite_change_nothing(fault, rule):
    # From its 15th step on the second task returns NaN. Rollouts that end before go through.
    tasks = [drift("sound"), drift("broken", fault=fault, first=15)]
    learner = CrossLearner(tasks, kernel=KERNEL, discount=0.7, batch_size=1, step_rule=rule, seed=0)
    families, squares = [], []

    def keep(report):
        families.append(learner.family)
        squares.append(learner.method.rule.mean_square)

    with np.errstate(invalid="ignore"), pytest.raises(NumericalError, match="task 'broken'"):
        learner.learn(1000, keep)
    assert len(families) > 0
    assert learner.iteration == len(families)
    assert_same_bits(learner.family, families[-1])
    np.testing.assert_array_equal(learner.method.rule.mean_square, squares[-1])
    assert np.all(np.isfinite(learner.family.weights))
    learner.close()


def test_numbers_of_numpy_are_numbers():
    learner = CrossLearner("paper", epsilon=np.linspace(0.0, 2.0, 3)[1], max_knots=np.int64(20))
    assert (learner.settings.epsilon, learner.settings.max_knots) == (1.0, 20)


def test_a_kernel_table_that_makes_no_kernel_is_the_users_to_mend():
    with pytest.raises(InputError, match=r"kernel is .*gaussian.*"):
        CrossLearner("paper", kernel={"kernel": "gaussian", "std": "wide"})


def test_tasks_may_be_makers_under_their_names():
    makers = {"a": lambda render_mode=None: Drift(), "b": lambda render_mode=None: Drift()}
    with pytest.warns(UserWarning, match="no time limit is known of the tasks 'a', 'b'"):
        learner = CrossLearner(makers, kernel=KERNEL)
    assert [task.name for task in learner.tasks] == ["a", "b"]


def test_an_unknown_length_of_episodes_is_told_with_what_to_set():
    def make(render_mode=None):
        return Drift()

    words = (
        r"'2' and 2 more: 50 steps per episode are assumed\. Set a limit: Task\(\.\.\., horizon="
    )
    with pytest.warns(UserWarning, match=words):
        CrossLearner([Task(str(i), make) for i in range(5)], kernel=KERNEL)
    # Who says it, or whose environment does, hears nothing; nor do tasks that are not here.
    limited = Task("limited", lambda render_mode=None: gymnasium.make("Pendulum-v1"))
    assert (limited.horizon, limited.unlimited) == (200, False)
    said = Task("said", make, horizon=50)
    CrossLearner([said], kernel=KERNEL)
    assert not Task("absent", make, spaces=(said.observation_space, said.action_space)).unlimited
    assert not any(task.unlimited for task in task_set("paper"))


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(InputError, match=r"is a folder; load the file .*model\.safetensors"):
        CrossLearner.load(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": {"kernel": "gaussian", "std": [1, 1, 1, 1, 1], "perodic": [1]}}, "'periodic'"),
        ({"kernel": {"kernel": "linear", "std": [1, 1, 1, 1, 1], "bais": 1.0}}, "'bias'"),
        ({"batch_size": "4"}, "batch_size is '4': expected int, got str"),
    ],
)
def test_what_is_misspelt_or_of_another_type_is_not_taken_in_silence(settings, message):
    with pytest.raises(InputError, match=message):
        CrossLearner("paper", **settings)
