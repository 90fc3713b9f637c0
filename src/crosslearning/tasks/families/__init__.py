"""Families of related environments, each with contexts that vary and members drawn by seed."""

from crosslearning.tasks.families.cart_pole import CartPole, cart_poles
from crosslearning.tasks.families.gymnasium_families import (
    inverted_pendulums,
    lunar_landers,
    mountain_cars,
    reachers,
)
from crosslearning.tasks.families.members import TaskFamily
from crosslearning.tasks.families.pendulum import Pendulum, gymnasium_pendulums, pendulums

#: The families that ship, by the names of their task sets.
FAMILIES: dict[str, TaskFamily] = {
    "pendulums": pendulums,
    "gymnasium-pendulums": gymnasium_pendulums,
    "cart-poles": cart_poles,
    "inverted-pendulums": inverted_pendulums,
    "reachers": reachers,
    "lunar-landers": lunar_landers,
    "mountain-cars": mountain_cars,
}

__all__ = ["FAMILIES", "CartPole", "Pendulum", "TaskFamily"]
