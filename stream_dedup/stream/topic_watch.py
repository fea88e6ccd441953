"""Notices a topic that is deleted and created anew under a running worker.

In: the topics' ids as the worker found them when it started to work. Out: an error for an input that is another one
now, a reason for a changelog that is. Why: to a client a topic is its name. The consumer would go on in the new topic
at the old one's offset, the producer would write to a changelog that has lost all it held, and neither would say so.
"""

import time
from collections.abc import Mapping
from concurrent.futures import Future

from stream_dedup.errors import StreamError, TopicError
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.resume import recreated
from stream_dedup.stream.topics import topic_ids

# A question takes 20 ms, in a thread of its own. Between two of them records may be skipped in a new input, and are not
# lost: the worker ends with the command that begins at its beginning.
_EVERY = 5.0
# A broker that has just started may not know all topics yet; one that is missing this often in a row is gone.
_MISSES = 3


class TopicWatch:
    """`look` is called often, and never waits."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._calls = context.thread("topic-watch")
        self._known: dict[str, str] = {}
        self._misses = 0
        self._answer: Future[dict[str, str]] | None = None
        self._next = 0.0

    def know(self, ids: Mapping[str, str]) -> None:
        """From now on these are the topics."""
        topics = self._context.settings.topics
        self._known = {name: ids.get(name, "") for name in (topics.input, topics.changelog)}
        self._answer, self._misses = None, 0  # an answer that is on its way may be about what was before

    @property
    def changelog_id(self) -> str:
        return self._known.get(self._context.settings.topics.changelog, "")

    def look(self) -> str | None:
        """What has happened to the changelog, once. Raises TopicError for an input that is gone, or another one now."""
        now = time.monotonic()
        if self._answer is None:
            if now >= self._next and self._known:
                self._next = now + _EVERY
                self._answer = self._calls.start("asking for the topics", lambda: topic_ids(self._context.settings))
            return None
        if not self._answer.done():
            return None
        answer, self._answer = self._answer, None
        try:
            found = answer.result()
        except StreamError:  # Kafka is away; whoever works says so
            return None
        return self._compare(found)

    def ask(self) -> None:
        """Asks at once, when the input's offsets are out of range. Raises TopicError for an input that is another."""
        self._compare(
            self._context.call(self._calls, "asking for the topics", lambda: topic_ids(self._context.settings))
        )

    def end(self) -> None:
        self._calls.end()

    def _compare(self, found: Mapping[str, str]) -> str | None:
        topics = self._context.settings.topics
        if len(found) < len(self._known):
            self._misses += 1
            if self._misses < _MISSES:
                return None
            if topics.input not in found:
                raise TopicError(f"{topics.input} was deleted; create it again, or set [topics] input")
        else:
            self._misses = 0
        if _is_another(self._known[topics.input], found.get(topics.input)):
            raise TopicError(recreated(self._context.settings, ()))
        before, now = self._known[topics.changelog], found.get(topics.changelog)
        self._known[topics.changelog] = now or ""
        if now is None and before:
            return f"{topics.changelog} was deleted"
        return f"{topics.changelog} was deleted and created anew" if _is_another(before, now) else None


def _is_another(before: str, now: str | None) -> bool:
    return bool(before and now and before != now)
