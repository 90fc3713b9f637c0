"""Every executor runs a plan to the same samples, and those are the ones of Algorithm 1."""

import collections
import copy
import functools
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from crosslearning.errors import InputError, NumericalError, TaskError
from crosslearning.rkhs import Family, Gaussian
from crosslearning.rollouts import (
    CompiledExecutor,
    GymnasiumExecutor,
    Samples,
    episodes_of,
    executor_for,
    gymnasium_executor,
    plan_episodes,
    plan_samples,
)
from crosslearning.rollouts.env_runner import SEGMENT
from crosslearning.rollouts.sharded_executor import ShardedExecutor
from crosslearning.rollouts.worker import WorkerState
from crosslearning.tasks import LinearQuadratic, Task, task_set
from tests.learner.examples import Drift, drift
from tests.rollouts.examples import SCALAR, rope_task, wide_system


class Here(ShardedExecutor):
    """Workers in threads of this process: all travels as it would to another one."""

    alone = threading.Lock()  # to catch warnings is for one thread at a time
    states = ()

    def start(self):
        if not self.states:
            self.states = [WorkerState(self._setup) for _ in range(self._wanted)]
            self.threads = ThreadPoolExecutor(self._wanted)

    def _alive(self):
        return len(self.states)

    def _submit(self, job):
        return self.threads.submit(self._run, job)

    def _run(self, job):
        with self.alone:
            self.states.append(self.states.pop(0))
            return self.states[0].answer(job)

    def _how_lost(self, problem):
        raise problem

    def close(self):
        if self.states:
            self.threads.shutdown()
            self.states = ()


def in_shards(workers):
    return lambda tasks: Here(tasks, workers)


_started = {}


class InProcesses:
    """Processes that are started once for each of the task sets here, and ended with the tests."""

    def __new__(cls, tasks):
        key = tuple(map(id, tasks))
        if key not in _started:
            made = executor_for(tasks, 1, on="processes")
            _started[key] = made, made.close
            made.close = lambda: None
        return _started[key][0]


@pytest.fixture(autouse=True, scope="module")
def _end_processes():
    yield
    while _started:
        _started.popitem()[1][1]()


EXECUTORS = {
    "compiled-1": lambda tasks: CompiledExecutor(tasks, workers=1),
    "compiled-2": lambda tasks: CompiledExecutor(tasks, workers=2),
    "compiled-3": lambda tasks: CompiledExecutor(tasks, workers=3),
    "gymnasium": GymnasiumExecutor,
    "shards-1": in_shards(1),
    "shards-3": in_shards(3),
    "processes": InProcesses,
}
every_executor = pytest.mark.parametrize("executor", EXECUTORS)

ENDING = {"crash": "terminate", "arrival": "terminate", "arrival_radius": 1.5}


def mixed():
    """Return other functions, state sizes, numbers of parameters and of uniforms by task."""
    return (
        wide_system(0).task("linear"),
        *task_set("mission", **ENDING),
        *task_set("paper")[:2],
        wide_system(1).task("linear too"),
        wide_system(2).task("linear as well"),
    )


def scalars():
    """Return tasks of one state size whose functions differ, with compiled dynamics alone."""
    return SCALAR.task("scalar"), rope_task(0.75), SCALAR.replace(A=[[0.5]]).task("other")


#: How each set is made; to make one compiles it, so none is made before its test.
TASK_SETS = {
    "paper": functools.partial(task_set, "paper"),
    "linear-quadratic": functools.partial(task_set, "linear-quadratic"),
    # Episodes end early, by a crash or at the goal.
    "ending": functools.partial(task_set, "paper", **ENDING),
    "mixed": mixed,
    "alone": functools.partial(task_set, "paper-circle"),
}
every_task_set = pytest.mark.parametrize("tasks", TASK_SETS, indirect=True)


@functools.cache
def tasks_called(name):
    return scalars() if name == "scalars" else TASK_SETS[name]()


@pytest.fixture
def tasks(request):
    return tasks_called(request.param)


STD = 0.4


def random_policies(tasks, seed, functions=None):
    """Return one Gaussian policy for each task, lively enough to reach goals and obstacles."""
    generator = np.random.default_rng(seed)
    q, p = tasks[0].observation_space.shape[0], tasks[0].action_space.shape[0]
    knots = generator.uniform(-2.0, 6.0, (30, q))
    weights = generator.normal(0.3, 1.0, (30, functions or len(tasks), p))
    return Family(Gaussian(std=np.full(q, 2.5)), knots, weights)


def noise_std(tasks):
    return np.linspace(STD, 0.5 * STD, tasks[0].action_space.shape[0])


def sample_plan(tasks, seed, batch, discount):
    return plan_samples(np.random.default_rng(seed), tasks, batch, discount, noise_std(tasks))


def run(executor, tasks, policies, plan, mirrored=True):
    made = EXECUTORS[executor](tasks)
    try:
        return made.samples(policies.expansion, plan, mirrored)
    finally:
        made.close()


def run_episodes(executor, tasks, policies, plan):
    made = EXECUTORS[executor](tasks)
    try:
        return made.episodes(policies.expansion, plan)
    finally:
        made.close()


class Walk:
    """An environment that is walked by actions until its episode ends; it counts the steps."""

    def __init__(self, task, uniforms):
        self.environment = task.make()
        self.observation, _ = self.environment.reset(
            options=task.reset_options(uniforms[: task.reset_size])
        )
        self.ended, self.steps = False, 0

    def step(self, action):
        if self.ended:
            return 0.0
        self.observation, reward, self.ended, _, _ = self.environment.step(action)
        self.steps += 1
        return reward


def literal_samples(tasks, policies, plan, repeats):
    """Return the samples by Algorithm 1, lines 1 to 5, as they read; both actions at s_t.

    An executor that comes back to s_t by repeating its path has taken those steps twice.
    """
    N, B = plan.before.shape
    q, p = policies.kernel.dimension, policies.outputs
    samples = Samples(
        np.empty((N, B, q)),
        np.empty((N, B, p)),
        np.empty((N, B, 2)),
        np.empty((N, B)),
        np.empty((N, B), dtype=np.int64),
    )
    for i, b in np.ndindex(N, B):

        def h(s, i=i):
            return policies(s)[i]

        # 1. Draw t, T ~ Geom(γ).
        t, T = plan.before[i, b], plan.after[i, b]
        n = plan.noise[i, b]
        # 2. Run the system up to time t.
        walk = Walk(tasks[i], plan.uniforms[i, b])
        rewards = [walk.step(h(walk.observation) + n[k]) for k in range(t)]
        # 3. Its state is s_t.
        s_t = walk.observation
        steps = 2 * walk.steps if repeats else walk.steps
        for branch, sign in enumerate((1.0, -1.0)):
            after = copy.deepcopy(walk)
            # 4. a_t = h(s_t) + n_t.
            a_t = h(s_t) + sign * n[t]
            # 5. Q̂ is the sum of the rewards from a_t on, T steps after it included.
            collected = [after.step(a_t)]
            collected += [after.step(h(after.observation) + n[t + k]) for k in range(1, T + 1)]
            samples.values[i, b, branch] = sum(collected)
            steps += after.steps - walk.steps
            if branch == 0:
                samples.returns[i, b] = sum(rewards) + collected[0]
        samples.observations[i, b] = s_t
        samples.deviations[i, b] = n[t]
        samples.steps[i, b] = steps
    return samples


def assert_same(samples, expected):
    for field in ("steps", "deviations", "observations", "values", "returns"):
        one, other = getattr(samples, field), getattr(expected, field)
        np.testing.assert_array_equal(one, other, err_msg=field)


@every_task_set
@every_executor
def test_samples_are_those_of_algorithm_1(executor, tasks):
    policies = random_policies(tasks, 0)
    plan = sample_plan(tasks, 1, 5, 0.85)
    expected = literal_samples(tasks, policies, plan, repeats=executor == "gymnasium")
    assert_same(run(executor, tasks, policies, plan), expected)


@every_task_set
@every_executor
def test_every_executor_gives_the_same_bits(executor, tasks):
    policies = random_policies(tasks, 2)
    plan = sample_plan(tasks, 3, 5, 0.85)
    expected = run("compiled-1", tasks, policies, plan)
    samples = run(executor, tasks, policies, plan)
    for field in ("observations", "deviations", "values", "returns"):
        np.testing.assert_array_equal(getattr(samples, field), getattr(expected, field))


@every_task_set
@pytest.mark.parametrize("executor", ["compiled-2", "compiled-3"])
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_the_number_of_threads_changes_no_bit(executor, batch, tasks):
    policies = random_policies(tasks, 4)
    plan = sample_plan(tasks, 5, batch, 0.9)
    expected = run("compiled-1", tasks, policies, plan)
    for one, other in zip(run(executor, tasks, policies, plan), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@every_task_set
@every_executor
def test_without_mirrored_actions_only_the_first_value_is_computed(executor, tasks):
    policies = random_policies(tasks, 0)
    plan = sample_plan(tasks, 1, 5, 0.85)
    once = run(executor, tasks, policies, plan, mirrored=False)
    twice = run(executor, tasks, policies, plan, mirrored=True)
    for field in ("observations", "deviations", "returns"):
        np.testing.assert_array_equal(getattr(once, field), getattr(twice, field))
    np.testing.assert_array_equal(once.values[:, :, 0], twice.values[:, :, 0])
    assert not once.values[:, :, 1].any()
    assert np.all(once.steps <= np.minimum(twice.steps, plan.before + 1 + plan.after))


@pytest.mark.parametrize("tasks", [*TASK_SETS, "scalars"], indirect=True)
def test_neighbours_change_no_bit(tasks):
    policies = random_policies(tasks, 11)
    plan = sample_plan(tasks, 12, 4, 0.9)
    together = run("compiled-1", tasks, policies, plan)
    for i, task in enumerate(tasks):
        mine = type(plan)(*(array[i : i + 1] for array in plan))
        alone = run("compiled-1", [task], policies.select(i), mine)
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], all_of_them[i])


@every_executor
def test_episodes_that_end_pay_nothing_more(executor):
    tasks = tasks_called("ending")
    plan = sample_plan(tasks, 1, 40, 0.9)
    samples = run(executor, tasks, random_policies(tasks, 0), plan, False)
    over = samples.values[:, :, 0] == 0.0
    early = samples.steps < plan.before + 1 + plan.after
    assert 5 < over.sum() < 100  # before t
    assert over.sum() + 5 < early.sum()  # or after
    assert np.all(samples.steps[over] <= plan.before[over])


@every_executor
def test_an_executor_can_be_used_again(executor):
    # A second policy on more knots, a second plan: nothing of the first is left.
    tasks = tasks_called("mixed")
    made = EXECUTORS[executor](tasks)
    generator = np.random.default_rng(6)
    for seed in range(3):
        policies = random_policies(tasks, seed, functions=len(tasks) + seed)
        plan = plan_samples(generator, tasks, 2, 0.8, noise_std(tasks))
        samples = made.samples(policies.expansion, plan, mirrored=bool(seed % 2))
        fresh = run(executor, tasks, policies, plan, mirrored=bool(seed % 2))
        for one, other in zip(samples, fresh, strict=True):
            np.testing.assert_array_equal(one, other)
    made.close()


EXPLODING = LinearQuadratic([[1e30]], [[1.0]], [[1.0]], [[1.0]], [1.0], [2.0])
CALM = EXPLODING.replace(A=[[0.5]])


@every_executor
def test_numbers_that_are_not_finite_name_the_task(executor):
    tasks = [CALM.task("calm"), EXPLODING.task("exploding"), CALM.task("calm too")]
    policies = Family(Gaussian(std=[1.0]), [[0.0]] * 2, np.zeros((2, 3, 1)))
    plan = sample_plan(tasks, 0, 4, 0.95)
    # The arithmetic of the Gymnasium environment may warn on its way to infinity.
    with np.errstate(all="ignore"), pytest.raises(NumericalError, match="task 'exploding'"):
        run(executor, tasks, policies, plan)


def test_an_environment_of_its_own_start_gets_the_seeds_of_the_plan():
    tasks = [Task("one", wide_system(0).environment), Task("other", wide_system(1).environment)]
    plan = sample_plan(tasks, 13, 4, 0.8)
    plan = plan._replace(before=np.zeros_like(plan.before))
    policies = random_policies(tasks, 14)
    samples = run("gymnasium", tasks, policies, plan)
    for i, b in np.ndindex(2, 4):
        start, _ = tasks[i].make().reset(seed=int(plan.seeds[i, b]))
        np.testing.assert_array_equal(samples.observations[i, b], start)
    episodes = plan_episodes(np.random.default_rng(15), tasks, 4, 3)
    walked = run_episodes("gymnasium", tasks, policies, episodes)
    for i, n in np.ndindex(2, 4):
        start, _ = tasks[i].make().reset(seed=int(episodes.seeds[i, n]))
        np.testing.assert_array_equal(walked.observations[i, n, 0], start)


def test_the_fastest_executor_is_chosen():
    compiled, wide = task_set("linear-quadratic"), wide_system(0)
    plain = Task("plain", wide.environment)
    assert isinstance(executor_for(compiled), CompiledExecutor)
    assert isinstance(executor_for([wide.task("fast"), plain]), GymnasiumExecutor)
    with pytest.raises(InputError, match="task 'plain' has no compiled dynamics"):
        CompiledExecutor([plain])


def test_workers_are_never_ignored_in_silence():
    plain = Task("plain", wide_system(0).environment)
    with pytest.warns(UserWarning, match="workers = 2 has no effect: plain.*on = 'processes'"):
        executor_for([plain], 2)
    for workers in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="workers must be a whole number"):
            executor_for(task_set("paper"), workers)


# Whole episodes. ----------------------------------------------------------------------------


@every_task_set
@every_executor
@pytest.mark.parametrize("noisy", [True, False])
def test_episodes_are_those_of_the_environment(executor, tasks, noisy):
    policies = random_policies(tasks, 7)
    std = noise_std(tasks) if noisy else None
    plan = plan_episodes(np.random.default_rng(8), tasks, 5, 30, std)
    actual = run_episodes(executor, tasks, policies, plan)
    for i, n in np.ndindex(len(tasks), 5):
        walk, mine = Walk(tasks[i], plan.uniforms[i, n]), actual.of_task(i)
        for k in range(30):
            np.testing.assert_array_equal(mine.observations[n, k], walk.observation)
            action = policies(walk.observation)[i] + plan.noise[i, n, k]
            action = np.zeros_like(action) if walk.ended else action
            np.testing.assert_array_equal(mine.actions[n, k], action)
            assert mine.rewards[n, k] == walk.step(action)
        assert (mine.lengths[n], mine.terminated[n]) == (walk.steps, walk.ended)
    if executor == "gymnasium":
        assert actual.states is None
    else:
        assert actual.states.shape == (len(tasks), 5, 31, max(task.state_size for task in tasks))


def test_episodes_follow_the_policy_and_stop_at_their_end():
    tasks = tasks_called("ending")[:1]
    plan = plan_episodes(np.random.default_rng(10), tasks, 60, 40, noise_std(tasks))
    episodes = run_episodes("compiled-1", tasks, random_policies(tasks, 9), plan).of_task(0)
    crashed = tasks[0].outcomes(episodes.states[:, -1])["crashed"]
    arrived = tasks[0].outcomes(episodes.states[:, -1])["arrived"]
    np.testing.assert_array_equal(episodes.terminated, crashed | arrived)
    assert np.all(episodes.terminated[episodes.lengths < 40])
    assert crashed.sum() > 3
    assert arrived.sum() > 3
    assert np.any(~episodes.terminated)
    for n, length in enumerate(episodes.lengths):
        assert not episodes.rewards[n, length:].any()
        assert not episodes.actions[n, length:].any()
        last = episodes.observations[n, length]
        assert np.all(episodes.observations[n, length:] == last)


def test_a_time_limit_cuts_an_episode_off_and_does_not_end_a_sample():
    (task,) = [drift("limited", time_limit=3)]
    policies = random_policies([task], 1)
    plan = plan_episodes(np.random.default_rng(0), [task], 4, 10)
    episodes = run_episodes("gymnasium", [task], policies, plan)
    assert np.all(episodes.lengths == 3)
    assert not episodes.terminated.any()
    samples = sample_plan([task], 1, 20, 0.9)
    actual = run("gymnasium", [task], policies, samples, mirrored=False)
    np.testing.assert_array_equal(actual.steps, samples.before + 1 + samples.after)
    assert actual.steps.max() > 3


class Ending(Drift):
    """A point whose episodes end at a distance, after more steps than one segment has."""

    #: How what a step gives is handed out.
    hand_out = staticmethod(lambda actual, buffer: actual)

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.buffer = observation.copy()
        return self.hand_out((observation, 0.0, False, False, info), self.buffer)[0], info

    def step(self, action):
        observation, reward, _, truncated, info = super().step(0.05 * action)
        over = bool(self.place @ self.place > 4.0)
        return self.hand_out((observation, reward, over, truncated, info), self.buffer)


def _in_place(actual, buffer):
    buffer[:] = actual[0]
    return buffer, *actual[1:]


HANDED_OUT = {
    "the same array, changed in place": _in_place,
    "lists": lambda f, _: (f[0].tolist(), *f[1:]),
    "doubles": lambda f, _: (f[0].astype(np.float64), np.float64(f[1]), *f[2:]),
    "truth values of NumPy": lambda f, _: (*f[:2], np.bool_(f[2]), np.bool_(f[3]), f[4]),
    "long doubles": lambda f, _: (f[0].astype(np.longdouble), np.longdouble(f[1]), *f[2:]),
    "a named tuple": lambda f, _: collections.namedtuple("Step", "o r e t i")(*f),
}


@pytest.mark.parametrize("kind", HANDED_OUT)
def test_what_a_step_may_be_given_as_changes_no_bit(kind):
    class Handing(Ending):
        hand_out = staticmethod(HANDED_OUT[kind])

    actual = {}
    for name, maker in (("usual", Ending), ("other", Handing)):
        # Beside another task, so that one batch holds both kinds.
        tasks = [Task("plain", lambda render_mode=None: Ending()), Task(name, maker_of(maker))]
        policies = random_policies(tasks, 2)
        plan = plan_episodes(np.random.default_rng(4), tasks, 5, 150, np.full(2, 0.5))
        samples = run("gymnasium", tasks, policies, sample_plan(tasks, 5, 5, 0.97))
        episodes = run_episodes("gymnasium", tasks, policies, plan)
        # Whoever acts is shown what the environment gave.
        seen = []

        def act(observation, seen=seen):
            seen.append(type(observation))
            action = 0.3 - 0.1 * np.array(observation, dtype=np.float64)
            return np.clip(action, -1.0, 1.0).astype(np.float32)

        alone = plan_episodes(np.random.default_rng(6), tasks[1:], 2, 80)
        acted = episodes_of(tasks[1], alone, act)
        actual[name] = [*samples, *episodes[:5], *acted[:5]]
    for one, other in zip(actual["usual"], actual["other"], strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(seen) == {list if kind == "lists" else np.ndarray}
    assert 0 < np.sum(episodes.terminated) < 10
    assert episodes.lengths.max() > 2 * SEGMENT


def maker_of(kind):
    return lambda render_mode=None: kind()


# Environments that are no good. -------------------------------------------------------------


class Faulty(Drift):
    """A point that drifts until step four, where it does something wrong."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def step(self, action):
        actual = super().step(action)
        return self.act(self, actual) if self.steps == 4 else actual


def _raise(*_):
    raise ValueError("the motor is on fire")


FAULTS = {
    "raises": (_raise, TaskError, r"at step 4 .* raised ValueError: .*on fire"),
    "shrinks": (lambda _, f: (f[0][:1], *f[1:]), TaskError, r"shape is \(1,\) at step 4"),
    "column": (lambda _, f: (f[0][:, None], *f[1:]), TaskError, r"shape is \(2, 1\)"),
    "words": (lambda _, f: ("here", *f[1:]), TaskError, "the observation is 'here'"),
    "nothing": (lambda _, f: (f[0], None, *f[2:]), TaskError, "the reward is None at step 4"),
    "array": (lambda _, f: (f[0], np.ones(2), *f[2:]), TaskError, "the reward is array"),
    "text": (lambda _, f: (*f[:2], "False", *f[3:]), TaskError, "terminated is 'False'"),
    "short": (lambda _, f: f[:4], TaskError, "five things"),
    "nan": (lambda _, f: (f[0], np.nan, *f[2:]), NumericalError, "a reward .* at step 4"),
    "infinite": (lambda _, f: (f[0] * np.inf, *f[1:]), NumericalError, "an observation .* step 4"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_an_environment_does_wrong_is_named(fault):
    act, kind, message = FAULTS[fault]
    tasks = [drift("fine"), Task("bad", lambda render_mode=None: Faulty(act))]
    plan = sample_plan(tasks, 1, 6, 0.95)
    policies = random_policies(tasks, 1)
    with np.errstate(invalid="ignore"), pytest.raises(kind, match=message) as caught:
        run("gymnasium", tasks, policies, plan)
    assert "task 'bad'" in str(caught.value)
    seed = int(re.search(r"with seed (\d+)", str(caught.value))[1])
    assert seed in plan.seeds[1]


class Forgetful(Drift):
    """A point whose wind does not come from the seed."""

    wind = 0.0

    def step(self, action):
        Forgetful.wind += 0.1
        self.place = self.place + 0.01 * Forgetful.wind
        return super().step(action)


def test_an_environment_that_cannot_be_put_back_is_told():
    tasks = [drift("fine"), Task("windy", lambda render_mode=None: Forgetful())]
    plan, policies = sample_plan(tasks, 1, 4, 0.9), random_policies(tasks, 1)
    with pytest.raises(TaskError, match=r"'windy' is not a function of its seed .*'baseline'"):
        run("gymnasium", tasks, policies, plan)
    run("gymnasium", tasks, policies, plan, mirrored=False)


def test_more_rollouts_than_environments(monkeypatch):
    tasks = [drift("one"), drift("other")]
    plan, policies = sample_plan(tasks, 3, 9, 0.8), random_policies(tasks, 1)
    expected = run("gymnasium", tasks, policies, plan)
    monkeypatch.setattr(gymnasium_executor, "MOST_ENVIRONMENTS", 4)
    for one, other in zip(run("gymnasium", tasks, policies, plan), expected, strict=True):
        np.testing.assert_array_equal(one, other)
