"""Rollouts where they are faster: in this process, or in several others.

Nothing is tried for its own sake. The first plans are run here, and timed; if they take long
enough for other processes to be of use, those are started beside this one, given the next plans,
and timed too. Whoever takes less time for a step goes on. What is found is the same to the last
bit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from crosslearning.errors import CrossLearningError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.crew import Crew
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.sharded_executor import ShardedExecutor
from crosslearning.tasks import Task

#: Seconds of rollouts before others are asked: about what it costs to start them, so that whoever
#: is done sooner never pays for it, and whoever goes on never pays more than twice.
_LONG = 5.0
#: Seconds of rollouts that are timed before anything is decided.
_ENOUGH = 1.0
#: Seconds that the rollouts of one plan take at least, where others are asked to help: to hand
#: them over and back costs a few thousandths.
_WORTH = 0.02
#: Others have to be faster by this factor.
_FASTER = 1.15

_Found = TypeVar("_Found", Samples, Episodes)


class _Pace:
    """How long a step takes."""

    def __init__(self) -> None:
        self.seconds, self.steps, self.calls = 0.0, 0, -1

    def add(self, seconds: float, steps: int) -> None:
        # The first call makes environments and compiles.
        self.calls += 1
        if self.calls:
            self.seconds += seconds
            self.steps += steps

    @property
    def known(self) -> bool:
        return self.calls >= 2 and self.seconds >= _ENOUGH and self.steps > 0

    @property
    def step(self) -> float:
        return self.seconds / self.steps


class ChoosingExecutor:
    """Runs environments of Python in this process, and in others once that has proved faster.

    Parameters
    ----------
    here : GymnasiumExecutor
    elsewhere : callable
        Returns the executor with workers, when it is asked to try.
    """

    def __init__(self, here: GymnasiumExecutor, elsewhere: Callable[[], ShardedExecutor]) -> None:
        self._here, self._make = here, elsewhere
        self._elsewhere: ShardedExecutor | None = None
        self._paces = {"here": _Pace(), "elsewhere": _Pace()}
        #: Who goes on, once it is known.
        self._chosen = ""
        self.news: deque[str] = deque()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks."""
        return self._here.tasks

    @property
    def scale(self) -> ActionScale:
        """From the actions of the policies to those of the tasks."""
        return self._here.scale

    @property
    def crew(self) -> Crew | None:
        """The workers, once they are at work."""
        if self._elsewhere is None or self._chosen != "elsewhere":
            return None
        return self._elsewhere.crew

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times."""
        return self._timed(
            lambda executor: executor.samples(policies, plan, mirrored),
            lambda found: int(found.steps.sum()),
        )

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run whole episodes of every task."""
        return self._timed(
            lambda executor: executor.episodes(policies, plan),
            lambda found: int(found.lengths.sum()),
        )

    def _timed(
        self,
        run: Callable[[GymnasiumExecutor | ShardedExecutor], _Found],
        steps: Callable[[_Found], int],
    ) -> _Found:
        who = self._chosen or self._next()
        executor = self._elsewhere if who == "elsewhere" else self._here
        assert executor is not None
        start = time.perf_counter()
        found = run(executor)
        # While the others get ready, they take of this one's time: that would not be fair.
        if not self._chosen and (who == "elsewhere" or self._elsewhere is None):
            self._paces[who].add(time.perf_counter() - start, steps(found))
            self._decide()
        return found

    def _next(self) -> str:
        """Return who runs the next plan: workers, as soon as they are there to be tried."""
        if self._elsewhere is None:
            return "here"
        crew = self._elsewhere.start()
        if crew.refused is not None:
            self._stay(str(crew.refused))
        return "elsewhere" if not self._chosen and crew.alive == crew.size else "here"

    def _stay(self, why: str = "") -> None:
        """Go on in this process, for good."""
        self._chosen = "here"
        if self._elsewhere is not None:
            self._elsewhere.close()
        if why:
            self.news.append(f"Rollouts stay in one process: {why}")

    def _decide(self) -> None:
        here, elsewhere = self._paces["here"], self._paces["elsewhere"]
        if not here.known:
            return
        if self._elsewhere is None:
            if here.seconds / here.calls < _WORTH:
                self._stay()
                return
            if here.seconds < _LONG:
                return
            try:
                self._elsewhere = self._make()
            except CrossLearningError as problem:  # such as tasks that cannot travel
                self._stay(str(problem))
            else:
                self._elsewhere.start()  # they get ready while this process goes on
        elif elsewhere.known:
            ratio = here.step / elsewhere.step
            if ratio < _FASTER:
                self._stay()
                return
            self._chosen = "elsewhere"
            size = self._elsewhere.start().size
            self.news.append(
                f"Rollouts go on in {size} processes, {ratio:.1f} times as fast as in one. "
                "Otherwise: --on threads."
            )
            self._here.close()

    def close(self) -> None:
        """End the workers, and close the environments."""
        self._here.close()
        if self._elsewhere is not None:
            self._elsewhere.close()
