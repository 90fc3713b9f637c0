"""What a certificate, or a study of a run, begins with: which run was read, and how."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from crosslearning.certificates.arguments import check_asked
from crosslearning.certificates.text import count, json_of, plain
from crosslearning.certificates.verification import Verification, verify_run
from crosslearning.statistics import CONFIDENCE


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A run as it was read, and the fresh samples that were drawn for it.

    Attributes
    ----------
    run, source : str
        The run's folder, and the file in it that was taken.
    finished : bool
        False if that is the newest checkpoint of a run that has not ended.
    iteration : int or None
    epsilon : float or None
    projection : str
    tasks : tuple of str
    samples, seed : int
        Fresh gradient samples per task, and the seed that they came from.
    confidence : float
        Of every interval.
    left_out : str
        Why what needs the learner is not here; empty if it is.
    """

    run: str
    source: str
    finished: bool
    iteration: int | None
    epsilon: float | None
    projection: str
    tasks: tuple[str, ...]
    samples: int
    seed: int
    confidence: float = CONFIDENCE
    left_out: str = ""

    @classmethod
    def of(cls, verification: Verification, samples: int, seed: int, **fields: Any) -> Self:
        """Return the reading of a run whose files were verified."""
        model = verification.model
        return cls(
            run=verification.run,
            source=verification.source,
            finished=verification.finished,
            iteration=None if model is None else model.iteration,
            epsilon=None if model is None else model.epsilon,
            projection=str(verification.settings.get("projection", "")),
            tasks=() if model is None else model.tasks,
            samples=samples,
            seed=seed,
            **fields,
        )

    @property
    def subtitle(self) -> str:
        """What was read, in a line; empty if nothing could be."""
        if self.iteration is None:
            return ""
        what = "finished" if self.finished else "not finished: its newest checkpoint"
        return (
            f"{self.source} at iteration {self.iteration} ({what}); "
            f"{count(len(self.tasks), 'task')}, ε = {self.epsilon:g}, {self.projection} projection"
        )

    def to_plain(self) -> dict[str, Any]:
        """Return everything as JSON can hold it, see :func:`text.plain`."""
        data: dict[str, Any] = plain(self)
        return data

    def to_json(self) -> str:
        """Return everything as JSON text."""
        return json_of(self.to_plain())


def verified(
    run: str | Path, alpha: float | None, samples: int, seed: int
) -> tuple[Verification, float | None]:
    """Check what is asked of a run, verify its files, and return α: as asked, or as the run was."""
    check_asked(samples=samples, seed=seed, **({} if alpha is None else {"alpha": alpha}))
    verification = verify_run(run)
    if alpha is None:
        try:
            alpha = float(verification.settings["alpha"])
            check_asked(alpha=alpha)
        except (KeyError, TypeError, ValueError):
            alpha = None
    return verification, alpha


def working(console: Console | None, what: str) -> AbstractContextManager[Any]:
    """Show that something is being done, on a terminal."""
    if console is None or not console.is_terminal or console.quiet:
        return nullcontext()
    return console.status(what)
