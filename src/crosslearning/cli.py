"""The command line: one thin command a verb."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from crosslearning import __version__
from crosslearning.errors import CrossLearningError, InputError
from crosslearning.evaluation import Estimate, Evaluation, evaluate_across
from crosslearning.evaluation import evaluate as evaluate_policies
from crosslearning.learner import CrossLearner
from crosslearning.runs import (
    Outcome,
    RunConfig,
    RunFolder,
    describe_fields,
    make_config,
    read_config,
)
from crosslearning.runs import resume as resume_run
from crosslearning.runs import train as train_run
from crosslearning.tasks import Task, task_set

app = typer.Typer(
    name="crosslearning",
    help="Multi-task reinforcement learning with kernel policies.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console()
errors = Console(stderr=True)

RunArgument = Annotated[Path, typer.Argument(help="The run's folder.")]
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


def main() -> None:
    """Run the command line; errors of the library become one clear line and exit code 1."""
    try:
        app()
    except CrossLearningError as problem:
        errors.print(Text.assemble(("error: ", "bold red"), str(problem)), soft_wrap=True)
        sys.exit(1)


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"crosslearning {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


def _field_option(name: str, annotation: Any, default: str, help_text: str) -> inspect.Parameter:
    """Return the command-line parameter of one configuration field."""
    inner = get_args(annotation)[0]
    # What the command line cannot hold as it is comes as text; see _read_flag.
    as_text = any(get_origin(part) in (tuple, dict) for part in (inner, *get_args(inner)))
    kind: Any = str if as_text else inner
    option = typer.Option(help=f"{help_text} [default: {default}]", show_default=False)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _with_config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add a flag for every configuration field to a command that takes ``**fields``."""
    own = [
        p
        for p in inspect.signature(command, eval_str=True).parameters.values()
        if p.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    types = {field.name: field.type for field in msgspec.structs.fields(RunConfig)}
    extra = [_field_option(n, types[n], default, text) for n, _, default, text in describe_fields()]
    command.__signature__ = inspect.Signature([*own, *extra])  # type: ignore[attr-defined]
    return command


def _read_flag(name: str, value: Any) -> Any:
    """Return a flag's value as the configuration holds it."""
    try:
        if name == "action_variance":
            return [float(part) for part in str(value).split(",")]
        if name in ("kernel", "task_options"):
            return json.loads(value)
    except ValueError as problem:
        form = "numbers with commas" if name == "action_variance" else "a JSON object"
        raise InputError(f"--{name.replace('_', '-')} must be {form}, got {value!r}") from problem
    return value


@app.command()
@_with_config_options
def train(
    *,
    out: Annotated[Path, typer.Option(help="Folder of the run; must not hold one yet.")],
    config: Annotated[
        Path | None, typer.Option(help="TOML file with fields; flags win over it.")
    ] = None,
    **fields: Any,
) -> None:
    """Learn a task set, in a new run folder."""
    values = read_config(config) if config is not None else {}
    values |= {name: _read_flag(name, v) for name, v in fields.items() if v is not None}
    checked = make_config(values, source=str(config) if config is not None else "the flags")
    _announce_compilation()
    _finish(out, train_run(out, checked, console))


@app.command()
def resume(
    run: RunArgument,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; default: as begun.")] = None,
) -> None:
    """Go on with a run that was interrupted, bit for bit as if it had not been."""
    _announce_compilation()
    _finish(run, resume_run(run, workers, console))


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
        _print_json([asdict(result) for result in results])
    else:
        _show_evaluation(run, episodes, results)


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
        _print_json([{**asdict(result), "verdict": result.verdict} for result in results])
        return
    title = f"{run} minus {other}, {policy} policies: {episodes} episodes a task, 95 % intervals"
    table = Table(title=escape(title), caption="The verdict is on the first, by its return.")
    for heading in ("task", "discounted return", *results[0].rates, "verdict"):
        table.add_column(heading, overflow="fold")
    for result in results:
        cells = (result.task, str(result.discounted_return), *map(_percent, result.rates.values()))
        table.add_row(*(escape(cell) for cell in cells), result.verdict)
    console.print(table)


def _other_tasks(learner: CrossLearner, name: str | None, options: str | None) -> tuple[Task, ...]:
    """Return the tasks that flags ask for; by default those that were learned."""
    if name is None and options is not None:
        raise InputError("--task-options needs --tasks: they are the options of another task set")
    if name is None:
        return learner.tasks
    return task_set(name, **(_read_flag("task_options", options) if options else {}))


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _print_json(rows: list[dict[str, Any]]) -> None:
    print(json.dumps(_without_nan(rows), indent=2))


def _show_evaluation(run: Path, trials: int, results: list[Evaluation]) -> None:
    table = Table(title=escape(f"{run}: {trials} episodes each, 95 % intervals"))
    for heading in ("task", "policy", "discounted return", *results[0].rates):
        table.add_column(heading, overflow="fold")
    for result in results:
        shares = map(_percent, result.rates.values())
        cells = (result.task, result.policy, str(result.discounted_return), *shares)
        table.add_row(*(escape(cell) for cell in cells))
    console.print(table)


def _without_nan(value: Any) -> Any:
    """Return plain data with null in the place of NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value


@app.command()
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/quickstart"),
    iterations: Annotated[int, typer.Option(min=1, help="Iterations to learn.")] = 10_000,
) -> None:
    """Learn the paper's three navigation tasks, evaluate the result and draw it."""
    console.print("Three robots learn to drive around three obstacles, and share what they learn.")
    _announce_compilation()
    config = make_config({"tasks": "paper", "epsilon": 3.0, "iterations": iterations})
    if RunFolder(out).exists():
        if RunFolder.open(out).config() != config:
            raise InputError(f"{out} holds another run; choose another folder with --out")
        outcome = resume_run(out, console=console)
    else:
        outcome = train_run(out, config, console)
    console.print(outcome.reason, highlight=False, markup=False, soft_wrap=True)
    if not outcome.finished:
        raise typer.Exit(130)
    learner = outcome.learner
    discount = learner.settings.discount
    results = evaluate_policies([learner.central], learner.tasks, 500, discount=discount)
    _show_evaluation(out, 500, results)
    console.print("Pictures of the run:")
    _draw(out)


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for everything.")] = Path("runs/reproduce"),
    quick: Annotated[bool, typer.Option(help="A small version, in about two minutes.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Default: 10 (5 for readings); quick: 3 (2).")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Draw only this figure.")] = None,
    readings: Annotated[
        bool, typer.Option(help="Instead: which claims depend on what the paper leaves unsaid.")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: all.")] = None,
) -> None:
    """Reproduce the paper's numerical section: every figure, every claim with an interval."""
    from crosslearning.paper import readings as other_readings
    from crosslearning.paper import reproduce as numerical_section

    if readings and only:
        raise InputError("--readings draws one figure of its own; drop --only")
    folder = out / ("readings" if readings else "") / ("quick" if quick else "full")
    processes = workers or os.cpu_count() or 1
    _announce_compilation()
    if readings:
        scale = other_readings.QUICK if quick else other_readings.FULL
        count = seeds or (2 if quick else 5)
        finished = other_readings.compare_readings(folder, count, scale, processes, console)
    else:
        scale = numerical_section.QUICK if quick else numerical_section.FULL
        count = seeds or (3 if quick else 10)
        finished = numerical_section.reproduce(folder, count, scale, processes, console, only)
    if not finished:
        console.print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130)


@app.command()
def info(run: RunArgument) -> None:
    """Show what a run was asked for and how far it is."""
    folder = RunFolder.open(run)
    config = folder.config()
    table = Table(title=escape(str(run)), show_header=False)
    for name in RunConfig.__struct_fields__:
        value = getattr(config, name)
        table.add_row(name, "none" if value is None else escape(str(value)))
    console.print(table)
    metrics = folder.read_metrics()
    saved = [str(iteration) for iteration, _ in folder.checkpoints()]
    state = "finished" if folder.model.exists() else "not finished"
    console.print(f"state: {state}; checkpoints at: {', '.join(saved) or 'none'}")
    if metrics:
        last = metrics[-1]
        recent = metrics[-25:]
        returns = ", ".join(
            f"{name} {sum(line['return'][name] for line in recent) / len(recent):.1f}"
            for name in last["return"]
        )
        console.print(
            f"iteration {last['iteration']} of {config.iterations}, {last['steps']} environment "
            f"steps, {last['knots']} knots; recent returns while exploring: {returns}",
            markup=False,
            highlight=False,
        )


@app.command()
def plot(
    run: RunArgument,
    trials: Annotated[int, typer.Option(min=1, help="Paths per task.")] = 25,
) -> None:
    """Draw a run's learning curve and, for navigation tasks, the central policy's paths."""
    _draw(run, trials)


def _draw(run: Path, trials: int = 25) -> None:
    from crosslearning.report.figures import learning_figure, trajectory_figure
    from crosslearning.report.style import save_figure

    folder = RunFolder.open(run)
    curves = learning_figure(folder.read_metrics(), folder.config().epsilon)
    written = save_figure(curves, folder.figures / "learning")
    learner = folder.load()
    try:
        figure = trajectory_figure(learner.central, learner.tasks, trials)
    except InputError as reason:
        console.print(f"No paths drawn: {reason}", highlight=False, markup=False)
    else:
        written += save_figure(figure, folder.figures / "trajectories")
    for path in written:
        console.print(f"  {path}", highlight=False, markup=False, soft_wrap=True)


def _announce_compilation() -> None:
    package = Path(__file__).parent
    places = [package, Path(os.environ.get("NUMBA_CACHE_DIR", package))]
    if not any(place.is_dir() and next(place.rglob("*run_samples*.nbi"), None) for place in places):
        console.print("First use: compiling for about 20 seconds; later runs start at once.")


def _finish(run: Path, outcome: Outcome) -> None:
    console.print(outcome.reason, highlight=False, markup=False, soft_wrap=True)
    if not outcome.finished:
        raise typer.Exit(130)
    command = f"crosslearning evaluate {shlex.quote(str(run))}"
    console.print(f"The run is in {run}. Next: {command}", highlight=False, markup=False)
