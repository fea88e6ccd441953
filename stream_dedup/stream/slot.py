"""A lane's place in a worker: opens it beside the worker's loop, and keeps its memory when the lane has to go.

In: the partitions that the lane is to have, errors of the lane. Out: a lane, or its memory following the changelog.
A lane opens in a thread of its own, so the loop polls the group and works on other lanes meanwhile, and several open
side by side. Whatever fails, the memory stays: it holds what was read of the changelog and what this lane has
committed, and the next opening reads what has come since. Only what was applied and not confirmed is taken out again.

Without partitions the lane is closed. In scope global its memory then follows the changelog (a standby), so that a
take-over need not read it from its beginning; in scope partition nobody knows beforehand which lane a member will take
over, and the memory goes.
"""

import logging
import threading
import time
from concurrent.futures import Future
from contextlib import suppress

from stream_dedup.errors import Interrupted, Outdated, StreamDedupError, StreamError
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.group import Group
from stream_dedup.stream.lane import Lane
from stream_dedup.stream.memory import Memory
from stream_dedup.stream.observer import LaneState
from stream_dedup.stream.retry import Retry
from stream_dedup.stream.surroundings import Surroundings

log = logging.getLogger(__name__)

# At the end an opening that was cut is waited for so long: it closes its producer. The process does not need that.
_END_SECONDS = 1.0


class _Opening:
    """A lane that is being opened in a thread."""

    def __init__(self, thread: Bounded, partitions: frozenset[int]) -> None:
        self.partitions = partitions
        self.is_cut = threading.Event()
        self.done: Future[Lane]
        self._thread = thread

    def begin(self, slot: "Slot", group: Group) -> None:
        self.done = self._thread.start("opening", lambda: slot.opened(group, self))
        self._thread.end()


class Slot:
    """One lane's place. `number` is its changelog partition; `is_stopping`: the worker is to end."""

    def __init__(self, name: str, number: int, around: Surroundings, is_stopping: threading.Event) -> None:
        self.name = name
        self.partitions: frozenset[int] = frozenset()
        self.lane: Lane | None = None
        self.retry = Retry(around.settings, f"lane {name}")
        self.following = Retry(around.settings, f"the standby of lane {name}")
        self.failed_openings = 0  # in a row
        self._failing_since = 0.0
        self._number, self._around, self._is_stopping = number, around, is_stopping
        self._memory: Memory | None = None
        self._opening: _Opening | None = None

    # -- what the worker asks for --------------------------------------------------------------------------

    def want(self, partitions: frozenset[int], reason: str) -> None:
        """From now on the lane has these partitions; none: it is closed. One that has them already stays as it is."""
        if partitions == self.partitions:
            return
        self.close_lane(reason)
        self.partitions = partitions
        self.failed_openings = 0

    def reopen(self, reason: str) -> None:
        """Closes the lane, or cuts its opening, to open it anew: others may have written meanwhile."""
        self.close_lane(reason)

    def advance(self, group: Group) -> bool:
        """Goes on opening the lane, if it is to be open; whether it has just been opened. Does not wait.

        Raises what opening has failed with.
        """
        opening = self._opening
        if opening is not None:
            if not opening.done.done():
                return False
            self._opening = None
            if opening.is_cut.is_set():
                self._discard(opening)
                return False
            try:
                lane = opening.done.result()
            except Interrupted:
                return False
            except StreamError as error:
                self._opening_failed(error)
                raise
            self.lane, self.failed_openings = lane, 0
            self._around.observer.lane_opened(self.name, sorted(lane.partitions), len(lane), lane.opened_in)
            return True
        if self.lane is None and self.partitions and self.retry.is_due and not self._is_stopping.is_set():
            self._opening = _Opening(self._around.thread(f"{self.name}-opener"), self.partitions)
            self._opening.begin(self, group)
        return False

    def opened(self, group: Group, opening: _Opening) -> Lane:
        """The lane; for the thread of the opening, to which the memory belongs until that ends."""

        def check() -> None:
            if opening.is_cut.is_set():
                raise Interrupted("the assignment changed while a lane was being opened")
            if self._is_stopping.is_set():
                raise Interrupted("a stop came while a lane was being opened")

        if self._memory is None:
            self._memory = Memory(self._around, self.name, self._number)
        return Lane(self.name, opening.partitions, group, self._around, check, self._memory)

    def start_over(self) -> None:
        """Forgets what a standby has read: its changelog is another topic now."""
        if self.lane is None and self._opening is None:
            self._forget()

    def follow(self, topic_id: str) -> None:
        """Lets the memory follow the changelog, for a slice of time; topic_id: of it, as far as is known.

        Raises a StreamError if that fails.
        """
        if self._opening is not None:  # it was cut, and the memory still belongs to it
            if self._opening.done.done():
                opening, self._opening = self._opening, None
                self._discard(opening)
            return
        if not self.following.is_due:
            return
        try:
            if self._memory is None:
                self._memory = Memory(self._around, self.name, self._number, topic_id)
            self._memory.follow()
        except Outdated:
            self._forget()
            raise
        self.following.succeeded()

    @property
    def behind(self) -> tuple[int, float] | None:
        """How far the memory is behind the changelog: offsets, and seconds since it was not; None: nobody knows."""
        return self._memory.behind if self._memory is not None and self._opening is None else None

    @property
    def is_resting(self) -> bool:
        """Whether nothing is about to happen: no batch is being committed, and no lane is to be opened."""
        return not self.partitions if self.lane is None else not self.lane.is_busy

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open or being opened."""
        return self.lane is None and self._opening is None

    @property
    def state(self) -> LaneState:
        if self.lane is not None:
            return LaneState.OPEN
        return LaneState.FAILING if self.retry.failures else LaneState.OPENING

    @property
    def cannot_open(self) -> float:
        """For how many seconds the lane has failed to open."""
        return time.monotonic() - self._failing_since if self.failed_openings else 0.0

    # -- the end of a lane ---------------------------------------------------------------------------------

    def close_lane(self, reason: str) -> None:
        """Closes the lane or cuts its opening. The memory stays, without what is not known to be committed."""
        if self._opening is not None:
            self._opening.is_cut.set()
        if self.lane is None:
            return
        lane, self.lane = self.lane, None
        lane.close(wait=False)
        self._settle_memory()
        self._around.observer.lane_lost(self.name, reason)

    def settle(self) -> None:
        """After a lane's opening was cut: takes what is left of it, once it has ended. Does not wait."""
        opening = self._opening
        if opening is not None and opening.is_cut.is_set() and opening.done.done():
            self._opening = None
            self._discard(opening)

    def close(self) -> Future[None]:
        """Lets go of everything, in the background: a producer may wait for its broker, and an index for its merge."""
        thread = self._around.thread(f"{self.name}-closing")
        done = thread.start("closing", self._close)
        thread.end()
        return done

    def _close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.is_cut.set()
            with suppress(TimeoutError):
                opening.done.exception(_END_SECONDS)
            if not opening.done.done():
                return  # it bounds itself, and what it holds ends with the process
            self._discard(opening)
        if self.lane is not None:
            self.lane.close()
            self.lane = None
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _discard(self, opening: _Opening) -> None:
        """What a cut opening has left."""
        if opening.done.exception() is None:
            opening.done.result().close(wait=False)
        elif isinstance(opening.done.exception(), Outdated):
            self._forget()
        elif not isinstance(opening.done.exception(), StreamDedupError):
            self._forget()  # a fault of ours, in the middle of nobody knows what

    def _opening_failed(self, error: StreamError) -> None:
        if not self.failed_openings:
            self._failing_since = time.monotonic()
        self.failed_openings += 1
        if isinstance(error, Outdated):
            self._forget()

    def _settle_memory(self) -> None:
        if self._memory is not None and not self._memory.rollback():
            log.warning("lane %s: its memory is not certain any more; it is read anew from the changelog", self.name)
            self._forget()

    def _forget(self) -> None:
        # In the background: an index that is merging ends its merge first.
        memory, self._memory = self._memory, None
        if memory is not None:
            self._around.thread(f"{self.name}-closing").end(memory.close)
