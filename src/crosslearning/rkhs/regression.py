"""Ridge regression on common knots, for several tasks and a sliding window of data blocks.

The function of a task is f = Σ_m κ(s_m, ·) α_m. Its weights solve (ΦᵀΦ + ρK) α = Φᵀy, with Φ the
kernel between the task's data and the knots. ΦᵀΦ is kept for every block and updated: a new block
of n states on m knots costs n·m², k new knots cost n·m·k per block. For many tasks these matrices
would fill the memory, so they are computed when they are needed.

The tasks may be regressed together. Then κ(x, x') c_ij / ρ is the prior covariance of f_i(x) and
f_j(x'), with c_ii = 1 and one correlation c_ij = τ: f_i = √τ u + √(1 − τ) v_i, where the common
function u and the N functions v_i are independent. In terms of a centre f_c that is a ridge ρ/τ of
it and a multiplier ρ/(1 − τ) of ‖f_i − f_c‖². τ = 0 separates the tasks, τ = 1 pools them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from crosslearning.errors import FileFormatError, NumericalError
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.geometry import RIDGE
from crosslearning.rkhs.kernel import Kernel

#: With more tasks no matrices are kept.
MANY_TASKS = 64


class FamilyRegression:
    """Regressions of N tasks on common knots, over the last ``blocks`` blocks of data."""

    def __init__(self, kernel: Kernel, tasks: int, blocks: int) -> None:
        self.kernel = kernel
        self.tasks = tasks
        self.blocks = blocks
        self.knots: Floats = np.empty((0, kernel.dimension))
        #: The knots' Gram matrix K, shape (m, m).
        self.gram: Floats = np.empty((0, 0))
        #: Of each block, newest first, and of each task in it: the states (n, q); the kernel
        #: between knots and states, Φᵀ of shape (m, n); ΦᵀΦ. The last two, if they are kept. The
        #: bits of a kernel value depend on its state's position at most, not on the other knots.
        self._keeps = tasks <= MANY_TASKS
        self._states: list[list[Floats]] = []
        self._features: list[list[Floats]] = []
        self._products: list[list[Floats]] = []

    def __len__(self) -> int:
        return len(self._states)

    def push(self, states: Sequence[Floats]) -> None:
        """Add a block: the states of every task, shapes (n_i, q)."""
        self._states.insert(0, list(states))
        if self._keeps:
            features = [self.kernel(self.knots, x) for x in states]
            self._features.insert(0, features)
            self._products.insert(0, [phi @ phi.T for phi in features])
        for kept in (self._states, self._features, self._products):
            del kept[self.blocks :]

    def use(self, knots: Floats) -> None:
        """Set the knots; the matrices of those that stay are kept."""
        where = {knot.tobytes(): m for m, knot in enumerate(self.knots)}
        source = np.array([where.get(knot.tobytes(), -1) for knot in knots], dtype=np.int64)
        # Those that stay come first: dictionaries append, and close the gaps that pruning leaves.
        stay = len(source) if np.all(source >= 0) else int(np.argmin(source >= 0))
        taken, added = source[:stay], knots[stay:]
        if stay == len(knots) == len(self.knots) and np.array_equal(taken, np.arange(stay)):
            return

        def joined(kept: Floats, across: Floats) -> Floats:
            matrix = np.empty((len(knots), len(knots)))
            matrix[:stay, :stay] = kept.take(taken, axis=0).take(taken, axis=1)
            matrix[stay:] = across
            matrix[:stay, stay:] = across[:, :stay].T
            return matrix

        self.gram = joined(self.gram, self.kernel(added, knots))
        self.knots = knots.copy()
        kept = zip(self._states, self._features, self._products, strict=True) if self._keeps else ()
        for states, features, products in kept:
            for i, x in enumerate(states):
                fresh = self.kernel(added, x)
                features[i] = np.concatenate([features[i].take(taken, axis=0), fresh])
                products[i] = joined(products[i], fresh @ features[i].T)

    def values(self, block: int, task: int, weights: Floats) -> Floats:
        """Return the function of given weights (m, p) at a block's states: shape (n, p)."""
        return np.asarray(self._at(block, task).T @ weights)

    def _at(self, block: int, task: int) -> Floats:
        """Return Φᵀ of a task in a block."""
        if self._keeps:
            return self._features[block][task]
        return self.kernel(self.knots, self._states[block][task])

    def states(self, block: int, task: int) -> Floats:
        """Return the states of a task in a block, shape (n, q)."""
        return self._states[block][task]

    def solve(self, task: int, targets: Sequence[Floats], ridge: float) -> Floats:
        """Return the weights (m, p) that fit targets, one array (n, p) for each block.

        They minimise Σ |y − f(s)|² + ridge · ‖f‖², the norm being that of κ + λδ as in pruning.
        """
        return self._solved(*self._statistics(task, targets, self._penalty(ridge)))

    def solve_all(
        self, targets: Sequence[Sequence[Floats]], ridge: float, correlation: float
    ) -> Floats:
        """Return the weights of all tasks, shape (m, N, p), for the targets of each task.

        With B_i = (1 − τ) Φ_iᵀΦ_i + ρK the common part z = √τ u solves
        (1 + τ Σ_i B_i⁻¹ Φ_iᵀΦ_i) z = τ Σ_i B_i⁻¹ Φ_iᵀy_i, and
        f_i = z + (1 − τ) B_i⁻¹ Φ_iᵀ(y_i − Φ_i z).
        """
        if correlation == 0.0 or not self.couples:
            return np.stack([self.solve(i, y, ridge) for i, y in enumerate(targets)], axis=1)
        m, own, penalty = len(self.knots), 1.0 - correlation, self._penalty(ridge)
        solved = []
        for task, y in enumerate(targets):
            product, right = self._statistics(task, y, np.zeros_like(penalty))
            both = np.concatenate([product, right], axis=1)
            solved.append(self._solved(own * product + penalty, both))
        total = correlation * np.sum(solved, axis=0)
        total.flat[: m * total.shape[1] : total.shape[1] + 1] += 1.0
        common = np.linalg.solve(total[:, :m], total[:, m:])
        functions = [common + own * (one[:, m:] - one[:, :m] @ common) for one in solved]
        return np.stack(functions, axis=1)

    def inner_products(self, weights: Floats) -> Floats:
        """Return the mean products of functions (m, c) at all tasks' newest states: (c, c)."""
        products = sum(self._product(0, task) for task in range(self.tasks))
        return np.asarray(weights.T @ products @ weights) / sum(map(len, self._states[0]))

    @property
    def couples(self) -> bool:
        """Whether tasks can be regressed together: if there are some, and not too many."""
        return 1 < self.tasks <= MANY_TASKS

    def _product(self, block: int, task: int) -> Floats:
        """Return ΦᵀΦ of a task in a block."""
        if self._keeps:
            return self._products[block][task]
        features = self._at(block, task)
        return np.asarray(features @ features.T)

    def _statistics(
        self, task: int, targets: Sequence[Floats], matrix: Floats
    ) -> tuple[Floats, Floats]:
        """Return the matrix with ΦᵀΦ added in place, (m, m), and Φᵀy, (m, p), of all blocks."""
        right = np.zeros((len(self.knots), targets[0].shape[1]))
        for block, y in enumerate(targets):
            matrix += self._product(block, task)
            right += self._at(block, task) @ y
        return matrix, right

    def _penalty(self, ridge: float) -> Floats:
        """Return ρ(K + λ diag(1 + κ(s, s))), shape (m, m)."""
        matrix = ridge * self.gram
        matrix.flat[:: len(matrix) + 1] += ridge * RIDGE * (1.0 + np.diagonal(self.gram))
        return np.asarray(matrix)

    def _solved(self, matrix: Floats, right: Floats) -> Floats:
        """Return the solution of a positive definite system."""
        try:
            return np.asarray(cho_solve(cho_factor(matrix, overwrite_a=True), right))
        except (np.linalg.LinAlgError, ValueError) as problem:
            what = f"a regression on {len(self.knots)} knots broke down: {problem}"
            remedy = "are observations and rewards of a sensible size?"
            raise NumericalError(f"{what}; {remedy}") from problem

    def state(self) -> dict[str, Floats]:
        """Return the arrays that cannot be recomputed to the same bits; callers have the states."""
        m, state = len(self.knots), {"knots": self.knots.copy(), "gram": self.gram.copy()}
        if self._keeps:
            products = [product for block in self._products for product in block]
            state["products"] = np.array(products).reshape(len(self), self.tasks, m, m)
        return state

    def restore(self, arrays: Mapping[str, Floats], states: Sequence[Sequence[Floats]]) -> None:
        """Restore a state, with the states of each block, newest first."""
        m = len(arrays["knots"])
        shapes: dict[str, tuple[int, ...]] = {"knots": (m, self.kernel.dimension), "gram": (m, m)}
        if self._keeps:
            shapes["products"] = (len(states), self.tasks, m, m)
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.all(np.isfinite(arrays[name])):
                raise FileFormatError("its parts do not fit together: a regression")
        self.knots, self.gram = arrays["knots"].copy(), arrays["gram"].copy()
        self._states = [list(block) for block in states]
        if self._keeps:
            self._products = [[product.copy() for product in block] for block in arrays["products"]]
            self._features = [[self.kernel(self.knots, x) for x in block] for block in states]
