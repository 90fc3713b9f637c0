"""Commands that show runs and policies: lists, films, reports, demos, the playground."""

from __future__ import annotations

import json
import os
import shlex
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosslearning import runs
from crosslearning.cli import options
from crosslearning.cli.application import announce_compilation, app, console, errors, or_interrupted
from crosslearning.cli.options import whole
from crosslearning.cli.output import print_json, show_line, show_table
from crosslearning.errors import InputError, unknown_name

if TYPE_CHECKING:
    from crosslearning.analysis.fleet import Fleet
    from crosslearning.learner import CrossLearner
    from crosslearning.runs.listing import RunSummary
    from crosslearning.tasks import Task


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
    if any(one.best_return is None and one.recent_return is not None for one in summaries):
        show_line("Returns with ~ are of the last iterations, while exploring; others are the best")
        show_line("of the evaluations on the way (--evaluate-every).")
    show_line("What next:")
    for one in summaries:
        remark = one.problem or (f"written by {one.writer}" if one.writer else "")
        show_line(f"  {one.next}" + (f"    # {remark}" if remark else ""))


def _cells(one: RunSummary, folder: Path) -> list[str]:
    """Return the cells of a run's row; unknown is a dash."""
    from crosslearning._base.statistics import readable

    name = Path(one.run).relative_to(folder).as_posix()
    tasks, number = one.tasks, one.best_return
    if tasks is not None and one.task_count is not None:
        tasks = f"{tasks} ({one.task_count})"
    mark, number = ("~", one.recent_return) if number is None else ("", number)
    numbers = [
        None if one.steps is None else f"{one.steps:,}",
        None if number is None else f"{mark}{number:{readable(number)}}",
        None if one.epsilon is None else f"{one.epsilon:g}".replace("inf", "∞"),
        None if one.knots is None else str(one.knots),
    ]
    cells = [one.run if name == "." else name, one.state, one.method, tasks, *numbers]
    return [cell or "–" for cell in cells]


@app.command()
def render(
    run: options.Run,
    out: Annotated[
        Path | None,
        typer.Option(help="A film, .gif or .mp4, or a still, .png; default: figures/film.gif."),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="central, average, or a task by name or number.")
    ] = "central",
    task: Annotated[
        str | None, typer.Option(help="The task to act in; default: the policy's, or the first.")
    ] = None,
    episodes: Annotated[int, whole("One after the other.")] = 1,
    horizon: options.Horizon = None,
    seed: options.StartSeed = 0,
    best: options.Best = False,
    tasks: options.RunTasks = None,
) -> None:
    """Film a policy at work, or draw moments of it."""
    from crosslearning._base.progress import progress_bar
    from crosslearning._base.statistics import readable
    from crosslearning.analysis.recording import record
    from crosslearning.export.sources import find_policy
    from crosslearning.figures.animation import check_format, save_recording

    folder = runs.RunFolder.open(run)
    path = out or folder.figures / "film.gif"
    check_format(path)
    learner = folder.load(best=best, tasks=tasks)
    acting = find_policy(learner, policy)
    place = _task_of(learner, task, acting.name)
    announce_compilation()
    with progress_bar(errors, "{task.completed} pictures") as shown:
        bar = shown.add_task("filming", total=episodes * ((horizon or place.horizon) + 1))
        recording = record(acting, place, episodes, horizon, seed, lambda: shown.advance(bar))
    save_recording(recording, path)
    numbers = ", ".join(f"{total:{readable(total)}}" for total in recording.returns)
    lengths = ", ".join(str(len(states) - 1) for states in recording.episodes)
    show_line(
        f"The {recording.policy} policy in task {recording.task}: {lengths} steps, total return "
        f"{numbers}"
    )
    show_line(f"  {path}")


def _task_of(learner: CrossLearner, given: str | None, policy: str) -> Task:
    """Return a task by its name or number; by default that of a policy, or the first."""
    names = [task.name for task in learner.tasks]
    if given is None:
        given = policy if policy in names else names[0]
    if given.isdecimal() and given not in names and int(given) < len(names):
        return learner.tasks[int(given)]
    if given not in names:
        raise unknown_name("task", given, names)
    return learner.tasks[names.index(given)]


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    out: Annotated[
        Path | None, typer.Option(help="The page; default: report.html, of one run in its folder.")
    ] = None,
    trials: Annotated[
        int | None, whole("Episodes per policy and task; default: 500; of many tasks 20.")
    ] = None,
    samples: Annotated[int, whole("Fresh samples per task, if not yet certified.", 2)] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the starts and samples.")] = 0,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Show it in a browser, on a terminal.")
    ] = True,
) -> None:
    """Write what is known of runs as one page."""
    from crosslearning._base.files import check_page, write_atomically
    from crosslearning.figures.report import PAGE_MARK, gather, report_page

    path = out or (folders[0] if len(folders) == 1 else Path()) / "report.html"
    check_page(path, PAGE_MARK, "report")
    # All are opened before any is measured.
    for folder in folders:
        runs.RunFolder.open(folder)
    announce_compilation()
    with or_interrupted(". The same command goes on with what is measured already."):
        contents = [gather(folder, trials, seed, samples, errors) for folder in folders]
    write_atomically(path, report_page(contents).encode("utf-8", "backslashreplace"))
    show_line(f"  {path}")
    if open_it and console.is_terminal:
        webbrowser.open(path.resolve().as_uri())


demo = typer.Typer(
    help="Show what the library is for, in about a minute.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(demo, name="demo")


@demo.callback()
def _demo() -> None:
    pass


@demo.command()
def fleet(
    out: Annotated[Path, options.folder("Folder of the pictures and numbers.")] = Path("fleet"),
    machines: Annotated[int, whole("Pendulums; no two are alike.", 2)] = 8,
    steps: Annotated[int, whole("Real steps of each machine, 20 a second; in rounds of 25.")] = 25,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the learners.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Learn a fleet of pendulums from seconds of operation.

    Under cross-learned, pooled and separate models; with a table and a moving picture.
    """
    from crosslearning._base.files import write_atomically
    from crosslearning.analysis.fleet import train_fleet

    _check_folder(out)
    if not as_json:
        show_line(
            f"{machines} pendulums that differ in gravity, mass and length learn to swing up, from "
            f"{steps} steps each."
        )
        announce_compilation()
    with or_interrupted(". The same command begins again."):
        trained = train_fleet(machines, steps, seed, console=errors)
        text = json.dumps(trained.to_dict(), indent=2)
        write_atomically(out / "fleet.json", f"{text}\n".encode())
        if as_json:
            print(text)
        else:
            _show_fleet(trained)
        written = _draw_fleet(trained, out)
    for path in () if as_json else (out / "fleet.json", *written):
        show_line(f"  {path}")


def _check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to before anything is learned."""
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file; choose a folder with --out")
    if not os.access(there, os.W_OK):
        raise InputError(f"{there} cannot be written to; choose another folder with --out")


def _show_fleet(trained: Fleet) -> None:
    rows = []
    for result in trained.results:
        means = result.returns.mean(axis=1)
        worst = f"{means[result.worst]:.0f} ({trained.tasks[result.worst].name.partition(' ')[2]})"
        upright = result.share_upright.percent(".0f")
        rows.append([result.kind, result.mean_return.format(".0f"), worst, upright])
    headings = ["models", "mean return", "worst machine", "upright at the end"]
    title = (
        f"{len(trained.tasks)} machines, {trained.steps} steps ({trained.seconds:g} s) each; "
        f"{trained.results[0].returns.shape[1]} episodes each, 95 % intervals over machines"
    )
    show_table(title, headings, rows)


def _draw_fleet(trained: Fleet, out: Path) -> list[Path]:
    from crosslearning._base.progress import progress_bar
    from crosslearning.figures.animation import save_animation
    from crosslearning.figures.fleet import FleetPicture
    from crosslearning.figures.style import save_figure

    picture = FleetPicture(trained)
    with progress_bar(errors) as shown:
        bar = shown.add_task("drawing", total=len(picture.frames))
        moving = save_animation(
            picture.figure,
            picture.moving,
            picture.draw,
            picture.frames,
            out / "fleet",
            callback=lambda: shown.advance(bar),
        )
    return [moving, *save_figure(picture.figure, out / "fleet", ("png",))]


@app.command()
def play(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Runs of navigation or of pendulums; by default policies that ship."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("playground.html"),
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Show the page in a browser.")
    ] = True,
) -> None:
    """Play with policies in a browser, and let some learn there.

    Writes one HTML file that needs no server and no network.
    """
    from crosslearning.playground import write_page
    from crosslearning.playground.families import family_of
    from crosslearning.runs import RunFolder

    opened = [(RunFolder.open(run).load(), run.name or str(run)) for run in runs or ()]
    page = write_page(out, [family_of(*one) for one in opened])
    show_line(f"{page} ({page.stat().st_size / 1000:.0f} kB): open it in any browser, or send it.")
    if open_page and not webbrowser.open(page.resolve().as_uri()):
        show_line("No browser could be opened from here.")
