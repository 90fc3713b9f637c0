"""What the tests of exports share: policies of every kernel, and of every shape of actions."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from crosslearning import PID, Constant, Policy, StateFeedback
from crosslearning.export.export import disagreement, measure
from crosslearning.learner.deployment import LearnedController
from crosslearning.learner.policy import BoxSpec
from crosslearning.rkhs import Family, Gaussian
from crosslearning.rollouts import ActionScale
from crosslearning.tasks.controllers import KernelController
from crosslearning.tasks.loop_spec import LoopSpec
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


def compare(policy, act, precision, **sizes):
    """Return how an export agrees with its policy, or raise the error of one that does not."""
    agreement = measure(policy, act, precision, **sizes)
    if problem := disagreement(agreement, precision):
        raise problem
    return agreement


class Remembering:
    """A controller that is code, and shows a memory."""

    def __init__(self, p, memory=0):
        self.p, self.memory = p, np.zeros(memory)

    def reset(self):
        self.memory = np.zeros_like(self.memory)

    def act(self, observation):
        self.memory = self.memory + 0.1
        return np.full(self.p, np.sum(observation))


def kernel_controller(q=3, p=2):
    """Return a policy as the controller of a machine with q observations and p actions."""
    generator = np.random.default_rng(7)
    return KernelController(
        {"kernel": "matern52", "covariance": np.eye(q).tolist()},
        generator.normal(size=(9, q)),
        generator.normal(size=(9, p)),
        centre=np.zeros(p),
        half=np.ones(p),
        low=[None] * p,
        high=np.full(p, 0.8),
    )


#: Of machines with three observations, the last an angle, and two actions.
CONTROLLERS = {
    "none": None,
    "constant": Constant([0.2, -3.0]),
    "feedback": StateFeedback([[0.5, 0.2, 0.0], [0.0, -0.3, 0.4]], [0.1, 0.0, 0.2], [0.1, 0.2]),
    "pid": PID(kp=[[1.0], [0.0]], ki=2.0, setpoint=0.3, measured=-2),
    "pid-of-two": PID(
        kp=[[1.0, 0.2], [0.0, 0.5]],
        ki=[[3.0, 0.0], [0.4, -1.0]],
        kd=[[0.05, 0.0], [0.0, 0.1]],
        setpoint=[0.2, -0.1],
        measured=[0, 2],
        bias=[0.1, 0.0],
        low=[-0.7, -1.0],
        high=[0.5, 0.9],
        rate=10.0,
    ),
    "policy": kernel_controller(),
    "code": lambda observation: np.array([observation[0], 5.0]),
    "code-with-memory": Remembering(2, 2),
}
SETPOINTS = {"x": 0.3, "y": "phase"}


def controller_of(controller=None, bound=None, dtype=np.float32, **options):
    """Return a random correction in a loop around a controller."""
    ends = np.array([1.0, 2.0, np.pi])
    spaces = Box(-ends, ends, dtype=np.float64), Box(-1.0, 1.5, (2,), dtype)
    names = ("x [m]", "y", "phase [rad]"), ("push [N]", "turn")
    limits = {"turn": (None, 0.9)}
    spec, _ = LoopSpec.of(spaces, names, 20.0, controller=controller, limits=limits, **options)
    observations, actions = spec.spaces
    q, generator = observations.shape[0], np.random.default_rng(3)
    knots = generator.normal(size=(15, q)) * np.concatenate([0.5 * ends, np.full(q - 3, 0.3)])
    weights = generator.normal(size=(15, 1, 2))
    if bound is not None:
        family = Family(Gaussian(std=np.full(q, 1.5)), knots, weights)
        weights *= bound / family.norms()[0]
    function = Family(Gaussian(std=np.full(q, 1.5)), knots, weights)
    seen, acting = spec.names
    boxes = BoxSpec.of(actions, "action", acting), BoxSpec.of(observations, "observation", seen)
    policy = Policy("some", function, np.full(2, 0.1), boxes[0], 0.9, boxes[1], 20.0)
    policy.scale = ActionScale.of_box(*boxes[0].ends)
    policy.bound, policy.corrects = bound, controller is not None
    return LearnedController(policy, spec)
