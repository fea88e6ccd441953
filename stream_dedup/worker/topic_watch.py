"""Detect that a topic was deleted and created anew under a running worker, and that the group is another deployment's.

In: the topics' ids at the start of the work, and the notes beside the group's offsets. Out: an error for another input
topic or a group that writes to another output, a reason for another changelog. To a client a topic is only a name.
Without this check the consumer would go on in the new topic at the old topic's offset, and the producer would write to
an empty changelog, both without an error. And a second deployment with the same group would be a silent standby.
"""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future

from stream_dedup.errors import StreamError, TopicError
from stream_dedup.kafka.topics import topic_ids, topic_ids_and_notes
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.resume import Note, check_output, last_of, recreated_message

log = logging.getLogger(__name__)

# A request takes 20 ms, in a thread of its own. Records of a new input may be skipped between two requests, but are not
# lost: the worker ends with the command that begins at the new topic's beginning.
_CHECK_SECONDS = 5.0
# A broker that has just started may not know all topics yet; a topic that is missing this often in a row is gone.
_MISSES = 3
# A request that never returns costs a thread, so the patience doubles with each in a row, up to some hours.
_DOUBLINGS = 9


class TopicWatch:
    """Compares topic ids every few seconds. The worker calls `poll` often; it never waits."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._calls = context.thread("topic-watch")
        self._ids: dict[str, str] = {}
        self._misses = 0
        self._pending: Future[tuple[dict[str, str], Note | None]] | None = None
        self._next_check = self._asked_at = 0.0
        self._hung = 0  # requests in a row that have not come back
        self._knows_group = False  # a note of a commit to our output was seen; another deployment refuses this group

    def expect(self, ids: Mapping[str, str]) -> None:
        """Set the ids to compare with."""
        self._ids = {name: ids.get(name, "") for name in self._watched}
        self._pending, self._misses = None, 0  # a pending answer may be about the topics before

    @property
    def _watched(self) -> tuple[str, ...]:
        topics = self._context.settings.topics
        return topics.input, topics.changelog

    @property
    def changelog_id(self) -> str:
        return self._ids.get(self._context.settings.topics.changelog, "")

    def poll(self) -> str | None:
        """What happened to the changelog topic, once. Raises TopicError for an input that is gone or was replaced."""
        now = time.monotonic()
        if self._pending is None:
            if now >= self._next_check and self._ids:
                self._next_check, self._asked_at = now + _CHECK_SECONDS, now
                self._pending = self._calls.start("asking for the topics", self._ask)
            return None
        if not self._pending.done():
            self._ask_anew(now - self._asked_at)
            return None
        answer, self._pending = self._pending, None
        self._hung = 0
        try:
            ids, last = answer.result()
        except StreamError:  # Kafka is away, which the worker itself reports
            return None
        change = self._compare(ids)
        check_output(self._context.settings, last)
        self._knows_group |= last is not None
        return change

    def _ask_anew(self, seconds: float) -> None:
        """Give up a request that has not come back for so long."""
        if seconds < 2 * self._context.call_timeout * 2 ** min(self._hung, _DOUBLINGS):
            return
        log.warning(
            "asking for the topics has not come back for %.0f s; a topic that was recreated meanwhile was not noticed. "
            "Asking again over a new connection", seconds,
        )  # fmt: skip
        self._calls.end()
        self._calls, self._pending = self._context.thread("topic-watch"), None
        self._hung += 1

    def check_now(self) -> None:
        """Check at once, as when the input's offsets are out of range. Raises TopicError for a replaced input."""
        self._compare(self._context.call(self._calls, "asking for the topics", self._ask)[0])

    def end(self) -> None:
        self._calls.end()

    def _ask(self) -> tuple[dict[str, str], Note | None]:
        """The topics' ids, and until the group is known the note of its last commit."""
        context = self._context
        if self._knows_group:
            return topic_ids(context.settings, self._watched), None
        ids, notes = topic_ids_and_notes(context.settings, self._watched)
        return ids, last_of(map(Note.parse, notes))

    def _compare(self, ids: Mapping[str, str]) -> str | None:
        source, changelog = self._watched
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
        before, now = self._ids[changelog], ids.get(changelog)
        self._ids[changelog] = now or ""
        if now is None and before:
            return f"{changelog} was deleted"
        return f"{changelog} was deleted and created anew" if _is_replaced(before, now) else None


def _is_replaced(before: str, now: str | None) -> bool:
    return bool(before and now and before != now)
