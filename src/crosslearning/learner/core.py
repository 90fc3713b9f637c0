"""Algorithm 2: one iteration at a time, with no files and no progress bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.compiled import FunctionPointer, compiled
from crosslearning.errors import InputError
from crosslearning.gradients import Gradients, estimator_of
from crosslearning.gradients.sampling import Sampling
from crosslearning.learner.report import IterationReport
from crosslearning.learner.settings import LearnerSettings
from crosslearning.learner.steps import StepRule
from crosslearning.rkhs import Dictionary, Family, Kernel
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts import Executor, plan_samples
from crosslearning.tasks import Task

Floats = NDArray[np.float64]


class Core:
    """The iterate of Algorithm 2 and the step that moves it.

    The dictionary holds h_1 … h_N, then g, then, for rules with momentum, one direction per
    task. The budget guards the policies, not the directions.

    Parameters
    ----------
    tasks : sequence of Task
    kernel : Kernel
    settings : LearnerSettings
    executor : Executor
        Runs the rollouts.
    """

    def __init__(
        self, tasks: Sequence[Task], kernel: Kernel, settings: LearnerSettings, executor: Executor
    ) -> None:
        self.tasks = tuple(tasks)
        self.settings = settings
        self.executor = executor
        self.estimator = estimator_of(settings.estimator)
        N, p = len(self.tasks), self.tasks[0].action_space.shape[0]
        self.variance = action_variance(settings, p)
        self.rule = StepRule(settings, np.zeros(N))
        directions = N if self.rule.momentum else 0
        # Algorithm 2, line 1: all functions are zero.
        self.dictionary = Dictionary(kernel, N + 1 + directions, p, guarded=N + 1)
        self.generator = np.random.default_rng(settings.seed)
        self.iteration = 0
        self.steps = 0

    @property
    def family(self) -> Family:
        """The policies h_1 … h_N and g, as a value."""
        return self.dictionary.family(len(self.tasks) + 1)

    @property
    def sampling(self) -> Sampling:
        """How gradients are sampled outside of iterations."""
        settings = self.settings
        return Sampling(
            tasks=self.tasks,
            executor=self.executor,
            estimator=self.estimator,
            kernel=self.dictionary.kernel,
            variance=self.variance,
            discount=settings.discount,
            batch_size=settings.batch_size,
        )

    def step(self) -> IterationReport:
        """Make one iteration of Algorithm 2 (lines 3 to 7)."""
        settings = self.settings
        # Lines 3 to 5: a gradient estimate for every task, by Algorithm 1.
        plan = plan_samples(self.generator, self.tasks, settings.batch_size, settings.discount)
        samples = self.executor.samples(self.dictionary.expansion, plan, self.estimator.mirrored)
        gradients = self.estimator.estimate(samples, self.variance, settings.discount)
        squared_norms, towards = gradient_geometry(self.dictionary.expansion, gradients)
        norms = np.sqrt(squared_norms)
        gaps = self._gaps(towards, norms)
        # Line 6: move along the gradients, then project.
        lengths = self.rule.lengths(self.iteration, squared_norms)
        clips = self.rule.clips(self.iteration, squared_norms)
        self._ascend(gradients.knots, gradients.weights * clips[:, None, None], lengths)
        projection = self.dictionary.project(settings.epsilon, settings.projection)
        # Line 7: CDKOMP.
        pruning = self.dictionary.prune(settings.budget, settings.max_knots)
        self.iteration += 1
        self.steps += int(samples.steps.sum())
        return IterationReport(
            iteration=self.iteration,
            returns=samples.returns.mean(axis=1),
            gradient_norms=norms,
            gaps=gaps,
            distances=projection.distances,
            projection=projection,
            pruning=pruning,
            steps=int(samples.steps.sum()),
        )

    def distances(self) -> Floats:
        """Return ‖h_i − g‖, shape (N,), in the dictionary's geometry."""
        return np.sqrt(np.maximum(np.diag(self.dictionary.differences()), 0.0))

    def radii(self) -> Floats:
        """Return how far from g each policy may be while g and the others stay, shape (N,).

        ε; or, if the projection is the relaxed one, what the others leave of Nε².
        """
        N, epsilon = len(self.tasks), self.settings.epsilon
        if self.settings.projection == "relaxed" and math.isfinite(epsilon):
            squares = self.distances() ** 2
            left = N * epsilon**2 - (squares.sum() - squares)
            return np.asarray(np.sqrt(np.maximum(left, 0.0)))
        return np.full(N, epsilon)

    def _gaps(self, towards: Floats, norms: Floats) -> Floats:
        """Return max ⟨∇̂_i, h − h_i⟩ over the feasible h, in closed form (line 8).

        The maximum over a ball around g is ⟨∇̂_i, g − h_i⟩ + radius · ‖∇̂_i‖.
        """
        N, radius = len(self.tasks), self.radii()
        # 0 · ∞: where the gradient is zero nothing can be gained.
        reach = np.multiply(radius, norms, out=np.zeros(N), where=norms > 0.0)
        return np.asarray(towards + reach)

    def _ascend(self, knots: Floats, directions: Floats, lengths: Floats) -> None:
        """Add each task's step to its policy: h̄_i = h_i + η_i ∇̂_i, or along its momentum."""
        N, B, q = knots.shape
        F, keep = self.dictionary.functions, self.rule.momentum
        weights = np.zeros((N, B, F, directions.shape[2]))
        if keep:
            decay = np.eye(F)
            decay[N + 1 :, N + 1 :] *= keep
            self.dictionary.mix(decay)
        for i in range(N):
            if keep:
                weights[i, :, N + 1 + i] = (1.0 - keep) * directions[i]
            else:
                weights[i, :, i] = lengths[i] * directions[i]
        self.dictionary.extend(knots.reshape(N * B, q), weights.reshape(N * B, F, -1))
        if keep:
            ascent = np.eye(F)
            ascent[np.arange(N), N + 1 + np.arange(N)] = lengths
            self.dictionary.mix(ascent)


def action_variance(settings: LearnerSettings, outputs: int) -> Floats:
    """Return the diagonal of Σ, shape (p,)."""
    given = settings.action_variance
    if len(given) not in (1, outputs):
        raise InputError(
            f"action_variance has {len(given)} numbers, but the tasks have {outputs} actions; "
            "give one number, or one for each action"
        )
    return np.array(given * outputs if len(given) == 1 else given, dtype=np.float64)


def gradient_geometry(policies: Expansion, gradients: Gradients) -> tuple[Floats, Floats]:
    """Return ‖∇̂_i‖² and ⟨∇̂_i, g − h_i⟩, each of shape (N,); g is function N."""
    squares, towards = np.empty((2, len(gradients.knots)))
    _fill_geometry(
        *policies.program, policies.features, policies.rows, *gradients, squares, towards
    )
    return squares, towards


@compiled
def _fill_geometry(
    terms: Any,
    term_values: Floats,
    factors: Any,
    biases: Floats,
    pair: FunctionPointer,
    features: Floats,
    rows: Floats,
    knots: Floats,
    weights: Floats,
    squares: Floats,
    towards: Floats,
) -> None:
    """Fill the inner products of gradients Σ_b κ(knots[i, b], ·) weights[i, b].

    With itself by the double sum; with g − h_i by the reproducing property, through the
    functions' values at the knots.
    """
    program = programs.KernelProgram(terms, term_values, factors, biases, pair)
    N, B, p = weights.shape
    own, gram = np.empty((features.shape[0], B)), np.empty((B, B))
    columns = np.empty((B, features.shape[1]))
    centre, value = np.empty(p), np.empty(p)
    for i in range(N):
        programs.embed_all(program, knots[i], own)
        programs.kernel_columns(program, own, own, gram)
        programs.kernel_columns(program, features, own, columns)
        square = toward = 0.0
        for a in range(B):
            programs.weigh(columns[a], rows[N], centre)
            programs.weigh(columns[a], rows[i], value)
            for k in range(p):
                toward += weights[i, a, k] * (centre[k] - value[k])
                for b in range(B):
                    square += gram[a, b] * weights[i, a, k] * weights[i, b, k]
        squares[i], towards[i] = max(square, 0.0), toward
