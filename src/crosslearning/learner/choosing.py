"""Gaussian scores whose greatest decides: the probabilities of choices, and their gradients.

A policy gives every option of a decision a score. Exploration adds Gaussian noise, and the option
with the greatest sum is taken: a probit policy. As a policy of scores it is the paper's, so that
gradients, projections, certificates and bounds are as for other actions. But the noise of a score
says less than the option that was taken, and a trust region needs no more than that: the mean of
the noise given the option has the same expectation and a smaller variance, the smaller the surer
the choice.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from crosslearning._base.choices import Choices
from crosslearning.rkhs.checks import Floats, Integers

#: Nodes of the integral over the noise of the chosen score. The trapezoidal rule converges
#: exponentially for such integrands: errors are below 1e-9 unless one score is 3 times as noisy
#: as another.
_NODES = np.linspace(-8.0, 8.0, 129)
_LOG_WEIGHTS = -0.5 * (_NODES**2 + math.log(2.0 * math.pi)) + math.log(_NODES[1] - _NODES[0])


def choice_statistics(
    choices: Choices, taken: Integers, means: Floats, std: Floats
) -> tuple[Floats, Floats]:
    """Return the log-probabilities (n,) of the options taken, and the mean noise given them (n, p).

    Scores have the ``means``, shape (n, p), and the deviations σ, shape (p,); ``taken``, shape
    (n, decisions), counts options from 0.
    """
    logs, noise = np.zeros(len(means)), np.empty_like(means)
    for d, (options, part) in enumerate(zip(choices.options, choices.parts, strict=True)):
        one = _between_two if options == 2 else _between_many
        added, noise[:, part] = one(taken[:, d], means[:, part], std[part])
        logs += added
    return logs, noise


def _between_two(taken: Integers, means: Floats, std: Floats) -> tuple[Floats, Floats]:
    """Return ln Φ(±h/σ) and ±σ φ(h/σ)/Φ(±h/σ)."""
    sign = np.where(taken == 1, 1.0, -1.0)
    logs = log_ndtr(sign * means[:, 0] / std[0])
    return logs, (sign * std[0] * _normal(means[:, 0] / std[0], logs))[:, None]


def _between_many(taken: Integers, means: Floats, std: Floats) -> tuple[Floats, Floats]:
    """Integrate over the noise u of the option a that is taken, given which others are independent.

    P = E[Π_k Φ(t_k)] over k ≠ a, with t_k = (h_a + σ_a u − h_k)/σ_k. Given a and u, the noise of
    another score is on average −σ_k φ(t_k)/Φ(t_k).
    """
    rows = np.arange(len(taken))
    score = means[rows, taken, None] + std[taken, None] * _NODES
    t = (score[:, None] - means[..., None]) / std[:, None]
    below = log_ndtr(t)
    below[rows, taken] = 0.0
    logs = _LOG_WEIGHTS + below.sum(axis=1)
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - top)
    total = weights.sum(axis=1)
    shares = weights / total[:, None]
    noise = -std * np.einsum("nu,nku->nk", shares, _normal(t, below))
    noise[rows, taken] = std[taken] * (shares @ _NODES)
    return np.log(total) + top[:, 0], noise


def _normal(t: Floats, below: Floats) -> Floats:
    """Return φ(t)/Φ, given ln Φ."""
    return np.asarray(np.exp(-0.5 * (t**2 + math.log(2.0 * math.pi)) - below))
