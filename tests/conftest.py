"""Settings that all tests share."""

import fcntl
import hashlib
import os
import signal
import tempfile

import pytest
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)
from hypothesis import settings
from matplotlib.figure import Figure
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from threadpoolctl import threadpool_limits

# A first call compiles for seconds, so no example has a deadline. Examples are the same in every
# run, so that a failure here is a failure everywhere; `make fuzz` draws others each time.
# A database would make runs differ by what earlier ones found.
settings.register_profile("same", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("random", settings.get_profile("same"), derandomize=False)
settings.load_profile("random" if os.environ.get("CROSSLEARNING_FUZZ") else "same")

# What a shell starts in the background ignores Ctrl-C, and so do its children: tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The process that starts the test workers makes a file for their locks, which ends with it.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _made = tempfile.NamedTemporaryFile()  # noqa: SIM115  (it ends with the tests)
    os.environ["CROSSLEARNING_TEST_LOCKS"] = _made.name
_locks = os.open(os.environ["CROSSLEARNING_TEST_LOCKS"], os.O_RDWR)
_compile = Dispatcher.compile


def _compile_once(self, signature):
    """Wait while the other worker compiles the same function, and load what it has made."""
    if isinstance(self._cache, NullCache) or signature in self.overloads:
        return _compile(self, signature)
    called = f"{self.py_func.__module__}.{self.py_func.__qualname__}{signature}"
    place = int.from_bytes(hashlib.sha256(called.encode()).digest()[:4], "big")
    # Numba's own lock comes first, so that no two threads here wait for each other.
    with global_compiler_lock:
        fcntl.lockf(_locks, fcntl.LOCK_EX, 1, place)
        try:
            return _compile(self, signature)
        finally:
            fcntl.lockf(_locks, fcntl.LOCK_UN, 1, place)


Dispatcher.compile = _compile_once


@pytest.fixture(autouse=True, scope="session")
def _state_of_nobody(tmp_path_factory):
    """Sign runs with a key of the tests' own: the user's home is left alone."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True, scope="session")
def _one_thread_for_blas():
    """Keep BLAS from fighting with the other test worker over two cores."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture
def undrawn(monkeypatch):
    """Leave figures undrawn where nobody looks at them: to draw takes most of a test's time."""
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **how: file.write(b"undrawn"))


def pytest_collection_modifyitems(items):
    """Let the second of two workers, which begins half-way, begin with pages in a browser.

    They need next to nothing compiled, so that it finds in Numba's cache what the first compiles.
    """
    pages, others = [], []
    for item in items:
        (pages if item.path.parent.name == "playground" else others).append(item)
    half = len(items) // 2
    items[:] = [*others[:half], *pages, *others[half:]]
