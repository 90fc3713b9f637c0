"""The stages of a path of radii."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from crosslearning.errors import InputError, unknown_name

#: Where a stage starts.
Origin = Literal["previous", "common", "zero"]


@dataclass(frozen=True)
class Stage:
    """One run of a path."""

    name: str
    epsilon: float
    iterations: int
    start: str | None  #: the stage from whose family it starts; None: from zero
    changes: dict[str, Any]  #: the settings in which it differs
    measured: bool = True  #: not if it only serves as a start


@dataclass(frozen=True)
class EpsilonPath:
    """Radii, and how families are learned along them."""

    epsilons: tuple[float, ...]  #: in ascending order, such as ``(0, 0.5, 1)`` or ``"0,0.5,1,inf"``
    iterations: int  #: of the first stage
    stage_iterations: int  #: of every later one
    #: Where a stage starts: from the one before; from one run at the smallest radius that all of
    #: them share; or from zero, with the iterations of the first.
    origin: Origin = "previous"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilons", read_epsilons(self.epsilons))
        for name in ("iterations", "stage_iterations"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.origin not in get_args(Origin):
            raise unknown_name("origin", self.origin, get_args(Origin))

    def stages(self, settings: Any, seed: int) -> list[Stage]:
        """Return the stages of one seed's path in order; ``settings`` are the learner's."""
        first, before = {"seed": seed}, None
        stages = []
        if self.origin == "common":
            stages = [Stage("start", self.epsilons[0], self.iterations, None, first, False)]
        for number, epsilon in enumerate(self.epsilons):
            name = f"epsilon-{epsilon_name(epsilon)}"
            start = {"previous": before, "common": "start", "zero": None}[self.origin]
            iterations, changes = self.iterations, first
            if start is not None:
                # From a common origin the stages differ in their radius alone.
                draw = number if self.origin == "previous" else 1
                iterations, changes = self.stage_iterations, self._later(settings, seed, draw)
            stages.append(Stage(name, epsilon, iterations, start, changes))
            before = name
        return stages

    def _later(self, settings: Any, seed: int, draw: int) -> dict[str, Any]:
        """Return the seed and the step of a stage that does not start from zero.

        With η_K = η/√(1 + K/d) and d_K = d + K its step η_K/√(1 + k/d_K) is the η/√(1 + (K + k)/d)
        of a run that never stopped after K iterations. ``draw`` numbers the random streams.
        """
        stream = int(np.random.SeedSequence([seed, draw]).generate_state(1)[0])
        if getattr(settings, "step_rule", None) != "decaying":
            return {"seed": stream}
        d, K = settings.step_decay, self.iterations
        size = settings.step_size / math.sqrt(1.0 + K / d)
        return {"seed": stream, "step_size": size, "step_decay": d + K}

    def learned(self, number: int) -> int:
        """Return the iterations that the policies at a radius have learned for."""
        later = {"previous": number, "common": 1, "zero": 0}[self.origin]
        return self.iterations + later * self.stage_iterations


def read_epsilons(given: str | Iterable[Any]) -> tuple[float, ...]:
    """Return radii such as ``"0,0.5,1,inf"``: at least 0, in ascending order, none twice."""
    parts = given.split(",") if isinstance(given, str) else list(given)
    try:
        # A negative zero would get another name.
        epsilons = tuple(float(part) + 0.0 for part in parts)
    except (TypeError, ValueError) as problem:
        text = f"epsilons are {given!r}; give numbers with commas, such as 0,0.5,1,inf"
        raise InputError(text) from problem
    if not epsilons:
        raise InputError("no epsilons were given; give at least one, such as 0,0.5,1,inf")
    for epsilon in epsilons:
        if not epsilon >= 0.0:
            raise InputError(f"epsilons must be at least 0 (inf allowed), got {epsilon:g}")
    for before, after in itertools.pairwise(epsilons):
        if before >= after:
            raise InputError(
                f"epsilons must ascend, because every stage starts from the one before, and each "
                f"be given once; got {after:g} after {before:g}"
            )
    return epsilons


def plain_epsilon(value: Any) -> Any:
    """Return a number for JSON: infinity as a string."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def epsilon_name(epsilon: float) -> str:
    """Return a radius as short text that reads back to the same number."""
    short = f"{epsilon:g}"
    return short if float(short) == epsilon else repr(epsilon)
