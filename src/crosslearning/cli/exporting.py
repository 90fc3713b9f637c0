"""The command that exports a policy to another language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli import options
from crosslearning.cli.application import app
from crosslearning.cli.output import show_line
from crosslearning.export import Precision, Target

NamesOption = Annotated[
    str | None,
    typer.Option(help="Their names with commas between, units in brackets: 'torque [N m]'."),
]


@app.command()
def export(
    source: Annotated[
        Path, typer.Argument(help="The folder of a run, or the file of a learner or a policy.")
    ],
    to: Annotated[Target, typer.Option(help="What to write.")],
    out: Annotated[Path, typer.Option(help="The file; beside C's source goes its header.")],
    policy: Annotated[
        str | None,
        typer.Option(help="central, average, or a task by name or number; default: central."),
    ] = None,
    precision: Annotated[
        Precision, typer.Option(help="Of observations, actions and, if it is enough, all between.")
    ] = "double",
    tasks: options.RunTasks = None,
    best: options.Best = False,
    observations: NamesOption = None,
    actions: NamesOption = None,
    rate: Annotated[float | None, typer.Option(help="Actions a second, for the contract.")] = None,
) -> None:
    """Write a policy as ONNX, C or JSON, checked against Python."""
    from crosslearning.export import export_policy, open_policy
    from crosslearning.export.sources import rename

    opened = open_policy(source, policy, tasks, best)
    rename(opened.policy, _split(observations), _split(actions), rate)
    written = export_policy(opened.policy, to, out, precision, opened.run)
    knots, agreement = len(opened.policy.plain.knots), written.agreement
    show_line(f"The {opened.policy.name} policy, {knots} knots, {precision} precision, as {to}:")
    for path in written.files:
        show_line(f"  {path}")
    if written.arithmetic != precision:
        show_line("Its weights cancel too much for single precision: observations and actions are")
        show_line("float, and it computes in double between them.")
    if agreement is None:
        show_line("Not checked: no C compiler (CC, cc, gcc, clang) was found on this machine.")
    else:
        show_line(f"Checked against Python: {agreement}.")
    if written.seconds is not None:
        size = "" if written.size is None else f"{written.size:,} bytes of code and constants, "
        show_line(f"On this machine: {size}{1e6 * written.seconds:.2g} µs an action.")
    if opened.policy.rate is None:
        show_line("How often it acts is not known; say it for the contract: --rate 20")


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]
