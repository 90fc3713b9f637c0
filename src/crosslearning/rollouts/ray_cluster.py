"""Workers of a Ray cluster; Ray is an extra."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
import warnings
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from crosslearning._base.interrupts import kept_handlers
from crosslearning.errors import InputError, MissingExtraError
from crosslearning.rollouts.sharded_executor import POLL, ShardedExecutor
from crosslearning.rollouts.worker import run_job

#: Seconds in which a cluster answers.
_TIMEOUT = 5.0

_lock = threading.Lock()
#: How many users of this process have joined, and whether this module connected it.
_members = 0
_connected = False


def require_ray() -> Any:
    """Return Ray, or raise an error that names the extra to install."""
    # Before the import: no usage reports, and no repeated warnings.
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
    """Connect this process to a cluster, unless it is connected, and return Ray.

    ``address`` is ``host:port``, by default the cluster of this machine. If there is none, one is
    started, and ended by :func:`leave`.
    """
    global _members, _connected
    ray = require_ray()
    with _lock:
        if not ray.is_initialized():
            try:
                with kept_handlers(signal.SIGINT, signal.SIGTERM), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    _connect(ray, address)  # it replaces the handlers
            except Exception as problem:  # of many kinds
                raise InputError(
                    f"there is no Ray cluster to join at {address or 'this machine'}: {problem}. "
                    "Start one with 'ray start --head', and run this on a machine of it"
                ) from problem
            _connected = True
        _members += 1
    return ray


def _connect(ray: Any, address: str | None) -> None:
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is not None:
        # Fail at once if nothing answers there: Ray itself would retry for minutes.
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=_TIMEOUT).close()
    try:
        ray.init(address=address or "auto", **options)
    except ConnectionError:
        if address is not None:
            raise
        ray.init(include_dashboard=False, **options)


def leave() -> None:
    """Leave the cluster, if nothing else in this process uses it."""
    global _members, _connected
    with _lock:
        _members = max(0, _members - 1)
        if _members == 0 and _connected:
            _connected = False
            require_ray().shutdown()


class RayExecutor(ShardedExecutor):
    """Runs rollouts on workers of a Ray cluster, each with one processor.

    By default it is the cluster of this machine, which is started if there is none, and there are
    as many workers as processors, including those of machines that join later.
    """

    _ray: Any = None

    def __init__(self, *arguments: Any, address: str | None = None) -> None:
        require_ray()
        super().__init__(*arguments)
        self._address = address
        self._polled, self._processors = 0.0, 1
        #: The running jobs as Ray knows them.
        self._references: WeakKeyDictionary[Future[bytes], Any] = WeakKeyDictionary()

    def start(self) -> None:
        """Join the cluster."""
        if self._ray is None:
            self._ray = join(self._address)
            self._stored = self._ray.put(self._setup)  # once, for all workers
            self._call = self._ray.remote(num_cpus=1, max_retries=0)(run_job)

    def _alive(self) -> int:
        if self._ray is None:
            return 0
        if time.monotonic() - self._polled > POLL:
            self._polled, before = time.monotonic(), self._processors
            self._processors = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            if self._processors < before:
                self.events.append(
                    f"A machine of the cluster was lost; {self._processors} processors are left."
                )
        return min(self._wanted or self._processors, self._processors)

    def _submit(self, job: bytes) -> Future[bytes]:
        reference = self._call.remote(self._stored.hex(), self._stored, job)
        future: Future[bytes] = reference.future()
        self._references[future] = reference
        return future

    def _how_lost(self, problem: BaseException) -> str:
        errors = self._ray.exceptions
        if isinstance(problem, errors.RayTaskError):
            raise InputError(f"a worker of the cluster failed: {problem}") from None
        if not isinstance(problem, errors.RayError):
            raise problem
        return f"of the cluster was lost ({type(problem).__name__.removesuffix('Error')})"

    def close(self) -> None:
        """Stop the running jobs and leave the cluster."""
        if self._ray is not None:
            for reference in self._references.values():
                with suppress(Exception):  # the cluster may be gone
                    self._ray.cancel(reference, force=True)
            self._ray = None
            leave()
