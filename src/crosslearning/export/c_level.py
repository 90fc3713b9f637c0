"""The C functions of a loop and its controller, line by line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from string import Template
from typing import Any

import numpy as np

from crosslearning.errors import InputError
from crosslearning.export import Precision
from crosslearning.export.c_source import Numbers
from crosslearning.export.program import Program
from crosslearning.export.signals import remembered_by_code, unknown_controller
from crosslearning.learner.deployment import LearnedController
from crosslearning.rollouts.data import ActionScale
from crosslearning.tasks.controllers import PID, Constant, KernelController, StateFeedback
from crosslearning.tasks.loop import CorrectedController

_PID = Template("""\
/* The PID: fill its action, and the integrals and errors to remember. The integral of an error
   stands still while an action that it drives is clipped and it drives it farther. */
static void ${pre}control(const ${name}_${pre}state *state, const ${name}_real *observation,
                    double *asked, double *integral, double *error)
{
    static const double kp[$p][$m] = {$kp}, ki[$p][$m] = {$ki}, kd[$p][$m] = {$kd};
    static const double setpoint[$m] = {$setpoint}, bias[$p] = {$bias};
    static const double low[$p] = {$low}, high[$p] = {$high};
    static const int measured[$m] = {$measured};
    const double step = $step;
    int still[$m];
    int i, j;

    for (j = 0; j < $m; j++) {
        error[j] = setpoint[j] - (double)observation[measured[j]];
        integral[j] = state->pid_integral[j] + step * error[j];
        still[j] = 0;
    }
    for (i = 0; i < $p; i++) {
        double a = bias[i], clipped;
        for (j = 0; j < $m; j++) {
            const double slope = state->begun ? (error[j] - state->pid_error[j]) / step : 0;
            a += kp[i][j] * error[j] + ki[i][j] * integral[j] + kd[i][j] * slope;
        }
        clipped = a > low[i] ? (a < high[i] ? a : high[i]) : low[i];
        asked[i] = isfinite(a) ? clipped : a;
        for (j = 0; j < $m; j++) {
            const double drive = ki[i][j] * error[j];
            still[j] |= (a > clipped && drive > 0) || (a < clipped && drive < 0);
        }
    }
    for (j = 0; j < $m; j++) {
        integral[j] = still[j] ? state->pid_integral[j] : integral[j];
    }
}

""")

_FEEDBACK = Template("""\
/* The state feedback. */
static void ${pre}control(const ${name}_real *observation, double *asked)
{
    static const double gain[$p][$q] = {$gain}, target[$q] = {$target}, bias[$p] = {$bias};
    int i, j;

    for (i = 0; i < $p; i++) {
        asked[i] = bias[i];
        for (j = 0; j < $q; j++) {
            asked[i] -= gain[i][j] * ((double)observation[j] - target[j]);
        }
    }
}

""")


class Level:
    """A loop and its controller; that of a controller which has a loop itself is one inwards."""

    def __init__(
        self, controller: LearnedController, name: str, precision: Precision,
        arithmetic: Precision, pre: str = "",
    ) -> None:  # fmt: skip
        loop = controller.loop
        self.name, self.pre, self.spec, self.is_angle = name, pre, loop.spec, loop.is_angle
        self.precision, self.arithmetic, self.policy = precision, arithmetic, controller.policy
        self.q, self.p = len(self.spec.observation_names), len(self.spec.low)
        self.controller: Any = loop.controller
        self.inner: Level | None = None
        self.kind, self.code_memory = "none", 0
        if unknown_controller(controller):
            self.kind, self.code_memory = "code", remembered_by_code(controller)
        elif isinstance(self.controller, CorrectedController):
            inside = LearnedController.from_document(self.controller.document())
            self.kind = "a learned controller"
            self.inner = Level(inside, name, precision, arithmetic, f"{pre}inner_")
        elif self.controller is not None:
            self.kind = {
                PID: "a PID", StateFeedback: "a state feedback", Constant: "a constant",
                KernelController: "a policy",
            }[type(self.controller)]  # fmt: skip
        # A limited rate needs the last action even if the policy does not observe it.
        self.changes = "${NAME}_OBSERVATIONS" if not self.spec.circles else len(self.spec.changing)
        self.kept = max(self.spec.past_actions, int(self.spec.rates is not None))
        self.wide = Numbers("double")

    def inwards(self) -> Iterator[Level]:
        """Yield this and all levels inside."""
        yield self
        if self.inner is not None:
            yield from self.inner.inwards()

    def _macro(self, what: str) -> str:
        return f"{self.name.upper()}_{self.pre.upper()}{what}"

    def _fill(self, text: str) -> str:
        names = {"name": self.name, "NAME": self.name.upper(), "pre": self.pre}
        sizes = {"LAGS": self._macro("LAGS"), "KEPT": self._macro("PAST_ACTIONS")}
        return Template(text).substitute(names, **sizes)

    # The header ------------------------------------------------------------------------

    def sizes(self) -> str:
        """Return the macros of the lengths of memories."""
        lengths = (("LAGS", self.spec.lags), ("PAST_ACTIONS", self.kept))
        text = "".join(f"#define {self._macro(what)} {n}\n" for what, n in lengths if n)
        memory = f"#define {self._macro('MEMORY')} {self.code_memory}\n"
        return text + (memory if self.code_memory else "")

    def state(self) -> str:
        """Return the struct of what is remembered."""
        number = f"{self.arithmetic} "
        lines = ["int begun; /* whether there was an action since the reset */"]
        if self.spec.lags:
            lines += ["int newest_change;", "${name}_real observation[${NAME}_OBSERVATIONS];"]
            lines += [number + f"changes[$LAGS][{self.changes}]; /* a ring */"]
        if self.kept:
            lines += ["int newest_action;"]
            lines += ["${name}_real actions[$KEPT][${NAME}_ACTIONS]; /* a ring */"]
        if self.spec.setpoints:
            lines += ["int limited; /* whether the last action was */"]
            lines += [f"double integral[{len(self.spec.setpoints)}];"]
        if isinstance(self.controller, PID):
            m = len(self.controller.measured)
            lines += [f"double pid_integral[{m}];", f"double pid_error[{m}];"]
        if self.inner is not None:
            lines += ["${name}_${pre}inner_state inner;"]
        body = "".join(f"    {line}\n" for line in lines)
        what = "What it remembers." if not self.pre else "What the controller inside remembers."
        return self._fill(f"/* {what} */\ntypedef struct {{\n{body}}} ${{name}}_${{pre}}state;\n\n")

    def signature(self) -> str:
        """Return the declaration of the function that acts."""
        begin = f"int {self.name}_act(" if not self.pre else f"static int {self.pre}act("
        arguments = [
            "${name}_${pre}state *state",
            "const ${name}_real observation[${NAME}_OBSERVATIONS]",
        ]
        if self.kind == "code":
            arguments += ["const ${name}_real controller_action[${NAME}_ACTIONS]"]
        if self.code_memory:
            arguments += [f"const ${{name}}_real controller_memory[{self._macro('MEMORY')}]"]
        arguments += ["${name}_real action[${NAME}_ACTIONS]"]
        return self._fill(begin + f",\n{' ' * len(begin)}".join(arguments) + ")")

    def about_code(self) -> str:
        """Return what the caller has to compute, for the header."""
        if self.kind != "code":
            return ""
        text = "\n   controller_action is the action of your controller for the same observation"
        if self.code_memory:
            text += ", and\n   controller_memory what it remembered before it computed that action"
        return text + "."

    # The source ------------------------------------------------------------------------

    def expansions(self) -> Iterator[tuple[str, Program]]:
        """Yield the programs of this level with the prefixes of their names."""
        yield self.pre, Program.of(self.policy)
        given = self.controller
        if self.kind == "a policy":
            scale = ActionScale(
                *(np.asarray(v, dtype=np.float64) for v in (given.centre, given.half))
            )
            yield (
                f"{self.pre}controller_",
                Program.of_function(given.function, scale, given.low, given.high),
            )

    def functions(self) -> Iterator[str]:
        """Yield the functions of this level."""
        yield from self._control()
        yield self._reset()
        lines = [*self._checks(), *self._observe(), *self._ask(), *self._act(), *self._commit()]
        body = "".join(f"    {line}\n" if line else "\n" for line in lines)
        yield self._fill(f"{self.signature()}\n{{\n{body}    return 0;\n}}\n\n")

    def _table(self, values: Any) -> str:
        rows = np.asarray(values, dtype=np.float64)
        return ", ".join(
            self.wide(row) if rows.ndim == 1 else f"{{{self.wide.row(row)}}}" for row in rows
        )

    def _control(self) -> Iterator[str]:
        given, names = self.controller, {"name": self.name, "pre": self.pre, "p": self.p}
        if isinstance(given, PID):
            gains = {
                k: self._table(getattr(given, k)) for k in ("kp", "ki", "kd", "setpoint", "bias")
            }
            low, high = (
                self._table(np.full(self.p, none) if end is None else end)
                for end, none in ((given.low, -np.inf), (given.high, np.inf))
            )
            yield _PID.substitute(
                names, **gains, low=low, high=high, m=len(given.measured),
                step=self.wide(1.0 / (given.rate or 1.0)),
                measured=", ".join(map(str, np.arange(self.q)[given.measured])),
            )  # fmt: skip
        elif isinstance(given, StateFeedback):
            parts = {k: self._table(getattr(given, k)) for k in ("gain", "target", "bias")}
            yield _FEEDBACK.substitute(names, **parts, q=self.q)

    def _reset(self) -> str:
        spec, lines = self.spec, ["state->begun = 0;"]
        if spec.lags:
            lines += ["state->newest_change = 0;"]
            lines += _loop("i", "${NAME}_OBSERVATIONS", ["state->observation[i] = 0;"])
            inside = _loop("i", self.changes, ["state->changes[k][i] = 0;"])
            lines += _loop("k", "$LAGS", inside)
        if self.kept:
            lines += ["state->newest_action = 0;"]
            numbers = Numbers(self.precision)
            with np.errstate(invalid="ignore"):
                middle = np.nan_to_num(0.5 * (spec.low + spec.high), posinf=0.0, neginf=0.0)
            lines.insert(
                0,
                f"static const ${{name}}_real middle[] = {{{numbers.row(middle)}}};",
            )
            inside = _loop("i", "${NAME}_ACTIONS", ["state->actions[k][i] = middle[i];"])
            lines += _loop("k", "$KEPT", inside)
        if spec.setpoints:
            lines += ["state->limited = 0;"]
            lines += _loop("k", len(spec.setpoints), ["state->integral[k] = 0;"])
        if isinstance(self.controller, PID):
            inside = ["state->pid_integral[k] = 0;", "state->pid_error[k] = 0;"]
            lines += _loop("k", len(self.controller.measured), inside)
        if self.inner is not None:
            lines += ["${pre}inner_reset(&state->inner);"]
        counters = [c for c in "ik" if any(f"for ({c} =" in line for line in lines)]
        if counters:
            lines.insert(int(bool(self.kept)), f"int {', '.join(counters)};\n")
        begin = f"void {self.name}_reset(" if not self.pre else f"static void {self.pre}reset("
        body = "".join(f"    {line}\n" for line in lines)
        return self._fill(f"{begin}${{name}}_${{pre}}state *state)\n{{\n{body}}}\n\n")

    def _checks(self) -> Iterator[str]:
        spec, count = self.spec, len(self.spec.setpoints)
        yield f"static const double least[] = {{{self.wide.row(spec.low)}}};"
        yield f"static const double most[] = {{{self.wide.row(spec.high)}}};"
        if spec.rates is not None:
            yield f"static const double rate[] = {{{self.wide.row(spec.rates)}}};"
        if self.kind == "a constant":
            yield f"static const double constant[] = {{{self._table(self.controller.action)}}};"
        if spec.lags and self.is_angle.any():
            angles = ", ".join(str(int(angle)) for angle in self.is_angle[spec.changing])
            yield f"static const int is_angle[] = {{{angles}}};"
        if spec.lags and spec.circles:
            sines = [dict(spec.circles).get(c, -1) for c in spec.changing]
            yield f"static const int changing[] = {{{', '.join(map(str, spec.changing))}}};"
            yield f"static const int sine[] = {{{', '.join(map(str, sines))}}};"
        yield f"real seen[{self.policy.observations.size}];"
        if spec.lags:
            yield f"double change[{self.changes}];"
        if count:
            yield f"double error[{count}], integral[{count}];"
        if isinstance(self.controller, PID):
            m = len(self.controller.measured)
            yield f"double pid_integral[{m}], pid_error[{m}];"
        if self.inner is not None:
            yield "${name}_${pre}inner_state inner = state->inner;"
            yield "${name}_real answer[${NAME}_ACTIONS];"
        yield "double asked[${NAME}_ACTIONS], correction[${NAME}_ACTIONS];"
        yield "${name}_real result[${NAME}_ACTIONS];"
        counters = ["i", *(["k"] if spec.lags > 1 or spec.past_actions else [])]
        yield f"int {', '.join([*counters, *(['limited = 0'] if count else [])])};"
        yield ""
        given = [("observation", "${NAME}_OBSERVATIONS")]
        given += [("controller_action", "${NAME}_ACTIONS")] if self.kind == "code" else []
        given += [("controller_memory", self._macro("MEMORY"))] if self.code_memory else []
        for what, size in given:
            yield from _loop("i", size, _if(f"!isfinite({what}[i])", ["return 1;"]))

    def _observe(self) -> Iterator[str]:
        """Yield the lines that fill what the policy observes, in the order of Loop."""
        spec, q, p, n = self.spec, self.q, self.p, len(self.spec.changing)
        yield ""
        yield "/* What the policy observes. */"
        yield from _loop("i", "${NAME}_OBSERVATIONS", ["seen[i] = (real)observation[i];"])
        at = q
        if spec.lags:
            wrap = _if(
                "is_angle[i]",
                [
                    f"change[i] = fmod(change[i] + {math.pi!r}, {2 * math.pi!r});",
                    f"change[i] += (change[i] < 0 ? {2 * math.pi!r} : 0) - {math.pi!r};",
                ],
            )
            c = "changing[i]" if spec.circles else "i"
            lines = [f"change[i] = (double)observation[{c}] - (double)state->observation[{c}];"]
            if spec.circles:  # the difference of the angle
                lines += _if(
                    "sine[i] >= 0",
                    [
                        f"change[i] = atan2(observation[sine[i]], observation[{c}])",
                        f"    - atan2(state->observation[sine[i]], state->observation[{c}]);",
                    ],
                )
            lines += wrap if self.is_angle.any() else []
            lines += _if("!state->begun", ["change[i] = 0;"])
            lines += [f"seen[{at} + i] = (real)change[i];"]
            if spec.lags > 1:
                old = "(state->newest_change + k - 1) % $LAGS"
                lines += ["for (k = 1; k < $LAGS; k++) {"]
                lines += [f"    seen[{at} + k * {n} + i] = (real)state->changes[{old}][i];", "}"]
            yield from _loop("i", self.changes, lines)
            at += len(spec.changing) * spec.lags
        if spec.past_actions:
            old = "(state->newest_action + k) % $KEPT"
            lines = [f"seen[{at} + k * {p} + i] = (real)state->actions[{old}][i];"]
            yield from _loop("k", spec.past_actions, _loop("i", "${NAME}_ACTIONS", lines))
            at += p * spec.past_actions
        for j, (i, aim, held) in enumerate(spec.setpoints):
            value = f"(double)observation[{held}]" if held is not None else self.wide(aim)
            yield f"error[{j}] = {value} - (double)observation[{i}];"
            yield f"integral[{j}] = state->integral[{j}];"
            more = f"integral[{j}] += error[{j}] / {self.wide(spec.rate or 1.0)};"
            yield from _if("state->begun && !state->limited", [more])
        for j in [j for j, (_, _, held) in enumerate(spec.setpoints) if held is not None]:
            yield f"seen[{at}] = (real)error[{j}];"
            at += 1
        for j in range(len(spec.setpoints)):
            yield f"seen[{at}] = (real)integral[{j}];"
            at += 1
        for value in self._controller_memory("state->"):
            yield f"seen[{at}] = (real){value};"
            at += 1
        if at != self.policy.observations.size:
            raise InputError(
                f"the policy reads {self.policy.observations.size} numbers, its loop shows {at}"
            )
        size = self.policy.observations.size
        yield from _loop("i", size, _if("!isfinite(seen[i])", ["return 1;"]))

    def _controller_memory(self, state: str) -> Iterator[str]:
        """Yield what the controller remembers, in the order of its ``memory``."""
        given = self.controller
        if self.kind == "code":
            yield from (f"controller_memory[{i}]" for i in range(self.code_memory))
        elif isinstance(given, PID):
            for name, gains in (("pid_integral", given.ki), ("pid_error", given.kd)):
                used = np.flatnonzero(np.any(gains != 0.0, axis=0))
                yield from (f"{state}{name}[{j}]" for j in used)
        elif self.inner is not None:
            yield from self.inner._memory(f"{state}inner.")

    def _memory(self, state: str) -> Iterator[str]:
        """Yield what this level remembers, in the order of Loop.memory."""
        for k in range(self.spec.lags):
            ring = f"({state}newest_change + {k}) % {self._macro('LAGS')}"
            yield from (f"{state}changes[{ring}][{i}]" for i in range(len(self.spec.changing)))
        for k in range(self.spec.past_actions):
            ring = f"({state}newest_action + {k}) % {self._macro('PAST_ACTIONS')}"
            yield from (f"{state}actions[{ring}][{i}]" for i in range(self.p))
        yield from (f"{state}integral[{j}]" for j in range(len(self.spec.setpoints)))
        yield from self._controller_memory(state)

    def _ask(self) -> Iterator[str]:
        """Yield the lines that fill the controller's action."""
        yield ""
        yield "${pre}expand(seen, correction);"
        each = {"none": "0", "code": "controller_action[i]", "a constant": "constant[i]"}
        if self.kind in each:
            yield from _loop("i", "${NAME}_ACTIONS", [f"asked[i] = {each[self.kind]};"])
        elif isinstance(self.controller, PID):
            yield "${pre}control(state, observation, asked, pid_integral, pid_error);"
        elif self.kind == "a state feedback":
            yield "${pre}control(observation, asked);"
        elif self.kind == "a policy":
            yield "${pre}controller_expand(seen, asked);"
        else:
            yield from _if("${pre}inner_act(&inner, observation, answer) != 0", ["return 1;"])
            # As Python does, in the type of the machine's actions.
            cast = "(float)" if self.spec.actions.dtype == np.float32 else ""
            yield from _loop("i", "${NAME}_ACTIONS", [f"asked[i] = {cast}answer[i];"])

    def _act(self) -> Iterator[str]:
        """Yield the lines that turn both into the machine's action."""
        spec, lines = self.spec, ["double wanted, a;", ""]
        if spec.rates is not None:
            lines.insert(0, "const double last = (double)state->actions[state->newest_action][i];")
        lines += _if("!isfinite(asked[i] + correction[i])", ["return 1;"])
        if self.controller is not None:
            lines += ["asked[i] = asked[i] > least[i] ? asked[i] : least[i];"]
            lines += ["asked[i] = asked[i] < most[i] ? asked[i] : most[i];"]
        lines += ["wanted = asked[i] + correction[i];"]
        lines += ["a = wanted > least[i] ? (wanted < most[i] ? wanted : most[i]) : least[i];"]
        if spec.rates is not None:
            slack = 4.0 * float(np.finfo(str(spec.actions.dtype)).eps)
            inside = [f"double step = rate[i] - {slack!r} * fabs(last);", ""]
            inside += ["step = step > 0 ? step : 0;"]
            inside += ["a = a > last - step ? a : last - step;"]
            inside += ["a = a < last + step ? a : last + step;"]
            lines += _if("state->begun", inside)
        lines += ["limited |= a != wanted;"] if spec.setpoints else []
        lines += ["result[i] = (${name}_real)a;"]
        if self.precision == "float":  # limits hold for what is rounded, too
            lines += _if("!isfinite(result[i])", ["return 1;"])
            for beyond, to in (("> most[i]", "-INFINITY"), ("< least[i]", "INFINITY")):
                nearer = f"result[i] = nextafterf(result[i], {to});"
                lines += _if(f"(double)result[i] {beyond}", [nearer])
        if spec.rates is not None and self.precision == "float":
            beyond = "state->begun && fabs((double)result[i] - last) > rate[i]"
            lines += _if(beyond, ["result[i] = nextafterf(result[i], (float)last);"])
        yield from _loop("i", "${NAME}_ACTIONS", lines)

    def _commit(self) -> Iterator[str]:
        """Yield the lines that remember the step, once nothing can fail."""
        spec = self.spec
        yield ""
        yield "/* All is known to be finite: remember it. */"
        if spec.lags:
            yield "state->newest_change = (state->newest_change + $LAGS - 1) % $LAGS;"
            number = self.arithmetic
            keep = ["state->observation[i] = observation[i];"]
            more = [f"state->changes[state->newest_change][i] = ({number})change[i];"]
            if spec.circles:
                yield from _loop("i", "${NAME}_OBSERVATIONS", keep)
                keep = []
            yield from _loop("i", self.changes, [*keep, *more])
        inside = ["action[i] = result[i];"]
        if self.kept:
            yield "state->newest_action = (state->newest_action + $KEPT - 1) % $KEPT;"
            inside += ["state->actions[state->newest_action][i] = result[i];"]
        yield from _loop("i", "${NAME}_ACTIONS", inside)
        for j in range(len(spec.setpoints)):
            yield f"state->integral[{j}] = integral[{j}];"
        if spec.setpoints:
            yield "state->limited = limited;"
        if isinstance(self.controller, PID):
            inside = ["state->pid_integral[i] = pid_integral[i];"]
            inside += ["state->pid_error[i] = pid_error[i];"]
            yield from _loop("i", len(self.controller.measured), inside)
        if self.inner is not None:
            yield "state->inner = inner;"
        yield "state->begun = 1;"


def _loop(counter: str, size: int | str, lines: list[str]) -> list[str]:
    return _block(f"for ({counter} = 0; {counter} < {size}; {counter}++)", lines)


def _if(condition: str, lines: list[str]) -> list[str]:
    return _block(f"if ({condition})", lines)


def _block(head: str, lines: list[str]) -> list[str]:
    return [f"{head} {{", *(f"    {line}" if line else "" for line in lines), "}"]
