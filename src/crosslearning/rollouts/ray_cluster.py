"""Joining a Ray cluster, and leaving it; Ray is an extra."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crosslearning.errors import InputError, MissingExtraError

#: Seconds in which a cluster answers.
_ANSWER = 5.0

_lock = threading.Lock()
#: How many have joined through this process, and whether it was this that connected it.
_members = 0
_connected = False


def require_ray() -> Any:
    """Return Ray, or say which extra to install."""
    # Before it is imported: nothing is reported to anybody, and nothing is said twice.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ImportError as problem:
        raise MissingExtraError(
            "on = 'ray' needs Ray; install it on every machine: pip install 'crosslearning[ray]'"
        ) from problem
    return ray


def join(address: str | None = None) -> Any:
    """Connect this process to a cluster, unless it is, and return Ray.

    Parameters
    ----------
    address : str, optional
        ``host:port``; by default the cluster that this machine belongs to. If it belongs to none,
        one is started here and ended by :func:`leave`.
    """
    global _members, _connected
    ray = require_ray()
    with _lock:
        if not ray.is_initialized():
            try:
                if address is not None:
                    _knock(address)
                with _own_signals(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    _init(ray, address)
            except Exception as problem:  # of many kinds, and Ray's own say what to do
                raise InputError(
                    f"there is no Ray cluster to join at {address or 'this machine'}: {problem}. "
                    "Start one with 'ray start --head', and run this on a machine of it"
                ) from problem
            _connected = True
        _members += 1
    return ray


def _init(ray: Any, address: str | None) -> None:
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        ray.init(address=address or "auto", **options)
    except ConnectionError:
        if address is not None:
            raise
        ray.init(include_dashboard=False, **options)


def _knock(address: str) -> None:
    """Raise OSError if nobody answers there: Ray itself would ask for minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), timeout=_ANSWER).close()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the answers to signals as they are: Ray puts its own in the place of a run's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave() -> None:
    """Leave the cluster, if nobody else of this process needs it."""
    global _members, _connected
    with _lock:
        _members = max(0, _members - 1)
        if _members == 0 and _connected:
            _connected = False
            require_ray().shutdown()
