"""Machines that a controller runs today, with physics from textbooks and papers.

Members of a family differ in a few numbers, as machines of one model do. For each machine there is
the controller that an engineer would have, from the numbers that he believes in: those of the
machine itself, or those of the nominal one, in the middle of the ranges.
"""

from crosslearning.tasks.machines.arms import (
    ARM_HORIZON,
    ARM_RANGES,
    STANDING_RANGES,
    Acrobot,
    DoublePendulum,
    StandingAcrobot,
    acrobot_lqr,
)
from crosslearning.tasks.machines.buildings import COMFORT, ROOM_RANGES, TwoRooms, heating_pi
from crosslearning.tasks.machines.mechanics import (
    FLIGHT_COST,
    HOVERING_RANGES,
    QUADROTOR_RANGES,
    ROTOR_COST,
    HoveringMass,
    Quadrotor,
    cart_pole_lqr,
    hovering_pd,
    pendulum_swing_up,
    quadrotor_lqr,
)
from crosslearning.tasks.machines.motors import (
    DC_RANGES,
    DC_SPEED,
    PM_SPEED,
    SYNCHRONOUS_RANGES,
    DCMotor,
    SynchronousMotor,
    dc_motor_pi,
    synchronous_pi,
)
from crosslearning.tasks.machines.parts import lqr
from crosslearning.tasks.machines.patients import GLUCOSE, PATIENT_RANGES, Patient, glucose_pid
from crosslearning.tasks.machines.processes import (
    FOUR_LEVELS,
    FOUR_TANK_RANGES,
    LEVEL,
    REACTOR_RANGES,
    TANK_RANGES,
    FourTankProcess,
    Reactor,
    TwoTanks,
    four_tank_pi,
    reactor_pi,
    tank_pi,
)

__all__ = [
    "ARM_HORIZON",
    "ARM_RANGES",
    "COMFORT",
    "DC_RANGES",
    "DC_SPEED",
    "FLIGHT_COST",
    "FOUR_LEVELS",
    "FOUR_TANK_RANGES",
    "GLUCOSE",
    "HOVERING_RANGES",
    "LEVEL",
    "PATIENT_RANGES",
    "PM_SPEED",
    "QUADROTOR_RANGES",
    "REACTOR_RANGES",
    "ROOM_RANGES",
    "ROTOR_COST",
    "STANDING_RANGES",
    "SYNCHRONOUS_RANGES",
    "TANK_RANGES",
    "Acrobot",
    "DCMotor",
    "DoublePendulum",
    "FourTankProcess",
    "HoveringMass",
    "Patient",
    "Quadrotor",
    "Reactor",
    "StandingAcrobot",
    "SynchronousMotor",
    "TwoRooms",
    "TwoTanks",
    "acrobot_lqr",
    "cart_pole_lqr",
    "dc_motor_pi",
    "four_tank_pi",
    "glucose_pid",
    "heating_pi",
    "hovering_pd",
    "lqr",
    "pendulum_swing_up",
    "quadrotor_lqr",
    "reactor_pi",
    "synchronous_pi",
    "tank_pi",
]
