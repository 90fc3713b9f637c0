"""Commands that show runs and policies: lists, films, reports, exports, demos, the playground."""

from __future__ import annotations

import os
import shlex
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosslearning import runs
from crosslearning.cli import options
from crosslearning.cli.application import announce_compilation, app, console, errors, interruptible
from crosslearning.cli.options import option, whole
from crosslearning.cli.output import print_json, show_files, show_line, show_table, write_json
from crosslearning.errors import InputError, unknown_name
from crosslearning.export import Precision, Target

if TYPE_CHECKING:
    from crosslearning.analysis.fleet import Fleet
    from crosslearning.export.budget import Pruning
    from crosslearning.learner import Policy
    from crosslearning.learner.deployment import LearnedController
    from crosslearning.learner.policy import BoxSpec
    from crosslearning.runs.listing import RunSummary

Names = Annotated[
    str | None, option("Their names with commas between, units in brackets: 'torque [N m]'.")
]


@app.command("runs")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, also within.")] = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """List the runs of a folder: how each stands, what to do next."""
    from crosslearning.runs.listing import summarise_runs

    summaries = summarise_runs(folder)
    if as_json:
        print_json([one.to_dict() for one in summaries])
        return
    if not summaries:
        begin = f"crosslearning train --out {shlex.quote(str(folder / 'first'))}"
        show_line(f"There are no runs in {folder}. Begin one: {begin}")
        return
    count = "1 run" if len(summaries) == 1 else f"{len(summaries)} runs"
    headings = ["run", "state", "method", "tasks", "steps", "return", "ε", "knots"]
    show_table(f"{folder}: {count}", headings, [_cells(one, folder) for one in summaries])
    show_line("")
    if any(one.final_return is not None for one in summaries):
        show_line("Returns are totals of episodes, from the verdict at the end.")
    if any(one.final_return is None and one.best_return is not None for one in summaries):
        show_line("Returns with * are discounted: the best of the evaluations on the way.")
    if any(_first_return(one)[0] == "~" for one in summaries):
        show_line("Returns with ~ are discounted, of the last iterations, while exploring.")
    show_line("What next:")
    for one in summaries:
        remark = one.problem or (f"written by {one.writer}" if one.writer else "")
        show_line(f"  {one.next}" + (f"    # {remark}" if remark else ""))


def _first_return(one: RunSummary) -> tuple[str, float | None]:
    """Return the mark and the number of the return that says most of a run."""
    returns = {"": one.final_return, "*": one.best_return, "~": one.recent_return}
    return next(((mark, one) for mark, one in returns.items() if one is not None), ("", None))


def _cells(one: RunSummary, folder: Path) -> list[str]:
    """Return the cells of a run's row; unknown is a dash."""
    from crosslearning._base.statistics import readable

    name = Path(one.run).relative_to(folder).as_posix()
    count, (mark, number) = one.task_count, _first_return(one)
    cells = [
        *(one.run if name == "." else name, one.state, one.method),
        one.tasks and one.tasks + (f" ({count})" if count is not None else ""),
        None if one.steps is None else f"{one.steps:,}",
        None if number is None else f"{mark}{number:{readable(number)}}",
        _radii(one),
        None if one.knots is None else str(one.knots),
    ]
    return [cell or "–" for cell in cells]


def _radii(one: RunSummary) -> str | None:
    """Return ε, and ε₀ where it is another one."""
    if one.epsilon is None:
        return None
    text = f"{one.epsilon:g}"
    if one.controller_epsilon not in (None, one.epsilon):
        text += f", ε₀ {one.controller_epsilon:g}"
    return text.replace("inf", "∞")


@app.command()
def render(
    run: options.Run,
    out: Annotated[Path | None, option("A .gif, .mp4 or .png; default: figures/film.gif.")] = None,
    policy: options.Policy = "central",
    task: Annotated[str | None, option("The task; default: the policy's, or the first.")] = None,
    episodes: Annotated[int, whole("One after the other.")] = 1,
    horizon: options.Horizon = None,
    seed: options.StartSeed = 0,
    best: options.Best = False,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
) -> None:
    """Film a policy at work, or draw moments of it."""
    from crosslearning._base.progress import progress_bar
    from crosslearning._base.statistics import readable
    from crosslearning.analysis.recording import record
    from crosslearning.export.sources import find_policy
    from crosslearning.figures.animation import check_format, save_recording

    folder = runs.RunFolder.open(run, tasks, around)
    path = out or folder.figures / "film.gif"
    check_format(path)
    learner = folder.load(best=best)
    acting, names = find_policy(learner, policy), [one.name for one in learner.tasks]
    name = task or (acting.name if acting.name in names else names[0])
    if name not in names and name.isdecimal() and int(name) < len(names):
        name = names[int(name)]
    if name not in names:
        raise unknown_name("task", name, names)
    place = learner.tasks[names.index(name)]
    announce_compilation()
    with progress_bar(errors, "{task.completed} pictures") as shown:
        bar = shown.add_task("filming", total=episodes * ((horizon or place.horizon) + 1))
        recording = record(acting, place, episodes, horizon, seed, lambda: shown.advance(bar))
    save_recording(recording, path)
    numbers = ", ".join(f"{total:{readable(total)}}" for total in recording.returns)
    lengths = ", ".join(str(len(states) - 1) for states in recording.episodes)
    what = f"The {recording.policy} policy in task {recording.task}"
    show_line(f"{what}: {lengths} steps, total return {numbers}")
    show_files([path])


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    out: Annotated[Path | None, option("The page; default: report.html, in a run.")] = None,
    trials: Annotated[int | None, whole("Episodes each; default: 500, of many tasks 20.")] = None,
    samples: Annotated[int, whole("Fresh samples per task, if not yet certified.", 2)] = 1000,
    seed: Annotated[int, option("Seed of the starts and samples.", min=0)] = 0,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    open_it: options.Open = True,
) -> None:
    """Write what is known of runs as one page."""
    from crosslearning._base.files import check_page, write_atomically
    from crosslearning.figures.report import PAGE_MARK, gather, report_page

    path = out or (folders[0] if len(folders) == 1 else Path()) / "report.html"
    check_page(path, PAGE_MARK, "report")
    # All are opened before any is measured.
    for folder in folders:
        runs.RunFolder.open(folder, tasks, around)
    with interruptible(text=". The same command goes on with what is measured already."):
        asked = trials, seed, samples, errors, tasks, around
        contents = [gather(folder, *asked) for folder in folders]
    write_atomically(path, report_page(contents).encode("utf-8", "backslashreplace"))
    show_files([path])
    if open_it and console.is_terminal:
        webbrowser.open(path.resolve().as_uri())


@app.command()
def export(
    source: Annotated[Path, typer.Argument(help="A run's folder; a learner's or policy's file.")],
    to: Annotated[Target, option("What to write.")],
    out: Annotated[Path, option("The file; beside C's source goes its header.")],
    policy: Annotated[str | None, option("central (default), average, or a task's.")] = None,
    precision: Annotated[Precision, option("Of observations, actions and all between.")] = "double",
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    best: options.Best = False,
    observations: Names = None,
    actions: Names = None,
    rate: Annotated[float | None, option("Actions a second, for contract and FMU.")] = None,
    max_knots: Annotated[int | None, option("Prune to so many knots, for a PLC.")] = None,
    max_bytes: Annotated[int | None, option("Of knots and weights, likewise.")] = None,
    correction_only: Annotated[
        bool, typer.Option("--correction-only", help="Leave out controller, lags and limits.")
    ] = False,
) -> None:
    """Write a policy as C, FMU, Structured Text, ONNX or JSON.

    Each is checked against Python before it is written. Of tasks with a controller, lags or
    set-points all but ONNX hold all of these; ONNX holds the correction.
    """
    from crosslearning.export import export_policy, open_policy
    from crosslearning.export.sources import rename, renamed

    opened = open_policy(source, policy, tasks, best, correction_only, around)
    names = _split(observations), _split(actions), rate
    exported: Policy | LearnedController = opened.policy
    if opened.controller is None:
        rename(opened.policy, *names)
    else:
        exported = renamed(opened.controller, *names)
    budget = {"max_knots": max_knots, "max_bytes": max_bytes}
    written = export_policy(exported, to, out, precision, opened.run, **budget)
    pruned, knots = written.pruning, len(opened.policy.plain.knots)
    if pruned is not None:
        knots = pruned.knots
    checked = f"Checked against Python: {written.agreement}."
    what = "policy" if opened.controller is None or to == "onnx" else "controller"
    show_line(f"The {opened.policy.name} {what}, {knots} knots, {precision} precision, as {to}:")
    show_files(written.files)
    if pruned is not None:
        _show_pruning(pruned, opened.policy.actions)
    if opened.controller is not None:
        _show_loop(opened.controller, to)
    if written.arithmetic != precision:
        show_line("Its weights cancel too much for single precision: observations and actions are")
        show_line("float, and it computes in double between them.")
    unchecked = "Not checked: no C compiler (CC, cc, gcc, clang) was found on this machine."
    show_line(unchecked if written.agreement is None else checked)
    if written.seconds is not None:
        size = "" if written.size is None else f"{written.size:,} bytes of code and constants, "
        show_line(f"On this machine: {size}{1e6 * written.seconds:.2g} µs an action.")
    if to == "fmu" and written.platform is None:
        show_line("The FMU holds its sources alone: no library for this platform could be made.")
    elif to == "fmu":
        show_line(f"The FMU holds its sources and a library for {written.platform}.")
    if opened.policy.rate is None:
        show_line("How often it acts is not known; say it for the contract: --rate 20")


def _show_pruning(pruned: Pruning, actions: BoxSpec) -> None:
    units = _units(actions.names)
    possible, seen = (
        ", ".join(f"{change:.3g}{unit}" for change, unit in zip(changes, units, strict=True))
        for changes in (pruned.largest_possible, pruned.largest_seen)
    )
    show_line(f"Pruned from {pruned.knots_before} knots, by {pruned.distance:.3g} in the RKHS:")
    show_line(f"no action changes by more than {possible} in any state,")
    show_line(f"nor by more than {seen} in the states of the check.")
    low, high = actions.ends
    if any(pruned.largest_possible >= high - low):
        show_line("The bound is a whole range and tells nothing: evaluate the pruned policy first.")


def _show_loop(controller: LearnedController, to: Target) -> None:
    from crosslearning.export.signals import remembered_by_code, unknown_controller
    from crosslearning.learner.deployment import describe_controller

    if to == "onnx":
        show_line(
            "ONNX keeps no memory: it holds the correction alone, of what the policy observes."
        )
        show_line("Controller, lags, set-points and limits are not inside; take C for all of it.")
    elif unknown_controller(controller):
        code = describe_controller(controller.loop.spec.controller)
        show_line(f"The controller that it corrects, {code}, is code and not inside:")
        if to == "json":
            show_line(
                "the file is incomplete. Give it to LearnedController.load(file, controller)."
            )
        else:
            memory = remembered_by_code(controller)
            also = f", and the numbers that it remembers ({memory})" if memory else ""
            what = {"c": "C", "fmu": "FMU", "st": "function block"}[to]
            show_line(
                f"the {what} is incomplete. Compute its action at every step and pass it{also}."
            )
    if controller.change is not None:
        ends = zip(controller.change, _units(controller.loop.spec.action_names), strict=True)
        most = [f"±{end:g}{unit}" for end, unit in ends]
        rates = "" if controller.loop.spec.rates is None else ", before the limits of rates"
        show_line(f"Actions differ from the controller's by at most {', '.join(most)}{rates}.")


def _units(names: Sequence[str]) -> list[str]:
    """Return the units of names, each after a space, or nothing."""
    from crosslearning.tasks.signals import split_unit

    return [split_unit(name)[1].translate({91: None, 93: None}) for name in names]


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


demo = typer.Typer(
    help="Show what the library is for, in about a minute.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(demo, name="demo")


@demo.command()
def fleet(
    out: Annotated[Path, options.folder("Folder of the pictures and numbers.")] = Path("fleet"),
    machines: Annotated[int, whole("Pendulums; no two are alike.", 2)] = 8,
    steps: Annotated[int, whole("Real steps of each machine, 20 a second; in rounds of 25.")] = 25,
    seed: Annotated[int, option("Seed of the learners.", min=0)] = 0,
    as_json: options.Json = False,
) -> None:
    """Learn a fleet of pendulums from seconds of operation.

    Under cross-learned, pooled and separate models; with a table and a moving picture.
    """
    from crosslearning.analysis.fleet import train_fleet

    # A folder that cannot be written to is refused before anything is learned.
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        problem = "cannot be written to" if there.is_dir() else "is a file"
        raise InputError(f"{there} {problem}; choose a folder with --out")
    if not as_json:
        learn = "pendulums that differ in gravity, mass and length learn to swing up"
        show_line(f"{machines} {learn}, from {steps} steps each.")
    with interruptible(as_json, ". The same command begins again."):
        trained = train_fleet(machines, steps, seed, console=errors)
        written = [write_json(out / "fleet.json", trained.to_dict(), as_json)]
        if not as_json:
            _show_fleet(trained)
        written += _draw_fleet(trained, out)
    show_files(() if as_json else written)


def _show_fleet(trained: Fleet) -> None:
    rows = []
    for result in trained.results:
        least, name = result.returns.mean(axis=1)[result.worst], trained.tasks[result.worst].name
        worst, upright = f"{least:.0f} ({name.partition(' ')[2]})", result.share_upright
        cells = result.mean_return.format(".0f"), worst, upright.percent(".0f")
        rows.append([result.kind, *cells])
    title = (
        f"{len(trained.tasks)} machines, {trained.steps} steps ({trained.seconds:g} s) each; "
        f"{trained.results[0].returns.shape[1]} episodes each, 95 % intervals over machines"
    )
    show_table(title, ["models", "mean return", "worst machine", "upright at the end"], rows)


def _draw_fleet(trained: Fleet, out: Path) -> list[Path]:
    from crosslearning._base.progress import progress_bar
    from crosslearning.figures.fleet import FleetPicture
    from crosslearning.figures.style import save_figure

    picture = FleetPicture(trained)
    with progress_bar(errors) as shown:
        bar = shown.add_task("drawing", total=len(picture.frames))
        moving = picture.save(out / "fleet", lambda: shown.advance(bar))
    return [moving, *save_figure(picture.figure, out / "fleet", ("png",))]


@app.command()
def play(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Runs of navigation or of pendulums; by default policies that ship."),
    ] = None,
    out: Annotated[Path, option("The page.")] = Path("playground.html"),
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    open_page: options.Open = True,
) -> None:
    """Play with policies in a browser, and let some learn there.

    Writes one HTML file that needs no server and no network.
    """
    from crosslearning.playground import write_page
    from crosslearning.playground.families import family_of
    from crosslearning.runs import RunFolder

    named = [(RunFolder.open(run, tasks, around), run.name or str(run)) for run in runs or ()]
    page = write_page(out, [family_of(folder.load(), name) for folder, name in named])
    show_line(f"{page} ({page.stat().st_size / 1000:.0f} kB): open it in any browser, or send it.")
    if open_page and not webbrowser.open(page.resolve().as_uri()):
        show_line("No browser could be opened from here.")
