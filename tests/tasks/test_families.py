"""Families: members drawn by seed, and environments that are what they say."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from crosslearning import CrossLearner
from crosslearning.errors import InputError
from crosslearning.learner.settings import METHODS
from crosslearning.tasks import check_task, task_set
from crosslearning.tasks.cart_pole import CartPole
from crosslearning.tasks.families import FAMILIES, gymnasium_pendulum
from crosslearning.tasks.pendulum import Pendulum
from tests.tasks.box2d import needs_box2d

every_family = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=needs_box2d) if n == "lunar-landers" else n for n in FAMILIES],
)


@every_family
def test_members_are_chosen_by_seed_and_number(name):
    family = FAMILIES[name]
    contexts = family.contexts(5, seed=3)
    assert contexts[:2] == family.contexts(2, seed=3)
    others = [*family.contexts(5, seed=4), *family.contexts(5, seed=3, unseen=True)]
    assert not any(context in others for context in contexts)
    for context in contexts:
        for key, value in context.items():
            low, high = family.ranges[key]
            assert low <= value <= high
    first = next(iter(family.ranges))
    assert {c[first] for c in family.contexts(3, **{first: 1.0})} == {1.0}
    with pytest.raises(InputError, match="no such context of a"):
        family.contexts(2, colour=1.0)
    with pytest.raises(InputError, match="count is 0"):
        family.contexts(0)


@every_family
def test_spread_moves_members_from_or_to_the_middle(name):
    family = FAMILIES[name]
    usual, half = family.contexts(4, seed=3), family.contexts(4, seed=3, spread=0.5)
    assert family.contexts(4, seed=3, spread=1.0) == usual
    middle = {key: 0.5 * (low + high) for key, (low, high) in family.ranges.items()}
    for one, other in zip(usual, half, strict=True):
        for key, value in middle.items():
            assert other[key] - value == pytest.approx(0.5 * (one[key] - value), abs=1e-12)
    for context in family.contexts(2, spread=0.0):
        assert context == pytest.approx(middle, abs=1e-12)


def test_members_that_are_alike_are_all_there():
    tasks = task_set("pendulums:3", spread=0.0)
    assert [task.name[-5:] for task in tasks] == ["no. 1", "no. 2", "no. 3"]
    assert len({tuple(task.dynamics.parameters) for task in tasks}) == 1


@pytest.mark.parametrize("spread", [-0.1, float("nan"), float("inf"), True])
def test_a_spread_that_is_none_is_refused(spread):
    with pytest.raises(InputError, match="spread is"):
        task_set("pendulums:2", spread=spread)


def test_a_spread_that_makes_masses_negative_is_refused():
    assert task_set("pendulums:50", spread=3.3)
    with pytest.raises(InputError, match="g could be below 0; give a spread of at most"):
        task_set("pendulums:2", spread=3.4)


@every_family
def test_every_member_is_a_sound_task(name):
    trained, unseen = task_set(f"{name}:2"), task_set(f"{name}:unseen:2")
    assert len({task.name for task in (*trained, *unseen)}) == 4
    for task in (trained[0], unseen[1]):
        check_task(task, episodes=2, steps=30)
        assert set(task.context) == set(FAMILIES[name].ranges)
    environment = trained[0].make()
    with warnings.catch_warnings():
        # Remarks on style, such as spaces that are not symmetric.
        warnings.simplefilter("ignore")
        check_env(environment.unwrapped, skip_render_check=True)
    environment.close()


@every_family
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_on_every_family(name, method):
    options = {
        "policy-gradient": {"batch_size": 1, "estimator": "geometric"},
        "models": {"round_steps": 15, "updates_per_round": 2, "rollouts": 4, "look_ahead": 4},
        "trust-region": {"episode_steps": 20, "least_steps": 20, "episodes": 2},
    }
    settings = {"method": method, "max_knots": 20, "discount": 0.8, **options[method]}
    learner = CrossLearner(f"{name}:2", 1.0, **settings)
    learner.learn(2)
    learner.close()
    assert learner.iteration == 2
    assert np.max(learner.family.distances()) <= 1.0 + 1e-9
    action, _ = learner.predict(np.zeros(learner.tasks[0].observation_space.shape))
    assert learner.tasks[0].action_space.contains(action)


@pytest.mark.parametrize("context", [{}, {"g": 7.5, "m": 1.2, "l": 0.85}])
def test_the_compiled_pendulum_moves_as_gymnasiums(context):
    ours, theirs = Pendulum(**context), gymnasium_pendulum(**context)
    generator = np.random.default_rng(0)
    start, _ = theirs.reset(seed=5)
    angle, speed = theirs.unwrapped.state
    seen, _ = ours.reset(options={"state": [angle, speed]})
    np.testing.assert_allclose(seen, start, atol=1e-6)
    for _ in range(60):  # Gymnasium's rounds to single precision on the way
        action = generator.uniform(-3.0, 3.0, 1).astype(np.float32)
        one, reward, *_ = ours.step(action)
        other, expected, *_ = theirs.step(action)
        np.testing.assert_allclose(one, other, atol=1e-4)
        assert reward == pytest.approx(float(expected), abs=1e-3)


def test_a_cart_pole_left_alone_loses_energy_to_friction():
    pole = CartPole(friction=0.1)
    pole.reset(options={"state": [0.0, 0.0, 2.0, 0.0, 0.0]})
    cart, mass, length = 0.5, 0.5, 0.6

    def energy(state):
        _, speed, angle, turn, _ = state
        tip_x = speed + 0.5 * length * turn * np.cos(angle)
        tip_y = -0.5 * length * turn * np.sin(angle)
        moving = 0.5 * cart * speed**2 + 0.5 * mass * (tip_x**2 + tip_y**2)
        turning = 0.5 * mass * length**2 / 12.0 * turn**2
        return moving + turning + mass * 9.82 * 0.5 * length * np.cos(angle)

    energies = [energy(pole.state)]
    for _ in range(60):
        pole.step([0.0])
        energies.append(energy(pole.state))
    # The integrator is of first order: small ripples, but a clear loss.
    assert np.all(np.diff(energies[::10]) < 0.05 * (max(energies) - min(energies)))
    assert energies[-1] < energies[0] - 0.02


def test_a_cart_stops_at_the_end_of_its_track():
    pole = CartPole(friction=0.0)
    end = pole.observation_space.high[0]
    pole.reset(options={"state": [end - 0.01, 5.0, 0.0, 0.0, 0.0]})
    seen, *_ = pole.step([0.0])
    assert seen[:2].tolist() == [end, 0.0]


def test_an_upright_pole_is_an_outcome():
    task = task_set("cart-poles:1")[0]
    states = np.zeros((2, 5))
    states[0, 4] = 20.0
    np.testing.assert_array_equal(task.outcomes(states)["upright"], [True, False])


@needs_box2d
def test_gymnasium_makes_what_the_family_says():
    task = task_set("lunar-landers:1")[0]
    lander = task.make()
    assert lander.unwrapped.gravity == pytest.approx(-task.context["gravity"])
    assert isinstance(lander.action_space, gymnasium.spaces.Box)
    lander.close()
