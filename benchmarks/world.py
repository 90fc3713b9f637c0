"""Is the paper's world mastered? Unseen random maps, and the mission, driven by the central policy.

``python -m benchmarks world`` trains on 20 random maps with five seeds, two at a time, and
evaluates each central policy without noise: on 200 maps that no training ever draws, for the
standard 50 steps, and on the mission with any heading, for its standard 120. Training practises
what is rare and is paid in another way than the standard tasks; the evaluation is standard.

A seed masters it if at least 98 % of the episodes on unseen maps arrive and at most 0.5 % crash,
and the mission is completed from at least 95 % of the headings. Four of five seeds shall.
``python -m benchmarks.world --image FILE`` draws the first seed's mission.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.table import Row, show
from crosslearning._base.statistics import Interval
from crosslearning.learner import Policy
from crosslearning.learner.evaluation import evaluate, evaluate_across
from crosslearning.runs import RunFolder, make_config
from crosslearning.runs.study import Measurement, Run, run_study
from crosslearning.tasks import task_set

TRAIN, UNSEEN, MISSION = "random:20", "random:unseen:200", "mission"
SEEDS, ITERATIONS = 5, 36
#: How training differs from what is evaluated: where episodes start, and what they are paid.
PRACTICE: dict[str, Any] = {
    # What crashes most are starts right in front of an obstacle; uniform ones are hardly ever that.
    "near_share": 0.2,
    "near_distance": 0.2,
    # With noise, standing just short of the goal is as good as being there, and without noise it
    # is no arrival. So every step costs until the robot is well within the radius that counts.
    "goal_reward": 0.0,
    "arrival": "terminate",
    "arrival_radius": 0.3,
}
SETTINGS: dict[str, Any] = {
    "method": "trust-region",
    # One policy for all maps: what drives on one of them is what drives on an unseen one.
    "epsilon": 0.0,
    # (d_o, φ_o, d_g, φ_g, φ_obs): angles wrap, and distances matter when they are short.
    "kernel": {
        "kernel": "gaussian",
        "std": [0.09, 0.7, 1.0, 0.7, 1.2],
        "periodic": [[1, 6.283185307179586], [3, 6.283185307179586]],
        "logarithmic": [[0, 0.1], [2, 1.0]],
    },
    # Short episodes are many starts, and many of them make steps that need no luck.
    "episode_steps": 8,
    "least_steps": 480,
    "batch_growth": 1.0,
    # Who looks ahead only ten steps may wait for ever in front of an obstacle.
    "discount": 0.95,
    # Whoever learns with much noise keeps away from obstacles, also from those never seen.
    "least_std": 0.4,
    "ridge": 0.2,
    "trace": 0.9,
    # Long steps learn fast; steps that stay long wander from one flaw to another.
    "step_kl": 0.06,
    "step_decay": 16.0,
    "novelty": 0.25,
    "new_knots": 15,
}
#: What is wanted of every seed, and of how many of them.
WANTED = {"arrived": 0.98, "crashed": 0.005, "mission": 0.95}
ENOUGH = 0.8
#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 1


def rates(policy: Policy, trials: int, headings: int) -> dict[str, Interval]:
    """Return the shares of unseen episodes that arrive and crash, and of missions completed."""
    (unseen,) = evaluate_across([policy], task_set(UNSEEN), trials=trials)
    (mission,) = evaluate([policy], task_set(MISSION), trials=headings)
    return {
        "arrived": unseen.rates["arrived"],
        "crashed": unseen.rates["crashed"],
        "mission": mission.rates["arrived"],
    }


def mastered(found: dict[str, Interval]) -> bool:
    """Tell whether a seed reaches everything that is wanted."""
    enough = all(found[name].value >= WANTED[name] for name in ("arrived", "mission"))
    return enough and found["crashed"].value <= WANTED["crashed"]


def _measure(folder: Path, trials: int, headings: int) -> dict[str, Any]:
    result = rates(RunFolder(folder).load().central, trials, headings)
    return {name: [one.value, one.low, one.high] for name, one in result.items()}


def measure(
    out: Path = Path("runs/world"),
    seeds: int = SEEDS,
    iterations: int = ITERATIONS,
    trials: int = 20,
    headings: int = 500,
    workers: int = 2,
) -> list[dict[str, Interval]]:
    """Train what is not trained yet, and return what every seed's central policy achieves."""
    chains = []
    for seed in range(seeds):
        asked = {"tasks": TRAIN, "task_options": PRACTICE, "iterations": iterations}
        asked |= {"seed": seed, **SETTINGS}
        question = {"version": VERSION, "trained": asked, "trials": trials, "headings": headings}
        path = out / f"seed-{seed}"
        answer = Measurement(
            out / f"seed-{seed}.json", question, _measure, (path, trials, headings)
        )
        chains.append([Run(path, make_config(asked)), answer])
    if not run_study([chains], workers, Console(stderr=True)):
        raise KeyboardInterrupt
    answers = [chain[-1].answer() for chain in chains]  # type: ignore[union-attr]
    return [{name: Interval(*answer[name]) for name in WANTED} for answer in answers]


def rows(results: list[dict[str, Interval]]) -> list[Row]:
    """Return a row for every seed, and the verdict; its ratio is the share of seeds."""
    wanted = "≥ 98 % arrive, ≤ 0.5 % crash, mission ≥ 95 %"
    result = []
    for seed, one in enumerate(results):
        measured = (
            f"unseen maps: arrived {one['arrived'].percent()}, crashed {one['crashed'].percent()}; "
            f"mission completed {one['mission'].percent()}"
        )
        met = mastered(one)
        result.append(Row(f"world, seed {seed}", measured, float(met), wanted, met))
    good = sum(map(mastered, results))
    share = good / len(results)
    measured = f"{good} of {len(results)} seeds"
    return [
        *result,
        Row("the world is mastered", measured, share, f"≥ {ENOUGH:g}", share >= ENOUGH),
    ]


def world() -> list[Row]:
    """Measure with the defaults."""
    return rows(measure())


BENCHMARKS = [world]


def draw(folder: Path, image: Path) -> None:
    """Draw where a run's central policy drives in the mission, from its start with any heading."""
    from crosslearning.analysis.trajectories import trajectories
    from crosslearning.figures.paths import trajectory_figure
    from crosslearning.figures.style import save_figure

    figure = trajectory_figure(
        "central", trajectories(RunFolder(folder).load().central, task_set(MISSION))
    )
    # The last goal lies beyond the start area, which is what the figure shows.
    figure.axes[0].set(xlim=(-0.8, 12.2), ylim=(-0.8, 8.8))
    save_figure(figure, image.with_suffix(""), ("png",))


def main() -> None:
    """Measure as asked, print the rows, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/world"))
    defaults = {"seeds": SEEDS, "iterations": ITERATIONS, "trials": 20, "headings": 500}
    for name, default in {**defaults, "workers": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--image", type=Path, help="where to draw the first seed's mission")
    arguments = vars(parser.parse_args())
    image = arguments.pop("image")
    show(rows(measure(**arguments)), Console(width=140))
    if image is not None:
        draw(arguments["out"] / "seed-0", image)


if __name__ == "__main__":
    main()
