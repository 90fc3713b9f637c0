"""The limit of a watched command ends those that hang, on a busy machine as on an idle one."""

import signal
import time

import pytest

from tests.security import watch


def looked_at(monkeypatch, *computed):
    """Let the limit look after each of these seconds of processor time."""
    clock = 0.0
    monkeypatch.setattr(time, "process_time", lambda: clock)
    with watch._limit(watch.SECONDS):
        for seconds in computed:
            clock += seconds
            signal.raise_signal(signal.SIGALRM)


def test_a_command_on_a_busy_machine_is_not_ended(monkeypatch):
    looked_at(monkeypatch, 3.0, 1.0, 0.5, 2.0)


@pytest.mark.parametrize("computed", [(watch.SECONDS,), (40.0, 40.0), (0.0,), (3.0, 0.0)])
def test_a_command_that_hangs_is_ended(monkeypatch, computed):
    with pytest.raises(watch.TooLongError):
        looked_at(monkeypatch, *computed)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
