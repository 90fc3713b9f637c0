"""The constants that the convergence theorem is made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner

Floats = NDArray[np.float64]


class Interval(Protocol):
    """A number with an interval, such as :class:`crosslearning.evaluation.Interval`."""

    @property
    def value(self) -> float:
        """The number."""

    @property
    def high(self) -> float:
        """The upper end."""


class EstimatedConstants(Protocol):
    """One task's constants, each with an interval."""

    @property
    def deviation(self) -> Interval:
        """σ."""

    @property
    def gradient_norm(self) -> Interval:
        """μ."""

    @property
    def second_moment(self) -> Interval:
        """B."""

    @property
    def lipschitz(self) -> Interval:
        """L."""


@dataclass(frozen=True, eq=False)
class Constants:
    """The constants of the theorem's assumptions, and the settings that enter it.

    Attributes
    ----------
    deviation : array, shape (N,)
        σ_i: E‖X − ∇U_i‖² ≤ σ_i² for ONE sample X of the gradient.
    gradient_norm : array, shape (N,)
        μ_i: ‖∇U_i‖ ≤ μ_i.
    second_moment : array, shape (N,)
        B_i: E‖∇̂_i‖² ≤ B_i² for the average of a batch. Only the printed formulas use it.
    lipschitz : array, shape (N,)
        L_i: ‖∇U_i(f) − ∇U_i(f')‖ ≤ L_i ‖f − f'‖.
    batch_size : int
        b: the samples in a batch.
    epsilon : float
        The centrality radius ε.
    step_size : float
        η: by what a gradient is multiplied in a step.
    budget : float
        The pruning budget β: how far pruning may move a policy in one iteration.
    projection : {"exact", "relaxed"}

    Notes
    -----
    In the theory the constants hold wherever the iterates may come. Estimates at a trained
    family are local: read what follows from them as if they held elsewhere too.
    """

    deviation: Floats
    gradient_norm: Floats
    second_moment: Floats
    lipschitz: Floats
    batch_size: int
    epsilon: float
    step_size: float
    budget: float
    projection: Literal["exact", "relaxed"] = "exact"

    def __post_init__(self) -> None:
        for name in ("deviation", "gradient_norm", "second_moment", "lipschitz"):
            values = np.array(getattr(self, name), dtype=np.float64)
            if (
                values.ndim != 1
                or values.size == 0
                or not np.all((values >= 0) & (values < np.inf))
            ):
                raise InputError(
                    f"{name} is {getattr(self, name)!r}; give one finite number of at least 0 for "
                    "each task"
                )
            if values.shape != np.shape(self.deviation):
                raise InputError(
                    f"{name} has {values.size} numbers and deviation {np.size(self.deviation)}; "
                    "give one for each task"
                )
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        if isinstance(self.batch_size, bool) or not self.batch_size >= 1:
            raise InputError(f"batch_size must be at least 1, got {self.batch_size!r}")
        if not self.epsilon >= 0:
            raise InputError(f"epsilon must be at least 0 (inf allowed), got {self.epsilon!r}")
        if not 0 < self.step_size < math.inf:
            raise InputError(f"step_size must be positive and finite, got {self.step_size!r}")
        if not 0 <= self.budget < math.inf:
            raise InputError(f"budget must be finite and at least 0, got {self.budget!r}")
        if self.projection not in ("exact", "relaxed"):
            raise InputError(f"projection must be exact or relaxed, got {self.projection!r}")

    @classmethod
    def from_estimates(
        cls,
        estimates: Sequence[EstimatedConstants],
        *,
        batch_size: int,
        epsilon: float,
        step_size: float,
        budget: float,
        projection: Literal["exact", "relaxed"] = "exact",
        cautious: bool = True,
    ) -> Constants:
        """Return the constants of estimates, task by task.

        Parameters
        ----------
        estimates : sequence
            One for each task, with intervals.
        batch_size, epsilon, step_size, budget, projection
            As in the class.
        cautious : bool
            Take the upper ends of the intervals: larger constants promise less. Else the
            estimates themselves.
        """

        def column(name: str) -> Floats:
            intervals = [getattr(estimate, name) for estimate in estimates]
            return np.array([i.high if cautious else i.value for i in intervals])

        return cls(
            deviation=column("deviation"),
            gradient_norm=column("gradient_norm"),
            second_moment=column("second_moment"),
            lipschitz=column("lipschitz"),
            batch_size=batch_size,
            epsilon=epsilon,
            step_size=step_size,
            budget=budget,
            projection=projection,
        )

    @property
    def tasks(self) -> int:
        """N."""
        return len(self.deviation)

    @property
    def smoothness(self) -> float:
        """L, the largest of the L_i."""
        return float(np.max(self.lipschitz))

    @property
    def noise(self) -> float:
        """S: E‖∇̂F − ∇F‖² ≤ S² = Σ σ_i²/b, for all tasks' gradients as one vector."""
        return float(np.linalg.norm(self.deviation)) / math.sqrt(self.batch_size)

    @property
    def reach(self) -> float:
        """D: no policy can move further than this with the others and the centre held.

        2ε for the exact projection. The relaxed one bounds the mean square, so a single policy
        may have all of Nε² to itself: 2√N ε.
        """
        share = 1.0 if self.projection == "exact" else math.sqrt(self.tasks)
        return 2.0 * share * self.epsilon

    @property
    def largest_gap(self) -> float:
        """D · max μ_i: no policy's stationarity gap can be larger."""
        top = float(np.max(self.gradient_norm))
        return self.reach * top if top > 0.0 else 0.0

    def replace(self, **changes: object) -> Constants:
        """Return a copy with some numbers changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def weighted(self, steps: ArrayLike) -> Constants:
        """Return the constants of a run whose tasks have steps of different sizes.

        A step of η_i ∇̂_i for task i is a step of one size η = max η_i along the gradient of
        Σ w_i U_i with w_i = η_i/η. So the theorem holds for that weighted sum, whose gap for
        task i is w_i times as large: ask it for min(w_i) · α.

        Parameters
        ----------
        steps : array_like, shape (N,)
            The η_i, positive.
        """
        lengths = np.array(steps, dtype=np.float64)
        if lengths.shape != self.deviation.shape or not np.all((lengths > 0) & (lengths < np.inf)):
            raise InputError(f"steps is {steps!r}; give a positive number for each task")
        weights = lengths / np.max(lengths)
        return self.replace(
            deviation=self.deviation * weights,
            gradient_norm=self.gradient_norm * weights,
            second_moment=self.second_moment * weights,
            lipschitz=self.lipschitz * weights,
            step_size=float(np.max(lengths)),
        )


def effective_step(learner: CrossLearner) -> Floats:
    """Return the η_i of a learner's last iteration, shape (N,).

    With the constant rule that is its ``step_size``. The other rules divide it by the running
    root mean square of the gradient's norm, and that quotient is what the theory calls η.
    """
    if learner.iteration == 0:
        raise InputError("this learner has made no iteration yet; call learn first")
    return learner.step_lengths
