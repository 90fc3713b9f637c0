"""Compare the physics of shipped families with packages of others, where these are installed.

``python -m benchmarks.third_party_physics`` prints the largest difference over an episode of
random actions, relative to the range that each state covers, for

- ``acrobots``: MuJoCo's simulation of the acrobot of ``dm_control``, with the masses, lengths,
  inertia and damping of its links;
- ``dc-motors`` and ``synchronous-motors``: the motors of ``gym-electric-motor`` with our numbers
  and a load of theirs, integrated by SciPy.

They are no dependencies of this package: install them into an environment of their own, as with
``pip install dm_control==1.0.28 mujoco==3.3.0 gym-electric-motor``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from benchmarks.table import Row
from crosslearning.tasks.environment import CompiledEnvironment
from crosslearning.tasks.machines import Acrobot, DCMotor, SynchronousMotor
from crosslearning.tasks.machines.arms import ARM_STEP
from crosslearning.tasks.machines.motors import DC_STEP, PAIRS, PM_STEP

Floats = NDArray[np.float64]
STEPS = 40


def difference(
    environment: CompiledEnvironment, start: Floats, actions: Floats, other: Callable[..., Floats]
) -> float:
    """Return the largest difference, where ``other(state, action)`` is the state one step later.

    Each state is relative to the range that it covers in the episode. Both go on from their own
    states, so that differences add up.
    """
    n = len(start)
    environment.reset(
        options={"state": np.append(start, np.zeros(environment.physics.state_size - n))}
    )
    theirs, both = start, []
    for action in actions:
        environment.step(action)
        theirs = other(theirs, action)
        both.append((environment.state[:n], theirs))
    ours, others = np.moveaxis(np.array(both), 1, 0)
    return float(np.max(np.abs(ours - others) / np.ptp(others, axis=0)))


def acrobots() -> float:
    """Return the difference from MuJoCo, in small steps of its Runge-Kutta integrator."""
    from dm_control.suite import acrobot

    physics = acrobot.Physics.from_xml_string(*acrobot.get_model_and_assets())
    model, data = physics.model, physics.data
    # Ours has one ratio for both links; theirs differ by 0.3 %.
    model.body_inertia[2] = model.body_inertia[1]
    model.opt.timestep = 1e-3
    ours = Acrobot(
        mass_1=float(model.body_mass[1]),
        mass_2=float(model.body_mass[2]),
        length_1=1.0,
        length_2=1.0,
        inertia=float(model.body_inertia[1, 0]),
        friction=float(model.dof_damping[0]),
    )

    def other(state: Floats, action: Floats) -> Floats:
        data.qpos[:], data.qvel[:] = state[:2], state[2:]
        data.ctrl[0] = action[0] / model.actuator_gear[0, 0]
        physics.step(round(ARM_STEP / 1e-3))
        return np.concatenate([data.qpos, data.qvel])

    torques = np.random.default_rng(0).uniform(-2.0, 2.0, (STEPS, 1))
    return difference(ours, np.array([2.5, 0.5, 0.0, 0.0]), torques, other)


def _motor(motor: Any, load: Any, environment: Any, start: Floats, step: float) -> float:
    """Return the difference from a motor with currents after the speed, or before it."""
    currents = len(start) - 1
    # Theirs has the speed first, as our DC motor; our synchronous motor has it last.
    order = [0, 1] if currents == 1 else [2, 0, 1]
    back = np.argsort(order)

    def other(state: Floats, action: Floats) -> Floats:
        def slope(time: float, now: Floats) -> Floats:
            electric = np.append(now[1:], 0.0) if currents == 2 else now[1:]
            bent = motor.electrical_ode(electric, action, now[0])[:currents]
            return np.concatenate(
                [load.mechanical_ode(time, now[:1], motor.torque(electric)), bent]
            )

        tight = {"method": "LSODA", "rtol": 1e-9, "atol": 1e-10}
        end: Floats = solve_ivp(slope, (0.0, step), state[order], **tight).y[:, -1]
        return end[back]

    size = environment.action_space.shape[0]
    held = [9.5] if size == 1 else [-4.0, 48.0]
    actions = held + np.random.default_rng(0).uniform(-2.0, 2.0, (STEPS, size))
    return difference(environment, start, actions, other)


def _load(friction: float, torque: float, inertia: float) -> Any:
    from gym_electric_motor.physical_systems.mechanical_loads import PolynomialStaticLoad

    # A constant torque that brakes, friction, and no air.
    parts = {"a": torque, "b": friction, "c": 0.0, "j_load": inertia}
    load = PolynomialStaticLoad(load_parameter=parts)
    load.set_j_rotor(0.0)
    return load


def dc_motors() -> float:
    """Return the difference from a motor with permanent excitation."""
    from gym_electric_motor.physical_systems import electric_motors

    environment = DCMotor()
    R, L, K, J, b, load = environment.parameters.tolist()
    numbers = {"r_a": R, "l_a": L, "psi_e": K, "j_rotor": 0.0}
    motor = electric_motors.DcPermanentlyExcitedMotor(motor_parameter=numbers)
    return _motor(motor, _load(b, load, J), environment, np.array([250.0, 2.0]), DC_STEP)


def synchronous_motors() -> float:
    """Return the difference from a synchronous motor in rotor coordinates."""
    from gym_electric_motor.physical_systems import electric_motors

    environment = SynchronousMotor()
    R, L_d, L_q, flux, J, b, load = environment.parameters.tolist()
    numbers = {"p": PAIRS, "r_s": R, "l_d": L_d, "l_q": L_q, "psi_p": flux, "j_rotor": 0.0}
    motor = electric_motors.PermanentMagnetSynchronousMotor(motor_parameter=numbers)
    start = np.array([0.2, 1.0, 90.0])
    return _motor(motor, _load(b, load, J), environment, start, PM_STEP)


def main() -> None:
    """Print the differences; a package that is missing is named."""
    from rich.console import Console

    from benchmarks.table import show

    rows = []
    for name, compare in (
        ("acrobots, dm_control", acrobots),
        ("dc-motors, gym-electric-motor", dc_motors),
        ("synchronous-motors, gym-electric-motor", synchronous_motors),
    ):
        try:
            apart = compare()
        except ImportError as problem:
            rows.append(Row(name, f"not compared: {problem}", 0.0, "", None))
            continue
        rows.append(Row(f"{name}, {STEPS} steps", f"{apart:.2g}", apart, "≤ 1e-3", apart <= 1e-3))
    show(rows, Console(width=120))


if __name__ == "__main__":
    main()
