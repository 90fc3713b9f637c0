"""Every estimator is unbiased: against exact derivatives, with a power check on wrong ones.

The gradient of U in the RKHS is the function with dU(h + εf)/dε = ⟨∇U, f⟩ for every f of the
space. An estimate Σ_b κ(s_b, ·) w_b has ⟨∇̂, f⟩ = Σ_b w_b · f(s_b), by the reproducing property. So
for several directions f the mean of that number over many independent estimates is compared
with the exact derivative, in units of its standard error.
"""

import functools

import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.learner.gradients import ESTIMATORS, Gradients
from crosslearning.rkhs import Family, Gaussian, Linear
from crosslearning.rollouts import CompiledExecutor, Samples, plan_samples
from tests.rollouts.examples import LOPSIDED, ROPE, linear_family, rope_task

DISCOUNT = 0.8
#: |z| above this is a bias. A right estimator exceeds it once in 150,000 directions.
LIMIT = 4.5
#: Estimates in one plan, and samples in each: the executor is given the same task many times,
#: so that every row of its samples makes an estimate of its own.
ROWS, BATCH = 1000, 4

every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def all_samples(task, policy, variance, plans, seed, spoil=None):
    """Return samples of one task and policy, shape (plans · ROWS, BATCH, …)."""
    tasks = [task] * ROWS
    policies = policy.expansion._replace(rows=np.repeat(policy.expansion.rows, ROWS, axis=0))
    executor = CompiledExecutor(tasks)
    generator = np.random.default_rng(seed)
    parts = []
    for _ in range(plans):
        plan = plan_samples(generator, tasks, BATCH, DISCOUNT, np.sqrt(variance))
        if spoil is not None:
            plan = spoil(plan, generator)
        parts.append(executor.samples(policies, plan, mirrored=True))
    return Samples(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def products(gradients, directions):
    """Return ⟨∇̂, f⟩ for every estimate and every function of a family."""
    rows, batch, q = gradients.knots.shape
    values = directions(gradients.knots.reshape(-1, q)).reshape(rows, batch, -1, directions.outputs)
    return np.einsum("gbp,gbfp->gf", gradients.weights, values)


def scores(numbers, expected):
    """Return how many standard errors each mean is from what is expected."""
    error = numbers.std(axis=0, ddof=1) / np.sqrt(len(numbers))
    return (numbers.mean(axis=0) - expected) / error


# Linear policies of a linear-quadratic task: the derivative is known in closed form. ---------

VARIANCE = np.array([0.3, 0.15])
GAIN = np.array([[0.3, -0.3], [0.4, 0.1]])
#: Kernel widths, which must not matter for derivatives along a given function.
WIDTHS = (1.0, 0.5)


def linear_directions():
    """Return the functions F s for the four unit matrices and two dense ones, and the matrices."""
    unit = np.eye(4).reshape(4, 2, 2)
    dense = np.random.default_rng(3).standard_normal((2, 2, 2))
    matrices = np.concatenate([unit, dense])
    return linear_family(matrices, WIDTHS), matrices


@functools.cache
def linear_samples():
    return all_samples(LOPSIDED.task("one"), linear_family([GAIN], WIDTHS), VARIANCE, 60, seed=1)


def linear_scores(gradients):
    directions, matrices = linear_directions()
    exact = np.einsum("fpq,pq->f", matrices, LOPSIDED.gradient(GAIN, VARIANCE, DISCOUNT))
    return scores(products(gradients, directions), exact)


@every_estimator
def test_the_mean_is_the_gradient(name):
    gradients = ESTIMATORS[name].estimate(linear_samples(), VARIANCE, DISCOUNT)
    assert np.max(np.abs(linear_scores(gradients))) < LIMIT


@every_estimator
@pytest.mark.parametrize(
    "factor", [1.0 - DISCOUNT, VARIANCE, -1.0, 1.25], ids=["no 1/(1-γ)", "no Σ⁻¹", "sign", "1.25"]
)
def test_a_wrong_scale_is_noticed(name, factor):
    knots, weights = ESTIMATORS[name].estimate(linear_samples(), VARIANCE, DISCOUNT)
    assert np.max(np.abs(linear_scores(Gradients(knots, weights * factor)))) > LIMIT


def other_time(field, discount):
    """Return what redraws t or T of a plan with another discount, within the plan's noise."""

    def spoil(plan, generator):
        drawn = generator.geometric(1.0 - discount, size=plan.before.shape) - 1
        other = plan.after if field == "before" else plan.before
        return plan._replace(**{field: np.minimum(drawn, plan.noise.shape[2] - 1 - other)})

    return spoil


@pytest.mark.parametrize("field", ["before", "after"])
def test_a_wrong_time_is_noticed(field):
    policy = linear_family([GAIN], WIDTHS)
    spoil = other_time(field, 0.7)
    samples = all_samples(LOPSIDED.task("one"), policy, VARIANCE, 20, seed=2, spoil=spoil)
    gradients = ESTIMATORS["antithetic"].estimate(samples, VARIANCE, DISCOUNT)
    assert np.max(np.abs(linear_scores(gradients))) > 1.5 * LIMIT


def test_the_gradient_in_the_metric_of_the_kernel():
    # With κ(x, y) = Σ x_d y_d / std_d², ⟨F s, H s⟩ = Σ F_ad H_ad std_d²; so the function ∇U is
    # G s with G_ad = (∂U/∂M)_ad / std_d². The inner product here is that of the families.
    gradients = ESTIMATORS["antithetic"].estimate(linear_samples(), VARIANCE, DISCOUNT)
    _, batch, q = gradients.knots.shape
    directions, _ = linear_directions()
    for row in range(3):
        weights = np.zeros((batch, 1, 2))
        weights[:, 0] = gradients.weights[row]
        estimate = Family(Linear(WIDTHS), gradients.knots[row], weights)
        both = Family(
            Linear(WIDTHS),
            np.concatenate([estimate.knots, directions.knots]),
            np.block(
                [
                    [[np.pad(estimate.weights, ((0, 0), (0, 6), (0, 0)))]],
                    [[np.pad(directions.weights, ((0, 0), (1, 0), (0, 0)))]],
                ]
            ).reshape(batch + q, 7, 2),
        )
        expected = products(Gradients(gradients.knots[[row]], gradients.weights[[row]]), directions)
        np.testing.assert_allclose(both.inner_products()[0, 1:], expected[0], rtol=1e-10)
    exact = LOPSIDED.gradient(GAIN, VARIANCE, DISCOUNT)
    truth = linear_family([exact / np.square(WIDTHS), *np.eye(4).reshape(4, 2, 2)], WIDTHS)
    np.testing.assert_allclose(truth.inner_products()[0, 1:], exact.ravel(), rtol=1e-12)


def test_mirrored_actions_take_off_most_of_the_variance():
    directions, _ = linear_directions()
    variances = {}
    for name in ESTIMATORS:
        gradients = ESTIMATORS[name].estimate(linear_samples(), VARIANCE, DISCOUNT)
        variances[name] = products(gradients, directions).var(axis=0)
    # Measured: 9 to 14 with the same samples, the antithetic one with twice the rollouts after t.
    assert np.all(variances["geometric"] > 5.0 * variances["antithetic"])
    assert np.all(variances["geometric"] > variances["baseline"])


# Gaussian policies on a tightrope: the derivative by quadrature, and episodes that end. ------


def rope_return(policy, limit, nodes=240):
    """Return U of a nonlinear policy by Nyström's method, to about ten digits.

    V(x) = E[r(x, a)] + γ ∫ N(x'; m(x), s²) V(x') dx' over |x'| ≤ limit, where beyond it V = 0.
    """
    places, sizes = np.polynomial.legendre.leggauss(nodes)
    inside, weights = limit * places, limit * sizes
    width = ROPE["push"] * np.sqrt(ROPE["variance"])

    def reward_and_moves(x):
        h = policy(x[:, None])[:, 0, 0]
        reward = 2.0 - x**2 - ROPE["cost"] * (h**2 + ROPE["variance"])
        distance = (inside[None] - (ROPE["pull"] * x + ROPE["push"] * h)[:, None]) / width
        density = np.exp(-0.5 * distance**2) / (width * np.sqrt(2.0 * np.pi))
        return reward, density * weights

    reward, moves = reward_and_moves(inside)
    V = np.linalg.solve(np.eye(nodes) - DISCOUNT * moves, reward)
    starts = 0.05 + 0.55 * places
    reward, moves = reward_and_moves(starts)
    return 0.5 * float(sizes @ (reward + DISCOUNT * moves @ V))


@functools.cache
def rope_example(limit):
    """Return the policy, directions with their exact derivatives, and samples."""
    kernel = Gaussian(std=[0.6])
    knots = [[-1.0], [-0.2], [0.5], [1.3]]
    policy = Family(kernel, knots, [[[0.9]], [[-0.4]], [[-1.0]], [[-0.3]]])
    centres = np.array([[-1.2], [-0.5], [0.0], [0.4], [1.0]])
    directions = Family(kernel, centres, np.eye(5)[:, :, None])
    exact = []
    for direction in range(5):
        ends = []
        for size in (1e-4, -1e-4):
            moved = np.concatenate([policy.weights, size * directions.weights[:, [direction]]])
            shifted = Family(kernel, np.concatenate([policy.knots, centres]), moved)
            ends.append(rope_return(shifted, limit))
        exact.append((ends[0] - ends[1]) / 2e-4)
    samples = all_samples(rope_task(limit), policy, np.array([ROPE["variance"]]), 40, seed=5)
    return policy, directions, np.array(exact), samples


#: Ends nearly never, and ends often.
every_limit = pytest.mark.parametrize("limit", [8.0, 0.75])


@every_limit
def test_the_quadrature_agrees_with_the_rollouts(limit):
    policy, _, _, samples = rope_example(limit)
    U = rope_return(policy, limit)
    assert abs(scores(samples.returns.mean(axis=1), U)) < LIMIT
    assert rope_return(policy, limit, nodes=300) == pytest.approx(U, abs=1e-9)
    # Over before the sampled action: both rollouts after it are empty.
    over = np.mean(np.all(samples.values == 0.0, axis=2))
    assert over > 0.2 if limit == 0.75 else over < 0.001


@every_limit
@every_estimator
def test_the_mean_is_the_gradient_of_a_gaussian_policy(name, limit):
    _, directions, exact, samples = rope_example(limit)
    variance = np.array([ROPE["variance"]])
    gradients = ESTIMATORS[name].estimate(samples, variance, DISCOUNT)
    numbers = products(gradients, directions)
    assert np.max(np.abs(scores(numbers, exact))) < LIMIT
    assert np.max(np.abs(scores(numbers, 0.5 * exact))) > LIMIT


# What each estimator is, on given samples. ---------------------------------------------------


def given_samples(seed, rows, batch):
    generator = np.random.default_rng(seed)
    return Samples(
        observations=generator.standard_normal((rows, batch, 3)),
        deviations=generator.standard_normal((rows, batch, 2)),
        values=generator.standard_normal((rows, batch, 2)),
        returns=np.zeros((rows, batch)),
        steps=np.ones((rows, batch), dtype=np.int64),
    )


def test_the_printed_formula():
    samples = given_samples(0, rows=2, batch=1)
    gradients = ESTIMATORS["geometric"].estimate(samples, VARIANCE, 0.9)
    np.testing.assert_array_equal(gradients.knots, samples.observations)
    for i in range(2):
        # Algorithm 1, line 6.
        inverse = np.linalg.inv(np.diag(VARIANCE))
        w = inverse @ samples.deviations[i, 0] * samples.values[i, 0, 0] / (1.0 - 0.9)
        np.testing.assert_allclose(gradients.weights[i, 0], w, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"baseline"}))
def test_a_batch_is_the_mean_of_its_samples(name):
    samples = given_samples(1, rows=3, batch=8)
    whole = ESTIMATORS[name].estimate(samples, VARIANCE, 0.9)
    ones = [Samples(*(array[:, b : b + 1] for array in samples)) for b in range(8)]
    parts = [ESTIMATORS[name].estimate(one, VARIANCE, 0.9) for one in ones]
    np.testing.assert_array_equal(whole.knots, np.concatenate([p.knots for p in parts], axis=1))
    mean = np.concatenate([p.weights for p in parts], axis=1) / 8
    np.testing.assert_allclose(whole.weights, mean, rtol=1e-14)


def test_the_baseline_is_the_mean_of_the_others():
    samples = given_samples(2, rows=3, batch=8)
    weights = ESTIMATORS["baseline"].estimate(samples, VARIANCE, 0.9).weights
    for b in range(8):
        advantage = samples.values[:, b, 0] - np.delete(samples.values[:, :, 0], b, axis=1).mean(1)
        w = samples.deviations[:, b] / VARIANCE * advantage[:, None] / (1.0 - 0.9) / 8
        np.testing.assert_allclose(weights[:, b], w, rtol=1e-11)
    with pytest.raises(InputError, match="needs batch_size ≥ 2"):
        ESTIMATORS["baseline"].estimate(given_samples(2, rows=3, batch=1), VARIANCE, 0.9)
