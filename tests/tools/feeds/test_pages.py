"""`--pages`: the text of an entry from its page, asked for once, as the site allows; else the entry's own text."""

import asyncio
import json
from collections.abc import Callable

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.feeds.database import State
from tests.tools.feeds.conftest import World
from tests.tools.feeds.server import Page, Reply, Request, entry, reply, rss

pytestmark = pytest.mark.anyio
DAY = 86_400.0


def article(text: str = "Le vapeur", charset: str = "utf-8", head: str = "") -> Reply:
    """A page with nine sentences beside a menu."""
    story = " ".join(f"{text} number {number} stops at the pier because of the strong wind." for number in range(9))
    page = f"<!doctype html><html><head>{head}<title>Ferry</title></head><body><nav><a href=/>Home page</a></nav>"
    page += f"<article><h1>Ferry</h1><p>{story}</p></article></body></html>"
    return Reply(200, {"Content-Type": "text/html"}, (page.encode(charset),))


def atom(link: str) -> bytes:
    return (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><title>Ferry</title><summary>It stops.</summary>'
        f'<link rel="alternate" href="{link}"/><updated>2026-03-02T06:00:00Z</updated></entry></feed>'
    ).encode()


def json_feed(link: str) -> bytes:
    item = {"id": "1", "title": "Ferry", "content_html": "<p>It stops.</p>", "summary": "It stops.", "url": link}
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "items": [item]}).encode()


def texts(world: World) -> list[str]:
    """As `filter` and the worker read them."""
    decode, items = Decoder(ItemSettings()), []
    for _, line in world.output.lines:
        items.append(decode(line, None, None))
    return [item.text for item in items if isinstance(item, Item)]


@pytest.mark.parametrize(
    "feed",
    [
        lambda link: rss(entry(1, link=link)),
        lambda link: rss(entry(1, link=link, pubDate="Mon, 02 Mar 2026 06:00:00 GMT")),
        lambda link: rss({"title": "Ferry", "link": link}),
        atom,
        json_feed,
    ],
    ids=["rss", "dated", "bare", "atom", "json"],
)
async def test_the_presets_find_the_text_of_the_page(world: World, feed: Callable[[str], bytes]) -> None:
    world.server.pages["/rss"], world.server.pages["/1"] = reply(feed(world.server.url("/1"))), article()
    await world.poll([world.server.url("/rss")], pages=True)
    [text] = texts(world)
    assert text.count("Le vapeur") == 9
    assert "Home page" not in text
    [one] = world.entries
    assert "It stops." in str(one) or "The ferry stops." in str(one) or "description" not in one


async def test_a_page_is_asked_for_when_its_entry_is_new_or_changed_and_never_else(world: World) -> None:
    link = world.server.url("/1")
    for title, text in (("Ferry", "old"), ("Ferry", "newer"), ("Ferry stops", "newest"), ("Ferry stops", "last")):
        world.server.pages["/rss"], world.server.pages["/1"] = reply(rss(entry(1, title, link=link))), article(text)
        world.clock.time += world.every
        await world.poll([world.server.url("/rss")], pages=True)
    assert [text.split()[1] for text in texts(world)] == ["old", "newest"]
    assert len(world.times("/1")) == 2
    assert {one["id"] for one in world.entries} == {world.server.url("/rss#1")}


@pytest.mark.parametrize(
    ("page", "robots", "reason"),
    [
        (Reply(404), Reply(404), "page-http-404"),
        (Reply(503), Reply(404), "page-http-503"),
        (Reply(200, {"Content-Type": "application/pdf"}, (b"%PDF",)), Reply(404), "page-type"),
        (reply(b"<!doctype html><p>Consent</p>"), Reply(404), "page-short"),
        (reply(b"\x00\xff" * 999), Reply(404), "page-short"),
        (article("word " * 800), Reply(404), "page-too-large"),
        (Reply(302, {"Location": "/1"}), Reply(404), "page-redirect"),
        (Reply(302, {"Location": "http://127.0.0.1:1/"}), Reply(404), "page-rest"),
        (Reply(200, {}, (b"<html>",), length=99), Reply(404), "page-connection"),
        (article(), reply(b"User-agent: *\nDisallow: /1"), "page-robots"),
        (article(), reply("User-agent: *\nCrawl-delay: ²\nDisallow:".encode()), "page-robots"),
        (article(), Reply(500), "page-rest"),
    ],
)
async def test_an_entry_whose_page_cannot_be_had_keeps_its_own_text_and_is_counted(
    world: World, page: Reply, robots: Reply, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    pages, url = world.server.pages, world.server.url("/rss")
    pages["/rss"] = reply(rss(entry(1, link=world.server.url("/1")), entry(2, link="/2")))
    pages["/1"], pages["/robots.txt"] = page, robots
    poller = await world.poll([url], seconds=601, pages=True)
    assert texts(world) == ["The ferry stops.", "The ferry stops."]
    assert poller.problems == {(url, reason): 1, (url, "page-link"): 1}
    assert len(world.times("/1")) <= 6
    assert caplog.text.count("an entry keeps its own text") == 2
    assert f"1 {reason}" in caplog.messages[-1]


async def test_a_site_is_asked_as_its_robots_txt_says(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses, sleep = [], asyncio.sleep

    async def short(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("stream_dedup.tools.feeds.web.asyncio.sleep", short)
    rules = "User-agent: stream-dedup\nCrawl-delay: {}\nDisallow: /private\n\nUser-agent: *\nDisallow: /"
    pages = world.server.pages | {f"/{number}": article() for number in range(5)}
    pages |= {"/robots.txt": reply(rules.format(7).encode()), "/private": article()}
    world.server.pages = pages
    for day in range(3):
        numbers = range(day, day + 2)
        links = [*(world.server.url(f"/{number}") for number in numbers), world.server.url("/private")]
        pages["/rss"] = reply(rss(*(entry(i, link=link) for i, link in zip(range(day, day + 3), links, strict=True))))
    await world.poll([world.server.url("/rss")], pages=True)
    assert world.times("/robots.txt") == [0.0]
    assert world.times("/private") == []
    assert [pause for pause in pauses if pause >= 1] == [7.0, 7.0]
    assert world.server.most_at_once == 1


async def test_robots_txt_is_kept_for_a_day_and_read_for_each_site_of_a_redirect(world: World) -> None:
    there = world.server.url("/there", "localhost")

    def robots(request: Request) -> Reply:
        return reply(b"User-agent: *\nDisallow: /there" if request.headers["host"].startswith("local") else b"")

    numbers = iter(range(9))
    pages: dict[str, Page | Reply] = {"/robots.txt": robots, "/there": article()}
    pages |= {f"/{number}": Reply(302, {"Location": there}) for number in range(9)}
    pages["/rss"] = lambda _: reply(rss(entry(n := next(numbers), link=world.server.url(f"/{n}"))))
    world.server.pages = pages
    world.every = 0.4 * DAY
    poller = await world.poll([world.server.url("/rss")], seconds=1.3 * DAY, pages=True)
    assert sum(poller.problems.values()) == poller.problems[world.server.url("/rss"), "page-robots"] == 4
    assert world.times("/there") == []
    assert world.times("/robots.txt") == pytest.approx([0, 0, 1.2 * DAY, 1.2 * DAY], abs=1)


async def test_a_site_that_asks_for_rest_gets_it(world: World) -> None:
    numbers = iter(range(99))
    world.server.pages = {f"/{number}": Reply(429, {"Retry-After": "4000"}) for number in range(99)}
    world.server.pages["/rss"] = lambda _: reply(
        rss(*(entry(n := next(numbers), link=world.server.url(f"/{n}")) for _ in range(3)))
    )
    poller = await world.poll([world.server.url("/rss")], seconds=4300, pages=True)
    asked = [request.path for request in world.server.requests if request.path[1:].isdigit()]
    assert asked == ["/0", "/21"]
    assert {reason: count for (_, reason), count in poller.problems.items()} == {
        "page-http-429": 2,
        "page-rest": 22,
    }
    assert len(world.entries) == 24


@pytest.mark.parametrize(
    ("page", "word"),
    [
        (article("Паром", "cp1251", "<meta charset='windows-1251'>"), "Паром"),
        (
            article("镕基说", "gb18030", '<meta http-equiv="Content-Type" content="text/html; charset=gb2312">'),
            "镕基说",
        ),
        (article("Паром", "koi8-r")._replace(headers={"Content-Type": "text/html; charset=KOI8-R"}), "Паром"),
    ],
)
async def test_a_page_is_decoded_as_it_says(world: World, page: Reply, word: str) -> None:
    world.server.pages["/rss"], world.server.pages["/1"] = reply(rss(entry(1, link=world.server.url("/1")))), page
    await world.poll([world.server.url("/rss")], pages=True)
    assert [text.count(word) for text in texts(world)] == [9]


async def test_a_process_that_is_killed_among_pages_asks_again_and_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    world.server.pages["/rss"], world.server.pages["/1"] = (
        reply(rss(entry(1, link=world.server.url("/1")))),
        article(),
    )
    with monkeypatch.context() as patch:
        patch.setattr(State, "store", killed)
        with pytest.raises(KilledError):
            await world.poll([world.server.url("/rss")], pages=True)
    assert world.entries == []
    for _ in range(2):
        await world.poll([world.server.url("/rss")], pages=True)
        world.clock.time += world.every
    assert len(world.times("/1")) == 2
    assert [text.count("Le vapeur") for text in texts(world)] == [9]
