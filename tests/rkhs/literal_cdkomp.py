"""Algorithm 3 of the paper, line by line, with a pseudo-inverse for every candidate.

Slow and of limited accuracy: the reference for the order of removals on small dictionaries.
"""

from __future__ import annotations

import numpy as np


def minimal_error(gram, weights, j):
    """Equations for e(j, h) and w*: the best expansion without knot j, and its squared error.

    Parameters
    ----------
    gram : array, shape (L, L)
    weights : array, shape (L, p)
    j : int

    Returns
    -------
    error : float
    refitted : array, shape (L−1, p)
    """
    others = [i for i in range(len(gram)) if i != j]
    refitted = np.linalg.pinv(gram[np.ix_(others, others)]) @ gram[others] @ weights
    error = (
        np.sum(weights * (gram @ weights))
        + np.sum(refitted * (gram[np.ix_(others, others)] @ refitted))
        - 2.0 * np.sum(refitted * (gram[others] @ weights))
    )
    return error, refitted


def cdkomp(gram, weights, budget, cumulative):
    """Return the order in which Algorithm 3 removes knots.

    Parameters
    ----------
    gram : array, shape (L, L)
    weights : array, shape (L, functions, p)
    budget : float
        β: compared with the squared error of each removal as printed, or with the root of
        the sum of squares over all removals if ``cumulative``.
    cumulative : bool
        Whether the budget is for all removals together, and the choice looks at the sum.

    Returns
    -------
    list of int
        Indices into the original dictionary.
    """
    left = list(range(len(gram)))
    order = []
    functions = weights.shape[1]
    spent = np.zeros(functions)
    while left:  # line 2, read as: until a removal is refused or nothing is left
        errors = np.empty((len(left), functions))
        refits = np.empty((len(left), len(left) - 1, functions, weights.shape[2]))
        for i in range(functions):  # line 3
            for j in range(len(left)):
                errors[j, i], refits[j, :, i] = minimal_error(gram, weights[:, i], j)  # line 4
        worst = np.max(errors + spent, axis=1) if cumulative else np.max(errors, axis=1)  # line 6
        j = int(np.argmin(worst))  # line 7
        limit = budget**2 if cumulative else budget
        if not worst[j] < limit:  # lines 8 and 9
            break
        spent += errors[j]
        weights = refits[j]  # line 10
        gram = np.delete(np.delete(gram, j, axis=0), j, axis=1)  # line 11
        order.append(left.pop(j))  # line 12
    return order
