"""What failed and may be tried again: how often in a row, and when it is due.

In: errors. Out: pauses that grow, and one line in the log an outage. Several tasks and the group fail independently of
each other, so each of them has a `Retry` of its own.
"""

import logging
import time

from stream_dedup.errors import Fenced, StreamError, TransactionFailed
from stream_dedup.settings import Settings
from stream_dedup.stream import client

log = logging.getLogger(__name__)

# Most hiccups are a coordinator or a leader that has moved, and are over by then; a task shall be open again within
# half a second. In an outage it is tried every five.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Retry:
    """`name` says in the log who fails."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.failures = 0
        self._settings, self._name = settings, name
        self._said = ""  # the last failure that was logged
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether nothing has failed, or the pause after it is over."""
        return time.monotonic() >= self._due

    def failed(self, error: StreamError, heard: float) -> float:
        """Notes a failure; the seconds until it may be tried again. `heard`: when the group was polled last, monotonic.

        Whoever opens a task fences its owner. So a member that may have been replaced, because it was fenced, or has
        been asleep or stuck for so long that its session can have ended, hears first what the group says: a heartbeat,
        and before it perhaps a search for the coordinator, after which the client counts a heartbeat's interval anew.
        """
        worker = self._settings.worker
        seconds: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self.failures)
        # The session began anew with the last heartbeat before that poll: at most two intervals of it were over.
        was_away = time.monotonic() - heard > worker.session_timeout.total_seconds() / 2
        says_of_records = (
            isinstance(error, TransactionFailed) and error.sources
        )  # what Kafka says of them tells nothing
        if not says_of_records and (was_away or isinstance(error, Fenced)):
            seconds = max(seconds, 2 * client.heartbeat_ms(self._settings) / 1000)
        self.failures += 1
        # An outage is said once, not at each try; another reason is news.
        level = logging.DEBUG if str(error) == self._said else logging.WARNING
        log.log(
            level, "%s: %s; trying again", self._name, error,
            extra={"kind": type(error).__name__, "retry_in": round(seconds, 1)},
        )  # fmt: skip
        self._said = str(error)
        self._due = time.monotonic() + seconds
        return seconds

    def wait(self, seconds: float) -> None:
        """Not due for so long at least."""
        self._due = max(self._due, time.monotonic() + seconds)

    def succeeded(self) -> None:
        if self.failures:
            log.info("%s works again", self._name)
        self.failures, self._said, self._due = 0, "", 0.0
