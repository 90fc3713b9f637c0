"""A machine never seen, a few steps of its own: what the data of its family are worth.

``python -m benchmarks.models_adaptation`` learns eight pendulums with the method ``models``, 100
steps each, and then meets pendulums that it never saw. Of each it takes 50 steps, and learns

- *with the family*: ``learner.adapt(task, steps=50)``, one more model within ε_m of the centre;
- *alone*: the same method on the same 50 steps' worth of that one machine and nothing else.

Beside both: the family's central policy as it is, after no step at all. ``--context g=16`` meets
machines outside of what the family was drawn from.

The seed draws the family and the new machines, and learns. A number is the mean over seeds of a
seed's mean undiscounted return over its machines, 100 episodes each, with Student's interval over
seeds: machines of one seed share a family, so only seeds are independent. Every machine is kept in
a file, and the same question is not measured twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.seeds import add_settings, settings_of
from benchmarks.table import Row
from crosslearning import CrossLearner
from crosslearning._base.statistics import student
from crosslearning.learner import Policy
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes
from crosslearning.runs import RunFolder, make_config
from crosslearning.runs.study import Measurement, Run
from crosslearning.tasks import Task, task_set

OUT = Path("runs/models-adaptation")
TRAIN, UNSEEN = "pendulums:8", "pendulums:unseen:{}"
#: Real steps of every machine of the family, and of the new one.
FAMILY_STEPS, STEPS = 100, 50
#: The mean return that is wanted after those.
WANTED = -200.0
TRIALS = 100
MACHINES, SEEDS = 8, 10
WAYS = ("central", "adapted", "alone")
#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 3


def mean_return(policy: Policy, task: Task) -> float:
    """Return the mean undiscounted return of a policy."""
    options = EpisodeOptions(trials=TRIALS, seed=0)
    return float(np.mean(measure_episodes(policy, task, options, 1.0).returns))


def _measure(folder: Path, task: Task, seed: int, settings: dict[str, Any]) -> dict[str, float]:
    """Return what each way achieves on one machine."""
    family = RunFolder(folder).load()
    adapted = family.adapt(task, steps=STEPS, seed=seed, **settings)
    # Rounds alike, as adapting takes them.
    alike = {"longest_round": 1, **settings}
    alone = CrossLearner([task], method="models", seed=seed, **alike)
    alone.learn(steps=STEPS, progress=False)
    policies = (family.central, adapted.policy(0), alone.policy(0))
    return {way: mean_return(policy, task) for way, policy in zip(WAYS, policies, strict=True)} | {
        "steps": adapted.steps,
        "steps alone": alone.steps,
    }


def measure(
    out: Path = OUT,
    machines: int = MACHINES,
    seeds: int = SEEDS,
    family_steps: int = FAMILY_STEPS,
    contexts: dict[str, float] | None = None,
    **settings: Any,
) -> list[list[dict[str, float]]]:
    """Train if it is not done yet, and return what each way achieves on each seed's machines.

    Settings are of all three learners; ``contexts`` are those that all the new machines share.
    """
    contexts = contexts or {}
    result = []
    for seed in range(seeds):
        fields = {"tasks": TRAIN, "method": "models", "seed": seed, **settings}
        fields |= {"steps": 8 * family_steps, "task_options": {"seed": seed}}
        trained = out / f"seed-{seed}"
        if not Run(trained / "family", make_config(fields)).go():
            raise KeyboardInterrupt
        answers = []
        for task in task_set(UNSEEN.format(machines), seed=seed, **contexts):
            asked = {"version": VERSION, "trained": fields, "machine": task.name, "seed": seed}
            arguments = (trained / "family", task, seed, settings)
            path = trained / f"{task.name.replace(' ', '-')}.json"
            answers.append(Measurement(path, asked, _measure, arguments).answer())
        result.append(answers)
    return result


def rows(result: list[list[dict[str, float]]]) -> list[Row]:
    """Return the measurement as rows of the table of benchmarks."""
    returns = {way: np.array([[one[way] for one in seed] for seed in result]) for way in WAYS}
    intervals = {way: student(returns[way].mean(axis=1)) for way in WAYS}
    worst = {way: returns[way].min() for way in WAYS}
    ratio = intervals["adapted"].value / intervals["alone"].value
    text = "; ".join(f"{way} {intervals[way]}, worst {worst[way]:.0f}" for way in WAYS)
    gain = student((returns["adapted"] - returns["central"]).mean(axis=1))
    text += f"; adapted less central {gain}"
    machines, seeds = returns["adapted"].size, len(result)
    what = f"{machines} machines never seen, {STEPS} steps of each, {seeds} seeds: mean return"
    met = intervals["adapted"].value >= WANTED
    return [Row(what, text, ratio, f"adapted ≥ {WANTED:g}", met)]


def models_adaptation() -> list[Row]:
    """Measure with the defaults."""
    return rows(measure())


BENCHMARKS = [models_adaptation]


def main() -> None:
    """Measure as asked, and print the row."""
    from rich.console import Console

    from benchmarks.table import show

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    for name, default in (("machines", MACHINES), ("seeds", SEEDS), ("family-steps", FAMILY_STEPS)):
        parser.add_argument(f"--{name}", type=int, default=default)
    add_settings(parser, "context")
    add_settings(parser)
    arguments = vars(parser.parse_args())
    contexts, settings = (settings_of(arguments.pop(kind)) for kind in ("context", "set"))
    result = measure(**arguments, contexts=contexts, **settings)
    show(rows(result), Console(width=140))


if __name__ == "__main__":
    main()
