"""A policy as C99: one header, one source, the knots as constants, nothing allocated."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from crosslearning.errors import InputError
from crosslearning.export import Precision
from crosslearning.export.program import TYPES, Part, Program
from crosslearning.learner import Policy
from crosslearning.learner.policy import BoxSpec

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
#: Numbers of a table per line.
_WIDTH = 4

_HEADER = """\
/* {title}

   Observations:
{observations}

   Actions, each within its range:
{actions}
*/
#ifndef {NAME}_H
#define {NAME}_H

#define {NAME}_OBSERVATIONS {q}
#define {NAME}_ACTIONS {p}

typedef {real} {name}_real;

#ifdef __cplusplus
extern "C" {{
#endif

/* Fill the action for an observation, and return 0. If an observation is not a finite number,
   return 1 and leave the action as it was. It keeps nothing from call to call. */
int {name}_act(const {name}_real observation[{NAME}_OBSERVATIONS],
{blank}{name}_real action[{NAME}_ACTIONS]);

#ifdef __cplusplus
}}
#endif

#endif
"""

_SOURCE = """\
/* {title} */
#include "{name}.h"

#include <math.h>

#define KNOTS {knots}
#define FEATURES {features}

/* What is computed in. */
typedef {inside} real;

{expansion}int {name}_act(const {name}_real observation[{NAME}_OBSERVATIONS],
{blank}{name}_real action[{NAME}_ACTIONS])
{{
    real z[FEATURES];
    real sum[{NAME}_ACTIONS];
    int i, m;

    for (i = 0; i < {NAME}_OBSERVATIONS; i++) {{
        if (!isfinite(observation[i])) {{
            return 1;
        }}
    }}
    embed(observation, z);
    for (i = 0; i < {NAME}_ACTIONS; i++) {{
        sum[i] = 0;
    }}
    for (m = 0; m < KNOTS; m++) {{
        const real value = kernel(z, knots[m]);
        for (i = 0; i < {NAME}_ACTIONS; i++) {{
            sum[i] += value * weights[m][i];
        }}
    }}
    for (i = 0; i < {NAME}_ACTIONS; i++) {{
        const real a = centre[i] + half[i] * sum[i];
        action[i] = ({name}_real)(a > low[i] ? (a < high[i] ? a : high[i]) : low[i]);
    }}
    return 0;
}}
"""

#: Tables and functions whose names begin with {pre}.
_EXPANSION = """\
/* The knots as the kernel sees them, and what each adds to the actions. */
static const real {pre}knots[{PRE}KNOTS][{PRE}FEATURES] = {{
{knot_rows}
}};
static const real {pre}weights[{PRE}KNOTS][{NAME}_ACTIONS] = {{
{weight_rows}
}};

/* From the function's values to actions, and the ends of these. */
static const real {pre}centre[{NAME}_ACTIONS] = {{{centre}}};
static const real {pre}half[{NAME}_ACTIONS] = {{{half}}};
static const {ends} {pre}low[{NAME}_ACTIONS] = {{{low}}};
static const {ends} {pre}high[{NAME}_ACTIONS] = {{{high}}};

{helpers}/* The observation as the kernel sees it. */
static void {pre}embed(const {given} *s, real *z)
{{
{embedding}
}}

/* The kernel between an observation and a knot, both embedded. */
static real {pre}kernel(const real *z, const real *k)
{{
{kernel}
}}

"""

_DISTANCE = """\
/* {about} */
static real {name}(const real *z, const real *k, int n)
{{
    real total = 0;
    int d;

    for (d = 0; d < n; d++) {{
{body}
    }}
    return total;
}}

"""
_SQUARE = _DISTANCE.format(
    about="The squared distance of n features.",
    name="square",
    body="        const real apart = z[d] - k[d];\n        total += apart * apart;",
)
_LENGTH = _DISTANCE.format(
    about="The sum of the n features' distances.",
    name="length",
    body="        total += FABS(z[d] - k[d]);",
)
_POLYNOMIAL = """\
/* (bias + the product of n features) to a power. */
static real polynomial(const real *z, const real *k, int n, real bias, int degree)
{
    real base = bias, power;
    int d;

    for (d = 0; d < n; d++) {
        base += z[d] * k[d];
    }
    power = base;
    for (d = 1; d < degree; d++) {
        power *= base;
    }
    return power;
}

"""


def c_files(
    policy: Policy, name: str, precision: Precision, arithmetic: Precision
) -> dict[str, str]:
    """Return the texts of ``name.h`` and ``name.c``, which define ``name_act``.

    The precision is that of observations and actions, the arithmetic that of all other numbers.
    """
    check_name(name)
    program, write = Program.of(policy), Numbers(arithmetic)
    title = f"The policy {comment(policy.name)} of crosslearning, in {precision} precision"
    title += "." if arithmetic == precision else f", computed in {arithmetic}."
    common = {"name": name, "NAME": name.upper(), "title": title}
    common["blank"] = " " * len(f"int {name}_act(")
    header = _HEADER.format(
        **common,
        observations=described(policy.observations),
        actions=described(policy.actions),
        q=policy.observations.size,
        p=policy.actions.size,
        real=precision,
    )
    source = _SOURCE.format(
        **common,
        inside=arithmetic,
        knots=len(program.knots),
        features=program.knots.shape[1],
        expansion=expansion(program, write, name, f"{name}_real", helpers([program], write)),
    )
    return {f"{name}.h": header, f"{name}.c": source}


def check_name(name: str) -> None:
    """Refuse a name that cannot begin the names of a C file."""
    if not _IDENTIFIER.fullmatch(name) or name == "math":
        raise InputError(
            f"{name!r} cannot begin the names of a C file; take letters, digits and underscores, "
            "a letter first, such as policy.c"
        )


def helpers(programs: Iterable[Program], write: Numbers) -> str:
    """Return the functions that the kernels of programs call."""
    kinds = {part.factor.formula for program in programs for part in program.parts}
    text = _SQUARE if kinds & {"gaussian", "matern32", "matern52"} else ""
    text += _LENGTH.replace("FABS", write.function("fabs")) if "laplacian" in kinds else ""
    return text + (_POLYNOMIAL if "polynomial" in kinds else "")


def expansion(
    program: Program,
    write: Numbers,
    name: str,
    given: str,
    helpers: str = "",
    pre: str = "",
    wide: Numbers | None = None,
) -> str:
    """Return the tables and functions of an expansion, of states of the C type ``given``.

    ``wide`` writes the ends of its values, in double.
    """
    return _EXPANSION.format(
        NAME=name.upper(),
        given=given,
        pre=pre,
        PRE=pre.upper(),
        knot_rows=write.table(program.knots),
        weight_rows=write.table(program.weights),
        centre=write.row(program.scale.centre),
        half=write.row(program.scale.half),
        ends="real" if wide is None else "double",
        low=(wide or write).row(program.low),
        high=(wide or write).row(program.high),
        helpers=helpers,
        embedding="\n".join(_embedding(program, write)),
        kernel="\n".join(_kernel(program, write)),
    )


class Numbers:
    """Writes numbers and functions of one precision."""

    def __init__(self, precision: Precision) -> None:
        self.type, self.suffix = TYPES[precision], "f" if precision == "float" else ""

    def __call__(self, value: Any) -> str:
        """Return a number as text."""
        number = float(self.type(value))
        if math.isinf(number):
            return "INFINITY" if number > 0 else "-INFINITY"
        # The shortest text that reads back as the same bits.
        return f"{self.type(number)!s}{self.suffix}"

    def function(self, name: str) -> str:
        """Return the name of a function of ``math.h``."""
        return name + self.suffix

    def row(self, values: Iterable[Any]) -> str:
        """Return numbers with commas between them."""
        return ", ".join(self(value) for value in values)

    def table(self, rows: Any) -> str:
        """Return rows of numbers, in braces."""
        lines = []
        for row in rows:
            pieces = [self.row(row[i : i + _WIDTH]) for i in range(0, len(row), _WIDTH)]
            lines.append("    {" + ",\n     ".join(pieces) + "},")
        return "\n".join(lines)


def _embedding(program: Program, write: Numbers) -> Iterator[str]:
    """Yield the lines that fill the features z from the observation s."""
    for part in program.parts:
        factor, place = part.factor, part.start
        sizes = dict(factor.logarithmic)
        for scales in factor.whitening:
            terms = []
            for d, scale in zip(factor.reads, scales, strict=True):
                value = f"s[{d}]"
                if d in sizes:
                    value = f"{write.function('asinh')}({write(1.0 / sizes[d])} * {value})"
                    scale = scale * sizes[d]
                if scale != 0.0:
                    terms.append(f"{write(scale)} * {value}")
            yield f"    z[{place}] = {' + '.join(terms)};"
            place += 1
        for d, frequency, radius in factor.circles:
            for wave in ("cos", "sin"):
                value = f"{write.function(wave)}({write(frequency)} * s[{d}])"
                yield f"    z[{place}] = {write(radius)} * {value};"
                place += 1


def _kernel(program: Program, write: Numbers) -> Iterator[str]:
    """Yield the lines of the kernel's value from features z and k."""
    exp = write.function("exp")
    for number, part in enumerate(program.parts):
        formula, value = part.factor.formula, f"    const real v{number}"
        if formula == "gaussian":
            yield f"{value} = {exp}({write(-0.5)} * {_call('square', part)});"
        elif formula == "laplacian":
            yield f"{value} = {exp}(-{_call('length', part)});"
        elif formula == "polynomial":
            more = f", {write(part.factor.bias)}, {part.factor.degree}"
            yield f"{value} = {_call('polynomial', part, more)};"
        else:
            r, rough = f"r{number}", formula == "matern32"
            root = f"{write(math.sqrt(3.0 if rough else 5.0))} * {write.function('sqrt')}"
            third = "" if rough else f" + {r} * {r} / {write(3.0)}"
            yield f"    const real {r} = {root}({_call('square', part)});"
            yield f"{value} = ({write(1.0)} + {r}{third}) * {exp}(-{r});"
    products = []
    for scale, numbers in program.products:
        factors = [] if scale == 1.0 else [write(scale)]
        products.append(" * ".join([*factors, *(f"v{number}" for number in numbers)]))
    yield f"\n    return {' + '.join(products)};"


def _call(function: str, part: Part, more: str = "") -> str:
    at = f" + {part.start}" if part.start else ""
    return f"{function}(z{at}, k{at}, {part.stop - part.start}{more})"


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
