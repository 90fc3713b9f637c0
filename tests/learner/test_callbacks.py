"""Evaluation on the way: it changes nothing, and keeps the best."""

import numpy as np
import pytest

from crosslearning import CrossLearner, EvaluationCallback
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import evaluate
from crosslearning.tasks.linear_quadratic import cart
from tests.learner.examples import assert_same_bits, drift

SMALL = {"max_knots": 20, "batch_size": 2, "step_size": 0.3, "seed": 4}


def carts(**settings):
    return CrossLearner("linear-quadratic", **{**SMALL, **settings})


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    path = tmp_path_factory.mktemp("best") / "best.safetensors"
    learner = carts()
    watch = EvaluationCallback(learner, 5, trials=6, horizon=20, path=path)
    learner.learn(40, watch)
    return learner, watch, path


def test_what_is_learned_is_the_same_with_it_and_without(watched):
    assert_same_bits(watched[0].family, carts().learn(40).family)
    tasks = [drift("a"), drift("b")]
    settings = {"epsilon": 1.0, "max_knots": 20, "estimator": "baseline", "batch_size": 4}
    plain = CrossLearner(tasks, **settings).learn(6)
    learner = CrossLearner(tasks, **settings)
    noisy = EvaluationCallback(learner, 2, trials=3, horizon=5, deterministic=False)
    assert_same_bits(learner.learn(6, noisy).family, plain.family)
    assert learner.steps == plain.steps


def test_the_curve_is_that_of_evaluate(watched):
    _, watch, _ = watched
    assert [point.iteration for point in watch.curve] == list(range(5, 41, 5))
    again = carts().learn(15)
    point = watch.curve[2]
    assert point.steps == again.steps
    for number, result in enumerate(point.results):
        task = again.tasks[number]
        options = {"trials": 6, "horizon": 20, "seed": 1}
        assert [result] == evaluate(again.policy(number), task, **options)
    returns = [result.discounted_return.value for result in point.results]
    assert point.mean_return == pytest.approx(np.mean(returns))


def test_the_best_policies_are_kept(watched):
    learner, watch, path = watched
    means = [point.mean_return for point in watch.curve]
    # Steps as long as these do not end with the best.
    assert watch.best.mean_return == max(means) == watch.best_return
    assert watch.best.iteration != learner.iteration
    then = carts().learn(watch.best.iteration)
    assert_same_bits(watch.best_family, then.family)
    saved = CrossLearner.load(path)
    assert saved.iteration == watch.best.iteration
    assert_same_bits(saved.family, then.family)
    assert [policy.name for policy in watch.best_policies] == [
        *(task.name for task in learner.tasks),
        "central",
    ]
    options = {"trials": 6, "horizon": 20, "seed": 1}
    results = zip(watch.best_policies, learner.tasks, strict=False)
    kept = [evaluate(policy, task, **options)[0] for policy, task in results]
    assert tuple(kept) == watch.best.results


def test_by_steps_it_evaluates_where_another_so_many_are_complete():
    learner, seen = carts(), []
    watch = EvaluationCallback(learner, 400, unit="steps", trials=1, horizon=2)
    learner.learn(30, [watch, lambda report: seen.append(learner.steps)])
    crossed = [b for a, b in zip([0, *seen], seen, strict=False) if b // 400 > a // 400]
    assert [point.steps for point in watch.curve] == crossed
    assert 2 < len(crossed) < 30


def test_the_central_policy_on_tasks_that_were_not_learned():
    learner = carts()
    other = [cart(0.7).task("m=0.7")]
    watch = EvaluationCallback(learner, 4, tasks=other, policies="central", trials=3, horizon=9)
    learner.learn(4, watch)
    (result,) = watch.curve[0].results
    assert (result.task, result.policy) == (other[0].name, "central")
    assert (result.trials, result.horizon) == (3, 9)


def test_by_total_return():
    learner = carts()
    watch = EvaluationCallback(learner, 2, by="total_return", trials=3, horizon=9)
    learner.learn(2, watch)
    totals = [result.total_return.value for result in watch.curve[0].results]
    assert watch.curve[0].mean_return == pytest.approx(np.mean(totals))


def test_points_are_plain_data():
    learner = CrossLearner("paper", max_knots=20)
    point = EvaluationCallback(learner, 1, trials=2, horizon=3).evaluate()
    plain = point.to_plain()
    assert plain["iteration"] == 0
    assert plain["mean_return"] == point.mean_return
    first = plain["results"][0]
    assert first["rates"]["crashed"]["value"] == point.results[0].rates["crashed"].value
    # Nobody has arrived yet: that is not known.
    assert first["means"]["arrival_time"] == {"value": None, "low": None, "high": None}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every must be a whole number of at least 1, got 0"),
        ({"every": "often"}, "every must be a whole number of at least 1, got 'often'"),
        ({"unit": "hours"}, "no such unit 'hours'"),
        ({"policies": "centre"}, "no such choice of policies 'centre'; did you mean 'central'"),
        ({"by": "return"}, "no such return 'return'"),
        ({"trails": 3}, "did you mean 'trials'"),
        ({"tasks": [drift("a")]}, "a are not among the learner's tasks.*policies='central'"),
    ],
)
def test_wrong_wishes_are_named(options, message):
    with pytest.raises(InputError, match=message):
        EvaluationCallback(carts(), **{"every": 1, **options})
