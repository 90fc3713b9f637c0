"""Machines and their controllers: physics as in the textbooks, and loops that hold."""

import math

import numpy as np
import pytest
import scipy.linalg
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from crosslearning import evaluate
from crosslearning.tasks import machines, task_set
from crosslearning.tasks.families import FAMILIES

CONTROLLERS = {
    "hovering-masses": machines.hovering_pd,
    "two-tanks": machines.tank_pi,
    "quadrotors": machines.quadrotor_lqr,
    "reactors": machines.reactor_pi,
    "standing-cart-poles": machines.cart_pole_lqr,
    "pendulums": machines.pendulum_swing_up,
    "four-tanks": machines.four_tank_pi,
    "dc-motors": machines.dc_motor_pi,
    "synchronous-motors": machines.synchronous_pi,
    "two-rooms": machines.heating_pi,
    "patients": machines.glucose_pid,
    "standing-acrobots": machines.acrobot_lqr,
}
#: Where more than the numbers of a machine decides, or few starts do.
UNCLEAR = "reactors", "patients", "two-rooms", "standing-acrobots"
HOLDING = [name for name in CONTROLLERS if name != "pendulums"]


def nominal(name):
    return FAMILIES[name].contexts(1, spread=0.0)[0]


def after(environment, state, action):
    """Return the state after a step, and the reward."""
    environment.reset(options={"state": state})
    reward = environment.step(action)[1]
    return environment.state, reward


def solved(slope, state, seconds):
    return solve_ivp(lambda _, s: slope(s), (0.0, seconds), state, rtol=1e-9, atol=1e-10).y[:, -1]


# Physics against the differential equations --------------------------------------------------


def test_a_hovering_mass_moves_by_newtons_law():
    mass, gain, drag, lag, asked = 1.2, 0.9, 0.4, 0.2, 14.0
    environment = machines.HoveringMass(mass=mass, gain=gain, drag=drag, lag=lag)

    def slope(state):
        _, speed, thrust = state
        return [speed, (gain * thrust - drag * speed) / mass - 9.81, (asked - thrust) / lag]

    state, reward = after(environment, [0.5, -0.3, 11.0], [asked])
    # Ten steps of a first-order integrator.
    np.testing.assert_allclose(state, solved(slope, [0.5, -0.3, 11.0], 0.1), atol=0.05)
    hover = mass * 9.81 / gain
    assert reward == pytest.approx(-(0.25 + 0.1 * 0.09 + 0.01 * (asked - hover) ** 2))


def test_without_a_lag_the_thrust_is_what_was_asked_for():
    environment = machines.HoveringMass(mass=1.1, gain=0.95)
    hover = 1.1 * 9.81 / 0.95
    state, reward = after(environment, [0.0, 0.0, 3.0], [hover])
    np.testing.assert_allclose(state, [0.0, 0.0, hover], atol=1e-12)
    assert reward == pytest.approx(0.0, abs=1e-20)
    for _ in range(30):
        seen, *_ = environment.step([0.0])
    assert seen.tolist() == [-5.0, 0.0]  # it lies on the ground


def test_tanks_drain_by_torricellis_law():
    environment = machines.TwoTanks(upper_area=14.0, lower_outlet=0.17, pump=3.1)

    def slope(levels):
        between, out = 0.18 * math.sqrt(1962.0 * levels[0]), 0.17 * math.sqrt(1962.0 * levels[1])
        return [(3.1 * 8.0 - between) / 14.0, (between - out) / 15.5]

    levels, reward = after(environment, [12.0, 18.0], [8.0])
    np.testing.assert_allclose(levels, solved(slope, [12.0, 18.0], 2.0), atol=0.01)
    held = 0.17 * math.sqrt(1962.0 * 15.0) / 3.1
    assert reward == pytest.approx(-(0.1 * 9.0 + 0.01 * (8.0 - held) ** 2))


def test_tanks_rest_where_what_flows_in_flows_out():
    environment = machines.TwoTanks(upper_outlet=0.2, lower_outlet=0.16)
    held = 0.16 * math.sqrt(1962.0 * 15.0) / 3.3
    levels, _ = after(environment, [15.0 * 0.64, 15.0], [held])
    np.testing.assert_allclose(levels, [9.6, 15.0], atol=1e-12)
    for voltage, end in ((0.0, 0.0), (18.0, 30.0)):
        for _ in range(300):
            seen, *_ = environment.step([voltage])
        assert seen[0] == pytest.approx(end, abs=1e-6)
        assert np.all(np.isfinite(seen))


def test_a_quadrotor_moves_by_newtons_laws():
    mass, inertia, arm, gain = 0.45, 0.004, 0.26, 1.05
    environment = machines.Quadrotor(mass=mass, inertia=inertia, arm=arm, gain=gain)
    left, right = 2.3, 2.35

    def slope(state):
        lift = gain * (left + right) / mass
        sine, cosine = math.sin(state[2]), math.cos(state[2])
        turn = gain * arm * (right - left) / inertia
        return [*state[3:], -lift * sine, lift * cosine - 9.81, turn]

    start = np.array([0.3, -0.2, 0.1, 0.2, -0.1, 0.05])
    state, reward = after(environment, start, [left, right])
    np.testing.assert_allclose(state, solved(slope, start, 0.05), atol=2e-3)
    hover = 0.5 * mass * 9.81 / gain
    thrusts = (left - hover) ** 2 + (right - hover) ** 2
    weights = np.array(machines.FLIGHT_COST)
    assert reward == pytest.approx(-(weights @ start**2 + machines.ROTOR_COST * thrusts))


def test_a_quadrotor_hovers_and_stops_at_walls():
    environment = machines.Quadrotor(mass=0.5, gain=0.9)
    hover = 0.25 * 9.81 / 0.9
    state, reward = after(environment, np.zeros(6), [hover, hover])
    np.testing.assert_allclose(state, 0.0, atol=1e-12)
    assert reward == pytest.approx(0.0, abs=1e-20)
    for _ in range(60):
        seen, *_ = environment.step([5.0, 5.0])
    assert (seen[1], seen[4]) == (5.0, 0.0)


def reaction(concentration, temperature, coolant):
    """Return the slopes per minute, written from Seborg's equations with his numbers."""
    q, V, rho, Cp, minus_dH, E_over_R, k0, UA, feed = (
        100,
        100,
        1000,
        0.239,
        5e4,
        8750,
        7.2e10,
        5e4,
        1,
    )
    k = k0 * math.exp(-E_over_R / temperature)
    c = q / V * (feed - concentration) - k * concentration
    heat = minus_dH / (rho * Cp) * k * concentration
    return [c, q / V * (350.0 - temperature) + heat + UA / (V * rho * Cp) * (coolant - temperature)]


def test_a_reactor_reacts_as_in_the_textbook():
    state, reward = after(machines.Reactor(), [0.55, 352.0], [305.0])
    expected = solved(lambda s: reaction(*s, 305.0), [0.55, 352.0], 0.1)
    np.testing.assert_allclose(state, expected, rtol=1e-3)
    assert reward == pytest.approx(-(10.0 * 0.2**2 + 1e-4 * 25.0))


def test_a_reactor_has_the_three_steady_states_of_the_textbook():
    # With coolant of 300 K: nearly extinct, 350 K with half of it converted, and ignited.
    def heat(temperature):
        k = 7.2e10 * math.exp(-8750.0 / temperature)
        return reaction(1.0 / (1.0 + k), temperature, 300.0)[1]

    grid = np.linspace(300.0, 420.0, 400)
    signs = np.sign([heat(T) for T in grid])
    roots = [brentq(heat, *grid[i : i + 2]) for i in np.flatnonzero(np.diff(signs))]
    assert len(roots) == 3
    assert roots[1] == pytest.approx(350.0, abs=0.1)
    environment, ends = machines.Reactor(), []
    for T in roots:
        start = np.array([1.0 / (1.0 + 7.2e10 * math.exp(-8750.0 / T)), T])
        # The integrator rests there too.
        np.testing.assert_allclose(after(environment, start, [300.0])[0], start, rtol=1e-10)
        environment.reset(options={"state": start + np.array([0.0, 0.5])})
        for _ in range(300):
            seen, *_ = environment.step([300.0])
        ends.append(float(seen[1]))
    # The middle one is unstable; from a little above it the reactor ends elsewhere.
    assert ends[0] == pytest.approx(roots[0], abs=0.1)
    assert abs(ends[1] - 350.0) > 10.0


def test_the_aim_of_reactors_is_hotter_than_their_operating_point():
    # So that a limit of the temperature binds.
    k = (1.0 - 0.35) / 0.35
    assert 8750.0 / math.log(7.2e10 / k) > 355.0


def test_poles_stand_at_first_and_hang_in_the_other_family():
    for name, cosine in (("standing-cart-poles:1", 1.0), ("cart-poles:1", -1.0)):
        observation, _ = task_set(name)[0].make().reset(seed=0)
        assert observation[2] == pytest.approx(cosine, abs=0.03)


# Controllers ---------------------------------------------------------------------------------


def returned(controller, task):
    size = task.action_size
    result = evaluate(lambda _: np.zeros(size), task.around(controller), trials=20)
    return result[0].total_return.value


@pytest.mark.filterwarnings("ignore:the controller asks for the action")
@pytest.mark.parametrize("name", [name for name in CONTROLLERS if name not in UNCLEAR])
def test_a_controller_is_worse_where_its_numbers_are_wrong(name):
    family, make = FAMILIES[name], CONTROLLERS[name]
    tasks = family(6, seed=1)
    ahead = [
        returned(make(task.context), task) - returned(make(nominal(name)), task) for task in tasks
    ]
    assert np.mean(ahead) > 0.0


@pytest.mark.filterwarnings("ignore:the controller asks for the action")
@pytest.mark.parametrize("name", HOLDING)
def test_a_controller_holds_its_own_machine(name):
    family, make = FAMILIES[name], CONTROLLERS[name]
    # Where each observation shall be, and how near after three episodes.
    aims = {
        "two-tanks": ([1], 15.0, 0.1),
        "reactors": ([1], 350.0, 0.1),
        "four-tanks": ([0, 1], machines.FOUR_LEVELS, 0.01),
        "dc-motors": ([0], machines.DC_SPEED, 0.5),
        "synchronous-motors": ([0, 2], [0.0, machines.PM_SPEED], 1.0),
        "two-rooms": ([0, 1], machines.COMFORT, 0.7),  # the weather does not rest
        "patients": ([0], machines.GLUCOSE, 0.1),
        "standing-acrobots": ([1, 3, 4, 5], 0.0, 0.01),
    }
    for context in (nominal(name), *family.contexts(2, seed=3)):
        controller = make(context)
        environment = family.task(context).around(controller).make()
        environment.reset(seed=1)
        for _ in range(3 * family.horizon):
            seen, *_ = environment.step(np.zeros(environment.action_space.shape))
        which, aim, near = aims.get(name, ([0, 1], 0.0, 0.05))
        np.testing.assert_allclose(seen[which], aim, atol=near)


def test_the_lqr_is_that_of_the_linear_model():
    # Hovering without drag is linear: its exact discretisation by the same ten Euler steps.
    environment = machines.HoveringMass(mass=1.2, gain=0.9, drag=0.0)
    h, A, B = 0.01, np.eye(2), np.zeros((2, 1))
    step, push = np.array([[1.0, h], [0.0, 1.0]]), np.array([[h * h], [h]]) * 0.9 / 1.2
    for _ in range(10):
        A, B = step @ A, step @ B + push
    Q, R = np.diag([2.0, 0.3]), np.array([[0.05]])
    P = scipy.linalg.solve_discrete_are(A, B, Q, R)
    expected = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    hover = 1.2 * 9.81 / 0.9
    gain = machines.lqr(environment, [0.0, 0.0, hover], [hover], ([2.0, 0.3], [0.05]))
    np.testing.assert_allclose(gain, expected, rtol=1e-6)


def test_the_nominal_quadrotor_hovers_off_where_its_weight_is_another():
    controller = machines.quadrotor_lqr(nominal("quadrotors"))
    context = {**nominal("quadrotors"), "mass": 0.56, "gain": 0.9}
    environment = FAMILIES["quadrotors"].task(context).around(controller).make()
    environment.reset(seed=0)
    for _ in range(300):
        seen, *_ = environment.step([0.0, 0.0])
    wanted = 0.5 * 9.81 * 0.56 / 0.9
    expected = -(wanted - controller.bias[0]) / controller.gain[0, 1]
    assert seen[1] == pytest.approx(expected, abs=1e-3)
    assert expected < -0.2


def test_an_energy_swing_up_swings_its_own_pendulum_up():
    for task in task_set("pendulums:4"):
        own = task.around(machines.pendulum_swing_up(task.context))
        environment = own.make()
        for seed in range(3):
            environment.reset(seed=seed)
            for _ in range(own.horizon):
                seen, *_ = environment.step([0.0])
            assert seen[0] > 0.95
