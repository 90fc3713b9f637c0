"""Checks of a learner's file: that its numbers fit together and the constraint holds.

Plain NumPy from the file's bytes to the distances. Nothing of the library's numerics is used,
so that an error in either shows as a difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.certificates.verification.checks import Checks
from crosslearning.certificates.verification.plain_files import PlainFile, read_plain_file
from crosslearning.certificates.verification.plain_kernels import kernel_features, kernel_matrix
from crosslearning.errors import MissingFormulaError

Floats = NDArray[np.float64]

#: Points (n, q) to the matrix of κ at all pairs, for a kernel of the user's own formula.
Formula = Callable[[Floats], Floats]

#: λ of the dictionary's geometry κ + λδ, relative to κ(s, s).
RIDGE = 1e-6
#: The maintained inverse may drift before it is computed afresh; a real edit is far above.
INVERSE_TOLERANCE = 1e-5
#: Distances may exceed ε by this share: what rounding in projecting and pruning leaves.
DISTANCE_TOLERANCE = 1e-6
_PRECISION = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class PlainModel:
    """A learner's numbers, computed anew from its file.

    Attributes
    ----------
    description : dict
        The file's plain data: settings, kernel, tasks, counters.
    tasks : tuple of str
    method : str
        The name of the method that learned it.
    epsilon : float
    iteration, knots : int
    squared_norms : array, shape (N+1,)
        ‖h_i‖² and, last, ‖g‖².
    squared_distances : array, shape (N,)
        ‖h_i − g‖² in the norm of κ.
    ridged_distances : array, shape (N,)
        ‖h_i − g‖ in the norm of κ + λδ, in which the dictionary projects; never smaller.
    norm_errors, distance_errors : arrays, shapes (N+1,) and (N,)
        Bounds on what rounding may have done to the squares.
    """

    description: dict[str, Any]
    tasks: tuple[str, ...]
    method: str
    epsilon: float
    iteration: int
    knots: int
    squared_norms: Floats
    squared_distances: Floats
    ridged_distances: Floats
    norm_errors: Floats
    distance_errors: Floats

    @property
    def settings(self) -> dict[str, Any]:
        """What the learner was asked for."""
        return dict(self.description["settings"])

    @property
    def norms(self) -> Floats:
        """‖h_i‖ and, last, ‖g‖, shape (N+1,)."""
        return np.sqrt(self.squared_norms)

    @property
    def distances(self) -> Floats:
        """‖h_i − g‖ in the norm of κ, shape (N,)."""
        return np.sqrt(self.squared_distances)

    def room(self, bound: float) -> float:
        """Return by how much rounding may have carried a distance beyond its bound."""
        return DISTANCE_TOLERANCE * bound + 1e-9 * float(np.max(self.norms))


def check_file(checks: Checks, path: Path, label: str) -> PlainFile | None:
    """Check that a tensor file is whole and unedited; return its content if it can be read."""
    expected = "a file as long as its header says"
    content: PlainFile | None = None
    with checks.guarding(f"{label}: whole", expected):
        content = read_plain_file(path)
        checks.expect(f"{label}: whole", True, f"{path.stat().st_size} bytes", expected)
        checks.expect(
            f"{label}: checksum",
            content.claimed == content.computed,
            f"SHA-256 {content.computed[:16]}… of its content",
            f"{content.claimed[:16]}…, as the file says",
        )
    return content


def check_model(
    checks: Checks, content: PlainFile, label: str, formula: Formula | None = None
) -> PlainModel | None:
    """Check a learner's numbers; return them computed anew, or None if that is impossible."""
    model = None
    with checks.guarding(f"{label}: a learner", "the parts of a learner that fit together"):
        if _check_arrays(checks, content, label):
            model = _check_numbers(checks, content, label, formula)
    return model


def _method_of(description: dict[str, Any]) -> dict[str, Any]:
    """Return what the file says of its method: its name, and how many functions it keeps.

    Files of version 1 know one method, which keeps a direction for each task if it has momentum.
    """
    if description["version"] > 1:
        return dict(description["method"])
    momentum = description["settings"]["step_rule"] == "adam"
    return {"name": "policy-gradient", "functions": len(description["tasks"]) if momentum else 0}


def _check_arrays(checks: Checks, content: PlainFile, label: str) -> bool:
    arrays, description = content.arrays, content.description
    kind, version = description.get("kind"), description.get("version")
    names = {"knots", "features", "rows", "gram", "inverse", "scale"}
    # What a method keeps for itself: its own names in its own place, but in version 1 one array.
    own = {"mean_square"} if version == 1 else {n for n in arrays if n.startswith("method.")}
    lacking = sorted((names | own) - set(arrays))
    if not checks.expect(
        f"{label}: a learner",
        kind == "learner" and version in (1, 2) and not lacking,
        f"a {kind} of version {version}"
        + (f" without {', '.join(lacking)}" if lacking else " with all its arrays"),
        "a learner of version 1 or 2 with all its arrays",
    ):
        return False
    bad = [n for n in sorted(names) if arrays[n].dtype != np.float64]
    bad += [n for n in sorted(names | own) if not np.all(np.isfinite(arrays[n]))]
    finite = checks.expect(
        f"{label}: finite numbers",
        not bad,
        f"not so in {', '.join(bad)}" if bad else "all finite",
        "finite numbers in every array, of double precision in the dictionary's",
    )
    capacity, q = arrays["knots"].shape
    tasks, counts = description["tasks"], description["dictionary"]
    N = len(tasks)
    functions, outputs, _ = arrays["rows"].shape
    shapes = {
        "features": (arrays["features"].shape[0], capacity),
        "rows": (N + 1 + _method_of(description)["functions"], outputs, capacity),
        "gram": (capacity, capacity),
        "inverse": (capacity, capacity),
        "scale": (capacity,),
        **({"mean_square": (N,)} if version == 1 else {}),
    }
    wrong = [f"{n} {arrays[n].shape}" for n, shape in shapes.items() if arrays[n].shape != shape]
    if counts["guarded"] != N + 1:
        wrong.append(f"{counts['guarded']} guarded functions")
    if not 0 <= counts["_covered"] <= counts["_size"] <= capacity:
        wrong.append(f"{counts['_size']} knots in {capacity} slots")
    fits = checks.expect(
        f"{label}: shapes",
        not wrong,
        "wrong: " + ", ".join(wrong)
        if wrong
        else f"{counts['_size']} knots in R^{q}, {functions} functions to R^{outputs}",
        f"arrays for {N} tasks and a centre on one dictionary",
    )
    return finite and fits


def _check_numbers(
    checks: Checks, content: PlainFile, label: str, formula: Formula | None
) -> PlainModel:
    arrays, description = content.arrays, content.description
    L, covered = description["dictionary"]["_size"], description["dictionary"]["_covered"]
    knots, stored = arrays["knots"][:L], arrays["gram"][:L, :L]
    try:
        gram, error = kernel_matrix(description["kernel"], knots)
    except MissingFormulaError as missing:
        gram = stored if formula is None else np.asarray(formula(knots))
        error = 1e-12 * np.abs(gram)
        if formula is None:
            checks.impossible(
                f"{label}: Gram matrix",
                f"{missing}; the stored matrix is taken as it is",
                "pass the formula: verify_run(run, formula=kernel)",
            )
    if gram is not stored:
        excess = float(np.max(np.abs(stored - gram) - error, initial=0.0))
        checks.expect(
            f"{label}: Gram matrix",
            excess <= 0.0,
            f"farthest from κ at the knots: {_largest(stored - gram):.2g}",
            "the kernel at the stored knots, up to rounding",
        )
    _check_slots(checks, arrays, description["kernel"], L, label)
    scale = 1.0 / np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
    normalised = gram[:covered, :covered] * np.outer(scale[:covered], scale[:covered])
    product = arrays["inverse"][:covered, :covered] @ (normalised + RIDGE * np.eye(covered))
    residual = _largest(product - np.eye(covered))
    alike = np.abs(arrays["scale"][:L] - scale) <= 1e-12 * scale
    checks.expect(
        f"{label}: inverse",
        residual <= INVERSE_TOLERANCE and bool(np.all(alike)),
        f"farthest of P(K + λI) from the identity: {residual:.2g}",
        f"the stored P inverts K + λI, to {INVERSE_TOLERANCE:g}",
    )
    model = _measure(content, gram, error, scale)
    _check_constraint(checks, model, label)
    return model


def _check_slots(
    checks: Checks, arrays: dict[str, Floats], kernel: dict[str, Any], L: int, label: str
) -> None:
    # Policies are evaluated from the features, and over the empty slots too.
    features = kernel_features(kernel, arrays["knots"])
    tolerance = 1e-12 * (1.0 + np.max(np.abs(features), initial=0.0))
    fits = features.shape == arrays["features"].shape
    apart = _largest(arrays["features"] - features) if fits else math.inf
    checks.expect(
        f"{label}: features",
        apart <= tolerance,
        f"farthest from those of the knots: {apart:.2g}",
        "the stored features are those of the stored knots",
    )
    hidden = max(
        _largest(arrays["rows"][:, :, L:]),
        _largest(arrays["gram"][L:]),
        _largest(arrays["inverse"][L:]),
    )
    checks.expect(
        f"{label}: empty slots",
        hidden == 0.0,
        f"largest number in an empty slot: {hidden:.2g}",
        "zero: an empty slot carries no weight",
    )


def _measure(content: PlainFile, gram: Floats, error: Floats, scale: Floats) -> PlainModel:
    """Return norms and distances, Σ_p wᵀKw, with bounds on their rounding errors."""
    description = content.description
    tasks = tuple(str(name) for name in description["tasks"])
    N, L = len(tasks), len(gram)
    rows = content.arrays["rows"][: N + 1, :, :L]
    apart = rows[:N] - rows[N]

    def squares(weights: Floats) -> tuple[Floats, Floats]:
        values = np.einsum("fpl,lm,fpm->f", weights, gram, weights, optimize=True)
        sizes = np.abs(weights)
        rounding = 2.0 * (L + 16) * _PRECISION * np.abs(gram) + error
        bound = np.einsum("fpl,lm,fpm->f", sizes, rounding, sizes, optimize=True)
        return np.maximum(values, 0.0), bound

    squared_norms, norm_errors = squares(rows)
    squared_distances, distance_errors = squares(apart)
    ridge = RIDGE * np.sum((apart / scale) ** 2, axis=(1, 2))
    return PlainModel(
        description=description,
        tasks=tasks,
        method=str(_method_of(description)["name"]),
        epsilon=float(description["settings"]["epsilon"]),
        iteration=int(description["iteration"]),
        knots=L,
        squared_norms=squared_norms,
        squared_distances=squared_distances,
        ridged_distances=np.sqrt(squared_distances + ridge),
        norm_errors=norm_errors,
        distance_errors=distance_errors,
    )


def _check_constraint(checks: Checks, model: PlainModel, label: str) -> None:
    epsilon = model.epsilon
    if model.settings["projection"] == "relaxed":
        measured = float(np.sqrt(np.mean(model.ridged_distances**2)))
        found = f"root mean square of the distances {measured:.6g}"
    else:
        measured = float(np.max(model.ridged_distances))
        found = f"largest distance {measured:.6g}"
    checks.expect(
        f"{label}: constraint",
        epsilon >= 0 and measured <= epsilon + model.room(epsilon),
        f"{found}, in the norm of κ + λδ",
        f"at most ε = {epsilon:g}, with room of {DISTANCE_TOLERANCE:g} for rounding",
        topic="constraint",
    )


def _largest(values: Floats) -> float:
    return float(np.max(np.abs(values), initial=0.0))
