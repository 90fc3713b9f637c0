"""A learned controller as C99: a policy, the controller that it corrects, and the loop of both.

The loop computes in double whatever the precision, as Python does: sums of small errors would be
lost in single precision, and whether an action is limited must not depend on it. Expansions, which
take nearly all of the time, are computed in the arithmetic that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from crosslearning.errors import InputError
from crosslearning.export import Precision
from crosslearning.export.c_source import (
    arguments_in_c,
    comment,
    declared,
    named_expansions,
    rendered,
)
from crosslearning.export.program import Floats, Program
from crosslearning.export.signals import (
    machine_signals,
    middle_of,
    remembered_by_code,
    unknown_controller,
)
from crosslearning.learner.deployment import LearnedController
from crosslearning.rollouts.data import ActionScale
from crosslearning.tasks.controllers import PID, Constant, KernelController, StateFeedback
from crosslearning.tasks.loop import CorrectedController

_KINDS: dict[type, str] = {
    type(None): "none",
    PID: "a PID",
    StateFeedback: "a state feedback",
    Constant: "a constant",
    KernelController: "a policy",
}


def c_loop_files(
    controller: LearnedController, name: str, precision: Precision, arithmetic: Precision
) -> dict[str, str]:
    """Return the texts of ``name.h`` and ``name.c``, which define ``name_reset`` and ``name_act``.

    The precision is that of observations and actions, the arithmetic that of the expansions.
    """
    title = f"The controller {comment(controller.name)} of crosslearning, in {precision} precision"
    title += "." if arithmetic == precision else f", expansions computed in {arithmetic}."
    level = Level(controller, name)
    levels = list(level.inwards())
    return rendered(
        "loop.c.j2",
        name,
        (precision, arithmetic),
        title=title,
        signals=machine_signals(controller),
        choices=controller.policy.choices,
        expansions=named_expansions(each for one in levels for each in one.programs()),
        level=level,
        levels=levels,
        signature=level.signature,
    )


class Level:
    """A loop and its controller; that of a controller which has a loop itself is one inwards."""

    #: What stands before the memory of the level inside, and the name of integrals in it.
    inside, integral = "inner.", "integral"

    def __init__(self, controller: LearnedController, name: str, pre: str = "") -> None:
        loop = controller.loop
        self.name, self.pre, self.spec, self.is_angle = name, pre, loop.spec, loop.is_angle
        self.policy, self.change = controller.policy, controller.change
        self.reads = controller.policy.observations.size
        self.controller: Any = loop.controller
        self.inner: Level | None = None
        self.code_memory = 0
        if unknown_controller(controller):
            self.kind, self.code_memory = "code", remembered_by_code(controller)
            if self.code_memory < 0:
                raise InputError(
                    f"the policy reads {self.reads} numbers, its loop shows "
                    f"{self.reads - self.code_memory} or more"
                )
        elif isinstance(self.controller, CorrectedController):
            inside = LearnedController.from_document(self.controller.document())
            self.kind, self.inner = "a learned controller", type(self)(inside, name, f"{pre}inner_")
        else:
            self.kind = _KINDS[type(self.controller)]
        # A limited rate needs the last action even if the policy does not observe it.
        self.kept = max(self.spec.past_actions, int(self.spec.rates is not None))
        self.sizes = {"LAGS": self.spec.lags, "PAST_ACTIONS": self.kept, "MEMORY": self.code_memory}
        circles, changing = dict(self.spec.circles), self.spec.changing
        self.changes = str(len(changing)) if circles else f"{name.upper()}_OBSERVATIONS"
        self.sines = [circles.get(c, -1) for c in changing]
        rates = np.ravel([] if self.spec.rates is None else self.spec.rates)
        self.limits = [(i, step) for i, step in enumerate(rates) if np.isfinite(step)]
        self.slack = 4.0 * float(np.finfo(str(self.spec.actions.dtype)).eps)

    def inwards(self) -> Iterator[Level]:
        """Yield this and all levels inside."""
        yield self
        if self.inner is not None:
            yield from self.inner.inwards()

    def macro(self, what: str) -> str:
        """Return the name of one of the ``sizes``."""
        return f"{self.name.upper()}_{self.pre.upper()}{what}"

    @property
    def signature(self) -> str:
        """The declaration of the function that acts."""
        begin = f"static int {self.pre}act(" if self.pre else f"int {self.name}_act("
        state, (observation, action) = f"{self.name}_{self.pre}state", arguments_in_c(self.name)
        code = {"action": f"{self.name.upper()}_ACTIONS"} if self.kind == "code" else {}
        code |= {"memory": self.macro("MEMORY")} if self.code_memory else {}
        given = [f"const {self.name}_real controller_{what}[{n}]" for what, n in code.items()]
        return declared(begin, f"{state} *state", observation, *given, action)

    def programs(self) -> Iterator[tuple[str, Program]]:
        """Yield the programs of this level with the beginnings of their names."""
        yield self.pre, Program.of(self.policy)
        given = self.controller
        if self.kind == "a policy":
            scale = ActionScale(*(np.asarray(v, np.float64) for v in (given.centre, given.half)))
            program = Program.of_function(given.function, scale, given.low, given.high)
            yield f"{self.pre}controller_", program

    @property
    def middle(self) -> Floats:
        """What stands for past actions before the first."""
        return middle_of(self.spec.low, self.spec.high)

    @property
    def shown(self) -> list[str]:
        """What the policy observes after past actions, in the order of Loop."""
        return [*self._errors_and_integrals(), *self._controller_memory("state->")]

    def _errors_and_integrals(self, new: str = "") -> list[str]:
        aims = self.spec.setpoints
        errors = [f"error[{j}]" for j, (_, _, held) in enumerate(aims) if held is not None]
        return errors + [f"{new}integral[{j}]" for j in range(len(aims))]

    def _controller_memory(self, state: str) -> Iterator[str]:
        """Yield what the controller remembers, in the order of its ``memory``."""
        given = self.controller
        if self.kind == "code":
            yield from (f"controller_memory[{i}]" for i in range(self.code_memory))
        elif self.kind == "a PID":
            for name, gains in (("pid_integral", given.ki), ("pid_error", given.kd)):
                used = np.flatnonzero(np.any(gains != 0.0, axis=0))
                yield from (f"{state}{name}[{j}]" for j in used)
        elif self.inner is not None:
            yield from self.inner._memory(f"{state}{self.inside}")

    def _memory(self, state: str) -> Iterator[str]:
        """Yield what this level remembers, in the order of Loop.memory."""
        for k in range(self.spec.lags):
            yield from self._ring(state, "change", k, len(self.spec.changing))
        for k in range(self.spec.past_actions):
            yield from self._ring(state, "action", k, len(self.spec.low))
        yield from (f"{state}{self.integral}[{j}]" for j in range(len(self.spec.setpoints)))
        yield from self._controller_memory(state)

    def _ring(self, state: str, what: str, row: int, width: int) -> Iterator[str]:
        """Yield the numbers of a row of what is remembered, the newest being row 0."""
        size = self.macro({"change": "LAGS", "action": "PAST_ACTIONS"}[what])
        at = f"({state}newest_{what} + {row}) % {size}"
        yield from (f"{state}{what}s[{at}][{i}]" for i in range(width))
