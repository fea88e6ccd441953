"""The worker's loop: poll the input, cut what came into batches for each task, and follow the assignment.

`Worker(settings).run(stop)` returns within ten seconds after `stop` is set.

A task that fails is closed and reopened by itself (task.py), with growing pauses while Kafka is away; the other tasks
go on. A member that cannot open any task for long gives its role up, so that another member works. The worker ends only
with an error that no retry can cure: a topic that would lose records, a missing right, a changelog of another scheme,
an input that was recreated, or deleted before it was read. The message says what to do.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import (
    Fenced,
    Interrupted,
    LoginRefused,
    Outdated,
    RecordsGone,
    RegistryAway,
    Stalled,
    StreamDedupError,
    StreamError,
    TransactionFailed,
)
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import most_originals
from stream_dedup.kafka.record_batch import content_bytes
from stream_dedup.kafka.runtime import REAL, Runtime
from stream_dedup.settings import Settings
from stream_dedup.settings.judging import FEWEST_ORIGINALS
from stream_dedup.worker.context import Retry, WorkerContext
from stream_dedup.worker.group import Group, is_member
from stream_dedup.worker.observer import Observer, TaskState
from stream_dedup.worker.pipeline import Pipeline
from stream_dedup.worker.resume import check_changelog
from stream_dedup.worker.task import Task
from stream_dedup.worker.topic_watch import TopicWatch

log = logging.getLogger(__name__)

# Container runtimes kill ten seconds after SIGTERM. The running transaction may use six of them; the rest is for
# leaving the group.
STOP_SECONDS = 6.0
# Then all producers and indexes are closed side by side, for this long at most. Nothing depends on it: the next member
# that opens a task fences its producer.
_CLOSE_SECONDS = 1.5
_POLL_MS = 200  # also how fast the worker reacts to a stop
# A poll is shorter while a batch is being committed: records on their way still arrive within it, and the worker
# reports the commit right after it.
_POLL_BESIDE_MS = 20
# The most polls of one iteration. It ends with a wait for offsets, some 30 ms, and a rebalance waits for its end.
_POLLS = 4
# A position that has passed only control records and aborted records is committed by itself this long after the last
# commit: before any retention deletes them, and seldom enough to cost nothing.
_MARKERS_SECONDS = 60.0
# Fewer records than this share of `batch_items` (100 of 2,000) are judged faster than committed. Then nothing is polled
# until the commit is over: a record that came meanwhile would be in a batch that is complete too early, and those
# behind it would wait for two commits (5 ms of 30 at 100 records a second).
_FEW = 1 / 20
_RETRYABLE = (TransactionFailed, Stalled, Fenced, Outdated, RegistryAway)
# A member gives its role up after this number of failed openings in a row, over a session's time at least: after that
# time the group would also reassign the role of a dead member. One or two openings fail while a broker is replaced, and
# another member would do no better.
_FAILED_OPENINGS = 3
# In scope partition the group gives a member that comes back partitions again, so it stays away longer each time.
_LONGEST_ABSENCE = 16  # sessions
_GLOBAL = "global"


class Worker:
    """One member of the group. `decider` makes an empty index."""

    def __init__(
        self,
        settings: Settings,
        *,
        observer: Observer | None = None,
        runtime: Runtime = REAL,
        decider: Callable[[Settings], Decider] = Decider,
    ) -> None:
        self._settings = settings
        self._observer = observer or Observer()
        self._is_global = settings.worker.is_global
        self._retryable = (*_RETRYABLE, LoginRefused) if settings.kafka.login_is_in_file else _RETRYABLE
        self._runtime, self._monotonic = runtime, runtime.monotonic
        self._context = WorkerContext(settings, self._observer, runtime, decider, self._remaining)
        self._watch = TopicWatch(self._context)
        self._group: Group | None = None
        self._membership: Any = None  # as it was right after the last poll (P4)
        self._next_position_commit = 0.0  # monotonic seconds
        # The count of changes when the assignment was last applied, and reported. None: apply it anew, and let the
        # consumer read from the positions of the tasks again.
        self._applied_change: int | None = None
        self._reported_change: int | None = None
        self._tasks: dict[str, Task] = {}
        self._states: dict[str, TaskState] = {}  # as last reported
        self._stop = threading.Event()
        self._stop_at = float("inf")
        self._retry = Retry(settings, "group", runtime)  # for errors that concern all tasks
        self._standby_retry = Retry(settings, f"the standby of task {_GLOBAL}", runtime)
        self._last_poll = 0.0  # of the group, monotonic seconds
        self._active_member: str | None = None  # for which this member stands by, as last logged; "": unknown
        self._absences = 0  # in a row, without an opened task between

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set. Raises StreamDedupError if a retry would not help."""
        self._stop = stop
        try:
            while not stop.is_set():
                self._observer.heartbeat()
                try:
                    self._iterate()
                except Interrupted:
                    continue
                except self._retryable as error:
                    self._back_off(error)
                except RecordsGone:
                    with suppress(*self._retryable):
                        self._watch.check_now()  # raises TopicError if the cause is that the input was recreated
                    raise
            self._commit_last_positions()
        except StreamDedupError as error:
            self._observer.error(error, None)
            raise
        finally:
            self._close()

    # -- one iteration -----------------------------------------------------------------------------------

    def _iterate(self) -> None:
        waiting = not self._retry.is_due
        if self._group is None:
            if waiting:
                self._stop.wait(_POLL_MS / 1000)
                self._stand_by()
                return
            topics = self._context.check_topics()  # raises TopicError for topics that would lose records
            self._watch.expect(topics)
            self._bound_originals(topics[self._settings.topics.input].partitions)
            self._group = Group(self._context, is_reluctant=self._absences > 0)
            self._applied_change = self._reported_change = None
        if waiting:
            self._group.pause()
        self._check_changelog()
        polled, failed = self._poll(self._group)
        self._last_poll = self._monotonic()
        if is_member(self._membership):
            self._watch.joining_since = None
        elif self._watch.joining_since is None:
            self._watch.joining_since = self._last_poll
        positions = {} if waiting or failed is not None else self._group.positions()
        taking = {number for task, _ in self._open_tasks() for number in task.partitions}
        self._watch.taken = {number: offset for number, offset in positions.items() if number in taking}
        self._watch.is_connected = self._group.is_connected
        if not waiting:
            self._dispatch(self._group, polled, positions)
        if failed is not None:
            self._attempt_all(Pipeline.finish)
            raise failed

    def _bound_originals(self, partitions: int) -> None:
        """Set how many originals a task may remember. Raises ConfigError if `worker.memory` is too small.

        In scope partition one member may get all partitions, so the tasks share the memory, unless it is set by hand.
        """
        settings, scheme = self._settings, Scheme(self._settings.fingerprint)
        tasks = 1 if self._is_global or settings.window.max_originals else partitions
        originals = most_originals(settings, scheme, tasks, fewest=FEWEST_ORIGINALS)
        window = settings.window.model_copy(update={"max_originals": originals})
        self._context = replace(self._context, settings=settings.model_copy(update={"window": window}))

    def _check_changelog(self) -> None:
        """Report a changelog that was recreated. The index in memory is complete, which no restore would be."""
        group = self._settings.kafka.group_id
        self._watch.opening = [
            f"{group}-{task.name}" for task in self._tasks.values() if task.partitions and task.pipeline is None
        ]
        change = self._watch.poll()
        if change is None:
            return
        for task in self._tasks.values():
            if not task.partitions:
                task.reset_standby()  # it follows the new changelog; what it read before may have a gap
        reason = f"{change} while the workers run"
        if self._open_tasks():
            log.error(
                "%s. The index of this member is complete, and it goes on with it; the next member to take over will "
                "have only what is written from now on. Leave this member running for one window, or make a complete "
                "changelog: `stream-dedup migrate` with another [topics] changelog (scope global)", reason,
            )  # fmt: skip
            self._observer.state_lost(reason)
        else:
            log.warning("%s; this standby follows what is written from now on", reason)

    def _dispatch(self, group: Group, polled: Sequence[Mapping[int, list[Any]]], positions: Mapping[int, int]) -> None:
        """Give polled records to their tasks, unless the assignment has changed. `positions`: the consumer's."""
        if self._applied_change != group.changes.count:
            if is_member(self._membership):
                self._apply_assignment(group)  # the polled records are polled again
            return
        for task, pipeline in self._open_tasks():
            if not pipeline.is_lag_known:  # before the first batch, which may be long in work
                pipeline.report_lag(group.ends(task.partitions))
        if not polled:
            self._attempt_all(Pipeline.finish)
            for task, pipeline in self._open_tasks():
                pipeline.pass_markers(positions, group.ends(task.partitions))
        elif not is_member(self._membership):
            self._rewind(group)
            return
        self._commit_new_positions()
        for task, _ in self._open_tasks():
            self._process(task, polled, group, positions)
        count = sum(len(batch) for records in polled for batch in records.values())
        are_few = count < _FEW * self._settings.worker.batch_items
        self._attempt_all(Pipeline.finish if are_few else Pipeline.wait_for_offsets)
        self._advance(group)
        self._stand_by()
        self._retry.succeeded()
        self._give_up(group)
        # Last, because it reports that nothing has failed since the previous iteration.
        names = [task.name for task, _ in self._open_tasks()]
        if names or not any(task.partitions for task in self._tasks.values()):
            self._observer.loop_completed(names)

    def _process(
        self, task: Task, polled: Sequence[Mapping[int, list[Any]]], group: Group, positions: Mapping[int, int]
    ) -> None:
        """Process the task's share of the polled records, until it fails."""
        share = [record for records in polled for partition in task.partitions for record in records.get(partition, ())]
        batches = list(self._batches(share, task.failed.batch_limit))
        for batch, next_batch in zip_longest(batches, batches[1:], fillvalue=()):
            if self._stop.is_set():  # the rest is polled again, by this member or the next
                return
            # After the last batch everything up to the consumer's position is processed.
            reached = {} if next_batch else positions
            ends = group.ends(task.partitions)
            self._attempt(task, Pipeline.process, batch, self._membership, ends, next_batch, reached)

    def _poll(self, group: Group) -> tuple[list[dict[int, list[Any]]], StreamError | None]:
        """Return the records of one or more polls, and the error of a later poll. Notes the last membership.

        It polls again while more records wait and those polled have fewer bytes than a batch may have, so that the
        offsets of one batch are sent while the next one is judged. Records from before an error are processed first; no
        poll follows an error, since the client may not survive it.
        """
        polled: list[dict[int, list[Any]]] = []
        size = 0
        is_busy = any(not task.is_quiet for task in self._tasks.values())
        records, self._membership = group.poll(_POLL_BESIDE_MS if is_busy else _POLL_MS)
        while records:
            polled.append(records)
            size += sum(content_bytes(record) for batch in records.values() for record in batch)
            ends = group.ends(records)
            has_more = any(batch[-1].offset + 1 < ends.get(partition, 0) for partition, batch in records.items())
            is_settled = self._applied_change == group.changes.count and is_member(self._membership)
            if not has_more or len(polled) == _POLLS or not is_settled or size >= self._settings.worker.batch_bytes:
                break
            try:
                records, self._membership = group.poll(0)
            except StreamError as error:
                return polled, error
        return polled, None

    def _commit_new_positions(self) -> None:
        """Commit positions without a batch: of a new task before anything goes out, of others at times (markers)."""
        if not is_member(self._membership) or self._stop.is_set():
            return
        is_time = self._monotonic() >= self._next_position_commit
        for task, pipeline in self._open_tasks():
            if pipeline.lacks_offsets or (is_time and pipeline.has_uncommitted_positions):
                self._attempt(task, Pipeline.commit_positions, self._membership)
        if is_time:
            self._next_position_commit = self._monotonic() + _MARKERS_SECONDS

    def _commit_last_positions(self) -> None:
        """Commit positions before a stop, which may outlast the retention of a control record."""
        with suppress(*self._retryable):
            self._attempt_all(Pipeline.finish)
            if self._applied_change is None or not is_member(self._membership):
                return
            for _, pipeline in self._open_tasks():
                if pipeline.has_uncommitted_positions:
                    pipeline.commit_positions(self._membership)

    def _open_tasks(self) -> list[tuple[Task, Pipeline]]:
        return [(task, task.pipeline) for task in self._tasks.values() if task.pipeline is not None]

    def _attempt_all(self, method: Callable[[Pipeline], bool | None]) -> None:
        for task, _ in self._open_tasks():
            self._attempt(task, method)

    def _attempt(self, task: Task, method: Callable[..., bool | None], *arguments: Any) -> None:
        """Call a method of the task's pipeline, if it is open. After an error that a retry may cure, only this task is
        closed, and waits.
        """
        if task.pipeline is None:
            return
        try:
            committed = method(task.pipeline, *arguments)
        except self._retryable as error:
            self._task_failed(task, error)
        except BaseException as error:
            task.close_pipeline(str(error))
            raise
        else:
            if committed:
                task.retry.succeeded()

    def _task_failed(self, task: Task, error: StreamError) -> None:
        task.close_pipeline(str(error))
        self._observer.error(error, task.retry.failed(error, self._last_poll))
        if isinstance(error, RegistryAway):
            self._observer.registry_away(task.name, str(error))
        if self._group is not None:
            self._group.pause(task.partitions)

    def _advance(self, group: Group) -> None:
        """Open tasks with partitions, and drop those without any."""
        for name, task in list(self._tasks.items()):
            if not task.partitions:
                if task.is_idle and not self._is_global:
                    task.close()
                    del self._tasks[name]
                continue
            try:
                is_new = task.advance(group)
            except self._retryable as error:
                self._task_failed(task, error)
                continue
            if is_new:
                self._absences = 0
                if task.pipeline is not None and group.changes.count == self._applied_change:
                    group.go_on(task.pipeline.positions)
        states = {task.name: task.state for task in self._tasks.values() if task.partitions}
        if states != self._states:
            self._states = states
            self._observer.tasks(states)

    def _stand_by(self) -> None:
        """Follow the changelog while this member has no partitions, so that a take-over has little left to read; in
        scope global only, since in scope partition a member may take any task over.
        """
        if not self._is_global:
            return
        task = self._task(_GLOBAL, 0)
        if task.partitions:
            return
        if self._standby_retry.is_due:
            try:
                if task.follow(self._watch.changelog_id):
                    self._standby_retry.succeeded()
            except self._retryable as error:
                self._observer.error(error, self._standby_retry.failed(error, self._last_poll))
        if (store := task.standby_store) is not None:
            self._observer.standby_progress(task.name, store.behind_seconds)
            if store.all_read is not None:
                check_changelog(self._settings, self._watch.committed, store.all_read)

    def _give_up(self, group: Group) -> None:
        """Leave the group for a while if this member cannot open any task, and others may do better."""
        session = self._settings.worker.session_timeout.total_seconds()
        assigned = [task for task in self._tasks.values() if task.partitions]
        if not assigned or any(task.failed_openings < _FAILED_OPENINGS for task in assigned):
            return
        failing_seconds = self._monotonic() - max(task.failing_since for task in assigned)
        if failing_seconds <= session:
            return
        # A member that leaves is replaced at the next heartbeats of the others, which come four times a session; one
        # that came back before that could get the role again. In scope global the assignor prevents that, too.
        absence = session * (1 if self._is_global else min(_LONGEST_ABSENCE, 2**self._absences))
        self._absences += 1
        log.warning(
            "this member could not open any task, in %d tries and for %.0f s: it gives the role up, so that another "
            "member gets it; it comes back in %.0f s",
            min(task.failed_openings for task in assigned), failing_seconds, absence,
        )  # fmt: skip
        for task in assigned:
            task.assign(frozenset(), "the role is given up")
        self._leave()
        self._retry.postpone(absence)

    def _batches(self, records: Sequence[Any], limit: int | None) -> Iterator[Sequence[Any]]:
        """Cut records into batches of at most `batch_items` (or `limit`) and `batch_bytes`, but at least one record."""
        limit_of_items = min(limit or len(records), self._settings.worker.batch_items)
        start = size = 0
        for i, record in enumerate(records):
            record_bytes = content_bytes(record)
            if i > start and (size + record_bytes > self._settings.worker.batch_bytes or i - start == limit_of_items):
                yield records[start:i]
                start, size = i, 0
            size += record_bytes
        if start < len(records):
            yield records[start:]

    # -- tasks and group ---------------------------------------------------------------------------------

    def _apply_assignment(self, group: Group) -> None:
        """Keep tasks for exactly the assigned partitions, and let each partition resume at its task's position."""
        self._attempt_all(Pipeline.finish)
        changes = group.changes.count
        assigned = group.assignment()
        if self._reported_change != changes:
            self._reported_change = changes
            self._observer.rebalanced(sorted(assigned))
            self._report_standby(group, assigned)
        shares = {str(partition): frozenset([partition]) for partition in sorted(assigned)}
        if self._is_global:
            shares = {_GLOBAL: assigned} if assigned else {}
        reason = "its partitions went to another member"
        for name, task in self._tasks.items():
            if task.partitions & group.changes.lost:
                task.close_pipeline(reason)
            task.assign(shares.get(name, frozenset()), reason)
        group.changes.lost.clear()
        for name, partitions in shares.items():
            self._task(name, 0 if self._is_global else min(partitions)).assign(partitions, reason)
        group.pause()
        self._rewind(group)
        self._applied_change = changes
        self._advance(group)

    def _report_standby(self, group: Group, assigned: frozenset[int]) -> None:
        """Log that this member stands by, once for each active member."""
        active = None if assigned else group.active_member
        if active is not None and active != self._active_member:
            settings = self._settings
            log.info(
                "this member stands by, and takes over when %s. Group %s, input %s; all members are listed by: "
                "stream-dedup groups show%s",
                f"the active one ends: {active}" if active else "an active one ends",
                settings.kafka.group_id, settings.topics.input, settings.config_option,
            )  # fmt: skip
        self._active_member = active

    def _task(self, name: str, number: int) -> Task:
        if name not in self._tasks:
            self._tasks[name] = Task(name, number, self._context, self._stop)
        return self._tasks[name]

    def _rewind(self, group: Group) -> None:
        """Let the consumer read from the positions of the tasks again."""
        self._attempt_all(Pipeline.finish)
        for _, pipeline in self._open_tasks():
            group.go_on(pipeline.positions)

    # -- errors, and the end --------------------------------------------------------------

    def _back_off(self, error: StreamError) -> None:
        """Poll nothing for a while, after an error of the group or of something that all tasks need."""
        self._applied_change = None
        self._observer.error(error, self._retry.failed(error, self._last_poll))

    def _remaining(self) -> float:
        if self._stop_at == float("inf") and self._stop.is_set():
            self._stop_at = self._monotonic() + STOP_SECONDS
        return self._stop_at - self._monotonic()

    def _close(self) -> None:
        """Leave the group before the tasks are closed, so that the other members need not wait for that."""
        for _, pipeline in self._open_tasks():
            with suppress(StreamDedupError):  # the next owner of the task finds out what happened
                pipeline.finish()
        self._leave()
        self._watch.end()
        self._runtime.wait([task.close() for task in self._tasks.values()], _CLOSE_SECONDS)
        self._tasks.clear()

    def _leave(self) -> None:
        if self._group is not None:
            self._group.leave()
            self._group = None
