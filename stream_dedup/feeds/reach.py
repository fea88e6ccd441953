"""Decide where a request may go: to public addresses, on the ports of the web, unless the operator names the host.

In: the requests of fetch.py, whose addresses strangers write (redirects, robots.txt, links of entries). Out: their
answers; or BadItem (reason `address`), before a byte is sent. A name is looked up once for a connection, its addresses
are checked, and the socket connects to one of those. So names of private addresses, names that change (DNS rebinding)
and other notations of an address (hexadecimal, IPv4 within IPv6) are all seen as what they are.

The operator's word counts: hosts and networks of `[feeds] internal`, on any port, and the host and port of a listed URL
for the polls of that feed. Connections of the latter are kept apart, so that no other request uses an open one. A
listed name that was public once stays so in this process, or its owner could point it at the operator's network.

A proxy of the environment looks names up itself: then only ports and written addresses are checked.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from itertools import zip_longest
from typing import Any, cast
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.settings import FeedsSettings

log = logging.getLogger(__name__)

LISTED = "stream_dedup.listed"
"""The extension of a request for the host and port of a listed URL, in a poll of that feed."""
_WEB = {"http": 80, "https": 443}
# Of a name, in turn of IPv6 and IPv4; each gets its share of the time to connect.
_MOST_ADDRESSES = 4
_IDLE = 5.0  # seconds that an unused connection stays open, as in httpx
# IPv6 that is given out to networks; the rest is local, reserved, or IPv4 in disguise. NAT64 (RFC 6052) is that, too.
_GLOBAL, _NAT64 = IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96")
Address = IPv4Address | IPv6Address


def plain(address: Address) -> Address:
    """The IPv4 address to which an IPv6 address leads (mapped, 6to4, NAT64), else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    nat64 = IPv4Address(int(address) % 2**32) if address in _NAT64 else None
    return address.ipv4_mapped or address.sixtofour or nat64 or address


def is_public(address: Address) -> bool:
    """Whether an address can be reached from anywhere on the internet.

    >>> [is_public(ip_address(text)) for text in ("9.9.9.9", "10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::909:909")]
    [True, False, False, True]
    """
    address = plain(address)
    is_given_out = isinstance(address, IPv4Address) or address in _GLOBAL
    return is_given_out and address.is_global and not address.is_multicast


class _Network(httpcore.AnyIOBackend):
    """Connects to addresses that `settings` allow. `listed`: for requests to listed hosts."""

    def __init__(self, settings: FeedsSettings, listed: bool) -> None:
        self._settings, self._listed = settings, listed
        self._public: set[str] = set()  # listed names that were seen at a public address

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from None
        allowed = self._allowed(host, port, [ip_address(entry[4][0]) for entry in found])
        share = timeout and timeout / min(len(allowed), _MOST_ADDRESSES)
        failed: Exception | None = None
        for address in allowed[:_MOST_ADDRESSES]:
            try:
                return await super().connect_tcp(str(address), port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = failed or error
        raise cast("Exception", failed)

    def _allowed(self, host: str, port: int, addresses: list[Address]) -> list[Address]:
        is_port, is_any = port in _WEB.values(), False
        if self._listed:
            if any(map(is_public, addresses)):
                self._public.add(host)
            is_port, is_any = True, host not in self._public
        allowed = [
            one
            for one in addresses
            if is_any or (is_public(one) and is_port) or self._settings.is_internal(host, plain(one))
        ]
        if not allowed:
            raise _refusal(host, port, addresses)
        families = [[one for one in allowed if one.version == version] for version in (6, 4)]
        return [one for pair in zip_longest(*families) for one in pair if one]


def _refusal(host: str, port: int, addresses: list[Address]) -> BadItem:
    private = next((one for one in addresses if not is_public(one)), None)
    why = f"port {port} is not one of the web (80, 443)" if private is None else f"{private} is no public address"
    cure = "if it is yours, name it in [feeds] internal or with --internal"
    return BadItem("address", f"{host} is not asked: {why}; {cure}")


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: AsyncIterable[bytes]) -> None:
        self._stream = cast("Any", stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Pool(httpx.AsyncBaseTransport):
    """Connections through a `_Network`. httpx's own transport takes none. It raises the errors of httpcore."""

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


class Reach(httpx.AsyncBaseTransport):
    """Sends a request where it may go: `settings`, and LISTED in its extensions. `connections`: most at a time.

    Raises ConfigError for a proxy of the environment that cannot be used.
    """

    def __init__(self, connections: int, settings: FeedsSettings) -> None:
        self._settings = settings
        trusted = httpx.create_ssl_context()
        self._pools = [_Pool(connections, _Network(settings, listed), trusted) for listed in (False, True)]
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
        url, is_listed = request.url, bool(request.extensions.get(LISTED))
        proxy = self._proxies.get(url.scheme)
        if proxy is None or proxy_bypass(url.host):
            return await self._pools[is_listed].handle_async_request(request)
        if not is_listed:
            self._check_written(url.host, url.port or _WEB[url.scheme])
        return await proxy.handle_async_request(request)

    def _check_written(self, host: str, port: int) -> None:
        """Check what is known without a look-up: an address in any notation, this machine's name, and the port."""
        is_this_machine = host.rstrip(".").rpartition(".")[2] == "localhost"
        written = "127.0.0.1" if is_this_machine else host
        try:
            found = socket.getaddrinfo(written, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except OSError:
            found = []  # a name
        addresses = [ip_address(entry[4][0]) for entry in found]
        is_web = port in _WEB.values() and all(map(is_public, addresses))
        if not (is_web or self._settings.is_internal(host, *map(plain, addresses))):
            raise _refusal(host, port, addresses)

    async def aclose(self) -> None:
        for transport in (*self._pools, *self._proxies.values()):
            await transport.aclose()
