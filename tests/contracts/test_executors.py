"""Every executor runs a plan to the same samples, and those are the ones of Algorithm 1."""

import copy

import numpy as np
import pytest

from crosslearning.errors import InputError, NumericalError
from crosslearning.rkhs import Family, Gaussian
from crosslearning.rollouts import (
    CompiledExecutor,
    GymnasiumExecutor,
    Samples,
    compiled_episodes,
    executor_for,
    gymnasium_episodes,
    plan_episodes,
    plan_samples,
)
from crosslearning.tasks import LinearQuadratic, Task, task_set
from tests.rollouts.examples import SCALAR, rope_task, wide_system

EXECUTORS = {
    "compiled-1": lambda tasks, std: CompiledExecutor(tasks, std, workers=1),
    "compiled-2": lambda tasks, std: CompiledExecutor(tasks, std, workers=2),
    "compiled-3": lambda tasks, std: CompiledExecutor(tasks, std, workers=3),
    "gymnasium": GymnasiumExecutor,
}
every_executor = pytest.mark.parametrize("executor", EXECUTORS)

ENDING = {"crash": "terminate", "arrival": "terminate", "arrival_radius": 1.5}
TASK_SETS = {
    "paper": task_set("paper"),
    "linear-quadratic": task_set("linear-quadratic"),
    # Episodes end early, by a crash or at the goal.
    "ending": task_set("paper", **ENDING),
    # Other functions, state sizes, numbers of parameters and of uniforms from task to task.
    "mixed": (
        wide_system(0).task("linear"),
        *task_set("mission", **ENDING),
        *task_set("paper")[:2],
        wide_system(1).task("linear too"),
        wide_system(2).task("linear as well"),
    ),
    "alone": task_set("paper-circle"),
}
every_task_set = pytest.mark.parametrize("tasks", TASK_SETS.values(), ids=TASK_SETS.keys())
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


def run(executor, tasks, policies, plan, std, antithetic=True):
    made = EXECUTORS[executor](tasks, std)
    try:
        return made.samples(policies.expansion, plan, antithetic)
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


def literal_samples(tasks, policies, plan, std, repeats):
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
        n = std * plan.noise[i, b]
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
    plan = plan_samples(np.random.default_rng(1), tasks, 5, 0.85)
    std = noise_std(tasks)
    expected = literal_samples(tasks, policies, plan, std, repeats=executor == "gymnasium")
    assert_same(run(executor, tasks, policies, plan, std), expected)


@every_task_set
@every_executor
def test_every_executor_gives_the_same_bits(executor, tasks):
    policies = random_policies(tasks, 2)
    plan = plan_samples(np.random.default_rng(3), tasks, 5, 0.85)
    std = noise_std(tasks)
    expected = run("compiled-1", tasks, policies, plan, std)
    samples = run(executor, tasks, policies, plan, std)
    for field in ("observations", "deviations", "values", "returns"):
        np.testing.assert_array_equal(getattr(samples, field), getattr(expected, field))


@every_task_set
@pytest.mark.parametrize("executor", ["compiled-2", "compiled-3"])
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_the_number_of_threads_changes_no_bit(executor, batch, tasks):
    policies = random_policies(tasks, 4)
    plan = plan_samples(np.random.default_rng(5), tasks, batch, 0.9)
    std = noise_std(tasks)
    expected = run("compiled-1", tasks, policies, plan, std)
    for one, other in zip(run(executor, tasks, policies, plan, std), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@every_task_set
@every_executor
def test_without_mirrored_actions_only_the_first_value_is_computed(executor, tasks):
    policies = random_policies(tasks, 0)
    plan = plan_samples(np.random.default_rng(1), tasks, 5, 0.85)
    std = noise_std(tasks)
    once = run(executor, tasks, policies, plan, std, antithetic=False)
    twice = run(executor, tasks, policies, plan, std, antithetic=True)
    for field in ("observations", "deviations", "returns"):
        np.testing.assert_array_equal(getattr(once, field), getattr(twice, field))
    np.testing.assert_array_equal(once.values[:, :, 0], twice.values[:, :, 0])
    assert not once.values[:, :, 1].any()
    assert np.all(once.steps <= np.minimum(twice.steps, plan.before + 1 + plan.after))


# Tasks of one state size whose functions differ, and which have compiled dynamics alone.
SCALARS = (SCALAR.task("scalar"), rope_task(0.75), SCALAR.replace(A=[[0.5]]).task("other"))


@pytest.mark.parametrize("tasks", [*TASK_SETS.values(), SCALARS], ids=[*TASK_SETS, "scalars"])
def test_neighbours_change_no_bit(tasks):
    policies = random_policies(tasks, 11)
    plan = plan_samples(np.random.default_rng(12), tasks, 4, 0.9)
    std = noise_std(tasks)
    together = run("compiled-1", tasks, policies, plan, std)
    for i, task in enumerate(tasks):
        mine = type(plan)(*(array[i : i + 1] for array in plan))
        alone = run("compiled-1", [task], policies.select(i), mine, std)
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], all_of_them[i])


@every_executor
def test_episodes_that_end_pay_nothing_more(executor):
    tasks = TASK_SETS["ending"]
    plan = plan_samples(np.random.default_rng(1), tasks, 40, 0.9)
    samples = run(executor, tasks, random_policies(tasks, 0), plan, noise_std(tasks), False)
    over = samples.values[:, :, 0] == 0.0
    early = samples.steps < plan.before + 1 + plan.after
    assert 5 < over.sum() < 100  # before t
    assert over.sum() + 5 < early.sum()  # or after
    assert np.all(samples.steps[over] <= plan.before[over])


@every_executor
def test_an_executor_can_be_used_again(executor):
    # A second policy on more knots, a second plan: nothing of the first is left.
    tasks = TASK_SETS["mixed"]
    std = noise_std(tasks)
    made = EXECUTORS[executor](tasks, std)
    generator = np.random.default_rng(6)
    for seed in range(3):
        policies = random_policies(tasks, seed, functions=len(tasks) + seed)
        plan = plan_samples(generator, tasks, 2, 0.8)
        samples = made.samples(policies.expansion, plan, antithetic=bool(seed % 2))
        fresh = run(executor, tasks, policies, plan, std, antithetic=bool(seed % 2))
        for one, other in zip(samples, fresh, strict=True):
            np.testing.assert_array_equal(one, other)
    made.close()


EXPLODING = LinearQuadratic([[1e30]], [[1.0]], [[1.0]], [[1.0]], [1.0], [2.0])
CALM = EXPLODING.replace(A=[[0.5]])


@every_executor
def test_numbers_that_are_not_finite_name_the_task(executor):
    tasks = [CALM.task("calm"), EXPLODING.task("exploding"), CALM.task("calm too")]
    policies = Family(Gaussian(std=[1.0]), [[0.0]] * 2, np.zeros((2, 3, 1)))
    plan = plan_samples(np.random.default_rng(0), tasks, 4, 0.95)
    # The Gymnasium environment's own arithmetic may warn on its way to infinity.
    with np.errstate(all="ignore"), pytest.raises(NumericalError, match="task 'exploding'"):
        run(executor, tasks, policies, plan, np.array([0.1]))


def test_an_environment_of_its_own_start_gets_the_seeds_of_the_plan():
    tasks = [Task("one", wide_system(0).environment), Task("other", wide_system(1).environment)]
    plan = plan_samples(np.random.default_rng(13), tasks, 4, 0.8)
    plan = plan._replace(before=np.zeros_like(plan.before))
    policies, std = random_policies(tasks, 14), noise_std(tasks)
    samples = run("gymnasium", tasks, policies, plan, std)
    for i, b in np.ndindex(2, 4):
        start, _ = tasks[i].make().reset(seed=int(plan.seeds[i, b]))
        np.testing.assert_array_equal(samples.observations[i, b], start)
    episodes = plan_episodes(np.random.default_rng(15), tasks[0], 4, 3, deterministic=True)
    walked = gymnasium_episodes(tasks[0], policies.expansion, std, episodes)
    for n in range(4):
        start, _ = tasks[0].make().reset(seed=int(episodes.seeds[n]))
        np.testing.assert_array_equal(walked.observations[n, 0], start)


def test_the_fastest_executor_is_chosen():
    compiled, wide = task_set("linear-quadratic"), wide_system(0)
    plain = Task("plain", wide.environment)
    assert isinstance(executor_for(compiled, np.ones(1)), CompiledExecutor)
    assert isinstance(executor_for([wide.task("fast"), plain], np.ones(2)), GymnasiumExecutor)
    with pytest.raises(InputError, match="task 'plain' has no compiled dynamics"):
        CompiledExecutor([plain], np.ones(2))
    plan = plan_episodes(np.random.default_rng(0), plain, 1, 1, deterministic=True)
    policy = random_policies([plain], 0).expansion
    with pytest.raises(InputError, match="task 'plain' has no compiled dynamics"):
        compiled_episodes(plain, policy, np.ones(2), plan)


# Whole episodes. ----------------------------------------------------------------------------


@every_task_set
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("deterministic", [True, False])
def test_compiled_episodes_are_those_of_the_environment(tasks, workers, deterministic):
    for task in tasks:
        policy = random_policies([task], 7)
        std = noise_std(tasks)
        plan = plan_episodes(np.random.default_rng(8), task, 5, 30, deterministic)
        fast = compiled_episodes(task, policy.expansion, std, plan, workers)
        plain = gymnasium_episodes(task, policy.expansion, std, plan)
        np.testing.assert_array_equal(fast.lengths, plain.lengths)
        for field in ("rewards", "observations", "actions"):
            one, other = getattr(fast, field), getattr(plain, field)
            np.testing.assert_array_equal(one, other)
        assert fast.states.shape == (5, 31, task.state_size)
        assert plain.states is None


def test_episodes_follow_the_policy_and_stop_at_their_end():
    (task, *_) = TASK_SETS["ending"]
    policy = random_policies([task], 9)
    std = noise_std([task])
    plan = plan_episodes(np.random.default_rng(10), task, 60, 40, deterministic=False)
    episodes = compiled_episodes(task, policy.expansion, std, plan)
    crashed = task.outcomes(episodes.states[:, -1])["crashed"]
    arrived = task.outcomes(episodes.states[:, -1])["arrived"]
    np.testing.assert_array_equal(episodes.lengths < 40, crashed | arrived)
    assert crashed.sum() > 3
    assert arrived.sum() > 3
    assert np.any(episodes.lengths == 40)
    for n, length in enumerate(episodes.lengths):
        seen = episodes.observations[n, :length]
        expected = policy(seen)[:, 0] + std * plan.noise[n, :length]
        np.testing.assert_allclose(episodes.actions[n, :length], expected, rtol=1e-12)
        assert not episodes.rewards[n, length:].any()
        assert not episodes.actions[n, length:].any()
        last = episodes.observations[n, length]
        np.testing.assert_array_equal(
            episodes.observations[n, length:], last[None].repeat(41 - length, 0)
        )
        walk = Walk(task, plan.uniforms[n])
        rewards = [walk.step(action) for action in episodes.actions[n]]
        np.testing.assert_array_equal(episodes.rewards[n], rewards)
