"""The command that says what is certified of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from crosslearning.cli.application import RunArgument, announce_compilation, app, console, errors
from crosslearning.runs import RunFolder


@app.command()
def certify(
    run: RunArgument,
    alpha: Annotated[
        float | None, typer.Option(help="Stationarity to certify; default: the run's.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability of error in the theorem.")] = 0.05,
    samples: Annotated[int, typer.Option(min=2, help="Fresh samples per task.")] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the samples.")] = 0,
    replay: Annotated[bool, typer.Option("--replay", help="Also train again and compare.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a run's files by themselves, and say what is certified of its policies."""
    from crosslearning.certificates import certificate_page, save_certificate
    from crosslearning.certificates import certify as certify_run
    from crosslearning.figures.certificate import certificate_figure
    from crosslearning.figures.style import save_figure

    if not as_json:
        announce_compilation()
    try:
        # Progress goes to the other stream, so that what is piped stays clean.
        certificate = certify_run(run, alpha, delta, samples, seed, replay=replay, console=errors)
    except KeyboardInterrupt:
        errors.print("Interrupted; nothing was written. The same command begins again.")
        raise typer.Exit(130) from None
    folder = RunFolder(run).certificate
    written = save_certificate(certificate, folder)
    figure = certificate_figure(certificate.to_plain(), certificate.metrics)
    written += save_figure(figure, folder / "certificate")
    print(certificate.to_json() if as_json else certificate_page(certificate))
    if not as_json:
        for path in written:
            console.print(f"  {path}", highlight=False, markup=False, soft_wrap=True)
    if not certificate.passed:
        raise typer.Exit(1)
