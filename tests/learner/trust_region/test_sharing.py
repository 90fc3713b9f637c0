"""Data shared between tasks: as far as they agree, and with a task that is adapted to."""

import numpy as np
import pytest

from crosslearning import CrossLearner, Task, task_set
from crosslearning.errors import FileFormatError
from crosslearning.learner.values import ValueFunctions
from crosslearning.rkhs import Gaussian
from tests.learner.examples import Drift, assert_same_bits, recorded_reports

KERNEL = Gaussian(std=[1.0, 1.0])


class Pushed(Drift):
    """A point that is paid for its first action, or for the opposite."""

    def __init__(self, sign):
        super().__init__()
        self.sign = sign

    def step(self, action):
        seen, _, terminated, truncated, info = super().step(action)
        return seen, self.sign * float(action[0]), terminated, truncated, info


def pushed(*signs):
    """Return tasks, and a learner of them without a bound on their distance."""
    tasks = [
        Task(f"{k}", lambda render_mode=None, sign=sign: Pushed(sign), horizon=50)
        for k, sign in enumerate(signs)
    ]
    kernel = {"kernel": "gaussian", "std": [1.0, 1.0]}
    return lambda **settings: CrossLearner(
        tasks, np.inf, method="trust-region", episode_steps=20, kernel=kernel, **settings
    )


def correlations(learner):
    return [float(r.numbers["correlation"][0]) for r in recorded_reports(learner, 6)]


def test_tasks_share_where_they_agree_and_not_where_they_are_opposed():
    assert np.mean(correlations(pushed(1.0, 1.0)(trace=0.0))) > 0.7
    assert np.all(np.array(correlations(pushed(1.0, -1.0)(trace=0.0))) == 0.0)


def test_opposed_tasks_learn_what_they_learn_alone():
    """The directions are regressed separately, to the same bits."""
    # Where the critics are as separate as the directions.
    shared = pushed(1.0, -1.0)(trace=0.0)
    shared.method.critic._given = shared.method.critic.correlation = 0.0
    alone = pushed(1.0, -1.0)(trace=0.0, task_correlation=0.0)
    assert_same_bits(shared.learn(3).family, alone.learn(3).family)
    assert shared.policy(0).mean(np.zeros(2))[0] > 0.0 > shared.policy(1).mean(np.zeros(2))[0]


def test_a_given_correlation_is_used_and_one_task_has_none():
    learner = pushed(1.0, 1.0)(task_correlation=0.25)
    assert correlations(learner) == [0.25] * 6
    assert learner.method.critic.correlation == 0.25
    (report,) = recorded_reports(pushed(1.0)(), 1)
    assert not {"correlation", "critic_correlation"} & set(report.numbers)


# Critics ----------------------------------------------------------------------------------


def fitted(functions, correlation=None, noise=0.3, prior=None, seed=0):
    """Return value functions of tasks, fitted to noisy returns at few states, and their errors."""
    draw = np.random.default_rng(seed)
    settings = CrossLearner("pendulums:1", method="trust-region").settings
    critics = ValueFunctions(KERNEL, len(functions), settings, correlation)
    if prior is not None:
        critics.start_from(prior)
    states = [draw.uniform(-2.0, 2.0, (12, 2)) for _ in functions]
    noises = [noise * draw.standard_normal(12) for _ in functions]
    critics.push(states)
    critics.learn(np.concatenate(states), lambda _, i: functions[i](states[i]) + noises[i])
    at = draw.uniform(-2.0, 2.0, (200, 2))
    errors = [critics.values(i, at) - one(at) for i, one in enumerate(functions)]
    return critics, float(np.sqrt(np.mean(np.square(errors))))


def wave(states):
    return 5.0 + 3.0 * np.sin(states[:, 0]) * np.cos(states[:, 1])


def test_critics_of_tasks_that_agree_err_less_together_and_opposed_ones_are_separate():
    together = [fitted([wave] * 8, seed=seed) for seed in range(5)]
    apart = [fitted([wave] * 8, 0.0, seed=seed)[1] for seed in range(5)]
    assert np.mean([error for _, error in together]) < 0.6 * np.mean(apart)
    assert min(critics.correlation for critics, _ in together) > 0.4
    opposed, _ = fitted([wave, lambda states: -wave(states)])
    assert opposed.correlation == 0.0


def test_a_critic_that_starts_from_related_ones_knows_what_they_know():
    related, _ = fitted([wave] * 8)
    fresh, with_prior = (fitted([lambda s: wave(s) + 1.0], prior=one)[1] for one in (None, related))
    assert with_prior < 0.6 * fresh
    # Also what they had from others themselves.
    child, _ = fitted([wave], prior=related)
    settings = CrossLearner("pendulums:1", method="trust-region").settings
    grandchild = ValueFunctions(KERNEL, 1, settings)
    grandchild.start_from(child)
    at = np.random.default_rng(1).uniform(-2.0, 2.0, (20, 2))
    np.testing.assert_allclose(grandchild.values(0, at), child.values(0, at), rtol=1e-9)


# Adapting ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parent():
    learner = CrossLearner("pendulums:3", method="trust-region", max_knots=40, critic_knots=40)
    return learner.learn(4)


def test_adapting_starts_from_the_mean_of_the_critics(parent):
    (task,) = task_set("pendulums:unseen:1")
    adapted = parent.adapt(task, iterations=1)
    at = parent.method.batches[0][0].states
    expected = np.mean([parent.method.critic.values(i, at) for i in range(3)], axis=0)
    prior = adapted.method.critic.prior
    np.testing.assert_allclose(prior(at)[:, 0, 0] + parent.method.critic.offsets.mean(), expected)
    # The first step is judged by them: a critic of its own would have explained nothing.
    first, alone = [], []
    parent.adapt(task, 1, callback=first.append)
    CrossLearner([task], method="trust-region").learn(1, alone.append)
    assert alone[0].numbers["explained_variance"][0] == 0.0
    assert first[0].numbers["explained_variance"][0] > 0.3


def test_an_adapted_learner_is_saved_and_goes_on_as_if_nothing_had_happened(parent, tmp_path):
    (task,) = task_set("pendulums:unseen:1")
    adapted = parent.adapt(task, iterations=1)
    adapted.save(tmp_path / "adapted.safetensors")
    again = CrossLearner.load(tmp_path / "adapted.safetensors", tasks=[task])
    assert_same_bits(adapted.learn(2).family, again.learn(2).family)
    arrays, numbers = adapted.method.state()
    wrong = {**arrays, "critic.prior.weights": arrays["critic.prior.weights"][1:]}
    with pytest.raises(FileFormatError, match="weights"):
        adapted.method.restore(wrong, numbers)
