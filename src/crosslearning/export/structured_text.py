"""A policy or a controller as a function block of IEC 61131-3 Structured Text, for PLCs.

As in C, the loop of a controller computes in LREAL whatever the precision, and expansions in the
arithmetic that is asked for; a policy without a loop computes in one type. Numbers are never mixed
without a conversion, arrays have one dimension, and nothing but IF, FOR and functions that the
standard has are used, so that the PLCs of all makers read it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError, NumericalError
from crosslearning.export import Precision
from crosslearning.export.c_loop import Level
from crosslearning.export.c_source import (
    TEMPLATES,
    Numbers,
    comment,
    named_expansions,
)
from crosslearning.export.program import Floats, Program
from crosslearning.export.signals import Port, ports_of
from crosslearning.export.st_interpreter import RESERVED, Block
from crosslearning.learner import Policy
from crosslearning.learner.deployment import LearnedController

#: Some tools read no longer lines and names.
_LINE, _NAME = 100, 24
_IDENTIFIER = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")
_REALS: dict[Precision, str] = {"double": "LREAL", "float": "REAL"}
#: Machines that the check runs side by side.
_LANES = 100


def structured_text(
    exported: Policy | LearnedController, name: str, precision: Precision, arithmetic: Precision
) -> str:
    """Return the text of the function block ``FB_name``.

    The precision is that of inputs and outputs, the arithmetic that of the expansions.
    """
    if not _IDENTIFIER.fullmatch(name) or len(name) > _NAME or f"FB_{name}".upper() in RESERVED:
        raise InputError(
            f"{name!r} cannot be in the name of a function block; take at most {_NAME} letters, "
            "digits and single underscores, a letter first, such as policy.st"
        )
    block, inputs, outputs = f"FB_{name}", *ports_of(exported)
    level, levels, wide = None, list[BlockLevel](), _REALS[arithmetic]
    if isinstance(exported, Policy):
        programs, q, rate = [("", Program.of(exported))], len(inputs), exported.rate
    else:
        level, wide, rate = BlockLevel(exported, name), "LREAL", exported.loop.spec.rate
        levels = [one for one in level.inwards() if isinstance(one, BlockLevel)]
        if precision == "float":  # rounded actions keep the limits of rates, too
            few = 4.0 * float(np.finfo(np.float32).eps)
            for one in levels:
                one.slack = max(one.slack, few)
                one.limits = [(i, (1.0 - few) * most) for i, most in one.limits]
        programs = [each for one in levels for each in one.programs()]
        q = len(exported.loop.spec.observation_names)
    expansions = {one.pre: one for one in named_expansions(programs)}
    kind = "policy" if level is None else "controller"
    policy = exported if isinstance(exported, Policy) else exported.policy
    text = TEMPLATES.get_template("block.st.j2").render(
        title=f"The {kind} {_comment(exported.name)} of crosslearning, in {precision} precision.",
        block=block,
        inputs=list(_named(inputs, "in")),
        outputs=list(_named(outputs, "out")),
        rate=rate,
        level=level,
        levels=levels,
        expansions=expansions,
        asinh=any(part.factor.logarithmic for _, one in programs for part in one.parts),
        atan2=any(one.spec.lags and one.spec.circles for one in levels),
        features=max(one.knots.shape[1] for _, one in programs),
        parts=max(len(one.parts) for _, one in programs),
        most_measured=max((one.measured for one in levels), default=0),
        p=policy.actions.size,
        choices=policy.choices,
        q=q,
        R=_REALS[arithmetic],
        N=wide,
        X=_REALS[precision],
        write=BlockNumbers(arithmetic, block),
        wide=BlockNumbers("double", block),
        cast=_cast,
        inward=_inward,
    )
    return _laid_out(text)


_TYPE: dict[str, type[np.floating[Any]]] = {"REAL": np.float32, "LREAL": np.float64}


class BlockNumbers(Numbers):
    """Writes numbers and calls in Structured Text."""

    def __init__(self, precision: Precision, block: str) -> None:
        super().__init__(precision)
        self.suffix, self.block = "", block

    def __call__(self, value: Any) -> str:
        """Return a finite number as text: digits on both sides of the point."""
        mantissa, _, exponent = super().__call__(value).partition("e")
        mantissa += "" if "." in mantissa else ".0"
        return f"{mantissa}E{int(exponent)}" if exponent else mantissa

    def call(self, function: str, argument: str) -> str:
        """Return the call of a function."""
        return f"{f'{self.block}_asinh' if function == 'asinh' else function.upper()}({argument})"

    def array(self, values: Iterable[Any]) -> str:
        """Return numbers in brackets."""
        return f"[{', '.join(map(self, values))}]"


class BlockLevel(Level):
    """A level whose variables are those of the block, their names with its beginning."""

    inside, integral = "inner_", "old_integral"

    @property
    def measured(self) -> int:
        """How many numbers its PID measures."""
        return len(self.controller.measured) if self.kind == "a PID" else 0

    @property
    def pid_ends(self) -> tuple[Floats, Floats]:
        """The limits of its PID."""
        given, p = self.controller, len(self.spec.low)
        low = np.full(p, -np.inf) if given.low is None else given.low
        return low, np.full(p, np.inf) if given.high is None else given.high

    @property
    def shown(self) -> list[str]:
        """What the policy observes after past actions, in the order of Loop."""
        computed = [f"{self.pre}{value}" for value in self._errors_and_integrals("new_")]
        return [*computed, *self._controller_memory(self.pre)]

    def _ring(self, state: str, what: str, row: int, width: int) -> Iterator[str]:
        name = {"change": "changes", "action": "past"}[what]
        yield from (f"{state}{name}[{row * width + i}]" for i in range(width))


def _cast(value: str, before: str, after: str) -> str:
    return value if before == after else f"{before}_TO_{after}({value})"


def _inward(low: Floats, high: Floats, kind: str) -> tuple[Floats, Floats]:
    """Return ends as numbers of a type inside them; beyond 1E38 a number counts as infinite."""
    numbers, ends = _TYPE[kind], []
    for end, toward in ((low, np.inf), (high, -np.inf)):
        finite = np.clip(end, -1e38, 1e38)
        rounded = finite.astype(numbers)
        beyond = (rounded < finite) if toward > 0 else (rounded > finite)
        ends.append(np.where(beyond, np.nextafter(rounded, numbers(toward)), rounded))
    return ends[0].astype(np.float64), ends[1].astype(np.float64)


def _comment(text: str) -> str:
    """Return text that cannot end a comment, nor begin another."""
    return re.sub(r"\(\*|\*\)", "?", comment(text))[:60]


def _named(ports: list[Port], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield descriptions of numbers, and variables: the names are no keywords, and differ."""
    taken = set[str]()
    for number, port in enumerate(ports):
        plain = re.sub(r"[^a-z0-9]+", "_", port.name.lower())[:_NAME].strip("_")
        variable = f"{prefix}_{plain}" if plain else f"{prefix}_{number}"
        if variable in taken:
            variable = f"{prefix}_{number}_{plain}"[:_NAME].rstrip("_")
        taken.add(variable)
        unit = f" [{_comment(port.unit)}]" if port.unit else ""
        yield f"{_comment(port.name)}{unit}, from {port.low:g} to {port.high:g}", variable


def _laid_out(text: str) -> str:
    """Return a text indented by its structure, in lines that are not too long."""
    lines, depth, inside = list[str](), 0, False
    for line in text.splitlines():
        plain = line.strip()
        if inside or plain.startswith("(*"):
            if lines and not inside:
                lines.append("")
            lines.append(line[: _LINE + 20])
            inside = not plain.endswith("*)")
            continue
        if plain.startswith(("END_", "ELSE")) and not plain.startswith("END_FUNCTION"):
            depth -= 1
        if plain:
            indent = "    " * depth
            lines += textwrap.wrap(
                plain,
                _LINE,
                initial_indent=indent,
                subsequent_indent=f"{indent}    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        if plain.startswith(("IF ", "FOR ", "ELSE", "VAR")):
            depth += 1
        if plain in ("END_FUNCTION", "END_VAR"):
            lines.append("")
    return "\n".join(lines) + "\n"


# The check --------------------------------------------------------------------------------


def run_text(text: str, rows: NDArray[np.floating], has_state: bool) -> NDArray[np.float64]:
    """Return the actions (n, p) of a block for rows of its inputs.

    With a state, a number before the inputs tells whether to begin anew; episodes run side by side,
    some after each other on one machine.
    """
    if not has_state:
        block = Block(text, len(rows))
        return _called(block, rows)
    starts = np.append(np.flatnonzero(rows[:, 0]), len(rows))
    lengths = np.diff(starts)
    lanes = min(_LANES, max(1, len(lengths) // 2))
    actions: NDArray[np.float64] | None = None
    # The rows of every lane: its episodes, one after the other; short lanes repeat their last row.
    queues = [
        np.concatenate([np.arange(starts[e], starts[e + 1]) for e in range(i, len(lengths), lanes)])
        for i in range(lanes)
    ]
    block = Block(text, lanes)
    for number in range(max(map(len, queues))):
        at = np.array([queue[min(number, len(queue) - 1)] for queue in queues])
        gave = _called(block, rows[at])
        if actions is None:
            actions = np.full((len(rows), gave.shape[1]), np.nan)
        fresh = np.array([number < len(queue) for queue in queues])
        actions[at[fresh]] = gave[fresh]
    assert actions is not None
    return actions


def _called(block: Block, given: NDArray[np.floating]) -> NDArray[np.float64]:
    outputs = block(dict(zip(block.names("VAR_INPUT"), given.T, strict=True)))
    valid = outputs.pop("valid")
    actions = np.column_stack(list(outputs.values())).astype(np.float64)
    return np.where(valid[:, None], actions, np.nan)


def compile_text(text: str) -> None:
    """Refuse a text that MATIEC's compiler refuses, if ``iec2c`` is installed."""
    tool = shutil.which("iec2c")
    if tool is None:
        return
    with tempfile.TemporaryDirectory(prefix="crosslearning-") as folder:
        Path(folder, "block.st").write_text(text, encoding="ascii")
        library = Path(tool).resolve().parent / "lib"
        more = ["-I", str(library)] if library.is_dir() else []
        command = [tool, *more, "block.st"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stderr or done.stdout)[-2000:]
        raise NumericalError(
            "MATIEC's compiler iec2c refuses the Structured Text, and nothing was written. Its "
            f"output: {output}"
        )
