"""Workers of a Ray cluster: actors on its machines, each with the tasks and one processor.

Ray is an extra, and imported where it is needed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from crosslearning.errors import InputError
from crosslearning.ray_cluster import join, leave
from crosslearning.rollouts.crew import Crew, HungError, LostError
from crosslearning.rollouts.watch import PLACE, Place

#: Seconds between two looks at a worker that is starting, or that is watched.
_LOOK = 1.0
#: A machine that joins is noticed within so many seconds.
_JOINING = 5.0


class RayCrew(Crew):
    """A crew of actors, which leaves the cluster when it is closed."""

    def close(self) -> None:
        """End all workers, and leave the cluster."""
        super().close()
        leave()


def ray_crew(
    kit: bytes,
    names: Sequence[str],
    address: str | None,
    workers: int | None,
    limit: float | None,
) -> Crew:
    """Return workers of a Ray cluster: so many, or as many as it has processors.

    Parameters
    ----------
    kit : bytes
        What a worker begins with.
    names : sequence of str
        Of the tasks.
    address : str, optional
        ``host:port`` of the cluster; by default that of this machine, which is started if there
        is none.
    workers : int, optional
    limit : float, optional
        Seconds that a step of an environment may take.
    """
    ray = join(address)
    stored = ray.put(kit)  # once, for all workers
    shared = _Policies(ray)
    looked, count = time.monotonic(), 0

    def joining() -> list[RayHand]:
        """Return workers for processors that have joined."""
        nonlocal looked, count
        if count and (workers is not None or time.monotonic() - looked < _JOINING):
            return []
        looked = time.monotonic()
        wanted = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        count, before = max(count, wanted), count
        return [RayHand(ray, stored, shared, limit) for _ in range(count - before)]

    return RayCrew(joining(), names, limit, joining)


class _Policies:
    """The policies of the newest call, put into the cluster's store once."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._lock = ray, threading.Lock()
        self._call, self._stored = -1, None

    def stored(self, call: int, policies: bytes) -> Any:
        """Return where they are."""
        with self._lock:
            if call != self._call:
                self._call, self._stored = call, self._ray.put(policies)
            return self._stored


class RayHand:
    """An actor that runs shards, as its thread sees it.

    Parameters
    ----------
    ray : module
    kit : ObjectRef
        What it begins with.
    shared : _Policies
    limit : float, optional
        Seconds that a step of an environment may take.
    """

    def __init__(self, ray: Any, kit: Any, shared: _Policies, limit: float | None) -> None:
        self._ray, self._kit, self._shared, self._limit = ray, kit, shared, limit
        self._actor: Any = None
        self._closed = False

    def start(self) -> None:
        """Ask for an actor; return when it has a processor and has made its tasks."""
        ray = self._ray
        self.stop()
        # Watched, it has a second thread, which tells where the first one is.
        threads = 1 if self._limit is None else 2
        options = {"num_cpus": 1, "max_restarts": 0, "max_concurrency": threads}
        actor = self._actor = ray.remote(**options)(Actor).remote()
        said = self._get(actor.begin.remote(self._kit))
        if said:
            raise InputError(f"a worker of the cluster cannot make the tasks: {said}")

    def run(self, call: int, policies: bytes, job: bytes) -> bytes:
        """Return the answer to a job."""
        stored = self._shared.stored(call, policies)
        try:
            asked = self._actor.answer.remote(call, stored, job)
        except self._ray.exceptions.RayError as problem:
            raise LostError(_words(problem)) from None
        if self._limit is not None:
            self._await(asked, self._limit)
        return self._get(asked)  # type: ignore[no-any-return]

    def _get(self, asked: Any) -> Any:
        """Return what was asked for, however long that takes, or say that the actor is lost."""
        ray = self._ray
        try:
            while not ray.wait([asked], timeout=_LOOK)[0]:
                pass
            return ray.get(asked)
        except ray.exceptions.RayTaskError as problem:
            raise InputError(f"a worker of the cluster failed: {problem}") from None
        except ray.exceptions.RayError as problem:
            raise LostError(_words(problem)) from None

    def _await(self, asked: Any, limit: float) -> None:
        """Wait for the answer, and ask how long the environment has been at its step."""
        ray, pause, silent = self._ray, min(0.25 * limit, _LOOK), time.monotonic()
        while not ray.wait([asked], timeout=pause)[0]:
            try:
                place = Place(*ray.get(self._actor.where.remote(), timeout=pause + _LOOK))
            except ray.exceptions.GetTimeoutError:
                # It keeps even its second thread from answering.
                if time.monotonic() - silent > limit + 10.0 * _LOOK:
                    self.stop()
                    raise HungError(None) from None
                continue
            except ray.exceptions.RayError:
                return  # it is lost, as asking for the answer will tell
            silent = time.monotonic()
            # Told as a length of time: the clocks of two machines differ.
            if place.since > limit:
                self.stop()
                raise HungError(place)

    def stop(self) -> None:
        """End the actor, whatever it does."""
        if self._actor is not None and self._ray.is_initialized():
            self._ray.kill(self._actor)


def _words(problem: Exception) -> str:
    """Return what became of an actor, in a few words."""
    kind = type(problem).__name__.removesuffix("Error")
    return f"of the cluster was lost ({kind})"


class Actor:
    """What runs in the cluster."""

    def begin(self, kit: bytes) -> str:
        """Make the tasks; return why that cannot be, or nothing."""
        from crosslearning.rollouts.worker import Desk

        self._place = [0.0] * PLACE
        self._call = -1
        try:
            self._desk = Desk(kit, self._place)
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"
        return ""

    def answer(self, call: int, policies: bytes, job: bytes) -> bytes:
        """Run a shard."""
        if call != self._call:
            self._desk.take(policies)
            self._call = call
        return self._desk.answer(job)

    def where(self) -> tuple[float, int, int, int]:
        """Return how long the environment has been at its step, and at which."""
        from crosslearning.rollouts.watch import read_place

        place = read_place(self._place)
        return place._replace(since=place.seconds)
