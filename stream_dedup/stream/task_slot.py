"""A task's place in a worker: opens it beside the worker's loop, and keeps its memory when the task has to go.

In: the partitions that the task is to have, errors of the task. Out: a task, or its memory following the changelog.
A task opens in a thread of its own, so the loop polls the group and works on other tasks meanwhile, and several open
side by side. Whatever fails, the memory stays: it holds what was read of the changelog and what this task has
committed, and the next opening reads what has come since. Only what was applied and not confirmed is taken out again.

Without partitions the task is closed. In scope global its memory then follows the changelog (a standby), so that a
take-over need not read it from its beginning; in scope partition nobody knows beforehand which task a member will take
over, and the memory goes.
"""

import logging
import threading
import time
from concurrent.futures import Future
from contextlib import suppress

from stream_dedup.errors import Interrupted, Outdated, StreamDedupError, StreamError
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.group import Group
from stream_dedup.stream.observer import TaskState
from stream_dedup.stream.retry import Retry
from stream_dedup.stream.state_store import StateStore
from stream_dedup.stream.task import PartitionTask

log = logging.getLogger(__name__)

# At the end an opening that was cut is waited for so long: it closes its producer. The process does not need that.
_END_SECONDS = 1.0


class _Opening:
    """A task that is being opened in a thread."""

    def __init__(self, thread: Bounded, partitions: frozenset[int]) -> None:
        self.partitions = partitions
        self.is_cut = threading.Event()
        self.done: Future[PartitionTask]
        self._thread = thread

    def begin(self, slot: "TaskSlot", group: Group) -> None:
        self.done = self._thread.start("opening", lambda: slot.opened(group, self))
        self._thread.end()


class TaskSlot:
    """One task's place. `number` is its index's in the changelog; `is_stopping`: the worker is to end."""

    def __init__(self, name: str, number: int, context: WorkerContext, is_stopping: threading.Event) -> None:
        self.name = name
        self.partitions: frozenset[int] = frozenset()
        self.task: PartitionTask | None = None
        self.retry = Retry(context.settings, f"task {name}")
        self.following = Retry(context.settings, f"the standby of task {name}")
        self.failed_openings = 0  # in a row
        self._failing_since = 0.0
        self._number, self._context, self._is_stopping = number, context, is_stopping
        self._store: StateStore | None = None
        self._opening: _Opening | None = None

    # -- what the worker asks for --------------------------------------------------------------------------

    def want(self, partitions: frozenset[int], reason: str) -> None:
        """From now on the task has these partitions; none: it is closed. One that has them already stays as it is."""
        if partitions == self.partitions:
            return
        self.close_task(reason)
        self.partitions = partitions
        self.failed_openings = 0

    def reopen(self, reason: str) -> None:
        """Closes the task, or cuts its opening, to open it anew: others may have written meanwhile."""
        self.close_task(reason)

    def advance(self, group: Group) -> bool:
        """Goes on opening the task, if it is to be open; whether it has just been opened. Does not wait.

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
                task = opening.done.result()
            except Interrupted:
                return False
            except StreamError as error:
                self._opening_failed(error)
                raise
            self.task, self.failed_openings = task, 0
            self._context.observer.task_opened(self.name, sorted(task.partitions), len(task), task.opened_in)
            return True
        if self.task is None and self.partitions and self.retry.is_due and not self._is_stopping.is_set():
            self._opening = _Opening(self._context.thread(f"{self.name}-opener"), self.partitions)
            self._opening.begin(self, group)
        return False

    def opened(self, group: Group, opening: _Opening) -> PartitionTask:
        """The task; for the thread of the opening, to which the memory belongs until that ends."""

        def check() -> None:
            if opening.is_cut.is_set():
                raise Interrupted("the assignment changed while a task was being opened")
            if self._is_stopping.is_set():
                raise Interrupted("a stop came while a task was being opened")

        if self._store is None:
            self._store = StateStore(self._context, self.name, self._number)
        return PartitionTask(self.name, opening.partitions, group, self._context, check, self._store)

    def start_over(self) -> None:
        """Forgets what a standby has read: its changelog is another topic now."""
        if self.task is None and self._opening is None:
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
            if self._store is None:
                self._store = StateStore(self._context, self.name, self._number, topic_id)
            self._store.follow()
        except Outdated:
            self._forget()
            raise
        self.following.succeeded()

    @property
    def behind(self) -> tuple[int, float] | None:
        """How far the memory is behind the changelog: offsets, and seconds since it was not; None: nobody knows."""
        return self._store.behind if self._store is not None and self._opening is None else None

    @property
    def is_resting(self) -> bool:
        """Whether nothing is about to happen: no batch is being committed, and no task is to be opened."""
        return not self.partitions if self.task is None else not self.task.is_busy

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open or being opened."""
        return self.task is None and self._opening is None

    @property
    def state(self) -> TaskState:
        if self.task is not None:
            return TaskState.OPEN
        return TaskState.FAILING if self.retry.failures else TaskState.OPENING

    @property
    def cannot_open(self) -> float:
        """For how many seconds the task has failed to open."""
        return time.monotonic() - self._failing_since if self.failed_openings else 0.0

    # -- the end of a task ---------------------------------------------------------------------------------

    def close_task(self, reason: str) -> None:
        """Closes the task or cuts its opening. The memory stays, without what is not known to be committed."""
        if self._opening is not None:
            self._opening.is_cut.set()
        if self.task is None:
            return
        task, self.task = self.task, None
        task.close(wait=False)
        self._discard_uncertain_state()
        self._context.observer.task_lost(self.name, reason)

    def settle(self) -> None:
        """After a task's opening was cut: takes what is left of it, once it has ended. Does not wait."""
        opening = self._opening
        if opening is not None and opening.is_cut.is_set() and opening.done.done():
            self._opening = None
            self._discard(opening)

    def close(self) -> Future[None]:
        """Lets go of everything, in the background: a producer may wait for its broker, and an index for its merge."""
        thread = self._context.thread(f"{self.name}-closing")
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
        if self.task is not None:
            self.task.close()
            self.task = None
        if self._store is not None:
            self._store.close()
            self._store = None

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

    def _discard_uncertain_state(self) -> None:
        if self._store is not None and not self._store.rollback():
            log.warning("task %s: its memory is not certain any more; it is read anew from the changelog", self.name)
            self._forget()

    def _forget(self) -> None:
        # In the background: an index that is merging ends its merge first.
        store, self._store = self._store, None
        if store is not None:
            self._context.thread(f"{self.name}-closing").end(store.close)
