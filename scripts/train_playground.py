"""Train the families that the playground ships, and write them into the package.

``python scripts/train_playground.py`` takes about two minutes. The robots learn on three maps with
small, medium and large obstacles, in the way that ``python -m benchmarks world`` explains; the
pendulums in models of themselves.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.world import PRACTICE, SETTINGS

from crosslearning import CrossLearner, Task, task_set
from crosslearning._base.files import write_atomically
from crosslearning.learner.evaluation import evaluate_across, run_episodes
from crosslearning.playground.families import family_of, scene_of
from crosslearning.tasks.families import FAMILIES
from crosslearning.tasks.navigation.maps import navigation_set

SHIPPED = Path(__file__).parents[1] / "src/crosslearning/playground/shipped"
#: Knots and weights are cut to so many digits: these are the policies, then.
DIGITS = 9
MAPS: dict[str, dict[str, Any]] = {
    "small obstacles": {"sizes": (0.3, 0.6), "obstacle_count": (7, 7), "ellipse_share": 0.3},
    "medium obstacles": {"sizes": (0.7, 1.2), "obstacle_count": (4, 4), "ellipse_share": 0.5},
    "large obstacles": {"sizes": (1.5, 2.2), "obstacle_count": (2, 2), "ellipse_share": 0.5},
}
#: Scenes that are offered first, beside the maps of the training.
SCENES = {
    "Mission": "mission",
    "Around a circle": "paper-circle",
    "Around an ellipse": "paper-ellipse",
}


def maps(**options: Any) -> dict[str, Any]:
    """Return the three maps of the training."""
    drawn = {
        name: navigation_set("random", seed=seed, count=1, **kind, **options)
        for seed, (name, kind) in enumerate(MAPS.items())
    }
    return {name: next(iter(one.values())) for name, one in drawn.items()}


def navigation() -> dict[str, Any]:
    """Train robots on three maps and return what the page plays."""
    tasks: list[Task] = [one.task(name) for name, one in maps(**PRACTICE).items()]
    steps = {"least_steps": 3000, "most_steps": 6000}
    settings = {**SETTINGS, **steps, "epsilon": 3.0, "max_knots": 300, "seed": 0}
    with closing(CrossLearner(tasks, **settings)) as learner:
        learner.learn(30)
        (found,) = evaluate_across([learner.central], task_set("random:unseen:200"), trials=10)
        print("on unseen maps: " + ", ".join(f"{k} {v.percent()}" for k, v in found.rates.items()))
        family = family_of(learner, "three maps")
    named = {name: next(iter(navigation_set(one).values())) for name, one in SCENES.items()}
    named |= {f"Trained on: {name}": one for name, one in maps().items()}
    scenes = [{"name": name, "scene": scene_of(one)} for name, one in named.items()]
    return {**family, "scenes": scenes}


def swinging() -> dict[str, Any]:
    """Train pendulums and return what the page plays, and those on which it learns itself."""
    with closing(CrossLearner("pendulums:5", method="models", seed=0)) as learner:
        learner.learn(240)
        played = [run_episodes(learner.policy(i), one, 100) for i, one in enumerate(learner.tasks)]
        print(f"mean return {np.mean([one.rewards.sum(axis=1).mean() for one in played]):.0f}")
        family = family_of(learner, "five pendulums")
    return {**family, "learn": {"machines": FAMILIES["pendulums"].contexts(3, seed=LEARNED)}}


#: The seed of three pendulums that differ well.
LEARNED = 1


def shortened(numbers: Any) -> Any:
    """Return nested lists of numbers with fewer digits."""
    if isinstance(numbers, list):
        return [shortened(one) for one in numbers]
    return float(f"{numbers:.{DIGITS}g}")


def main() -> None:
    """Train and write both."""
    for name, made in (("navigation", navigation), ("pendulums", swinging)):
        family = made()
        for policy in family["policies"]:
            policy |= {key: shortened(policy[key]) for key in ("knots", "weights") if key in policy}
        text = json.dumps(family, allow_nan=False)
        write_atomically(SHIPPED / f"{name}.json", f"{text}\n".encode())
        print(f"{SHIPPED / name}.json: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
