"""What tests of a stranger's folders share."""

import pytest

from tests.security.examples import Listener


@pytest.fixture
def listener():
    """Return a socket to which nobody may connect."""
    with Listener() as result:
        yield result
