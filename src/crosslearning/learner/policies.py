"""The policies of a learner at one moment: those that it keeps, or the last ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from crosslearning.errors import InputError, unknown_name
from crosslearning.learner.deployment import LearnedController
from crosslearning.learner.policy import BoxSpec, Policy
from crosslearning.learner.settings import LearnerSettings
from crosslearning.rkhs import Family
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import ActionScale
from crosslearning.tasks import Task
from crosslearning.tasks.loop_spec import LoopSpec


class Policies:
    """One policy for each task and the central one: ``learner.best`` and ``learner.last``.

    Attributes
    ----------
    family : Family
        The policies h_1 … h_N and g on their common dictionary.

    Examples
    --------
    >>> from crosslearning import PID, CrossLearner
    >>> learner = CrossLearner("pendulums:2", around=PID(kp=2.0, measured=1), epsilon=0.2)
    >>> learner = learner.learn(60, progress=False)
    >>> learner.last.policy(0).function.norms()[0] > 0.0  # what learning goes on from
    np.True_
    >>> learner.best.family is learner.family  # around a controller, the best are kept
    True
    """

    def __init__(
        self,
        family: Family,
        tasks: Sequence[Task],
        settings: LearnerSettings,
        std: Floats,
        scale: ActionScale | None,
    ) -> None:
        self.family, self.tasks, self._settings = family, tuple(tasks), settings
        self._std, self._scale = std, scale
        # Each is made once, so that its noise goes on from call to call.
        self._made: dict[int, Policy] = {}

    def __repr__(self) -> str:
        tasks, knots = len(self.tasks), len(self.family.knots)
        what = "corrections of a controller" if self._correct else "policies"
        return f"Policies({tasks} {what} and the central one, {knots} knots)"

    @property
    def central(self) -> Policy:
        """The central policy g; where nothing moves g, the mean of the task policies.

        That is for ε = ∞ and, around a controller, until a correction is ε away from g = 0.
        """
        return self._policy("central", len(self.tasks))

    @property
    def average(self) -> Policy:
        """The mean of the task policies."""
        return self._policy("average", len(self.tasks) + 1)

    def policy(self, task: int | str) -> Policy:
        """Return the policy of a task, by its number or its name.

        ``"central"`` and ``"average"`` are those two, unless a task has that name.
        """
        names = [t.name for t in self.tasks]
        if isinstance(task, str):
            if task not in names and task in ("central", "average"):
                return self.central if task == "central" else self.average
            if task not in names:
                raise unknown_name("policy", task, ["central", "average", *names])
            task = names.index(task)
        if not 0 <= task < len(names):
            raise InputError(f"no task {task}; there are {len(names)}, from 0")
        return self._policy(names[task], task)

    def _policy(self, name: str, function: int) -> Policy:
        if function not in self._made:
            N, first = len(self.tasks), self.tasks[0]
            if function > N or (function == N and self._centre_is_free):
                mean = self.family.mix(np.append(np.full(N, 1.0 / N), 0.0)[None])
            else:
                mean = self.family.select(function)
            actions = BoxSpec.of(first.action_space, "action", first.action_names)
            seen = BoxSpec.of(first.observation_space, "observation", first.observation_names)
            gamma = self._settings.gamma
            policy = Policy(name, mean, self._std, actions, gamma, seen, first.rate)
            policy.scale = self._scale or policy.scale
            policy.choices = first.choices
            policy.corrects = self._correct
            if self.family.kernel.normalised and math.isfinite(self._settings.bound):
                policy.bound = self._settings.bound
            self._made[function] = policy
        return self._made[function]

    @property
    def _correct(self) -> bool:
        return any(task.controller is not None for task in self.tasks)

    @property
    def _centre_is_free(self) -> bool:
        """Whether nothing has moved g: ε is infinite, or no correction ever came near to it."""
        still = self._correct and not np.any(self.family.weights[:, -1])
        return math.isinf(self._settings.epsilon) or still

    def controller(self, task: int | str | None = None) -> LearnedController:
        """Return a policy as the controller of a machine; by default the central one.

        It takes the machine's observations and returns its actions: the controller's that the
        policy was learned around, corrected, with lags, limits and rates. Of tasks that differ in
        these, name the task.
        """
        policy = self.central if task is None else self.policy(task)
        names = [one.name for one in self.tasks]
        first = self.tasks[names.index(policy.name) if policy.name in names else 0]
        spec = first.loop
        if spec is None:
            spec = LoopSpec.whole(first.observation_space, first.action_space)
        return LearnedController(policy, spec)
