"""Relatedness: the score against textbook statistics, and a planted task that must be found."""

import json
import math

import numpy as np
import pytest
from benchmarks.relatedness import learn_family
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from crosslearning.analysis.relatedness import (
    chance_of_score,
    classical_scaling,
    relatedness,
    relatedness_of_family,
    separation,
)
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.rkhs import Family, Gaussian
from crosslearning.runs import make_config, train
from crosslearning.runs.metrics import late_multipliers

KERNEL = Gaussian(std=[1.0])


def family_of(weights):
    """Return functions on three knots; row f of the weights is function f."""
    return Family(KERNEL, [[0.0], [0.7], [2.0]], np.asarray(weights, dtype=float).T[:, :, None])


def reference_scores(points):
    """Return deleted studentised residuals of points in R^d, written as in a textbook."""
    scores = []
    for i, point in enumerate(points):
        others = np.delete(points, i, axis=0)
        variance = np.var(others, axis=0, ddof=1).sum()
        expected = variance * (1.0 + 1.0 / len(others))
        scores.append(np.linalg.norm(point - others.mean(axis=0)) / math.sqrt(expected))
    return np.array(scores)


@settings(max_examples=50, deadline=None)
@given(st.integers(3, 9), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_scores_are_deleted_studentised_residuals(tasks, dimension, seed):
    points = np.random.default_rng(seed).standard_normal((tasks, dimension))
    scores, distances, ranks, _ = separation(points @ points.T)
    np.testing.assert_allclose(scores, reference_scores(points), rtol=1e-6)
    apart = [
        np.linalg.norm(p - np.delete(points, i, axis=0).mean(axis=0)) for i, p in enumerate(points)
    ]
    np.testing.assert_allclose(distances, apart, rtol=1e-6, atol=1e-9)
    assert np.all((ranks >= 1.0) & (ranks <= max(1.0, tasks - 2)))
    # Where the centre is, and how large everything is, does not matter.
    moved = 3.0 * (points - np.full(dimension, 0.7))
    np.testing.assert_allclose(separation(moved @ moved.T)[0], scores, rtol=1e-5)


def test_one_direction_is_students_outlier_test():
    points = np.array([[0.0], [1.0], [2.0], [4.0], [12.0]])
    scores, _, ranks, _ = separation(points @ points.T)
    np.testing.assert_allclose(ranks, 1.0)
    others = points[:-1, 0]
    t = (12.0 - others.mean()) / (others.std(ddof=1) * math.sqrt(1 + 1 / 4))
    assert scores[-1] == pytest.approx(t)
    # Two-sided, N − 2 degrees of freedom, times the five tasks.
    assert chance_of_score(scores[-1], 5, 1.0) == pytest.approx(5 * 2 * stats.t.sf(t, 3))


@pytest.mark.parametrize("tasks", [3, 6, 12])
@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
def test_a_family_of_equals_rarely_has_one_that_stands_apart(tasks, decay):
    generator = np.random.default_rng(1)
    alarms, families = 0, 400
    for _ in range(families):
        points = generator.standard_normal((tasks, 20)) * decay ** np.arange(20.0)
        scores, _, ranks, _ = separation(points @ points.T)
        chances = [chance_of_score(s, tasks, r) for s, r in zip(scores, ranks, strict=True)]
        alarms += min(chances) <= 0.05
    # Three standard errors above 5 %.
    assert alarms / families <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / families)


def test_classical_scaling_keeps_distances_of_points_in_a_plane():
    points = np.array([[1.0, 0.5], [-2.0, 0.3], [0.1, 1.4], [0.4, -1.0]])
    places, share = classical_scaling(points @ points.T)
    assert share == pytest.approx(1.0)
    np.testing.assert_array_equal(places[-1], 0.0)
    together = np.vstack([points, np.zeros(2)])
    apart = [np.linalg.norm(p[:, None] - p, axis=2) for p in (places, together)]
    np.testing.assert_allclose(*apart, atol=1e-9)
    # A third direction is not in the plane; the share is that of the first two components.
    deep = np.vstack([np.hstack([points, [[1.0], [0.9], [-1.0], [-1.0]]]), np.zeros(3)])
    values = np.linalg.svd(deep - deep.mean(axis=0), compute_uv=False) ** 2
    share = classical_scaling(deep[:-1] @ deep[:-1].T)[1]
    assert share == pytest.approx(values[:2].sum() / values.sum())
    assert share < 0.95


def test_numbers_agree_with_the_functions_themselves():
    family = family_of([[1, 0, 0], [0.9, 0.1, 0], [1.1, 0, 0.2], [-1, 0.3, 0], [0.5, 0.1, 0.0]])
    result = relatedness_of_family(family, ["a", "b", "c", "odd"], 2.0, [0.1, 0.2, 0.0, 0.6])
    one, other, centre = family.select(0), family.select(3), family.select(4)
    assert result.distances[0, 3] == pytest.approx(one.distances_to(other)[0])
    assert result.tasks[3].distance == pytest.approx(other.distances_to(centre)[0])
    mean = family.mix([[1 / 3, 1 / 3, 1 / 3, 0, 0]])
    assert result.tasks[3].distance_to_others == pytest.approx(other.distances_to(mean)[0])
    assert result.ranked[0].task == "odd"
    assert [task.rank for task in result.ranked] == [1, 2, 3, 4]
    assert result.tasks[3].agreement < -0.9
    np.testing.assert_allclose(np.diag(result.cosines), 1.0)
    pulls = np.array([0.1, 0.2, 0.0, 0.6]) * family.distances()
    shares = [task.share_of_pull for task in result.tasks]
    np.testing.assert_allclose(shares, pulls / pulls.sum())
    assert "odd" in result.tasks[3].sentence
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["map"]["centre"] == [0.0, 0.0]


def test_others_that_agree_exactly():
    result = relatedness_of_family(
        family_of([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]), ["a", "b", "c", "odd"]
    )
    assert result.ranked[0].task == "odd"
    assert math.isinf(result.ranked[0].score)
    assert result.ranked[0].stands_apart
    assert "agree exactly" in result.ranked[0].sentence
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["tasks"][3]["score"] is None
    assert data["epsilon"] is None


@pytest.mark.parametrize(
    ("weights", "names", "multipliers", "message"),
    [
        ([[1, 0, 0], [0, 1, 0], [0, 0, 0]], ["a", "b"], None, "at least three tasks, got 2"),
        ([[1, 0, 0]] * 4, ["a", "b", "c"], None, "same function, as with epsilon = 0"),
        ([[1, 0, 0], [0, 1, 0]], ["a", "b", "c"], None, "3 names for 2 functions"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], ["a", "b", "c"], [1, -1, 0], "at least 0"),
    ],
)
def test_what_has_no_answer_is_refused(weights, names, multipliers, message):
    with pytest.raises(InputError, match=message):
        relatedness_of_family(family_of(weights), names, 1.0, multipliers)


def test_multipliers_are_those_of_the_last_quarter():
    lines = [{"iteration": k, "multiplier": {"a": float(k), "b": 1.0}} for k in range(10, 110, 10)]
    np.testing.assert_allclose(late_multipliers(lines, ["a", "b"]), [90.0, 1.0])
    lines[-1]["multiplier"]["a"] = None
    assert late_multipliers(lines, ["a", "b"])[0] == np.inf
    assert late_multipliers([], ["a"]) is None


def test_a_run_and_its_learner_say_the_same(tmp_path):
    fields = {"tasks": "linear-quadratic", "epsilon": 0.2, "iterations": 60, "step_size": 0.1}
    learner = train(tmp_path / "run", make_config(fields)).learner
    of_run, of_learner = relatedness(tmp_path / "run"), relatedness(learner)
    assert of_run.tasks[0].multiplier is not None
    assert of_learner.tasks[0].multiplier is None
    assert [t.score for t in of_run.tasks] == [t.score for t in of_learner.tasks]
    assert sum(task.share_of_pull for task in of_run.tasks) == pytest.approx(1.0)
    assert max(task.distance for task in of_run.tasks) <= 0.2 + 1e-9


def test_consensus_has_nothing_to_tell():
    learner = CrossLearner("linear-quadratic", 0.0, step_size=0.1).learn(5)
    with pytest.raises(InputError, match="same function"):
        relatedness(learner)


def test_the_planted_cart_ranks_first():
    # python -m benchmarks.relatedness counts 100 seeds of this family and of others.
    for seed in range(12):
        result, place = learn_family("carts", seed, planted=True)
        assert result.tasks[place].rank == 1, seed
        assert result.tasks[place].stands_apart, seed
        # Alone against all the others it has nearly half of the pull, the most there can be.
        assert 0.42 < result.tasks[place].share_of_pull < 0.52
        assert result.tasks[place].agreement < -0.8


def test_without_a_planted_task_none_stands_apart():
    for seed in range(6):
        result, _ = learn_family("carts", seed, planted=False)
        assert not any(task.stands_apart for task in result.tasks), seed


def test_the_planted_map_ranks_first():
    result, place = learn_family("maps", 0, planted=True)
    assert result.tasks[place].rank == 1
