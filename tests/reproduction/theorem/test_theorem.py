"""The theorem's formulas: term by term, monotone where they must be, and turned round."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning import CrossLearner
from crosslearning._base.statistics import Interval
from crosslearning.errors import InputError
from crosslearning.reproduction import theorem
from crosslearning.reproduction.theorem import Constants, EstimatedConstants
from crosslearning.reproduction.theorem.messages import rule_sentence


def example(N: int = 2, **changes) -> Constants:
    numbers = {
        "deviation": np.array([3.0, 5.0, 1.0])[:N],
        "gradient_norm": np.array([2.0, 1.5, 4.0])[:N],
        "second_moment": np.array([2.5, 3.0, 4.5])[:N],
        "lipschitz": np.array([0.7, 0.2, 1.1])[:N],
        "batch_size": 16,
        "epsilon": 0.5,
        "step_size": 0.01,
        "budget": 0.002,
    }
    return Constants(**(numbers | changes))


@st.composite
def constants(draw, pruned: bool = True) -> Constants:
    def size(low=-2.0, high=2.0):
        return 10.0 ** draw(st.floats(low, high))

    N = draw(st.integers(1, 4))
    return Constants(
        deviation=np.array([size() for _ in range(N)]),
        gradient_norm=np.array([size() for _ in range(N)]),
        second_moment=np.array([size() for _ in range(N)]),
        lipschitz=np.array([size() for _ in range(N)]),
        batch_size=draw(st.integers(1, 1000)),
        epsilon=size(),
        step_size=size(-4.0, 1.0),
        budget=size(-6.0, -1.0) if pruned and draw(st.booleans()) else 0.0,
        projection=draw(st.sampled_from(["exact", "relaxed", "free"])),
    )


alphas = st.floats(-2.0, 3.0).map(lambda u: 10.0**u)
deltas = st.floats(0.001, 0.9)


# The printed formulas --------------------------------------------------------------------


@pytest.mark.parametrize("N", [1, 2, 3])
def test_the_printed_gain_term_by_term(N):
    # Lemma 2 of the paper, its nine terms in its order.
    c, alpha = example(N), 7.0
    b, beta, eta, L_max = 16, 0.002, 0.01, [0.7, 0.7, 1.1][N - 1]
    sigma, mu, B = [3.0, 5.0, 1.0][:N], [2.0, 1.5, 4.0][:N], [2.5, 3.0, 4.5][:N]
    gamma_F = alpha
    gamma_F -= 3 * (N + 1) * beta**2 * L_max
    gamma_F -= (N + 1) ** 0.5 * beta * sum(s / b**0.5 for s in sigma)
    gamma_F -= (N + 1) ** 0.5 * beta * sum(mu)
    gamma_F -= (3 * eta**2 * L_max + eta) * sum(x**2 for x in B)
    gamma_F -= eta * sum(mu) * sum(s / b**0.5 for s in sigma)
    gamma_F -= eta * sum(s / b**0.5 for s in sigma) ** 2
    gamma_F -= (N + 1) ** 0.5 * beta * sum(s / b**0.5 for s in sigma)
    assert theorem.printed_gain(c, alpha) == pytest.approx(gamma_F, rel=1e-13)
    accuracy = alpha + 2 * 0.5 * max(s * (1 / (0.1 * b)) ** 0.5 for s in sigma)
    assert theorem.printed_accuracy(c, alpha, 0.1) == pytest.approx(accuracy, rel=1e-13)


@given(constants(), alphas)
def test_the_printed_largest_step_is_where_the_sign_changes(c, alpha):
    step = theorem.printed_largest_step(c, alpha)
    if step is None:
        assert theorem.printed_gain(c.replace(step_size=1e-30), alpha) <= 0.0
    else:
        size = abs(theorem.printed_gain(c.replace(step_size=step), alpha))
        assert size <= 1e-9 * alpha
        assert theorem.printed_gain(c.replace(step_size=step * (1 - 1e-6)), alpha) > 0.0
        assert theorem.printed_gain(c.replace(step_size=step * (1 + 1e-6)), alpha) < 0.0


# The corrected gain ----------------------------------------------------------------------


@pytest.mark.parametrize("N", [1, 2, 3])
def test_the_gain_written_out_for_short_steps(N):
    # ηL ≤ 1 and ηα ≤ D²(2−x)/(3−2x): γ = η((3−2x)α²/D² − S²)/(2(2−x)) − βΣμ.
    c, alpha = example(N), 7.0
    eta, beta = 0.01, 0.002
    x = eta * [0.7, 0.7, 1.1][N - 1]
    S2 = sum(s**2 / 16 for s in [3.0, 5.0, 1.0][:N])
    slope = ((3 - 2 * x) * alpha**2 / 1.0**2 - S2) / (2 * (2 - x))
    expected = eta * slope - beta * sum([2.0, 1.5, 4.0][:N])
    assert theorem.gain(c, alpha) == pytest.approx(expected, rel=1e-13)
    assert theorem.iteration_bound(c, alpha, 10.0) == pytest.approx(10.0 / expected)


def test_the_gain_written_out_for_long_steps():
    # No curvature, no pruning, ηα > 2D²/3: γ = α − D²/(3η) − ηS²/4.
    c = example(2, lipschitz=np.zeros(2), budget=0.0, step_size=3.0)
    S2 = (9.0 + 25.0) / 16
    assert theorem.gain(c, 7.0) == pytest.approx(7.0 - 1.0 / 9.0 - 0.75 * S2, rel=1e-13)
    # Beyond 1/L: θ = 2 − x, ω = θ/2.
    c = example(2, budget=0.0, step_size=1.5 / 0.7)
    expected = 0.25 * (1.5 / 0.7) * 0.1**2 - (1.5 / 0.7) * S2
    assert theorem.gain(c, 0.1) == pytest.approx(expected, rel=1e-12)


def test_the_relaxed_projection_reaches_further():
    exact, relaxed = example(3), example(3, projection="relaxed")
    assert exact.reach == 1.0
    assert relaxed.reach == pytest.approx(np.sqrt(3.0))
    free = example(3, projection="free")
    assert free.reach == exact.reach
    assert theorem.shift_gain(free, 7.0) > theorem.shift_gain(exact, 7.0)
    assert theorem.gain(relaxed, 7.0) < theorem.gain(exact, 7.0)
    assert theorem.accuracy(relaxed, 1.0, 0.1) > theorem.accuracy(exact, 1.0, 0.1)


@given(constants(), alphas, st.floats(1.01, 5.0))
def test_the_gain_is_monotone(c, alpha, factor):
    here = theorem.gain(c, alpha)
    slack = 1e-12 * (abs(here) if math.isfinite(here) else 1.0) + 1e-300
    assert theorem.gain(c, factor * alpha) >= here - slack
    assert theorem.gain(c.replace(batch_size=2 * c.batch_size), alpha) >= here - slack
    for name in ("deviation", "lipschitz", "gradient_norm"):
        worse = c.replace(**{name: factor * getattr(c, name)})
        assert theorem.gain(worse, alpha) <= here + slack, name
    for name in ("epsilon", "budget"):
        worse = c.replace(**{name: factor * getattr(c, name)})
        assert theorem.gain(worse, alpha) <= here + slack, name
    if here > 0.0:
        assert theorem.iteration_bound(c, alpha, 2.0) == 2.0 / here
    else:
        assert theorem.iteration_bound(c, alpha, 2.0) == math.inf


@given(constants(), alphas, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.01, 0.99))
def test_the_gain_is_concave_in_the_step(c, alpha, one, other, share):
    top = 1.999 / c.smoothness
    ends = np.array([one, other]) * top + 1e-12
    between = share * ends[0] + (1 - share) * ends[1]
    low = [theorem.gain(c.replace(step_size=float(e)), alpha) for e in ends]
    middle = theorem.gain(c.replace(step_size=float(between)), alpha)
    chord = share * low[0] + (1 - share) * low[1]
    assert middle >= chord - 1e-9 * (abs(low[0]) + abs(low[1]) + alpha)


@settings(max_examples=60)
@given(constants(), alphas)
def test_the_step_range_is_where_the_gain_is_positive(c, alpha):
    steps, best = theorem.step_range(c, alpha), theorem.best_step(c, alpha)
    floor = theorem.noise_floor(c)

    def at(step):
        return theorem.gain(c.replace(step_size=step), alpha)

    grid = np.geomspace(1e-6, 1.999, 60) / c.smoothness
    values = np.array([at(float(step)) for step in grid])
    if steps is None:
        assert best is None
        assert alpha <= floor * (1 + 1e-6)
        assert np.all(values <= 1e-9 * alpha)
        return
    assert alpha >= floor * (1 - 1e-6)
    low, high = steps
    assert low < best < high <= 2.0 / c.smoothness
    assert at(best) >= values.max() - 1e-9 * alpha
    assert at(high * (1 - 1e-6)) > 0.0
    assert at(high * (1 + 1e-6)) <= 1e-9 * alpha
    if low > 0.0:
        assert at(low * (1 + 1e-6)) > 0.0
        assert at(low * (1 - 1e-6)) < 1e-9 * alpha
    else:
        assert theorem.pruning_loss(c) == 0.0


@given(constants(pruned=False))
def test_the_noise_floor_without_pruning(c):
    floor = theorem.noise_floor(c)
    assert floor == pytest.approx(c.reach * c.noise / math.sqrt(3.0))
    assert theorem.best_step(c, 1.001 * floor) is not None
    assert theorem.best_step(c, 0.999 * floor) is None


def test_steps_without_noise_and_without_curvature():
    zeros = np.zeros(2)
    still = example(2, deviation=zeros, budget=0.0)
    assert theorem.step_range(still, 1.0) == (0.0, 2.0 / 0.7)
    straight = example(2, lipschitz=zeros, budget=0.0)
    best = straight.reach / (math.sqrt(0.75) * straight.noise)
    assert theorem.best_step(straight, 7.0) == pytest.approx(best, rel=1e-6)
    both = example(2, deviation=zeros, lipschitz=zeros)
    low, high = theorem.step_range(both, 7.0)
    assert math.isinf(high)
    assert math.isinf(theorem.best_step(both, 7.0))
    assert theorem.gain(both.replace(step_size=low), 7.0) == pytest.approx(0.0, abs=1e-12)
    assert theorem.step_range(both, 0.001) is None


# A stop ----------------------------------------------------------------------------------


@given(constants(), alphas, deltas, st.integers(1, 50))
def test_accuracy_and_the_probability_of_a_false_stop_are_inverse(c, alpha, delta, looks):
    promised = theorem.accuracy(c, alpha, delta, looks)
    assert promised > alpha or promised == pytest.approx(alpha)
    if promised > 1.000001 * alpha:
        again = theorem.false_stop_probability(c, alpha, promised, looks)
        assert again == pytest.approx(delta, rel=1e-6)
    assert theorem.accuracy(c, alpha, delta / 2, looks) >= promised
    assert theorem.accuracy(c, alpha, delta, looks + 1) >= promised


@given(constants(), alphas, st.floats(1.01, 10.0), deltas, st.integers(1, 50))
def test_the_batch_is_the_smallest_that_is_enough(c, alpha, factor, delta, looks):
    wanted = factor * alpha
    batch = theorem.batch_for(c, alpha, wanted, delta, looks)
    assert theorem.accuracy(c.replace(batch_size=batch), alpha, delta, looks) <= wanted
    if 1 < batch < 2**50:  # beyond, one more is lost in rounding
        fewer = c.replace(batch_size=batch - 1)
        assert theorem.accuracy(fewer, alpha, delta, looks) > wanted


@given(constants(), alphas)
def test_the_batch_for_a_gain_is_the_smallest_that_is_enough(c, alpha):
    batch = theorem.batch_for_gain(c, alpha)
    if batch is None:
        assert theorem.gain(c.replace(deviation=0.0 * c.deviation), alpha) <= 0.0
        return
    assert theorem.gain(c.replace(batch_size=batch), alpha) > 0.0
    if 1 < batch < 2**50:
        assert theorem.gain(c.replace(batch_size=batch - 1), alpha) <= 0.0


@given(constants(), alphas)
def test_the_largest_budget_is_where_the_sign_changes(c, alpha):
    budget = theorem.largest_budget(c, alpha)
    if budget is None:
        assert theorem.gain(c.replace(budget=0.0), alpha) <= 0.0
    else:
        assert theorem.gain(c.replace(budget=0.999 * budget), alpha) > 0.0
        assert theorem.gain(c.replace(budget=1.001 * budget), alpha) < 0.0


def test_one_look_is_the_printed_accuracy_and_all_tasks_at_once_need_the_sum():
    c = example(3)
    assert theorem.accuracy(c, 1.0, 0.1) == pytest.approx(theorem.printed_accuracy(c, 1.0, 0.1))
    sums = math.sqrt(9.0 + 25.0 + 1.0) / math.sqrt(16 * 0.1)
    assert theorem.simultaneous_error(c, 0.1) == pytest.approx(sums)


def test_ends_of_epsilon():
    free, one = example(2, epsilon=math.inf), example(2, epsilon=0.0)
    assert theorem.gain(free, 1.0) < 0.0
    assert theorem.accuracy(free, 1.0, 0.1) == math.inf
    assert theorem.noise_floor(free) == math.inf
    assert theorem.batch_for(free, 1.0, 2.0, 0.1) is None
    assert theorem.step_range(free, 1.0) is None
    assert theorem.false_stop_probability(free, 1.0, 2.0) == 1.0
    assert theorem.accuracy(one, 1.0, 0.1) == 1.0
    assert theorem.step_range(one, 1.0) is None
    silent = example(2, deviation=np.zeros(2), epsilon=math.inf)
    assert theorem.accuracy(silent, 1.0, 0.1) == theorem.printed_accuracy(silent, 1.0, 0.1) == 1.0


# Where the numbers come from -------------------------------------------------------------


def test_constants_from_estimates_take_the_upper_ends():
    def estimated(task, up, *values):
        return EstimatedConstants(task, 9, *(Interval(v, v - 0.5, v + up) for v in values), 0.1)

    # In the order of the class: σ, B, μ, L.
    estimates = [estimated("a", 0.5, 3.0, 2.5, 2.0, 0.7), estimated("b", 1.0, 5.0, 3.0, 1.5, 0.6)]
    options = {"projection": "relaxed", "step_rule": "constant", "step_size": 0.1}
    learner = CrossLearner("linear-quadratic", 1.0, batch_size=2, budget=0.01, **options).learn(1)
    c = Constants.from_estimates(learner, estimates)
    np.testing.assert_array_equal(c.deviation, [3.5, 6.0])
    np.testing.assert_array_equal(c.gradient_norm, [2.5, 2.5])
    np.testing.assert_array_equal(c.second_moment, [3.0, 4.0])
    np.testing.assert_array_equal(c.lipschitz, [1.2, 1.6])
    assert (c.batch_size, c.epsilon, c.step_size, c.budget) == (2, 1.0, 0.1, 0.01)
    assert c.projection == "relaxed"
    c = Constants.from_estimates(learner, estimates, cautious=False)
    np.testing.assert_array_equal(c.deviation, [3.0, 5.0])


def test_the_effective_step_is_what_multiplied_the_gradients():
    normalised = CrossLearner("paper", max_knots=50, step_rule="decaying", step_clip=np.inf)
    with pytest.raises(InputError, match="no iteration yet"):
        theorem.effective_step_sizes(normalised)
    np.testing.assert_array_equal(normalised.method.step_sizes(0), np.zeros(3))
    norms = []
    normalised.learn(3, lambda report: norms.append(report.numbers["gradient_norm"]))
    keep, mean = 0.99, np.zeros(3)
    for norm in norms:
        mean = keep * mean + (1 - keep) * norm**2
    size = 2.0 / math.sqrt(1.0 + 2 / 500.0)
    expected = size / np.sqrt(mean / (1 - keep**3))
    np.testing.assert_allclose(theorem.effective_step_sizes(normalised), expected, rtol=1e-12)
    plain = CrossLearner("paper", max_knots=50, step_rule="constant", step_size=0.003).learn(1)
    np.testing.assert_array_equal(theorem.effective_step_sizes(plain), np.full(3, 0.003))


def test_weighted_constants():
    c = example(2).weighted([0.2, 0.1])
    assert c.step_size == 0.2
    np.testing.assert_allclose(c.deviation, [3.0, 2.5])
    np.testing.assert_allclose(c.lipschitz, [0.7, 0.1])
    with pytest.raises(InputError, match="a positive number for each task"):
        example(2).weighted([0.2, 0.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deviation": [1.0, np.nan]}, "deviation is .*finite number"),
        ({"lipschitz": [1.0]}, "lipschitz is .*one finite number"),
        ({"gradient_norm": [-1.0, 1.0]}, "gradient_norm is"),
        ({"second_moment": 1.0}, "second_moment is"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"epsilon": -1.0}, "epsilon must be at least 0"),
        ({"epsilon": np.nan}, "epsilon must be at least 0"),
        ({"epsilon": 1e200}, "epsilon must be at least 0 .*not beyond 1e.70"),
        ({"step_size": 0.0}, "step_size must be positive and finite"),
        ({"budget": np.inf}, "budget must be finite"),
        ({"projection": "none"}, "projection must be exact, relaxed or free"),
    ],
)
def test_bad_constants_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        example(2, **changes)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, 1e308, 1e-320])
def test_bad_questions_are_refused(bad):
    c = example(2)
    for ask in (
        theorem.gain,
        theorem.shift_gain,
        theorem.printed_gain,
        theorem.best_step,
        theorem.step_range,
        theorem.printed_largest_step,
        theorem.batch_for_gain,
        theorem.largest_budget,
    ):
        with pytest.raises(InputError, match="alpha must be positive and finite, from 1e-70"):
            ask(c, bad)
    for delta in (bad, 1.0, 1e-320):
        for ask in (theorem.accuracy, theorem.printed_accuracy, theorem.sentences):
            with pytest.raises(InputError, match="delta must be between 0 and 1, at least"):
                ask(c, 1.0, delta)
        with pytest.raises(InputError, match="delta must be"):
            theorem.simultaneous_error(c, delta)
    with pytest.raises(InputError, match="alpha_prime must be finite and above"):
        theorem.batch_for(c, 1.0, bad if bad < 1.0 else 1.0, 0.1)
    with pytest.raises(InputError, match="alpha_prime must be finite and above"):
        theorem.false_stop_probability(c, 1.0, 0.9)
    for looks in (0, 1.5, True):
        with pytest.raises(InputError, match="looks must be a whole number"):
            theorem.accuracy(c, 1.0, 0.1, looks)
    with pytest.raises(InputError, match="rise must be finite and at least 0"):
        theorem.iteration_bound(c, 1.0, -1.0)


# In words --------------------------------------------------------------------------------


def test_sentences_say_what_holds():
    # A little noise, a fine batch: everything holds.
    c = example(2, batch_size=4000, budget=0.0, epsilon=0.5)
    said = theorem.sentences(c, 0.5, 0.1, rise=10.0)
    assert list(said) == ["possible", "gain", "iterations", "step", "printed", "stop"]
    assert f"gains at least {theorem.gain(c, 0.5):.4g}" in said["gain"]
    assert f"at most {theorem.iteration_bound(c, 0.5, 10.0):.4g}." in said["iterations"]
    promised = f"α' = {theorem.accuracy(c, 0.5, 0.1):.4g} with probability at most 0.1."
    assert promised in said["stop"]
    assert "vacuous" not in " ".join(said.values())
    assert "weighted" not in " ".join(said.values())
    weighted = theorem.sentences(c, 0.5, 0.1, weighted=True)
    assert list(weighted) == ["possible", "gain", "step", "printed", "stop"]
    assert "where a weighted gap exceeds" in weighted["possible"]
    assert "some weighted gap exceeds the weighted α = 0.5" in weighted["gain"]


def test_sentences_say_what_is_vacuous_and_what_would_help():
    c = example(2, batch_size=1, budget=0.0)
    said = theorem.sentences(c, 0.5, 0.1, rise=10.0)
    assert list(said) == ["possible", "gain", "remedy", "step", "printed", "stop"]
    assert "vacuous for every α" in said["possible"]
    assert f"with a batch of {theorem.batch_for_gain(c, 0.5):,}." in said["remedy"]
    assert said["step"] == "No step size makes it positive at batch size 1."
    assert "no gap can be above 2, so this is vacuous" in said["stop"]
    long = example(2, step_size=4.0)
    assert "take η below 2.857" in theorem.sentences(long, 1.0, 0.1)["remedy"]
    pruned = example(2, budget=0.1, batch_size=10**6)
    said = theorem.sentences(pruned, 1.0, 0.1)
    assert "No batch helps: pruning by up to 0.1" in said["remedy"]
    assert "η above" in said["step"]


def test_sentences_for_an_alpha_that_asks_for_nothing():
    assert "asks for nothing" in theorem.sentences(example(2), 100.0, 0.1)["possible"]


@pytest.mark.parametrize(("epsilon", "words"), [(math.inf, "ε is infinite"), (0.0, "ε is 0")])
def test_sentences_at_the_ends_of_epsilon(epsilon, words):
    said = theorem.sentences(example(2, epsilon=epsilon), 1.0, 0.1)
    assert list(said) == ["epsilon"]
    assert said["epsilon"].startswith(words)


def test_a_sentence_names_what_the_step_rule_leaves_out():
    assert rule_sentence("constant", 1.0) == ""
    for rule in ("normalised", "decaying", "adam"):
        assert "root mean square" in rule_sentence(rule, 1.0)
        assert "biased" in rule_sentence(rule, 1.0)
        assert "biased" not in rule_sentence(rule, math.inf)
    assert "Momentum" in rule_sentence("adam", 1.0)
    assert "fall over time" in rule_sentence("decaying", 1.0)


# The ends of the numbers -----------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-70, 1e-30, 1e70])
@pytest.mark.parametrize("delta", [1e-70, 0.5])
@pytest.mark.parametrize("epsilon", [1e-70, 0.5, 1e70])
def test_the_least_and_the_most_that_may_be_asked(alpha, delta, epsilon):
    c = example(2, epsilon=epsilon)
    said = theorem.sentences(c, alpha, delta)
    assert "stop" in said
    assert all(len(sentence) < 400 for sentence in said.values())
    batch = theorem.batch_for(c, alpha, 2.0 * alpha, delta)
    assert batch is None or batch >= 1


def test_a_batch_beyond_all_counting_is_found_at_once():
    # 2⁵³ and its neighbour are one number: stepping down by one would never end.
    c = example(2)
    batch = theorem.batch_for(c, 1.0, 2.0, 1e-30)
    assert batch == pytest.approx(25.0 * 1e30, rel=1e-9)
