"""What all parts of a worker share: settings, clock, whoever watches, and bounded calls of Kafka's clients."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kafka.errors import KafkaError

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.observer import Observer
from stream_dedup.stream.poison import PoisonSearch
from stream_dedup.stream.topics import TopicMetadata, check_topics

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """`left()`: seconds until everything must be over; `clock()`: wall time in seconds.

    `deduplicator` makes an empty index. `suspects`: records that fail again and again; they outlive a task. `said`:
    what was logged and is not said again.
    """

    settings: Settings
    observer: Observer
    clock: Callable[[], float]
    deduplicator: Callable[[Settings], Deduplicator]
    left: Callable[[], float]
    poison: PoisonSearch = field(default_factory=PoisonSearch)
    said: set[str] = field(default_factory=set)

    @property
    def bound(self) -> float:
        """The most seconds of one blocking call."""
        return self.settings.worker.transaction_timeout.total_seconds()

    def now(self) -> int:
        """Wall time, ms."""
        return int(self.clock() * 1000)

    def latest(self) -> int:
        """The highest event time that counts, ms: a clock that is further ahead must not move the window."""
        return self.settings.window.latest(self.now())

    def thread(self, name: str) -> Bounded:
        """A thread for the calls of one client."""
        return Bounded(f"{self.settings.kafka.group_id}-{name}", self.left)

    def call(self, calls: Bounded, what: str, function: Callable[[], T]) -> T:
        """A blocking call, bounded, its errors ours."""
        try:
            return calls.call(what, self.bound, function)
        except KafkaError as error:
            raise client.translate(error, what) from error

    def call_once(self, what: str, function: Callable[[], T]) -> T:
        """A blocking call of a client that lives for this call."""
        calls = self.thread(what)
        try:
            return self.call(calls, what, function)
        finally:
            calls.end()

    def topic_metadata(self) -> TopicMetadata:
        """The topics, checked. Raises TopicError if one of them would lose something."""
        return self.call_once("checking the topics", lambda: check_topics(self.settings))
