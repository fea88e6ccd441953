"""Targets for what the servers of feeds and pages answer, and for lists and states of feeds."""

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import httpcore
import httpx
import msgspec

from stream_dedup.errors import BadItem, InputError, UsageError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import FeedsSettings, ItemSettings
from stream_dedup.tools.addresses import public_url
from stream_dedup.tools.feeds.database import State, key
from stream_dedup.tools.feeds.feed_entries import Entry, read_document
from stream_dedup.tools.feeds.pages import Pages
from stream_dedup.tools.feeds.schedule import MOST_WAIT, Feed, after_answer, after_failure
from stream_dedup.tools.feeds.subscriptions import read_sources
from stream_dedup.tools.feeds.web import Answer, Fetcher
from tests.fuzz.loop import JSON, Target, scratch, scratch_file

FEED = "http://ann:pw@a.example/feed?token=s3cret"
_HEADERS = [
    b"Content-Type: text/xml; charset=", b"utf-16", b"gb2312", b"punycode", b"idna", b"rot13", b"unicode_escape",
    b"charset*=utf-8''%ff", b"Content-Encoding: gzip\r\n", b"Content-Encoding: deflate, gzip\r\n", b"ETag: \xe9\r\n",
    b"Last-Modified: ", b"Retry-After: ", b"Thu, 01 Jan 1970 00:00:00 GMT", b"Thu, 01 Jan 0001 00:00:00 -9999",
    b"9" * 30, b"Cache-Control: max-age=", b"Location: ", b"http://[", b"//a:b", b"http://xn--a/", b"301",
    b"308", b"429", b"304", b"100", b"Transfer-Encoding: chunked\r\n", b"Content-Length: ", b"\r\n", b"\r\n\r\n", b"\0",
    b"Set-Cookie: a=b; Max-Age=9\r\n", b"\xb2",
]  # fmt: skip
_decode = Decoder(ItemSettings())


class Network:
    """A fetcher to which every server answers with the same bytes."""

    def __init__(self) -> None:
        self.fetcher = Fetcher(2, FeedsSettings())

    async def _closed(self, data: bytes) -> None:
        for pool in self.fetcher._client._transport._pools:  # type: ignore[attr-defined]
            await pool.aclose()
            pool._pool = httpcore.AsyncConnectionPool(network_backend=httpcore.AsyncMockBackend([data]))

    def poll(self, data: bytes) -> None:
        """As in Poller._poll: whatever comes, the feed has a next time."""

        async def scene() -> None:
            await self._closed(data)
            answer = Answer(0, "", {})
            try:
                answer = await self.fetcher.get("http://a.example/feed", Feed("", "", "e", "d").validators)
                read_document(answer.body, FEED, answer.charset)
                feed = after_answer(Feed(FEED), answer.url, answer.headers, 1e9, 600.0)
            except BadItem as bad:
                feed = after_failure(Feed(FEED, failures=9), bad.reason, 1e9, 600.0, 0.5, answer.headers)
            assert 600 <= feed.due - 1e9 <= MOST_WAIT
            assert msgspec.convert(msgspec.to_builtins(feed), Feed) == feed
            self.fetcher._client.build_request("GET", feed.address, headers=feed.validators)

        asyncio.run(scene())

    def page(self, data: bytes) -> None:
        """The bytes are robots.txt and the page."""

        async def scene() -> None:
            await self._closed(data)
            entry, problems = Entry("1", b"", {"link": "http://a.example/1"}, "http://a.example/1", 3), list[BadItem]()
            await Pages(self.fetcher, 5000, pause=0.0).fill([entry], problems.append)
            assert ("content" in entry.value) == (not problems)
            msgspec.json.encode(entry.value)

        asyncio.run(scene())


def _document(data: bytes) -> None:
    """The first line is the charset of the header."""
    charset, _, body = data.partition(b"\n")
    document = read_document(body, FEED, charset.decode("latin-1"))
    assert len({one.id for one in document.entries}) == len(document.entries)
    assert 0 <= document.ttl < 1e7
    for one in document.entries:
        line = msgspec.json.encode(one.value)
        item = _decode(line, None, None)
        assert isinstance(item, Item)
        assert item.id == one.id
        assert len(one.digest) == 16
        assert len(one.id) < 1200
        assert "s3cret" not in one.id + one.value["feed"]
        key(one.id)


def _list(data: bytes) -> None:
    for url in read_sources([str(scratch_file("feeds", data))]):
        assert url.lower().startswith(("http://", "https://"))
        assert not httpx.URL(public_url(url)).userinfo


def _state_seed() -> bytes:
    """A state in pages of 512 bytes, so that it is short enough for a mutant."""
    path = scratch() / "seed.db"
    path.unlink(missing_ok=True)
    with closing(State(path, "-")) as state:
        entry = Entry("1", b"d" * 16, {}, "", 0)
        state.store(Feed(FEED, "http://b.example/", '"e"', "d", 7.0, 1, "ok"), [entry], [("1", b"{}")], 9.0)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("VACUUM")
    return path.read_bytes()


def _state(data: bytes) -> None:
    path: Path = scratch_file("state.db", data)
    for suffix in ("-journal", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    state = State(path, "-")
    with closing(state):
        feeds = state.feeds([FEED, "http://b.example/"])
        known = state.digests(FEED)
        for name, line in state.outbox():
            assert name + line.decode("latin-1") is not None
        for feed in feeds.values():
            state.store(feed._replace(due=8.0), [Entry("2", b"e" * 16, {}, "", 0)], [("2", b"{}")], 10.0)
        with suppress(KeyError):
            assert known[key("2")] != b"e" * 16
        state.confirm(2)


def feed_targets(xml: list[bytes], feeds: list[bytes], markup: list[bytes]) -> list[Target]:
    """`xml`, `markup`: tokens; `feeds`: documents."""
    network = Network()
    json_feed = (
        b'{"version": "https://jsonfeed.org/version/1.1", "home_page_url": "https://a.example/", "items": [{"id": "7", \
"title": "T", "content_text": "x", "url": "https://a.example/7"}]}'
    )
    page = b"<!doctype html><html><head><meta charset=gbk><link rel=alternate type='application/rss+xml' href='//f'>"
    page += b"</head><body><article><p>" + b"word and word, " * 20 + b"</p></article></body></html>"
    headers = b'HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nETag: "a"\r\nLast-Modified: x\r\nRetry-After: 7\r\n\
Location: /next\r\nCache-Control: max-age=9\r\n%s\r\n%s'
    robots = b"User-agent: *\nCrawl-delay: 0\nDisallow: /private\nRequest-rate: 1/5\nSitemap: x\n\n"
    opml = b"<opml version='2.0'><body><outline><outline xmlUrl='https://a.example/f'/></outline></body></opml>"
    links = [b"guid", b"<link>", b"</link>", b"<guid>", b"<guid isPermaLink='false'>", b"<ttl>9</ttl>", b"<pubDate>"]
    return [
        Target("feed", [b"%s\n%s" % (charset, feed) for feed in (*feeds, json_feed) for charset in (b"", b"gbk")],
               [*xml, *JSON, *links, b"punycode\n", b"mac\n", b"gb\n", b"[" * 2000, b'{"a":' * 800, b'"items":'],
               _document, (BadItem,)),
        Target("answer", [headers % (status, b"text/xml", b"", feed) for feed in (*feeds, json_feed, page)
                          for status in (b"200 OK", b"301 Moved", b"503 Away")],
               [*_HEADERS, *xml], network.poll, (), 0.1),
        Target("page", [headers % (status, b"text/html", b"", robots + page) for status in (b"200 OK", b"404 No")],
               [*_HEADERS, *markup, b"Disallow:", b"Allow: /", b"Crawl-delay: \xc2\xb2\n",
                b"User-agent: stream-dedup\n", b"<meta charset="], network.page, (), 0.02),
        Target("list of feeds", [opml, b"https://a.example/f # x\nfeed:https://u:p@b.example/\n"],
               [*xml, b"xmlUrl='", b"<outline ", b"http://", b"feed://", b"@", b"[", b"]", b":", b"xn--",
                b"\xef\xbb\xbf"], _list, (InputError, UsageError)),
        Target("state of feeds", [_state_seed()], [b"CREATE TABLE", b"INTEGER", b"SQLite format 3\0"], _state,
               (InputError,), 0.02),
    ]  # fmt: skip
