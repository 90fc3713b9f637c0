"""Draw the figures of docs/explanation/navigation.md; a few lines of geometry fly the mission."""

import math
from pathlib import Path

import numpy as np
from PIL import Image

from crosslearning.figures.paper.scenes import robot_model_figure
from crosslearning.figures.style import save_figure
from crosslearning.tasks import navigation_set
from crosslearning.tasks.rendering import Painter


def save(name: str, picture: np.ndarray) -> None:
    """Write a figure of docs/explanation/navigation.md."""
    Image.fromarray(picture).quantize(128, dither=Image.Dither.NONE).save(
        f"docs/images/navigation-{name}.png", optimize=True
    )


def state(x: float, y: float, heading: float) -> np.ndarray:
    """Return the state of a robot at a place."""
    return np.array([x, y, heading, 0, 0, 0, -1, 0, 0], float)


starts = (state(1.5, 8.0, -0.6), state(8.5, 1.5, 2.4), state(9.0, 2.0, 2.2))
save(
    "tasks",
    np.concatenate(
        [
            Painter(scene, size=400).picture(start)
            for scene, start in zip(navigation_set("paper").values(), starts, strict=True)
        ],
        axis=1,
    ),
)

save_figure(robot_model_figure(), Path("docs/images/navigation-observation"), ("png",))


def pilot(observation: np.ndarray, room: float = 0.35) -> tuple[float, float]:
    """Turn to the goal, or past the left rim of an obstacle in the way; then go."""
    d_o, phi_o, d_g, phi_g, phi_obs = observation
    shield = phi_obs / 2 + math.asin(room / (d_o + room))
    blocked = d_o < d_g and abs(math.remainder(phi_g - phi_o, math.tau)) < shield
    aim = math.remainder(phi_o + shield if blocked else phi_g, math.tau)
    speed = min(2.0, 2 * d_g, max(d_o, 0.2)) if abs(aim) < 0.1 else 0.0
    return speed, 2 * aim


environment = navigation_set("mission", heading=0.0)["mission"].environment("rgb_array")
observation, info = environment.reset(seed=0)
while not info["arrived"]:
    observation, reward, terminated, truncated, info = environment.step(pilot(observation))
save("mission", environment.render())
