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
from crosslearning.evaluation import Evaluation
from crosslearning.evaluation import evaluate as evaluate_policies
from crosslearning.files import write_atomically
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
from crosslearning.tasks import task_set

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
ConfigOption = Annotated[
    Path | None, typer.Option(help="TOML file with fields; flags win over it.")
]


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


def _with_config_options(
    *without: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a flag for every configuration field but some to a command that takes ``**fields``."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            p
            for p in inspect.signature(command, eval_str=True).parameters.values()
            if p.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        types = {field.name: field.type for field in msgspec.structs.fields(RunConfig)}
        extra = [
            _field_option(name, types[name], default, text)
            for name, _, default, text in describe_fields()
            if name not in without
        ]
        command.__signature__ = inspect.Signature([*own, *extra])  # type: ignore[attr-defined]
        return command

    return add


def _read_fields(config: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a file and of the flags, which win."""
    values = read_config(config) if config is not None else {}
    return values | {name: _read_flag(name, v) for name, v in flags.items() if v is not None}


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
@_with_config_options()
def train(
    *,
    out: Annotated[Path, typer.Option(help="Folder of the run; must not hold one yet.")],
    config: ConfigOption = None,
    **fields: Any,
) -> None:
    """Learn a task set, in a new run folder."""
    values = _read_fields(config, fields)
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
    trials: Annotated[int, typer.Option(min=1, help="Episodes per policy and task.")] = 500,
    steps: Annotated[int, typer.Option(min=1, help="Most steps of an episode.")] = 50,
    tasks: Annotated[str | None, typer.Option(help="Another task set to evaluate on.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the starts.")] = 0,
    stochastic: Annotated[bool, typer.Option(help="Act with exploration noise.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Evaluate the central and the task policies, on the same random starts."""
    learner = RunFolder.open(run).load()
    chosen = learner.tasks if tasks is None else task_set(tasks)
    policies = [learner.central, *(learner.policy(i) for i in range(len(learner.tasks)))]
    results = evaluate_policies(
        policies,
        chosen,
        trials,
        steps,
        discount=learner.settings.discount,
        seed=seed,
        deterministic=not stochastic,
        workers=os.cpu_count() or 1,
    )
    if as_json:
        rows = [asdict(result) for result in results]
        print(json.dumps(_without_nan(rows), indent=2))
    else:
        _show_evaluation(run, trials, results)


def _show_evaluation(run: Path, trials: int, results: list[Evaluation]) -> None:
    table = Table(title=escape(f"{run}: {trials} episodes each, 95 % intervals"))
    for heading in ("task", "policy", "discounted return", *results[0].rates):
        table.add_column(heading, overflow="fold")
    for result in results:
        shares = (
            f"{100 * s.value:.1f} % [{100 * s.low:.1f}, {100 * s.high:.1f}]"
            for s in result.rates.values()
        )
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
    seeds: Annotated[int | None, typer.Option(min=1, help="Default: 10, or 3 if quick.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Draw only this figure.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: all.")] = None,
) -> None:
    """Reproduce the paper's numerical section: every figure, every claim with an interval."""
    from crosslearning.paper.reproduce import FULL, QUICK
    from crosslearning.paper.reproduce import reproduce as reproduce_paper

    folder = out / "quick" if quick else out / "full"
    _announce_compilation()
    finished = reproduce_paper(
        folder,
        seeds or (3 if quick else 10),
        QUICK if quick else FULL,
        workers or os.cpu_count() or 1,
        console,
        only,
    )
    if not finished:
        console.print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130)


@app.command()
@_with_config_options("epsilon", "seed", "workers")
def sweep(
    *,
    out: Annotated[Path, typer.Option(help="Folder for everything; gone on from if begun.")],
    config: ConfigOption = None,
    epsilons: Annotated[
        str, typer.Option(help="Radii in ascending order, with commas; inf allowed.")
    ] = "0,0.5,1,2,4,8",
    seeds: Annotated[int, typer.Option(min=1, help="Paths, with the seeds 0, 1, ….")] = 5,
    stage_iterations: Annotated[
        int | None, typer.Option(min=1, help="Of every later stage; default: half the first's.")
    ] = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="A task set, or maps:50; default: maps:50 for paper, else none."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Episodes per training task.")] = 200,
    steps: Annotated[int, typer.Option(min=1, help="Most steps of an episode.")] = 50,
    cold: Annotated[bool, typer.Option(help="Start every stage from zero instead.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: all.")] = None,
    **fields: Any,
) -> None:
    """Learn a path of radii ε, measure what each gives, and recommend one."""
    from crosslearning.sweep import SweepRequest, run_sweep
    from crosslearning.sweep.request import DEFAULT_HELD_OUT, OWN_FIELDS, read_epsilons

    values = _read_fields(config, fields)
    for name in OWN_FIELDS:
        if name in values:
            raise InputError(f"{config}: a sweep sets {name} itself; leave it out")
    checked = make_config(values, source=str(config) if config is not None else "the flags")
    request = SweepRequest(
        checked,
        read_epsilons(epsilons),
        stage_iterations or max(1, checked.iterations // 2),
        held_out or DEFAULT_HELD_OUT.get(checked.tasks),
        trials,
        steps,
        cold,
    )
    _announce_compilation()
    result = run_sweep(out, request, seeds, workers or os.cpu_count() or 1, console)
    if result is None:
        console.print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130)
    console.print((out / "sweep.md").read_text(), highlight=False, markup=False, soft_wrap=True)
    console.print(f"Figure: {out / 'sweep.png'}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def relate(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which tasks of a run pull against the consensus, as a table and a map."""
    from crosslearning.certificates.relatedness import relatedness
    from crosslearning.report.relatedness_figure import relatedness_figure
    from crosslearning.report.style import save_figure

    folder = RunFolder.open(run)
    found = relatedness(folder)
    text = json.dumps(found.to_dict(), indent=2)
    write_atomically(folder.path / "relatedness.json", text.encode())
    written = save_figure(relatedness_figure(found), folder.figures / "relatedness")
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
