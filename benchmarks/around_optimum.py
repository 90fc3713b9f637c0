"""What a correction of a PI could gain on its machines, if nothing had to be learned.

``python -m benchmarks.around_optimum [two-rooms] [--seed 100] [--machines 0 3]``. Corrections are
fitted to the machines themselves, by differences of returns over 24 starts, and compared with the
PI on 200 others:

- those of the learner's kernel, of norm ε: what ``models`` could find at best;
- the same with a kernel that is so many times wider;
- affine functions of what policies observe, clipped to ε, by the cross-entropy method: they keep
  the bound on every action without that on the norm.

Beside them stand the best of the tunings of :mod:`benchmarks.around` for all machines and for each.
Both searches are short and find local optima, so that more may be possible.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.around import PARTS, tunings
from crosslearning import PID, CrossLearner
from crosslearning._base.compiled import compiled
from crosslearning.rkhs import Family, Gaussian, Kernel, Sum
from crosslearning.rkhs.program import Expansion, evaluate
from crosslearning.tasks import Task
from crosslearning.tasks.families import FAMILIES

Floats = NDArray[np.float64]

#: Starts for fitting and for comparing, and the seeds of their random numbers.
FITTED, COMPARED = (24, 7), (200, 5)
#: Knots, the eigenfunctions of theirs that are used, and steps of the ascent.
KNOTS, RANK, STEPS = 32, 16, 25
#: Rounds and candidates of the cross-entropy method, and the share of them that is taken.
ROUNDS, CANDIDATES, ELITE = 40, 32, 0.2


class Loop(NamedTuple):
    """A PI around a machine, as arrays: u = bias + kp e + ki I, clipped to the bounds."""

    kp: Floats
    ki: Floats
    setpoint: Floats
    measured: NDArray[np.int64]
    bias: Floats
    step: float
    bounds: Floats  #: shape (2, p)


@compiled
def _play(
    code: Any,
    sizes: tuple[int, int],
    parameters: Floats,
    uniforms: Floats,
    loop: Loop,
    horizon: int,
    kernel: Expansion,
    affine: Floats,
    most: float,
    returns: Floats,
    seen: Floats,
) -> None:
    """Fill returns (n,) of episodes, and what a policy observed, (n, horizon, q + m)."""
    reset, observe, step = code
    q, m, p = sizes[1], len(loop.setpoint), len(loop.bias)
    state, look, own = np.zeros(sizes[0]), np.zeros(q + m), np.zeros(p)
    point, work = np.empty(kernel.features.shape[0]), np.empty((2, kernel.features.shape[1]))
    action, error, integral, after = np.zeros(p), np.zeros(m), np.zeros(m), np.zeros(m)
    for k in range(len(uniforms)):
        reset[0](parameters, uniforms[k], state)
        integral[:] = 0.0
        returns[k] = 0.0
        for t in range(horizon):
            observe[0](parameters, state, look[:q])
            look[q:] = integral
            seen[k, t] = look
            for i in range(m):
                error[i] = loop.setpoint[i] - look[loop.measured[i]]
                after[i] = integral[i] + loop.step * error[i]
            evaluate(kernel.program, kernel.features, kernel.rows[0], look, point, work, own)
            moves = np.ones(m)
            for j in range(p):
                wanted = loop.bias[j]
                for i in range(m):
                    wanted += loop.kp[j, i] * error[i] + loop.ki[j, i] * after[i]
                low, high = loop.bounds[0, j], loop.bounds[1, j]
                asked = min(max(wanted, low), high)
                for i in range(m):
                    if loop.ki[j, i] * error[i] * (wanted - asked) > 0.0:
                        moves[i] = 0.0  # anti-windup
                change = affine[j, 0]
                for d in range(q + m):
                    change += affine[j, 1 + d] * look[d]
                change = min(max(change, -most), most) + own[j]
                action[j] = min(max(asked + 0.5 * (high - low) * change, low), high)
            for i in range(m):
                integral[i] += moves[i] * (after[i] - integral[i])
            returns[k] += step[0](parameters, state, action)


class Machine:
    """A machine in its closed loop."""

    def __init__(self, task: Task, controller: PID) -> None:
        environment = task.make()
        box = environment.action_space
        self.code, self.parameters = tuple(environment._code[:3]), environment.parameters
        self.sizes = environment.physics.state_size, environment.observation_space.shape[0]
        self.draws, self.horizon = environment.physics.reset_size, task.horizon
        self.controller, self.rate, self.bounds = controller, task.rate or 1.0, [box.low, box.high]
        self.inputs = self.sizes[1] + len(controller.setpoint)
        self.none = Family.zeros(Gaussian(std=[1.0] * self.inputs), 1, len(controller.bias))

    def run(
        self,
        starts: tuple[int, int],
        family: Family | None = None,
        affine: Floats | None = None,
        most: float = 0.0,
        controller: PID | None = None,
    ) -> tuple[Floats, Floats]:
        """Return returns (n,), and what a policy observed."""
        pid = controller or self.controller
        loop = Loop(
            pid.kp,
            pid.ki,
            pid.setpoint,
            pid.measured.astype(np.int64),
            pid.bias,
            1.0 / self.rate,
            np.array(self.bounds),
        )
        n, seed = starts
        uniforms = np.random.default_rng(seed).uniform(size=(n, self.draws))
        returns, seen = np.zeros(n), np.zeros((n, self.horizon, self.inputs))
        if affine is None:
            affine = np.zeros((len(pid.bias), 1 + self.inputs))
        kernel = (family or self.none).expansion
        arguments = (uniforms, loop, self.horizon, kernel, affine, most, returns, seen)
        _play(self.code, self.sizes, self.parameters, *arguments)
        return returns, seen

    def gain(self, **correction: Any) -> float:
        """Return the mean gain over the controller on the starts for comparing."""
        return float(np.mean(self.run(COMPARED, **correction)[0] - self.run(COMPARED)[0]))


def best_in_kernel(machine: Machine, kernel: Kernel, epsilon: float) -> float:
    """Return the gain of the best correction found of norm ε."""
    seen = machine.run(FITTED)[1]
    draw = np.random.default_rng(0)
    # Half of the knots are where episodes begin, which decide much.
    early = seen[:, :8].reshape(-1, machine.inputs)
    every = seen.reshape(-1, machine.inputs)
    knots = np.vstack([draw.permutation(part)[: KNOTS // 2] for part in (early, every)])
    values, vectors = np.linalg.eigh(kernel(knots, knots))
    used = np.flatnonzero(values > 1e-8)[::-1][:RANK]
    basis = vectors[:, used] / np.sqrt(values[used])  # orthonormal functions

    def family(v: Floats) -> Family:
        return Family(kernel, knots, (basis @ v)[:, None, :])

    def value(v: Floats) -> float:
        return float(machine.run(FITTED, family(v))[0].mean())

    v = np.zeros((len(used), len(machine.controller.bias)))
    best, found, slope = value(v), v, np.zeros_like(v)
    for step in range(STEPS):
        now = np.zeros_like(v)
        for place in np.ndindex(*v.shape):
            ahead = np.zeros_like(v)
            ahead[place] = 2e-3
            now[place] = value(v + ahead) - value(v - ahead)
        slope = 0.7 * slope + 0.3 * now
        v = v + 0.2 * epsilon * (1.0 - step / STEPS) * slope / (np.linalg.norm(slope) + 1e-12)
        v *= min(1.0, epsilon / np.linalg.norm(v))
        if (here := value(v)) > best:
            best, found = here, v
    return machine.gain(family=family(found))


def best_affine(machine: Machine, epsilon: float) -> float:
    """Return the gain of the best affine correction found, clipped to ε."""
    seen, draw = machine.run(FITTED)[1].reshape(-1, machine.inputs), np.random.default_rng(0)
    centre, spread, p = seen.mean(axis=0), seen.std(axis=0), len(machine.controller.bias)

    def affine(v: Floats) -> Floats:
        slopes = v.reshape(p, -1)[:, 1:] / spread
        return np.column_stack([v.reshape(p, -1)[:, 0] - slopes @ centre, slopes])

    mean, std = np.zeros(p * (1 + machine.inputs)), np.full(p * (1 + machine.inputs), 0.3)
    best, found = -np.inf, mean
    for _ in range(ROUNDS):
        trials = mean + std * draw.standard_normal((CANDIDATES, len(mean)))
        trials[0] = mean
        values = [machine.run(FITTED, None, affine(v), epsilon)[0].mean() for v in trials]
        order = np.argsort(values)[::-1]
        if values[order[0]] > best:
            best, found = values[order[0]], trials[order[0]]
        elite = trials[order[: int(ELITE * CANDIDATES)]]
        mean = 0.7 * elite.mean(axis=0) + 0.3 * mean
        std = 0.7 * elite.std(axis=0) + 0.3 * std
    return machine.gain(affine=affine(found), most=epsilon)


def widened(kernel: Kernel, factor: float) -> Kernel:
    """Return a kernel around a controller with other widths; its constant share stays."""
    assert isinstance(kernel, Sum)
    (curved, every), flat = kernel.parts
    assert isinstance(curved, Gaussian)
    wide = Gaussian(std=factor * np.sqrt(np.diag(curved.covariance)), periodic=curved.periodic)
    return Sum((wide, every), flat, scales=kernel.scales)


def main() -> None:
    """Print the gains on each machine that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="?", default="two-rooms")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--machines", type=int, nargs="*", default=[0, 3])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.3, 1.0])
    parser.add_argument("--widths", type=float, nargs="*", default=[1.0, 2.0])
    asked = parser.parse_args()
    part = PARTS[asked.family]
    tasks, controller = FAMILIES[asked.family](part.members, seed=asked.seed), part.in_use()
    around = [task.around(controller) for task in tasks]
    kernel = CrossLearner(around, method="models", seed=asked.seed, epsilon=0.3).kernel
    machines = [Machine(task, controller) for task in tasks]
    tuned = np.array(
        [[one.gain(controller=other) for one in machines] for other in tunings(controller)]
    )
    together = tuned[np.argmax(tuned.mean(axis=1))]
    print(f"best tuning for all: {together.mean():.3f} on the mean of all machines")
    for i in asked.machines:
        print(f"machine {i}: best tuning for all {together[i]:.3f}, own {tuned[:, i].max():.3f}")
        for epsilon in asked.epsilons:
            for width in asked.widths:
                gain = best_in_kernel(machines[i], widened(kernel, width), epsilon)
                print(f"  ε = {epsilon:g}, kernel {width:g} times as wide: {gain:.3f}", flush=True)
            gain = best_affine(machines[i], epsilon)
            print(f"  ε = {epsilon:g}, clipped affine: {gain:.3f}", flush=True)


if __name__ == "__main__":
    main()
