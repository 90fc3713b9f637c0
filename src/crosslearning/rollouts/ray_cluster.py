"""Workers of a Ray cluster; Ray is an extra."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from crosslearning.errors import InputError, MissingExtraError
from crosslearning.rollouts.pool import POLL, LostError, WorkerPool
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
                with _kept_signal_handlers(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    _connect(ray, address)
            except Exception as problem:  # of many kinds, and Ray's own say what to do
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
        ray.init(address=address, **options)
        return
    try:
        ray.init(address="auto", **options)
    except ConnectionError:
        ray.init(include_dashboard=False, **options)


@contextmanager
def _kept_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers that Ray replaces."""
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
    """Leave the cluster, if nothing else in this process uses it."""
    global _members, _connected
    with _lock:
        _members = max(0, _members - 1)
        if _members == 0 and _connected:
            _connected = False
            require_ray().shutdown()


class RayPool(WorkerPool):
    """Workers of a Ray cluster, each with one processor.

    By default it is the cluster of this machine, which is started if there is none, and there are
    as many workers as processors, including those of machines that join later.
    """

    def __init__(
        self,
        setup: bytes,
        names: Sequence[str],
        address: str | None = None,
        workers: int | None = None,
        step_seconds: float | None = None,
    ) -> None:
        super().__init__(names)
        self._ray = join(address)
        self._workers, self._step_seconds = workers, step_seconds
        self._setup = self._ray.put(setup)  # once, for all workers
        self._call = self._ray.remote(num_cpus=1, max_retries=0)(run_job)
        self._calls, self._polled, self._processors = 0, 0.0, 1
        self._running: set[Any] = set()

    @property
    def size(self) -> int:
        """The number of workers wanted."""
        return self._workers or self.alive

    @property
    def alive(self) -> int:
        """The number of workers that the cluster has processors for."""
        if time.monotonic() - self._polled > POLL:
            self._polled, before = time.monotonic(), self._processors
            self._processors = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            if self._processors < before:
                self.events.append(
                    f"A machine of the cluster was lost; {self._processors} processors are left."
                )
        return min(self._workers or self._processors, self._processors)

    def _share(self, policies: bytes) -> tuple[int, Any]:
        self._calls += 1
        return self._calls, self._ray.put(policies)

    def _submit(self, policies: tuple[int, Any], job: bytes) -> Any:
        setup = self._setup.hex(), self._setup, self._step_seconds
        future = self._call.remote(*setup, *policies, job)
        self._running.add(future)
        return future

    def _wait(self, futures: Sequence[Any]) -> Sequence[Any]:
        done: list[Any] = self._ray.wait(list(futures), timeout=POLL)[0]
        return done

    def _result(self, future: Any) -> bytes:
        errors = self._ray.exceptions
        self._running.discard(future)
        try:
            answer: bytes = self._ray.get(future)
            return answer
        except errors.RayTaskError as problem:
            raise InputError(f"a worker of the cluster failed: {problem}") from None
        except errors.RayError as problem:
            kind = type(problem).__name__.removesuffix("Error")
            raise LostError(f"of the cluster was lost ({kind})") from None

    def _abandon(self) -> None:
        for future in self._running:
            with suppress(Exception):  # the cluster may be gone
                self._ray.cancel(future, force=True)
        self._running.clear()

    def close(self) -> None:
        """Stop the running jobs and leave the cluster."""
        self._abandon()
        leave()
