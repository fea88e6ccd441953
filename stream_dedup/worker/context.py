"""What all parts of a worker share: settings, observer, runtime, warnings said once, threads with time limits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.kafka import errors
from stream_dedup.kafka.runtime import Bounded, Runtime
from stream_dedup.kafka.topics import Topic, check_topics
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import Observer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What the worker loop, the tasks and their state stores share."""

    settings: Settings
    observer: Observer
    runtime: Runtime
    deduplicator: Callable[[Settings], Deduplicator]  # makes an empty index
    remaining: Callable[[], float]  # seconds until the worker must have ended
    logged: set[str] = field(default_factory=set)  # the names of warnings that were logged

    @property
    def call_timeout(self) -> float:
        """The time limit of one blocking call, in seconds."""
        return self.settings.worker.transaction_timeout.total_seconds()

    def now_ms(self) -> int:
        """Return the wall time in ms."""
        return int(self.runtime.wall() * 1000)

    def latest_event_time(self) -> int:
        """Return the highest event time that counts, ms. A clock that is further ahead must not move the window."""
        return self.settings.window.latest(self.now_ms())

    def is_first(self, warning: str) -> bool:
        """Return whether to log a warning of this name: once since the worker started."""
        is_first = warning not in self.logged
        self.logged.add(warning)
        return is_first

    def thread(self, name: str) -> Bounded:
        """Start a thread for calls with a time limit: of a client, the packer, the preparer or an opening."""
        return Bounded(f"{self.settings.kafka.group_id}-{name}", self.remaining, self.runtime)

    def call(self, thread: Bounded, action: str, function: Callable[[], T]) -> T:
        """Make a blocking call with a time limit. Raises a StreamError in place of the client's KafkaError."""
        with errors.translated(action):
            return thread.call(action, self.call_timeout, function)

    def call_once(self, action: str, function: Callable[[], T]) -> T:
        """Make a blocking call of a client that is used only for this call."""
        thread = self.thread(action)
        try:
            return self.call(thread, action, function)
        finally:
            thread.end()

    def check_topics(self) -> dict[str, Topic]:
        """Check the five topics and describe them, by name. Raises TopicError if one of them would lose records."""
        return self.call_once("checking the topics", lambda: check_topics(self.settings, self.runtime))
