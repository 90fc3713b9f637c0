"""Settings that all tests share."""

import os
import signal

import pytest
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)
from hypothesis import settings
from threadpoolctl import threadpool_limits

# A first call compiles for seconds, so no example has a deadline; examples are the same in
# every run, so that a failure here is a failure everywhere.
settings.register_profile("crosslearning", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("crosslearning")

# What a shell starts in the background ignores Ctrl-C, and so do its children: tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _state_of_nobody(tmp_path_factory):
    """Sign runs with a key of the tests' own: the user's home is left alone."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True, scope="session")
def _one_thread_for_blas():
    """Keep BLAS from fighting with the other test worker over two cores."""
    with threadpool_limits(1, user_api="blas"):
        yield
