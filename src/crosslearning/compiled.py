"""How this library compiles: one decorator, so that every compiled body follows one rule.

A compiled body takes arrays and numbers, fills what it is told to fill, draws no random
number and lives at module level, where its machine code is cached on disk. Its readable
reference is its own ``.py_func``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types

from crosslearning.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

#: Sums may be reordered and fused so that loops become SIMD code. NaN and infinity keep
#: their meaning, so that a bad number is seen rather than optimised away.
REORDERED = {"contract", "reassoc", "nsz"}


def compiled(function: F) -> F:
    """Compile a module-level function; floating-point operations stay in written order."""
    wrapped: F = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(
        function
    )
    return wrapped


def compiled_reordered(function: F) -> F:
    """Compile a module-level function whose sums may be reordered to run in SIMD lanes."""
    wrapped: F = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDERED)(
        function
    )
    return wrapped


class FunctionPointer(types.WrapperAddressProtocol):  # type: ignore[misc]
    """A compiled function that other compiled code takes as an ordinary argument.

    All functions of one signature have one type, so the code that calls them is compiled
    once and cached, whichever function it is given.

    Parameters
    ----------
    function : callable
        A Python function, or one compiled with :func:`compiled`, that Numba can compile
        for ``signature``.
    signature : numba signature
        The exact types of its arguments and of its result.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.python: Callable[..., Any] = getattr(function, "py_func", function)
        self._signature = signature
        # What was typed into a prompt has no file beside which its machine code could lie.
        cacheable = Path(self.python.__code__.co_filename).exists()
        try:
            self._entry = numba.cfunc(signature, cache=cacheable, error_model="numpy")(self.python)
        except numba.core.errors.NumbaError as problem:
            raise InputError(
                f"the function {self.python.__name__!r} cannot be compiled for {signature}: "
                f"{problem}\nUse only arithmetic, math functions and NumPy calls that Numba "
                "supports."
            ) from problem

    def __wrapper_address__(self) -> int:
        address: int = self._entry.address
        return address

    def signature(self) -> Any:
        """Return the signature, as Numba's wrapper address protocol asks."""
        return self._signature
