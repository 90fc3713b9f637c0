"""The classifier of ends finds a threshold from few ends, and a region where there is none."""

import numpy as np

from crosslearning.learner.model_based.ends import choose_classifier, classifier


def steps(ended, seed, n=120):
    """Return points of two tasks in four coordinates, of which the second is an angle."""
    generator = np.random.default_rng(seed)
    low, high = [-0.2, -np.pi, 0.0, 0.0], [4.0, np.pi, 8.0, 1.0]
    points = [generator.uniform(low, high, (n, 4)) for _ in range(2)]
    return points, [ended(x).astype(np.float64)[:, None] for x in points]


def chosen(points, labels, **given):
    odds = float(np.log(np.mean(labels) / (1.0 - np.mean(labels))))
    choice = choose_classifier(points, labels, [1], odds, **given)
    return choice, classifier(points, labels, choice, [1], odds, 100)


def test_a_few_ends_show_a_threshold_of_one_coordinate():
    def below(x):
        return x[:, 0] < 0.0

    points, labels = steps(below, seed=0)
    assert 5 <= np.sum(labels) <= 15
    choice, found = chosen(points, labels)
    fresh, truth = steps(below, seed=1, n=1000)
    for i in range(2):
        said = found.probability(i, fresh[i]) > 0.5
        assert np.mean(said[truth[i][:, 0] == 1.0]) > 0.75
        assert np.mean(said[truth[i][:, 0] == 0.0]) < 0.02
    assert np.argmin(choice.widths / choice.units) == 0
    assert choice.alike > 0.9


def test_ends_of_two_coordinates_are_found():
    def corner(x):
        return (x[:, 0] < 1.0) & (x[:, 2] < 3.0)

    choice, found = chosen(*steps(corner, seed=2))
    fresh, truth = steps(corner, seed=3, n=500)
    said = found.probability(0, fresh[0]) > 0.5
    assert np.mean(said == (truth[0][:, 0] == 1.0)) > 0.9
    assert set(np.argsort(choice.widths / choice.units)[:2]) == {0, 2}


def test_the_start_and_the_similarity_of_tasks_count():
    points, labels = steps(lambda x: x[:, 2] > 7.5, seed=4)
    first, _ = chosen(points, labels, alike=1.0)
    assert first.alike == 1.0
    again, _ = chosen(points, labels, start=first)
    assert again.evidence >= first.evidence
