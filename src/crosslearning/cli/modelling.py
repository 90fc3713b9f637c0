"""The command that says how well the models of a run tell what they have not seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from crosslearning.cli.application import MOST, RunArgument, announce_compilation, app, errors
from crosslearning.cli.output import show_line, show_table

if TYPE_CHECKING:
    from crosslearning._base.statistics import Interval
    from crosslearning.analysis.model_errors import ModelErrors


@app.command()
def models(
    run: RunArgument,
    episodes: Annotated[
        int, typer.Option(min=1, max=MOST, help="Fresh episodes of each task.")
    ] = 5,
    horizon: Annotated[int, typer.Option(min=1, max=MOST, help="Most steps of one.")] = 50,
    steps: Annotated[
        int, typer.Option(min=1, max=MOST, help="How far ahead the models tell.")
    ] = 25,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the starts and the noise.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how well the models of a run tell what they have not seen."""
    from crosslearning._base.files import write_atomically
    from crosslearning.analysis.model_errors import model_errors
    from crosslearning.figures.model_errors import errors_figure, paths_figure, radius_figure
    from crosslearning.figures.style import save_figure
    from crosslearning.runs import RunFolder

    folder = RunFolder.open(run)
    if not as_json:
        announce_compilation()
    try:
        found = model_errors(folder, episodes, horizon, steps, seed)
    except KeyboardInterrupt:
        errors.print("Interrupted; nothing was written. The same command begins again.")
        raise typer.Exit(130) from None
    plain = found.to_dict()
    text, file = json.dumps(plain, indent=2), folder.path / "models.json"
    write_atomically(file, f"{text}\n".encode())
    written = [file]
    for name, draw in (
        ("errors", errors_figure),
        ("paths", paths_figure),
        ("radius", radius_figure),
    ):
        written += save_figure(draw(plain), folder.figures / f"models-{name}")
    if as_json:
        print(text)
        return
    _show_errors(found)
    for path in written:
        show_line(f"  {path}")


def _show_errors(found: ModelErrors) -> None:
    title = (
        f"Relative errors one step ahead, on {found.held_out} steps that were not learned from "
        f"({found.seen} were); means over {len(found.tasks)} tasks, 95 % intervals"
    )
    _show_kinds(title, {kind.kind: kind.one_step for kind in found.kinds})
    title = f"After {found.steps} steps in an open loop"
    _show_kinds(title, {kind.kind: kind.ahead for kind in found.kinds})
    rows = [
        [one.output, f"{one.alike:.4f}", f"{one.epsilon:.3g}", f"{one.noise:.2g}", str(one.knots)]
        for one in found.outputs
    ]
    title = "What the data chose for the cross-learned models, in units of each output's spread"
    show_table(title, ["output", "likeness of tasks", "ε", "noise", "knots"], rows)


def _show_kinds(title: str, kinds: Mapping[str, Mapping[str, Interval]]) -> None:
    names = list(next(iter(kinds.values())))
    rows = [[kind, *(own[name].format(".2g") for name in names)] for kind, own in kinds.items()]
    show_table(title, ["models", *names], rows)
    show_line("")
