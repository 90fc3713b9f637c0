"""A crew: workers that take jobs from one queue, and are replaced when they are lost.

Each worker has a thread in this process that hands it one job at a time, so that nothing piles up
before a slow one, and that starts another in its place when it dies. A job that was lost goes to
whoever is free. What is found does not depend on who finds it.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from crosslearning.errors import TaskError
from crosslearning.rollouts.data import Episodes, Samples
from crosslearning.rollouts.shards import Job, Shard
from crosslearning.rollouts.watch import Place
from crosslearning.rollouts.worker import Answer, Told, pack_job, unpack_answer

#: How many workers may be lost over one rollout, and how often in a row one may fail to start.
MOST_LOST = 3
#: After so many seconds without a worker it is said that one waits.
_PATIENCE = 60.0
#: Seconds for workers to end by themselves what nobody waits for any more.
_GRACE = 1.0
#: Seconds for the threads to end.
_PARTING = 10.0


class LostError(Exception):
    """A worker is gone; the message says how it ended."""


class HungError(Exception):
    """An environment did not come back in time, and its worker was ended; where, if known."""

    def __init__(self, place: Place | None) -> None:
        super().__init__("a step took too long")
        self.place = place


class Hand(Protocol):
    """One worker, as its thread sees it."""

    def start(self) -> None:
        """Start it, anew if it was lost; return when it is ready, or raise LostError."""

    def run(self, call: int, policies: bytes, job: bytes) -> bytes:
        """Return its answer to a job; the policies are those of the call with this number."""

    def stop(self) -> None:
        """End it, from whatever thread and whatever it does."""


@dataclass
class _Piece:
    """A job on its way: its place in the order of the plan, and how often it was lost."""

    number: int
    job: Job
    lost: int = 0


@dataclass
class _Call:
    """What all workers are busy with."""

    number: int
    policies: bytes
    waiting: deque[_Piece]
    left: int  # how many are not found yet
    running: int = 0
    found: deque[tuple[Shard, Samples | Episodes]] = field(default_factory=deque)
    problems: dict[int, Exception] = field(default_factory=dict)


class Crew:
    """Workers, and the queue that they take from.

    Parameters
    ----------
    hands : sequence of Hand
    names : sequence of str
        Of the tasks, for messages.
    limit : float, optional
        Seconds that a step may take, for messages.
    joining : callable, optional
        Returns hands that have joined since it was last asked; it is at every call.
    """

    def __init__(
        self,
        hands: Sequence[Hand],
        names: Sequence[str],
        limit: float | None = None,
        joining: Callable[[], Sequence[Hand]] | None = None,
    ) -> None:
        self._names, self._limit, self._joining = list(names), limit, joining
        self._changed = threading.Condition()
        self._call: _Call | None = None
        self._calls = 0
        self._closed = False
        self._gone = 0
        self._ready: set[Hand] = set()
        #: Why no worker can ever begin.
        self.refused: Exception | None = None
        #: What workers warned of, for whoever takes it.
        self.told: deque[Told] = deque()
        #: What happened to workers, in sentences, for whoever shows them.
        self.news: deque[str] = deque()
        self._hands: list[Hand] = []
        self._threads: list[threading.Thread] = []
        self._hire(hands)

    def _hire(self, hands: Sequence[Hand]) -> None:
        for hand in hands:
            self._hands.append(hand)
            thread = threading.Thread(target=self._attend, args=(hand,), daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return len(self._hands)

    @property
    def alive(self) -> int:
        """How many of them are ready."""
        return len(self._ready)

    def run(
        self, policies: bytes, jobs: Sequence[Job]
    ) -> Iterator[tuple[Shard, Samples | Episodes]]:
        """Yield what is found of every job, as it comes; the longest jobs are begun first."""
        if self._joining is not None:
            self._hire(self._joining())
        longest_first = sorted(enumerate(jobs), key=lambda one: -one[1].steps)
        pieces = deque(_Piece(number, job) for number, job in longest_first)
        self._calls += 1
        call = _Call(self._calls, policies, pieces, len(pieces))
        with self._changed:
            self._call = call
            self._changed.notify_all()
        try:
            while call.left or call.found:
                self._wait(call)
                while call.found:
                    yield call.found.popleft()
        finally:
            self._settle(call)

    def _wait(self, call: _Call) -> None:
        """Return when something was found; raise what went wrong."""
        since: float | None = time.monotonic()
        with self._changed:
            while not call.found:
                if self.refused is not None:
                    raise self.refused
                if call.problems and not call.running:
                    # Of several the first in the order of the plan, whoever was faster.
                    raise call.problems[min(call.problems)]
                # Woken up now and then, so that Ctrl-C is noticed everywhere.
                self._changed.wait(1.0)
                if self._ready:
                    since = None
                if since is not None and time.monotonic() - since > _PATIENCE:
                    since = None
                    warnings.warn(
                        f"none of {self.size} workers is ready; waiting. Does the machine, or the "
                        "cluster, have processors to spare?",
                        stacklevel=2,
                    )

    def _settle(self, call: _Call) -> None:
        """See that no worker is busy with a call, also if it was interrupted."""
        until = time.monotonic() + _GRACE
        with self._changed:
            self._call = None
            call.waiting.clear()
            while call.running and time.monotonic() < until:
                self._changed.wait(_GRACE / 10.0)
        if call.running:
            for hand in self._hands:
                hand.stop()

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        until = time.monotonic() + _PARTING
        for hand, thread in zip(self._hands, self._threads, strict=True):
            hand.stop()
            # One that was about to start it once more is stopped again.
            while thread.is_alive() and time.monotonic() < until:
                thread.join(0.1)
                hand.stop()

    # In the threads of the workers --------------------------------------------------------

    def _attend(self, hand: Hand) -> None:
        """Start a worker and serve it; start another when it is lost."""
        if hasattr(signal, "pthread_sigmask"):
            # Ctrl-C is for the main thread; processes that are started here do not see it.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        failed = 0
        while not self._closed:
            try:
                hand.start()
            except Exception as problem:
                failed += 1
                if isinstance(problem, LostError):
                    if failed < MOST_LOST:
                        continue
                    problem = TaskError(f"workers cannot be started: one {problem}")
                    self._gone += 1
                    if self._gone < self.size:
                        break  # the others may do without it
                with self._changed:
                    self.refused = problem
                    self._changed.notify_all()
                break
            failed = 0
            with self._changed:
                self._ready.add(hand)
                self._changed.notify_all()
            known: set[tuple[int, ...]] = set()
            while self._serve(hand, known):
                pass
            with self._changed:
                self._ready.discard(hand)
        hand.stop()

    def _serve(self, hand: Hand, known: set[tuple[int, ...]]) -> bool:
        """Hand a worker one job; return False if it is lost."""
        with self._changed:
            while not self._closed and (self._call is None or not self._call.waiting):
                self._changed.wait()
            if self._closed:
                return False
            call = self._call
            assert call is not None
            piece = _best(call.waiting, known)
            call.running += 1
        known.add(piece.job.shard[:2])
        answer: Answer | Exception
        try:
            answer = unpack_answer(hand.run(call.number, call.policies, pack_job(piece.job)))
        except Exception as problem:
            answer = problem
        with self._changed:
            call.running -= 1
            self._take(call, piece, answer)
            self._changed.notify_all()
        return not isinstance(answer, LostError | HungError)

    def _take(self, call: _Call, piece: _Piece, answer: Answer | Exception) -> None:
        """Note what became of a job."""
        if isinstance(answer, LostError):
            self._again(call, piece, str(answer))
        elif isinstance(answer, HungError):
            self._fail(call, piece, self._hung(piece.job, answer.place))
        elif isinstance(answer, Exception):
            self._fail(call, piece, answer)
        elif answer.problem is not None:
            self._fail(call, piece, answer.problem)
        else:
            assert answer.found is not None
            call.left -= 1
            call.found.append((piece.job.shard, answer.found))
            self.told.extend(answer.told)

    def _fail(self, call: _Call, piece: _Piece, problem: Exception) -> None:
        call.problems[piece.number] = problem
        call.waiting.clear()

    def _again(self, call: _Call, piece: _Piece, how: str) -> None:
        """Let somebody else do what was lost; at last rollout by rollout, to tell which it is."""
        if self._closed or call is not self._call or call.problems:
            return
        lost, job = piece.lost + 1, piece.job
        self.news.append(f"A worker {how}; another takes its place, and its work is done again.")
        if lost == MOST_LOST:
            problem = TaskError(
                f"{lost} workers were lost over task {self._names[job.shard.first]!r}, the episode "
                f"with seed {job.plan.seeds[0, 0]}; the last one {how}. The iteration was not "
                "applied"
            )
            self._fail(call, piece, problem)
            return
        jobs = list(job.split()) if lost == MOST_LOST - 1 else [job]
        call.left += len(jobs) - 1
        call.waiting.extendleft(_Piece(piece.number, one, lost) for one in reversed(jobs))

    def _hung(self, job: Job, place: Place | None) -> TaskError:
        if place is None:
            task = self._names[job.shard.first]
            seeds = ", ".join(str(seed) for seed in job.plan.seeds.ravel()[:3])
            where = f"at a step of one of the episodes with seeds {seeds}"
        else:
            task = self._names[place.task]
            step = f"step {place.step}" if place.step else "the reset"
            where = f"at {step} of the episode with seed {place.seed}"
        return TaskError(
            f"task {task!r} took longer than step_seconds = {self._limit:g} {where}; its worker "
            "was ended. The iteration was not applied"
        )


def _best(waiting: deque[_Piece], known: set[tuple[int, ...]]) -> _Piece:
    """Take out the first job whose tasks a worker has made already, else the first of all."""
    for piece in waiting:
        if piece.job.shard[:2] in known:
            waiting.remove(piece)
            return piece
    return waiting.popleft()
