"""Stochastic policy gradients in the RKHS, the paper's method.

One iteration is :meth:`PolicyGradientMethod.improve` (Algorithm 2, lines 3 to 5); the core then
moves the policies, projects and prunes them, and calls :meth:`~PolicyGradientMethod.stop_decision`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslearning.learner import core
from crosslearning.learner.gradients import ESTIMATORS, Gradients, gradient_geometry
from crosslearning.learner.limits import refuse_limits
from crosslearning.learner.sampling import Sampling, draw_plans, sample_gaps
from crosslearning.learner.settings import PolicyGradient
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts import Executor, SamplePlan, plan_samples

#: Iterations, of a few short rollouts, without any difference of rewards that end learning.
_PATIENCE = 10


class PolicyGradientMethod(core.Method):
    """A gradient estimate for every task by Algorithm 1, and a step along it."""

    settings: PolicyGradient

    def __init__(self, executor: Executor, settings: PolicyGradient, kernel: Kernel) -> None:
        super().__init__(executor, settings, kernel, "action_variance")
        refuse_limits(executor.tasks, "policy-gradient")
        self.estimator = ESTIMATORS[settings.estimator]
        self.rule = StepRule(settings, np.zeros(len(executor.tasks)))

    @property
    def functions(self) -> int:
        """How many functions the method keeps: a momentum direction for each task, or none."""
        return len(self.executor.tasks) if self.rule.momentum else 0

    def steps_needed(self, iterate: core.Iterate) -> int:
        """Return the steps of the next plan, if no episode ends early."""
        return self._plan(deepcopy(iterate.generator)).most_steps(self.estimator.mirrored)

    def _plan(self, generator: np.random.Generator) -> SamplePlan:
        settings = self.settings
        sizes = settings.batch_size, settings.gamma, self.noise.std
        return plan_samples(generator, self.executor.tasks, *sizes)

    def improve(self, iterate: core.Iterate) -> core.Improvement:
        """Return a step along every task's gradient estimate: one iteration of this method."""
        settings, tasks = self.settings, self.executor.tasks
        # Algorithm 1, lines 1 to 5: trajectories of geometric length, and their rewards.
        plan = self._plan(iterate.generator)
        samples = self.executor.samples(iterate.policies, plan, self.estimator.mirrored)

        sums = np.concatenate([samples.returns, samples.values[..., 0]])
        means = sums / (1 + np.concatenate([plan.before, plan.after]))
        self.watch_rewards(iterate.iteration, means.ravel(), patience=_PATIENCE)

        def again(policies: Expansion) -> tuple[Floats, int]:
            others = self.executor.samples(policies, plan, self.estimator.mirrored)
            return others.returns, int(others.steps.sum())

        steps = int(samples.steps.sum())
        may_test = plan.most_steps(self.estimator.mirrored) <= iterate.steps_left - steps
        tested = iterate.saw(samples.returns, again if may_test else None)
        # Algorithm 1, lines 6 and 7: Q̂ and the gradient estimates (Algorithm 2, line 4).
        gradients = self.estimator.estimate(samples, self.noise.variance, settings.gamma)
        squares, towards = gradient_geometry(iterate.policies, gradients)
        if not np.all(np.isfinite(squares)):
            raise core.too_large(tasks[int(np.argmin(np.isfinite(squares)))].name)
        norms = np.sqrt(squares)
        gaps = _gaps(towards, norms, iterate.radii())
        # Algorithm 2, line 5: the step η ∇̂_i of every task, which the core applies.
        lengths, clips = self.rule.step(iterate.iteration, squares)
        keep = self.rule.momentum
        knots, weights = _step(gradients, clips, lengths, keep)
        return core.Improvement(
            knots=knots,
            weights=weights,
            steps=steps + tested,
            episodes=len(knots) * (1 + self.estimator.mirrored),
            returns=samples.returns.mean(axis=1),
            numbers={"gradient_norm": norms, "gap": gaps},
            momentum=core.Momentum(keep, lengths) if keep else None,
        )

    def stop_decision(
        self, iterate: core.Iterate, improvement: core.Improvement
    ) -> core.StopDecision:
        """Return whether all stationarity gaps are at most α (Algorithm 2, line 8)."""
        settings = self.settings
        if settings.alpha is None:
            return core.StopDecision()
        if settings.stopping == "batch":
            # As printed: by the estimates of the iteration itself.
            return core.StopDecision(bool(np.max(improvement.numbers["gap"]) <= settings.alpha))
        if iterate.iteration % settings.check_every:
            return core.StopDecision()
        check = check_gaps(iterate, self.sampling, settings)
        if check is None:
            return core.StopDecision()
        return core.StopDecision(check.bound <= settings.alpha, check)

    def why(self, report: core.IterationReport) -> str:
        """Return the sentence of a run that the stopping rule ended."""
        alpha, check = self.settings.alpha, report.check
        if check is None:
            return f"the batch's gap of every task is at most alpha = {alpha:g}."
        return (
            f"check {check.number} bounds every gap by {check.bound:.3g}, at most alpha = "
            f"{alpha:g}. The chance of a wrong stop is at most {self.settings.check_delta:g} over "
            "the whole run."
        )

    def step_sizes(self, iterations: int) -> Floats:
        """Return the factors of the gradients in the last of so many iterations, shape (N,)."""
        if iterations == 0:
            return np.zeros(len(self.rule.mean_square))
        return self.rule.lengths(iterations - 1)

    @property
    def sampling(self) -> Sampling:
        """How gradients are sampled outside of iterations."""
        drawn = self.settings.gamma, self.settings.batch_size
        return Sampling(self.executor, self.estimator, self.kernel, self.noise, *drawn)

    def state(self) -> core.State:
        """Return the running mean of the squared gradient norms."""
        return {"mean_square": self.rule.mean_square}, {}

    def restore(self, arrays: core.Arrays, numbers: Mapping[str, Any]) -> None:
        """Restore the running mean."""
        core.check_shapes(arrays, {"mean_square": self.rule.mean_square.shape})
        self.rule.mean_square = arrays["mean_square"]


# Steps ------------------------------------------------------------------------------------


def _step(
    gradients: Gradients, clips: Floats, lengths: Floats, keep: float
) -> tuple[Floats, Floats]:
    """Return the knots (N·B, q) and weights of all tasks' steps, or of their momentum."""
    directions = gradients.weights * clips[:, None, None]
    N, B, p = directions.shape
    # A knot carries weights of its task's policy, or of its task's momentum, alone.
    first, functions = (N + 1, 2 * N + 1) if keep else (0, N)
    weights = np.zeros((N, B, functions, p))
    for i in range(N):
        weights[i, :, first + i] = ((1.0 - keep) if keep else lengths[i]) * directions[i]
    return gradients.knots.reshape(N * B, -1), weights.reshape(N * B, functions, p)


@dataclass
class StepRule:
    """How far the policies move along their gradients.

    Coordinates have no meaning in an RKHS, so the second moment is one number per function.
    """

    settings: PolicyGradient
    #: Running mean of the squared gradient norms, without bias correction, shape (N,).
    mean_square: Floats

    @property
    def momentum(self) -> float:
        """Share of the old direction that is kept; zero for rules without momentum."""
        return self.settings.momentum if self.settings.step_rule == "adam" else 0.0

    def step(self, iteration: int, squared_norms: Floats) -> tuple[Floats, Floats]:
        """Update the running mean with ‖∇̂_i‖² of iteration k, from 0.

        Returns the factor of each task's direction and, to be applied before it, the clipping
        factor of its gradient, at most 1. All arrays have shape (N,).
        """
        norms, clips = np.sqrt(squared_norms), np.ones(len(squared_norms))
        if self.settings.step_rule != "constant":
            keep = self.settings.second_moment
            self.mean_square = keep * self.mean_square + (1.0 - keep) * squared_norms
            if math.isfinite(self.settings.step_clip):
                allowed = self.settings.step_clip * self._root_mean_square(iteration)
                np.divide(allowed, norms, out=clips, where=norms > allowed)
        return self.lengths(iteration), clips

    def lengths(self, iteration: int) -> Floats:
        """Return the factors of an iteration whose gradients are in the running mean already."""
        settings = self.settings
        size = settings.step_size
        assert size is not None
        if settings.step_rule == "constant":
            return np.full(len(self.mean_square), size)
        if settings.step_rule == "decaying":
            size /= math.sqrt(1.0 + iteration / settings.step_decay)
        if self.momentum:
            size /= 1.0 - self.momentum ** (iteration + 1)
        # A task whose gradient has always been zero has no direction to move in.
        root = self._root_mean_square(iteration)
        return np.divide(size, root, out=np.zeros_like(root), where=root > 0.0)

    def _root_mean_square(self, iteration: int) -> Floats:
        """Return the running root mean square, corrected for its bias towards zero."""
        keep = self.settings.second_moment
        return np.sqrt(self.mean_square / (1.0 - keep ** (iteration + 1)))


# Stopping rule ----------------------------------------------------------------------------


def _gaps(towards: Floats, norms: Floats, radii: Floats) -> Floats:
    """Return max ⟨∇̂_i, h − h_i⟩ over the ball around g: ⟨∇̂_i, g − h_i⟩ + radius · ‖∇̂_i‖."""
    # 0 · ∞: where the gradient is zero nothing can be gained.
    reach = np.multiply(radii, norms, out=np.zeros(len(norms)), where=norms > 0.0)
    return np.asarray(towards + reach)


def check_level(number: int, tasks: int, delta: float) -> float:
    """Return the confidence of a bound in check ``number``, from 1: Σ_j 1/(j(j+1)) = 1."""
    return 1.0 - delta / (number * (number + 1) * tasks)


def check_gaps(
    iterate: core.Iterate, sampling: Sampling, settings: PolicyGradient
) -> core.GapCheck | None:
    """Return upper confidence bounds of the policies' gaps, from a separate batch.

    None if there might not be enough steps left for it.

    The paper compares the estimated gap of every iteration with α. A run makes thousands of such
    estimates from a few samples each, so noise alone stops it sooner or later. Here the errors of
    all checks add up to δ: a run that stops has, with probability at least 1 − δ, every true gap
    at most α. The random numbers depend on the seed and the iteration alone and the run's
    generator is not used: a run learns the same with checks and without.
    """
    number = iterate.iteration // settings.check_every
    level = check_level(number, iterate.tasks, settings.check_delta)
    generator = np.random.default_rng([settings.seed, iterate.iteration])
    samples = sampling.count(settings.check_batch)
    plans = draw_plans(sampling, samples, generator)
    most = sum(plan.most_steps(sampling.estimator.mirrored) for plan, _ in plans)
    if most > iterate.steps_left:
        return None
    gaps, steps = sample_gaps(sampling, iterate.family, plans)
    bounds = [
        gap.mean.upper_bound(gap.towards, radius, level)
        for gap, radius in zip(gaps, iterate.radii(), strict=True)
    ]
    return core.GapCheck(number, np.array(bounds), level, samples, steps)
