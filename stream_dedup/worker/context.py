"""What the parts of a worker share: settings, observer, runtime, threads with time limits; and pauses between tries."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import Fenced, StreamError, TransactionFailed
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.runtime import REAL, Bounded, Runtime
from stream_dedup.kafka.topics import Topic, check_topics
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import Observer

T = TypeVar("T")
log = logging.getLogger(__name__)

# Most short failures are a coordinator or a leader that has moved, which takes less than half a second, and the task
# should be open again by then. In an outage there is a try every five seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_DOUBLINGS = 6  # the longest pause is reached; 2.0**1024 would be too large for a float


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What the worker loop, the tasks and their state stores share."""

    settings: Settings
    observer: Observer
    runtime: Runtime
    decider: Callable[[Settings], Decider]  # makes an empty index
    remaining: Callable[[], float]  # seconds until the worker must have ended
    said: set[str] = field(default_factory=set)  # the names of warnings that were logged

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

    def once(self, warning: str) -> bool:
        """Return True at the first call with this name since the worker started, then False: a warning said once."""
        is_first = warning not in self.said
        self.said.add(warning)
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


class Retry:
    """Counts failures in a row, and lets the pause before the next try grow. `name` says in the log what failed."""

    def __init__(self, settings: Settings, name: str, runtime: Runtime = REAL) -> None:
        self.failures = 0  # in a row
        self._settings, self._name, self._monotonic = settings, name, runtime.monotonic
        self._last_logged = ""  # the last failure that was logged as a warning
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the pause after the last failure is over, or nothing has failed."""
        return self._monotonic() >= self._due

    def failed(self, error: StreamError, last_poll: float) -> float:
        """Count a failure; return the seconds until the next try. `last_poll`: of the group, monotonic seconds.

        Opening a task fences its owner. A member may have been replaced without knowing it: it was fenced, or it slept
        or hung for so long that its session may have ended. Such a member waits until it hears from the group: for two
        heartbeats, because the client may have to look for the coordinator first, and then counts the interval anew.
        """
        worker = self._settings.worker
        seconds: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self.failures, _DOUBLINGS))
        # The session began anew with the last heartbeat before that poll: at most two intervals of it were over.
        was_away = self._monotonic() - last_poll > worker.session_timeout.total_seconds() / 2
        # Kafka's verdict on single records says nothing about the member.
        is_about_records = isinstance(error, TransactionFailed) and error.sources
        if not is_about_records and (was_away or isinstance(error, Fenced)):
            seconds = max(seconds, 2 * client.heartbeat_ms(self._settings) / 1000)
        self.failures += 1
        # An outage is logged once, not at each try; another reason is logged again.
        level = logging.DEBUG if str(error) == self._last_logged else logging.WARNING
        log.log(
            level, "%s: %s; trying again", self._name, error,
            extra={"kind": type(error).__name__, "retry_in": round(seconds, 1)},
        )  # fmt: skip
        self._last_logged = str(error)
        self._due = self._monotonic() + seconds
        return seconds

    def postpone(self, seconds: float) -> None:
        """Put the next try off for at least this long."""
        self._due = max(self._due, self._monotonic() + seconds)

    def succeeded(self) -> None:
        """End the row of failures."""
        if self.failures:
            log.info("%s works again", self._name)
        self.failures, self._last_logged, self._due = 0, "", 0.0
