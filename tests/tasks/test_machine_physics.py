"""Motors, tanks, arms, rooms and patients: against differential equations and closed forms."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from crosslearning.tasks import machines
from crosslearning.tasks.machines import arms, buildings, motors, patients, processes
from crosslearning.tasks.machines.parts import STAGES, advance


def after(environment, state, action, steps=1):
    """Return the state after some steps with one action, and the last reward."""
    environment.reset(options={"state": state})
    for _ in range(steps):
        reward = environment.step(action)[1]
    return environment.state, reward


def solved(slope, state, time):
    tight = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12}
    return solve_ivp(slope, (0.0, time), state, **tight).y[:, -1]


def test_the_integrator_is_of_fourth_order():
    errors = []
    for count in (8, 16):
        state, work = np.array([1.0, 0.0]), np.zeros((2, 2))
        for k in range(count * STAGES):
            work[0] = -state[1], state[0]
            advance(k % STAGES, 1.0 / count, work[0], work[1], state)
        errors.append(np.hypot(*(state - [math.cos(1.0), math.sin(1.0)])))
    assert 15.0 < errors[0] / errors[1] < 17.0


# Four tanks ----------------------------------------------------------------------------------


def test_four_tanks_follow_johanssons_equations():
    k1, k2, g1, g2 = 3.5, 3.1, 0.66, 0.62
    environment = machines.FourTankProcess(pump_1=k1, pump_2=k2, split_1=g1, split_2=g2)
    A, a = np.array([28.0, 32.0, 28.0, 32.0]), np.array([0.071, 0.057, 0.071, 0.057])
    v1, v2 = 2.6, 3.4

    def slope(_, h):
        out = a * np.sqrt(2.0 * 981.0 * h)
        return [
            (-out[0] + out[2] + g1 * k1 * v1) / A[0],
            (-out[1] + out[3] + g2 * k2 * v2) / A[1],
            (-out[2] + (1 - g2) * k2 * v2) / A[2],
            (-out[3] + (1 - g1) * k1 * v1) / A[3],
        ]

    start = [11.0, 13.0, 1.5, 2.0]
    levels, reward = after(environment, start, [v1, v2])
    np.testing.assert_allclose(levels, solved(slope, start, 5.0), rtol=1e-7)
    held = processes.four_tank_voltages(environment.parameters)
    aside = (v1 - held[0]) ** 2 + (v2 - held[1]) ** 2
    assert reward == pytest.approx(-(0.1 * (1.4**2 + 0.3**2) + 0.05 * aside))


def test_four_tanks_rest_at_johanssons_operating_point():
    environment = machines.FourTankProcess()
    held = processes.four_tank_voltages(environment.parameters)
    np.testing.assert_allclose(held, [3.0, 3.0], atol=0.05)  # as the paper prints them
    upper = [(0.4 * 3.35 * held[1] / 0.071) ** 2 / 1962, (0.3 * 3.33 * held[0] / 0.057) ** 2 / 1962]
    np.testing.assert_allclose(upper, [1.8, 1.4], atol=0.25)  # measured there
    rest = [12.4, 12.7, *upper]
    np.testing.assert_allclose(after(environment, rest, held, 5)[0], rest, rtol=1e-12)


def test_four_tanks_lose_no_water():
    # What the pumps give is what is in the tanks, but for what flows out of the lower ones.
    outlets = {f"outlet_{i}": 1e-12 for i in (1, 2)}
    environment = machines.FourTankProcess(**outlets)
    areas = np.array([28.0, 32.0, 28.0, 32.0])
    start = np.array([2.0, 3.0, 4.0, 5.0])
    levels, _ = after(environment, start, [2.0, 1.0], 3)
    assert areas @ (levels - start) == pytest.approx(15.0 * (3.33 * 2.0 + 3.35), rel=1e-7)
    full, _ = after(environment, start, [9.0, 9.0], 60)
    assert np.all(full <= processes.FOUR_HEIGHT)
    empty, _ = after(machines.FourTankProcess(), start, [0.0, 0.0], 100)
    np.testing.assert_allclose(empty, 0.0, atol=1e-9)


# Motors --------------------------------------------------------------------------------------


def test_a_dc_motor_follows_its_equations():
    R, L, K, J, b, load, u = 0.35, 8.2e-5, 0.029, 1e-4, 5e-5, 0.07, 12.0
    environment = machines.DCMotor(resistance=R, constant=K, inertia=J, load=load)

    def slope(_, state):
        speed, current = state
        return [(K * current - b * speed - load) / J, (u - R * current - K * speed) / L]

    state, reward = after(environment, [310.0, 4.0], [u])
    np.testing.assert_allclose(state, solved(slope, [310.0, 4.0], 0.005), rtol=1e-5)
    held = R * (b * 300.0 + load) / K + K * 300.0
    assert reward == pytest.approx(-(0.01 + 1e-3 * (u - held) ** 2))


def test_a_dc_motor_settles_where_textbooks_say_and_keeps_its_current():
    environment = machines.DCMotor()
    R, _, K, _, b, load = environment.parameters
    state, _ = after(environment, [0.0, 0.0], [10.0], 400)
    speed = (K * 10.0 - R * load) / (K**2 + R * b)
    np.testing.assert_allclose(state, [speed, (b * speed + load) / K], rtol=1e-8)
    current, voltage = motors.dc_held(environment.parameters)
    held, _ = after(environment, [300.0, current], [voltage], 10)
    np.testing.assert_allclose(held, [300.0, current], rtol=1e-9)
    # At the limit the torque is constant.
    state, _ = after(machines.DCMotor(friction=0.0), [0.0, motors.DC_CURRENT], [24.0], 2)
    assert state[1] == motors.DC_CURRENT
    assert state[0] == pytest.approx((K * motors.DC_CURRENT - load) / 1.2e-4 * 0.01, rel=1e-3)


def test_a_synchronous_motor_follows_its_equations():
    R, psi, J, load, L_d, L_q, b, p = 1.6, 0.15, 0.002, 1.5, 0.0066, 0.0058, 0.000388, 3
    environment = machines.SynchronousMotor(resistance=R, flux=psi, inertia=J, load=load)
    u_d, u_q = -8.0, 52.0

    def slope(_, state):
        i_d, i_q, speed = state
        torque = 1.5 * p * (psi * i_q + (L_d - L_q) * i_d * i_q)
        return [
            (u_d - R * i_d + p * speed * L_q * i_q) / L_d,
            (u_q - R * i_q - p * speed * L_d * i_d - p * speed * psi) / L_q,
            (torque - load - b * speed) / J,
        ]

    state, reward = after(environment, [0.5, 2.0, 90.0], [u_d, u_q])
    np.testing.assert_allclose(state, solved(slope, [0.5, 2.0, 90.0], 0.001), atol=1e-6)
    _, d, q = motors.synchronous_held(environment.parameters)
    volts = (u_d - d) ** 2 + (u_q - q) ** 2
    assert reward == pytest.approx(-(0.04 + 0.01 * 0.25 + 1e-4 * volts))


def test_a_synchronous_motor_rests_at_its_speed_and_keeps_its_current():
    environment = machines.SynchronousMotor(load=1.7, flux=0.16)
    current, *voltages = motors.synchronous_held(environment.parameters)
    rest = [0.0, current, 100.0]
    state, reward = after(environment, rest, voltages, 10)
    np.testing.assert_allclose(state, rest, rtol=1e-9, atol=1e-9)
    assert reward == pytest.approx(0.0, abs=1e-15)
    # In the steady state the power that the voltages give is lost in copper, friction and load.
    power = 1.5 * voltages[1] * current
    assert power == pytest.approx(1.5 * 1.4 * current**2 + (1.7 + 0.000388 * 100.0) * 100.0)
    state, _ = after(environment, rest, [100.0, -100.0], 5)
    assert math.hypot(*state[:2]) == pytest.approx(motors.PM_CURRENT)


# Arms ----------------------------------------------------------------------------------------


def lagrange(parameters, q, torques):
    """Return the accelerations from the energies alone, by differences."""
    m1, m2, l1, l2, ratio, friction = parameters

    def centres(angles):
        first, second = angles[0], angles[0] + angles[1]
        inner = 0.5 * l1 * np.array([np.sin(first), np.cos(first)])
        return inner, 2.0 * inner + 0.5 * l2 * np.array([np.sin(second), np.cos(second)])

    def mass(angles):
        h, eye = 1e-5, np.eye(2)
        columns = [
            [
                (above - below) / (2 * h)
                for above, below in zip(
                    centres(angles + h * e), centres(angles - h * e), strict=True
                )
            ]
            for e in eye
        ]
        turned = np.array([[1.0, 0.0], [1.0, 1.0]])
        spin = (m1 * l1**2 * ratio, m2 * l2**2 * ratio)
        parts = [m * np.array([c[k] for c in columns]) for k, m in ((0, m1), (1, m2))]
        inertia = sum(part @ np.array([c[k] for c in columns]).T for k, part in enumerate(parts))
        return inertia + sum(s * np.outer(t, t) for s, t in zip(spin, turned, strict=True))

    def height(angles):
        first, second = centres(angles)
        return 9.81 * (m1 * first[1] + m2 * second[1])

    angles, speeds, h = np.array(q[:2]), np.array(q[2:]), 1e-4
    change = [(mass(angles + h * e) - mass(angles - h * e)) / (2 * h) for e in np.eye(2)]
    rate = sum(s * c for s, c in zip(speeds, change, strict=True))
    kinetic = np.array([0.5 * speeds @ c @ speeds for c in change])
    weight = np.array(
        [(height(angles + h * e) - height(angles - h * e)) / (2 * h) for e in np.eye(2)]
    )
    force = np.array(torques) - friction * speeds - rate @ speeds + kinetic - weight
    return np.linalg.solve(mass(angles), force)


def test_arms_accelerate_as_lagrange_says():
    parameters = machines.Acrobot(mass_1=0.45, mass_2=0.6, length_1=0.7, friction=0.02).parameters
    generator, slope = np.random.default_rng(0), np.zeros(4)
    for _ in range(5):
        q, torques = generator.uniform(-3.0, 3.0, 4), generator.uniform(-2.0, 2.0, 2)
        arms.arm_slope(parameters, q, *torques, slope)
        np.testing.assert_allclose(slope[:2], q[2:])
        np.testing.assert_allclose(
            slope[2:], lagrange(parameters, q, torques), rtol=1e-4, atol=1e-4
        )


def energy(parameters, state):
    m1, m2, l1, l2, ratio, _ = parameters
    first, second = state[0], state[0] + state[1]
    turn, outer = state[2], state[2] + state[3]
    heights = 0.5 * l1 * math.cos(first), l1 * math.cos(first) + 0.5 * l2 * math.cos(second)
    squares = (
        (0.5 * l1 * turn) ** 2,
        (l1 * turn) ** 2
        + (0.5 * l2 * outer) ** 2
        + l1 * l2 * turn * outer * math.cos(first - second),
    )
    spin = 0.5 * ratio * (m1 * (l1 * turn) ** 2 + m2 * (l2 * outer) ** 2)
    return spin + sum(
        m * (0.5 * s + 9.81 * h) for m, s, h in zip((m1, m2), squares, heights, strict=True)
    )


def test_a_frictionless_double_pendulum_keeps_its_energy():
    environment = machines.DoublePendulum(friction=0.0, mass_2=0.6, length_1=0.55)
    start = np.array([2.0, 0.5, 1.0, -1.0, 0.0])
    before = energy(environment.parameters, start)
    state, _ = after(environment, start, [0.0, 0.0], 40)  # two chaotic seconds
    assert abs(state[0] - 2.0) > 0.1
    assert energy(environment.parameters, state) == pytest.approx(before, abs=1e-3)
    rubbing = machines.DoublePendulum(mass_2=0.6, length_1=0.55)
    rubbed, _ = after(rubbing, start, [0.0, 0.0], 40)
    assert energy(rubbing.parameters, rubbed) < before - 0.05


def test_the_work_of_the_torques_becomes_energy():
    environment = machines.DoublePendulum(friction=0.0)
    start = np.array([3.0, 0.1, 0.5, -0.5, 0.0])
    state, _ = after(environment, start, [0.7, -0.4])
    work = 0.7 * (state[0] - 3.0) - 0.4 * (state[1] - 0.1)
    gained = energy(environment.parameters, state) - energy(environment.parameters, start)
    assert gained == pytest.approx(work, abs=1e-5)
    # An acrobot has no shoulder, and its torque is limited.
    elbow, _ = after(machines.Acrobot(friction=0.0), start, [-9.0])
    both, reward = after(environment, start, [0.0, -3.0])
    np.testing.assert_array_equal(elbow, both)
    height = 0.5 * (math.cos(both[0]) + math.cos(both[0] + both[1]))
    speeds = both[2] ** 2 + (both[2] + both[3]) ** 2
    assert reward == pytest.approx(-(0.5 - 0.5 * height + 0.001 * speeds + 0.018))


def test_arms_hang_stand_and_are_counted_upright():
    environment = machines.DoublePendulum()
    still, _ = after(environment, [math.pi, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0], 20)
    np.testing.assert_allclose(still, [math.pi, 0.0, 0.0, 0.0, 0.0], atol=1e-12)
    up, _ = after(environment, np.zeros(5), [0.0, 0.0], 20)
    assert up[4] == 20.0
    states = np.array([up, still])
    assert environment.outcomes(states)["upright"].tolist() == [True, False]
    # Neither joint alone lifts the arm from the side.
    assert arms.MAX_ARM_TORQUE < 0.5 * 9.81 * (0.25 + 0.75)


# Rooms ---------------------------------------------------------------------------------------


def test_rooms_follow_the_heat_balance():
    environment = machines.TwoRooms(capacity_1=1.2, loss_2=0.09, window=1.3)
    start = np.array([19.0, 20.0, 9.3, 4.0, 3.0, 0.8, 0.1, 0.5, 0.7])

    def slope(time, rooms):
        state = np.array([0.0, 0.0, 9.3 + time, *start[3:]])
        outside, light = buildings.outdoors(state), buildings.sun(state)
        through = 0.1 * (rooms[1] - rooms[0])
        first = 0.08 * (outside - rooms[0]) + through + 1.3 * light + 1.0
        return [first / 1.2, (0.09 * (outside - rooms[1]) - through + 2.5) / 1.5]

    state, reward = after(environment, start, [1.0, 2.5], 8)
    np.testing.assert_allclose(state[:2], solved(slope, start[:2], 2.0), atol=1e-6)
    np.testing.assert_allclose(state[2:], [11.3, *start[3:]])
    _, reward = after(environment, start, [1.0, 2.5])
    assert reward == pytest.approx(-(4.0 + 1.0 + 0.02 * 3.5))


def test_the_weather_is_that_of_the_seed():
    environment = machines.TwoRooms()
    days = []
    for seed in (1, 1, 2):
        environment.reset(seed=seed)
        days.append([environment.step([1.0, 1.0])[0][2:] for _ in range(96)])
    np.testing.assert_array_equal(days[0], days[1])
    assert not np.allclose(days[0], days[2])
    state = np.array([0.0, 0.0, 15.0, 4.0, 3.0, 0.5, *[0.0] * 3])
    unrest = sum(math.sin(2.0 * math.pi * 15.0 / p) for p in buildings.PERIODS)
    assert buildings.outdoors(state) == pytest.approx(7.0 + buildings.UNREST * unrest)
    suns = [buildings.sun(np.array([0.0, 0.0, h, 0.0, 0.0, 0.5])) for h in (0.0, 6.0, 12.0, 36.0)]
    np.testing.assert_allclose(suns, [0.0, 0.0, 0.5, 0.5], atol=1e-12)


# Patients ------------------------------------------------------------------------------------


def test_a_patient_rests_at_the_basal_state():
    environment = machines.Patient(basal_glucose=patients.GLUCOSE, clearance=0.09)
    rest = [patients.GLUCOSE, 0.0, 15.0, 0.0, 0.0, -1.0, -1.0, 0.2, 0.2]
    basal = 0.09 * 12.0 * 15.0
    assert patients.held_insulin(environment.parameters) == pytest.approx(basal)
    state, reward = after(environment, rest, [basal], 12)
    np.testing.assert_allclose(state[:5], rest[:5], atol=1e-9)
    assert reward == pytest.approx(0.0, abs=1e-12)


def test_held_insulin_holds_the_glucose_of_any_patient():
    environment = machines.Patient(basal_glucose=6.0, sensitivity=1.0, effectiveness=0.02)
    held = patients.held_insulin(environment.parameters)
    start = [6.0, 0.0, 15.0, 0.0, 0.0, -1.0, -1.0, 0.2, 0.2]
    state, _ = after(environment, start, [held], 200)
    assert state[0] == pytest.approx(patients.GLUCOSE, rel=1e-6)


def test_a_patient_follows_bergmans_equations_and_eats():
    p1, p3, n = 0.02, 1.1e-5, 0.1
    environment = machines.Patient(effectiveness=p1, sensitivity=1.1, clearance=n)

    def slope(_, state):
        G, X, insulin, D = state
        return [
            -p1 * (G - 5.25) - X * G + D,
            -0.025 * X + p3 * (insulin - 15.0),
            -n * insulin + 40.0 / 12.0,
            -0.05 * D,
        ]

    # The first meal is due within this step, the second one later.
    start = [8.0, 0.004, 20.0, 0.05, 0.0, 5.0, 300.0, 0.25, 0.3]
    state, reward = after(environment, start, [40.0])
    expected = solved(slope, [8.0, 0.004, 20.0, 0.3], 10.0)
    np.testing.assert_allclose(state[:4], expected, rtol=1e-5)
    np.testing.assert_allclose(state[4:], [state[0] - 8.0, -5.0, 290.0, 0.25, 0.3])
    held = patients.held_insulin(environment.parameters)
    assert reward == pytest.approx(-(0.25 * 2.75**2 + 1e-5 * (40.0 - held) ** 2))
    _, reward = after(environment, [3.0, *start[1:]], [held])
    assert reward == pytest.approx(-(0.25 * 2.25**2 + 4.0))
    # Each meal is eaten once: without losses it would raise the glucose by size over rate.
    fasting = machines.Patient(effectiveness=0.0, sensitivity=1e-9)
    fed, _ = after(fasting, [5.0, 0.0, 15.0, 0.0, 0.0, 15.0, 200.0, 0.2, 0.1], [10.0], 60)
    assert fed[0] == pytest.approx(5.0 + 0.3 / 0.05, rel=1e-4)
