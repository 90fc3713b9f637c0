"""Commands that measure policies and models."""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning import runs
from crosslearning.cli import options
from crosslearning.cli.application import announce_compilation, app, or_interrupted
from crosslearning.cli.options import whole
from crosslearning.cli.output import (
    MANY_TASKS,
    STILL_ZERO,
    WITHOUT_RADIUS,
    WORST,
    print_json,
    show_line,
    show_numbers,
    show_table,
)
from crosslearning.errors import InputError

if TYPE_CHECKING:
    from crosslearning._base.statistics import Interval
    from crosslearning.analysis.model_errors import ModelErrors
    from crosslearning.learner import CrossLearner
    from crosslearning.learner.evaluation import Evaluation
    from crosslearning.tasks import Task


@dataclass(frozen=True)
class MeasuringFlags:
    """The flags of every command that measures; see :func:`with_measuring_flags`."""

    trials: Annotated[
        int | None, whole("Episodes per policy and task; default: 500; over many tasks 5.")
    ] = None
    horizon: options.Horizon = None
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Other tasks: a set such as 'random:200', module:function, or a file tasks.toml."
        ),
    ] = None
    task_options: Annotated[
        str | None, typer.Option(help="Options of that set as JSON, such as '{\"seed\": 7}'.")
    ] = None
    best: options.Best = False
    seed: options.StartSeed = 0
    stochastic: Annotated[bool, typer.Option(help="Act with exploration noise.")] = False
    json: options.Json = False

    def episodes(self, learner: CrossLearner) -> tuple[tuple[Task, ...], dict[str, Any]]:
        """Return the tasks, by default those that were learned, and the options of episodes."""
        from crosslearning.tasks import tasks_from
        from crosslearning.tasks.task import warn_of_no_limit

        if self.tasks is None and self.task_options is not None:
            raise InputError("--task-options needs --tasks: they are options of another task set")
        values = options.read_flag("task_options", self.task_options) if self.task_options else {}
        tasks = learner.tasks if self.tasks is None else tasks_from(self.tasks, **values)
        if self.horizon is None:
            warn_of_no_limit(tasks)
        return tasks, {
            "trials": self.trials or (5 if len(tasks) >= MANY_TASKS else 500),
            "horizon": self.horizon,
            "seed": self.seed,
            "deterministic": not self.stochastic,
            "workers": os.cpu_count() or 1,
        }


def _listed(tasks: Sequence[Task]) -> list[str]:
    """Return the outcomes that tasks want listed in a table."""
    return list(dict.fromkeys(name for task in tasks for name in task.listed_outcomes))


def with_measuring_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags to a command."""
    return options.add_flags(
        command, inspect.signature(MeasuringFlags, eval_str=True).parameters.values()
    )


@app.command()
@with_measuring_flags
def evaluate(run: options.Run, **flags: Any) -> None:
    """Evaluate the policies of a run, on the same random starts."""
    from crosslearning.learner.evaluation import evaluate as evaluate_policies
    from crosslearning.learner.evaluation import evaluate_across, evaluate_own

    given = MeasuringFlags(**flags)
    learner = runs.RunFolder.open(run).load(best=given.best)
    tasks, trial_options = given.episodes(learner)
    many = len(learner.tasks) >= MANY_TASKS
    policies = [learner.policy(number) for number in range(len(learner.tasks))]
    each: list[Evaluation] = []
    if not many:
        measure = evaluate_across if len(tasks) >= MANY_TASKS else evaluate_policies
        results = measure([learner.central, *policies], tasks, **trial_options)
    elif given.tasks is not None:
        results = evaluate_across([learner.central], tasks, **trial_options)
    else:
        results, each = evaluate_own(policies, learner.central, tasks, **trial_options)
    if given.json:
        # "steps" is the former name of the horizon.
        print_json([{**asdict(result), "steps": result.horizon} for result in each or results])
        return
    title = f"{run}: {trial_options['trials']} episodes each, 95 % intervals"
    show_numbers(title, results, _listed(tasks))
    if each:
        worst = sorted(each[::2], key=lambda one: one.discounted_return.value)[:WORST]
        names = [one.task for one in worst]
        show_line("")
        shown = [one for name in names for one in each if one.task == name]
        show_numbers(f"The {len(names)} tasks whose own policies do worst", shown, _listed(tasks))
        show_line("Own is each task's policy on its task. All tasks: --json.")
    elif many:
        show_line(f"The central policy alone: there are {len(learner.tasks)} task policies.")
    elif math.isinf(learner.settings.epsilon):
        show_line(WITHOUT_RADIUS)
    elif learner.family.norms()[-1] == 0.0:
        show_line(STILL_ZERO)


@app.command()
@with_measuring_flags
def compare(
    run: options.Run,
    other: Annotated[Path, typer.Argument(help="The folder of the run to compare it with.")],
    policy: Annotated[
        str, typer.Option(help="Which policy of both: central, average, or a task's.")
    ] = "central",
    **flags: Any,
) -> None:
    """Compare two runs' policies on the same starts, with intervals."""
    from crosslearning.analysis.comparison import compare as compare_policies
    from crosslearning.analysis.comparison import compare_across

    given = MeasuringFlags(**flags)
    learners = [runs.RunFolder.open(folder).load(best=given.best) for folder in (run, other)]
    first, second = (learner.policy(policy) for learner in learners)
    tasks, trial_options = given.episodes(learners[0])
    if len(tasks) >= MANY_TASKS:
        results = [compare_across(first, second, tasks, **trial_options)]
    else:
        results = compare_policies(first, second, tasks, **trial_options)
    if given.json:
        print_json([{**asdict(result), "verdict": result.verdict} for result in results])
        return
    what = f"{run} minus {other}, {policy} policies"
    title = f"{what}: {trial_options['trials']} episodes a task, 95 % intervals"
    show_numbers(title, results, _listed(tasks))
    show_line("The verdict is on the first, by its discounted return.")
    if policy == "central" and any(math.isinf(learner.settings.epsilon) for learner in learners):
        show_line(WITHOUT_RADIUS)


@app.command()
def identify(
    run: options.Run,
    *,
    tasks: Annotated[
        str, typer.Option(help="The new tasks: a set, module:function, or a file tasks.toml.")
    ],
    task_options: Annotated[str | None, typer.Option(help="Options of that set as JSON.")] = None,
    episodes: Annotated[int, whole("Episodes of each new task.")] = 5,
    horizon: options.Horizon = None,
    seed: options.NoiseSeed = 0,
    as_json: options.Json = False,
) -> None:
    """Say which trained task of a run a new one is like."""
    from crosslearning.analysis.identification import identify_all
    from crosslearning.tasks import tasks_from

    learner = runs.RunFolder.open(run).load()
    given = options.read_flag("task_options", task_options) if task_options else {}
    results = identify_all(learner, tasks_from(tasks, **given), episodes, horizon, seed)
    if as_json:
        names = ("nearest", "certainty", "familiar")
        print_json([{**asdict(one), **{k: getattr(one, k) for k in names}} for one in results])
        return
    for one in results:
        show_line(str(one))


@app.command()
def models(
    run: options.Run,
    episodes: Annotated[int, whole("Fresh episodes of each task.")] = 5,
    horizon: Annotated[int, whole("Most steps of one.")] = 50,
    steps: Annotated[int, whole("How far ahead the models predict.")] = 25,
    seed: options.NoiseSeed = 0,
    as_json: options.Json = False,
) -> None:
    """Measure how well the models of a run predict unseen episodes."""
    from crosslearning._base.files import write_atomically
    from crosslearning.analysis.model_errors import model_errors
    from crosslearning.figures.model_errors import errors_figure, paths_figure, radius_figure
    from crosslearning.figures.style import save_figure

    folder = runs.RunFolder.open(run)
    if not as_json:
        announce_compilation()
    with or_interrupted("; nothing was written. The same command begins again."):
        measured = model_errors(folder, episodes, horizon, steps, seed)
    plain = measured.to_dict()
    text, file = json.dumps(plain, indent=2), folder.path / "models.json"
    write_atomically(file, f"{text}\n".encode())
    written = [file]
    figures = {"errors": errors_figure, "paths": paths_figure, "radius": radius_figure}
    for name, draw in figures.items():
        written += save_figure(draw(plain), folder.figures / f"models-{name}")
    if as_json:
        print(text)
        return
    _show_errors(measured)
    for path in written:
        show_line(f"  {path}")


def _show_errors(measured: ModelErrors) -> None:
    title = (
        f"Relative errors one step ahead, on {measured.held_out} steps that were not learned from "
        f"({measured.seen} were); means over {len(measured.tasks)} tasks, 95 % intervals"
    )
    _show_kinds(title, {kind.kind: kind.one_step for kind in measured.kinds})
    title = f"After {measured.steps} steps in an open loop"
    _show_kinds(title, {kind.kind: kind.ahead for kind in measured.kinds})
    rows = [
        [one.output, f"{one.alike:.4f}", f"{one.epsilon:.3g}", f"{one.noise:.2g}", str(one.knots)]
        for one in measured.outputs
    ]
    title = "What the data chose for the cross-learned models, in units of each output's spread"
    show_table(title, ["output", "likeness of tasks", "ε", "noise", "knots"], rows)


def _show_kinds(title: str, kinds: Mapping[str, Mapping[str, Interval]]) -> None:
    names = list(next(iter(kinds.values())))
    rows = [
        [kind, *(values[name].format(".2g") for name in names)] for kind, values in kinds.items()
    ]
    show_table(title, ["models", *names], rows)
    show_line("")
