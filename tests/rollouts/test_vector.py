"""Vector environments run a plan to the episodes of single ones, in every autoreset mode."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit

from crosslearning import CrossLearner
from crosslearning.errors import InputError, NumericalError, TaskError
from crosslearning.learner.evaluation import run_episodes
from crosslearning.rkhs import Family, Gaussian
from crosslearning.rollouts import GymnasiumExecutor, plan_episodes, plan_samples
from crosslearning.tasks import Task, check_task
from tests.learner.examples import Drift

MODES = list(AutoresetMode)
every_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


class Walker(Drift):
    """A point that ends an episode when it leaves a circle, and says how it stands."""

    def step(self, action):
        observation, reward, _, truncated, _ = super().step(action)
        out = bool(self.place @ self.place > 1.5)
        return observation, reward, out, truncated, {"out": out, "low": bool(self.place[1] < 0.0)}


SINGLES = {
    "pendulum": lambda: TimeLimit(gymnasium.make("Pendulum-v1"), 7),
    "car": lambda: gymnasium.make("MountainCarContinuous-v0", max_episode_steps=25),
    "walker": lambda: Walker(time_limit=9),
}


def maker(single, mode, count=3, kind=SyncVectorEnv, **options):
    return lambda render_mode=None: kind([single] * count, autoreset_mode=mode, **options)


def policies_of(tasks):
    generator = np.random.default_rng(3)
    q, p = tasks[0].observation_size, tasks[0].action_size
    knots = generator.uniform(-1.0, 1.0, (20, q))
    return Family(Gaussian(std=np.ones(q)), knots, generator.normal(0.0, 0.2, (20, len(tasks), p)))


def played(task, episodes=8, horizon=30, std=0.3):
    tasks = [task, task]
    plan = plan_episodes(
        np.random.default_rng(1), tasks, episodes, horizon, np.full(task.action_size, std)
    )
    executor = GymnasiumExecutor(tasks)
    try:
        return executor.episodes(policies_of(tasks).expansion, plan)
    finally:
        executor.close()


def assert_same_episodes(actual, expected):
    for name in ("rewards", "lengths", "terminated", "observations", "actions"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)
    assert len(actual.outcomes) == len(expected.outcomes)
    np.testing.assert_equal(actual.outcomes, expected.outcomes)


@every_mode
@pytest.mark.parametrize("single", SINGLES)
def test_episodes_are_those_of_single_environments(single, mode):
    alone = Task("alone", lambda render_mode=None: SINGLES[single]())
    expected = played(alone)
    assert_same_episodes(played(Task("many", maker(SINGLES[single], mode))), expected)
    # The cases that matter are among them.
    if single == "walker":
        assert 2 < expected.terminated.sum() < 14
        assert np.ptp(expected.lengths) > 3
        assert expected.lengths.max() == 9
        assert set(expected.outcomes[0]) == {"out", "low"}
    else:
        assert not expected.terminated.any()


@every_mode
@pytest.mark.parametrize("shared", [True, False])
def test_processes_give_the_same(mode, shared):
    expected = played(Task("alone", lambda render_mode=None: SINGLES["walker"]()))
    many = maker(SINGLES["walker"], mode, kind=AsyncVectorEnv, shared_memory=shared)
    assert_same_episodes(played(Task("many", many)), expected)


@every_mode
def test_samples_are_those_of_single_environments(mode):
    walker = Walker  # without a time limit
    actual = []
    for make in (lambda render_mode=None: walker(), maker(walker, mode)):
        tasks = [Task("one", make), Task("other", make)]
        std = np.full(2, 0.4)
        plan = plan_samples(np.random.default_rng(2), tasks, 5, 0.8, std)
        executor = GymnasiumExecutor(tasks)
        actual.append(executor.samples(policies_of(tasks).expansion, plan, mirrored=True))
        executor.close()
    for one, other in zip(*actual, strict=True):
        np.testing.assert_array_equal(one, other)


@every_mode
def test_a_sample_that_meets_a_time_limit_is_refused_in_words(mode):
    tasks = [Task("limited", maker(SINGLES["pendulum"], mode))]
    plan = plan_samples(np.random.default_rng(2), tasks, 5, 0.9, np.ones(1))
    with pytest.raises(TaskError, match=r"'limited' reached a time limit at step 7 .*whole epis"):
        GymnasiumExecutor(tasks).samples(policies_of(tasks).expansion, plan, mirrored=True)


@every_mode
def test_whoever_acts_meets_the_same_starts_and_ends(mode):
    alone = Task("task", lambda render_mode=None: SINGLES["walker"]())
    many = Task("task", maker(SINGLES["walker"], mode))

    class Wanderer:
        """Acts by how many steps it has made, which a second episode at once would confuse."""

        def reset(self):
            self.steps = 0

        def predict(self, observation):
            self.steps += 1
            return np.array([np.sin(self.steps), 0.5])

    expected, actual = (run_episodes(Wanderer(), task, 7) for task in (alone, many))
    assert_same_episodes(actual, expected)


def test_a_vector_environment_itself_is_a_task_and_stays_open():
    envs = maker(Walker, AutoresetMode.SAME_STEP)()
    makers = {"one": envs, "other": maker(Walker, AutoresetMode.DISABLED)}
    with pytest.warns(UserWarning, match="no time limit is known"):
        learner = CrossLearner(makers)
    alone = CrossLearner(
        [Task(name, lambda render_mode=None: Walker(), horizon=50) for name in makers]
    )
    for one in (learner, alone):
        one.learn(3)
        one.close()
    np.testing.assert_array_equal(learner.family.weights, alone.family.weights)
    assert not envs.closed
    envs.close()


def test_what_it_says_of_itself_is_read():
    registered = gymnasium.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync")
    task = Task("pendulums", registered)
    assert task.observation_space == registered.single_observation_space
    assert task.horizon == 200
    by_hand = maker(lambda: gymnasium.make("Pendulum-v1"), AutoresetMode.DISABLED)
    assert Task("by hand", by_hand).horizon == 200
    for one in (task, Task("by hand", by_hand)):
        check_task(one, steps=30)
    wrapped = gymnasium.wrappers.vector.ClipReward(registered, -1.0, 1.0)
    assert Task("wrapped", wrapped).horizon == 200
    assert played(Task("wrapped", wrapped)).rewards.min() == -1.0
    registered.close()


class OneSeed(VectorEnv):
    """Several points whose starts come from one generator, as the base class has it."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs=3, fault=None):
        self.num_envs, self.fault = num_envs, fault
        self.single_observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.places = self.np_random.uniform(-1.0, 1.0, (self.num_envs, 2))
        self.steps = 0
        return self.places.astype(np.float32), {}

    def step(self, actions):
        self.steps += 1
        self.places = np.clip(self.places + 0.1 * actions, -10.0, 10.0)
        n = self.num_envs
        rewards, no = -np.sum(self.places**2, axis=1), np.zeros(n, dtype=bool)
        infos = {"inside": np.ones(n, dtype=bool)}
        actual = self.places.astype(np.float32), rewards, no, no, infos
        return self.fault(actual) if self.fault and self.steps == 4 else actual


def test_one_seed_for_all_begins_a_wave():
    task = Task("one seed", lambda render_mode=None: OneSeed(), horizon=50)
    check_task(task, steps=10)
    first, second = played(task), played(task)
    assert_same_episodes(first, second)
    assert len(np.unique(first.observations[:, :, 0, 0])) > 10
    assert first.outcomes[0]["inside"].all()
    # Other policies begin where a batch of policies does.
    (policy,) = [CrossLearner([task]).policy(0)]
    acting = policy, lambda observation: policy.predict(observation)[0]
    starts = [run_episodes(one, task, 5).observations[:, 0] for one in acting]
    np.testing.assert_array_equal(*starts)


def _raise(_):
    raise ValueError("the motors are on fire")


def _replaced(place, value):
    return lambda actual: (*actual[:place], value, *actual[place + 1 :])


FAULTS = {
    "raises": (
        _raise,
        TaskError,
        r"at step 4 .*seeds .*raised ValueError: .*on fire \(.*test_vector.py, line",
    ),
    "short": (lambda actual: actual[:4], TaskError, "expected observations, rewards"),
    "one observation": (_replaced(0, np.zeros(2)), TaskError, r"observations of 3 .*shape \(2,\)"),
    "wide": (_replaced(0, np.zeros((3, 4))), TaskError, r"shape is \(4,\) at step 4"),
    "one reward": (_replaced(1, 0.0), TaskError, r"rewards of 3 .*shape \(\)"),
    "nan": (_replaced(1, np.full(3, np.nan)), NumericalError, "a reward .* at step 4"),
    "infinite": (_replaced(0, np.full((3, 2), np.inf)), NumericalError, "an observation"),
    "ends": (_replaced(2, np.zeros(3)), TaskError, "terminated is .*expected True or False"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_it_does_wrong_is_named(fault):
    act, kind, message = FAULTS[fault]
    task = Task("bad", lambda render_mode=None: OneSeed(fault=act))
    with pytest.raises(kind, match=message) as caught:
        played(task)
    assert "task 'bad'" in str(caught.value)
    if kind is TaskError and fault != "raises":
        with pytest.raises(InputError, match="task 'bad'"):
            check_task(task, steps=10)


def test_a_process_that_raises_is_named():
    task = Task("burning", maker(_Burning, AutoresetMode.NEXT_STEP, kind=AsyncVectorEnv))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium repeats the traceback as one
        with pytest.raises(TaskError, match=r"'burning' at step 2 .* raised ValueError: .*on fire"):
            played(task)


class _Burning(Drift):
    def step(self, action):
        return _raise(action) if self.steps else super().step(action)


def test_what_is_no_vector_of_copies_is_refused():
    def wide():
        return gymnasium.wrappers.TransformObservation(
            Drift(), lambda seen: seen, gymnasium.spaces.Box(-20.0, 20.0, (2,), np.float32)
        )

    def made(*singles, **options):
        return lambda render_mode=None: SyncVectorEnv(list(singles), **options)

    class Silent(OneSeed):
        metadata = {}  # noqa: RUF012

    class Empty(OneSeed):
        def __init__(self):
            super().__init__()
            self.num_envs = 0

    class Liar(OneSeed):
        metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    for make, message in (
        (made(), "'bad' cannot be made: IndexError"),
        (made(Drift, wide), "'bad' cannot be made: RuntimeError.*observation spaces"),
        (made(Drift, wide, observation_mode="different"), r"(?s)'bad'.* copies of one task"),
        (lambda render_mode=None: Silent(), "'bad'.*autoreset_mode"),
        (lambda render_mode=None: Empty(), "'bad'.*num_envs = 0"),
    ):
        with pytest.raises(InputError, match=message):
            Task("bad", make)
    over = _replaced(2, np.ones(3, dtype=bool))
    with pytest.raises(TaskError, match="SAME_STEP, but the infos hold no 'final_obs'"):
        played(Task("liar", lambda render_mode=None: Liar(fault=over)))
    with pytest.raises(InputError, match="leave out dynamics and reset_options"):
        Task("bad", maker(Walker, AutoresetMode.DISABLED), reset_options=lambda uniforms: {})


def test_check_task_finds_sub_environments_that_differ():
    class Heavy(Drift):
        def step(self, action):
            return super().step(0.5 * action)

    def make(render_mode=None):
        return SyncVectorEnv([Drift, Drift, Heavy], autoreset_mode=AutoresetMode.NEXT_STEP)

    with pytest.raises(InputError, match="sub-environments 0 and 2, which differ after 1 steps"):
        check_task(Task("mixed", make), steps=10)
    check_task(Task("copies", maker(Walker, AutoresetMode.SAME_STEP)), steps=10)
