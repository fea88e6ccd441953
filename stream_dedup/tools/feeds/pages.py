"""Take the text of new and changed entries from their pages (`--pages`).

An entry gets the article of its page as a member that the presets find. It keeps its own text, and is counted, if the
page cannot be read or its article is not longer than that text. A page is requested once; later versions that the feed
does not announce are not seen.

Requests follow a site's robots.txt (RFC 9309), by Python's parser, which knows no wildcards. A site is left alone for a
while if it does not answer, asks for rest, or redirects its robots.txt to another site.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from urllib.robotparser import RobotFileParser

import httpx
import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.news.clean import article_extractor
from stream_dedup.news.decode import site_of
from stream_dedup.news.repair import text_of
from stream_dedup.tools.addresses import public_url
from stream_dedup.tools.feeds.feed_entries import Entry
from stream_dedup.tools.feeds.schedule import retry_after
from stream_dedup.tools.feeds.web import AGENT, MOST_BYTES, Answer, Fetcher

# Seconds between two requests to a host, unless robots.txt asks for more. A start requests hundreds of pages.
_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
# Seconds of a site's rest, unless it asks for more: about the time between two polls.
_REST = 600.0
# Seconds, and bytes of text, for the pages of one poll. A first poll may bring some hundred, later ones a few.
_MOST_SECONDS, _MOST_TEXT = 600.0, MOST_BYTES
# By RFC 9309, robots.txt may be kept for a day, and be cut at 500 KiB. The memory for all of them has 16 MiB, which is
# enough for thousands of sites; each counts with the room of its entry.
_DAY, _LONGEST_ROBOTS, _MOST_ROBOTS, _ROOM = 86_400.0, 500 * 2**10, 2**24, 500
# HTML declares its charset in the first 1,024 bytes.
_META = re.compile(rb"<meta\s[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9._:-]{1,40})", re.I)


class Pages:
    """Requests pages. `largest`: bytes of the largest line that the output takes.

    Raises ConfigError if the extra `pages` is not installed.
    """

    def __init__(
        self, fetcher: Fetcher, largest: int, pause: float = _PAUSE, now: Callable[[], float] = time.time
    ) -> None:
        self._fetcher, self._largest, self._pause, self._now = fetcher, largest, pause, now
        self._article = article_extractor("--pages")
        self._sites: dict[str, tuple[float, bytes | None]] = {}  # until when, and robots.txt; None: the site rests

    async def fill(self, entries: Iterable[Entry], report: Callable[[BadItem], None]) -> None:
        """Give the entries of one poll the articles of their pages. `report` gets the reason for each entry without."""
        end, left = self._now() + _MOST_SECONDS, _MOST_TEXT
        for entry in entries:
            try:
                if left < 0 or self._now() > end:
                    raise BadItem("many", "the pages of one poll took ten minutes, or had 10 MiB of text")
                text = await self._text(entry.link)
                if len(text) <= entry.length:
                    raise BadItem("short", "the article of its page is not longer")
                value = entry.value | {"content" if "link" in entry.value else "content_text": text}
                if len(msgspec.json.encode(value)) > self._largest:
                    raise BadItem("too-large", "with its page it is larger than the output takes")
            except BadItem as bad:
                report(BadItem(f"page-{bad.reason}", f"an entry keeps its own text: {bad.detail}"))
            else:
                entry.value.update(value)
                left -= len(text)

    async def _text(self, link: str) -> str:
        if not link.startswith(("http://", "https://")):
            raise BadItem("link", "it has no link to a page")
        site = ""

        async def permit(url: httpx.URL) -> float:
            nonlocal site
            site = str(url.copy_with(path="/robots.txt", query=None, fragment=None))
            return await self._pause_of(site, str(url))

        try:
            answer = await self._fetcher.get(link, {"Accept": "text/html, application/xhtml+xml"}, permit)
        except BadItem as bad:
            if bad.reason in ("connection", "timeout"):
                self._remember(site, _REST, None)
            raise
        if answer.status != 200:
            if _wants_rest(answer):
                self._remember(site, max(_REST, retry_after(answer.headers, self._now())), None)
            raise BadItem(f"http-{answer.status}", f"the server of its page answers with status {answer.status}")
        if "html" not in answer.headers.get("content-type", "html").lower():
            raise BadItem("type", f"its page is no HTML, but {answer.headers['content-type'][:40]}")
        return await asyncio.to_thread(self._read, answer)

    def _read(self, answer: Answer) -> str:
        meta = _META.search(answer.body[:1024])
        return self._article(text_of(answer.body, meta[1].decode() if meta else answer.charset))

    async def _pause_of(self, site: str, url: str) -> float:
        """Return the seconds to wait before a request. `site`: the address of its robots.txt. Raises BadItem."""
        if self._sites.get(site, (0.0, None))[0] < self._now():
            seconds, rules = _REST, None
            try:
                answer = await self._fetcher.get(site, {"Accept": "text/plain"}, _on_site(site))
                if _wants_rest(answer):
                    seconds = max(_REST, retry_after(answer.headers, self._now()))
                else:
                    seconds, rules = _DAY, answer.body[:_LONGEST_ROBOTS]
            except BadItem as bad:
                if bad.reason == "address":
                    raise
            self._remember(site, seconds, rules)
        rules = self._sites[site][1]
        if rules is None:
            raise BadItem("rest", f"{public_url(site)} cannot be read, or the site asks for rest: it is left alone")
        return await asyncio.to_thread(self._pause_by, rules, site, url)

    def _pause_by(self, rules: bytes, site: str, url: str) -> float:
        robots = RobotFileParser()
        try:
            robots.parse(rules.decode(errors="replace").splitlines())
            if robots.can_fetch(AGENT, url):
                return max(self._pause, min(float(robots.crawl_delay(AGENT) or 0), _LONGEST_PAUSE))
        except ValueError:  # the parser takes "²" for a digit
            pass
        raise BadItem("robots", f"{public_url(site)} does not allow it")

    def _remember(self, site: str, seconds: float, rules: bytes | None) -> None:
        self._sites.pop(site, None)
        self._sites[site] = (self._now() + seconds, rules)
        while sum(_ROOM + len(kept or b"") for _, kept in self._sites.values()) > _MOST_ROBOTS:
            del self._sites[next(iter(self._sites))]


def _on_site(site: str) -> Callable[[httpx.URL], Awaitable[float]]:
    """Refuse a redirect of robots.txt to another site, whose rules are its own."""

    async def permit(url: httpx.URL) -> float:
        if site_of(str(url)) != site_of(site):
            raise BadItem("robots", "its robots.txt leads to another site")
        return 0.0

    return permit


def _wants_rest(answer: Answer) -> bool:
    return answer.status == 429 or answer.status >= 500
