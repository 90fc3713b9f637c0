"""Policies in the hands of Stable-Baselines3's ``evaluate_policy``, and of a loop that calls alike.

The real thing is not among the test tools: it needs PyTorch, and what the package index gives for
that is gigabytes for graphics cards. Where it is installed, it is tried.
"""

import numpy as np
import pytest

from crosslearning import CrossLearner, EvaluationCallback
from crosslearning.learner.evaluation import evaluate
from crosslearning.tasks import task_set

WITHOUT = "stable-baselines3 is not installed: it is an extra, 'bench', that brings PyTorch"


@pytest.fixture(scope="module")
def learner():
    tasks = task_set("gymnasium-pendulums:2")
    settings = {"max_knots": 30, "estimator": "baseline", "batch_size": 8, "seed": 1}
    return CrossLearner(tasks, 1.0, **settings).learn(5)


def actors(learner):
    """Return what may be passed for a model, with the task policy that it stands for."""
    watch = EvaluationCallback(learner, 1, trials=1, horizon=3)
    watch.evaluate()
    return {
        "learner": (learner, learner.central),
        "central": (learner.central, learner.central),
        "task": (learner.policy(1), learner.policy(1)),
        "best": (watch.best_policies[0], learner.policy(0)),
    }


class LockStep:
    """Environments in step, as a ``VecEnv`` of Stable-Baselines3 is seen from outside.

    An environment whose episode has ended is reset at once: the observation that comes back with
    ``done`` is already the first of the next.
    """

    def __init__(self, make, count, seed):
        self.environments = [make() for _ in range(count)]
        self.num_envs, self.seeds = count, iter(range(seed, seed + 100))

    def _reset(self, environment):
        return environment.reset(seed=next(self.seeds))[0]

    def reset(self):
        return np.stack([self._reset(environment) for environment in self.environments])

    def step(self, actions):
        assert actions.shape == (self.num_envs, *self.environments[0].action_space.shape)
        assert actions.dtype == self.environments[0].action_space.dtype
        seen, rewards, dones, infos = [], [], [], []
        for environment, action in zip(self.environments, actions, strict=True):
            assert environment.action_space.contains(action)
            observation, reward, terminated, truncated, info = environment.step(action)
            done = terminated or truncated
            if done:
                info = {**info, "terminal_observation": observation}
                observation = self._reset(environment)
            for values, value in zip(
                (seen, rewards, dones, infos), (observation, reward, done, info), strict=True
            ):
                values.append(value)
        return np.stack(seen), np.array(rewards, np.float32), np.array(dones), infos


def called_alike(model, env, episodes, deterministic=True):
    """Return the totals of episodes, with the model called as ``evaluate_policy`` calls it."""
    targets = np.array([(episodes + i) // env.num_envs for i in range(env.num_envs)])
    counts, current, totals = np.zeros(env.num_envs, int), np.zeros(env.num_envs), []
    observations, states = env.reset(), None
    starts = np.ones((env.num_envs,), dtype=bool)
    while (counts < targets).any():
        actions, states = model.predict(
            observations, state=states, episode_start=starts, deterministic=deterministic
        )
        observations, rewards, dones, _ = env.step(actions)
        current += rewards
        starts = dones
        for i in np.flatnonzero(dones & (counts < targets)):
            totals.append(current[i])
            counts[i] += 1
        current[dones] = 0.0
    return totals


def by_hand(policy, make, seeds):
    """Return the totals of episodes from seeds, one environment at a time."""
    totals = []
    for seed in seeds:
        environment, total, done = make(), 0.0, False
        observation, _ = environment.reset(seed=seed)
        while not done:
            action, _ = policy.predict(observation)
            observation, reward, terminated, truncated, _ = environment.step(action)
            total, done = total + reward, terminated or truncated
        totals.append(total)
    return totals


@pytest.mark.parametrize("kind", ["learner", "central", "task", "best"])
def test_a_loop_that_calls_as_evaluate_policy_does(learner, kind):
    model, policy = actors(learner)[kind]
    make = learner.tasks[0].make
    totals = called_alike(model, LockStep(make, 2, seed=5), episodes=2)
    np.testing.assert_allclose(totals, by_hand(policy, make, [5, 6]), rtol=1e-5)
    noisy = called_alike(model, LockStep(make, 2, seed=5), episodes=2, deterministic=False)
    assert not np.allclose(noisy, totals, rtol=1e-3)


@pytest.mark.parametrize("kind", ["learner", "central", "task", "best"])
@pytest.mark.parametrize("vectors", [1, 3])
def test_evaluate_policy_of_stable_baselines(learner, kind, vectors):
    pytest.importorskip("stable_baselines3", reason=WITHOUT)
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    model, policy = actors(learner)[kind]
    make = learner.tasks[0].make
    env = make_vec_env(make, n_envs=vectors, seed=5)
    totals, lengths = evaluate_policy(model, env, vectors, return_episode_rewards=True)
    assert lengths == [200] * vectors
    np.testing.assert_allclose(totals, by_hand(policy, make, range(5, 5 + vectors)), rtol=1e-5)
    mean, spread = evaluate_policy(model, env, 2 * vectors, deterministic=False)
    assert np.isfinite([mean, spread]).all()


def test_its_models_are_evaluated_here(learner):
    pytest.importorskip("stable_baselines3", reason=WITHOUT)
    from stable_baselines3 import PPO

    task = learner.tasks[0]
    model = PPO("MlpPolicy", task.make(), seed=0, n_steps=64, batch_size=32, device="cpu")
    (result,) = evaluate([model], [task], trials=2, horizon=20)
    assert result.policy == "PPO"
    assert result.total_return.value < 0.0
