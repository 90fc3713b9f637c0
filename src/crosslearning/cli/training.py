"""Commands that train runs, and that show their progress."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

# The names of this package are imported when they are used.
from crosslearning import runs
from crosslearning._base.files import write_atomically
from crosslearning._base.plain_data import json_text
from crosslearning.cli import options, output
from crosslearning.cli.application import announce_compilation, app, console
from crosslearning.cli.logs import FLAGS, LogFlags, train_from
from crosslearning.cli.options import option, whole
from crosslearning.cli.output import MANY_TASKS, WORST, show_files, show_line, show_numbers
from crosslearning.errors import InputError
from crosslearning.learner.user_input import methods_with, settings_to_plain
from crosslearning.runs.config import RUN_FIELDS


@app.command()
def quickstart(
    out: Annotated[Path, options.folder("Folder of the run.")] = Path("runs/quickstart"),
    iterations: Annotated[int, whole("Iterations to learn.", most=1_000_000)] = 10_000,
) -> None:
    """Learn the paper's tasks, evaluate the result and draw it."""
    from crosslearning.learner.evaluation import evaluate as evaluate_policies

    console.print("Three robots learn to drive around three obstacles, and share what they learn.")
    announce_compilation()
    fields = {"tasks": "paper", "method": "policy-gradient", "epsilon": 3.0}
    config = runs.make_config({**fields, "iterations": iterations})
    with _reporting_interrupts(out):
        if not runs.RunFolder(out).exists():
            outcome = runs.train(out, config, console)
        elif runs.RunFolder.open(out).config() == config:
            outcome = runs.resume(out, console=console)
        else:
            raise InputError(f"{out} holds another run; choose another folder with --out")
    learner = _report(outcome).learner
    results = evaluate_policies([learner.central], learner.tasks, trials=500)
    show_numbers(f"{out}: 500 episodes each, 95 % intervals", results)
    console.print("Pictures of the run:")
    plot(out)


@app.command()
def check(
    tasks: Annotated[str, typer.Argument(help="A set, module:function, or a file tasks.toml.")],
    task_options: options.TaskOptions = None,
    around: Annotated[str | None, option("A controller: module:name, or a JSON file.")] = None,
    episodes: Annotated[int, whole("Episodes of each task, each run twice.")] = 4,
    steps: Annotated[int, whole("Most steps of one.")] = 1000,
    seed: options.NoiseSeed = 0,
) -> None:
    """Check that tasks can be learned, and show what policies see."""
    from crosslearning.learner.preparation import resolve_tasks
    from crosslearning.tasks import check_task
    from crosslearning.tasks.sources import load_tasks, read_source
    from crosslearning.tasks.task import warn_of_no_limit

    read = options.read_flags({"task_options": task_options})
    given = load_tasks(read_source(tasks, around), read.get("task_options", {}))
    rows = []
    for task in given:
        check_task(task, episodes, steps, seed)
        sizes = (task.observation_size, task.action_size, task.horizon)
        rows.append([task.name, *map(str, sizes)])
    first = resolve_tasks(given, {})[0]
    warn_of_no_limit(given)
    output.show_table(
        f"{tasks} can be learned", ["task", "observations", "actions", "horizon"], rows
    )
    for what, names in (("observations", first.observation_names), ("actions", first.action_names)):
        if names:
            show_line(f"{what}: {', '.join(names)}")


@app.command()
@options.with_config_options(more=FLAGS)
def train(
    *,
    out: Annotated[Path, options.folder("Folder of the run; must not hold one yet.")],
    config: options.Config = None,
    verdict: options.Verdict = 10,
    files: Annotated[
        list[Path] | None,
        option("Learn from log files instead, see crosslearning logs; may be repeated.", "--from"),
    ] = None,
    **fields: Any,
) -> None:
    """Learn a task set, or from log files, in a new run folder."""
    flags = LogFlags(**{flag.name: fields.pop(flag.name) for flag in FLAGS})
    with _reporting_interrupts(out):
        runs.RunFolder(out).require_free()
        if files:
            announce_compilation()
            _finish(out, train_from(out, files, flags, config, fields), verdict)
            return
        if flags.given():
            raise InputError("flags of signals, such as --observations, need --from FILE")
        checked = options.config_from(config, fields)
        given = {k: v for k, v in fields.items() if v is not None and k not in RUN_FIELDS}
        if "method" not in given and len(methods := methods_with(given)) == 1:
            show_line(f"Method: {methods[0]}, for a setting that it alone has. Another: --method.")
        announce_compilation()
        outcome = runs.train(out, checked, console)
        _finish(out, outcome, verdict)


@app.command()
@options.with_config_options("tasks")
def adapt(
    run: options.Run,
    *,
    tasks: Annotated[str, option("The tasks to adapt to: a set, module:function, or tasks.toml.")],
    out: Annotated[Path, options.folder("Folder of the new run; must not hold one yet.")],
    start: Annotated[str, option("The policy to start from: central, or a task's.")] = "central",
    verdict: options.Verdict = 10,
    **fields: Any,
) -> None:
    """Learn other tasks from a run's central policy.

    What is not given is as it was in the run, but for epsilon, which is infinite.
    """
    from crosslearning.analysis.adaptation import adapt_run

    with _reporting_interrupts(out):
        runs.RunFolder(out).require_free()
        announce_compilation()
        outcome = adapt_run(run, out, tasks, start, console, **options.read_flags(fields))
        _finish(out, outcome, verdict)


@app.command()
def resume(
    run: options.Run,
    workers: Annotated[int | None, whole("Threads or processes for the rollouts.")] = None,
    on: Annotated[str, option("threads, processes, ray, ray://host:port or auto.")] = "auto",
    step_seconds: Annotated[float | None, option("Most seconds of a step; default: none.")] = None,
    iterations: Annotated[int | None, whole("Go on to so many, also after the run's end.")] = None,
    steps: Annotated[int | None, whole("The same in environment steps, over all tasks.")] = None,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    verdict: options.Verdict = 10,
) -> None:
    """Go on with a run, bit for bit as if it had never stopped."""
    with _reporting_interrupts(run):
        announce_compilation()
        length = iterations, steps
        outcome = runs.resume(run, workers, console, tasks, *length, on, step_seconds, around)
        _finish(run, outcome, verdict)


@app.command()
def info(run: options.Run) -> None:
    """Show the configuration of a run and its progress."""
    from crosslearning._base.statistics import readable
    from crosslearning.runs.metrics import recent_returns
    from crosslearning.runs.system_info import in_words

    folder = runs.RunFolder.open(run)
    config, metrics = folder.config(), folder.read_metrics()
    table = Table(title=escape(str(run)), show_header=False)
    saved = [str(iteration) for iteration, _ in folder.checkpoints()]
    values = config.to_plain()
    if saved or folder.model.exists():
        # With the settings that the learner has filled in.
        learner = folder.load()
        kernel = output.describe_kernel(learner.kernel.to_dict())
        values |= settings_to_plain(learner.settings) | {"kernel": kernel}
    for name, value in values.items():
        table.add_row(name, "none" if value is None else escape(str(value)))
    console.print(table)
    state = "finished" if folder.model.exists() else "not finished"
    console.print(f"state: {state}; checkpoints at: {', '.join(saved) or 'none'}")
    for system in folder.systems():
        show_line(f"made on: {in_words(system)}")
    if metrics:
        last, known = metrics[-1], recent_returns(metrics)
        made = {"iteration": str(last["iteration"]), "steps": str(last["steps"])}
        made[config.length.field] += f" of {config.length.amount}"
        text = f"iteration {made['iteration']}, {made['steps']} environment steps, {last['knots']}"
        text += " knots; recent returns while exploring: "
        names = [name for name in last["return"] if name in known]
        if len(known) >= MANY_TASKS:
            text += f"mean of {len(known)} tasks {fmean(known.values()):.1f}; the worst: "
            names = [*known][:WORST]
        show_line(text + ", ".join(f"{name} {known[name]:.1f}" for name in names))
    evaluated = [line for line in folder.read_evaluations() if line["mean_return"] is not None]
    if evaluated:
        best = max(evaluated, key=lambda line: float(line["mean_return"]))
        mean = float(best["mean_return"])
        show_line(
            f"best of {len(evaluated)} evaluations on the way: iteration {best['iteration']}, mean "
            f"return {mean:{readable(mean)}}; crosslearning evaluate {shlex.quote(str(run))} "
            "--best-evaluated"
        )


@app.command()
def plot(
    run: options.Run,
    trials: Annotated[int, whole("Paths per task.", most=10_000)] = 25,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
) -> None:
    """Draw a run's learning curves and, on maps, its paths."""
    from crosslearning.analysis.trajectories import trajectories, worth_drawing
    from crosslearning.figures.paths import trajectory_figure
    from crosslearning.figures.run import evaluation_figure, learning_figure
    from crosslearning.figures.style import save_figure
    from crosslearning.runs.metrics import aims_of

    folder = runs.RunFolder.open(run, tasks, around)
    settings, metrics = folder.config().settings, folder.read_metrics()
    curves = learning_figure(metrics, settings.epsilon, aims_of(settings, metrics))
    written = save_figure(curves, folder.figures / "learning")
    if evaluations := folder.read_evaluations():
        written += save_figure(evaluation_figure(evaluations), folder.figures / "evaluations")
    learner = folder.load()
    try:
        shown = worth_drawing(learner.tasks, metrics)
        paths = trajectories(learner.central, shown, trials)
    except InputError as reason:
        show_line(f"No paths drawn: {reason}")
    else:
        figure = trajectory_figure(learner.central.name, paths)
        written += save_figure(figure, folder.figures / "trajectories")
        if len(shown) < len(learner.tasks):
            show_line(f"Paths are of the {len(shown)} tasks with the lowest recent returns.")
    show_files(written)


@contextmanager
def _reporting_interrupts(run: Path) -> Iterator[None]:
    """Print what is kept of a run that Ctrl-C ends at once, and how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        folder, kept = runs.RunFolder(run), "no iteration is kept yet. Begin again"
        if not folder.exists():
            show_line("Interrupted before the run began; nothing is kept.")
        else:
            if saved := folder.checkpoints():
                kept = f"iteration {saved[-1][0]} is kept. Go on"
            show_line(f"Interrupted; {kept} with: {folder.resume_command}")
        raise typer.Exit(130) from None


def _show_support(outcome: runs.Outcome) -> None:
    """Print in how many imagined steps policies from logs leave their data."""
    from crosslearning.analysis.logged import out_of_data_fraction

    rows = [[name, f"{share:.0%}"] for name, share in out_of_data_fraction(outcome.learner).items()]
    output.show_table(
        "Imagined steps in which the models are uncertain: the policies leave the data there",
        ["machine", "share"],
        rows,
    )


def _report(outcome: runs.Outcome) -> runs.Outcome:
    """Print how a run ended; exit if it was interrupted."""
    show_line(outcome.reason)
    if not outcome.finished:
        raise typer.Exit(130)
    return outcome


def _finish(run: Path, outcome: runs.Outcome, trials: int) -> None:
    """Print how a run ended and, if that is new, the verdict on it, which its folder keeps."""
    _report(outcome)
    folder = runs.RunFolder(run)
    if folder.config().tasks == runs.LOGGED:
        _show_support(outcome)
        show_line(f"The run is in {run}. It has no environments: evaluate it with --tasks.")
        return
    if trials and not folder.verdict.exists():
        from crosslearning.analysis.verdict import verdict

        with console.status("Judging the policies …") if console.is_terminal else nullcontext():
            found = verdict(outcome.learner, max(2, trials))
        output.show_verdict(found)
        write_atomically(folder.verdict, f"{json_text(found.to_dict(), indent=1)}\n".encode())
    show_line(f"The run is in {run}. Next: crosslearning evaluate {shlex.quote(str(run))}")
