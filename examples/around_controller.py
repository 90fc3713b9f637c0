"""From the controller that runs today to a better one for each machine, and to a C file.

Four hovering masses differ; one PD, tuned for the usual one, holds them all in the air. Policies
correct it, by at most 0.3 of half the thrust's range in any state, and learn from five seconds of
each machine. What they change and gain is printed, and the first machine's controller exported.
"""

import sys
from pathlib import Path

from crosslearning import CrossLearner, ModelBased, task_set
from crosslearning.analysis.departure import departures
from crosslearning.export import export_policy
from crosslearning.tasks.machines import hovering_pd

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 50


def main() -> None:
    """Learn, show what was learned, and export it."""
    machines = task_set("hovering-masses:4")
    learner = CrossLearner(machines, ModelBased(epsilon=0.3), around=hovering_pd({}))
    learner.learn(steps=STEPS * len(machines))
    for machine in departures(learner, trials=20):
        (thrust,) = machine.actions
        print(
            f"{machine.task}: return {machine.controller.value:.2f} today, "
            f"{machine.learned.value:.2f} learned; the thrust changes by up to "
            f"{thrust.largest:.2f} N of {thrust.bound:.2f} N"
        )
    written = export_policy(learner.controller(0), "c", Path("hover.c"))
    print(f"{written.files[0]}: {written.agreement}")


if __name__ == "__main__":
    main()
