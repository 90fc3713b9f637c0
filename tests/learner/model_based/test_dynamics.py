"""Cross-learned dynamics: right where the answer is known, and at the ends of ε."""

import math

import numpy as np
import pytest

from crosslearning.learner.model_based.data import Transitions
from crosslearning.learner.model_based.dynamics import Frame, choose, fit
from crosslearning.rkhs import CrossRegression

WIDE = np.full(2, -np.inf), np.full(2, np.inf)
#: Motion and payment of three linear systems.
A = [np.array([[0.9, 0.2], [-0.1, a]]) for a in (0.7, 0.8, 0.95)]
B = [np.array([0.1, b]) for b in (0.4, 0.5, 0.7)]


def linear(task, n, seed, scale=1.0):
    draw = np.random.default_rng([seed, task])
    states, actions = scale * draw.normal(size=(n, 2)), draw.uniform(-1, 1, (n, 1))
    after = states @ A[task].T + actions * B[task]
    rewards = -np.sum(states**2, axis=1) - 0.1 * actions[:, 0] ** 2
    return Transitions(states, actions, after, rewards, np.zeros(n), np.zeros(n))


def fitted(data, epsilon=None, is_angle=(), low=WIDE[0], high=WIDE[1], knots=200):
    frame = Frame.of(data, low, high, is_angle)
    return fit(data, frame, choose(data, frame, epsilon), epsilon, knots)


@pytest.fixture(scope="module")
def family():
    return [linear(i, 40, 0) for i in range(3)]


@pytest.fixture(scope="module")
def dynamics(family):
    return fitted(family)


def test_linear_systems_are_learned_to_the_noise(dynamics):
    for i in range(3):
        new = linear(i, 200, 1, scale=0.7)
        result = dynamics.predict(i, new.states, new.actions)
        errors = np.sqrt(np.mean((result[:, :2] - (new.after - new.states)) ** 2, axis=0))
        noise = np.array([own.noise[0] for own in dynamics.chosen])
        # No worse than twice the noise that the functions leave unexplained.
        assert np.all(errors <= 2.0 * noise[:2] * dynamics.frame.unit[:2])
        assert np.all(noise[:2] <= 0.01)
        reward = np.sqrt(np.mean((result[:, 2] - new.rewards) ** 2))
        assert reward <= 0.05 * dynamics.frame.unit[2]


def test_few_data_of_one_are_enough_beside_the_others(family):
    few = linear(2, 5, 3)
    new = linear(2, 200, 4, scale=0.7)

    def error(result, i):
        change = result.predict(i, new.states, new.actions)[:, :2]
        return np.sqrt(np.mean((change - (new.after - new.states)) ** 2))

    beside = error(fitted([*family[:2], few]), 2)
    alone = error(fitted([few]), 0)
    pooled = error(fitted([*family[:2], few], 0.0), 2)
    assert beside < 0.5 * alone
    assert beside < 0.5 * pooled


def test_the_ends_of_the_radius(family):
    new = linear(0, 50, 1)
    pooled = fitted(family, 0.0)
    one, other = (pooled.predict(i, new.states, new.actions) for i in (0, 2))
    np.testing.assert_array_equal(one, other)
    assert not np.any(pooled.distances)
    apart = fitted(family, math.inf)
    assert not np.any(apart.multipliers)
    # As if each had been fitted without the others, in the same units and on the same knots.
    for i in (0, 2):
        wanted = fit(family[i : i + 1], apart.frame, apart.chosen, math.inf, 200)
        result = apart.predict(i, new.states, new.actions)
        alone = wanted.predict(0, new.states, new.actions)
        np.testing.assert_allclose(result, alone, atol=0.02 * apart.frame.unit.max())
    between = fitted(family, 0.3)
    for own in between.fits:
        assert np.sqrt(np.mean(own.distances**2)) <= 0.3 * (1 + 1e-6)


def test_samples_scatter_where_nothing_was_seen(dynamics, family):
    draw = np.random.default_rng(0)
    S = 30
    normal = [draw.normal(size=(S, 4, len(own.family.knots), 1)) for own in dynamics.fits]
    sampled = dynamics.functions(2, normal)
    means = dynamics.functions(2)
    near = np.concatenate([family[0].states[:5], family[0].actions[:5]], axis=1)
    far = near + 6.0
    for output, mean in zip(sampled, means, strict=True):
        assert output.functions == S * 2
        spread = {}
        for name, points in (("near", near), ("far", far)):
            values = output(points)[:, :, 0].reshape(5, S, 2)
            spread[name] = values.std(axis=1).mean()
            error = np.abs(values.mean(axis=1) - mean(points)[:, :, 0])
            assert np.all(error <= 5.0 * values.std(axis=1) / np.sqrt(S) + 1e-9)
        assert spread["far"] > 2.0 * spread["near"]


def test_knots_leave_a_thousandth_of_the_kernel_at_most(family, dynamics):
    """However noisy the data are: where little is asked of a model, its knots are not too few."""
    rough = {"noise": np.array([0.5]), "widths": np.full(3, 2.0)}
    noisy = [own._replace(**rough) for own in dynamics.chosen]
    points = np.concatenate([np.concatenate([own.states, own.actions], axis=1) for own in family])
    for own in fit(family, dynamics.frame, noisy, None, 200).fits:
        kernel, knots = own.family.kernel, own.family.knots
        across = kernel(knots, points)
        explained = np.sum(across * np.linalg.solve(kernel(knots, knots), across), axis=0)
        assert len(knots) < 0.5 * len(points)
        assert np.max(1.0 - explained / kernel.diagonal(points)) <= 1e-3


def jolted(task, n, seed):
    """Return steps of a curved system of which two went elsewhere, at a price."""
    steps = linear(task, n, seed)
    after = steps.after.copy()
    after[:, 1] += 0.3 * np.sin(2.0 * steps.states[:, 0])
    rewards = steps.rewards.copy()
    after[[4, 9], 1] -= 8.0
    rewards[[4, 9]] -= 30.0
    return steps._replace(after=after, rewards=rewards)


def test_a_few_jolts_do_not_bend_the_motion_elsewhere():
    data = [jolted(0, 60, 0), *(linear(i, 60, 0) for i in (1, 2))]
    dynamics = fitted(data)
    new = jolted(0, 200, 1)
    change = dynamics.predict(0, new.states, new.actions)[10:, 1]
    errors = np.abs(change - (new.after - new.states)[10:, 1]) / dynamics.frame.unit[1]
    assert np.median(errors) < 0.02
    moves, rewards = (dynamics.fits[o].point_weights[0] for o in (1, 2))
    assert np.max(moves[[4, 9]]) < 1e-3
    # A rare reward counts: it may be what the task is about.
    assert np.min(rewards[[4, 9]]) > 0.1


def test_bands_of_the_samples_cover_what_was_not_seen():
    inside = []
    for seed in range(4):
        dynamics = fitted([jolted(i, 40, 10 + seed) for i in range(3)])
        draw = np.random.default_rng(seed)
        shapes = [(99, 4, len(one.family.knots), 1) for one in dynamics.fits]
        samples = dynamics.functions(3, [draw.normal(size=shape) for shape in shapes])
        for i in range(3):
            new = jolted(i, 100, 20 + seed)
            both = np.concatenate([new.states, new.actions], axis=1)[10:]
            target = dynamics.frame.targets(new)[10:, 1] * dynamics.frame.unit[1]
            below = np.sum(samples[1](both)[:, i::3, 0] < target[:, None], axis=1)
            inside.append(np.mean((below >= 5) & (below <= 94)))
    assert 0.8 < np.mean(inside) < 0.99


@pytest.mark.parametrize(("steps", "cap"), [(20, 200), (300, 300), (1000, 600)])
def test_the_default_cap_on_knots_follows_the_data(steps, cap, monkeypatch):
    asked = []

    class Asked(CrossRegression):
        def __init__(self, *given, max_knots, **others):
            asked.append(max_knots)
            super().__init__(*given, max_knots=5, **others)

    data = [linear(i, steps, 0) for i in range(3)]
    frame = Frame.of(data, *WIDE, ())
    chosen = choose([linear(i, 20, 0) for i in range(3)], frame, None)
    monkeypatch.setattr("crosslearning.learner.model_based.dynamics.CrossRegression", Asked)
    fit(data, frame, chosen, None, None)
    assert asked == [cap] * 3


def test_angles_go_round():
    draw = np.random.default_rng(0)
    angle, action = draw.uniform(-np.pi, np.pi, 60), draw.uniform(-1, 1, (60, 1))
    after = (angle + 0.5 + 0.3 * action[:, 0] + 0.1 * np.cos(angle) + np.pi) % (2 * np.pi) - np.pi
    states = np.stack([angle, np.zeros(60)], axis=1)
    data = Transitions(
        states,
        action,
        np.stack([after, np.zeros(60)], axis=1),
        np.cos(angle),
        np.zeros(60),
        np.zeros(60),
    )
    ends = np.array([-np.pi, -1.0]), np.array([np.pi, 1.0])
    result = fitted([data], is_angle=[0], low=ends[0], high=ends[1])
    assert result.frame.is_angle.tolist() == [1, 0]
    # All of the circle, whatever was seen of it.
    np.testing.assert_allclose(result.frame.limits[:, 0], [-np.pi, np.pi])
    seam = np.array([[np.pi - 1e-6, 0.0], [-np.pi + 1e-6, 0.0]])
    changes = result.predict(0, seam, np.zeros((2, 1)))
    np.testing.assert_allclose(changes[0], changes[1], atol=1e-4)
    assert changes[0, 0] == pytest.approx(0.4, abs=0.05)
    # A step leads on from wherever it begins, beyond the seam at the other end.
    after = result.follow(0, np.array([[1.0, 0.0], [3.0, 0.0]]), np.zeros((2, 1)))
    wanted = [1.5 + 0.1 * np.cos(1.0), 3.5 + 0.1 * np.cos(3.0) - 2.0 * np.pi]
    np.testing.assert_allclose(after[:, 0], wanted, atol=0.05)
    # A coordinate that never moves is predicted to stay.
    np.testing.assert_allclose(changes[:, 1], 0.0, atol=1e-9)


def test_the_end_of_episodes_is_learned_where_one_was_seen(family):
    assert fitted(family[:1]).frame.ends == 0
    data = linear(0, 120, 5)
    over = data.after[:, 0] > 0.8
    # An end costs 50, and stops the motion.
    ended = data._replace(
        terminated=over.astype(float),
        rewards=np.where(over, -50.0 - data.actions[:, 0], data.rewards),
        after=np.where(over[:, None], data.states, data.after),
    )
    result = fitted([ended])
    names = ["observation 0", "observation 1", "reward", "end", "reward at an end"]
    assert result.frame.names == names
    there, here = result.predict(0, np.array([[2.0, 0.0], [-1.0, 0.0]]), np.zeros((2, 1)))
    assert there[3] > 0.8
    assert 0.0 <= here[3] < 0.1
    assert there[4] == pytest.approx(-50.0, abs=0.5)
    # Neither the reward nor the motion of other steps knows of it.
    new = linear(0, 100, 6, scale=0.7)
    wanted = np.column_stack([new.after - new.states, new.rewards])
    errors = result.predict(0, new.states, new.actions)[:, :3] - wanted
    assert np.all(np.sqrt(np.mean(errors**2, axis=0)) < 0.1)
    assert np.all(result.mean_squares(0, new)[:3] == pytest.approx(np.mean(errors**2, axis=0)))
    assert result.mean_squares(0, new)[4] == 0.0  # no step of these tells of it


def test_where_every_step_ends_the_rest_is_learned_from_these():
    data = linear(0, 60, 5)._replace(terminated=np.ones(60))
    result = fitted([data])
    predicted = result.predict(0, data.states, data.actions)
    np.testing.assert_allclose(predicted[:, 2], data.rewards, atol=0.3)
    np.testing.assert_allclose(predicted[:, 4], data.rewards, atol=0.3)
    assert predicted[:, 3].min() > 0.9


def test_limits_are_those_of_the_space_and_of_the_data(family):
    frame = Frame.of(family, np.array([-0.5, -np.inf]), np.array([np.inf, np.inf]), [])
    seen = np.concatenate([np.concatenate([own.states, own.after]) for own in family])
    margin = 0.1 * np.ptp(seen, axis=0)
    assert frame.limits[0, 0] == -0.5
    assert frame.limits[1, 0] == pytest.approx(seen[:, 0].max() + margin[0])
    assert frame.limits[0, 1] == pytest.approx(seen[:, 1].min() - margin[1])


def test_a_constant_reward_and_a_single_step_are_no_trouble():
    data = linear(0, 1, 0)._replace(rewards=np.array([1e9]))
    result = fitted([data]).predict(0, data.states, data.actions)
    assert result[0, 2] == 1e9
    np.testing.assert_allclose(result[0, :2], (data.after - data.states)[0], atol=1e-9)
