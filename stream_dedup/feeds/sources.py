"""Read lists of feeds.

In: URLs, and names of files: OPML, which feed readers export, or plain text with one URL a line (# begins a comment).
Out: the URLs, each once, in their order. A URL may hold credentials; only `public_url` of it is shown or emitted.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from lxml import etree

from stream_dedup.errors import InputError, UsageError

_SCHEMES = ("http", "https")
_SECRET = re.compile(
    r"([?&](?:[\w.]*[_.-])?(?:api_?key|key|token|secret|password|pwd|auth|signature|sig)=)[^&#]*", re.I
)


def read_sources(names: Iterable[str]) -> list[str]:
    """The URLs that these arguments name. O(bytes of the files).

    >>> read_sources(["https://a.example/rss", "feed://b.example/atom", "https://a.example/rss"])
    ['https://a.example/rss', 'http://b.example/atom']

    Raises InputError for a file that cannot be read, or an address that is none; UsageError if there is no feed at all.
    """
    urls = list(dict.fromkeys(url for name in names for url in _urls(name)))
    if not urls:
        raise UsageError("the lists name no feed: an OPML file needs outlines with xmlUrl, a plain file URLs")
    return urls


def public_url(url: str) -> str:
    """The URL without user, password, and values of parameters that are named like a secret.

    >>> public_url("https://ann:pw@a.example:8443/rss?api_key=abc&topic=sea#top")
    'https://a.example:8443/rss?api_key=***&topic=sea'
    """
    parts = urlsplit(url)
    shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))
    return _SECRET.sub(r"\1***", shown)


def _urls(name: str) -> Iterator[str]:
    if "://" in name:
        yield _checked(name, "the command line")
        return
    try:
        data = Path(name).read_bytes().removeprefix(BOM_UTF8).strip()
    except OSError as error:
        cure = "name an OPML file, a file of URLs, or a URL that begins with http:// or https://"
        raise InputError(f"cannot read {name} ({error.strerror}); {cure}") from None
    if data.startswith(b"<"):
        root = etree.fromstring(data, etree.XMLParser(recover=True, resolve_entities=False, no_network=True))
        if root is None or root.tag != "opml":
            raise InputError(f"{name} is XML, but no OPML; to poll a feed, name its URL")
        for outline in root.iter("outline"):
            if outline.get("xmlUrl"):
                yield _checked(outline.get("xmlUrl"), f"{name}, line {outline.sourceline}")
        return
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        url = re.sub(r"(^|\s)#.*", "", line).strip()
        if url:
            yield _checked(url, f"{name}, line {number}")


def _checked(url: str, place: str) -> str:
    url = re.sub(r"^feed:(//)?(?=https?:)", "", url.strip()).replace("feed://", "http://", 1)
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InputError(f"{place}: {url[:80]!r} is no address of a feed; write https://HOST/PATH")
    return url
