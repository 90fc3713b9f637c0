"""Policies that are kept are never worse than the first by their evidence, and within ε."""

import math

import numpy as np
import pytest

from crosslearning import PID, CrossLearner, task_set
from crosslearning.errors import InputError
from crosslearning.learner.internals import kept_line
from crosslearning.learner.keeping import (
    Candidate,
    Keeper,
    choose,
    predicted_gain,
    seen_gain,
)
from crosslearning.learner.model_based import method as model_based
from crosslearning.learner.model_based.comparison import (
    expected_gain,
    least_gain,
    likely_gain,
)
from crosslearning.learner.settings import ModelBased
from crosslearning.rkhs import Family, Gaussian

KERNEL = Gaussian(std=[1.0])
SMALL = {"method": "models", "round_steps": 20, "updates_per_round": 5, "seed": 1}


def family(*values: float) -> Family:
    """Return functions on one knot, so that distances are differences of the values."""
    return Family(KERNEL, [[0.0]], np.array(values)[None, :, None])


def candidate(functions: Family, iteration: int, *gains: float) -> Candidate:
    return Candidate(functions, np.full(len(gains), iteration), np.array(gains))


START = candidate(Family.zeros(KERNEL, 3, 1), 0, 0.0, 0.0)


def settings(epsilon: float = 1.0, **more: object) -> ModelBased:
    return ModelBased(epsilon=epsilon, budget=0.0, **more)


def chosen(kept: Candidate, current: Candidate, epsilon: float = 1.0) -> Candidate:
    return choose([START, kept, current], settings(epsilon))


def around(**more: object) -> CrossLearner:
    return CrossLearner("pendulums:2", around=PID(kp=2.0, measured=1), epsilon=0.3, **more)


# The choice -------------------------------------------------------------------------------


def test_each_task_keeps_its_best_policy_and_the_first_one_where_none_is_better():
    current = candidate(family(0.8, 0.6, 0.7), 10, 2.0, -0.1)
    kept = chosen(START, current)
    assert kept.iterations.tolist() == [10, 0]
    assert kept.gains.tolist() == [2.0, 0.0]
    np.testing.assert_allclose(kept.family([0.0]).ravel(), [0.8, 0.0, 0.7])


def test_ties_go_to_the_first_policy_then_to_the_one_kept_earlier():
    current = candidate(family(0.1, 0.2, 0.1), 10, 0.0, 1.0)
    earlier = candidate(family(0.3, 0.2, 0.2), 5, 0.0, 1.0)
    assert chosen(START, current).iterations.tolist() == [0, 10]
    assert chosen(earlier, current).iterations.tolist() == [0, 5]


def test_a_whole_candidate_is_kept_as_it_is():
    current = candidate(family(0.1, 0.2, 0.1), 10, 1.0, 1.0)
    assert chosen(START, current).family is current.family


def test_policies_of_different_iterations_are_within_epsilon_of_one_centre():
    generator = np.random.default_rng(0)
    mixed = 0
    for _ in range(200):
        epsilon = generator.uniform(0.2, 1.5)
        both = []
        for iteration in (5, 10):
            centre = generator.uniform(-2.0, 2.0)
            near = centre + epsilon * generator.uniform(-1.0, 1.0, 2)
            both.append(candidate(family(*near, centre), iteration, *generator.normal(size=2)))
        kept = chosen(*both, epsilon)
        assert np.all(kept.family.distances() <= epsilon * (1.0 + 1e-12))
        assert np.all(kept.gains >= 0.0)
        assert np.all(kept.family.norms()[:2][kept.iterations == 0] == 0.0)
        mixed += len(set(kept.iterations.tolist())) > 1
    assert mixed > 20


def test_one_policy_for_all_is_refused_if_one_task_would_be_worse():
    """With ε = 0 a task cannot keep its controller alone, so that all do."""
    current = candidate(family(1.0, 1.0, 1.0), 10, 5.0, -0.1)
    assert chosen(START, current, 0.0).iterations.tolist() == [0, 0]
    current = candidate(family(1.0, 1.0, 1.0), 10, 5.0, 0.1)
    assert chosen(START, current, 0.0).iterations.tolist() == [10, 10]


def test_the_relaxed_constraint_holds_for_mixtures():
    current = candidate(family(1.4, 0.0, 0.0), 10, 1.0, -1.0)
    earlier = candidate(family(0.5, 0.9, 0.0), 5, 0.5, 1.0)
    kept = choose([START, earlier, current], settings(1.0, projection="relaxed"))
    assert np.mean(kept.family.distances() ** 2) <= 1.0


# The bounds -------------------------------------------------------------------------------


def test_the_bound_of_a_prediction_covers_the_next_model():
    """The machine is one more sample of the posterior: it gains more than 95 % of the bounds."""
    generator = np.random.default_rng(1)
    draws = generator.normal(1.0, 2.0, (4000, 17))
    below = [draw[16] >= predicted_gain(draw[:16, None]) for draw in draws]
    assert abs(np.mean(below) - 0.95) < 0.015


def test_the_machines_own_starts_are_enough_where_models_agree_on_them():
    """Eight models agree on what is gained from two own starts, and on nothing from six others."""
    models = np.linspace(-5.0, 5.0, 8)[:, None]
    gains = np.hstack([np.full((8, 2), 1.0), 1.0 + models * np.ones((1, 6))])
    assert predicted_gain(gains) < 0.0
    assert predicted_gain(gains, own=2) == pytest.approx(1.0)
    # Starts that differ count as few, and all starts together must be expected to gain.
    uneven = gains + np.array([-0.5, 0.5, *[0.0] * 6])
    assert predicted_gain(uneven, own=2) < 1.0 - 0.1
    assert predicted_gain(gains - np.array([0.0, 0.0, *[2.0] * 6]), own=2) < 0.0


def test_policies_that_are_equal_gain_exactly_nothing():
    assert predicted_gain(np.zeros((8, 3))) == 0.0


@pytest.mark.parametrize(("gain", "kept"), [(0.5, False), (2.0, True), (-0.5, False)])
def test_a_gain_below_one_percent_is_not_worth_a_change(gain, kept):
    """Returns of −100 from three starts in eight models that agree."""
    before = np.full((1, 8, 3), -100.0)
    assert (least_gain(before, before + gain) > 0.0) == kept
    assert least_gain(before, before + gain) == pytest.approx(gain - 1.0)
    assert least_gain(before, before) == 0.0


def test_the_longest_episodes_must_be_expected_to_gain():
    before = np.full((2, 8, 3), -100.0)
    short, long = (np.full((8, 3), one) for one in (9.0, 4.0))
    assert least_gain(before, before + np.array([short, long])) == pytest.approx(8.0)
    assert least_gain(before, before + np.array([short, -long])) == pytest.approx(-5.0)


def test_real_returns_must_gain_one_percent_too():
    keeper, first = Keeper(START.family, settings()), np.full((2, 10), -100.0)
    keeper.saw(first, 0, lambda: START.family, None)
    gains = np.array([[0.5], [2.0]])
    again = lambda policies: (first, 40)  # noqa: E731
    assert keeper.saw(first + gains, 1, lambda: family(0.1, 0.1, 0.1), again) == 40
    assert keeper.kept.iterations.tolist() == [0, 1]
    np.testing.assert_allclose(keeper.kept.gains, [0.0, 1.0])


def test_what_was_seen_bounds_the_gain():
    first = np.sin(np.arange(50.0))
    assert seen_gain(first, first - 1.0) < -0.9
    assert seen_gain(first, first + 1.0) > 0.9
    assert seen_gain(first[:4], first) == math.inf


def test_real_returns_decide_without_models():
    keeper, generator = Keeper(START.family, settings()), np.random.default_rng(0)
    noise = generator.normal(0.0, 1.0, (2, 10))
    runs = []

    def again(policies):
        runs.append(policies)
        return noise, 40

    assert keeper.saw(noise, 0, lambda: START.family, again) == 0
    assert keeper.saw(noise - 1.0, 1, lambda: family(0.1, 0.1, 0.1), again) == 0
    assert not runs  # nothing looked better
    better = noise + generator.normal([[9.0], [0.1]], 0.5, (2, 10))
    assert keeper.saw(better, 2, lambda: family(0.5, 0.5, 0.5), again) == 40
    assert keeper.kept.iterations.tolist() == [2, 0]
    keeper.saw(better - 3.0, 3, lambda: family(0.9, 0.9, 0.9), again)
    np.testing.assert_allclose(keeper.kept.family([0.0]).ravel(), [0.5, 0.0, 0.5])
    assert len(runs) == keeper.tests == 1


# Learners ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["models", "trust-region", "policy-gradient"])
def test_steps_that_are_far_too_long_leave_the_controller(method):
    """Carts that an LQR controls optimally: every correction is worse."""
    from crosslearning import StateFeedback
    from crosslearning.tasks.linear_quadratic import cart

    systems = [cart(m) for m in (0.5, 2.0)]
    tasks = [
        one.task(f"m={i}").around(StateFeedback(-one.best_gain(0.9)))
        for i, one in enumerate(systems)
    ]
    long = {"step_size": 5.0} if method == "policy-gradient" else {"step_kl": 50.0}
    if method == "models":
        long |= {"updates_per_round": 6, "round_steps": 20}
    learner = CrossLearner(tasks, epsilon=5.0, method=method, seed=0, **long)
    learner.learn(12, progress=False)
    assert np.all(learner.last.family.norms()[:2] > 0.0)
    assert np.all(learner.family.norms() == 0.0)
    assert kept_line(learner) == (
        "Kept the controller on every task: no policy was better by its lower bound."
    )


def test_what_is_kept_satisfies_both_radii():
    learner = around(controller_epsilon=0.4, **SMALL).learn(10, progress=False)
    assert np.all(learner.family.distances() <= 0.3 * (1.0 + 1e-9))
    assert np.all(learner.family.norms() <= 0.4 * (1.0 + 1e-9))


@pytest.mark.parametrize(
    "make",
    [
        lambda: around(**SMALL),
        lambda: around(method="trust-region", most_steps=200, seed=1),
        lambda: from_nothing(),
    ],
    ids=["models", "trust-region", "models from nothing"],
)
def test_a_resumed_learner_keeps_the_same_to_the_last_bit(tmp_path, make):
    whole = make().learn(13, progress=False)
    make().learn(7, progress=False).save(tmp_path / "half.safetensors")
    resumed = CrossLearner.load(tmp_path / "half.safetensors").learn(6, progress=False)
    for view in ("best", "last"):
        one, other = getattr(whole, view).family, getattr(resumed, view).family
        np.testing.assert_array_equal(one.knots, other.knots)
        np.testing.assert_array_equal(one.weights, other.weights)
    whole.save(tmp_path / "a.safetensors")
    resumed.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_what_is_learned_from_nothing_does_not_depend_on_what_is_kept():
    kept, last = (
        from_nothing(keep=keep).learn(10, progress=False).last.family for keep in (None, "last")
    )
    np.testing.assert_array_equal(kept.weights, last.weights)


def test_what_is_learned_does_not_depend_on_what_is_kept():
    best, last = (around(keep=keep, **SMALL).learn(10, progress=False) for keep in ("best", "last"))
    np.testing.assert_array_equal(best.last.family.weights, last.family.weights)
    np.testing.assert_array_equal(best.family.weights, last.best.family.weights)
    assert last.family is last.last.family


def from_nothing(**more: object) -> CrossLearner:
    return CrossLearner("pendulums:2", 1.0, **{**SMALL, **more})


def test_without_a_controller_models_keep_what_they_expect_most_of():
    learner = from_nothing().learn(5, progress=False)
    assert learner.settings.keep == "expected"
    assert learner.best.family is learner.family
    # Of the first round there is nothing to compare with: no action is not kept.
    np.testing.assert_array_equal(learner.family.weights, learner.last.family.weights)
    assert kept_line(learner) == ""


@pytest.mark.parametrize("method", ["trust-region", "policy-gradient"])
def test_without_models_and_controller_the_last_policies_are_used(method):
    learner = CrossLearner("pendulums:2", 1.0, method=method)
    assert learner.settings.keep == "last"
    assert learner.best is learner.last
    assert kept_line(learner) == ""
    with pytest.raises(InputError, match=f"which {method} does not learn; take 'best'"):
        CrossLearner("pendulums:2", 1.0, method=method, keep="expected")


def test_the_current_policies_are_kept_unless_a_loss_of_one_percent_is_expected():
    before = np.full((1, 8, 3), -100.0)
    for loss, kept in ((0.5, 10), (1.5, 5)):
        gain = expected_gain(before, before - loss)
        assert gain == pytest.approx(1.0 - loss)
        both = [candidate(family(*[value] * 3), k, 0.0, 0.0) for value, k in ((0.0, 5), (9.0, 10))]
        both[1] = both[1]._replace(gains=np.array([gain, gain]))
        assert choose(both, settings(keep="expected")).iterations.tolist() == [kept, kept]


@pytest.mark.parametrize(("earlier", "kept"), [(-90.0, 5), (-110.0, 8)])
def test_policies_that_models_expect_less_of_are_not_kept(monkeypatch, earlier, kept):
    learner = from_nothing().learn(5, progress=False)
    core, before = learner._core, learner.family

    def imagined(family, world, starts, lengths, limits):
        return np.full((2, len(lengths), 16, 8), earlier if family is before else -100.0)

    monkeypatch.setattr(model_based, "imagined_returns", imagined)
    core.keeper.kept = Candidate(before, np.array([5, 5]), np.zeros(2))
    core.iterate.iteration, core.method.made = 8, 3  # within the second round
    assert core.kept.iterations.tolist() == [kept, kept]


@pytest.mark.parametrize(
    ("gain", "bound"), [(9.0, 5.0), (3.0, 2.0), (-2.0, -3.0), (0.0, 0.0)], ids=str
)
def test_a_bound_stays_unless_newer_models_expect_less(monkeypatch, gain, bound):
    """Models that disagree by hundreds on returns of −100 bound nothing by themselves."""
    learner = around(**SMALL).learn(5, progress=False)
    core, before = learner._core, learner.last.family
    spread = np.linspace(-300.0, 300.0, 16)[:, None]

    def imagined(family, world, starts, lengths, limits, replayed):
        more = gain + spread * (gain != 0.0) if family is before else 0.0
        return np.full((2, len(lengths), 16, 8), -100.0) + more

    monkeypatch.setattr(model_based, "imagined_returns", imagined)
    kept = Candidate(before, np.array([3, 3]), np.array([5.0, 5.0]))
    first = core.keeper.start.family
    gains = core.method.gains(core.iterate, first, kept)
    np.testing.assert_allclose(gains[0], bound)


def test_what_is_likely_is_the_mean_gain_of_the_longest_episodes_less_one_percent():
    before = np.full((2, 8, 3), -100.0)
    after = before + np.array([7.0, 3.0])[:, None, None]
    assert likely_gain(before, after) == pytest.approx(2.0)
    assert likely_gain(before, before) == 0.0


def test_expectations_are_of_whole_episodes_and_not_of_those_seen_so_far(monkeypatch):
    learner, seen = from_nothing().learn(5, progress=False), []

    def spy(family, world, starts, lengths, limits):
        seen.append(lengths)
        return np.zeros((2, len(lengths), 16, 8))

    monkeypatch.setattr(model_based, "imagined_returns", spy)
    learner._core.method.gains(learner._core.iterate, learner.family, learner._core.keeper.kept)
    assert seen == [[learner.tasks[0].horizon]] * 2


def test_an_expected_loss_of_one_task_may_be_outweighed():
    """Policies 2 ε apart have no common centre, so that one round's are kept for all tasks."""
    before = candidate(family(0.0, 0.0, 0.0), 5, 0.0, 0.0)
    far = family(3.0, 3.0, 3.0)
    expected = settings(1.0, keep="expected")
    for gains, kept in (([2.0, -1.0], [10, 10]), ([1.0, -2.0], [5, 5])):
        both = [before, candidate(far, 10, *gains)]
        assert choose(both, expected).iterations.tolist() == kept
        assert choose(both, settings(1.0)).iterations.tolist() == [5, 5]
    near = candidate(family(0.5, 0.5, 0.5), 10, 2.0, -1.0)
    assert choose([before, near], expected).iterations.tolist() == [10, 5]


def test_tasks_whose_earlier_policies_are_kept_are_counted(monkeypatch):
    learner = from_nothing()
    gains = np.array([[0.0, 0.0], [-1.0, -2.0]])
    monkeypatch.setattr(learner.method, "gains", lambda *_: gains)
    learner.learn(10, progress=False)
    assert learner._core.kept.iterations.tolist() == [5, 5]
    assert np.any(learner.family.weights.shape != learner.last.family.weights.shape) or np.any(
        learner.family.weights != learner.last.family.weights
    )
    assert kept_line(learner) == (
        "Kept earlier policies of 2 of 2 tasks: the models expect less of the last ones."
    )


def test_adapting_keeps_the_start_unless_the_models_know_better():
    learner = CrossLearner("pendulums:2", 1.0, **SMALL).learn(5, progress=False)
    (task,) = task_set("pendulums:unseen:1")
    adapted = learner.adapt(task, 5, start=0)
    assert adapted.settings.keep == "best"
    kept = adapted._core.kept
    start, now = learner.policy(0).function, adapted.policy(0).function
    assert (kept.iterations[0] == 0) == (now.distances_to(start)[0] < 1e-12)
