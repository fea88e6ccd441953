"""Poll feeds, each at its time, and deliver what is new; the protocol by which nothing is lost.

In: the feeds, a state, an output. Out: each new or changed entry as a JSON line. The tests kill the process at each
step; a step is announced before it begins.

    step        what happens                                             if the process is killed before or in it
    1 FETCH     feeds are requested, their entries compared              the feeds are polled again
    2 STORE     the state takes digests, next polls and lines at once    the feeds are polled again
    3 DELIVER   the output takes the lines (outputs.py)                  the lines are delivered from the state
    4 CONFIRM   the state drops the lines and notes the output's length  outputs.py finds out whether it has them

Steps 2 to 4 of a batch, the polls that ended since the last one, are done while further requests are on their way. The
number of polls that run or wait for step 2 is bounded, and so is memory, whatever the output's pace is.

Two feeds of one host are never polled at a time; fetch.py holds this for redirects and pages as well.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from urllib.parse import urlsplit

from stream_dedup.errors import BadItem
from stream_dedup.feeds.documents import Document, DocumentReader, Entry
from stream_dedup.feeds.fetch import Answer, Fetcher
from stream_dedup.feeds.outputs import Delivery
from stream_dedup.feeds.schedule import GONE, MOST_WAIT, OK, UNCHANGED, Feed, after_answer, after_failure
from stream_dedup.feeds.sources import public_url
from stream_dedup.feeds.state import Line, Poll, State, key
from stream_dedup.phrases import counted, moment

log = logging.getLogger(__name__)

# Polls at a time. Sixteen read thousands of feeds in ten minutes, with at most 160 MiB of documents in memory.
MOST_POLLS = 16
_SUMMARY_SECONDS = 3600.0
_MOST_LISTED = 20  # failing feeds in a summary; each was named when it began to fail


class FeedStep(IntEnum):
    """The steps of the protocol."""

    FETCH = 1
    STORE = 2
    DELIVER = 3
    CONFIRM = 4


class Clock:
    """The time, and waits; tests have one that runs faster."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    async def wait(self, tasks: Iterable["asyncio.Task[object]"], seconds: float | None) -> None:
        """Return when one of the tasks is done, or after these seconds."""
        await asyncio.wait(list(tasks), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


@dataclass
class Totals:
    """Counts of a run. `problems`: how often, by feed and reason."""

    polls: int = 0
    entries: int = 0
    read: int = 0  # polls that found the feed readable: unchanged, too
    problems: dict[str, Counter[str]] = field(default_factory=dict)


class Poller:
    """Polls the feeds, until `stop` is set, or each that is due once. `every`: least seconds between two polls of one.

    `jitter()`: 0 to 1. `announce` is called before each step.
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
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        announce: Callable[[FeedStep], None] = lambda _: None,
    ) -> None:
        self.totals = Totals()
        self._feeds = dict(feeds)
        self._state, self._output, self._fetcher = state, output, fetcher
        self._every, self._once, self._clock = every, once, clock or Clock()
        self._jitter, self._announce = jitter, announce
        self._read = DocumentReader()
        now = self._clock.now()
        self._waiting = {
            url for url, feed in feeds.items() if feed.outcome != GONE and (not once or _is_due(feed, now))
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Raises what the state and the output raise."""
        stopping = asyncio.create_task(stop.wait())
        polls: dict[asyncio.Task[Poll], str] = {}
        summary_at = self._clock.now() + _SUMMARY_SECONDS
        try:
            await self._deliver()  # what a former run could not
            while not stop.is_set() and (self._waiting or polls):
                pause = self._start(polls)
                await self._clock.wait([stopping, *polls], pause)
                done = [poll for poll in polls if poll.done()]
                if done:
                    await self._take([poll.result() for poll in done])
                for poll in done:
                    self._waiting.update(
                        [] if self._once or self._feeds[polls[poll]].outcome == GONE else [polls[poll]]
                    )
                    del polls[poll]
                if self._clock.now() >= summary_at:
                    self.report()
                    summary_at = self._clock.now() + _SUMMARY_SECONDS
        finally:
            for task in (stopping, *polls):
                task.cancel()
            await asyncio.gather(stopping, *polls, return_exceptions=True)

    def report(self) -> None:
        """Log how the feeds are."""
        outcomes = Counter(feed.outcome for feed in self._feeds.values())
        pending = outcomes.pop("", 0)
        fine, unchanged, gone = (outcomes.pop(name, 0) for name in (OK, UNCHANGED, GONE))
        log.info(
            "%s: %d ok, %d unchanged, %d failing, %d gone, %d not polled yet; %s requests of feeds, %s new or changed "
            "entries", counted(len(self._feeds), "feed"), fine, unchanged, sum(outcomes.values()), gone, pending,
            f"{self.totals.polls:,}", f"{self.totals.entries:,}",
        )  # fmt: skip
        waits = [feed.due for feed in self._feeds.values() if feed.outcome != GONE]
        if waits and not self.totals.polls:
            log.info("no feed is due; the next one is at %s", moment(1000 * int(min(waits))))
        failing = [feed for feed in self._feeds.values() if feed.failures and feed.outcome != GONE]
        for feed in failing[:_MOST_LISTED]:
            log.info("failing: %s: %s, %s in a row", public_url(feed.url), feed.outcome, counted(feed.failures, "time"))
        if len(failing) > _MOST_LISTED:
            log.info("%d more are failing", len(failing) - _MOST_LISTED)

    # -- polls -----------------------------------------------------------------------------------------------

    def _start(self, polls: dict["asyncio.Task[Poll]", str]) -> float | None:
        """Begin polls that are due; return the seconds until the next one is, None while a poll must end first."""
        now = self._clock.now()
        hosts = {_host(self._feeds[url]) for url in polls.values()}
        due = [url for url in self._waiting if _is_due(self._feeds[url], now)]
        for url in sorted(due, key=lambda url: (self._feeds[url].due, url)):
            feed = self._feeds[url]
            if len(polls) < MOST_POLLS and _host(feed) not in hosts:
                hosts.add(_host(feed))
                self._waiting.remove(url)
                polls[asyncio.create_task(self._poll(feed))] = url
        if any(_is_due(self._feeds[url], now) for url in due if url in self._waiting):
            return None
        return min((self._feeds[url].due - now for url in self._waiting), default=None)

    async def _poll(self, feed: Feed) -> Poll:
        self._announce(FeedStep.FETCH)
        self.totals.polls += 1
        headers: Mapping[str, str] = {}
        try:
            answer = await self._fetcher.get(feed.address, feed.validators)
            now, headers = self._clock.now(), answer.headers
            if answer.status == 304:
                return Poll(after_answer(feed, UNCHANGED, answer.url, headers, now, self._every))
            if answer.status != 200:
                raise _status(answer, feed)
            document = self._read(answer.body, feed.url)
        except BadItem as bad:
            self._problem(feed, bad)
            return Poll(after_failure(feed, bad.reason, self._clock.now(), self._every, self._jitter(), headers))
        known = self._state.digests(feed.url)
        revisions = [entry for entry in document.entries if known.get(key(entry.id)) != entry.digest]
        lines = self._lines(feed, document, revisions)
        after = after_answer(feed, OK if revisions else UNCHANGED, answer.url, headers, now, self._every, document.ttl)
        return Poll(after, document.entries, lines)

    def _lines(self, feed: Feed, document: Document, revisions: list[Entry]) -> list[Line]:
        left_out, lines = list(document.left_out), []
        for entry in revisions:
            line = entry.line
            if len(line) > self._output.largest:
                left_out.append(BadItem("too-large", f"{entry.id[:80]} has {len(line):,} bytes"))
            else:
                lines.append((entry.id, line))
        for bad in left_out:
            self._problem(feed, BadItem(f"entry-{bad.reason}", f"an entry is left out: {bad.detail}"))
        return lines

    def _problem(self, feed: Feed, bad: BadItem) -> None:
        """Count a problem; log it if it is the feed's first of this kind."""
        counts = self.totals.problems.setdefault(feed.url, Counter())
        counts[bad.reason] += 1
        if counts[bad.reason] == 1:
            log.warning("%s: %s", public_url(feed.url), bad.detail)

    # -- steps 2 to 4 ----------------------------------------------------------------------------------------

    async def _take(self, polls: list[Poll]) -> None:
        self._announce(FeedStep.STORE)
        self._state.store(polls, self._clock.now())
        for poll in polls:
            self._feeds[poll.feed.url] = poll.feed
            self.totals.entries += len(poll.revisions)
            self.totals.read += poll.feed.outcome in (OK, UNCHANGED)
        if any(poll.revisions for poll in polls):
            await self._deliver()

    async def _deliver(self) -> None:
        lines = self._state.outbox()
        if lines:
            self._announce(FeedStep.DELIVER)
            # In a thread: a slow reader or broker must not make requests time out.
            length = await asyncio.to_thread(self._output.deliver, self._state.sequence, lines)
            self._announce(FeedStep.CONFIRM)
            self._state.confirm(length)


def _host(feed: Feed) -> str:
    return urlsplit(feed.address).hostname or ""


def _is_due(feed: Feed, now: float) -> bool:
    # No pause is longer than that: if it seems so, the clock was ahead when it was noted.
    return feed.due <= now or feed.due > now + 2 * MOST_WAIT


def _status(answer: Answer, feed: Feed) -> BadItem:
    if answer.status == 410 and not feed.moved:
        return BadItem(GONE, "the feed is gone (410) and will not be polled again; take it out of the list")
    hint = {401: "; write credentials as https://USER:PASSWORD@HOST/", 404: "; is the address right?"}
    return BadItem(
        f"http-{answer.status}", f"the server answers with status {answer.status}{hint.get(answer.status, '')}"
    )
