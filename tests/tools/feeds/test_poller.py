"""Which feeds are polled when, and what is emitted of them."""

import gzip
import threading
from itertools import pairwise

import pytest

from stream_dedup.tools.feeds.feed_entries import Document, read_document
from tests.tools.feeds.conftest import World
from tests.tools.feeds.server import Reply, Request, conditional, entry, reply, rss

pytestmark = pytest.mark.anyio
DAY = 86_400.0


async def test_a_changed_entry_is_emitted_again_with_its_id_and_an_unchanged_one_never(world: World) -> None:
    url = world.server.url("/rss")
    for document in (
        rss(entry(1), entry(2)),
        rss(entry(1), entry(2)),
        rss(entry(3), entry(1, title="Story one"), entry(2, text="<p>The <b>ferry</b> stops.</p>")),
        rss(entry(3), entry(1, title="Story one", pubDate="Mon, 02 Mar 2026 06:00:00 GMT")),
        rss(entry(2)),
    ):
        world.server.pages["/rss"] = reply(document)
        world.clock.time += world.every
        await world.poll([url])
    shown = [(one["id"].removeprefix(url), one["title"]) for one in world.entries]
    assert shown == [
        ("#2", "Story 2"), ("#1", "Story 1"), ("#1", "Story one"), ("#3", "Story 3"), ("#1", "Story one")
    ]  # fmt: skip


async def test_a_document_is_read_beside_other_requests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a long document makes other requests time out."""
    asked = threading.Event()

    def read(body: bytes, url: str, charset: str) -> Document:
        assert url.endswith("/other") or asked.wait(30), "the other feed was not asked meanwhile"
        return read_document(body, url, charset)

    def other(_: Request) -> Reply:
        asked.set()
        return reply(rss(entry(2)))

    monkeypatch.setattr("stream_dedup.tools.feeds.poller.read_document", read)
    world.server.pages = {"/rss": reply(rss(entry(1))), "/other": other}
    poller = await world.poll([world.server.url("/rss"), world.server.url("/other", "localhost")])
    assert poller.read == 2


async def test_one_id_on_all_entries_is_said_once_and_no_entry_replaces_another(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    url = world.server.url("/rss")
    for number in range(2, 6):
        found = [entry(n, guid="x") for n in range(number, 0, -1)]
        world.server.pages["/rss"] = reply(rss(*found))
        world.clock.time += world.every
        poller = await world.poll([url])
        assert poller.problems == {(url, "entry-id"): 1}
    assert [one["title"][-1] for one in world.entries] == ["1", "2", "3", "4", "5"]
    assert len({one["id"] for one in world.entries}) == 5
    assert caplog.text.count("2 entries have the id http://127.0.0.1:") == 1


async def test_of_entries_that_left_their_feed_the_last_ones_are_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_dedup.tools.feeds.database._MOST_UNLISTED", 3)
    url = world.server.url("/rss")
    for numbers in ([1, 9], [2, 9], [2, 9], [3, 9], [4], [2, 3], [9], [1]):
        world.clock.time += world.every
        world.server.pages["/rss"] = reply(rss(*map(entry, numbers)))
        await world.poll([url])
    assert [int(one["guid"][-1]) for one in world.entries] == [9, 1, 2, 3, 4, 1]


async def test_a_long_pause_is_kept_and_one_that_a_wrong_clock_noted_is_not(world: World) -> None:
    world.every = 4 * DAY
    world.server.pages["/rss"] = reply(rss(entry(1)))
    await world.poll([world.server.url("/rss")], seconds=3.9 * DAY)
    assert world.times("/rss") == [0]
    world.clock.time -= 30 * DAY
    await world.poll([world.server.url("/rss")], seconds=1)
    assert len(world.times("/rss")) == 2


@pytest.mark.parametrize("etag", ['"x"', '"\u00e9"'])
async def test_a_request_says_what_is_known_and_who_asks(world: World, etag: str) -> None:
    date = "Mon, 02 Mar 2026 06:00:00 GMT"
    world.server.pages["/rss"] = reply(rss(entry(1)), ETag=etag, Last_Modified=date, packed=True)
    poller = await world.poll([world.server.url("/rss")], seconds=601)
    first, second = (request.headers for request in world.server.requests)
    assert first["user-agent"].startswith("stream-dedup/")
    assert "if-none-match" not in first
    assert second.get("if-none-match") == (etag if etag.isascii() else None), "a header holds ASCII"
    assert second["if-modified-since"] == date
    assert (poller.polls, poller.read, len(world.entries)) == (2, 2, 1)


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (reply(rss(entry(1))), 600),
        (reply(rss(entry(1)), Cache_Control="public, max-age=1800"), 1800),
        (reply(rss(entry(1)), Cache_Control="max-age=60"), 600),
        (reply(rss(entry(1)), Cache_Control="max-age=31536000"), 6 * 3600),
        (reply(rss(entry(1), channel="<ttl>45</ttl>")), 2700),
        (Reply(429, {"Retry-After": "5000"}), 5000),
        (Reply(503, {"Retry-After": "5000"}), 5000),
    ],
)
async def test_a_feed_may_ask_for_a_longer_interval(world: World, answer: Reply, seconds: int) -> None:
    world.server.pages["/rss"] = answer
    await world.poll([world.server.url("/rss")], seconds=seconds * 2 + 10)
    assert world.times("/rss") == pytest.approx([0, seconds, 2 * seconds], abs=1)


async def test_pauses_after_errors_double_up_to_six_hours_and_a_success_ends_them(world: World) -> None:
    world.server.pages["/rss"] = Reply(500)
    await world.poll([world.server.url("/rss")], seconds=DAY)
    pauses = [later - one for one, later in pairwise(world.times("/rss"))]
    assert pauses == pytest.approx([600, 1200, 2400, 4800, 9600, 19200, 21600, 21600], abs=1)
    assert world.outcome("/rss") == ("http-500", 9)
    world.server.pages["/rss"] = reply(rss(entry(1)))
    await world.poll([world.server.url("/rss")], seconds=22_000)
    *_, last, again = world.times("/rss")
    assert (again - last, len(world.entries)) == (pytest.approx(600, abs=1), 1)


async def test_a_feed_that_is_gone_is_never_polled_again_and_said_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.pages["/rss"] = Reply(410)
    for _ in range(2):
        await world.poll([world.server.url("/rss")], seconds=DAY)
    assert world.times("/rss") == [0]
    assert caplog.text.count("the feed is gone") == 1
    assert "1 gone" in caplog.messages[-1]


async def test_a_lasting_move_is_remembered_and_a_passing_one_not(world: World) -> None:
    pages = world.server.pages
    pages["/old"] = Reply(301, {"Location": "/new"})
    pages["/new"] = Reply(308, {"Location": "/newest"})
    pages["/newest"] = reply(rss(entry(1)))
    pages["/away"] = Reply(302, {"Location": "/newest"})
    await world.poll([world.server.url("/old"), world.server.url("/away")], seconds=601)
    paths = [request.path for request in world.server.requests]
    assert (paths.count("/old"), paths.count("/new"), paths.count("/away")) == (1, 1, 2)
    assert {one["feed"] for one in world.entries} == {world.server.url("/old"), world.server.url("/away")}
    # A move that turns out wrong ends when the new address fails.
    pages["/old"], pages["/newest"] = reply(rss(entry(2))), Reply(404)
    await world.poll([world.server.url("/old")], seconds=1300)
    assert [one["title"] for one in world.entries][-1] == "Story 2"


def deep(size: int) -> bytes:
    return gzip.compress(b"<rss><channel>" + b" " * size + b"</channel></rss>")


PAGE = b'<!doctype html><html><head><link rel="alternate" type="application/rss+xml" href="http://[/feed.xml?token=x"></head></html>'
FAILURES = {
    "loop": (Reply(302, {"Location": "/rss"}), "redirect", "a circle"),
    "to a file": (Reply(301, {"Location": "file:///etc/passwd"}), "connection", "unsupported protocol 'file://'"),
    "nowhere": (Reply(301), "http-301", "status 301"),
    "to no URL": (Reply(301, {"Location": "http://a:b/"}), "connection", "Invalid URL"),
    "to no name": (Reply(301, {"Location": "http://xn--a/"}), "connection", "InvalidCodepoint"),
    "huge": (Reply(200, {}, (b"<rss>" + b" " * 2**20,) * 11), "too-large", "more than 10 MiB"),
    "bomb": (Reply(200, {"Content-Encoding": "gzip"}, (deep(2**26),)), "too-large", "more than 10 MiB"),
    "packed and cut": (Reply(200, {"Content-Encoding": "gzip"}, (deep(2**16)[:-20],)), "xml", "cut short"),
    "no gzip": (Reply(200, {"Content-Encoding": "gzip"}, (b"<rss>",)), "connection", "incorrect header"),
    "cut": (Reply(200, {}, (b"<rss>",), length=99), "connection", "peer closed"),
    "silent": (Reply(200, {}, (b"<rss>", b"</rss>"), 60.0), "timeout", "within 2 s"),
    "dripping": (Reply(200, {}, (b" ",) * 100, 0.1), "timeout", "within 2 s"),
    "page": (reply(PAGE), "xml", "put the feed that it names into the list: http://[/feed.xml?token=***"),
    "no feed": (reply(b"<menu></menu>"), "xml", "neither a feed"),
    "entities": (reply(b'<!DOCTYPE rss [<!ENTITY a "b">]><rss/>'), "xml", "declares entities"),
    "empty": (reply(b""), "xml", "the answer is empty"),
    "text": (reply(b"Service unavailable"), "xml", "no element of XML"),
    "not JSON": (reply(b'{"items": ['), "json", "truncated"),
    "no JSON Feed": (reply(b'{"items": 3}'), "json", "Expected `array`"),
    "forbidden": (Reply(401), "http-401", "write credentials as"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_what_fails_is_said_once_and_counted_and_holds_up_no_other_feed(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer, reason, words = FAILURES[name]
    world.server.pages["/rss"], world.server.pages["/other"] = answer, reply(rss(entry(1)))
    url, other = world.server.url("/rss"), world.server.url("/other")
    await world.poll([url, other], seconds=700, limit=2.0 if reason == "timeout" else 30.0)
    assert world.outcome("/rss") == (reason, 2)
    assert [one["feed"] for one in world.entries] == [other]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert words in warnings[0]
    assert f"2 feeds: 1 {reason}, 1 ok; 4 requests, 1 new or changed entries; problems: none" in caplog.messages


async def test_a_host_has_one_request_at_a_time_and_hosts_share_the_connections(world: World) -> None:
    paths = [f"/{number}" for number in range(8)]
    world.server.pages |= dict.fromkeys(paths, reply(rss(entry(1))))
    world.server.pages["/elsewhere"] = lambda _: Reply(302, {"Location": world.server.url("/0")})
    await world.poll([*map(world.server.url, paths), world.server.url("/elsewhere", "localhost")])
    assert world.server.most_at_once <= 2
    once = [request.path for request in world.server.requests if request.headers["host"].startswith("127")]
    assert sorted(once) == sorted([*paths, "/0"])


async def test_a_larger_entry_than_the_output_takes_is_left_out_and_reported_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    texts = iter(("long " * 5000, "longer " * 5000))
    world.server.pages["/rss"] = lambda _: reply(rss(entry(1), entry(2, text=next(texts))))
    poller = await world.poll([world.server.url("/rss")], seconds=601)
    assert poller.problems == {(world.server.url("/rss"), "entry-too-large"): 2}
    assert [one["title"] for one in world.entries] == ["Story 1"]
    assert caplog.text.count("an entry is left out") == 1


async def test_a_day_of_fifty_feeds_takes_seconds_and_no_request_too_many(world: World) -> None:
    urls = []
    for number in range(50):
        world.server.pages[f"/{number}"] = conditional(rss(entry(number)), f'"{number}"')
        urls.append(world.server.url(f"/{number}"))
    world.every = 3600.0
    await world.poll(urls, seconds=DAY - 1)
    assert len(world.entries) == 50
    for number in range(50):
        times = world.times(f"/{number}")
        assert len(times) == 24
        assert min(later - one for one, later in pairwise(times)) >= 3600
