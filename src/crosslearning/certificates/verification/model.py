"""Checks of a learner's file: its numbers fit together, and the constraint holds.

All numbers are computed by plain NumPy, independently of the library's numerics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.plain_kernels import kernel_features, kernel_matrix
from crosslearning.certificates.verification.checks import Checks, PlainFile
from crosslearning.errors import MissingFormulaError, visible

Floats = NDArray[np.float64]

#: Points (n, q) to the matrix of κ at all pairs, for a user-defined kernel.
Formula = Callable[[Floats], Floats]

#: λ of the dictionary's geometry κ + λδ, relative to κ(s, s).
RIDGE = 1e-6
#: The maintained inverse may drift before it is computed afresh; a real edit is far above.
INVERSE_TOLERANCE = 1e-5
#: Distances may exceed ε by this share: what rounding in projecting and pruning leaves.
DISTANCE_TOLERANCE = 1e-6
_PRECISION = float(np.finfo(np.float64).eps)
_DICTIONARY = {"knots", "features", "rows", "gram", "inverse", "scale"}


@dataclass(frozen=True)
class PlainModel:
    """A learner's numbers, recomputed from its file, with bounds on their rounding errors.

    The dictionary projects in the norm of κ + λδ, which is never smaller than that of κ.
    """

    description: dict[str, Any]  #: the file's plain data: settings, kernel, tasks, counters
    tasks: tuple[str, ...]
    method: str  #: the name of the method that learned it
    epsilon: float
    iteration: int
    knots: int
    squared_norms: Floats  #: ‖h_i‖² and, last, ‖g‖², shape (N+1,)
    norm_errors: Floats  #: bounds on the errors of these squares, shape (N+1,)
    squared_distances: Floats  #: ‖h_i − g‖² in the norm of κ, shape (N,)
    distance_errors: Floats  #: bounds on the errors of these squares, shape (N,)
    ridged_distances: Floats  #: ‖h_i − g‖ in the norm of κ + λδ, shape (N,)

    @property
    def settings(self) -> dict[str, Any]:
        """The learner's settings."""
        return dict(self.description["settings"])

    @property
    def norms(self) -> Floats:
        """‖h_i‖ and, last, ‖g‖, shape (N+1,)."""
        return np.sqrt(self.squared_norms)

    @property
    def distances(self) -> Floats:
        """‖h_i − g‖ in the norm of κ, shape (N,)."""
        return np.sqrt(self.squared_distances)

    @property
    def farthest(self) -> float:
        """The largest distance of one policy: ε, or √N ε if their mean square is bounded."""
        relaxed = self.settings["projection"] == "relaxed"
        return self.epsilon * (math.sqrt(len(self.tasks)) if relaxed else 1.0)

    def tolerance(self, bound: float) -> float:
        """Return by how much a distance may exceed its bound because of rounding."""
        return DISTANCE_TOLERANCE * bound + 1e-9 * float(np.max(self.norms))


def check_model(
    checks: Checks, content: PlainFile, label: str, formula: Formula | None = None
) -> PlainModel | None:
    """Check a learner's numbers; return them recomputed, or None if that is impossible."""
    model = None
    with checks.guarding(f"{label}: a learner", "the parts of a learner that fit together"):
        if _check_kind(checks, content, label) and _check_arrays(checks, content, label):
            gram, error = _check_gram(checks, content, label, formula)
            scale = 1.0 / np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
            _check_slots(checks, content, label, gram, scale)
            model = _measure(content, gram, error, scale)
            _check_constraint(checks, model, label)
            _check_kept(checks, content, model, label, formula)
    return model


def _check_kind(checks: Checks, content: PlainFile, label: str) -> bool:
    """Check that the file is a learner's; one of version 1 is turned into one of version 2."""
    arrays, description = content.arrays, content.description
    kind, version = description.get("kind"), description.get("version")
    if version == 1:
        # It knows one method, which keeps a direction for each task if it has momentum.
        momentum = description["settings"]["step_rule"] == "adam"
        functions = len(description["tasks"]) if momentum else 0
        description["method"] = {"name": "policy-gradient", "functions": functions}
        arrays["method.mean_square"] = arrays.pop("mean_square")
    lacking = sorted(_DICTIONARY - arrays.keys())
    fine = kind == "learner" and version in (1, 2) and not lacking
    state = f"without {', '.join(lacking)}" if lacking else "with all its arrays"
    found, expected = f"a {kind} of version {version} {state}", "a learner of version 1 or 2"
    return checks.expect(f"{label}: a learner", fine, found, f"{expected} with all its arrays")


def _check_arrays(checks: Checks, content: PlainFile, label: str) -> bool:
    arrays, description = content.arrays, content.description
    bad = [n for n in sorted(_DICTIONARY) if arrays[n].dtype != np.float64]
    kept = [n for n in sorted(arrays) if n in _DICTIONARY or n.startswith("method.")]
    bad += [n for n in kept if not np.all(np.isfinite(arrays[n]))]
    found = f"not so in {', '.join(bad)}" if bad else "all finite"
    expected = "finite numbers in every array, of double precision in the dictionary's"
    finite = checks.expect(f"{label}: finite numbers", not bad, found, expected)
    capacity, q = arrays["knots"].shape
    functions, outputs, _ = arrays["rows"].shape
    N, counts = len(description["tasks"]), description["dictionary"]
    shapes = {
        "features": (arrays["features"].shape[0], capacity),
        "rows": (N + 1 + description["method"]["functions"], outputs, capacity),
        "gram": (capacity, capacity),
        "inverse": (capacity, capacity),
        "scale": (capacity,),
    }
    wrong = [f"{n} {arrays[n].shape}" for n, shape in shapes.items() if arrays[n].shape != shape]
    if counts["guarded"] != N + 1:
        wrong.append(f"{counts['guarded']} guarded functions")
    if not 0 <= counts["_covered"] <= counts["_size"] <= capacity:
        wrong.append(f"{counts['_size']} knots in {capacity} slots")
    found = f"{counts['_size']} knots in R^{q}, {functions} functions to R^{outputs}"
    if wrong:
        found = "wrong: " + ", ".join(wrong)
    expected = f"arrays for {N} tasks and a centre on one dictionary"
    return checks.expect(f"{label}: shapes", not wrong, found, expected) and finite


def _check_gram(
    checks: Checks, content: PlainFile, label: str, formula: Formula | None
) -> tuple[Floats, Floats]:
    """Check the Gram matrix; return κ at the knots, and bounds on its rounding errors."""
    L = content.description["dictionary"]["_size"]
    knots, stored = content.arrays["knots"][:L], content.arrays["gram"][:L, :L]
    name = f"{label}: Gram matrix"
    try:
        gram, error = kernel_matrix(content.description["kernel"], knots)
    except MissingFormulaError as missing:
        if formula is None:
            reason = f"{missing}; the stored matrix is used"
            remedy = "pass the formula: verify_run(run, formula=kernel)"
            checks.expect(name, "not possible", reason, remedy)
            return stored, 1e-12 * np.abs(stored)
        gram = np.asarray(formula(knots))
        error = 1e-12 * np.abs(gram)
    fine = float(np.max(np.abs(stored - gram) - error, initial=0.0)) <= 0.0
    found = f"farthest from κ at the knots: {_largest(stored - gram):.2g}"
    checks.expect(name, fine, found, "the kernel at the stored knots, up to rounding")
    return gram, error


def _check_slots(
    checks: Checks, content: PlainFile, label: str, gram: Floats, scale: Floats
) -> None:
    """Check what is kept beside the knots: their features, empty slots, and the inverse P."""
    arrays, L = content.arrays, len(gram)
    # Policies are evaluated from the features, over the empty slots too.
    features = kernel_features(content.description["kernel"], arrays["knots"])
    tolerance = 1e-12 * (1.0 + np.max(np.abs(features), initial=0.0))
    same_shape = features.shape == arrays["features"].shape
    apart = _largest(arrays["features"] - features) if same_shape else math.inf
    found = f"farthest from those of the knots: {apart:.2g}"
    expected = "the stored features are those of the stored knots"
    checks.expect(f"{label}: features", apart <= tolerance, found, expected)
    hidden = max(
        map(_largest, (arrays["rows"][:, :, L:], arrays["gram"][L:], arrays["inverse"][L:]))
    )
    found = f"largest number in an empty slot: {hidden:.2g}"
    expected = "zero: an empty slot carries no weight"
    checks.expect(f"{label}: empty slots", hidden == 0.0, found, expected)
    covered = content.description["dictionary"]["_covered"]
    normalised = gram[:covered, :covered] * np.outer(scale[:covered], scale[:covered])
    product = arrays["inverse"][:covered, :covered] @ (normalised + RIDGE * np.eye(covered))
    residual = _largest(product - np.eye(covered))
    alike = bool(np.all(np.abs(arrays["scale"][:L] - scale) <= 1e-12 * scale))
    found = f"farthest of P(K + λI) from the identity: {residual:.2g}"
    expected = f"the stored P inverts K + λI, to {INVERSE_TOLERANCE:g}"
    checks.expect(f"{label}: inverse", residual <= INVERSE_TOLERANCE and alike, found, expected)


def _measure(content: PlainFile, gram: Floats, error: Floats, scale: Floats) -> PlainModel:
    """Return norms and distances, Σ_p wᵀKw, with bounds on their rounding errors."""
    description = content.description
    tasks = tuple(visible(name, 500) for name in description["tasks"])
    N, L, iteration = len(tasks), len(gram), description["iteration"]
    if not isinstance(iteration, int) or not 0 <= iteration < 1 << 63:
        raise ValueError(f"an iteration is {visible(iteration, 40)}")
    rows = content.arrays["rows"][: N + 1, :, :L]
    apart = rows[:N] - rows[N]
    rounding = 2.0 * (L + 16) * _PRECISION * np.abs(gram) + error

    def squares(weights: Floats, matrix: Floats) -> Floats:
        values: Floats = np.einsum("fpl,lm,fpm->f", weights, matrix, weights, optimize=True)
        return np.maximum(values, 0.0)

    squared_distances = squares(apart, gram)
    ridge = RIDGE * np.sum((apart / scale) ** 2, axis=(1, 2))
    return PlainModel(
        description=description,
        tasks=tasks,
        method=str(description["method"]["name"]),
        epsilon=float(description["settings"]["epsilon"]),
        iteration=iteration,
        knots=L,
        squared_norms=squares(rows, gram),
        norm_errors=squares(np.abs(rows), rounding),
        squared_distances=squared_distances,
        distance_errors=squares(np.abs(apart), rounding),
        ridged_distances=np.sqrt(squared_distances + ridge),
    )


def _check_constraint(checks: Checks, model: PlainModel, label: str) -> None:
    epsilon, distances = model.epsilon, model.ridged_distances
    what, measured = "largest distance", float(np.max(distances))
    if model.settings["projection"] == "relaxed":
        what, measured = "root mean square of the distances", float(np.sqrt(np.mean(distances**2)))
    fine = epsilon >= 0 and measured <= epsilon + model.tolerance(epsilon)
    found = f"{what} {measured:.6g}, in the norm of κ + λδ"
    expected = f"at most ε = {epsilon:g}, with a tolerance of {DISTANCE_TOLERANCE:g} for rounding"
    checks.expect(f"{label}: constraint", fine, found, expected, topic="constraint")
    bound = model.settings.get("controller_epsilon")
    if bound is not None:
        norm = float(np.sqrt(np.max(model.squared_norms)))
        fine = float(bound) >= 0.0 and norm <= float(bound) + model.tolerance(float(bound))
        found = f"largest norm of a correction {norm:.6g}"
        expected = f"at most ε₀ = {float(bound):g}: no action changes by more half ranges"
        name = f"{label}: distance from the controller"
        checks.expect(name, fine, found, expected, topic="constraint")


def _check_kept(
    checks: Checks, content: PlainFile, model: PlainModel, label: str, formula: Formula | None
) -> None:
    """Check the policies that are kept beside the last ones, which exports and evaluations use."""
    if "kept.policies.weights" not in content.arrays:
        return
    knots, weights = (content.arrays[f"kept.policies.{part}"] for part in ("knots", "weights"))
    if not np.all(np.isfinite(weights)) or weights.shape[:2] != (len(knots), len(model.tasks) + 1):
        raise ValueError("the kept policies do not fit")
    try:
        gram = kernel_matrix(content.description["kernel"], knots)[0]
    except MissingFormulaError:
        if formula is None:
            return
        gram = np.asarray(formula(knots))
    rows = weights.transpose(1, 2, 0)

    def longest(functions: Floats) -> float:
        squares = np.einsum("fpl,lm,fpm->f", functions, gram, functions, optimize=True)
        return float(np.sqrt(max(np.max(squares, initial=0.0), 0.0)))

    radius, given = model.farthest, model.settings.get("controller_epsilon")
    bound = math.inf if given is None else float(given)
    apart, norm = longest(rows[:-1] - rows[-1]), longest(rows)
    fine = apart <= radius + model.tolerance(radius) and norm <= bound + model.tolerance(bound)
    found = f"largest distance {apart:.6g}, largest norm {norm:.6g}"
    expected = f"distances of at most {radius:g}, norms of at most {bound:g}"
    checks.expect(f"{label}: kept policies", fine, found, expected, topic="constraint")


def _largest(values: Floats) -> float:
    return float(np.max(np.abs(values), initial=0.0))
