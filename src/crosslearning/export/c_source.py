"""A policy as C99: one header, one source, the knots as constants, nothing allocated."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from crosslearning.errors import InputError
from crosslearning.export import Precision
from crosslearning.export.program import TYPES, Program
from crosslearning.learner import Policy
from crosslearning.learner.policy import BoxSpec

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
#: Numbers of a table per line.
_WIDTH = 4
#: The templates of header, source and check.
TEMPLATES = Environment(
    loader=PackageLoader("crosslearning.export", ""),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def c_files(
    policy: Policy, name: str, precision: Precision, arithmetic: Precision
) -> dict[str, str]:
    """Return the texts of ``name.h`` and ``name.c``, which define ``name_act``.

    The precision is that of observations and actions, the arithmetic that of all other numbers.
    """
    if not _IDENTIFIER.fullmatch(name) or name == "math":
        raise InputError(
            f"{name!r} cannot begin the names of a C file; take letters, digits and underscores, "
            "a letter first, such as policy.c"
        )
    program, write = Program.of(policy), _Numbers(arithmetic)
    title = f"The policy {_comment(policy.name)} of crosslearning, in {precision} precision"
    title += "." if arithmetic == precision else f", computed in {arithmetic}."
    products = [
        " * ".join([*([] if scale == 1.0 else [write(scale)]), *(f"v{part}" for part in parts)])
        for scale, parts in program.products
    ]
    content = {
        "policy": policy,
        "program": program,
        "name": name,
        "NAME": name.upper(),
        "title": title,
        "blank": " " * len(f"int {name}_act("),
        "precision": precision,
        "arithmetic": arithmetic,
        "f": write.suffix,
        "formulas": {part.factor.formula for part in program.parts},
        "embedding": _embedding(program, write),
        "products": products,
        "number": write,
        "array": write.array,
        "rows": write.rows,
        "described": _described,
    }
    return {
        f"{name}{end}": TEMPLATES.get_template(f"policy{end}.j2").render(content)
        for end in (".h", ".c")
    }


class _Numbers:
    """Writes numbers of one precision."""

    def __init__(self, precision: Precision) -> None:
        self.type, self.suffix = TYPES[precision], "f" if precision == "float" else ""

    def __call__(self, value: Any) -> str:
        number = float(self.type(value))
        if math.isinf(number):
            return "INFINITY" if number > 0 else "-INFINITY"
        # The shortest text that reads back as the same bits.
        return f"{self.type(number)!s}{self.suffix}"

    def array(self, values: Iterable[Any]) -> str:
        return f"{{{', '.join(map(self, values))}}}"

    def rows(self, table: Any) -> str:
        lines = []
        for row in table:
            pieces = [", ".join(map(self, row[i : i + _WIDTH])) for i in range(0, len(row), _WIDTH)]
            lines.append("    {" + ",\n     ".join(pieces) + "},")
        return "\n".join(lines)


def _embedding(program: Program, write: _Numbers) -> Iterator[str]:
    """Yield the features z, in order, as expressions of the observation s."""
    for factor in (part.factor for part in program.parts):
        sizes = dict(factor.logarithmic)
        for scales in factor.whitening:
            terms = []
            for d, scale in zip(factor.reads, scales, strict=True):
                value = f"s[{d}]"
                if d in sizes:
                    value = f"asinh{write.suffix}({write(1.0 / sizes[d])} * {value})"
                    scale = scale * sizes[d]
                if scale != 0.0:
                    terms.append(f"{write(scale)} * {value}")
            yield " + ".join(terms)
        for d, frequency, radius in factor.circles:
            for wave in ("cos", "sin"):
                value = f"{wave}{write.suffix}({write(frequency)} * s[{d}])"
                yield f"{write(radius)} * {value}"


def _described(signals: BoxSpec) -> str:
    """Return a line of a comment for each number."""
    low, high = signals.ends
    return "\n".join(
        f"     [{i}] {_comment(name)}, from {low[i]:g} to {high[i]:g}"
        for i, name in enumerate(signals.names)
    )


def _comment(text: str) -> str:
    """Return text that cannot end a comment, in ASCII."""
    plain = text.encode("ascii", "replace").decode()
    return re.sub(r"[^ -~]|\*/|/\*|\\|\?\?", "?", plain)
