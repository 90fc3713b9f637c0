"""A learned controller as C99: a policy, the controller that it corrects, and the loop of both.

The loop computes in double whatever the precision, as Python does: sums of small errors would be
lost in single precision, and whether an action is limited must not depend on it. Expansions, which
take nearly all of the time, are computed in the arithmetic that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from string import Template

from crosslearning.export import Precision
from crosslearning.export.c_level import Level
from crosslearning.export.c_source import (
    Numbers,
    check_name,
    comment,
    described,
    expansion,
    helpers,
)
from crosslearning.export.signals import machine_signals
from crosslearning.learner.deployment import LearnedController

_HEADER = Template("""\
/* $title

   Observations:
$observations

   Actions, each within its range:
$actions

$about
*/
#ifndef ${NAME}_H
#define ${NAME}_H

#define ${NAME}_OBSERVATIONS $q
#define ${NAME}_ACTIONS $p
$sizes
typedef $real ${name}_real;

$states#ifdef __cplusplus
extern "C" {
#endif

/* Begin: before the first action, and again whenever the machine starts anew. */
void ${name}_reset(${name}_state *state);

/* Fill the action for an observation, and return 0. If a number that is given, or that follows
   from it, is not finite, return 1 and leave the action and the state as they were.$more */
$signature;

#ifdef __cplusplus
}
#endif

#endif
""")

_SOURCE = Template("""\
/* $title */
#include "$name.h"

#include <math.h>

/* What expansions are computed in. */
typedef $inside real;

$levels""")

_EXPAND = Template("""\
static void ${pre}expand(const real *s, double *value)
{
    real z[${PRE}FEATURES];
    real sum[${NAME}_ACTIONS];
    int i, m;

    ${pre}embed(s, z);
    for (i = 0; i < ${NAME}_ACTIONS; i++) {
        sum[i] = 0;
    }
    for (m = 0; m < ${PRE}KNOTS; m++) {
        const real height = ${pre}kernel(z, ${pre}knots[m]);
        for (i = 0; i < ${NAME}_ACTIONS; i++) {
            sum[i] += height * ${pre}weights[m][i];
        }
    }
    for (i = 0; i < ${NAME}_ACTIONS; i++) {
        const double a = (double)(${pre}centre[i] + ${pre}half[i] * sum[i]);
        value[i] = a > ${pre}low[i] ? (a < ${pre}high[i] ? a : ${pre}high[i]) : ${pre}low[i];
    }
}

""")


def c_loop_files(
    controller: LearnedController, name: str, precision: Precision, arithmetic: Precision
) -> dict[str, str]:
    """Return the texts of ``name.h`` and ``name.c``, which define ``name_reset`` and ``name_act``.

    The precision is that of observations and actions, the arithmetic that of the expansions.
    """
    check_name(name)
    level, write = Level(controller, name, precision, arithmetic), Numbers(arithmetic)
    levels = list(level.inwards())
    title = f"The controller {comment(controller.name)} of crosslearning, in {precision} precision"
    title += "." if arithmetic == precision else f", expansions computed in {arithmetic}."
    common = {"name": name, "NAME": name.upper(), "title": title}
    signals = machine_signals(controller)
    header = _HEADER.substitute(
        common,
        observations=described(signals[0]),
        actions=described(signals[1]),
        about="\n".join(f"   {line}" for line in _about(controller, level)),
        q=level.q,
        p=level.p,
        sizes="".join(one.sizes() for one in levels),
        real=precision,
        states="".join(one.state() for one in reversed(levels)),
        signature=level.signature(),
        more=level.about_code(),
    )
    expansions = [each for one in levels for each in one.expansions()]
    needed, texts = helpers([program for _, program in expansions], write), []
    for pre, program in expansions:
        texts.append(f"#define {pre.upper()}KNOTS {len(program.knots)}\n")
        texts.append(f"#define {pre.upper()}FEATURES {program.knots.shape[1]}\n\n")
        texts += [expansion(program, write, name, "real", needed, pre, level.wide)]
        texts += [_EXPAND.substitute(common, pre=pre, PRE=pre.upper())]
        needed = ""
    texts += [text for one in reversed(levels) for text in one.functions()]
    source = _SOURCE.substitute(common, inside=arithmetic, levels="".join(texts))
    return {f"{name}.h": header, f"{name}.c": source.rstrip("\n") + "\n"}


def _about(controller: LearnedController, level: Level) -> Iterator[str]:
    """Yield the lines of the header's comment on what is inside."""
    spec = controller.loop.spec
    inner = {
        "none": "It corrects no controller.",
        "code": "The controller that it corrects is computed by the caller.",
    }
    yield inner.get(level.kind, f"Inside is the controller that it corrects: {level.kind}.")
    if spec.rate is not None:
        yield f"Call it {spec.rate:g} times a second; integrals and derivatives count on it."
    change = controller.change
    if change is not None:
        rates = "" if spec.rates is None else ", before the limits of rates"
        yield f"The action differs from the controller's by at most{rates}:"
        units = machine_signals(controller)[1].to_dict()["units"]
        for i, (most, unit) in enumerate(zip(change, units, strict=True)):
            yield f"  [{i}] +-{most:g}{f' {comment(unit)}' if unit else ''}"
    for i, step in enumerate([] if spec.rates is None else spec.rates):
        if math.isfinite(step):
            yield f"Action [{i}] changes by at most {step:g} from call to call."
