"""Time the retries of the worker: growing pauses, and one log line per outage.

In: errors that a retry may cure. Out: pauses that grow with each failure in a row. The tasks and the group fail
independently of each other, so each has its own `Retry`.
"""

import logging
import time

from stream_dedup.errors import Fenced, StreamError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.settings import Settings

log = logging.getLogger(__name__)

# Most short failures are a coordinator or a leader that has moved, and are over by then; a task shall be open again
# within half a second. In an outage there is a try every five seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_DOUBLINGS = 6  # the longest pause is reached; 2.0**1024 would be too large for a float


class Retry:
    """`name` says in the log what failed."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.failures = 0  # in a row
        self._settings, self._name = settings, name
        self._last_logged = ""  # the last failure that was logged as a warning
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the pause after the last failure is over, or nothing has failed."""
        return time.monotonic() >= self._due

    def failed(self, error: StreamError, last_poll: float) -> float:
        """Count a failure; return the seconds until the next try. `last_poll`: of the group, monotonic seconds.

        Opening a task fences its owner. A member may have been replaced without knowing it: it was fenced, or it was
        asleep or stuck for so long that its session may have ended. Such a member waits until it hears what the group
        says: for a heartbeat, and perhaps before it for a search for the coordinator, after which the client counts a
        heartbeat interval anew.
        """
        worker = self._settings.worker
        seconds: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self.failures, _DOUBLINGS))
        # The session began anew with the last heartbeat before that poll: at most two intervals of it were over.
        was_away = time.monotonic() - last_poll > worker.session_timeout.total_seconds() / 2
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
        self._due = time.monotonic() + seconds
        return seconds

    def postpone(self, seconds: float) -> None:
        """Put the next try off for at least this long."""
        self._due = max(self._due, time.monotonic() + seconds)

    def succeeded(self) -> None:
        """End the row of failures."""
        if self.failures:
            log.info("%s works again", self._name)
        self.failures, self._last_logged, self._due = 0, "", 0.0
