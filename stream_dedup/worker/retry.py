"""The pauses between failed tries (`Retry`): of a task, of a standby, or of the group."""

import logging

from stream_dedup.errors import Fenced, StreamError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.runtime import REAL, Runtime
from stream_dedup.settings import Settings

log = logging.getLogger(__name__)

# Most short failures are a coordinator or a leader that has moved, which takes less than half a second, and the task
# should be open again by then. In an outage there is a try every five seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_DOUBLINGS = 6  # the longest pause is reached; 2.0**1024 would be too large for a float


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
