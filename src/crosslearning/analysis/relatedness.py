"""Relatedness: which tasks pull against the consensus, from the policies themselves.

The policies are points in function space, and a task unlike the others is a point far from the
rest. The score is a deleted studentised residual, the usual statistic for an outlier: the distance
from a task's policy to the mean of the others, relative to its expectation for a similar task,

    score_i² = ‖h_i − m₋ᵢ‖² / (s₋ᵢ² (1 + 1/(N−1))),

with m₋ᵢ the mean of the other policies and s₋ᵢ² their variance, Σ_{j≠i} ‖h_j − m₋ᵢ‖² / (N−2). It
has no unit and is about 1 for tasks that differ by chance alone. The task itself enters neither
mean nor variance. All of it comes from the Gram matrix of the policies.

The multipliers give the same picture as forces. At convergence the pulls μ_i (h_i − g) of the tasks
on the central policy sum to zero, so no task has more than half of the total pull; a single task
against all the others has just that half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crosslearning._base.plain_data import to_plain
from crosslearning._base.statistics import f_tail
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.rkhs import Family
from crosslearning.rkhs.checks import Floats
from crosslearning.runs import RunFolder
from crosslearning.runs.metrics import late_multipliers

#: A task stands apart if chance explains its score with at most this probability.
LEVEL = 0.05


@dataclass(frozen=True)
class TaskRelation:
    """How one task relates to the others."""

    task: str
    rank: int  #: 1 for the task with the largest score
    score: float  #: about 1 if it is like the others, infinite if only the others agree exactly
    chance: float  #: a bound of the probability of such a score, see :func:`chance_of_score`
    stands_apart: bool  #: whether ``chance`` is at most 5 %
    distance: float  #: ‖h_i − g‖
    distance_to_others: float  #: ‖h_i − m₋ᵢ‖, to the mean of the other policies
    agreement: float  #: the cosine of h_i − g with m₋ᵢ − g; 0 if one of them is zero
    multiplier: float | None  #: the mean of μ_i over the last part of the run, if known
    share_of_pull: float | None  #: μ_i ‖h_i − g‖ as a share of its sum, if known and positive
    sentence: str


@dataclass(frozen=True, eq=False)
class Relatedness:
    """Which tasks pull against the consensus.

    Attributes
    ----------
    tasks : tuple of TaskRelation
        In the order of the task set.
    epsilon : float
        The centrality radius of the run.
    distances : array, shape (N, N)
        ‖h_i − h_j‖.
    cosines : array, shape (N, N)
        Of h_i − g with h_j − g; 0 where one of the two is zero.
    places : array, shape (N + 1, 2)
        A map of the policies by classical scaling, the central policy last.
    map_share : float
        The share of the policies' variance in the map.
    """

    tasks: tuple[TaskRelation, ...]
    epsilon: float
    distances: Floats
    cosines: Floats
    places: Floats
    map_share: float

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names, in the order of the task set."""
        return tuple(task.task for task in self.tasks)

    @property
    def ranked(self) -> tuple[TaskRelation, ...]:
        """The tasks, the one that stands farthest apart first."""
        return tuple(sorted(self.tasks, key=lambda task: task.rank))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with null for numbers that are not finite."""
        places = zip((*self.names, "centre"), self.places, strict=True)
        plain: dict[str, Any] = to_plain({**vars(self), "map": dict(places)})
        del plain["places"]
        return plain


def relatedness(
    source: CrossLearner | RunFolder | str | Path, multipliers: ArrayLike | None = None
) -> Relatedness:
    """Return how the tasks of a trained family relate to one another.

    Parameters
    ----------
    source : CrossLearner, RunFolder, str or Path
        A learner, or a run (finished, or as far as it got).
    multipliers : array_like, shape (N,), optional
        The mean multiplier of every task. A run has them in its metrics; a learner in memory
        does not keep them.

    Raises
    ------
    InputError
        If there are fewer than three tasks, or all policies are one function, as for ε = 0.
    """
    folder = RunFolder.open(source) if isinstance(source, str | Path) else source
    learner = folder.load() if isinstance(folder, RunFolder) else folder
    names = [task.name for task in learner.tasks]
    if multipliers is None and isinstance(folder, RunFolder):
        multipliers = late_multipliers(folder.read_metrics(), names)
    return relatedness_of_family(learner.family, names, learner.settings.epsilon, multipliers)


def relatedness_of_family(
    family: Family,
    names: Sequence[str],
    epsilon: float = math.inf,
    multipliers: ArrayLike | None = None,
) -> Relatedness:
    """Return how the N functions of a family relate; the last function is the centre."""
    N = len(names)
    if family.functions != N + 1:
        raise InputError(
            f"{N} names for {family.functions} functions; give one fewer: the last is g"
        )
    if N < 3:
        reason = "of two that differ, neither is the odd one"
        raise InputError(f"relatedness needs at least three tasks, got {N}: {reason}")
    gram = family.differences()
    if not np.any(np.diag(gram) > 0.0):
        raise InputError(
            "all policies are the same function, as with epsilon = 0, so that the tasks cannot be "
            "distinguished; learn with a larger epsilon"
        )
    given = np.zeros(N) if multipliers is None else np.array(multipliers, dtype=np.float64)
    if given.shape != (N,) or not np.all(given >= 0.0):
        raise InputError(f"multipliers are {multipliers!r}; give {N} numbers of at least 0")
    known = multipliers is not None
    scores, to_others, ranks, agreements = separation(gram)
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))
    pulls = given * lengths if np.all(np.isfinite(given)) else np.zeros(N)
    # The larger distance first among equal scores, as where two policies agree exactly.
    order = np.lexsort((-to_others, -scores)).tolist()
    tasks = []
    for i, name in enumerate(names):
        chance = chance_of_score(scores[i], N, ranks[i])
        share = float(pulls[i] / pulls.sum()) if pulls.sum() > 0.0 else None
        tasks.append(
            TaskRelation(
                task=name,
                rank=order.index(i) + 1,
                score=float(scores[i]),
                chance=chance,
                stands_apart=chance <= LEVEL,
                distance=float(lengths[i]),
                distance_to_others=float(to_others[i]),
                agreement=float(agreements[i]),
                multiplier=float(given[i]) if known and math.isfinite(given[i]) else None,
                share_of_pull=share,
                sentence=_sentence(name, scores[i], chance, share),
            )
        )
    squares = np.diag(gram)[:, None] + np.diag(gram) - 2.0 * gram
    np.fill_diagonal(squares, 0.0)
    distances = np.sqrt(np.maximum(squares, 0.0))
    cosines = _cosines(gram, np.outer(lengths, lengths))
    return Relatedness(tuple(tasks), float(epsilon), distances, cosines, *classical_scaling(gram))


def separation(gram: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the scores, the distances to the others' mean, the ranks and the agreements, all (N,).

    ``gram``, shape (N, N) with N ≥ 3, has the inner products of the policies minus the centre. A
    rank is the effective number of directions in which the other policies differ, (Σλ)²/Σλ² for
    the eigenvalues λ of their covariance. An agreement is a cosine with the others' mean.
    """
    N = len(gram)
    scores, distances, ranks, agreements = np.empty((4, N))
    for i in range(N):
        others = np.arange(N) != i
        mean = np.where(others, 1.0 / (N - 1), 0.0)
        towards = np.eye(N)[i] - mean
        distances[i] = math.sqrt(max(0.0, float(towards @ gram @ towards)))
        length = np.sqrt(np.maximum(gram[i, i] * (mean @ gram @ mean), 0.0))
        agreements[i] = _cosines(gram[i] @ mean, length)
        centred = np.eye(N)[others] - mean
        covariance = centred @ gram @ centred.T
        total, square = float(np.trace(covariance)), float(np.sum(covariance**2))
        ranks[i] = total**2 / square if square > 0.0 else 1.0
        scale = total / (N - 2) * (1.0 + 1.0 / (N - 1))
        if scale > 0.0:
            scores[i] = distances[i] / math.sqrt(scale)
        else:
            scores[i] = math.inf if distances[i] > 0.0 else 0.0
    return scores, distances, np.clip(ranks, 1.0, N - 2.0), agreements


def chance_of_score(score: float, tasks: int, rank: float) -> float:
    """Return the probability that any of N ≥ 3 similar tasks has such a score.

    For policies from one Gaussian whose covariance has r equal directions the squared score is
    F(r, r(N−2)). The factor N is Bonferroni's: the task was not named beforehand.
    """
    if math.isinf(score):
        return 0.0
    return min(1.0, tasks * f_tail(score**2, rank, rank * (tasks - 2)))


def classical_scaling(gram: Floats) -> tuple[Floats, float]:
    """Return a map of N functions and their centre in the plane, and its share of variance.

    ``gram``, shape (N, N), has the inner products of the functions minus the centre. The places,
    shape (N + 1, 2), have the centre last, at the origin.
    """
    N = len(gram)
    padded = np.zeros((N + 1, N + 1))
    padded[:N, :N] = gram
    centring = np.eye(N + 1) - 1.0 / (N + 1)
    values, vectors = np.linalg.eigh(centring @ padded @ centring)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    # The sign of an eigenvector is arbitrary; the largest entry is made positive.
    largest = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(N + 1)])
    places = vectors[:, :2] * np.sqrt(values[:2])
    total = float(values.sum())
    return places - places[-1], float(values[:2].sum() / total) if total > 0.0 else 1.0


def _cosines(products: Floats, lengths: Floats) -> Floats:
    """Return inner products over the products of lengths; 0 where a length is zero."""
    cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0.0)
    return np.asarray(np.clip(cosines, -1.0, 1.0))


def _sentence(name: str, score: float, chance: float, share: float | None) -> str:
    pull = "" if share is None else f"; it has {100 * share:.0f} % of the pull on the centre"
    if math.isinf(score):
        return f"{name} stands apart: the others agree exactly and it does not{pull}."
    apart = f"{score:.1f} times as far from the others as one of their kind would be"
    if chance <= LEVEL:
        # The Gaussian assumption does not hold far out in the tail.
        small = "below 0.001" if chance < 1e-3 else f"{chance:.2g}"
        return f"{name} stands apart: {apart} (chance {small}){pull}."
    return f"{name} does not stand apart: {apart} (chance {chance:.2f}){pull}."
