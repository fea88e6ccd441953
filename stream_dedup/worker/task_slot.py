"""The slot of a partition task in a worker: opens the task in the background, and keeps its state when it closes.

In: the partitions assigned to the task, and its errors. Out: an open task, or a state store that follows the changelog.
A task opens in a thread of its own. So the loop polls the group and works on other tasks meanwhile, and several tasks
open side by side. The state store survives every failure: it holds what was read from the changelog and what this task
has committed; only unconfirmed batches are rolled back. The next opening reads the entries written since.

Without partitions the task is closed. In scope global its state store then follows the changelog (a standby), so that a
take-over need not read it from the beginning. In scope partition the store is closed, since it is unknown beforehand
which task a member will take over.
"""

import logging
import threading
import time
from concurrent.futures import Future
from contextlib import suppress

from stream_dedup.errors import Interrupted, Outdated, StreamDedupError, StreamError
from stream_dedup.kafka.bounded import Retry
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.group import Group
from stream_dedup.worker.observer import TaskState
from stream_dedup.worker.refused import FailedRecords
from stream_dedup.worker.state_store import StateStore
from stream_dedup.worker.task import PartitionTask

log = logging.getLogger(__name__)

# How long `close` waits for a cancelled opening to close its producer. The process can also end without that.
_CANCEL_SECONDS = 1.0


class TaskSlot:
    """`number`: of the task's index in the changelog. `is_stopping` is set when the worker must end."""

    def __init__(self, name: str, number: int, context: WorkerContext, is_stopping: threading.Event) -> None:
        self.name = name
        self.partitions: frozenset[int] = frozenset()
        self.task: PartitionTask | None = None
        self.retry = Retry(context.settings, f"task {name}")
        self.standby_retry = Retry(context.settings, f"the standby of task {name}")
        self.failed = FailedRecords()
        self.failed_openings = 0  # in a row
        self._failing_since = 0.0
        self._number, self._context, self._is_stopping = number, context, is_stopping
        self._store: StateStore | None = None
        self._opening: Future[PartitionTask] | None = None
        self._is_cancelled = threading.Event()  # of this opening

    # -- opening and following --------------------------------------------------------------------------

    def assign(self, partitions: frozenset[int], reason: str) -> None:
        """Set the partitions of the task. If they change, the open task is closed; with none it stays closed."""
        if partitions == self.partitions:
            return
        self.close_task(reason)
        self.partitions = partitions
        self.failed_openings = 0

    def advance(self, group: Group) -> bool:
        """Start or finish opening the task, if it has partitions. Never waits.

        Returns whether the task has just been opened. Raises the error with which opening has failed.
        """
        if self._is_opening():
            return False
        opening, self._opening = self._opening, None
        if opening is None:
            if self.task is None and self.partitions and self.retry.is_due and not self._is_stopping.is_set():
                self._begin_opening(group)
            return False
        try:
            self.task = task = opening.result()
        except Interrupted:
            return False
        except StreamError as error:
            if not self.failed_openings:
                self._failing_since = time.monotonic()
            self.failed_openings += 1
            if isinstance(error, Outdated):
                self._drop_store()
            raise
        self.failed_openings = 0
        self._context.observer.task_opened(self.name, sorted(task.partitions), len(task), task.opened_in)
        return True

    def _begin_opening(self, group: Group) -> None:
        """Open the task in a thread of its own, which owns the state store meanwhile."""
        partitions, self._is_cancelled = self.partitions, threading.Event()
        is_cancelled = self._is_cancelled

        def check() -> None:
            if is_cancelled.is_set():
                raise Interrupted("the assignment changed while the task was being opened")
            if self._is_stopping.is_set():
                raise Interrupted("the worker was stopped while the task was being opened")

        def open_task() -> PartitionTask:
            if self._store is None:
                self._store = StateStore(self._context, self.name, self._number)
            return PartitionTask(self.name, partitions, group, self._context, check, self._store, self.failed)

        thread = self._context.thread(f"{self.name}-opener")
        self._opening = thread.start("opening", open_task)
        thread.end()

    def _is_opening(self) -> bool:
        """Whether an opening is under way. Cleans up after a cancelled one that has ended."""
        opening = self._opening
        if opening is None or not opening.done():
            return opening is not None
        if self._is_cancelled.is_set():
            self._opening = None
            self._discard(opening)
        return False

    def reset_standby(self) -> None:
        """Drop what a standby has read, because its changelog is another topic now."""
        if self.is_idle:
            self._drop_store()

    def follow(self, topic_id: str) -> None:
        """Let the state store follow the changelog for a slice of time. `topic_id`: of the changelog, "" if unknown.

        Raises a StreamError if that fails.
        """
        if self._is_opening() or not self.standby_retry.is_due:  # a cancelled opening still owns the state store
            return
        try:
            if self._store is None:
                self._store = StateStore(self._context, self.name, self._number, topic_id)
            self._store.follow()
        except Outdated:
            self._drop_store()
            raise
        self.standby_retry.succeeded()

    @property
    def standby_lag(self) -> tuple[int, float] | None:
        """The store's lag behind the changelog, offsets and seconds (`StateStore.lag`); None: unknown."""
        return self._store.lag if self._store is not None and self._opening is None else None

    @property
    def is_quiet(self) -> bool:
        """Whether no batch is being committed, and no task has to be opened."""
        return not self.partitions if self.task is None else not self.task.is_busy

    @property
    def is_idle(self) -> bool:
        """Whether no task is open or being opened."""
        return self.task is None and not self._is_opening()

    @property
    def state(self) -> TaskState:
        if self.task is not None:
            return TaskState.OPEN
        return TaskState.FAILING if self.retry.failures else TaskState.OPENING

    @property
    def failing_seconds(self) -> float:
        """For how long the task has failed to open; 0: it has not."""
        return time.monotonic() - self._failing_since if self.failed_openings else 0.0

    # -- closing ---------------------------------------------------------------------------------------

    def close_task(self, reason: str) -> None:
        """Close the task or cancel its opening. If it still has partitions, `advance` opens it anew.

        The state store stays, without unconfirmed batches.
        """
        self._is_cancelled.set()
        if self.task is None:
            return
        task, self.task = self.task, None
        task.close(wait=False)
        if self._store is not None and not self._store.rollback():
            log.warning("task %s: its index is restored from the changelog", self.name)
            self._drop_store()
        self._context.observer.task_lost(self.name, reason)

    def close(self) -> Future[None]:
        """Close everything in the background: a producer may wait for its broker, and an index for its merge."""
        thread = self._context.thread(f"{self.name}-closing")
        done = thread.start("closing", self._close)
        thread.end()
        return done

    def _close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            self._is_cancelled.set()
            with suppress(TimeoutError):
                opening.exception(_CANCEL_SECONDS)
            if not opening.done():
                return  # its calls have time limits, and its resources end with the process
            self._discard(opening)
        if self.task is not None:
            self.task.close()
            self.task = None
        if self._store is not None:
            self._store.close()
            self._store = None

    def _discard(self, opening: Future[PartitionTask]) -> None:
        """Clean up after a cancelled opening that has ended."""
        error = opening.exception()
        if error is None:
            opening.result().close(wait=False)
        elif isinstance(error, Outdated) or not isinstance(error, StreamDedupError):
            self._drop_store()  # after a bug of ours the store may be inconsistent

    def _drop_store(self) -> None:
        # In the background: an index that is merging ends its merge first.
        store, self._store = self._store, None
        if store is not None:
            self._context.thread(f"{self.name}-closing").end(store.close)
