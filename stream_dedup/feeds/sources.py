"""Read lists of feeds.

In: URLs, and names of files: OPML, which feed readers export, or plain text with one URL a line (# begins a comment).
Out: the URLs, each once, in their order. A URL may hold credentials; only `public_url` of it is shown or emitted.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx

from stream_dedup.errors import BadItem, InputError, UsageError
from stream_dedup.news.repair import documents_of
from stream_dedup.phrases import public_url


def read_sources(names: Iterable[str]) -> list[str]:
    """The URLs that these arguments name. O(bytes of the files).

    >>> read_sources(["https://a.example/rss", "feed://b.example/atom", "https://a.example/rss"])
    ['https://a.example/rss', 'http://b.example/atom']

    Raises InputError for a file that cannot be read, or an address that is none; UsageError if there is no feed at all.
    """
    urls: dict[str, None] = {}
    for place, text in (found for name in names for found in _addresses(name)):
        url = re.sub(r"^feed:(//)?(?=https?:)", "", text.strip()).replace("feed://", "http://", 1)
        if not url:
            continue
        try:
            parts = httpx.URL(url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.host)
        except (httpx.InvalidURL, ValueError):  # the latter for a host that is no name
            is_usable = False
        if not is_usable:
            raise InputError(f"{place}: {public_url(url)[:80]!r} is no address of a feed; write https://HOST/PATH")
        urls[url] = None
    if not urls:
        raise UsageError("the lists name no feed: an OPML file needs outlines with xmlUrl, a plain file URLs")
    return list(urls)


def _addresses(name: str) -> Iterator[tuple[str, str]]:
    """Where each address stands, and the address."""
    if "://" in name:
        yield "the command line", name
        return
    try:
        data = Path(name).read_bytes().removeprefix(BOM_UTF8)
    except OSError as error:
        cure = "name an OPML file, a file of URLs, or a URL that begins with http:// or https://"
        shown = public_url(name) if re.match(r"[^/]*:[^/]*@", name) else name  # an address without its protocol
        raise InputError(f"cannot read {shown} ({error.strerror}); {cure}") from None
    if data.lstrip().startswith(b"<"):
        try:
            _, documents = documents_of(data)
        except BadItem as bad:
            raise InputError(f"{name} cannot be read as OPML: {bad.detail}") from None
        if [each.tag for each in documents] != ["opml"]:
            raise InputError(f"{name} is XML, but no OPML; to poll a feed, name its URL")
        for outline in documents[0].iterfind(".//outline[@xmlUrl]"):
            yield f"{name}, line {outline.sourceline}", outline.get("xmlUrl")
        return
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        yield f"{name}, line {number}", re.sub(r"(^|\s)#.*", "", line)
