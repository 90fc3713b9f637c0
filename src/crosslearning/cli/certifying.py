"""Commands that analyse a run: its tasks, its certificate, the theorem."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli import options
from crosslearning.cli.application import announce_compilation, app, errors, or_interrupted
from crosslearning.cli.options import whole
from crosslearning.cli.output import MANY_TASKS, show_line, show_table

AlphaOption = Annotated[
    float | None, typer.Option(help="Stationarity to ask about; default: the run's.")
]
SamplesOption = Annotated[int, whole("Fresh samples per task.", 2)]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of the samples.")]
_NOTHING_WRITTEN = "; nothing was written. The same command begins again."


@app.command()
def relate(run: options.Run, as_json: options.Json = False) -> None:
    """Show which tasks of a run pull against the consensus."""
    from crosslearning._base.files import write_atomically
    from crosslearning.analysis.relatedness import relatedness
    from crosslearning.figures.relatedness import relatedness_figure
    from crosslearning.figures.style import save_figure
    from crosslearning.runs import RunFolder

    folder = RunFolder.open(run)
    related = relatedness(folder)
    text, table_file = json.dumps(related.to_dict(), indent=2), folder.path / "relatedness.json"
    write_atomically(table_file, text.encode())
    written = save_figure(relatedness_figure(related.to_dict()), folder.figures / "relatedness")
    if as_json:
        print(text)
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
        show_line(f"  {left} more tasks stand less apart; {table_file} has all of them")
    for line in (*(task.sentence for task in few), table_file, *written):
        show_line(f"  {line}")


@app.command()
def certify(
    run: options.Run,
    alpha: AlphaOption = None,
    samples: SamplesOption = 4000,
    seed: SeedOption = 0,
    replay: Annotated[bool, typer.Option("--replay", help="Also train again and compare.")] = False,
    as_json: options.Json = False,
) -> None:
    """Check a run's files, and say what is certified of it."""
    from crosslearning.certificates import certificate_page, save_certificate
    from crosslearning.certificates import certify as certify_run
    from crosslearning.figures.certificate import certificate_figure
    from crosslearning.figures.style import save_figure
    from crosslearning.runs import RunFolder

    if not as_json:
        announce_compilation()
    with or_interrupted(_NOTHING_WRITTEN):
        certificate = certify_run(run, alpha, samples, seed, replay, errors)
    folder = RunFolder(run).certificate
    written = save_certificate(certificate, folder)
    figure = certificate_figure(certificate.to_plain(), certificate.metrics)
    written += save_figure(figure, folder / "certificate")
    _show(certificate.to_json() if as_json else certificate_page(certificate), written, as_json)
    if not certificate.passed:
        raise typer.Exit(1)


@app.command()
def theory(
    run: options.Run,
    alpha: AlphaOption = None,
    delta: Annotated[float, typer.Option(help="Probability of error in the theorem.")] = 0.05,
    samples: SamplesOption = 4000,
    seed: SeedOption = 0,
    as_json: options.Json = False,
) -> None:
    """Say what the convergence theorem promises at a run."""
    from crosslearning.reproduction.theorem import save_theory, study_run, theory_page

    if not as_json:
        announce_compilation()
    with or_interrupted(_NOTHING_WRITTEN):
        study = study_run(run, alpha, delta, samples, seed, errors)
    written = save_theory(study, run / "theory")
    _show(study.to_json() if as_json else theory_page(study), written, as_json)


def _show(text: str, written: Iterable[Path], as_json: bool) -> None:
    print(text)
    for path in () if as_json else written:
        show_line(f"  {path}")
