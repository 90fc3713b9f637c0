"""The constants that the convergence theorem is made of: what its assumptions bound."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.certificates.reading import check_asked
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.reproduction.theorem.estimates import EstimatedConstants

Floats = NDArray[np.float64]

#: The bounds that there are for each task.
_BOUNDS = ("deviation", "gradient_norm", "second_moment", "lipschitz")


@dataclass(frozen=True, eq=False)
class Constants:
    """The constants of the theorem's assumptions, and the settings that enter it.

    The arrays have one number for each task, shape (N,). Only the printed formulas use B.
    """

    deviation: Floats  #: σ_i: E‖X − ∇U_i‖² ≤ σ_i² for ONE sample X of the gradient
    gradient_norm: Floats  #: μ_i: ‖∇U_i‖ ≤ μ_i
    second_moment: Floats  #: B_i: E‖∇̂_i‖² ≤ B_i² for the average of a batch
    lipschitz: Floats  #: L_i: ‖∇U_i(f) − ∇U_i(f')‖ ≤ L_i ‖f − f'‖
    batch_size: int  #: b: the samples in a batch
    epsilon: float  #: the centrality radius ε
    step_size: float  #: η: by what a gradient is multiplied in a step
    budget: float  #: β: how far pruning may move a policy in one iteration
    projection: Literal["exact", "relaxed"] = "exact"

    def __post_init__(self) -> None:
        for name in _BOUNDS:
            given = getattr(self, name)
            values = np.array(given, dtype=np.float64)
            fine = np.all((values >= 0) & (values < np.inf))
            if values.ndim != 1 or values.size == 0 or not fine:
                raise InputError(
                    f"{name} is {given!r}; give one finite number of at least 0 for each task"
                )
            if values.shape != np.shape(self.deviation):
                raise InputError(
                    f"{name} has {values.size} numbers and deviation {np.size(self.deviation)}; "
                    "give one for each task"
                )
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        check_asked(batch_size=self.batch_size, epsilon=self.epsilon)
        check_asked(step_size=self.step_size, budget=self.budget)
        if self.projection not in ("exact", "relaxed"):
            raise InputError(f"projection must be exact or relaxed, got {self.projection!r}")

    @classmethod
    def from_estimates(
        cls, learner: CrossLearner, estimates: Sequence[EstimatedConstants], cautious: bool = True
    ) -> Constants:
        """Return the constants of a trained learner, from the estimates of each task.

        The upper ends of the intervals are taken, because larger constants promise less; without
        caution the estimates themselves. The settings are the learner's: of its step sizes the
        largest, see :meth:`weighted`; a budget without end counts as 0, because then nothing
        says how far pruning goes.
        """
        settings, end = learner.settings, "high" if cautious else "value"
        return cls(
            **{
                name: np.array([getattr(getattr(task, name), end) for task in estimates])
                for name in _BOUNDS
            },
            batch_size=learner.method.sampling.batch_size,
            epsilon=settings.epsilon,
            step_size=float(np.max(effective_step_sizes(learner))),
            budget=settings.budget if math.isfinite(settings.budget) else 0.0,
            projection=settings.projection,
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
        """D: no policy can move further than this with the others and the centre held."""
        # The relaxed projection bounds the mean square: one policy may have all of Nε² to itself.
        share = 1.0 if self.projection == "exact" else math.sqrt(self.tasks)
        return 2.0 * share * self.epsilon

    @property
    def largest_gap(self) -> float:
        """D · max μ_i: no policy's stationarity gap can be larger."""
        return self.across(float(np.max(self.gradient_norm)))

    @property
    def largest_deviation(self) -> float:
        """D · max σ_i: what bounds the root mean square error of a gap from one sample."""
        return self.across(float(np.max(self.deviation)))

    def across(self, size: float) -> float:
        """Return D times the size of a gradient; nothing where that is, however large D is."""
        return self.reach * size if size > 0.0 else 0.0

    def replace(self, **changes: object) -> Constants:
        """Return a copy with some numbers changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def weighted(self, step_sizes: ArrayLike) -> Constants:
        """Return the constants of a run whose tasks have steps of different sizes η_i, shape (N,).

        They are those of Σ w_i U_i with w_i = η_i/max η: ask the theorem for min(w_i) · α.
        """
        sizes = np.array(step_sizes, dtype=np.float64)
        if sizes.shape != self.deviation.shape or not np.all((sizes > 0) & (sizes < np.inf)):
            raise InputError(f"step_sizes is {step_sizes!r}; give a positive number for each task")
        largest = float(np.max(sizes))
        changes = {name: getattr(self, name) * (sizes / largest) for name in _BOUNDS}
        return self.replace(**changes, step_size=largest)


def effective_step_sizes(learner: CrossLearner) -> Floats:
    """Return the η_i of a learner's last iteration, which multiplied its gradients, shape (N,)."""
    if learner.iteration == 0:
        raise InputError("this learner has made no iteration yet; call learn first")
    return np.asarray(learner.method.step_sizes(learner.iteration))  # type: ignore[attr-defined]
