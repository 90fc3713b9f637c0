"""Commands that measure finished policies."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from crosslearning.cli.application import RunArgument, app, console
from crosslearning.cli.fields import read_flag
from crosslearning.cli.output import print_json, show_evaluation
from crosslearning.errors import InputError
from crosslearning.evaluation import evaluate as evaluate_policies
from crosslearning.evaluation import evaluate_across
from crosslearning.files import write_atomically
from crosslearning.learner import CrossLearner
from crosslearning.runs import RunFolder
from crosslearning.tasks import Task, task_set

TrialsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Episodes per policy and task. [default: 500, or 5 over many tasks]"),
]
StepsOption = Annotated[int, typer.Option(min=1, help="Most steps of an episode.")]
TasksOption = Annotated[
    str | None, typer.Option(help="Another task set, such as 'mission' or 'random:200'.")
]
TaskOptionsOption = Annotated[
    str | None, typer.Option(help="Options of that set as JSON, such as '{\"seed\": 7}'.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of the starts.")]
StochasticOption = Annotated[bool, typer.Option(help="Act with exploration noise.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

#: From so many tasks on, a table shows their mean: the tasks are then the sample.
MANY_TASKS = 13


@app.command()
def evaluate(
    run: RunArgument,
    trials: TrialsOption = None,
    steps: StepsOption = 50,
    tasks: TasksOption = None,
    task_options: TaskOptionsOption = None,
    seed: SeedOption = 0,
    stochastic: StochasticOption = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the central and the task policies, on the same random starts."""
    learner = RunFolder.open(run).load()
    chosen = _other_tasks(learner, tasks, task_options)
    policies = [learner.central, *(learner.policy(i) for i in range(len(learner.tasks)))]
    many = len(chosen) >= MANY_TASKS
    episodes = trials or (5 if many else 500)
    results = (evaluate_across if many else evaluate_policies)(
        policies,
        chosen,
        episodes,
        steps,
        discount=learner.settings.discount,
        seed=seed,
        deterministic=not stochastic,
        workers=os.cpu_count() or 1,
    )
    if as_json:
        print_json([asdict(result) for result in results])
    else:
        show_evaluation(run, episodes, results)


@app.command()
def compare(
    run: RunArgument,
    other: Annotated[Path, typer.Argument(help="The folder of the run to compare it with.")],
    policy: Annotated[str, typer.Option(help="Which policy of both: central, or a task's.")] = (
        "central"
    ),
    trials: TrialsOption = None,
    steps: StepsOption = 50,
    tasks: TasksOption = None,
    task_options: TaskOptionsOption = None,
    seed: SeedOption = 0,
    stochastic: StochasticOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs' policies on the same starts: differences with their intervals."""
    from crosslearning.comparison import compare as compare_policies
    from crosslearning.comparison import compare_across

    learners = [RunFolder.open(folder).load() for folder in (run, other)]
    first, second = (
        learner.central if policy == "central" else learner.policy(policy) for learner in learners
    )
    chosen = _other_tasks(learners[0], tasks, task_options)
    many = len(chosen) >= MANY_TASKS
    episodes = trials or (5 if many else 500)
    options: dict[str, Any] = {
        "discount": learners[0].settings.discount,
        "seed": seed,
        "deterministic": not stochastic,
        "workers": os.cpu_count() or 1,
    }
    results = (
        [compare_across(first, second, chosen, episodes, steps, **options)]
        if many
        else compare_policies(first, second, chosen, episodes, steps, **options)
    )
    if as_json:
        print_json([{**asdict(result), "verdict": result.verdict} for result in results])
        return
    title = f"{run} minus {other}, {policy} policies: {episodes} episodes a task, 95 % intervals"
    table = Table(title=escape(title), caption="The verdict is on the first, by its return.")
    for heading in ("task", "discounted return", *results[0].rates, "verdict"):
        table.add_column(heading, overflow="fold")
    for result in results:
        cells = (
            result.task,
            str(result.discounted_return),
            *(r.percent() for r in result.rates.values()),
        )
        table.add_row(*(escape(cell) for cell in cells), result.verdict)
    console.print(table)


@app.command()
def relate(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which tasks of a run pull against the consensus, as a table and a map."""
    from crosslearning.figures.relatedness import relatedness_figure
    from crosslearning.figures.style import save_figure
    from crosslearning.relatedness import relatedness

    folder = RunFolder.open(run)
    found = relatedness(folder)
    text = json.dumps(found.to_dict(), indent=2)
    write_atomically(folder.path / "relatedness.json", text.encode())
    written = save_figure(relatedness_figure(found.to_dict()), folder.figures / "relatedness")
    if as_json:
        print(text)
        return
    table = Table(title=escape(f"{run}: which tasks pull against the consensus"))
    for heading in ("rank", "task", "score", "chance", "distance", "agreement", "share of pull"):
        table.add_column(heading)
    for task in found.ranked:
        pull = "–" if task.share_of_pull is None else f"{100 * task.share_of_pull:.0f} %"
        chance = "< 0.001" if task.chance < 1e-3 else f"{task.chance:.2g}"
        numbers = (f"{task.score:.2f}", chance, f"{task.distance:.3g}")
        table.add_row(str(task.rank), escape(task.task), *numbers, f"{task.agreement:.2f}", pull)
    console.print(table)
    for task in found.ranked:
        console.print(f"  {task.sentence}", highlight=False, markup=False, soft_wrap=True)
    for path in (folder.path / "relatedness.json", *written):
        console.print(f"  {path}", highlight=False, markup=False, soft_wrap=True)


def _other_tasks(learner: CrossLearner, name: str | None, options: str | None) -> tuple[Task, ...]:
    """Return the tasks that flags ask for; by default those that were learned."""
    if name is None and options is not None:
        raise InputError("--task-options needs --tasks: they are the options of another task set")
    if name is None:
        return learner.tasks
    return task_set(name, **(read_flag("task_options", options) if options else {}))
