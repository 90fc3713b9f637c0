"""Limits of observations: how they are held, counted and told."""

from contextlib import closing

import numpy as np
import pytest

from crosslearning import CrossLearner, Task
from crosslearning._base.statistics import clopper_pearson
from crosslearning.certificates import certificate_page, certify
from crosslearning.certificates.certificate import LimitLine
from crosslearning.errors import InputError
from crosslearning.figures.run import learning_figure
from crosslearning.learner.evaluation import run_episodes
from crosslearning.learner.limits import Limits, Penalties, crossed_share, penalty, penalty_slope
from crosslearning.learner.model_based.comparison import imagined_returns
from crosslearning.rollouts import Episodes
from crosslearning.runs import RunFolder, make_config, resume, train
from tests.learner.examples import Drift, assert_same_bits
from tests.learner.test_around import quick


def limited(**more):
    return Task(
        "one",
        lambda render_mode=None: Drift(),
        horizon=15,
        limits={0: (-0.5, 2.0)},
        observation_names=["x", "y"],
        **more,
    )


def test_the_penalty_is_smooth_and_its_slope_is_its_derivative():
    table = Penalties(
        np.array([0, 1]),
        np.array([1.0, -1.0]),
        np.array([[1.0, -2.0]]),
        np.array([0.5, 0.25]),
        np.array([[3.0, 2.0]]),
    )
    for state in np.random.default_rng(0).uniform(-3.0, 3.0, (200, 2)):
        slope, h = np.zeros(2), 1e-6
        penalty_slope(table, 0, state, slope)
        for d in range(2):
            step = h * np.eye(2)[d]
            difference = penalty(table, 0, state + step) - penalty(table, 0, state - step)
            np.testing.assert_allclose(slope[d], difference / (2 * h), atol=1e-5)
    assert penalty(table, 0, np.array([0.0, 0.0])) == 0.0
    assert penalty(table, 0, np.array([1.0, 0.0])) == 1.5  # at the limit


def test_multipliers_follow_the_crossings():
    limits = Limits([limited(), limited(chance=0.5)])
    limits.update(np.full((2, 2), 0.3), unit=2.0)
    assert np.all(limits.multipliers[0] > limits.multipliers[1])
    for _ in range(200):
        limits.update(np.zeros((2, 2)), unit=2.0)
    np.testing.assert_array_equal(limits.multipliers, 0.0)


@pytest.mark.parametrize("method", ["models", "trust-region"])
def test_crossings_are_counted_and_multipliers_kept_in_files(method, tmp_path):
    learner = quick(method, tasks=[limited()])
    reports = []
    learner.learn(4, reports.append, progress=False)
    assert {"limit_crossed", "limit_multiplier"} <= set(reports[-1].numbers)
    assert 0.0 <= reports[-1].numbers["limit_crossed"][0] <= 1.0
    learner.save(tmp_path / "half")
    again = CrossLearner.load(tmp_path / "half", tasks=[limited()])
    for one in (learner, again):
        one.learn(4, progress=False)
    assert_same_bits(learner.family, again.family)


def test_the_papers_method_refuses_limits_of_observations():
    with pytest.raises(InputError, match="holds no limits of observations"):
        quick("policy-gradient", tasks=[limited()])


def episodes_of(places, lengths):
    """Return episodes of tasks (N, n, T + 1) whose first observation is given."""
    places, lengths = np.array(places, dtype=np.float64), np.array(lengths)
    N, n, T = places.shape
    empty = Episodes.empty((N, n, T - 1), 2, 2)
    empty.observations[..., 0] = places
    return empty._replace(lengths=lengths)


def test_episodes_that_crossed_are_counted_over_all_batches():
    limits = Limits([limited()])  # x from −0.5 to 2
    limits.saw(episodes_of([[[0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]], [[2, 2]]))
    # What is repeated after the end of an episode does not count; either end does.
    newest = limits.saw(episodes_of([[[0.0, 0.0, 3.0], [-1.0, 0.0, 0.0]]], [[1, 2]]))
    np.testing.assert_array_equal(limits.seen, [[2.0], [4.0]])
    numbers = limits.numbers(newest)
    share = clopper_pearson(2, 4)
    found = [numbers[f"limit_crossed_so_far{end}"][0] for end in ("", "_low", "_high")]
    assert found == pytest.approx([share.value, share.low, share.high])
    assert numbers["limit_crossed"][0] == 0.5


@pytest.mark.parametrize("method", ["models", "trust-region"])
def test_counts_go_on_after_a_file(method, tmp_path):
    learner = quick(method, tasks=[limited()])
    reports = []
    learner.learn(4, reports.append, progress=False)
    counts = learner.method.limits.seen
    assert counts[1] > 0.0
    share = clopper_pearson(*(int(n) for n in counts[:, 0]))
    assert reports[-1].numbers["limit_crossed_so_far_high"][0] == pytest.approx(share.high)
    learner.save(tmp_path / "it")
    again = CrossLearner.load(tmp_path / "it", tasks=[limited()])
    np.testing.assert_array_equal(again.method.limits.seen, counts)


def test_the_learning_figure_draws_the_share_with_its_interval():
    line = {
        "iteration": 1,
        "steps": 10,
        "return": {"a": 0.0},
        "distance": {"a": 0.1},
        "multiplier": {"a": 0.0},
        "knots": 3,
        "limit_crossed_so_far": {"a": 0.2},
        "limit_crossed_so_far_low": {"a": 0.05},
        "limit_crossed_so_far_high": {"a": 0.45},
    }
    later = {**line, "iteration": 2, "steps": 20}
    figure = learning_figure([line, later], 1.0)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles.count("All episodes that crossed a limit, 95 %") == 1
    assert not any("low" in title for title in titles)
    panel = figure.axes[titles.index("All episodes that crossed a limit, 95 %")]
    heights = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.05, 0.45))
    assert panel.get_ylim()[1] > 0.45


# Holding them ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned():
    return quick("models", tasks=[limited()]).learn(4, progress=False)


def test_a_round_that_would_cross_gets_a_share_of_its_policy_and_noise(learned, monkeypatch):
    """The models here expect crossings in proportion to the policy that they are shown."""
    method, iterate = learned.method, learned._core.iterate
    policies = iterate.policies
    full = np.abs(policies.rows[0]).max()
    assert full > 0.0

    def expected(trial, generator, std):
        return np.full((1, 2), 0.19 * np.abs(trial.rows[0]).max() / full)

    monkeypatch.setattr(method, "_expected_crossings", expected)
    careful, std = method._within_limits(policies, method.noise.std, iterate.generator)
    # 19 %, 9.5 %, 4.75 %: a quarter is the first share with at most the 5 % that are allowed.
    np.testing.assert_allclose(careful.rows[0], 0.25 * policies.rows[0])
    np.testing.assert_array_equal(careful.rows[1:], policies.rows[1:])
    np.testing.assert_allclose(np.ravel(std), 0.25 * method.noise.std)


def test_policies_are_compared_by_returns_less_the_penalties(learned):
    method, family = learned.method, learned.family
    starts, length = np.concatenate([one.states for one in method.data])[method._firsts()], 10
    returns = {}
    for weight in (0.0, 2.0):
        limits = Limits([limited()])
        limits.restore({"limits": np.full((1, 2), weight)})
        # Narrow penalties around the whole range: everything costs.
        ends = np.full((1, 2), -50.0) * limits.penalties.sign
        limits.penalties = limits.penalties._replace(end=ends)
        returns[weight] = imagined_returns(family, method.world, starts, [length], limits)
        if weight:
            cheapest = length * float(limits.charge(0, np.array([[0.0, 0.0]]))[0])
    assert cheapest > 0.0
    assert np.all(returns[2.0] < returns[0.0] - 0.5 * cheapest)


# Certificates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crossed", "verdict"), [(0, "hold"), (5, "undecided"), (40, "do not hold")]
)
def test_a_verdict_is_that_of_the_exact_interval(crossed, verdict):
    assert LimitLine("one", clopper_pearson(crossed, 100), 0.05, 100).verdict == verdict


def test_a_certificate_tells_how_often_limits_are_crossed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "limited_machines.py").write_text(
        "from tests.learner.test_limits import limited\n"
        "def machines():\n    return [limited(chance=0.9)]\n"
    )
    fields = {"tasks": "limited_machines:machines", "method": "trust-region", "epsilon": 0.5}
    fields |= {"iterations": 2, "episode_steps": 10, "least_steps": 40, "log_every": 1}
    train("run", make_config(fields))
    made = certify("run", samples=20, episodes=30)
    (line,) = made.limits
    with closing(RunFolder.open("run").load()) as learner:
        again = run_episodes(learner.policy(0), learner.tasks[0], 30, seed=0)
        assert line.crossed == crossed_share(learner.tasks[0], again)
    assert line.allowed == pytest.approx(0.1)
    page = certificate_page(made)
    assert "5. Limits of observations" in page
    assert "Limits: " in page
    assert made.to_plain()["limits"][0]["verdict"] == line.verdict
    lines = RunFolder.open("run").read_metrics()
    assert set(lines[-1]["limit_crossed_so_far_high"]) == {"one"}
    assert resume("run", iterations=3).learner.method.limits.seen[1, 0] > 0
