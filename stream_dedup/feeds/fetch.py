"""Ask a web server for a document, within limits of time, size and redirects, one request at a time to a host.

In: a URL, and headers for a conditional request. Out: an `Answer`; or BadItem, whose reason is one fixed word. reach.py
says where a request may go. Credentials in a URL are the operator's: those that a link or a redirect has are dropped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple
from weakref import WeakValueDictionary

import httpcore
import httpx

from stream_dedup.errors import BadItem
from stream_dedup.feeds.reach import LISTED, Reach
from stream_dedup.phrases import version_text
from stream_dedup.settings import FeedsSettings

AGENT = "stream-dedup"
"""The name by which robots.txt knows it."""
# Of a body, packed and unpacked. A feed of a thousand articles of 4 KB with markup has less.
MOST_BYTES = 10 * 2**20
# Seconds for one request, from the connection to the last byte. A server that sends a byte now and then cannot hold a
# place for longer; a slow one delivers half a megabyte in it.
_SECONDS = 60.0
_SILENCE = 20.0  # without a byte
# Browsers allow 20; feeds behind shorteners and consent pages take two or three.
_MOST_REDIRECTS = 5
_HEADERS = {
    "User-Agent": f"{AGENT}/{version_text().split()[0]} (feed reader; honours Retry-After, 304 and robots.txt)",
    "Accept": "application/rss+xml, application/atom+xml, application/feed+json, application/xml;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip",
}
# The last for a host that is no name.
_BROKEN = (
    httpx.HTTPError, httpx.InvalidURL, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol,
    ValueError,
)  # fmt: skip
# The client logs each URL, credentials included.
logging.getLogger("httpx").setLevel(logging.WARNING)


class Answer(NamedTuple):
    """What a server answered. `url`: where the address has moved permanently, else the address itself. `charset`: that
    of the header.
    """

    status: int
    url: str
    headers: Mapping[str, str]
    charset: str = ""
    body: bytes = b""


class Fetcher:
    """`connections`: most at a time. `settings`: what it may ask. `seconds`: for one request."""

    def __init__(self, connections: int, settings: FeedsSettings, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._hosts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._client = httpx.AsyncClient(
            headers=_HEADERS,
            timeout=min(_SILENCE, seconds),
            transport=Reach(connections, settings),
            # None is kept: cookies would tie a publisher's requests together, and fill memory.
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
        """Request the address; follow redirects. The answer has a body if its status is 200. O(bytes).

        `before` each request says how many seconds to wait, or raises. `listed`: the URL in the operator's list for
        which it is asked; its host may be asked on its port, and on those of the web. Raises BadItem: `timeout`,
        `connection`, `redirect`, `too-large`, `address`.
        """
        lasting = address
        try:
            url, own = httpx.URL(address), httpx.URL(listed)
            is_permanent = not url.userinfo
            request = self._client.build_request("GET", url if address == listed else _bare(url), headers=headers)
            for _ in range(_MOST_REDIRECTS + 1):
                is_own = request.url.host == own.host and (request.url.port is None or request.url.port == own.port)
                request.extensions[LISTED] = is_own
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
        """The answer, and the request that it leads to. Credentials stay with the server that they are for."""
        async with self._hosts.setdefault(request.url.host, asyncio.Lock()):
            await asyncio.sleep(pause)
            sending = self._client.send(request, stream=True)
            async with asyncio.timeout(self._seconds), aclosing(await sending) as response:
                body = await _body(response) if response.status_code == 200 else b""
        charset = response.charset_encoding or ""
        return Answer(response.status_code, "", response.headers, charset, body), response.next_request


def _bare(url: httpx.URL) -> httpx.URL:
    """The URL without user and password."""
    return url.copy_with(username="", password="") if url.userinfo else url


async def _body(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():  # at most 64 KiB as they come; unpacked 64 MiB
        body += chunk
        if max(len(body), response.num_bytes_downloaded) > MOST_BYTES:
            raise BadItem("too-large", f"the document has more than {MOST_BYTES // 2**20} MiB")
    return bytes(body)
