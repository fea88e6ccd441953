"""Ask web servers for documents: within limits of time, size and redirects, one request at a time to a host.

Strangers write the addresses of redirects, of robots.txt and of entries. So a request goes only to public addresses, on
the ports of the web, unless the operator names the host; any other one is refused (reason `address`) before a byte is
sent. A name is looked up once for a connection, its addresses are checked, and the socket connects to one of them. So
names of private addresses, names that change (DNS rebinding) and other notations of an address (hexadecimal, IPv4
within IPv6) are all recognised.

The operator names hosts and networks in `[feeds] internal`, for any port. A listed URL names its host and port, for the
polls of that feed. Connections of listed hosts are kept apart, so that no other request uses an open one. If the listed
name was once public, it must stay so in this process, or its owner could point it at the operator's network.

A proxy of the environment looks names up itself. Then only ports and written addresses are checked.

Credentials in a listed URL are the operator's. Credentials of a link or a redirect are dropped.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from itertools import zip_longest
from typing import Any, NamedTuple, cast
from urllib.request import getproxies, proxy_bypass
from weakref import WeakValueDictionary

import httpcore
import httpx

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.phrases import version_text
from stream_dedup.settings import FeedsSettings

log = logging.getLogger(__name__)

AGENT = "stream-dedup"
"""The name by which robots.txt knows this program."""
# The most bytes of a body, packed and unpacked. A feed with a thousand articles of 4 KB and their markup is smaller.
MOST_BYTES = 10 * 2**20
# Seconds for one request, from the connection to the last byte. A server that sends a byte now and then cannot hold a
# connection for longer, and a slow one delivers half a megabyte.
_SECONDS = 60.0
_SILENCE = 20.0  # without a byte
# Browsers allow 20; feeds behind shorteners and consent pages take two or three.
_MOST_REDIRECTS = 5
_HEADERS = {
    "User-Agent": f"{AGENT}/{version_text().split()[0]} (feed reader; honours Retry-After, 304 and robots.txt)",
    "Accept": "application/rss+xml, application/atom+xml, application/feed+json, application/xml;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip",
}
_BROKEN = (
    httpx.HTTPError, httpx.InvalidURL, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol,
    ValueError,  # a host that is no name
)  # fmt: skip
_LISTED = "stream_dedup.listed"  # the extension of a request for the host and port of a listed URL, in its poll
_WEB = {"http": 80, "https": 443}
# Addresses of a name that are tried, IPv6 and IPv4 in turn; each gets its share of the time to connect.
_MOST_ADDRESSES = 4
_IDLE = 5.0  # seconds that an unused connection stays open, as in httpx
# IPv6 addresses that networks own. The rest is local, reserved, or stands for IPv4, as NAT64 does (RFC 6052).
_GLOBAL, _NAT64 = IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96")
Address = IPv4Address | IPv6Address


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    url: str  # the address, or its new one after a permanent move
    headers: Mapping[str, str]
    charset: str = ""  # the header's
    body: bytes = b""


class Fetcher:
    """Requests documents. `connections`: how many at a time. `seconds`: for one request.

    Raises ConfigError for a proxy of the environment that cannot be used.
    """

    def __init__(self, connections: int, settings: FeedsSettings, seconds: float = _SECONDS) -> None:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each URL, credentials included
        self._seconds = seconds
        self._hosts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._client = httpx.AsyncClient(
            headers=_HEADERS,
            timeout=min(_SILENCE, seconds),
            transport=_Transport(connections, settings),
            # No cookie is kept: cookies would tie a publisher's requests together, and fill memory.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    async def aclose(self) -> None:
        await self._client.aclose()

    async def get(
        self,
        address: str,
        headers: Mapping[str, str],
        before: Callable[[httpx.URL], Awaitable[float]] | None = None,
        listed: str = "",
    ) -> Answer:
        """Request the address, and follow redirects. The answer has a body if its status is 200. O(bytes).

        `before` is called before each request; it returns the seconds to wait, or raises. `listed`: the URL of the
        operator's list that is polled; its host may be asked on its port and on those of the web. Raises BadItem:
        `timeout`, `connection`, `redirect`, `too-large`, `address`.
        """
        lasting = address
        try:
            url, own_url = httpx.URL(address), httpx.URL(listed)
            is_permanent = not url.userinfo
            request = self._client.build_request("GET", url if address == listed else _bare(url), headers=headers)
            for _ in range(_MOST_REDIRECTS + 1):
                is_own = request.url.host == own_url.host and request.url.port in (None, own_url.port)
                request.extensions[_LISTED] = is_own
                pause = await before(request.url) if before else 0.0
                answer, following = await self._send(request, pause)
                if following is None:
                    return answer._replace(url=lasting)
                request = following
                request.url = _bare(request.url)
                is_permanent = is_permanent and answer.status in (301, 308)
                lasting = str(request.url) if is_permanent else lasting
        except (TimeoutError, httpx.TimeoutException, httpcore.TimeoutException):
            raise BadItem("timeout", f"no complete answer within {self._seconds:g} s") from None
        except _BROKEN as error:
            raise BadItem("connection", f"{type(error).__name__}: {error}") from None
        raise BadItem("redirect", f"more than {_MOST_REDIRECTS} redirects, or a circle of them")

    async def _send(self, request: httpx.Request, pause: float) -> tuple[Answer, httpx.Request | None]:
        """Return the answer, and the request to which it redirects, without credentials if that is another server."""
        async with self._hosts.setdefault(request.url.host, asyncio.Lock()):
            await asyncio.sleep(pause)
            sending = self._client.send(request, stream=True)
            async with asyncio.timeout(self._seconds), aclosing(await sending) as response:
                body = await _body(response) if response.status_code == 200 else b""
        charset = response.charset_encoding or ""
        return Answer(response.status_code, "", response.headers, charset, body), response.next_request


def _bare(url: httpx.URL) -> httpx.URL:
    """Return the URL without user and password."""
    return url.copy_with(username="", password="") if url.userinfo else url


async def _body(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():  # at most 64 KiB as they come; unpacked 64 MiB
        body += chunk
        if max(len(body), response.num_bytes_downloaded) > MOST_BYTES:
            raise BadItem("too-large", f"the document has more than {MOST_BYTES // 2**20} MiB")
    return bytes(body)


# -- where a request may go --------------------------------------------------------------------------------


def plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for (mapped, 6to4, NAT64), else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    nat64 = IPv4Address(int(address) % 2**32) if address in _NAT64 else None
    return address.ipv4_mapped or address.sixtofour or nat64 or address


def is_public(address: Address) -> bool:
    """Return whether an address can be reached from anywhere on the internet.

    >>> [is_public(ip_address(text)) for text in ("9.9.9.9", "10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::909:909")]
    [True, False, False, True]
    """
    address = plain(address)
    is_owned = isinstance(address, IPv4Address) or address in _GLOBAL
    return is_owned and address.is_global and not address.is_multicast


class _Network(httpcore.AnyIOBackend):
    """Connects to the addresses that `settings` allow. `is_listed`: for requests to listed hosts."""

    def __init__(self, settings: FeedsSettings, *, is_listed: bool) -> None:
        self._settings, self._is_listed = settings, is_listed
        self._public: set[str] = set()  # listed names that had a public address

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            looked_up = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from None
        allowed = self._allowed(host, port, [ip_address(entry[4][0]) for entry in looked_up])
        share = timeout and timeout / len(allowed)
        errors = list[Exception]()
        for address in allowed:
            try:
                return await super().connect_tcp(str(address), port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                errors.append(error)
        raise errors[0]

    def _allowed(self, host: str, port: int, addresses: list[Address]) -> list[Address]:
        """Return the addresses to try, in this order. Raises BadItem if none is allowed."""
        if self._is_listed and any(map(is_public, addresses)):
            self._public.add(host)
        is_any = self._is_listed and host not in self._public
        is_port = self._is_listed or port in _WEB.values()
        allowed = [
            address
            for address in addresses
            if is_any or (is_public(address) and is_port) or self._settings.is_internal(host, plain(address))
        ]
        if not allowed:
            raise _refusal(host, port, addresses)
        families = [[address for address in allowed if address.version == version] for version in (6, 4)]
        return [address for pair in zip_longest(*families) for address in pair if address][:_MOST_ADDRESSES]


def _refusal(host: str, port: int, addresses: list[Address]) -> BadItem:
    private = next((address for address in addresses if not is_public(address)), None)
    problem = f"port {port} is not one of the web (80, 443)" if private is None else f"{private} is no public address"
    cure = "if it is yours, name it in [feeds] internal or with --internal"
    return BadItem("address", f"{host} is not asked: {problem}; {cure}")


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: AsyncIterable[bytes]) -> None:
        self._stream = cast("Any", stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Pool(httpx.AsyncBaseTransport):
    """Connections through a `_Network`, which httpx's own transport does not take. Raises the errors of httpcore."""

    def __init__(self, connections: int, network: _Network, trusted: ssl.SSLContext) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            trusted, max_connections=connections, keepalive_expiry=_IDLE, network_backend=network
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=cast("AsyncIterable[bytes]", request.stream),
                extensions=request.extensions,
            )
        )
        body = _Body(cast("AsyncIterable[bytes]", answer.stream))
        return httpx.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Transport(httpx.AsyncBaseTransport):
    """Sends a request where it may go. Raises ConfigError for a proxy of the environment that cannot be used."""

    def __init__(self, connections: int, settings: FeedsSettings) -> None:
        self._settings = settings
        trusted = httpx.create_ssl_context()
        self._pools = [
            _Pool(connections, _Network(settings, is_listed=is_listed), trusted) for is_listed in (False, True)
        ]
        self._proxies: dict[str, httpx.AsyncHTTPTransport] = {}
        named, limits = getproxies(), httpx.Limits(max_connections=connections)
        for scheme in _WEB:
            if proxy := named.get(scheme, named.get("all", "")):
                try:
                    address = proxy if "://" in proxy else f"http://{proxy}"
                    self._proxies[scheme] = httpx.AsyncHTTPTransport(trusted, proxy=address, limits=limits)
                except (ImportError, ValueError, httpx.InvalidURL):
                    cure = f"set {scheme}_proxy to http://HOST:PORT, or unset it"
                    raise ConfigError(
                        f"the proxy for {scheme} that the environment names cannot be used; {cure}"
                    ) from None
        if self._proxies:
            log.warning(
                "requests for %s go through a proxy, which looks names up itself: the addresses of names are not "
                "checked; let the proxy refuse those that are not public", " and ".join(self._proxies),
            )  # fmt: skip

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url, is_listed = request.url, bool(request.extensions.get(_LISTED))
        proxy = self._proxies.get(url.scheme)
        if proxy is None or proxy_bypass(url.host):
            return await self._pools[is_listed].handle_async_request(request)
        if not is_listed:
            self._check_written(url.host, url.port or _WEB[url.scheme])
        return await proxy.handle_async_request(request)

    def _check_written(self, host: str, port: int) -> None:
        """Check what needs no look-up: an address in any notation, this machine's name, and the port."""
        is_this_machine = host.rstrip(".").rpartition(".")[2] == "localhost"
        written = "127.0.0.1" if is_this_machine else host
        try:
            looked_up = socket.getaddrinfo(written, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except OSError:
            looked_up = []  # a name
        addresses = [ip_address(entry[4][0]) for entry in looked_up]
        is_web = port in _WEB.values() and all(map(is_public, addresses))
        if not (is_web or self._settings.is_internal(host, *map(plain, addresses))):
            raise _refusal(host, port, addresses)

    async def aclose(self) -> None:
        for transport in (*self._pools, *self._proxies.values()):
            await transport.aclose()
