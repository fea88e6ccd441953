"""Poll feeds, each at its time, and deliver each new or changed entry as a JSON line, by a protocol that loses nothing.

The tests kill the process at each step.

    step        what happens                                             if the process is killed before or in it
    1 FETCH     a feed is requested, its entries are compared            the feed is polled again
    2 STORE     the state takes digests, next poll and lines at once     the feed is polled again
    3 DELIVER   the output takes the lines (delivery.py)                 the lines are delivered from the state
    4 CONFIRM   the state drops the lines and notes the output's length  delivery.py finds out whether it has them

One poll at a time does steps 2 to 4, while other requests are under way. The number of polls that run or wait for step
2 is bounded, and so is memory, however slow the output is.

Two feeds of one host are never polled at the same time. web.py keeps this rule for redirects and pages, too.
"""

import asyncio
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import httpx
import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.phrases import counted, moment
from stream_dedup.tools.addresses import public_url
from stream_dedup.tools.feeds.database import Line, State, key
from stream_dedup.tools.feeds.delivery import Delivery
from stream_dedup.tools.feeds.feed_entries import Document, read_document
from stream_dedup.tools.feeds.pages import Pages
from stream_dedup.tools.feeds.schedule import GONE, MOST_WAIT, OK, Feed, after_answer, after_failure
from stream_dedup.tools.feeds.web import Fetcher

log = logging.getLogger(__name__)

# Polls at a time. Sixteen read thousands of feeds in ten minutes, with at most 160 MiB of documents in memory.
MOST_POLLS = 16
_wait = partial(asyncio.wait, return_when=asyncio.FIRST_COMPLETED)
# What a message adds to the status of an answer.
_HINTS = {
    401: "; write credentials as https://USER:PASSWORD@HOST/",
    404: "; is the address right?",
    410: ": the feed is gone and will not be polled again; take it out of the list",
}


class Poller:
    """Polls the feeds until `stop` is set, or `once` each feed that is due.

    `every`: seconds between two polls of a feed, at least. `now`, `wait`: the clock, in seconds since 1970; tests have
    a faster one. `polls` counts the polls, `read` the successful ones, `entries` the emitted entries, `problems` the
    problems with entries by feed and reason.
    """

    def __init__(
        self,
        feeds: Mapping[str, Feed],
        state: State,
        output: Delivery,
        fetcher: Fetcher,
        *,
        every: float,
        once: bool = False,
        pages: Pages | None = None,
        now: Callable[[], float] = time.time,
        wait: Callable[..., Awaitable[object]] = _wait,
    ) -> None:
        self.polls = self.read = self.entries = 0
        self.problems = Counter[tuple[str, str]]()
        self._state, self._output, self._fetcher, self._pages = state, output, fetcher, pages
        self._every, self._once, self._now, self._wait = every, once, now, wait
        self._delivering = asyncio.Lock()
        # Documents are read one at a time, to save memory, and in a thread: a long one would make requests time out.
        self._reading = asyncio.Lock()
        # No pause is longer. If one seems longer, the clock was ahead when the pause was noted.
        latest = now() + 2 * max(every, MOST_WAIT)
        self._feeds = {url: feed if feed.due <= latest else feed._replace(due=0.0) for url, feed in feeds.items()}
        self._waiting = {
            url for url, feed in self._feeds.items() if feed.outcome != GONE and not (once and feed.due > now())
        }

    async def run(self, stop: threading.Event) -> None:
        """Poll. At its end it sets `stop` and closes the fetcher. Raises the errors of the state and the output."""
        stopping = asyncio.create_task(asyncio.to_thread(stop.wait))
        polls: dict[asyncio.Task[None], str] = {}
        try:
            await self._deliver()  # what a former run left
            while not stop.is_set() and (self._waiting or polls):
                pause = self._start(polls)
                await self._wait([stopping, *polls], timeout=pause)
                for poll in [task for task in polls if task.done()]:
                    del polls[poll]
                    poll.result()
        finally:
            stop.set()
            async with self._delivering:  # a delivery must be confirmed, or a stream would get it again
                for poll in polls:
                    poll.cancel()
            await asyncio.gather(stopping, *polls, return_exceptions=True)
            await self._fetcher.aclose()
            outcomes = Counter(feed.outcome or "not polled" for feed in self._feeds.values())
            reasons = Counter(reason for _, reason in self.problems.elements())
            log.info(
                "%s: %s; %s, %s new or changed entries; problems: %s", counted(len(self._feeds), "feed"),
                _listed(outcomes), counted(self.polls, "request"), f"{self.entries:,}", _listed(reasons) or "none",
            )  # fmt: skip
            due = [feed.due for feed in self._feeds.values() if feed.outcome != GONE]
            if due and not self.polls:
                log.info("no feed is due; the next one is at %s", moment(1000 * int(min(due))))

    def _start(self, polls: dict["asyncio.Task[None]", str]) -> float | None:
        """Start the polls that are due. Return the seconds until the next one, or None if a poll must end first."""
        now = self._now()
        hosts = {_host(self._feeds[url]) for url in polls.values()}
        for _, url in sorted((self._feeds[url].due, url) for url in self._waiting if self._feeds[url].due <= now):
            host = _host(self._feeds[url])
            if len(polls) < MOST_POLLS and host not in hosts:
                hosts.add(host)
                self._waiting.remove(url)
                polls[asyncio.create_task(self._poll(self._feeds[url]))] = url
        pause = min((self._feeds[url].due - now for url in self._waiting), default=None)
        return pause if pause and pause > 0 else None

    async def _poll(self, feed: Feed) -> None:
        self.polls += 1
        headers: Mapping[str, str] = {}
        document, lines = Document((), 0.0, ()), list[Line]()
        try:
            answer = await self._fetcher.get(feed.address, feed.validators, listed=feed.url)
            headers = answer.headers
            if answer.status == 200:
                async with self._reading:
                    document = await asyncio.to_thread(read_document, answer.body, feed.url, answer.charset)
            elif answer.status != 304:
                reason = GONE if answer.status == 410 and not feed.moved else f"http-{answer.status}"
                raise BadItem(reason, f"the server answers with status {answer.status}{_HINTS.get(answer.status, '')}")
        except BadItem as bad:
            if bad.reason != feed.outcome:
                log.warning("%s: %s", public_url(feed.url), bad.detail)
            feed = after_failure(feed, bad.reason, self._now(), self._every, random.random(), headers)
        else:
            if feed.failures:
                log.info("%s: it can be read again", public_url(feed.url))
            lines = await self._revisions(feed.url, document)
            feed = after_answer(feed, answer.url, headers, self._now(), self._every, document.ttl)
        async with self._delivering:
            self._state.store(feed, document.entries, lines, self._now())
            if lines:
                await self._deliver()
        self.entries += len(lines)
        self.read += feed.outcome == OK
        self._feeds[feed.url] = feed
        if not self._once and feed.outcome != GONE:
            self._waiting.add(feed.url)

    async def _revisions(self, url: str, document: Document) -> list[Line]:
        """Return the lines of the new and changed entries."""

        def report(bad: BadItem) -> None:
            self.problems[url, bad.reason] += 1
            if self.problems[url, bad.reason] == 1:
                log.warning("%s: %s", public_url(url), bad.detail)

        known = self._state.digests(url)
        changed = [entry for entry in document.entries if known.get(key(entry.id)) != entry.digest]
        if self._pages:
            await self._pages.fill(reversed(changed), report)  # the newest first, because it may stop early
        for bad in document.problems:
            report(bad)
        lines = [(entry.id, msgspec.json.encode(entry.value)) for entry in changed]
        too_large = [name for name, line in lines if len(line) > self._output.largest]
        for name in too_large:
            report(BadItem("entry-too-large", f"an entry is left out: it is too large for the output ({name[:80]})"))
        return [line for line in lines if line[0] not in too_large]

    async def _deliver(self) -> None:
        lines = self._state.outbox()
        if lines:
            # In a thread: a slow reader or broker must not make requests time out.
            self._state.confirm(await asyncio.to_thread(self._output.deliver, self._state.sequence, lines))


def _host(feed: Feed) -> str:
    return httpx.URL(feed.address).host


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common())
