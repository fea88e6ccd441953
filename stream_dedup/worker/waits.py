"""Report what the worker waits for, once it has lasted, and its end: to the observer and in the log."""

import logging
from collections.abc import Mapping

from stream_dedup.kafka.cluster import Wait
from stream_dedup.worker.observer import Observer

log = logging.getLogger(__name__)

# A new leader or coordinator is there within seconds. With the first look at the cluster and the time between two, what
# is missing from the start is reported within ten seconds.
_SECONDS = 5.0
# By default Kafka aborts a producer's transaction after this long, so an older one is odd. Flink and others keep theirs
# open from checkpoint to checkpoint, and none of these is ever long here.
_PRODUCER_SECONDS = 60.0
_LOG_AGAIN_SECONDS = 60.0


class Waits:
    """All times are monotonic seconds."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._logged: dict[Wait, float] = {}  # when
        self._reported: set[Wait] = set()

    def report(self, now: float, waits: Mapping[Wait, tuple[float, str]]) -> None:
        """`waits`: since when, and what is missing and what mends it. Call it every second or so."""
        for wait in self._reported - waits.keys():
            self._reported.discard(wait)
            self._observer.waiting(wait, 0.0, "")
            if self._logged.pop(wait, None) is not None:
                log.info("the wait for %s is over", wait, extra={"kind": wait})
        for wait, (since, reason) in waits.items():
            seconds = now - since
            is_long = seconds >= (_PRODUCER_SECONDS if wait is Wait.PRODUCERS else _SECONDS)
            self._reported.add(wait)
            self._observer.waiting(wait, seconds, f"for {seconds:.0f} s {reason}" if is_long else "")
            if is_long and now - self._logged.get(wait, float("-inf")) >= _LOG_AGAIN_SECONDS:
                self._logged[wait] = now
                log.warning(
                    "for %.0f s %s. Logged again each minute", seconds, reason,
                    extra={"kind": wait, "seconds": round(seconds, 1)},
                )  # fmt: skip
