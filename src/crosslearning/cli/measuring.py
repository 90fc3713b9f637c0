"""Commands that measure and analyse policies, models and runs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning import runs
from crosslearning.cli import options, output
from crosslearning.cli.application import app, errors, interruptible
from crosslearning.cli.options import option, whole
from crosslearning.cli.output import MANY_TASKS, show_files, show_line, show_numbers, show_table
from crosslearning.errors import InputError

if TYPE_CHECKING:
    from crosslearning.learner import CrossLearner
    from crosslearning.learner.evaluation import Evaluation
    from crosslearning.tasks import Task


@dataclass(frozen=True)
class MeasuringFlags:
    """The flags of every command that measures."""

    trials: Annotated[int | None, whole("Episodes each; default: 500, over many tasks 5.")] = None
    horizon: options.Horizon = None
    tasks: Annotated[str | None, option("Other tasks: a set, module:function, tasks.toml.")] = None
    task_options: options.TaskOptions = None
    around: options.RunAround = None
    best: options.Best = False
    seed: options.StartSeed = 0
    stochastic: Annotated[bool, option("Act with exploration noise.")] = False
    json: options.Json = False

    def load(self, run: Path) -> CrossLearner:
        """Return the learner of a run, whose tasks may be missing where others are measured."""
        around = self.around if self.tasks is None else None
        return runs.RunFolder.open(run, around=around).load(best=self.best)

    def episodes(self, learner: CrossLearner) -> tuple[tuple[Task, ...], dict[str, Any]]:
        """Return the tasks, by default those that were learned, and the options of episodes."""
        from crosslearning.learner.internals import behind_controller
        from crosslearning.tasks.task import warn_of_no_limit

        if self.tasks is None and self.task_options is not None:
            raise InputError("--task-options needs --tasks: they are options of another task set")
        tasks = learner.tasks
        if self.tasks is not None:
            others = _tasks(self.tasks, self.task_options, self.around)
            tasks = tuple(behind_controller(learner, others))
        if self.horizon is None:
            warn_of_no_limit(tasks)
        return tasks, {
            "trials": self.trials or (5 if len(tasks) >= MANY_TASKS else 500),
            "horizon": self.horizon,
            "seed": self.seed,
            "deterministic": not self.stochastic,
            "workers": os.cpu_count() or 1,
        }


def _tasks(given: str, task_options: str | None, around: str | None) -> tuple[Task, ...]:
    from crosslearning.tasks.sources import load_tasks, read_source

    read = options.read_flags({"task_options": task_options})
    return load_tasks(read_source(given, around), read.get("task_options", {}))


_FLAGS = inspect.signature(MeasuringFlags, eval_str=True).parameters.values()


@app.command()
@options.with_flags(_FLAGS)
def evaluate(
    run: options.Run,
    next_machine: Annotated[
        float | None,
        option("Bound what this share of unseen machines returns by the central policy."),
    ] = None,
    adapt_steps: Annotated[
        int | None, whole("With --next-machine: adapt to each machine with so many steps first.")
    ] = None,
    every: Annotated[
        bool, option("Show every policy on every task; default: on its own.", "--all")
    ] = False,
    **flags: Any,
) -> None:
    """Evaluate the policies of a run, on the same random starts."""
    from crosslearning.learner import evaluation
    from crosslearning.learner.internals import kept_line

    given = MeasuringFlags(**flags)
    learner = given.load(run)
    tasks, trial_options = given.episodes(learner)
    if next_machine is not None:
        from crosslearning.certificates.next_machine import next_machine as bound_next

        trial_options["trials"] = given.trials or 5
        found = bound_next(learner, tasks, next_machine, steps=adapt_steps, **trial_options)
        if given.json:
            output.print_json([{**asdict(found), "bound": found.bound._asdict()}])
        else:
            show_line(str(found))
        return
    if adapt_steps is not None:
        raise InputError("--adapt-steps needs --next-machine, such as --next-machine 0.9")
    many = len(learner.tasks) >= MANY_TASKS
    policies = [learner.policy(number) for number in range(len(learner.tasks))]
    each: list[Evaluation] = []
    square = every or given.json
    if many and given.tasks is None:
        results, each = evaluation.evaluate_own(policies, learner.central, tasks, **trial_options)
    else:
        chosen = [learner.central, *([] if many else policies)]
        if many or len(tasks) >= MANY_TASKS:
            results = evaluation.evaluate_across(chosen, tasks, **trial_options)
        else:
            results = []
            for task in tasks:
                its = [p for p in chosen if square or p.name in (learner.central.name, task.name)]
                results += evaluation.evaluate(its, task, **trial_options)
    if given.json:
        # "steps" is the former name of the horizon.
        output.print_json([{**asdict(one), "steps": one.horizon} for one in each or results])
        return
    title = f"{run}: {trial_options['trials']} episodes each, 95 % intervals"
    show_numbers(title, results, tasks)
    if each:
        worst = sorted(each[::2], key=lambda one: one.discounted_return.value)[: output.WORST]
        shown = [one for chosen in worst for one in each if one.task == chosen.task]
        show_line("")
        show_numbers(f"The {len(worst)} tasks whose own policies do worst", shown, tasks)
        show_line("Own is each task's policy on its task. All tasks: --json.")
    elif many:
        show_line(f"The central policy alone: there are {len(learner.tasks)} task policies.")
    else:
        lines = output.on_central(learner), kept_line(learner)
        for line in filter(None, lines):
            show_line(line)


@app.command()
@options.with_flags(_FLAGS)
def compare(
    run: options.Run,
    other: Annotated[Path, typer.Argument(help="The folder of the run to compare it with.")],
    policy: options.Policy = "central",
    **flags: Any,
) -> None:
    """Compare two runs' policies on the same starts, with intervals."""
    from crosslearning.analysis import comparison
    from crosslearning.export.sources import find_policy

    given = MeasuringFlags(**flags)
    learners = [given.load(folder) for folder in (run, other)]
    first, second = (find_policy(learner, policy) for learner in learners)
    tasks, trial_options = given.episodes(learners[0])
    if len(tasks) >= MANY_TASKS:
        results = [comparison.compare_across(first, second, tasks, **trial_options)]
    else:
        results = comparison.compare(first, second, tasks, **trial_options)
    if given.json:
        output.print_json([{**asdict(one), "verdict": one.verdict} for one in results])
        return
    how = f"{policy} policies: {trial_options['trials']} episodes a task, 95 % intervals"
    show_numbers(f"{run} minus {other}, {how}", results, tasks)
    show_line("The verdict is on the first, by its discounted return.")
    if policy == "central":
        for line in dict.fromkeys(filter(None, map(output.on_central, learners))):
            show_line(line)


@app.command()
def identify(
    run: options.Run,
    *,
    tasks: Annotated[str, option("The new tasks: a set, module:function, or a file tasks.toml.")],
    task_options: options.TaskOptions = None,
    run_tasks: options.RunTasks = None,
    around: options.RunAround = None,
    episodes: Annotated[int, whole("Episodes of each new task.")] = 5,
    horizon: options.Horizon = None,
    seed: options.NoiseSeed = 0,
    as_json: options.Json = False,
) -> None:
    """Say which trained task of a run a new one is like."""
    from crosslearning.analysis.identification import identify_all

    learner = runs.RunFolder.open(run, run_tasks, around).load()
    others = _tasks(tasks, task_options, around)
    results = identify_all(learner, others, episodes, horizon, seed)
    if as_json:
        names = ("nearest", "certainty", "familiar")
        rows = [{**asdict(one), **{k: getattr(one, k) for k in names}} for one in results]
        output.print_json(rows)
    else:
        show_line("\n".join(map(str, results)))


@app.command()
def models(
    run: options.Run,
    episodes: Annotated[int, whole("Fresh episodes of each task.")] = 5,
    horizon: Annotated[int, whole("Most steps of one.")] = 50,
    steps: Annotated[int, whole("How far ahead the models predict.")] = 25,
    seed: options.NoiseSeed = 0,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    as_json: options.Json = False,
) -> None:
    """Measure how well the models of a run predict unseen episodes."""
    from crosslearning.analysis.model_errors import model_errors
    from crosslearning.figures.model_errors import errors_figure, paths_figure, radius_figure

    folder = runs.RunFolder.open(run, tasks, around)
    with interruptible(as_json):
        measured = model_errors(folder, episodes, horizon, steps, seed)
    figures = {"errors": errors_figure, "paths": paths_figure, "radius": radius_figure}
    plain = measured.to_dict()
    drawn = {f"models-{name}": draw(plain) for name, draw in figures.items()}
    written = _write(folder, "models.json", plain, drawn, as_json)
    if as_json:
        return
    on = f"{measured.held_out} steps that were not learned from ({measured.seen} were)"
    means = f"means over {len(measured.tasks)} tasks, 95 % intervals"
    for title, part in (
        (f"Relative errors one step ahead, on {on}; {means}", "one_step"),
        (f"After {measured.steps} steps in an open loop", "ahead"),
    ):
        kinds = {kind.kind: getattr(kind, part) for kind in measured.kinds}
        names = list(next(iter(kinds.values())))
        cells = [[kind, *(by[name].format(".2g") for name in names)] for kind, by in kinds.items()]
        show_table(title, ["models", *names], cells)
        show_line("")
    rows = [
        [one.output, f"{one.alike:.4f}", f"{one.epsilon:.3g}", f"{one.noise:.2g}", str(one.knots)]
        for one in measured.outputs
    ]
    title = "What the data chose for the cross-learned models, in units of each output's spread"
    show_table(title, ["output", "likeness of tasks", "ε", "noise", "knots"], rows)
    show_files(written)


def _write(
    folder: runs.RunFolder, name: str, plain: Any, figures: Mapping[str, Any], as_json: bool
) -> list[Path]:
    """Write plain data and figures into a run's folder; print the data as JSON if asked to."""
    from crosslearning.figures.style import save_figure

    written = [output.write_json(folder.path / name, plain, as_json)]
    for stem, figure in figures.items():
        written += save_figure(figure, folder.figures / stem)
    return written


@app.command()
def relate(run: options.Run, as_json: options.Json = False) -> None:
    """Show which tasks of a run pull against the consensus."""
    from crosslearning.analysis.relatedness import relatedness
    from crosslearning.figures.relatedness import relatedness_figure

    folder = runs.RunFolder.open(run)
    related = relatedness(folder)
    plain = related.to_dict()
    figures = {"relatedness": relatedness_figure(plain)}
    written = _write(folder, "relatedness.json", plain, figures, as_json)
    if as_json:
        return
    few, rows = related.ranked[:MANY_TASKS], []
    for task in few:
        pull = "–" if task.share_of_pull is None else f"{100 * task.share_of_pull:.0f} %"
        chance = "< 0.001" if task.chance < 1e-3 else f"{task.chance:.2g}"
        numbers = (f"{task.score:.2f}", chance, f"{task.distance:.3g}", f"{task.agreement:.2f}")
        rows.append([str(task.rank), task.task, *numbers, pull])
    headings = ["rank", "task", "score", "chance", "distance", "agreement", "share of pull"]
    show_table(f"{run}: which tasks pull against the consensus", headings, rows)
    if left := len(related.ranked) - len(few):
        show_line(f"  {left} more tasks stand less apart; {written[0]} has all of them")
    for line in (*(task.sentence for task in few), *written):
        show_line(f"  {line}")


@app.command()
def departure(
    run: options.Run,
    trials: Annotated[int, whole("Episodes of each machine and policy.", 2)] = 100,
    seed: options.StartSeed = 0,
    best: options.Best = False,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    as_json: options.Json = False,
) -> None:
    """Show how far a run departs from its controller."""
    from crosslearning._base.plain_data import to_plain
    from crosslearning.analysis.departure import departures
    from crosslearning.figures.departure import departure_figure

    folder = runs.RunFolder.open(run, tasks, around)
    machines = departures(folder.load(best=best), trials, seed)
    figures = {"departure": departure_figure(machines)}
    written = _write(folder, "departure.json", to_plain(machines), figures, as_json)
    if as_json:
        return
    rows = []
    for one in machines:
        cells = [one.task, str(one.controller), str(one.learned), str(one.gain)]
        cells.append("; ".join(f"{a.largest:.3g} of {a.bound:.3g}" for a in one.actions))
        if one.crossed is not None and one.crossed_before is not None:
            cells += [one.crossed_before.percent(), one.crossed.percent()]
        cells += [f"{before:.3g}, {after:.3g}" for before, after in one.steady_errors.values()]
        rows.append(cells)
    headings = ["machine", "return, controller", "learned", "gain", "largest change of its bound"]
    if machines[0].crossed is not None:
        headings += ["limits crossed, controller", "learned"]
    headings += [f"steady error, {name}" for name in machines[0].steady_errors]
    show_table(f"{run}: {trials} episodes each, 95 % intervals", headings, rows)
    show_files(written)


@app.command()
def certify(
    run: options.Run,
    alpha: options.Alpha = None,
    samples: options.Samples = 4000,
    seed: options.SampleSeed = 0,
    replay: Annotated[bool, option("Also train again and compare.", "--replay")] = False,
    next_machine: Annotated[
        float | None, option("Also bound what this share of unseen machines returns.")
    ] = None,
    adapt_steps: Annotated[
        int | None, whole("With --next-machine: also after adapting with so many steps.")
    ] = None,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    as_json: options.Json = False,
) -> None:
    """Check a run's files, and say what is certified of it."""
    from crosslearning import certificates
    from crosslearning.figures.certificate import certificate_figure
    from crosslearning.figures.style import save_figure

    with interruptible(as_json):
        certificate = certificates.certify(
            run,
            alpha,
            samples,
            seed,
            replay,
            errors,
            next_machine,
            adapt_steps,
            tasks=tasks,
            around=around,
        )
    folder = runs.RunFolder(run).certificate
    written = certificates.save_certificate(certificate, folder)
    figure = certificate_figure(certificate.to_plain(), certificate.metrics)
    written += save_figure(figure, folder / "certificate")
    print(certificate.to_json() if as_json else certificates.certificate_page(certificate))
    show_files(() if as_json else written)
    if not certificate.passed:
        raise typer.Exit(1)


@app.command()
def theory(
    run: options.Run,
    alpha: options.Alpha = None,
    delta: Annotated[float, option("Probability of error in the theorem.")] = 0.05,
    samples: options.Samples = 4000,
    seed: options.SampleSeed = 0,
    tasks: options.RunTasks = None,
    around: options.RunAround = None,
    as_json: options.Json = False,
) -> None:
    """Say what the convergence theorem promises at a run."""
    from crosslearning.reproduction import theorem

    with interruptible(as_json):
        study = theorem.study_run(run, alpha, delta, samples, seed, errors, tasks, around)
    written = theorem.save_theory(study, run / "theory")
    print(study.to_json() if as_json else theorem.theory_page(study))
    show_files(() if as_json else written)
