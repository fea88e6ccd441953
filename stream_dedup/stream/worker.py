"""The loop: polls the input topic, gives each task its records, and keeps tasks and group in step.

In: `Settings`, and whoever watches. Out: records in the output, duplicates and dead-letter topics, each input
accounted for exactly once. `Worker(settings).run(stop)` returns when `stop` is set, within ten seconds.

A task that fails is closed and opened anew by itself (task_slot.py), with growing pauses while Kafka is away; the
others go on. A member that cannot open any task for long gives its role up, so that another one works. What no second
try can mend (a topic that would lose data, a missing right, a changelog of another scheme, input that is another topic
now or was deleted before it was read) ends the worker with an error that says what to do.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import (
    Fenced,
    Interrupted,
    Outdated,
    RecordsGone,
    Stalled,
    StreamDedupError,
    StreamError,
    TransactionFailed,
)
from stream_dedup.settings import Settings
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.group import Group, is_member
from stream_dedup.stream.observer import Observer, TaskState
from stream_dedup.stream.retry import Retry
from stream_dedup.stream.task import PartitionTask
from stream_dedup.stream.task_slot import TaskSlot
from stream_dedup.stream.topic_watch import TopicWatch
from stream_dedup.stream.transaction import CommitStep

log = logging.getLogger(__name__)

# Container runtimes kill ten seconds after SIGTERM. Of these the running transaction may use so many; the rest
# is for leaving the group.
STOP_SECONDS = 6.0
# And so many are for closing producers and indexes, all tasks' side by side. Nothing depends on it: whoever opens a
# task next fences its producer.
_CLOSE_SECONDS = 1.5
_POLL_MS = 200  # also how fast a stop is heard
# The same while a batch is being committed: what is on its way has come by then; else the commit is waited for and
# reported, which would otherwise wait for the poll's end.
_POLL_BESIDE_MS = 20
# A turn takes at most so many polls. It ends in a wait for offsets, some 30 ms, and a rebalance waits for it.
_POLLS = 4
# A position that has passed nothing but markers and aborted records is committed by itself this long after the last
# commit: sooner than any retention deletes them, and seldom enough to cost nothing.
_MARKERS_SECONDS = 60.0
_RETRIED = (TransactionFailed, Stalled, Fenced, Outdated)
# So many openings in a row must have failed, over a session's time at least, before the role is given up: after that
# time the group would give the role of a dead member away, too. One or two tries fail while a broker is replaced, and
# another member would fare no better.
_FAILED_OPENINGS = 3
# In scope partition the group gives a member that comes back partitions again, so it stays away longer each time.
_LONGEST_ABSENCE = 16  # sessions
_GLOBAL = "global"


class Worker:
    """One member of the group. `clock` gives the wall time in seconds, `deduplicator` makes an empty index."""

    def __init__(
        self,
        settings: Settings,
        *,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.time,
        deduplicator: Callable[[Settings], Deduplicator] = Deduplicator,
    ) -> None:
        self._settings = settings
        self._observer = observer or Observer()
        self._context = WorkerContext(settings, self._observer, clock, deduplicator, self._left)
        self._watch = TopicWatch(self._context)
        self._group: Group | None = None
        self._membership: Any = None  # after the last poll
        self._tell_at = 0.0
        self._settled = -1  # the group's count of changes at the last settling
        self._told = -1  # and when the observer was told last
        self._slots: dict[str, TaskSlot] = {}
        self._states: dict[str, TaskState] = {}  # as the observer knows them
        self._stop = threading.Event()
        self._stop_at = float("inf")
        self._retry = Retry(settings, "group")  # what is no task's fault
        self._heard = 0.0  # when the group was polled last
        self._absences = 0  # in a row, without a task that opened

    def run(self, stop: threading.Event) -> None:
        """Works until `stop` is set. Raises StreamDedupError when trying again would not help."""
        self._stop = stop
        try:
            while not stop.is_set():
                try:
                    self._turn()
                except Interrupted:
                    continue
                except _RETRIED as error:
                    self._pause(error)
                except RecordsGone:
                    with suppress(*_RETRIED):
                        self._watch.ask()  # raises if the input is another one, which is why
                    raise
            self._tell_last()
        except StreamDedupError as error:
            self._observer.error(error, None)
            raise
        finally:
            self._close()

    # -- one turn ----------------------------------------------------------------------------------------

    def _turn(self) -> None:
        waiting = not self._retry.is_due
        if self._group is None:
            if waiting:
                self._stop.wait(_POLL_MS / 1000)
                self._stand_by()
                return
            self._watch.know(self._context.topic_metadata().ids)  # refuses to start on topics that would lose something
            self._group = Group(self._settings, self._left, is_reluctant=self._absences > 0)
            self._settled = -1
        if waiting:
            self._group.pause()
        self._look_at_the_topics()
        polled, snapshot, failed = self._poll(self._group)
        self._membership, self._heard = snapshot, time.monotonic()
        if not waiting:
            self._work(self._group, polled, snapshot, {} if failed is not None else self._group.positions())
        if failed is not None:
            self._finish()
            raise failed

    def _look_at_the_topics(self) -> None:
        """A changelog that is another one is said; the memory here is whole, and the best there is."""
        happened = self._watch.look()
        if happened is None:
            return
        for slot in self._slots.values():
            if not slot.partitions:
                slot.start_over()  # it reads the new one; what it knows besides may have a gap
        reason = f"{happened} while the workers run"
        if self._open():
            log.error(
                "%s. This member goes on with what it remembers, which is whole; the next to take over will know only "
                "what is written from now on. Leave this member running for one window, or make a whole changelog: "
                "`stream-dedup migrate` with another [topics] changelog (scope global)", reason,
            )  # fmt: skip
            self._observer.state_lost(reason)
        else:
            log.warning("%s; standing by with what is written from now on", reason)

    def _work(
        self, group: Group, polled: Sequence[Mapping[int, list[Any]]], snapshot: Any, positions: Mapping[int, int]
    ) -> None:
        """What was polled goes to its tasks, unless the group has changed meanwhile. `positions`: the consumer's."""
        if self._settled != group.changes.count:
            if is_member(snapshot):
                self._settle(group)  # what was polled is polled again
            return
        if not polled:
            self._finish()
            for slot in self._open():
                if slot.task is not None:
                    slot.task.pass_over(positions, group.ends(slot.partitions))
        elif not is_member(snapshot):
            self._rewind(group)
            return
        self._tell(snapshot)
        for slot in self._open():
            self._give(slot, polled, snapshot, group, positions)
        for slot in self._open():
            self._guarded(slot, PartitionTask.wait_for_offsets)
        self._advance(group)
        self._stand_by()
        self._give_up(group)
        # Last, because it says that nothing has failed since the turn before.
        tasks = [slot.name for slot in self._open()]
        if tasks or not any(slot.partitions for slot in self._slots.values()):
            self._observer.turn(tasks)
        self._retry.succeeded()

    def _give(
        self,
        slot: TaskSlot,
        polled: Sequence[Mapping[int, list[Any]]],
        snapshot: Any,
        group: Group,
        positions: Mapping[int, int],
    ) -> None:
        """The task's share of what was polled, until it fails."""
        mine = [record for records in polled for partition in slot.partitions for record in records.get(partition, ())]
        batches = list(self._batches(mine, self._context.poison.limit(slot.partitions)))
        for batch, following in zip_longest(batches, batches[1:], fillvalue=()):
            if self._stop.is_set() or slot.task is None:  # what is left is polled again by whoever comes next
                return
            # With the last of them everything up to the consumer's position is processed.
            passed = {} if following else positions
            self._process(slot, batch, following, snapshot, group.ends(slot.partitions), passed)

    def _poll(self, group: Group) -> tuple[list[dict[int, list[Any]]], Any, StreamError | None]:
        """What has come, the membership after the last poll, and how a poll after the first has failed.

        While there is more, several polls: from the second batch on the offsets are sent while the next one is judged.
        What comes before a failure is done first; no poll follows it, since the client need not survive its own error.
        """
        polled: list[dict[int, list[Any]]] = []
        is_busy = any(not slot.is_resting for slot in self._slots.values())
        records, snapshot = group.poll(_POLL_BESIDE_MS if is_busy else _POLL_MS)
        while records:
            polled.append(records)
            ends = group.ends(records)
            more = any(some[-1].offset + 1 < ends.get(partition, 0) for partition, some in records.items())
            if not more or len(polled) == _POLLS or self._settled != group.changes.count or not is_member(snapshot):
                break
            try:
                records, snapshot = group.poll(0)
            except StreamError as error:
                return polled, snapshot, error
        return polled, snapshot, None

    def _process(
        self,
        slot: TaskSlot,
        records: Sequence[Any],
        following: Sequence[Any],
        snapshot: Any,
        ends: dict[int, int],
        passed: Mapping[int, int],
    ) -> None:
        self._observer.step(CommitStep.POLL, slot.name)
        self._guarded(slot, lambda task: task.process(records, snapshot, ends, following, passed))

    def _tell(self, snapshot: Any) -> None:
        """The group learns where a new task begins before anything goes out, and at times what markers were passed."""
        if not is_member(snapshot) or self._stop.is_set():
            return
        is_time = time.monotonic() >= self._tell_at
        for slot in self._open():
            if slot.task is not None and (slot.task.is_new or (is_time and slot.task.is_untold)):
                self._guarded(slot, lambda task: task.tell(snapshot))
        if is_time:
            self._tell_at = time.monotonic() + _MARKERS_SECONDS

    def _tell_last(self) -> None:
        """At a stop: the group may be without members for longer than a marker is kept."""
        with suppress(*_RETRIED):
            self._finish()
            for slot in self._open():
                is_untold = slot.task is not None and slot.task.is_untold
                if slot.task is not None and is_untold and self._settled >= 0 and is_member(self._membership):
                    slot.task.tell(self._membership)

    def _finish(self) -> None:
        """Waits until nothing is being committed any more; so nothing is that was polled before the last poll."""
        for slot in self._open():
            self._guarded(slot, PartitionTask.finish)

    def _open(self) -> list[TaskSlot]:
        return [slot for slot in self._slots.values() if slot.task is not None]

    def _guarded(self, slot: TaskSlot, work: Callable[[PartitionTask], bool | None]) -> None:
        """Work of a task. If it fails, and may be tried again, this task alone is closed and waits."""
        if slot.task is None:
            return
        try:
            committed = work(slot.task)
        except _RETRIED as error:
            self._failed(slot, error)
        except BaseException as error:
            slot.reopen(str(error))
            raise
        else:
            if committed:
                slot.retry.succeeded()

    def _failed(self, slot: TaskSlot, error: StreamError) -> None:
        slot.reopen(str(error))
        self._observer.error(error, slot.retry.failed(error, self._heard))
        if self._group is not None:
            self._group.pause(slot.partitions)

    def _advance(self, group: Group) -> None:
        """Goes on opening what is to be open, and lets go of what is not."""
        for name, slot in list(self._slots.items()):
            if not slot.partitions:
                slot.settle()
                if slot.is_idle and self._settings.worker.scope == "partition":
                    slot.close()
                    del self._slots[name]
                continue
            try:
                is_new = slot.advance(group)
            except _RETRIED as error:
                self._failed(slot, error)
                continue
            if is_new:
                self._absences = 0
                if slot.task is not None and group.changes.count == self._settled:
                    group.go_on(slot.task.positions)
        states = {slot.name: slot.state for slot in self._slots.values() if slot.partitions}
        if states != self._states:
            self._states = states
            self._observer.tasks(states)

    def _stand_by(self) -> None:
        """Without partitions a member follows the changelog, so that a take-over need not read it from its beginning.

        In scope partition nobody knows beforehand which task a member will take over.
        """
        if self._settings.worker.scope == "partition":
            return
        if _GLOBAL not in self._slots:
            self._slots[_GLOBAL] = self._slot(_GLOBAL, 0)
        slot = self._slots[_GLOBAL]
        if slot.partitions:
            return
        try:
            slot.follow(self._watch.changelog_id)
        except _RETRIED as error:
            self._observer.error(error, slot.following.failed(error, self._heard))
        if slot.behind is not None:
            self._observer.following(slot.name, *slot.behind)

    def _give_up(self, group: Group) -> None:
        """Leaves the group for a while if no task can be opened here, and others may do better."""
        session = self._settings.worker.session_timeout.total_seconds()
        wanted = [slot for slot in self._slots.values() if slot.partitions]
        if not wanted or not all(
            slot.task is None and slot.failed_openings >= _FAILED_OPENINGS and slot.cannot_open > session
            for slot in wanted
        ):
            return
        # A member that leaves is replaced as soon as the others have beaten their hearts, four times a session; who
        # would come back before that could be given the role again. In scope global the assignor sees to it, too.
        away = session * (1 if self._settings.worker.scope == "global" else min(_LONGEST_ABSENCE, 2**self._absences))
        self._absences += 1
        log.warning(
            "no task can be opened here, in %d tries and for %.0f s: the role is given up, so that another member gets "
            "it; back in %.0f s",
            min(slot.failed_openings for slot in wanted), min(slot.cannot_open for slot in wanted), away,
        )  # fmt: skip
        self._observer.gave_up()
        for slot in wanted:
            slot.want(frozenset(), "the role is given up")
        problem = group.leave()
        if problem:
            log.warning("%s; the group will notice by itself", problem)
        self._group = None
        self._retry.wait(away)

    def _batches(self, records: Sequence[Any], limit: int | None) -> Iterator[Sequence[Any]]:
        """A transaction gets `batch_items` (fewer while some of them fail again and again), or what fits into
        `batch_bytes`, or one record.
        """
        worker = self._settings.worker
        items = min(worker.batch_items, limit or worker.batch_items)
        start = size = 0
        for i, record in enumerate(records):
            one = len(record.value or b"") + len(record.key or b"")
            if i > start and (size + one > worker.batch_bytes or i - start == items):
                yield records[start:i]
                start, size = i, 0
            size += one
        if start < len(records):
            yield records[start:]

    # -- tasks and group ---------------------------------------------------------------------------------

    def _settle(self, group: Group) -> None:
        """Tasks for what is assigned, and for nothing else; every partition stands where its task says."""
        self._finish()
        changes = group.changes.count
        assigned = group.assignment()
        if self._told != changes:
            self._told = changes
            self._observer.rebalanced(sorted(assigned))
        wanted = self._wanted(assigned)
        gone = "its partitions went to another member"
        for name, slot in self._slots.items():
            if slot.partitions & group.changes.lost:
                slot.reopen(gone)
            slot.want(wanted.get(name, frozenset()), gone)
        group.changes.lost.clear()
        for name, partitions in wanted.items():
            if name not in self._slots:
                number = 0 if self._settings.worker.scope == "global" else min(partitions)
                self._slots[name] = self._slot(name, number)
                self._slots[name].want(partitions, gone)
        group.pause()
        self._rewind(group)
        self._settled = changes
        self._advance(group)

    def _slot(self, name: str, number: int) -> TaskSlot:
        return TaskSlot(name, number, self._context, self._stop)

    def _wanted(self, partitions: frozenset[int]) -> dict[str, frozenset[int]]:
        if self._settings.worker.scope == "partition":
            return {str(one): frozenset([one]) for one in sorted(partitions)}
        return {_GLOBAL: partitions} if partitions else {}

    def _rewind(self, group: Group) -> None:
        self._finish()
        for slot in self._open():
            if slot.task is not None:
                group.go_on(slot.task.positions)

    # -- when things go wrong, and the end ---------------------------------------------------------------

    def _pause(self, error: StreamError) -> None:
        """The group fails, or what all tasks need: nothing is polled for a while."""
        self._settled = -1
        self._observer.error(error, self._retry.failed(error, self._heard))

    def _left(self) -> float:
        if self._stop_at == float("inf") and self._stop.is_set():
            self._stop_at = time.monotonic() + STOP_SECONDS
        return self._stop_at - time.monotonic()

    def _close(self) -> None:
        """Leaves the group before the tasks are closed, so that the others need not wait for that."""
        for slot in self._open():
            with suppress(StreamDedupError):  # told by the task's next owner, who finds out what happened
                if slot.task is not None:
                    slot.task.finish()
        if self._group is not None:
            problem = self._group.leave()
            if problem:
                log.warning("%s; the group will notice by itself", problem)
            self._group = None
        self._watch.end()
        wait([slot.close() for slot in self._slots.values()], _CLOSE_SECONDS)
        self._slots.clear()
