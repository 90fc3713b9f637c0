"""Algorithm 2 as a whole: what holds at every iteration, and what is learned in the end."""

import functools
import math

import gymnasium
import msgspec
import numpy as np
import pytest
from scipy import optimize

from crosslearning import CrossLearner, Task
from crosslearning.errors import InputError
from crosslearning.rkhs import Family, Gaussian, Linear
from crosslearning.rollouts import executor_for, plan_episodes
from crosslearning.tasks import linear_quadratic_set, task_set
from tests.learner.examples import (
    ROUGH,
    UNPRUNED,
    assert_same_bits,
    drift,
    recorded_gradients,
    recorded_reports,
)
from tests.rkhs.examples import extended_distances
from tests.rollouts.examples import gain_of

SYSTEMS = list(linear_quadratic_set().values())
all_projections = pytest.mark.parametrize("projection", ["exact", "relaxed", "free"])


# The constraint ------------------------------------------------------------------------------


@all_projections
def test_epsilon_zero_is_consensus(projection):
    learner = CrossLearner("paper", epsilon=0.0, projection=projection, max_knots=30)
    for _ in range(40):
        learner.learn(1)
        assert np.max(learner.family.distances()) < 1e-12
    assert np.min(learner.family.norms()) > 0.1


def test_epsilon_infinity_leaves_the_centre_alone():
    learner = CrossLearner("paper", epsilon=math.inf, max_knots=30)
    reports = recorded_reports(learner, 40)
    assert not any(report.projection.moved for report in reports)
    assert not learner.family.weights[:, -1].any()
    assert np.min(learner.family.norms()[:-1]) > 0.1
    assert all(np.all(np.isinf(report.numbers["gap"])) for report in reports)


class Replay:
    """An executor that runs one task of the plans that another learner has drawn."""

    workers = (0, 0)

    def __init__(self, executor, plans, task):
        self.executor, self.plans, self.part = executor, iter(plans), slice(task, task + 1)
        self.tasks = executor.tasks

    def samples(self, policies, plan, mirrored):
        recorded = next(self.plans)
        mine = type(recorded)(*(array[self.part] for array in recorded))
        return self.executor.samples(policies, mine, mirrored)


@pytest.mark.parametrize("rule", ["normalised", "adam"])
def test_epsilon_infinity_is_learning_alone(rule):
    # The same random numbers, no pruning: each policy is the one that its task learns alone.
    together = CrossLearner(
        "linear-quadratic",
        epsilon=math.inf,
        kernel=ROUGH,
        step_rule=rule,
        step_size=0.1,
        **UNPRUNED,
    )
    executor = together.method.executor
    plans, run = [], executor.samples
    executor.samples = lambda policies, plan, both: plans.append(plan) or run(policies, plan, both)
    together.learn(15)
    for i, task in enumerate(together.tasks):
        replay = Replay(executor_for([task]), plans, i)
        settings = msgspec.structs.asdict(together.settings) | {"kernel": ROUGH}
        alone = CrossLearner([task], executor=replay, **settings)
        assert all(report.pruning.removed == 0 for report in recorded_reports(alone, 15))
        mine, theirs = together.family.select(i), alone.family.select(0)
        assert mine.norms()[0] > 0.1
        # Sums over other dictionaries round otherwise, and a knot moved by δ is √(2δ) away.
        assert mine.distances_to(theirs)[0] < 1e-6


def test_epsilon_infinity_no_task_touches_another():
    # Another system in the second place changes no bit of the first policy.
    systems = [SYSTEMS, [SYSTEMS[0], SYSTEMS[2].replace(Q=[[5.0, 0.0], [0.0, 1.0]]), SYSTEMS[1]]]
    families = []
    for members in systems:
        tasks = [system.task(f"{n}") for n, system in enumerate(members)]
        learner = CrossLearner(
            tasks, epsilon=math.inf, kernel=ROUGH, step_size=0.1, **UNPRUNED
        ).learn(10)
        families.append(learner.family.select(0))
    first, second = (f.weights[f.weights[:, 0].any(axis=1)] for f in families)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("projection", "rule"), [("exact", "adam"), ("relaxed", "normalised")], ids=["exact", "relaxed"]
)
def test_every_iteration_keeps_its_promises(projection, rule):
    # A small cap, so that pruning works hard: the distances hold and the claims are true.
    epsilon, N = 0.5, 3
    learner = CrossLearner(
        "paper",
        epsilon=epsilon,
        projection=projection,
        step_rule=rule,
        step_size=0.3,
        budget=1e-2,
        max_knots=25,
        batch_size=2,
    )
    dictionary = learner._core.iterate.dictionary
    pruned, prune = [], dictionary.prune

    def recorded(*limits):
        before = dictionary.family(N + 1)
        certificate = prune(*limits)
        pruned.append((before, dictionary.family(N + 1), certificate))
        return certificate

    dictionary.prune = recorded
    active = forced = within = 0
    for iteration in range(300):
        (report,) = recorded_reports(learner, 1)
        family = learner.family
        assert report.iteration == learner.iteration == iteration + 1
        distances = family.distances()
        if projection == "exact":
            assert np.max(distances) <= epsilon * (1 + 1e-9)
        else:
            assert np.sum(distances**2) <= N * epsilon**2 * (1 + 1e-9)
        # Reported are the distances between projection and pruning, which cannot lengthen them,
        # in the dictionary's geometry: never below the true ones.
        before, after, certificate = pruned[-1]
        assert np.all(distances <= report.distances * (1 + 1e-9) + 1e-12)
        assert np.all(before.distances() <= report.distances * (1 + 1e-9) + 1e-12)
        np.testing.assert_allclose(report.distances, before.distances(), rtol=1e-3, atol=1e-6)
        assert_same_bits(after, family)
        assert len(family.knots) == certificate.knots <= 25
        truth = extended_distances(before, after)
        assert np.all(truth <= certificate.errors[: N + 1] * (1 + 1e-6) + 1e-14)
        if certificate.within_budget:
            assert np.max(truth) <= 1e-2 * (1 + 1e-9)
            within += 1
        active += bool(report.projection.active.any())
        forced += certificate.forced_by_cap
    # All of it happened: constraints that bind, removals by the cap, and within the budget.
    assert active > 100
    assert forced > 100
    assert within > 3


# Learning -------------------------------------------------------------------------------------

VARIANCE, DISCOUNT = 0.05, 0.9


def returns_of(gains):
    return np.array(
        [s.expected_return(M, VARIANCE, DISCOUNT) for s, M in zip(SYSTEMS, gains, strict=True)]
    )


@functools.cache
def best_return(epsilon):
    """Return max Σ_i U_i(M_i) with every ‖M_i − M_g‖ ≤ ε: problem (PCL), for linear policies."""

    def loss(flat):
        try:
            return -returns_of(flat.reshape(-1, 1, 2)[:3]).sum()
        except InputError:  # an unstable policy, tried by a line search
            return 1e3

    def slope(flat):
        gains = flat.reshape(-1, 1, 2)
        gradient = np.zeros_like(gains)
        for i, system in enumerate(SYSTEMS):
            gradient[i] = -system.gradient(gains[i], VARIANCE, DISCOUNT)
        return gradient.ravel()

    def room(flat):
        gains = flat.reshape(4, 2)
        return epsilon**2 - np.sum((gains[:3] - gains[3]) ** 2, axis=1)

    consensus = optimize.minimize(
        lambda M: loss(np.tile(M, 3)),
        np.zeros(2),
        jac=lambda M: slope(np.tile(M, 3)).reshape(3, 2).sum(axis=0),
    )
    if epsilon == 0.0:
        return -float(consensus.fun)
    solution = optimize.minimize(
        loss,
        np.tile(consensus.x, 4),
        jac=slope,
        method="SLSQP",
        constraints={"type": "ineq", "fun": room},
    )
    assert solution.success
    return -float(solution.fun)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
def test_learning_reaches_the_optimum_of_the_problem(epsilon, seed):
    learner = CrossLearner(
        "linear-quadratic",
        epsilon=epsilon,
        kernel=Linear([1.0, 1.0]),
        step_rule="decaying",
        step_size=0.1,
        step_decay=50.0,
        batch_size=8,
        seed=seed,
    )
    nothing = returns_of(np.zeros((3, 1, 2))).sum()
    learner.learn(400)
    gains = [gain_of(learner.family, f) for f in range(4)]
    reached = returns_of(gains[:3]).sum()
    best = best_return(epsilon)
    # The way from doing nothing to the optimum is long, and nearly all of it is gone.
    assert best - nothing > 8.0
    assert reached > nothing + 0.97 * (best - nothing)
    assert reached < best + 1e-3
    # Where the policies are close, the central one is nearly the best single policy for all.
    if epsilon <= 0.2:
        central = returns_of([gains[3]] * 3).sum()
        assert central > nothing + 0.97 * (best_return(0.0) - nothing)


@pytest.mark.parametrize("estimator", ["geometric", "antithetic", "baseline"])
def test_every_estimator_learns(estimator):
    learner = CrossLearner(
        "linear-quadratic",
        epsilon=0.2,
        kernel=Linear([1.0, 1.0]),
        estimator=estimator,
        step_rule="adam",
        step_size=0.05,
        batch_size=32,
        seed=1,
    ).learn(300)
    nothing, best = returns_of(np.zeros((3, 1, 2))).sum(), best_return(0.0)
    central = returns_of([gain_of(learner.family, 3)] * 3).sum()
    assert central > nothing + 0.8 * (best - nothing)


def test_gaussian_policies_learn_within_a_small_dictionary():
    def discounted(policy, task):
        plan = plan_episodes(np.random.default_rng(9), [task], 300, 60)
        rewards = executor_for([task]).episodes(policy.expansion, plan).rewards[0]
        return float(np.mean(rewards @ DISCOUNT ** np.arange(60)))

    learner = CrossLearner(
        "linear-quadratic", epsilon=0.5, step_size=0.1, max_knots=20, batch_size=8, seed=2
    )
    start = Family(learner.kernel, [[0.0, 0.0]], [[[0.0]]])
    learner.learn(400)
    for task, system in zip(learner.tasks, SYSTEMS, strict=True):
        nothing, reached = discounted(start, task), discounted(learner.central.function, task)
        best = system.expected_return(system.best_gain(DISCOUNT), 0.0, DISCOUNT)
        assert reached > nothing + 0.5 * (best - nothing)
    assert len(learner.family.knots) <= 20


# Stopping -------------------------------------------------------------------------------------


def gap_example(projection):
    """Return a learner's functions before an iteration, its gradients and its report."""
    learner = CrossLearner(
        "linear-quadratic", epsilon=0.4, projection=projection, step_size=0.5, max_knots=25, seed=3
    ).learn(30)
    before = learner.family
    gradients = recorded_gradients(learner)
    (report,) = recorded_reports(learner, 1)
    return before, gradients[0], report


@all_projections
def test_the_gap_is_the_largest_gain_in_the_ball(projection):
    before, gradients, report = gap_example(projection)
    epsilon, (N, B, _) = 0.4, gradients.knots.shape
    distances = before.distances()
    assert np.max(distances) > 0.3
    generator = np.random.default_rng(4)
    for i in range(N):
        radius = epsilon
        if projection == "relaxed":
            # What the other policies leave of Nε².
            others = np.sum(distances**2) - distances[i] ** 2
            radius = math.sqrt(N * epsilon**2 - others)
            assert abs(radius - epsilon) > 0.02
        # Functions on all knots: ∇̂_i, h_i, g, and random ones, some of them near ∇̂_i.
        knots = np.concatenate([before.knots, gradients.knots[i]])
        L = len(before.knots)
        weights = np.zeros((L + B, 3 + 400, 1))
        weights[L:, 0] = gradients.weights[i]
        weights[:L, 1], weights[:L, 2] = before.weights[:, i], before.weights[:, N]
        weights[:, 3:] = generator.standard_normal((L + B, 400, 1))
        near = 10.0 ** generator.uniform(-4.0, 0.0, 200)
        weights[:, 3:203] = weights[:, :1] + near[:, None] * weights[:, 3:203] * np.std(
            weights[:, 0]
        )
        products = Family(before.kernel, knots, weights).inner_products()
        norms = np.sqrt(np.diag(products))
        # h = g + radius · u / ‖u‖, u each function but h_i and g: the first is ∇̂_i itself.
        towards = products[0, 2] - products[0, 1]
        gains = towards + radius * np.delete(products[0] / norms, [1, 2])
        assert np.max(gains) <= report.numbers["gap"][i] * (1 + 1e-5)
        assert gains[0] == pytest.approx(report.numbers["gap"][i], rel=1e-5)
        assert np.max(gains[1:]) > 0.9 * report.numbers["gap"][i]
        assert report.numbers["gradient_norm"][i] == pytest.approx(norms[0], rel=1e-9)


def test_the_printed_rule_stops_at_the_first_small_gap():
    settings = {"epsilon": 0.3, "step_size": 0.1, "max_knots": 25, "seed": 5, "stopping": "batch"}
    reports = recorded_reports(CrossLearner("linear-quadratic", **settings), 40)
    gaps = [np.max(report.numbers["gap"]) for report in reports]
    assert min(gaps) > 0.0
    # The smallest so far, well before the last: a gap of alpha itself is small enough.
    smallest = int(np.argmin(gaps[:20]))
    assert smallest > 0
    learner = CrossLearner("linear-quadratic", alpha=gaps[smallest], **settings).learn(40)
    assert learner.iteration == smallest + 1
    learner = CrossLearner("linear-quadratic", alpha=0.999 * gaps[smallest], **settings).learn(20)
    assert learner.iteration == 20


def test_a_callback_sees_every_iteration_and_can_stop():
    seen = []
    learner = CrossLearner("linear-quadratic", seed=6)

    def callback(report):
        seen.append(report)
        return len(seen) == 7

    learner.learn(100, callback)
    assert [report.iteration for report in seen] == [1, 2, 3, 4, 5, 6, 7]
    assert learner.iteration == 7
    assert learner.steps == sum(report.steps for report in seen) > 7 * 3 * 4
    learner.learn(3)
    assert learner.iteration == 10


def test_what_a_report_says_of_the_rollouts():
    learner = CrossLearner("linear-quadratic", estimator="baseline", batch_size=6, seed=6)
    samples, run = [], learner.method.executor.samples
    learner.method.executor.samples = lambda *given: samples.append(run(*given)) or samples[-1]
    reports = recorded_reports(learner, 3)
    for report, drawn in zip(reports, samples, strict=True):
        assert drawn.returns.shape == (3, 6)
        np.testing.assert_array_equal(report.returns, drawn.returns.mean(axis=1))
        assert report.steps == drawn.steps.sum()


# Executors and environments -------------------------------------------------------------------


def test_threads_change_no_bit():
    families = [
        CrossLearner("paper", workers=workers, seed=7).learn(10).family for workers in (1, 2, 3)
    ]
    for other in families[1:]:
        assert_same_bits(families[0], other)


def test_seeds_decide():
    one, same, other = (CrossLearner("paper", seed=s).learn(5).family for s in (1, 1, 2))
    assert_same_bits(one, same)
    assert not np.array_equal(one.knots[:5], other.knots[:5])


def test_environments_without_compiled_dynamics_learn_the_same():
    # The same systems through Gymnasium, up to the rounding of the noise.
    compiled = task_set("linear-quadratic")
    plain = [
        Task(t.name, t.make, reset_size=t.reset_size, reset_options=t.reset_options, horizon=50)
        for t in compiled
    ]
    families = [
        CrossLearner(tasks, epsilon=0.3, kernel=ROUGH, step_size=0.2, seed=8, **UNPRUNED)
        .learn(8)
        .family
        for tasks in (compiled, plain)
    ]
    assert np.max(families[0].norms()) > 0.3
    assert np.max(families[0].distances_to(families[1])) < 1e-6


@pytest.mark.parametrize("estimator", ["geometric", "antithetic", "baseline"])
def test_a_time_limit_is_not_an_end(estimator):
    tasks = [drift("free"), drift("limited", time_limit=2)]
    learner = CrossLearner(tasks, discount=0.8, estimator=estimator, batch_size=8)
    assert learner.settings.epsilon == 3.0
    steps = [report.steps for report in recorded_reports(learner, 20)]
    # t has the mean γ/(1−γ) = 4, and as many steps again follow the action; both twice if the
    # action is mirrored.
    branches = 2 if estimator == "antithetic" else 1
    assert np.mean(steps) == pytest.approx(2 * 8 * branches * (4 + 5), rel=0.1)
    learner.close()


def test_any_gymnasium_environment_learns():
    tasks = [drift("free"), drift("limited", time_limit=2)]
    learner = CrossLearner(
        tasks,
        epsilon=0.5,
        kernel=Gaussian(std=[1.0, 1.0]),
        discount=0.8,
        batch_size=8,
        step_size=0.1,
    ).learn(60)
    # It has learned to push back towards the origin.
    corners = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    for policy in (learner.central, learner.policy("free"), learner.policy("limited")):
        np.testing.assert_array_equal(np.sign(policy.mean(corners)), -np.sign(corners))
    action, _ = learner.predict(corners[0].astype(np.float32))
    assert action.dtype == np.float32
    learner.close()


def test_pendulums_of_different_gravity():
    tasks = [
        Task(f"g={g:g}", functools.partial(gymnasium.make, "Pendulum-v1", g=g)) for g in (8.0, 12.0)
    ]
    learner = CrossLearner(tasks, batch_size=2, discount=0.8, seed=9)
    assert learner.steps == 0
    reports = recorded_reports(learner, 5)
    before = 2 * 4 * 100  # the initial exploration
    assert all(np.all(report.returns < 0.0) for report in reports)
    assert learner.steps == before + sum(report.steps for report in reports) > before + 20
    action, _ = learner.predict([1.0, 0.0, 0.0], task="g=12")
    assert action.shape == (1,)
    learner.close()
