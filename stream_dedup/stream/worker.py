"""The loop: polls the input topic, gives each lane its records, and keeps lanes and group in step.

In: `Settings`, and whoever watches. Out: records in the output, duplicates and dead-letter topics, each input
accounted for exactly once. `Worker(settings).run(stop)` returns when `stop` is set, within ten seconds.

What fails is dropped and opened anew, with growing pauses while Kafka is away; what no second try can mend
(a topic that would lose data, a missing right, a changelog of another scheme, input that is another topic now or was
deleted before it was read) ends the worker with an error that says what to do.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import Any

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import (
    Fenced,
    Interrupted,
    RecordsGone,
    Stalled,
    StreamDedupError,
    StreamError,
    TransactionFailed,
)
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.group import Group, is_member
from stream_dedup.stream.lane import Lane
from stream_dedup.stream.memory import Memory
from stream_dedup.stream.observer import Observer
from stream_dedup.stream.surroundings import Surroundings
from stream_dedup.stream.topic_watch import TopicWatch
from stream_dedup.stream.transaction import Step

log = logging.getLogger(__name__)

# Container runtimes kill ten seconds after SIGTERM. Of these the running transaction may use so many; the rest
# is for leaving the group.
STOP_SECONDS = 6.0
_POLL_MS = 200  # also how fast a stop is heard
# The same while a batch is being committed: what is on its way has come by then; else the commit is waited for and
# reported, which would otherwise wait for the poll's end.
_POLL_BESIDE_MS = 20
# A turn takes at most so many polls. It ends in a wait for offsets, some 30 ms, and a rebalance waits for it.
_POLLS = 4
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
# A position that has passed nothing but markers and aborted records is committed by itself this long after the last
# commit: sooner than any retention deletes them, and seldom enough to cost nothing.
_MARKERS_SECONDS = 60.0
_RETRIED = (TransactionFailed, Stalled, Fenced)


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
        self._around = Surroundings(settings, self._observer, clock, deduplicator, self._left)
        self._watch = TopicWatch(self._around)
        self._group: Group | None = None
        self._settled = -1  # the group's count of changes at the last settling
        self._told = -1  # and when the observer was told last
        self._lanes: dict[str, Lane] = {}
        self._standby: Memory | None = None
        self._stop = threading.Event()
        self._stop_at = float("inf")
        self._failures = 0
        self._membership: Any = None  # after the last poll
        self._tell_at = 0.0
        self._said = ""  # the last failure that was logged
        self._again_at = 0.0  # nothing is opened before; the group is polled all the same

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
        waiting = time.monotonic() < self._again_at
        if self._group is None:
            if waiting:
                self._stop.wait(_POLL_MS / 1000)
                return
            self._watch.know(self._around.layout().ids)  # refuses to start on topics that would lose something
            self._group, self._settled = Group(self._settings, self._left), -1
        if waiting:
            self._group.pause()
        self._look_at_the_topics()
        polled, snapshot, failed = self._poll(self._group)
        self._membership = snapshot
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
        self._close_standby()  # it reads the new one; what it knows besides may have a gap
        reason = f"{happened} while the workers run"
        if self._lanes:
            log.error(
                "%s. This member goes on with what it remembers, which is whole; the next to take over will know only "
                "what is written from now on. Leave this member running for one window, or make a whole changelog: "
                "`stream-dedup migrate` with another [topics] changelog (scope global)", reason,
            )  # fmt: skip
            self._observer.memory_lost(reason)
        else:
            log.warning("%s; standing by with what is written from now on", reason)

    def _work(
        self, group: Group, polled: Sequence[Mapping[int, list[Any]]], snapshot: Any, positions: Mapping[int, int]
    ) -> None:
        """What was polled goes to its lanes, unless the group has changed meanwhile. `positions`: the consumer's."""
        if self._settled != group.changes.count:
            if is_member(snapshot):
                self._settle(group)  # what was polled is polled again
            return
        if not polled:
            self._finish()
            for lane in self._lanes.values():
                lane.pass_over(positions, group.ends(lane.partitions))
        elif not is_member(snapshot):
            self._rewind(group)
            return
        self._tell(snapshot)
        for lane in list(self._lanes.values()):
            mine = [
                record for records in polled for partition in lane.partitions for record in records.get(partition, ())
            ]
            batches = list(self._batches(mine, self._around.suspects.limit(lane.partitions)))
            for batch, following in zip_longest(batches, batches[1:], fillvalue=()):
                if not self._stop.is_set():  # what is left is polled again by whoever comes next
                    # With the last of them everything up to the consumer's position is processed.
                    passed = {} if following else positions
                    self._process(lane, batch, following, snapshot, group.ends(lane.partitions), passed)
        for lane in list(self._lanes.values()):
            self._or_drop(lane, lane.wait_for_offsets)
        self._stand_by()
        # Last, because it says that nothing has failed since the turn before.
        self._observer.turn(list(self._lanes))

    def _poll(self, group: Group) -> tuple[list[dict[int, list[Any]]], Any, StreamError | None]:
        """What has come, the membership after the last poll, and how a poll after the first has failed.

        While there is more, several polls: from the second batch on the offsets are sent while the next one is judged.
        What comes before a failure is done first; no poll follows it, since the client need not survive its own error.
        """
        polled: list[dict[int, list[Any]]] = []
        is_busy = any(lane.is_busy for lane in self._lanes.values())
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
        lane: Lane,
        records: Sequence[Any],
        following: Sequence[Any],
        snapshot: Any,
        ends: dict[int, int],
        passed: Mapping[int, int],
    ) -> None:
        self._observer.step(Step.POLL, lane.name)
        self._or_drop(lane, lambda: lane.process(records, snapshot, ends, following, passed))

    def _tell(self, snapshot: Any) -> None:
        """The group learns where a new lane begins before anything goes out, and at times what markers were passed."""
        if not is_member(snapshot) or self._stop.is_set():
            return
        is_time = time.monotonic() >= self._tell_at
        for lane in list(self._lanes.values()):
            if lane.is_new or (is_time and lane.is_untold):
                self._or_drop(lane, partial(lane.tell, snapshot))
        if is_time:
            self._tell_at = time.monotonic() + _MARKERS_SECONDS

    def _tell_last(self) -> None:
        """At a stop: the group may be without members for longer than a marker is kept."""
        with suppress(*_RETRIED):
            self._finish()
            for lane in self._lanes.values():
                if lane.is_untold and self._settled >= 0 and is_member(self._membership):
                    lane.tell(self._membership)

    def _finish(self) -> None:
        """Waits until nothing is being committed any more; so nothing is that was polled before the last poll."""
        for lane in list(self._lanes.values()):
            self._or_drop(lane, lane.finish)

    def _stand_by(self) -> None:
        """Without partitions a member follows the changelog, so that a take-over need not read it from its beginning.

        In scope partition nobody knows beforehand which lane a member will take over.
        """
        if self._lanes or self._settings.worker.scope == "partition":
            return
        try:
            if self._standby is None:
                self._standby = Memory(self._around, "global", 0, self._watch.changelog_id)
            self._standby.follow()
        except StreamError:
            # Behind the changelog's retention, for example: it reads anew.
            self._close_standby()
            raise

    def _close_standby(self) -> None:
        if self._standby is not None:
            self._standby.close()
            self._standby = None

    def _or_drop(self, lane: Lane, work: Callable[[], bool | None]) -> None:
        try:
            committed = work()
        except BaseException as error:
            self._drop(lane.name, str(error))
            raise
        if committed and self._failures:
            log.info("lane %s works again", lane.name)
            self._failures, self._said = 0, ""

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

    # -- lanes and group ---------------------------------------------------------------------------------

    def _settle(self, group: Group) -> None:
        """Lanes for what is assigned, and for nothing else; every partition stands where its lane says."""
        self._finish()
        changes = group.changes.count
        assigned = group.assignment()
        if self._told != changes:
            self._told = changes
            self._observer.rebalanced(sorted(assigned))
        wanted = self._wanted(assigned)
        for name, lane in list(self._lanes.items()):
            if wanted.get(name) != lane.partitions or lane.partitions & group.changes.lost:
                self._drop(name, "its partitions went to another member")
        group.changes.lost.clear()
        group.pause()
        for name, partitions in wanted.items():
            if name not in self._lanes:
                self._keep_alive(group, changes)
                number = 0 if self._settings.worker.scope == "global" else min(partitions)
                memory, self._standby = self._standby, None
                self._lanes[name] = Lane(
                    name, number, partitions, group, self._around, lambda: self._keep_alive(group, changes), memory
                )
        self._rewind(group)
        group.resume()
        self._settled = changes

    def _wanted(self, partitions: frozenset[int]) -> dict[str, frozenset[int]]:
        if self._settings.worker.scope == "partition":
            return {str(one): frozenset([one]) for one in sorted(partitions)}
        return {"global": partitions} if partitions else {}

    def _keep_alive(self, group: Group, changes: int) -> None:
        """A poll that fetches nothing, everything being paused: it keeps the membership."""
        group.poll(0)
        if group.changes.count != changes:
            raise Interrupted("the assignment changed while a lane was being opened")
        if self._stop.is_set():
            raise Interrupted("a stop came while a lane was being opened")

    def _rewind(self, group: Group) -> None:
        self._finish()
        for lane in self._lanes.values():
            group.seek(lane.positions)

    def _drop(self, name: str, reason: str) -> None:
        self._lanes.pop(name).close()
        self._settled = -1
        self._observer.lane_lost(name, reason)

    # -- when things go wrong, and the end ---------------------------------------------------------------

    def _pause(self, error: StreamError) -> None:
        """For a while, longer each time, nothing is opened anew."""
        self._settled = -1
        seconds = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._failures)
        self._failures += 1
        if not (isinstance(error, TransactionFailed) and error.sources):  # what Kafka says of records tells us nothing
            # We may have been asleep, and replaced. Whoever opens a lane fences its owner; so hear first what the
            # group says: a heartbeat, and before it perhaps a search for the coordinator, after which the client
            # counts a heartbeat's interval anew.
            seconds = max(seconds, 2 * client.heartbeat_ms(self._settings) / 1000)
        # An outage is said once, not at each try; another reason is news.
        level = logging.DEBUG if str(error) == self._said else logging.WARNING
        log.log(level, "%s; trying again", error, extra={"kind": type(error).__name__, "retry_in": round(seconds, 1)})
        self._said = str(error)
        self._observer.error(error, seconds)
        self._again_at = time.monotonic() + seconds

    def _left(self) -> float:
        if self._stop_at == float("inf") and self._stop.is_set():
            self._stop_at = time.monotonic() + STOP_SECONDS
        return self._stop_at - time.monotonic()

    def _close(self) -> None:
        """Leaves the group before the lanes are closed, so that the others need not wait for that."""
        with suppress(StreamDedupError):  # told by the lane's next owner, who finds out what happened
            self._finish()
        if self._group is not None:
            problem = self._group.leave()
            if problem:
                log.warning("%s; the group will notice by itself", problem)
            self._group = None
        self._close_standby()
        self._watch.end()
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
