"""Stochastic policy gradients in the RKHS, the paper's method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError
from crosslearning.learner.gradients import estimator_of, gradient_geometry
from crosslearning.learner.iterate import Iterate
from crosslearning.learner.method import Improvement, Momentum, each_action, too_large
from crosslearning.learner.policy_gradient.settings import PolicyGradient
from crosslearning.learner.policy_gradient.steps import StepRule
from crosslearning.learner.policy_gradient.stopping import check_gaps
from crosslearning.learner.report import IterationReport, StopDecision
from crosslearning.learner.sampling import Sampling
from crosslearning.rkhs import Kernel
from crosslearning.rollouts import Episodes, Executor, Noise, plan_samples

Floats = NDArray[np.float64]


class PolicyGradientMethod:
    """A gradient estimate for every task by Algorithm 1, and a step along it."""

    def __init__(self, executor: Executor, settings: PolicyGradient, kernel: Kernel) -> None:
        self.executor = executor
        self.kernel = kernel
        self.settings = settings
        self.estimator = estimator_of(settings.estimator)
        outputs = executor.tasks[0].action_size
        self.noise = Noise(each_action("action_variance", settings.action_variance, outputs))
        self.rule = StepRule(settings, np.zeros(len(executor.tasks)))

    @property
    def functions(self) -> int:
        """How many functions the method keeps: a direction of momentum for each task, or none."""
        return len(self.executor.tasks) if self.rule.momentum else 0

    round_finished = True

    def begin(self, episodes: Episodes) -> None:
        """See what was looked at before: nothing that this method learns from."""

    def use_data_of(self, other: Any) -> None:
        """Know what another method can tell of its tasks: nothing that is of use to this one."""

    def improve(self, iterate: Iterate) -> Improvement:
        """Return a step along every task's gradient estimate."""
        settings, tasks = self.settings, self.executor.tasks
        plan = plan_samples(
            iterate.generator, tasks, settings.batch_size, settings.gamma, self.noise.std
        )
        samples = self.executor.samples(iterate.policies, plan, self.estimator.mirrored)
        gradients = self.estimator.estimate(samples, self.noise.variance, settings.gamma)
        squares, towards = gradient_geometry(iterate.policies, gradients)
        if not np.all(np.isfinite(squares)):
            name = tasks[int(np.argmin(np.isfinite(squares)))].name
            raise too_large(name)
        norms = np.sqrt(squares)
        gaps = _gaps(towards, norms, iterate.radii())
        lengths, clips = self.rule.step(iterate.iteration, squares)
        directions = gradients.weights * clips[:, None, None]
        N, B, q = gradients.knots.shape
        # A knot carries weights of its own task alone.
        spread = np.zeros((N, B, N, directions.shape[2]))
        keep = self.rule.momentum
        for i in range(N):
            spread[i, :, i] = ((1.0 - keep) if keep else lengths[i]) * directions[i]
        weights = spread.reshape(N * B, N, -1)
        return Improvement(
            knots=gradients.knots.reshape(N * B, q),
            weights=np.zeros_like(weights) if keep else weights,
            steps=int(samples.steps.sum()),
            episodes=N * B * (1 + self.estimator.mirrored),
            returns=samples.returns.mean(axis=1),
            numbers={"gradient_norm": norms, "gap": gaps},
            momentum=Momentum(keep, weights, lengths) if keep else None,
        )

    def stop_decision(self, iterate: Iterate, improvement: Improvement) -> StopDecision:
        """Say whether all stationarity gaps are small enough, if a rule asks for it now."""
        settings = self.settings
        if settings.alpha is None:
            return StopDecision()
        if settings.stopping == "batch":
            # As printed: by the estimates of the iteration itself.
            return StopDecision(bool(np.max(improvement.numbers["gap"]) <= settings.alpha))
        if iterate.iteration % settings.check_every:
            return StopDecision()
        check = check_gaps(iterate, self.sampling, settings)
        return StopDecision(check.bound <= settings.alpha, check)

    def why(self, report: IterationReport) -> str:
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
        """Return by what the last of so many iterations multiplied each gradient, shape (N,).

        Before clipping; with momentum, what multiplied the direction. Zero before the first.
        """
        if iterations == 0:
            return np.zeros(len(self.rule.mean_square))
        return self.rule.lengths(iterations - 1)

    def transfer_settings(self) -> dict[str, Any]:
        """Return what a learner that goes on from these policies should keep: nothing."""
        return {}

    @property
    def sampling(self) -> Sampling:
        """How gradients are sampled outside of iterations."""
        return Sampling(
            executor=self.executor,
            estimator=self.estimator,
            kernel=self.kernel,
            noise=self.noise,
            discount=self.settings.gamma,
            batch_size=self.settings.batch_size,
        )

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return the running mean of the squared gradient norms."""
        return {"mean_square": self.rule.mean_square}, {}

    def restore(self, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> None:
        """Take the running mean back."""
        mean_square = arrays["mean_square"]
        fits = mean_square.shape == self.rule.mean_square.shape
        if not fits or not np.all(np.isfinite(mean_square)):
            raise FileFormatError("its parts do not fit together: mean_square")
        self.rule.mean_square = mean_square


def _gaps(towards: Floats, norms: Floats, radii: Floats) -> Floats:
    """Return max ⟨∇̂_i, h − h_i⟩ over the feasible h, in closed form (line 8).

    The maximum over a ball around g is ⟨∇̂_i, g − h_i⟩ + radius · ‖∇̂_i‖.
    """
    # 0 · ∞: where the gradient is zero nothing can be gained.
    reach = np.multiply(radii, norms, out=np.zeros(len(norms)), where=norms > 0.0)
    return np.asarray(towards + reach)
