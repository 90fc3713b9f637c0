"""Actions out of a finite set, chosen by scores; needs NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import FileFormatError, InputError

#: More options of one decision than this have too many scores to learn.
MOST_OPTIONS = 1000


@dataclass(frozen=True)
class Choices:
    """One or several decisions, each between a number of options.

    A policy gives each option a score, and the option with the greatest one is chosen. A decision
    between two has a single score, the second option's less the first's, whose sign decides.

    Examples
    --------
    >>> from crosslearning._base.choices import Choices
    >>> Choices((3,)).choose([[0.1, 0.7, -2.0], [0.3, 0.2, 0.1]])
    array([1, 0])
    """

    options: tuple[int, ...]  #: how many, for each decision
    first: tuple[int, ...] = (0,)  #: the number of the first option, for each decision
    shape: tuple[int, ...] = ()  #: of an action; () for a single number

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """The scores of each decision."""
        ends = np.cumsum([1 if n == 2 else n for n in self.options]).tolist()
        return tuple(map(slice, [0, *ends], ends))

    @property
    def size(self) -> int:
        """The number of scores."""
        return int(self.parts[-1].stop)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each score."""
        names = []
        for d, (n, first) in enumerate(zip(self.options, self.first, strict=True)):
            which = f" of decision {d}" if self.shape else ""
            if n == 2:
                names.append(f"score of {first + 1} over {first}{which}")
            else:
                names += [f"score of {first + option}{which}" for option in range(n)]
        return tuple(names)

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The numbers of the first and of the last options, one for each decision."""
        first = np.array(self.first, dtype=np.float64)
        return first, first + np.array(self.options) - 1.0

    def taken(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the options that scores (…, size) choose, each from 0, shape (…, decisions)."""
        given = np.asarray(scores)
        return np.stack(
            [
                (given[..., part.start] > 0) if n == 2 else given[..., part].argmax(axis=-1)
                for n, part in zip(self.options, self.parts, strict=True)
            ],
            axis=-1,
        ).astype(np.int64)

    def choose(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the actions that scores (…, size) choose, in the shape of an action."""
        listed = self.listed(scores)
        return listed.reshape((*listed.shape[:-1], *self.shape))

    def listed(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the numbers of the options that scores (…, size) choose, (…, decisions)."""
        return self.taken(scores) + np.array(self.first, dtype=np.int64)

    def scores(self, action: ArrayLike) -> NDArray[np.float64]:
        """Return scores (size,) that choose an action: 1 for what it takes, −1 for the others."""
        given = np.asarray(action)
        if given.size == len(self.options) and given.dtype.kind in "iubf":
            taken = given.ravel() - np.array(self.first)
        else:
            taken = np.full(len(self.options), -1)
        if not np.all((taken >= 0) & (taken < self.options) & (taken % 1 == 0)):
            raise InputError(f"the action is {action!r}; give {self}")
        scores = np.full(self.size, -1.0)
        for n, part, option in zip(self.options, self.parts, taken.astype(int), strict=True):
            scores[part][0 if n == 2 else option] = 1.0 if n > 2 or option else -1.0
        return scores

    def shortfalls(self, scores: ArrayLike, actions: ArrayLike) -> NDArray[np.float64]:
        """Return how far the options of actions are below the best, shape (n, decisions).

        ``scores`` have shape (n, size), and ``actions`` (n, decisions). What is no option at all
        falls infinitely short.
        """
        given, rows = np.asarray(scores, dtype=np.float64), np.arange(len(np.asarray(scores)))
        taken = np.asarray(actions, dtype=np.float64) - np.array(self.first)
        short = np.full(taken.shape, np.inf)
        for d, (n, part) in enumerate(zip(self.options, self.parts, strict=True)):
            each = given[:, part]
            if n == 2:
                each = np.concatenate([np.zeros_like(each), each], axis=1)
            fits = np.isin(taken[:, d], np.arange(n))
            option = np.where(fits, taken[:, d], 0.0).astype(np.int64)
            short[fits, d] = (each.max(axis=1) - each[rows, option])[fits]
        return short

    def __str__(self) -> str:
        ranges = [f"{a} to {a + n - 1}" for n, a in zip(self.options, self.first, strict=True)]
        if not self.shape:
            return f"a whole number from {ranges[0]}"
        return f"whole numbers of shape {self.shape}: from {', '.join(ranges)}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "options": list(self.options),
            "first": list(self.first),
            "shape": list(self.shape),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Choices:
        """Return the choices of :meth:`to_dict`."""
        parts = [tuple(map(int, data[key])) for key in ("options", "first", "shape")]
        options, first, shape = parts
        fits = len(options) == len(first) == int(np.prod(shape, dtype=np.int64)) >= 1
        if not fits or not all(2 <= n <= MOST_OPTIONS for n in options):
            raise FileFormatError(f"the choices of a policy do not fit together: {dict(data)}")
        return cls(options, first, shape)
