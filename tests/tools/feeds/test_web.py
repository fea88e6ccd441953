"""Requests reach public addresses and what the operator names, whatever feeds, redirects, links and names say."""

import asyncio
import logging
import ssl
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Any

import httpcore
import pytest
import trustme

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.settings import FeedsSettings, load_settings
from stream_dedup.tools.feeds.schedule import Feed
from stream_dedup.tools.feeds.web import Fetcher
from tests.tools.feeds.conftest import World
from tests.tools.feeds.server import Reply, entry, reply, rss
from tests.tools.feeds.test_pages import article

pytestmark = pytest.mark.anyio
PUBLIC, OTHER, PRIVATE, CLOUD = "93.184.216.34", "9.9.9.9", "10.1.2.3", "169.254.169.254"


class Internet:
    """Names and their addresses, of several look-ups in turn. Each address leads to the server of the test."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {}
        self.connected: list[tuple[str, int]] = []
        self.dead: set[str] = set()
        self.port = 0

    async def look_up(self, host: str, port: int, **options: Any) -> list[Any]:
        answers = self.names.get(host, [[host]])
        return [(0, 0, 0, "", (one, port)) for one in (answers.pop(0) if len(answers) > 1 else answers[0])]


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    internet, connect = Internet(), httpcore.AnyIOBackend.connect_tcp

    async def connected(self: Any, host: str, port: int, *rest: Any, **more: Any) -> Any:
        internet.connected.append((host, port))
        if host in internet.dead:
            raise httpcore.ConnectError("refused")
        return await connect(self, "127.0.0.1", internet.port, *rest, **more)

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connected)
    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", internet.look_up)
    return internet


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "0x7f000001", "0x7f.1", "2130706433", "127.1", "0", "[::1]", "[::]",
        "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
        "[fe80::1]", "[fec0::1]", "[fd00::1]", "[ff02::1]", CLOUD, PRIVATE, "172.16.0.1", "192.168.1.1", "100.64.0.1",
        "0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "127。0。0。1", "LOCALHOST",  # noqa: S104 - asked, not bound
    ],
)  # fmt: skip
async def test_an_address_that_is_not_public_is_refused_in_every_notation(host: str) -> None:
    refusal = r"address: .* is not asked: .* is no public address; if it is yours, name it in"
    async with aclosing(Fetcher(1, FeedsSettings())) as fetcher:
        with pytest.raises(BadItem, match=refusal):
            await fetcher.get(f"http://{host}/", {})


SECRETS = (
    "http://news.intern/secret",
    f"http://{CLOUD}/secret",
    "http://0xa9fea9fe/secret",
    "http://a.example:8080/secret",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("way", ["link", "page", "robots.txt"])
async def test_what_a_feed_leads_to_is_asked_only_where_it_is_public(
    world: World, internet: Internet, way: str, secret: str
) -> None:
    pages, internet.port = world.server.pages, world.server.port
    internet.names = {"a.example": [[PUBLIC]], "news.intern": [[PRIVATE]], "0xa9fea9fe": [[CLOUD]]}
    leads = Reply(302, {"Location": secret})
    pages |= {"/secret": article("Secret"), "/1": leads if way == "page" else article()}
    pages |= {"/robots.txt": leads} if way == "robots.txt" else {}
    pages["/rss"] = reply(rss(entry(1, link=secret if way == "link" else "http://a.example/1")))
    poller = await world.poll(["http://a.example/rss"], pages=True, internal="")
    assert world.times("/secret") == []
    assert "content" not in world.entries[0]
    is_foreign = way == "robots.txt" and "a.example" not in secret
    assert [reason for _, reason in poller.problems] == ["page-rest" if is_foreign else "page-address"]
    assert {*internet.connected} == {(PUBLIC, 80)}


async def test_the_redirect_of_a_robots_txt_is_followed_within_its_site_only(world: World, internet: Internet) -> None:
    internet.port = world.server.port
    internet.names = {name: [[PUBLIC]] for name in ("www.a.example", "a.example", "b.example", "c.example")}
    world.server.pages = {
        "/robots.txt": lambda one: Reply(301, {"Location": {
            "a.example": "http://www.a.example/robots", "b.example": "http://c.example/robots",
        }[one.headers["host"]]}),
        "/robots": reply(b"User-agent: *\nAllow: /"), "/1": article(),
        "/rss": reply(rss(entry(1, link="http://a.example/1"), entry(2, link="http://b.example/1"))),
    }  # fmt: skip
    poller = await world.poll(["http://a.example/rss"], pages=True, internal="")
    assert {reason for _, reason in poller.problems} == {"page-rest"}
    assert [one["title"] for one in world.entries if "content" in one] == ["Story 1"]
    assert [one.headers["host"] for one in world.server.requests if one.path == "/robots"] == ["www.a.example"]


async def test_a_redirect_of_a_feed_and_a_remembered_move_are_asked_only_where_they_are_public(world: World) -> None:
    there, url = world.server.url("/there", "localhost"), world.server.url("/rss")
    world.server.pages |= {"/rss": Reply(301, {"Location": there}), "/there": reply(rss(entry(1)))}
    await world.poll([url], internal="")
    assert world.outcome("/rss") == ("address", 1)
    world.state.store(Feed(url, moved=there), (), (), 0.0)
    await world.poll([url], internal="")
    assert world.times("/there") == []
    world.state.store(Feed(url, moved=there), (), (), 0.0)
    await world.poll([url], internal="localhost")
    assert world.outcome("/rss") == ("ok", 0)


async def test_a_listed_host_is_asked_wherever_it_is_but_for_its_own_feed_only(
    world: World, internet: Internet
) -> None:
    internet.port, pages = world.server.port, world.server.pages
    internet.names = {"news.intern": [[PRIVATE]], "a.example": [[PUBLIC]]}
    own, others = "http://news.intern:8080/rss", "http://a.example/other"
    pages["/rss"] = Reply(302, {"Location": "/rss.xml"})
    pages["/rss.xml"] = reply(rss(entry(1, link="http://news.intern:8080/1")))
    pages["/other"] = Reply(302, {"Location": own})
    poller = await world.poll([own, others], pages=True, internal="")
    assert [feed.outcome for feed in world.state.feeds([own, others]).values()] == ["ok", "address"]
    # An open connection of the listed host is no way around the check.
    assert poller.problems == {(own, "page-address"): 1}
    assert {*internet.connected} == {(PRIVATE, 8080), (PUBLIC, 80)}


async def test_a_name_that_changes_its_address_is_refused_where_it_is_private(world: World, internet: Internet) -> None:
    internet.port = world.server.port
    internet.names = {"evil.example": [[PUBLIC], [CLOUD], [CLOUD], [PUBLIC, PRIVATE]]}
    world.server.pages["/rss"] = Reply(302, {"Location": "/latest", "Connection": "close"})
    world.server.pages["/latest"] = reply(rss(entry(1)), Connection="close")
    await world.poll(["http://evil.example/rss"], seconds=3000, internal="")
    assert {*internet.connected} == {(PUBLIC, 80)}
    assert len(world.times("/rss")) > len(world.times("/latest")) > 0


@pytest.mark.parametrize(
    ("url", "addresses", "connected"),
    [
        ("http://a.example:8080/1", [PUBLIC], []),
        ("http://a.example:443/1", [PUBLIC], [(PUBLIC, 443)]),
        ("http://a.example/1", [PRIVATE, PUBLIC], [(PUBLIC, 80)]),
        ("http://a.example/1", [OTHER, PUBLIC], [(OTHER, 80), (PUBLIC, 80)]),
        ("http://a.example/1", [OTHER, "2001:4860::1", PUBLIC], [("2001:4860::1", 80)]),
        ("http://a.example/1", ["64:ff9b::909:909"], [("64:ff9b::909:909", 80)]),
        ("http://a.example/1", ["64:ff9b::a01:203"], []),
    ],
)
async def test_a_socket_connects_to_an_address_that_was_checked(
    world: World, internet: Internet, url: str, addresses: list[str], connected: list[tuple[str, int]]
) -> None:
    internet.port, internet.names, internet.dead = world.server.port, {"a.example": [addresses]}, {OTHER}
    world.server.pages["/1"] = reply(b"<rss/>")
    async with aclosing(Fetcher(1, FeedsSettings())) as fetcher:
        with nullcontext() if connected else pytest.raises(BadItem, match=r"address: a[.]example is not asked"):
            assert (await fetcher.get(url, {})).status == 200
    assert internet.connected == connected


async def test_a_certificate_is_verified_for_the_name_though_the_socket_has_the_address(
    internet: Internet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("a.example").configure_cert(own)
    names: list[str] = []
    own.sni_callback = lambda _, name, __: names.append(str(name))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    internet.names = {"a.example": [[PUBLIC]], "b.example": [[PUBLIC]]}
    async with (
        aclosing(Fetcher(1, FeedsSettings())) as fetcher,
        await asyncio.start_server(answer, "127.0.0.1", 0, ssl=own) as server,
    ):
        internet.port = server.sockets[0].getsockname()[1]
        assert (await fetcher.get("https://a.example/", {})).body == b"hi"
        with pytest.raises(BadItem, match=r"connection: .*Hostname mismatch"):
            await fetcher.get("https://b.example/", {})
    assert names == ["a.example", "b.example"]
    assert internet.connected == [(PUBLIC, 443)] * 2


async def test_credentials_are_sent_for_the_listed_url_only(world: World) -> None:
    pages, port = world.server.pages, world.server.port
    pages["/rss"] = Reply(302, {"Location": f"http://eve:x@127.0.0.1:{port}/same"})
    pages["/same"] = Reply(302, {"Location": f"http://eve:x@localhost:{port}/other"})
    pages["/other"] = reply(rss(entry(1, link=f"http://eve:x@127.0.0.1:{port}/1")))
    pages["/1"] = article()
    await world.poll([f"http://ann:pw@127.0.0.1:{port}/rss"], pages=True)
    sent = {one.path: one.headers.get("authorization") for one in world.server.requests}
    assert sent == {
        "/rss": "Basic YW5uOnB3",
        "/same": "Basic YW5uOnB3",
        "/other": None,
        "/1": None,
        "/robots.txt": None,
    }
    assert [feed.moved for feed in world.state.feeds([f"http://ann:pw@127.0.0.1:{port}/rss"]).values()] == [""]


async def test_a_proxy_is_used_and_what_it_leaves_unchecked_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    proxy = f"http://127.0.0.1:{world.server.port}"
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    through = "http://a.example/1"
    world.server.pages |= {"/rss": reply(rss(*(entry(n, link=link) for n, link in enumerate((
        through, f"http://{CLOUD}/", "http://0x7f.1/", "http://a.example:8080/", "http://localhost./",
        world.server.url("/1"),
    ))))), through: article(), "/1": article()}  # fmt: skip
    poller = await world.poll([world.server.url("/rss")], pages=True, internal="")
    assert [one["id"][-2:] for one in world.entries if "content" in one] == ["#0"]
    assert {reason: count for (_, reason), count in poller.problems.items()} == {"page-address": 5}
    asked = {one.path for one in world.server.requests}
    assert asked == {"/rss", through, "http://a.example/robots.txt"}
    assert caplog.text.count("requests for http go through a proxy, which looks names up itself") == 1


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks4://user:s3cret@127.0.0.1:1")
    with pytest.raises(
        ConfigError, match="the proxy for https that the environment names cannot be used; set"
    ) as error:
        Fetcher(1, FeedsSettings())
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("value", ["http://news.intern/", "news.intern:8080", "10.0.0.0/33", "a b"])
def test_what_is_no_host_and_no_network_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"\[feeds\] internal: .* is neither a host nor a network"):
        load_settings(feeds={"internal": f"ok.intern, {value}"})
