"""Lags that a learner chooses from its exploration."""

import json
import textwrap

import gymnasium
import numpy as np
import pytest
from rich.console import Console

from crosslearning import CrossLearner, StateFeedback, Task, learn_from
from crosslearning.errors import InputError
from crosslearning.figures.lags import lag_figure
from crosslearning.figures.report import gather, report_page
from crosslearning.learner.lags import LagEvidence, choose_lags, lagged
from crosslearning.learner.preparation import explore
from crosslearning.rkhs import Gaussian
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.tasks.loop import Loop
from tests.analysis.test_lags import cart
from tests.learner.examples import assert_same_bits


class Cart(gymnasium.Env):
    """A mass that an action pushes; its speed is not shown."""

    metadata = {"observation_names": ["place"], "rate": 10.0, "render_modes": []}  # noqa: RUF012
    resets = 0

    def __init__(self, mass=1.0, render_mode=None):
        self.observation_space = gymnasium.spaces.Box(-20.0, 20.0, (1,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
        self.mass, self.begun = mass, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Cart.resets += 1
        self.place, self.speed = self.np_random.uniform(-1.0, 1.0), 0.0
        return np.array([self.place]), {}

    def step(self, action):
        self.speed += 0.3 * float(action[0]) / self.mass
        self.place += 0.3 * self.speed
        return np.array([self.place]), -(self.place**2), False, False, {}


def carts(lags="auto", **fields):
    return [
        Task(f"cart {m}", lambda render_mode=None, m=m: Cart(m), horizon=30, lags=lags, **fields)
        for m in (0.8, 1.2)
    ]


QUICK = {"method": "models", "round_steps": 25, "updates_per_round": 2, "rollouts": 4}


def test_the_lags_that_pay_are_chosen_before_the_kernel_is_made():
    learner = CrossLearner(carts(), epsilon=1.0, **QUICK)
    learner.learn(2, progress=False)
    assert learner.lag_evidence.chosen == 1 == learner.tasks[0].lags
    assert learner.kernel.dimension == 2
    assert learner.tasks[0].observation_names == ("place", "change 1 of place")
    assert "Lags: 1, by the evidence of models with 0 to 3 lags" in str(learner.lag_evidence)


def test_it_learns_as_if_the_number_had_been_given():
    """Nothing is explored twice, and the episodes are those that policies with lags would see."""
    found = []
    for lags in ("auto", 1):
        tasks, Cart.resets = carts(lags), 0
        learner = CrossLearner(tasks, epsilon=1.0, **QUICK).learn(3, progress=False)
        found.append((learner.family, learner.steps, Cart.resets))
    assert found[0][1] == found[1][1]
    assert found[0][2] <= found[1][2] + 8 * len(tasks)  # starts in which circles are looked for
    assert_same_bits(found[0][0], found[1][0])


def test_a_saved_learner_has_the_number(tmp_path):
    learner = CrossLearner(carts(), epsilon=1.0, **QUICK).learn(2, progress=False)
    learner.save(tmp_path / "it")
    again = CrossLearner.load(tmp_path / "it", tasks=carts())
    assert again.lag_evidence == learner.lag_evidence
    assert [task.lags for task in again.tasks] == [1, 1]
    for one in (learner, again):
        one.learn(2, progress=False)
    assert_same_bits(learner.family, again.family)
    with pytest.raises(InputError, match="the kernel reads 2 numbers"):
        CrossLearner.load(tmp_path / "it", tasks=carts(lags=2))


def test_adapting_takes_the_number_of_the_learner():
    learner = CrossLearner(carts(), epsilon=1.0, **QUICK).learn(2, progress=False)
    for lags in ("auto", 0):
        (new,) = [one for one in carts(lags) if "0.8" in one.name]
        adapted = learner.adapt(new, 1, start=0)
        assert adapted.tasks[0].lags == 1


def test_around_a_controller_the_rest_of_what_is_observed_stays():
    tasks = [
        task.around(StateFeedback([[0.2]]))
        for task in carts(past_actions=1, setpoints={"place": 0.5})
    ]
    learner = CrossLearner(tasks, epsilon=0.5, **QUICK).learn(1, progress=False)
    assert learner.lag_evidence.chosen >= 1
    names = learner.tasks[0].observation_names
    assert names[:2] == ("place", "change 1 of place")
    assert names[-2:] == ("action 0 1 steps ago", "integral of the error of place")
    assert learner.kernel.dimension == len(names)


def test_lags_of_episodes_are_those_of_the_loop():
    task = carts(lags=2)[0]
    places = np.random.default_rng(0).normal(size=(12, 1))
    seen, _ = Loop(task.loop).replay(places, np.zeros((11, 1)))
    np.testing.assert_array_equal(lagged(places, task.machine_space, [], 2), seen)


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(InputError, match="the kernel is given"):
        CrossLearner(carts(), kernel=Gaussian(std=[1.0]), epsilon=1.0, **QUICK)
    with pytest.raises(InputError, match="some tasks alone"):
        CrossLearner([carts()[0], carts(0)[1]], epsilon=1.0, **QUICK)
    with pytest.raises(InputError, match="whole number up to 100, or 'auto'"):
        carts(lags="many")
    short = {**QUICK, "round_steps": 5}
    with pytest.raises(InputError, match="too few to tell how many lags"):
        CrossLearner(carts(), epsilon=1.0, **short).learn(1)


def test_a_log_tells_its_lags():
    log = {"one": [cart()], "two": [cart(seed=1)]}
    learner = learn_from(log, lags="auto", iterations=2, progress=False)
    assert learner.lag_evidence.chosen == 1
    assert learner.tasks[0].observation_size == 2


def test_a_run_writes_its_choice_and_goes_on_with_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lagged_carts.py").write_text(
        textwrap.dedent(
            """
            import gymnasium
            from tests.learner.test_lags import Cart

            gymnasium.register("Cart-v0", Cart, max_episode_steps=30)
            """
        )
    )
    (tmp_path / "tasks.toml").write_text(
        '[[task]]\nid = "lagged_carts:Cart-v0"\nlags = "auto"\ngrid = {mass = [0.8, 1.2]}\n'
    )
    config = make_config({"tasks": "tasks.toml", "epsilon": 1.0, "iterations": 2, **QUICK})
    outcome = train(tmp_path / "run", config, Console())
    assert "Lags: 1, by the evidence" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "lags.json").read_text())["lags"] == 1
    loaded = RunFolder.open(tmp_path / "run").load()
    assert [task.lags for task in loaded.tasks] == [1, 1]
    assert_same_bits(loaded.family, outcome.learner.family)
    longer = resume(tmp_path / "run", iterations=3)
    assert longer.learner.iteration == 3
    report = gather(tmp_path / "run", trials=2, samples=20)
    assert report.lags.chosen == 1
    assert "The evidence by which the lags were chosen" in report_page([report])


def test_the_curve_marks_the_choice():
    axes = lag_figure(LagEvidence((-1.0, 0.5, 0.51))).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [-1.0, 0.5, 0.51])
    assert axes.lines[1].get_xdata()[0] == 1
    assert [text.get_text() for text in axes.texts] == ["chosen: 1"]


def test_an_exploration_is_enough():
    """The hook takes episodes, whoever made them."""
    learner = CrossLearner(carts(0), epsilon=1.0, **QUICK)
    (episodes,) = explore(learner._executor, True, learner.settings, np.inf)
    tasks, (seen,), evidence = choose_lags(carts(), [episodes])
    assert evidence.chosen == tasks[0].lags == 1
    assert seen.observations.shape[-1] == 2
    np.testing.assert_array_equal(seen.observations[..., :1], episodes.observations)
