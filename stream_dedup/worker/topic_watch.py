"""Watch the topics and the group while a worker runs: are they still the same, and what does the worker wait for?

To a client a topic is only a name. Without this watch the consumer would go on in a recreated topic at the old topic's
offset, and the producer would write to an empty changelog, both without an error; a second deployment with the same
group would be a silent standby. The watch also says at once what the next start would refuse: a topic that was deleted,
or altered so that it loses records. And it reports what the worker waits for (kafka/cluster.py), once that has lasted.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from stream_dedup.errors import Stalled, StreamError, TopicError
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.cluster import KeptAdmin, Look, Wait, look
from stream_dedup.kafka.topics import Topic, problems, shortened
from stream_dedup.worker.cluster_watch import Question
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.observer import Observer
from stream_dedup.worker.resume import Committed, Note, check_output, last_of, recreated_message

log = logging.getLogger(__name__)

# A request takes 20 ms, in a thread of its own. Records of a new input may be skipped between two requests, but are not
# lost: the worker ends with the command that begins at the new topic's beginning.
_CHECK_SECONDS = 5.0
# A broker that has just started may not know all topics yet; a topic that is missing this often in a row is gone.
_MISSES = 3
# While something does not go on, the question comes more often, so that it is reported within ten seconds.
_WAITING_SECONDS = 2.0
_REPORT_SECONDS = 1.0
_LOOK = "look at the brokers' log"
# A new leader or coordinator is there within seconds. With the first look at the cluster and the time between two, what
# is missing from the start is reported within ten seconds.
_LONG_SECONDS = 5.0
# By default Kafka aborts a producer's transaction after this long, so an older one is odd. Flink and others keep theirs
# open from checkpoint to checkpoint, and none of these is ever long here.
_PRODUCER_SECONDS = 60.0
_LOG_AGAIN_SECONDS = 60.0
# A fetch answers within .1 s, and a quota of the brokers delays it by some ten seconds.
_RECORDS_SECONDS = 30.0
_LONG = {Wait.PRODUCERS: _PRODUCER_SECONDS, Wait.RECORDS: _RECORDS_SECONDS}
# An answer that is older says nothing about now.
_FRESH_SECONDS = 3 * _CHECK_SECONDS


class Waits:
    """Reports what the worker waits for, once it is long, and its end. All times are monotonic seconds."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._logged: dict[Wait, float] = {}  # when
        self._reported: set[Wait] = set()

    def report(self, now: float, waits: Mapping[Wait, tuple[float, str]]) -> None:
        """Log and report waits that are long. `waits`: since when, and what is missing. Call it every second or so."""
        for wait in self._reported - waits.keys():
            self._reported.discard(wait)
            self._observer.waiting(wait, 0.0, "")
            if self._logged.pop(wait, None) is not None:
                log.info("the wait for %s is over", wait, extra={"kind": wait})
        for wait, (since, reason) in waits.items():
            seconds = now - since
            is_long = seconds >= _LONG.get(wait, _LONG_SECONDS)
            self._reported.add(wait)
            self._observer.waiting(wait, seconds, f"for {seconds:.0f} s {reason}" if is_long else "")
            if is_long and now - self._logged.get(wait, float("-inf")) >= _LOG_AGAIN_SECONDS:
                self._logged[wait] = now
                log.warning(
                    "for %.0f s %s. Logged again each minute", seconds, reason,
                    extra={"kind": wait, "seconds": round(seconds, 1)},
                )  # fmt: skip


class TopicWatch:
    """Asks every few seconds. The worker calls `poll` often; it never waits."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._topics: Mapping[str, Topic] = {}
        self._problems: set[str] = set()  # of the last answer, and those that were said
        self._said: set[str] = set()
        self._question = Question(
            lambda: context.thread("topic-watch"), self._new_ask, _CHECK_SECONDS, 2 * context.call_timeout
        )
        self._ids: dict[str, str] = {}
        self._misses = 0
        self.committed: Mapping[int, Committed] = {}  # the group's offsets in the last answer
        self.opening: Collection[str] = ()  # the transactional ids of tasks that are not open
        self.joining_since: float | None = None  # when this member was last no member of the group
        self.is_connected = True  # the consumer, to any broker
        self.taken: Mapping[int, int] = {}  # partition of an open task -> the offset up to which it was polled
        self._untaken: dict[tuple[int, int], float] = {}  # such an offset that has records behind it -> since when
        self._answered_at = float("-inf")
        self._unopened: frozenset[str] = frozenset()  # transactional ids whose coordinator was missing when last asked
        self._waits = Waits(context.observer)
        self._seen = Look({})
        self._since: dict[Any, float] = {}  # what is missing -> since when
        self._report_due = 0.0

    def expect(self, topics: Mapping[str, Topic]) -> None:
        """Set the topics to compare with."""
        self._topics, self._ids = topics, {name: topics[name].id for name in self._watched}
        self._question.pending, self._misses = None, 0  # a pending answer may be about the topics before

    @property
    def _watched(self) -> tuple[str, ...]:
        topics = self._context.settings.topics
        return topics.input, topics.changelog

    @property
    def changelog_id(self) -> str:
        return self._ids.get(self._context.settings.topics.changelog, "")

    def poll(self) -> str | None:
        """Return the change of the changelog topic, once. Raises TopicError for an input that is gone or replaced."""
        now = self._context.runtime.monotonic()
        is_waiting = bool(self.opening) or self.joining_since is not None or bool(self._since)
        self._question.every = _WAITING_SECONDS if is_waiting else _CHECK_SECONDS
        answer = self._question.poll(now) if self._ids else None
        if now >= self._report_due:
            self._report_due = now + _REPORT_SECONDS
            self._report_waits(now)
        if answer is None:
            return None
        try:
            self._seen = answer.result()
        except Stalled as error:
            log.warning(
                "asking for the topics: %s; one that was recreated meanwhile was not noticed. Asking anew", error
            )
            return None
        except StreamError:  # Kafka is away, which the worker itself reports
            return None
        self._answered_at = now
        change = self._compare(self._seen.topics)
        if Wait.GROUP not in self._seen.waits:
            offsets = self._seen.committed.items()
            self.committed = {partition: Committed(offset, Note.parse(note)) for partition, (offset, note) in offsets}
        check_output(self._context.settings, last_of(commit.note for commit in self.committed.values()))
        self._report(self._seen.topics)
        return change

    def _report(self, topics: Mapping[str, Topic]) -> None:
        """Log once what was altered for the worse. A problem counts when two answers have it, because a broker that has
        just started may not know all topics.
        """
        if not all(topic.config for topic in topics.values()):
            return  # a right was taken away; the next start says so
        source, current = self._watched[0], set(problems(self._context.settings, topics))
        for problem in sorted(current & self._problems - self._said):
            log.error("%s. The worker goes on as long as it can; no member starts before this is mended", problem)
        self._problems, self._said = current, current & (self._problems | self._said)
        if source in topics and source in self._topics:
            for change in shortened(self._topics[source], topics[source]):
                log.warning("%s: %s. Records that wait for the workers for longer are lost unread", source, change)
        self._topics = {**self._topics, **topics}

    def check_now(self) -> None:
        """Check at once, as when the input's offsets are out of range. Raises TopicError for a replaced input."""
        self._compare(self._context.call(self._question.calls, "asking for the topics", self._ask).topics)

    def end(self) -> None:
        self._question.calls.end(self._kept.close)

    def _new_ask(self) -> Callable[[], Look]:
        self._kept = KeptAdmin(self._context.settings, self._context.runtime)
        return self._ask

    def _ask(self) -> Look:
        # A member that has given its role up for want of a coordinator still waits for it.
        ids = self._unopened | frozenset(self.opening)
        seen = look(self._kept, ids)
        self._unopened = ids if Wait.TRANSACTIONS in seen.waits else frozenset()
        return seen

    def _report_waits(self, now: float) -> None:
        settings, seen = self._context.settings, self._seen
        missing: dict[Any, str] = {**seen.waits, **seen.held}
        waits = {key: (self._since.get(key, now), reason) for key, reason in missing.items()}  # since when, and what
        silent = self._question.silent_since()
        if silent is not None:
            unreached = errors.unreached(client.client_id(settings))
            reason = f"brokers have not answered a question about the topics and the group; {unreached or _LOOK}"
            waits[Wait.ANSWERS] = silent, reason
        if self.joining_since is not None and Wait.GROUP not in waits:
            reason = (
                f"the group {settings.kafka.group_id} has not taken this member in: a rebalance waits for a member "
                f"that does not come back. It lists its members by: stream-dedup groups show{settings.config_option}"
            )
            waits[Wait.GROUP] = self.joining_since, reason
        is_fresh = now - self._answered_at < _FRESH_SECONDS
        if is_fresh and not self.is_connected:
            unreached = ", ".join(errors.UNREACHED.recent(client.client_id(settings)).values())
            reason = (
                f"the consumer has no connection to any broker, although one answers the watch; {unreached or _LOOK}. "
                f"It asks {settings.kafka.bootstrap_servers} for the brokers again"
            )
            waits[Wait.BROKERS] = self._since.get(Wait.BROKERS, now), reason
        self._since = {key: since for key, (since, _) in waits.items()}
        lasting = {wait: waits[wait] for wait in Wait if wait in waits}
        if seen.held:
            lasting[Wait.PRODUCERS] = min((waits[place] for place in seen.held), key=lambda wait: wait[0])
        untaken = {
            (number, offset) for number, offset in self.taken.items() if is_fresh and offset < seen.ends.get(number, 0)
        }
        self._untaken = {place: self._untaken.get(place, now) for place in untaken}
        if untaken and not lasting:
            number, offset = oldest = min(self._untaken, key=self._untaken.__getitem__)
            reason = (
                f"records of {settings.topics.input} wait in partition {number} from offset {offset} on, and this "
                f"member takes none, for no reason that it knows; {_LOOK}, and restart this member if it goes on"
            )
            lasting[Wait.RECORDS] = self._untaken[oldest], reason
        self._waits.report(now, lasting)

    def _compare(self, topics: Mapping[str, Topic]) -> str | None:
        source, changelog = self._watched
        ids = {name: topics[name].id for name in self._watched if name in topics}
        if len(ids) < len(self._ids):
            self._misses += 1
            if self._misses < _MISSES:
                return None
            if source not in ids:
                raise TopicError(f"{source} was deleted; create it again, or name another one in [topics]")
        else:
            self._misses = 0
        if _is_replaced(self._ids[source], ids.get(source)):
            raise TopicError(recreated_message(self._context.settings, ()))
        former, present = self._ids[changelog], ids.get(changelog)
        self._ids[changelog] = present or ""
        if present is None and former:
            return f"{changelog} was deleted"
        return f"{changelog} was deleted and created anew" if _is_replaced(former, present) else None


def _is_replaced(former: str, present: str | None) -> bool:
    return bool(former and present and former != present)
