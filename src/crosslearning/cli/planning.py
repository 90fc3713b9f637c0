"""Which machine to run next."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from crosslearning import runs
from crosslearning.cli import options, output
from crosslearning.cli.application import app, interruptible
from crosslearning.cli.options import whole
from crosslearning.cli.output import show_line, show_table


@app.command()
def plan(
    run: options.Run,
    steps: Annotated[int | None, whole("Steps of the next round; default: as the first.")] = None,
    samples: Annotated[int, whole("Posterior samples of the models.", 2, 1000)] = 32,
    seed: options.SampleSeed = 0,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    as_json: options.Json = False,
) -> None:
    """Say which machine's next round would teach most."""
    from crosslearning.analysis.plan import plan as plan_next

    learner = runs.RunFolder.open(run, tasks, around).load()
    with interruptible(as_json):
        found = plan_next(learner, steps, samples, seed)
    if as_json:
        plain = {**asdict(found), "more_data_helps": found.more_data_helps, "sentence": str(found)}
        output.print_json([plain])
        return
    rows = [
        [
            one.task,
            str(one.steps),
            f"{one.imagined_return:.4g}",
            f"{one.spread:.2g}",
            f"{one.teaches:.2g}",
            f"{one.teaches_itself:.2g}",
        ]
        for one in found.machines
    ]
    headings = ["machine", "steps so far", "imagined return", "spread", "a round teaches", "itself"]
    show_table(f"{run}: what {found.round_steps} more steps of each machine teach", headings, rows)
    show_line(
        "Spread: standard deviation of the return over posterior samples of the models. A round "
        "teaches: its expected reduction, mean over all machines."
    )
    show_line(str(found))
