"""Where work is done: threads, processes or a Ray cluster."""

from __future__ import annotations

import sys
from typing import NamedTuple

from crosslearning.errors import InputError, unknown_name

KINDS = ("auto", "threads", "processes", "ray")


class Backend(NamedTuple):
    """One of the kinds, and the address of a Ray cluster if one was given."""

    kind: str
    address: str | None = None


def read_backend(on: str) -> Backend:
    """Return what ``threads``, ``processes``, ``ray``, ``ray://host:port`` or ``auto`` means."""
    if not isinstance(on, str):
        raise InputError(f"on is {on!r}; give {', '.join(KINDS)} or ray://host:port")
    if on.startswith("ray://"):
        host, colon, port = on.removeprefix("ray://").rpartition(":")
        if not host or not colon or not port.isdigit():
            raise InputError(
                f"on is {on!r}; give the address of a Ray cluster as 'ray start --head' shows it, "
                "such as ray://192.168.0.1:6379, or ray for the cluster of this machine"
            )
        return Backend("ray", f"{host}:{port}")
    if on not in KINDS:
        raise unknown_name("place to run", on, KINDS)
    return Backend(on)


def in_a_ray_worker() -> bool:
    """Tell whether this process was started by a Ray cluster to work for it."""
    # Whoever works for one has it imported.
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
