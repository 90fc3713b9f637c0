"""The trust region: its direction against a closed form, its length, its critic, its files."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from crosslearning import CrossLearner, Task
from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner.steps import log_densities, pack, unpack
from crosslearning.learner.trust_region import mean_divergence, step_lengths
from crosslearning.rkhs import Family, Gaussian, Polynomial
from crosslearning.rollouts import ActionScale
from crosslearning.tasks.linear_quadratic import cart
from tests.learner.examples import UNPRUNED, Drift, assert_same_bits, drift, recorded_reports


def small(tasks=None, epsilon=np.inf, **settings):
    given = {"episode_steps": 20, "kernel": {"kernel": "gaussian", "std": [1.0, 1.0]}, **settings}
    return CrossLearner(
        tasks or [drift("one"), drift("two")], epsilon, method="trust-region", **given
    )


def recorded_calls(method, name):
    """Return a list to which the results of a method's function are added."""
    results, function = [], getattr(method, name)
    setattr(method, name, lambda *given: results.append(function(*given)) or results[-1])
    return results


# The direction ----------------------------------------------------------------------------


def test_the_direction_is_the_natural_gradient_of_a_linear_quadratic_task():
    """E[Q(s, a)(a − h(s)) | s] is Σ ∂Q/∂a at the mean action, and Q is quadratic in closed form.

    The noise: with 400 episodes of 40 steps the cosine is 0.9986 on average over 20 seeds and
    0.995 at the least, the ratio of the lengths 0.994 on average and between 0.96 and 1.03.
    """
    model, discount = cart(mass=1.0), 0.8
    learner = CrossLearner(
        [model.task("cart")],
        np.inf,
        method="trust-region",
        kernel=Polynomial([1.0, 1.0], 2),
        episodes=400,
        most_steps=16_000,
        episode_steps=40,
        discount=discount,
        trace=1.0,
        reuse=1,
        ridge=1e-3,
        action_std=0.3,
        **UNPRUNED,
    )
    method = learner.method
    targets, directions = recorded_calls(method, "targets"), recorded_calls(method, "directions")
    method.improve(learner._core.iterate)
    steps = method.batches[0][0]
    weights = directions[0][:, 0].sum(axis=1)
    ours = targets[0].spread * method.regression.values(0, 0, weights)
    A, B, Q = (np.array(matrix) for matrix in (model.A, model.B, model.Q))
    P = Q
    for _ in range(500):  # costs to go of the policy that is zero
        P = Q + discount * A.T @ P @ A
    # ∂Q/∂a = −2 (R a + γ BᵀP (A s + B a)) at a = 0, times the variance.
    exact = -2.0 * discount * 0.3**2 * steps.states @ (B.T @ P @ A).T
    norms = np.linalg.norm(ours), np.linalg.norm(exact)
    assert np.sum(ours * exact) / np.prod(norms) > 0.99
    assert norms[0] / norms[1] == pytest.approx(1.0, abs=0.05)


# The length -------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.003, 0.03])
def test_the_divergence_after_a_step_is_the_one_asked_for(delta):
    learner = small(step_kl=delta, reliable=0.0, **UNPRUNED)
    for report in recorded_reports(learner, 5):
        np.testing.assert_allclose(report.numbers["kl"], delta, rtol=0.05)


def test_steps_become_shorter():
    reports = recorded_reports(small(step_kl=0.03, step_decay=2.0, reliable=0.0, **UNPRUNED), 5)
    asked = [0.03 / (1 + k / 2.0) for k in range(5)]
    np.testing.assert_allclose([r.numbers["kl"].mean() for r in reports], asked, rtol=0.05)


class Rewarded(Drift):
    """A point whose reward is chance, or its first action: of the step, not of its state."""

    def __init__(self, signal):
        super().__init__()
        self.signal, self.draw = signal, np.random.default_rng(0)

    def step(self, action):
        seen, _, terminated, truncated, info = super().step(action)
        reward = float(action[0]) if self.signal else self.draw.standard_normal()
        return seen, reward, terminated, truncated, info


def reports_of_rewarded(signal, **settings):
    """Return the reports of eight iterations.

    Noise is judged by rewards alone: an error of the critic would be one for all episodes, in which
    they agree.
    """
    task = Task("one", lambda render_mode=None: Rewarded(signal), horizon=50)
    given = {"trace": 0.0 if signal else 1.0, "seed": 1, "step_kl": 0.02, "batch_growth": 1.0}
    return recorded_reports(small([task], **{**given, **settings}, **UNPRUNED), 8)


def rewarded(signal, reliable=0.5):
    """Return the divergence of every step, and its reliability."""
    reports = reports_of_rewarded(signal, episodes=20, reliable=reliable)
    return [np.array([r.numbers[name][0] for r in reports]) for name in ("kl", "reliability")]


def test_steps_shrink_where_the_advantages_are_noise_and_not_where_they_are_signal():
    steps, sure = rewarded(signal=True)
    assert np.all(sure > 0.5)
    np.testing.assert_allclose(steps, 0.02, rtol=0.05)
    steps, sure = rewarded(signal=False)
    assert sure.mean() < 0.3
    assert np.mean(steps) < 0.005
    np.testing.assert_allclose(steps, 0.02 * np.minimum(1.0, 2.0 * sure) ** 4, rtol=0.05, atol=1e-7)
    steps, _ = rewarded(signal=False, reliable=0.0)
    np.testing.assert_allclose(steps, 0.02, rtol=0.05)


def test_episodes_are_as_few_as_agree_and_more_where_they_do_not():
    def counts(signal, **settings):
        settings = {"least_steps": 80, "episodes": 12, "batch_growth": 1.5, **settings}
        return [report.episodes for report in reports_of_rewarded(signal, **settings)]

    # Each has 20 steps; no fewer than least_steps and no more than most_steps allow.
    fewer, more = counts(signal=True), counts(signal=False, most_steps=800)
    assert fewer == sorted(fewer, reverse=True)
    assert fewer[0] == more[0] == 12
    assert fewer[-1] == 4
    assert max(more) == 40
    for found in (fewer, more):
        ratios = np.divide(found[1:], found[:-1])
        assert ratios.max() <= 1.6  # 1.5, and a whole number of episodes
        assert ratios.min() >= 0.6
    # Nor more than four times the first.
    assert max(counts(signal=False, most_steps=2000)) == 48
    assert counts(signal=False, batch_growth=1.0) == [12] * 8
    assert counts(signal=False, reliable=0.0) == [12] * 8


def test_the_parts_of_a_direction_are_those_of_every_eighth_episode():
    """A part changes with the rewards of its own episodes alone; all together are the direction."""

    def parts_of(sign):
        learner = small([drift("one")], reuse=1, episodes=10, least_steps=1)
        method = learner.method
        recorded, targets = recorded_calls(method, "directions"), recorded_calls(method, "targets")
        advantages = method.critic.advantages

        def changed(block, task, steps):
            mine = np.repeat(np.arange(len(steps.lengths)) % 8 == 1, steps.lengths)
            result = advantages(block, task, steps)
            # Either has mean zero, so that neither the centre nor the unit of all changes.
            result -= np.where(mine, result[mine].mean(), result[~mine].mean())
            result[mine] *= sign
            return result

        method.critic.advantages = changed
        learner.learn(1)
        (found,), (target,) = recorded, targets
        whole = target.parts[0].reshape(-1, 8, 2).sum(axis=1)
        together = method.regression.solve(0, [whole], learner.settings.ridge)
        np.testing.assert_allclose(found[:, 0].sum(axis=1), together, rtol=1e-6, atol=1e-9)
        return found[:, 0].transpose(1, 0, 2)

    plain, flipped = parts_of(1.0), parts_of(-1.0)
    assert np.all(np.any(plain != 0.0, axis=(1, 2)))
    np.testing.assert_allclose(flipped[1], -plain[1], rtol=1e-6, atol=1e-9)
    others = [k for k in range(8) if k != 1]
    np.testing.assert_allclose(flipped[others], plain[others], rtol=1e-6, atol=1e-9)


@given(
    squares=st.lists(st.floats(1e-6, 1e3), min_size=4, max_size=4),
    growth=st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=2),
    std=st.lists(st.floats(0.05, 2.0), min_size=2, max_size=2),
    delta=st.floats(1e-4, 0.2),
)
def test_lengths_give_the_divergence_whatever_the_noise_wants(squares, growth, std, delta):
    directions, old = np.sqrt(np.reshape(squares, (2, 2))), np.array(std)
    least = np.minimum(0.05, old)
    lengths, new = step_lengths(directions**2, np.array(growth), old, least, delta)
    assert np.all(new >= least)
    for i in range(2):
        moved = lengths[i] * directions[i : i + 1]
        assert mean_divergence(moved, old, new) == pytest.approx(delta, rel=1e-6)


def test_the_divergence_is_that_of_normal_distributions():
    draw = np.random.default_rng(0)
    moved, old, new = draw.normal(size=(1, 2)), np.array([0.4, 0.9]), np.array([0.5, 0.7])
    noise = old * draw.standard_normal((400_000, 2))
    log_old = -0.5 * np.sum((noise / old) ** 2, axis=1) - np.sum(np.log(old))
    log_new = -0.5 * np.sum(((noise - moved) / new) ** 2, axis=1) - np.sum(np.log(new))
    estimate = np.mean(log_old - log_new)
    assert mean_divergence(moved, old, new) == pytest.approx(estimate, rel=0.02)


class Paid(Drift):
    """A point that is paid the same whatever it does, and may end after some steps."""

    def __init__(self, reward, ends_after=10**9, **parameters):
        super().__init__(**parameters)
        self.reward, self.ends_after = reward, ends_after

    def step(self, action):
        seen, _, _, truncated, info = super().step(action)
        return seen, self.reward, self.steps >= self.ends_after, truncated, info


def paid(name, **parameters):
    return Task(name, lambda render_mode=None: Paid(**parameters), horizon=50)


def test_a_task_that_pays_nothing_moves_nothing():
    """Its policy stays at zero, while its neighbour without a bound on ε learns."""
    learner = small([paid("free", reward=0.0), drift("other")])
    learner.learn(3)
    assert np.all(learner.family.weights[:, 0] == 0.0)
    assert np.any(learner.family.weights[:, 1] != 0.0)


def test_a_critic_that_is_wrong_by_a_constant_changes_nothing():
    """Advantages are centred: steps are better or worse than others, not than was foreseen."""

    def learned(shift):
        learner = small([drift("one")], reuse=2).learn(2)
        critic = learner.method.critic
        advantages = critic.advantages
        critic.advantages = lambda *given: advantages(*given) + shift
        return learner.learn(1).family

    plain, shifted = learned(0.0), learned(5.0)
    np.testing.assert_array_equal(shifted.knots, plain.knots)
    np.testing.assert_allclose(shifted.weights, plain.weights, rtol=1e-6, atol=1e-9)


def test_a_step_is_judged_by_the_critic_that_had_not_seen_it():
    """A critic that was fitted to the newest returns would explain them away."""
    learner = small([drift("one")]).learn(2)
    method, states = learner.method, np.random.default_rng(0).uniform(-1.0, 1.0, (5, 2))
    before, during = method.critic.values(0, states), []
    targets = method.targets

    def watched(*given):
        during.append(method.critic.values(0, states))
        return targets(*given)

    method.targets = watched
    learner.learn(1)
    np.testing.assert_array_equal(during, [before])
    assert np.any(method.critic.values(0, states) != before)


def test_old_steps_count_no_more_than_the_clip_allows():
    """However unlikely an action was when it was taken, it weighs as one at the clip."""

    def learned(shift):
        learner = small([drift("one")], reuse=2, ratio_clip=2.0).learn(1)
        newest = learner.method.batches[0]
        newest[0] = newest[0]._replace(densities=newest[0].densities - shift)
        return learner.learn(1).family

    assert_same_bits(learned(20.0), learned(30.0))
    assert np.any(learned(0.0).weights != learned(20.0).weights)


def test_densities_are_those_of_normal_distributions():
    """Up to one constant, also between noise of different size: old batches had another."""
    deviations = np.random.default_rng(0).normal(size=(6, 2))
    stds = np.array([[0.4, 0.9], [0.1, 0.2], [2.0, 1.0]])
    left = [log_densities(deviations, std) - norm.logpdf(deviations, 0, std).sum(1) for std in stds]
    np.testing.assert_allclose(left, np.log(2.0 * np.pi), atol=1e-12)


class Flat(Drift):
    """Episodes of one step, all paid the same."""

    pay = 0.0

    def step(self, action):
        seen, *_ = super().step(action)
        return seen, Flat.pay, True, False, {}


def test_steps_that_were_paid_alike_say_nothing_of_the_noise(monkeypatch):
    """Also old ones, which were all paid less than the newest: none had a better deviation."""
    task = Task("flat", lambda render_mode=None: Flat(), horizon=50)
    learner = small([task], reuse=2, episode_steps=1, least_steps=400).learn(1)
    monkeypatch.setattr(Flat, "pay", 1.0)
    method = learner.method
    recorded = recorded_calls(method, "targets")
    learner.learn(1)
    assert len(method.batches) == 2
    # The mean of 400 numbers z² − 1, weighted by a quarter: 0.018 is its standard deviation.
    np.testing.assert_allclose(recorded[0].growth, 0.0, atol=0.08)


# Learning ---------------------------------------------------------------------------------


def test_it_learns_pendulums_that_a_constant_cannot_move():
    tasks = "gymnasium-pendulums:2"
    learner = CrossLearner(tasks, method="trust-region", seed=1, episode_steps=100, max_knots=60)
    reports = recorded_reports(learner, 12)
    before = np.mean([r.numbers["total_return"] for r in reports[:2]])
    after = np.mean([r.numbers["total_return"] for r in reports[-2:]])
    assert after > before + 150.0
    assert reports[-1].numbers["explained_variance"].min() > 0.5
    assert np.all(learner.method.noise.std < 0.5)
    learner.close()


def test_what_an_engineer_reads_is_in_the_report():
    (report,) = recorded_reports(small(), 1)
    named = {"total_return", "length", "explained_variance", "entropy", "kl", "reliability"}
    named |= {"correlation", "critic_correlation"}
    assert named <= set(report.numbers)
    np.testing.assert_array_equal(report.numbers["length"], 20.0)
    std = 0.5
    expected = 2 * (np.log(std) + 0.5 * np.log(2 * np.pi * np.e))
    np.testing.assert_allclose(report.numbers["entropy"], expected)


def test_short_episodes_make_more_of_them():
    learner = small([drift("one", time_limit=5)], least_steps=60, episodes=2)
    first, second = recorded_reports(learner, 2)
    assert first.steps == 3 * 5  # three episodes of 20 steps were foreseen
    assert second.steps == 12 * 5


def test_long_episodes_make_fewer_of_them():
    assert recorded_reports(small([drift("one")], most_steps=200), 1)[0].episodes == 10
    assert recorded_reports(small([drift("one")], most_steps=60, least_steps=1), 1)[0].episodes == 3
    (report,) = recorded_reports(small([drift("one")], most_steps=5, least_steps=1), 1)
    assert report.episodes == 2
    with pytest.raises(InputError, match="most_steps is 5, below least_steps"):
        small(most_steps=5)


def test_an_episode_that_was_cut_off_is_worth_what_follows():
    """A reward of 1 a step for ever is worth 1/(1 − γ) = 10, though no episode has more than 8.

    Where an episode terminates after 8 steps, nothing follows: 1 + … + γ⁷ = 5.7 at its start, and
    less later on. The policy gets the same from both, so that only the critic can tell them apart.
    """

    def worth(**limit):
        learner = small([paid("one", reward=1.0, **limit)], discount=0.9, critic_ridge=1e-3)
        learner.method._varied = True  # though the reward never changes
        learner.learn(30)
        steps = learner.method.batches[0][0]
        assert np.all(steps.lengths == 8)
        return learner.method.critic.values(0, steps.states), steps.bootstrap_mask

    values, bootstrap_mask = worth(time_limit=8)
    np.testing.assert_array_equal(bootstrap_mask, 1.0)
    np.testing.assert_allclose(values, 10.0, atol=0.2)
    values, bootstrap_mask = worth(ends_after=8)
    np.testing.assert_array_equal(bootstrap_mask, 0.0)
    mean = np.mean([(1.0 - 0.9**left) / 0.1 for left in range(1, 9)])
    assert values.mean() == pytest.approx(mean, abs=0.3)


def test_discount_and_episodes_follow_the_time_limit():
    def recorded(horizon):
        task = Task("one", lambda render_mode=None: Drift(), horizon=horizon)
        settings = small([task], episode_steps=None).settings
        return settings.gamma, settings.episode_steps

    assert recorded(8) == (0.9, 8)
    assert recorded(50) == (0.9, 20)
    assert recorded(200) == (0.975, 80)
    assert recorded(10_000) == (0.99, 4000)
    assert small(discount=0.8).settings.gamma == 0.8


def test_a_mean_beyond_the_bounds_is_led_back():
    """Where every action is clipped nothing can be learned; a policy must not stay there."""
    kernel = Gaussian(std=[1.0, 1.0])
    knots = np.random.default_rng(0).uniform(-1.5, 1.5, (30, 2))
    far = Family(kernel, knots, np.full((30, 1, 2), 0.3))
    learner = small([drift("one")], kernel=None, start=far, step_kl=0.5)
    before = np.abs(learner.policy(0).mean(knots)).mean()
    learner.learn(10)
    assert np.abs(learner.policy(0).mean(knots)).mean() < 0.8 * before


def test_bounds_are_in_the_units_of_the_policies():
    space = gymnasium.spaces.Box(np.array([1.0, -3.0]), np.array([5.0, 3.0]), dtype=np.float64)
    box = ActionScale.of_box(space.low, space.high)
    np.testing.assert_array_equal(box.bounds(space), [[-1, -1], [1, 1]])
    np.testing.assert_array_equal(ActionScale.none(2).bounds(space), [[1, -3], [5, 3]])


def test_settings_of_another_method_are_told_apart():
    with pytest.raises(InputError, match="estimator is a setting of the method policy-gradient"):
        small(estimator="antithetic")
    with pytest.raises(InputError, match="trace"):
        small(trace=1.5)
    with pytest.raises(InputError, match="step_kl must be finite"):
        small(step_kl=np.inf)


# Files ------------------------------------------------------------------------------------


def test_batches_are_packed_and_unpacked():
    learner = small(reuse=2)
    learner.learn(3)
    batches = learner.method.batches
    again = unpack(pack(batches), tasks=2, q=2, p=2)
    for one, other in zip(batches, again, strict=True):
        for steps, same in zip(one, other, strict=True):
            for part, equal in zip(steps, same, strict=True):
                np.testing.assert_array_equal(part, equal)
                assert part.dtype == equal.dtype


def test_noise_that_is_no_noise_is_refused():
    learner = small()
    learner.learn(1)
    arrays, numbers = learner.method.state()
    with pytest.raises(FileFormatError, match="variance"):
        learner.method.restore({**arrays, "variance": -arrays["variance"]}, numbers)


@pytest.mark.parametrize("name", ["reliability", "task_agreement"])
def test_evidence_that_is_none_is_refused_and_files_without_it_load(name):
    learner = small().learn(2)
    arrays, numbers = learner.method.state()
    fresh, _ = small().method.state()
    assert np.all(arrays[name] != fresh[name])
    with pytest.raises(FileFormatError, match=name):
        learner.method.restore({**arrays, name: np.full(2, np.nan)}, numbers)
    del arrays[name]
    learner.method.restore(arrays, numbers)
    np.testing.assert_array_equal(learner.method.state()[0][name], fresh[name])


def test_outcomes_are_told_that_are_one_number_an_episode():
    learner = CrossLearner("paper:r=1", method="trust-region", max_knots=20)
    (report,) = recorded_reports(learner, 1)
    assert {"arrived", "crashed", "path_length"} <= set(report.numbers)
    assert "position" not in report.numbers
