"""Evaluation during learning, which keeps the best policies and does not change what is learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from crosslearning.errors import InputError, unknown_name
from crosslearning.learner import CrossLearner, IterationReport, Policy
from crosslearning.learner.evaluation import EpisodeOptions, Evaluation, evaluate
from crosslearning.learner.user_input import Length
from crosslearning.rkhs import Family
from crosslearning.rkhs.checks import count
from crosslearning.tasks import Task

#: Episodes of each task in an evaluation, by default.
TRIALS = 20
#: Seed of the starts. Other evaluations use 0: on the starts that selected them the best policies
#: look better than they are.
SEED = 1


@dataclass(frozen=True)
class CurvePoint:
    """One evaluation during learning."""

    iteration: int  #: iterations of learning so far
    steps: int  #: environment steps of learning so far
    mean_return: float  #: mean over the tasks of the returns that select the best policies
    results: tuple[Evaluation, ...]  #: task by task

    def to_plain(self) -> dict[str, Any]:
        """Return plain data for JSON, with None for unknown numbers."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(asdict(self)))
        return plain


class EvaluationCallback:
    """Evaluates a learner regularly while it learns, and keeps its best policies.

    Parameters
    ----------
    learner : CrossLearner
        Pass the callback to its ``learn``.
    every : int
        Iterations, or environment steps, between two evaluations.
    unit : {"iterations", "steps"}
        The unit of ``every``. Steps of evaluations do not count.
    tasks : sequence of Task, optional
        The tasks of the evaluation; by default the learner's.
    policies : {"tasks", "central"}
        Evaluate each task's policy on its task, or the central policy on all tasks.
    by : {"discounted_return", "total_return"}
        The return whose mean over the tasks selects the best policies.
    path : str or Path, optional
        A file for the learner with the best policies, which ``CrossLearner.load`` reads.
    **options
        Of the episodes; see :class:`crosslearning.learner.evaluation.EpisodeOptions`. By default
        20 ``trials`` a task, and the ``seed`` 1, which no other evaluation has by default.

    Attributes
    ----------
    curve : list of CurvePoint
        All evaluations.
    best : CurvePoint or None
        The evaluation with the highest mean return.
    best_family : Family or None
        Its policies, h_1 … h_N and g.
    best_policies : tuple of Policy
        The same as policies, in the same order.

    Examples
    --------
    >>> from crosslearning import CrossLearner, EvaluationCallback
    >>> learner = CrossLearner("linear-quadratic", max_knots=20)
    >>> watch = EvaluationCallback(learner, every=10, trials=5)
    >>> learner = learner.learn(30, callback=watch)
    >>> [point.iteration for point in watch.curve]
    [10, 20, 30]
    """

    def __init__(
        self,
        learner: CrossLearner,
        every: int,
        *,
        unit: Literal["iterations", "steps"] = "iterations",
        tasks: Sequence[Task] | None = None,
        policies: Literal["tasks", "central"] = "tasks",
        by: Literal["discounted_return", "total_return"] = "discounted_return",
        path: str | Path | None = None,
        **options: Any,
    ) -> None:
        for name, value, known in (
            ("unit", unit, ("iterations", "steps")),
            ("choice of policies", policies, ("tasks", "central")),
            ("return", by, ("discounted_return", "total_return")),
        ):
            if value not in known:
                raise unknown_name(name, str(value), known)
        self.learner, self.tasks = learner, tuple(learner.tasks if tasks is None else tasks)
        names = [task.name for task in learner.tasks]
        others = [task.name for task in self.tasks if task.name not in names]
        if others and policies == "tasks":
            raise InputError(
                f"{', '.join(others)} are not among the learner's tasks, so that they have no "
                "policies of their own; choose policies='central'"
            )
        self._every, self._policies, self._by = Length(unit, count("every", every)), policies, by
        self._options = asdict(EpisodeOptions.of(options, trials=TRIALS, seed=SEED))
        self._path = path
        self.curve: list[CurvePoint] = []
        self.best: CurvePoint | None = None
        self.best_family: Family | None = None
        self.best_policies: tuple[Policy, ...] = ()
        #: The return to surpass, which an earlier curve may have set.
        self.best_return = -math.inf

    def __call__(self, report: IterationReport) -> None:
        """Evaluate, if this iteration completed another ``every``."""
        now, every = self._every.made(self.learner), self._every.amount
        added = 1
        if self._every.unit == "steps":
            added = report.steps + (0 if report.check is None else report.check.steps)
        # It depends on the counts alone, so that a resumed learner evaluates alike.
        if now // every > (now - added) // every:
            self.evaluate()

    def evaluate(self) -> CurvePoint:
        """Evaluate now; return the new point of the curve."""
        learner, results = self.learner, list[Evaluation]()
        for task in self.tasks:
            central = self._policies == "central"
            policy = learner.central if central else learner.policy(task.name)
            results += evaluate(policy, task, **self._options)
        mean = float(np.mean([getattr(result, self._by).value for result in results]))
        point = CurvePoint(learner.iteration, learner.steps, mean, tuple(results))
        self.curve.append(point)
        if mean > self.best_return:
            if self._path is not None:
                learner.save(self._path)
            self.best, self.best_return, self.best_family = point, mean, learner.family
            policies = (learner.policy(number) for number in range(len(learner.tasks)))
            self.best_policies = (*policies, learner.central)
        return point
