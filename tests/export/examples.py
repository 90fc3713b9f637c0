"""What the tests of exports share: policies of every kernel, and of every shape of actions."""

from __future__ import annotations

import gymnasium
import numpy as np

from crosslearning import Policy
from crosslearning.export.export import disagreement, measure
from crosslearning.rkhs import Family
from crosslearning.rollouts import ActionScale
from tests.contracts.test_kernels import KERNELS

PLAIN = {name: kernel for name, kernel in KERNELS.items() if "pair" not in name}


def policy_of(kernel=KERNELS["gaussian"], knots=20, spread=1.0, name="some", outputs=2):
    """Return a policy that is scaled and often clipped, also where one end is infinite."""
    generator = np.random.default_rng(1)
    centres = spread * generator.normal(size=(knots, kernel.dimension))
    weights = generator.normal(size=(knots, 1, outputs))
    if knots:
        function = Family(kernel, centres, weights / np.sqrt(knots))
    else:
        function = Family.zeros(kernel, 1, outputs)
    scale = ActionScale(np.linspace(-0.2, 0.1, outputs), np.linspace(2.0, 3.0, outputs))
    ends = spread * np.arange(1.0, kernel.dimension + 1)
    observations = gymnasium.spaces.Box(-ends, ends, dtype=np.float64)
    values = scale(function(generator.uniform(-ends, ends, (200, kernel.dimension)))[:, 0])
    low, high = np.quantile(values, [0.2, 0.8], axis=0)
    high[-1] = np.inf
    actions = gymnasium.spaces.Box(low, high, dtype=np.float64)
    policy = Policy(name, function, np.full(outputs, 0.1), actions, 0.9, observations)
    policy.scale = scale
    return policy


def compare(policy, act, precision):
    """Return how an export agrees with its policy, or raise the error of one that does not."""
    agreement = measure(policy, act, precision)
    if problem := disagreement(agreement, precision):
        raise problem
    return agreement
