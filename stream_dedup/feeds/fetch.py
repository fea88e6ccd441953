"""Ask a web server for a document, within limits of time, size and redirects, one request at a time to a host.

In: a URL, and headers for a conditional request. Out: an `Answer`; or BadItem, whose reason is one fixed word. Bodies
are unpacked here and not by the client: a chunk of 64 KiB may unpack to 64 MiB before the client hands it over.
"""

import asyncio
import codecs
import logging
import re
import zlib
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple, Self
from weakref import WeakValueDictionary

import httpx

from stream_dedup.errors import BadItem
from stream_dedup.feeds.sources import public_url
from stream_dedup.phrases import version_text

# Of a body, packed and unpacked. A feed of a thousand articles of 4 KB with markup has less.
MOST_BYTES = 10 * 2**20
# Seconds for one request, from the connection to the last byte. A server that sends a byte now and then cannot hold a
# place for longer; a slow one delivers half a megabyte in it.
_SECONDS = 60.0
_SILENCE = 20.0  # without a byte
# Browsers allow 20; feeds behind shorteners and consent pages take two or three.
_MOST_REDIRECTS = 5
_PERMANENT = (301, 308)
_REDIRECTS = (*_PERMANENT, 302, 303, 307)
_HEADERS = {
    "User-Agent": f"stream-dedup/{version_text().split()[0]} (feed reader; honours Retry-After and 304)",
    "Accept": "application/rss+xml, application/atom+xml, application/feed+json, application/xml;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip",
}
_DECLARES_ENCODING = re.compile(rb"\s*<\?xml[^>]*\sencoding\s*=")
# The client logs each URL, credentials included.
logging.getLogger("httpx").setLevel(logging.WARNING)


class Answer(NamedTuple):
    """What a server answered. `url`: where the address has moved permanently, else the address itself."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


class Fetcher:
    """Use it in `async with`. `connections`: most at a time. `seconds`: for one request."""

    def __init__(self, connections: int, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._hosts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._client = httpx.AsyncClient(
            headers=_HEADERS,
            timeout=min(_SILENCE, seconds),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            # None is kept: cookies would tie a publisher's requests together, and fill memory.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, address: str, headers: Mapping[str, str]) -> Answer:
        """Request the address; follow redirects. The answer has a body if its status is 200. O(bytes).

        Raises BadItem: `timeout`, `connection`, `redirect`, `too-large`, `encoding`.
        """
        try:
            url = lasting = httpx.URL(address)
        except httpx.InvalidURL as error:
            raise BadItem("connection", f"the address cannot be used: {error}") from None
        is_permanent = True
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                answer = await self._request(url, headers)
            except (TimeoutError, httpx.TimeoutException):
                raise BadItem("timeout", f"no complete answer within {self._seconds:g} s") from None
            except (httpx.HTTPError, zlib.error) as error:
                raise BadItem("connection", f"{type(error).__name__}: {error}") from None
            if answer.status not in _REDIRECTS:
                return answer._replace(url=str(lasting))
            url = _target(url, answer)
            is_permanent = is_permanent and answer.status in _PERMANENT
            lasting = url if is_permanent else lasting
        raise BadItem("redirect", f"more than {_MOST_REDIRECTS} redirects, or a circle of them")

    async def _request(self, url: httpx.URL, headers: Mapping[str, str]) -> Answer:
        lock = self._hosts.setdefault(url.host, asyncio.Lock())
        async with lock, asyncio.timeout(self._seconds), self._client.stream("GET", url, headers=headers) as response:
            body = await _body(response) if response.status_code == 200 else b""
            return Answer(response.status_code, "", response.headers, body)


def _target(url: httpx.URL, answer: Answer) -> httpx.URL:
    try:
        target = url.join(answer.headers["location"])
    except (KeyError, httpx.InvalidURL):
        raise BadItem("redirect", f"status {answer.status} without a usable address") from None
    if target.scheme not in ("http", "https") or not target.host:
        raise BadItem("redirect", f"it leads to {public_url(str(target))[:80]}; only http and https are followed")
    # Credentials stay with the server that they are for.
    if (target.scheme, target.host, target.port) == (url.scheme, url.host, url.port) and not target.userinfo:
        target = target.copy_with(userinfo=url.userinfo)
    return target


async def _body(response: httpx.Response) -> bytes:
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise BadItem("encoding", f"the body is packed as {coding[:20]}, which was not asked for")
    unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS) if coding not in ("identity", "") else None  # gzip or zlib
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += unpacker.decompress(chunk, MOST_BYTES + 1 - len(body)) if unpacker else chunk
        if max(len(body), response.num_bytes_downloaded) > MOST_BYTES:
            raise BadItem("too-large", f"the document has more than {MOST_BYTES // 2**20} MiB")
    if unpacker and not unpacker.eof:
        raise BadItem("connection", "the packed body ends too early")
    return _as_utf8(bytes(body), response.charset_encoding)


def _as_utf8(body: bytes, charset: str | None) -> bytes:
    """Apply a charset that stands only in the header; the parser knows what the document itself declares."""
    try:
        if charset and codecs.lookup(charset).name not in ("utf-8", "ascii") and not _DECLARES_ENCODING.match(body):
            return body.decode(charset, "replace").encode()
    except (LookupError, UnicodeError):  # an unknown name, or one of a codec that makes no text
        pass
    return body
