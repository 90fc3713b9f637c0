"""A policy as C99: one header, one source, the knots as constants, nothing allocated."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Set
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from crosslearning.errors import InputError
from crosslearning.export import Precision
from crosslearning.export.program import TYPES, Program
from crosslearning.learner import Policy
from crosslearning.learner.policy import BoxSpec

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
#: Numbers of a table per line.
_WIDTH = 4
#: The templates of headers, sources and the check.
TEMPLATES = Environment(
    loader=PackageLoader("crosslearning.export", ""),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.globals["inf"] = math.inf


def c_files(
    policy: Policy, name: str, precision: Precision, arithmetic: Precision
) -> dict[str, str]:
    """Return the texts of ``name.h`` and ``name.c``, which define ``name_act``.

    The precision is that of observations and actions, the arithmetic that of all other numbers.
    """
    title = f"The policy {comment(policy.name)} of crosslearning, in {precision} precision"
    title += "." if arithmetic == precision else f", computed in {arithmetic}."
    return rendered(
        "policy.c.j2",
        name,
        (precision, arithmetic),
        title=title,
        signals=(policy.observations, policy.outputs),
        choices=policy.choices,
        expansions=named_expansions([("", Program.of(policy))]),
        level=None,
        levels=(),
        signature=declared(f"int {name}_act(", *arguments_in_c(name)),
    )


def rendered(
    source: str, name: str, numbers: tuple[Precision, Precision], **content: Any
) -> dict[str, str]:
    """Return the texts of ``name.h`` and ``name.c``, this of the template ``source``."""
    if not _IDENTIFIER.fullmatch(name) or name == "math":
        raise InputError(
            f"{name!r} cannot begin the names of a C file; take letters, digits and underscores, "
            "a letter first, such as policy.c"
        )
    precision, arithmetic = numbers
    content |= {"name": name, "NAME": name.upper(), "precision": precision}
    content |= {"arithmetic": arithmetic, "described": described, "comment": comment}
    content |= {"write": Numbers(arithmetic), "outside": Numbers(precision)}
    # As many values as a function has: actions, or the scores that choose them.
    content["VALUES"] = "SCORES" if content["choices"] else f"{name.upper()}_ACTIONS"
    files = {f"{name}.h": "policy.h.j2", f"{name}.c": source}
    return {
        file: TEMPLATES.get_template(text).render(content, wide=Numbers("double"))
        for file, text in files.items()
    }


def declared(begin: str, *arguments: str) -> str:
    """Return the declaration of a function, a line for each argument."""
    return begin + f",\n{' ' * len(begin)}".join(arguments) + ")"


def arguments_in_c(name: str) -> tuple[str, str]:
    """Return the arguments of every function that acts."""
    observation = f"const {name}_real observation[{name.upper()}_OBSERVATIONS]"
    return observation, f"{name}_real action[{name.upper()}_ACTIONS]"


class Numbers:
    """Writes numbers of one precision."""

    def __init__(self, precision: Precision) -> None:
        self.type, self.suffix = TYPES[precision], "f" if precision == "float" else ""

    def __call__(self, value: Any) -> str:
        """Return a number as text."""
        number = float(self.type(value))
        if math.isinf(number):
            return "INFINITY" if number > 0 else "-INFINITY"
        # The shortest text that reads back as the same bits.
        return f"{self.type(number)!s}{self.suffix}"

    def call(self, function: str, argument: str) -> str:
        """Return the call of a function."""
        return f"{function}{self.suffix}({argument})"

    def array(self, values: Iterable[Any]) -> str:
        """Return numbers, or rows of them, in braces."""
        parts = (self.array(value) if np.ndim(value) else self(value) for value in values)
        return f"{{{', '.join(parts)}}}"

    def rows(self, table: Any) -> str:
        """Return rows of numbers, each in braces, on lines of their own."""
        lines = []
        for row in table:
            pieces = [", ".join(map(self, row[i : i + _WIDTH])) for i in range(0, len(row), _WIDTH)]
            lines.append("    {" + ",\n     ".join(pieces) + "},")
        return "\n".join(lines)


class Expansion(NamedTuple):
    """A program whose names in C begin with ``pre``, and the formulas to define before it."""

    pre: str
    program: Program
    formulas: Set[str]

    def products(self, write: Numbers) -> list[str]:
        """Return the terms of the kernel, of the values v of its parts."""
        return [
            " * ".join([*([] if scale == 1.0 else [write(scale)]), *(f"v{part}" for part in parts)])
            for scale, parts in self.program.products
        ]

    def embedding(self, write: Numbers, seen: str = "s") -> Iterator[str]:
        """Yield the features z, in order, as expressions of the observation."""
        for factor in (part.factor for part in self.program.parts):
            sizes = dict(factor.logarithmic)
            for scales in factor.whitening:
                terms = []
                for d, scale in zip(factor.reads, scales, strict=True):
                    value = f"{seen}[{d}]"
                    if d in sizes:
                        value = write.call("asinh", f"{write(1.0 / sizes[d])} * {value}")
                        scale = scale * sizes[d]
                    if scale != 0.0:
                        terms.append(f"{write(scale)} * {value}")
                yield " + ".join(terms)
            for d, frequency, radius in factor.circles:
                for wave in ("cos", "sin"):
                    value = write.call(wave, f"{write(frequency)} * {seen}[{d}]")
                    yield f"{write(radius)} * {value}"


def named_expansions(programs: Iterable[tuple[str, Program]]) -> list[Expansion]:
    """Return programs by the beginnings of their names; the first defines what all need."""
    named = dict(programs)
    formulas = {part.factor.formula for one in named.values() for part in one.parts}
    return [
        Expansion(pre, one, set() if i else formulas) for i, (pre, one) in enumerate(named.items())
    ]


def described(signals: BoxSpec) -> str:
    """Return a line of a comment for each number."""
    low, high = signals.ends
    return "\n".join(
        f"     [{i}] {comment(name)}, from {low[i]:g} to {high[i]:g}"
        for i, name in enumerate(signals.names)
    )


def comment(text: str) -> str:
    """Return text that cannot end a comment, in ASCII."""
    plain = text.encode("ascii", "replace").decode()
    return re.sub(r"[^ -~]|\*/|/\*|\\|\?\?", "?", plain)
