"""A task's life: begin and end its opening, log and report that it is open, close it. It is in one of five phases:

    STANDBY     it has no partitions. In scope global its state store follows the changelog, so that a take-over has
                little left to read; in scope partition the store is closed, since any task may come next
    WAITING     it has partitions, and is opened as soon as its retry is due
    OPENING     a thread of its own opens it (opening.py), and has the state store meanwhile
    CANCELLING  that opening is of no use any more, because the assignment has changed; its thread has not ended yet
    OPEN        its pipeline judges and commits batches (pipeline.py)

The worker's loop never waits for an opening: it polls the group and works on other tasks, and several tasks open side
by side. So the index belongs to one thread at a time: to the opener's in OPENING and CANCELLING, otherwise to the
loop's. A `Decider` refuses a second thread; only its `prepare` may run beside (judge.py).

A failure closes the pipeline and rolls back what was not confirmed (`close_pipeline`). The state store survives: it
holds what was read from the changelog and what this task has committed. The next opening reads the entries written
since.
"""

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum

from stream_dedup.errors import Interrupted, Outdated, StreamDedupError, StreamError
from stream_dedup.phrases import counted
from stream_dedup.worker.context import Retry, WorkerContext
from stream_dedup.worker.failed_records import FailedRecords
from stream_dedup.worker.group import Group
from stream_dedup.worker.observer import TaskState
from stream_dedup.worker.opening import open_pipeline
from stream_dedup.worker.pipeline import Pipeline
from stream_dedup.worker.state_store import StateStore

log = logging.getLogger(__name__)

# How long `close` waits for a cancelled opening to close its producer. The process can also end without that.
_CANCEL_SECONDS = 1.0


class Phase(Enum):
    """The phases of a task; the docstring of the module explains them."""

    STANDBY = "standby"
    WAITING = "waiting"
    OPENING = "opening"
    CANCELLING = "cancelling"
    OPEN = "open"


_NEXT: Mapping[Phase, frozenset[Phase]] = {
    Phase.STANDBY: frozenset({Phase.WAITING}),  # it gets partitions
    Phase.WAITING: frozenset({Phase.OPENING, Phase.STANDBY}),  # its retry is due; or it loses its partitions
    Phase.OPENING: frozenset({Phase.OPEN, Phase.WAITING, Phase.CANCELLING}),  # success; failure; another assignment
    Phase.CANCELLING: frozenset({Phase.WAITING, Phase.STANDBY}),  # the thread has ended
    Phase.OPEN: frozenset({Phase.WAITING, Phase.STANDBY}),  # failure; or it loses its partitions
}


class Task:
    """Some partitions and what works on them. `number`: that of the task's index in the changelog.

    `is_stopping` is set when the worker must end. `pipeline` is None unless the task is OPEN.
    """

    def __init__(self, name: str, number: int, context: WorkerContext, is_stopping: threading.Event) -> None:
        self.name = name
        self.phase = Phase.STANDBY
        self.partitions: frozenset[int] = frozenset()
        self.pipeline: Pipeline | None = None
        self.retry = Retry(context.settings, f"task {name}", context.runtime)
        self.failed = FailedRecords()
        self.failed_openings = 0  # in a row
        self.failing_since = 0.0  # monotonic seconds; of no meaning without failed openings
        self._number, self._context, self._is_stopping = number, context, is_stopping
        self._store: StateStore | None = None
        self._opening: Future[Pipeline] | None = None  # while OPENING or CANCELLING

    def _enter(self, phase: Phase) -> None:
        if phase not in _NEXT[self.phase]:
            raise RuntimeError(f"task {self.name} cannot be {phase.value} after {self.phase.value}")
        self.phase = phase

    def _rest(self) -> None:
        self._enter(Phase.WAITING if self.partitions else Phase.STANDBY)

    @property
    def state(self) -> TaskState:
        """What observers see of a task with partitions."""
        if self.phase is Phase.OPEN:
            return TaskState.OPEN
        return TaskState.FAILING if self.retry.failures else TaskState.OPENING

    @property
    def is_quiet(self) -> bool:
        """Whether no batch is being committed, and the task does not have to be opened."""
        return not self.partitions if self.pipeline is None else not self.pipeline.is_busy

    @property
    def is_idle(self) -> bool:
        """Whether the task is neither open nor being opened."""
        self._end_cancelled()
        return self.phase in (Phase.STANDBY, Phase.WAITING)

    # -- opening ---------------------------------------------------------------------------------------

    def assign(self, partitions: frozenset[int], reason: str) -> None:
        """Set the partitions of the task. If they change, the open task is closed; with none it stays closed."""
        if partitions == self.partitions:
            return
        self.close_pipeline(reason)
        self.partitions = partitions
        self.failed_openings = 0
        if self.phase is (Phase.STANDBY if partitions else Phase.WAITING):
            self._rest()

    def advance(self, group: Group) -> bool:
        """Start or finish opening the task, if it has partitions. Never waits.

        Returns whether the task has just been opened. Raises the error with which opening has failed.
        """
        self._end_cancelled()
        if self.phase is Phase.WAITING and self.retry.is_due and not self._is_stopping.is_set():
            self._begin_opening(group)
            return False
        if self.phase is not Phase.OPENING or self._opening is None or not self._opening.done():
            return False
        opening, self._opening = self._opening, None
        self._enter(Phase.OPEN if opening.exception() is None else Phase.WAITING)
        try:
            self.pipeline = pipeline = opening.result()
        except Interrupted:
            return False
        except StreamError as error:
            if not self.failed_openings:
                self.failing_since = self._context.runtime.monotonic()
            self.failed_openings += 1
            if isinstance(error, Outdated):
                self._drop_store()
            raise
        self.failed_openings = 0
        seconds = pipeline.opened_in
        # A task may open and fail every few seconds, for as long as a schema registry is away: that is logged once.
        log.log(
            logging.DEBUG if self.retry.failures > 1 else logging.INFO,
            "task %s is open: partitions %s, %s, %.1f s",
            self.name, sorted(self.partitions), counted(len(pipeline), "original"), seconds,
            extra={"task": self.name, "originals": len(pipeline), "seconds": round(seconds, 3)},
        )  # fmt: skip
        self._context.observer.task_opened(self.name, sorted(self.partitions), len(pipeline), seconds)
        return True

    def _begin_opening(self, group: Group) -> None:
        self._enter(Phase.OPENING)
        partitions = self.partitions

        def check() -> None:
            if self.phase is not Phase.OPENING:
                raise Interrupted("the assignment changed while the task was being opened")
            if self._is_stopping.is_set():
                raise Interrupted("the worker was stopped while the task was being opened")

        def open_task() -> Pipeline:
            if self._store is None:
                self._store = StateStore(self._context, self.name, self._number)
            return open_pipeline(partitions, group, self._store, self.failed, check)

        thread = self._context.thread(f"{self.name}-opener")
        self._opening = thread.start("opening", open_task)
        thread.end()

    def _end_cancelled(self) -> None:
        """Clean up after a cancelled opening once its thread has ended: the store is ours again."""
        if self.phase is Phase.CANCELLING and self._opening is not None and self._opening.done():
            opening, self._opening = self._opening, None
            self._discard(opening)
            self._rest()

    # -- standing by -------------------------------------------------------------------------------------

    def follow(self, topic_id: str) -> bool:
        """Let the store of a standby follow the changelog for a slice of time. Returns whether it could.

        `topic_id`: of the changelog, "" if unknown. Raises a StreamError if reading fails.
        """
        self._end_cancelled()
        if self.phase is not Phase.STANDBY:  # a cancelled opening still has the store
            return False
        try:
            if self._store is None:
                self._store = StateStore(self._context, self.name, self._number, topic_id)
            self._store.follow()
        except Outdated:
            self._drop_store()
            raise
        return True

    def reset_standby(self) -> None:
        """Drop what a standby has read, because its changelog is another topic now."""
        if self.is_idle:
            self._drop_store()

    @property
    def standby_store(self) -> StateStore | None:
        """The store, if it follows the changelog."""
        return self._store if self.phase is Phase.STANDBY else None

    # -- closing ---------------------------------------------------------------------------------------

    def close_pipeline(self, reason: str) -> None:
        """Close the open task or cancel its opening. If it still has partitions, `advance` opens it anew.

        The state store stays, without unconfirmed batches.
        """
        if self.phase is Phase.OPENING:
            self._enter(Phase.CANCELLING)
        if self.pipeline is None:
            return
        pipeline, self.pipeline = self.pipeline, None
        self._rest()
        pipeline.close(wait=False)
        if self._store is not None:
            self._store.rollback()
        self._context.observer.task_lost(self.name, reason)

    def close(self) -> Future[None]:
        """Close everything in the background: a producer may wait for its broker, and an index for its merge."""
        thread = self._context.thread(f"{self.name}-closing")
        done = thread.start("closing", self._close)
        thread.end()
        return done

    def _close(self) -> None:
        if self.phase is Phase.OPENING:
            self._enter(Phase.CANCELLING)
        opening, self._opening = self._opening, None
        if opening is not None:
            with suppress(TimeoutError):
                opening.exception(_CANCEL_SECONDS)
            if not opening.done():
                return  # its calls have time limits, and its resources end with the process
            self._discard(opening)
        if self.pipeline is not None:
            self.pipeline.close()
            self.pipeline = None
        if self._store is not None:
            self._store.close()
            self._store = None

    def _discard(self, opening: Future[Pipeline]) -> None:
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
