"""Decorators and pointers for functions that are compiled with Numba.

A compiled function takes arrays and numbers, fills its output arguments, draws no random number
and is defined at module level, so that its machine code is cached on disk. Its ``.py_func`` is
the readable reference.

Arrays are copied by ``np.positive(values, out)``: Numba compiles ``out[:] = values`` for seconds,
since it formats a message about shapes.
"""

from __future__ import annotations

import functools
import importlib
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

from crosslearning.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])


def _package_stamp() -> tuple[float, int]:
    """Return the last change and the total size of the package's files with compiled code."""
    paths = Path(__file__).parents[1].rglob("*.py")
    stats = [path.stat() for path in paths if b"crosslearning._base.compiled" in path.read_bytes()]
    return max(s.st_mtime for s in stats), sum(s.st_size for s in stats)


_STAMP = _package_stamp()


def _stamped(cached: Any) -> None:
    """Invalidate cached machine code when a file of a called function changes, too."""
    index = getattr(getattr(cached, "_cache", None), "_cache_file", None)
    if index is not None:
        index._source_stamp = (index._source_stamp, _STAMP)


def _has_file(function: Callable[..., Any]) -> bool:
    # Functions typed at a prompt have no file, and no cache.
    return Path(function.__code__.co_filename).exists()


def _compile(function: F, fastmath: set[str]) -> F:
    options = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    wrapped: F = numba.njit(cache=_has_file(function), **options)(function)
    _stamped(wrapped)
    return wrapped


def compiled(function: F) -> F:
    """Compile a module-level function; floating-point operations stay in written order.

    Examples
    --------
    >>> from crosslearning.tasks import compiled
    >>> @compiled
    ... def double(number):
    ...     return 2.0 * number
    >>> double(3.0)
    6.0
    """
    return _compile(function, {"contract"})


def compiled_reordered(function: F) -> F:
    """Compile a module-level function whose sums may be reordered to run in SIMD lanes."""
    # NaN and infinity keep their meaning, so that invalid numbers are seen.
    return _compile(function, {"contract", "reassoc", "nsz"})


class FastEntry:
    """The machine code of a compiled function, for the argument types of its first call.

    It skips Numba's dispatch, which for function pointers takes longer than a whole rollout. Every
    later call must have arguments of exactly the same types.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Any = function
        self._entry: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._entry is None:
            self._entry = self._function.compile(tuple(map(numba.typeof, arguments)))
        return self._entry(*arguments)


class FunctionPointer(types.WrapperAddressProtocol):  # type: ignore[misc]
    """A compiled function that other compiled code takes as an argument.

    All functions of one signature have one type, so the calling code is compiled once. Functions
    made by :func:`compiled` keep their floating-point rule; in others nothing is fused.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.python: Callable[..., Any] = getattr(function, "py_func", function)
        self._signature = signature
        rule = getattr(function, "targetoptions", {}).get("fastmath", False)
        options = {"error_model": "numpy", "fastmath": rule}
        self._entry = CFunc(self.python, normalize_signature(signature), {}, options)
        if _has_file(self.python):
            self._entry.enable_caching()
            _stamped(self._entry)
        try:
            self._entry.compile()
        except numba.core.errors.NumbaError as problem:
            plain = re.sub(r"\x1b\[[0-9;]*m", "", str(problem)).strip()
            raise InputError(
                f"the function {self.python.__name__!r} cannot be compiled for {signature}: "
                f"{plain}\nUse only arithmetic, math functions and NumPy calls that Numba "
                "supports, and functions that are compiled themselves (@compiled)."
            ) from problem

    def __reduce__(self) -> tuple[Any, ...]:
        # Addresses differ between processes: another one imports the function by its name.
        module, name = self.python.__module__, self.python.__qualname__
        if "<" in name:
            raise InputError(
                f"the function {name!r} cannot be sent to another process, which would have to "
                "find it by its name; define it at the top of a module"
            )
        return _find, (module, name, self._signature)

    def __deepcopy__(self, memo: Any) -> FunctionPointer:
        return self

    def __wrapper_address__(self) -> int:
        address: Any = self._entry.address
        return int(address)

    def signature(self) -> Any:
        """Return the signature, which Numba's wrapper address protocol requires."""
        return self._signature


@functools.cache
def pointer_to(function: Callable[..., Any], signature: Any) -> FunctionPointer:
    """Return the pointer to a function, one for each signature."""
    return FunctionPointer(function, signature)


def _find(module: str, name: str, signature: Any) -> FunctionPointer:
    return pointer_to(operator.attrgetter(name)(importlib.import_module(module)), signature)
