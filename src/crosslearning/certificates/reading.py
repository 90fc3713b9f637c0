"""The beginning of a certificate or of a study of the theorem: its options, and the run read."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from crosslearning._base.files import guard
from crosslearning._base.statistics import CONFIDENCE
from crosslearning.certificates.text import plain
from crosslearning.certificates.verification import Verification, verify_run
from crosslearning.errors import InputError, visible

#: Squares of numbers between these neither overflow nor underflow.
_LEAST, _MOST = 1e-70, 1e70
_WHOLE = {"looks": 1, "samples": 2, "seed": 0}
_EXPECTED = {
    "epsilon": f"at least 0 (inf allowed) and not beyond {_MOST:g} or {_LEAST:g}",
    "alpha": f"positive and finite, from {_LEAST:g} to {_MOST:g}",
    "alpha_prime": "finite and above alpha = {}: what is promised is worse than what is tested",
    "delta": f"between 0 and 1, at least {_LEAST:g} (0.05 is common)",
    "rise": "finite and at least 0: how much the sum of the returns can still grow, sup F − F(h⁰)",
    "batch_size": "at least 1",
    "step_size": "positive and finite",
    "budget": "finite and at least 0",
    **{name: f"a whole number of at least {least}" for name, least in _WHOLE.items()},
}


def check_asked(**asked: float) -> None:
    """Raise InputError for an option out of its range; ``alpha_prime`` must exceed ``alpha``."""
    alpha = asked.get("alpha", 0.0)
    for name, value in asked.items():
        usual = _LEAST <= value <= _MOST
        fine = {
            "epsilon": usual or value in (0.0, math.inf),
            "alpha": usual,
            "alpha_prime": alpha < value < math.inf,
            "delta": usual and value < 1.0,
            "rise": 0.0 <= value < math.inf,
            "batch_size": value >= 1 and not isinstance(value, bool),
            "step_size": 0.0 < value < math.inf,
            "budget": 0.0 <= value < math.inf,
        }
        if name in _WHOLE:
            fine[name] = not isinstance(value, bool) and value % 1 == 0 and value >= _WHOLE[name]
        if not fine[name]:
            raise InputError(f"{name} must be {_EXPECTED[name].format(alpha)}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The run that was read, and the fresh samples that were drawn for it."""

    run: str  #: the run's folder
    source: str  #: the file in it that was read
    finished: bool  #: false if that is the newest checkpoint of an unfinished run
    iteration: int | None
    epsilon: float | None
    projection: str
    tasks: tuple[str, ...]
    samples: int  #: fresh gradient samples per task
    seed: int  #: that they came from
    confidence: float = CONFIDENCE  #: of every interval
    left_out: str = ""  #: why the measurements are missing; empty if they are not

    @classmethod
    def of(cls, verification: Verification, samples: int, seed: int, **fields: Any) -> Self:
        """Return the reading of a run whose files were verified."""
        model = verification.model
        return cls(
            run=visible(verification.run),
            source=visible(verification.source),
            finished=verification.finished,
            iteration=None if model is None else model.iteration,
            epsilon=None if model is None else model.epsilon,
            projection=visible(verification.settings.get("projection", ""), 100),
            tasks=() if model is None else model.tasks,
            samples=samples,
            seed=seed,
            **fields,
        )

    @property
    def subtitle(self) -> str:
        """The run in one line; empty if it could not be read."""
        if self.iteration is None:
            return ""
        what = "finished" if self.finished else "not finished: its newest checkpoint"
        tasks = "1 task" if len(self.tasks) == 1 else f"{len(self.tasks)} tasks"
        place = f"{self.source} at iteration {self.iteration} ({what})"
        return f"{place}; {tasks}, ε = {self.epsilon:g}, {self.projection} projection"

    def to_plain(self) -> dict[str, Any]:
        """Return everything as JSON can hold it, see :func:`text.plain`."""
        return dict(plain(self))

    def to_json(self) -> str:
        """Return everything as JSON text."""
        return json.dumps(self.to_plain(), indent=2, ensure_ascii=False, allow_nan=False)


def verified(
    run: str | Path, alpha: float | None, samples: int, seed: int
) -> tuple[Verification, float | None]:
    """Check the options, verify a run's files, and return α: as given, or of the run's settings."""
    check_asked(samples=samples, seed=seed, **({} if alpha is None else {"alpha": alpha}))
    guard(Path(run))  # results are written beside the files, and through no link
    verification = verify_run(run)
    if alpha is None:
        try:
            alpha = float(verification.settings["alpha"])
            check_asked(alpha=alpha)
        except (KeyError, TypeError, ValueError):
            alpha = None
    return verification, alpha


def working(console: Console | None, what: str) -> AbstractContextManager[Any]:
    """Show a status on a terminal."""
    if console is None or not console.is_terminal or console.quiet:
        return nullcontext()
    return console.status(what)
