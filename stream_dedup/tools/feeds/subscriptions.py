"""Read lists of feeds: URLs, OPML files, which feed readers export, and plain files, as newsboat has them.

A line of a plain file begins with a URL. Each URL is returned once, in order. An entry that is no address of a feed is
skipped and reported. A URL may hold credentials; only its `public_url` is shown or emitted.
"""

import logging
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx

from stream_dedup.errors import BadItem, InputError, UsageError
from stream_dedup.news.repair import documents_of, local_name
from stream_dedup.tools.addresses import public_url

log = logging.getLogger(__name__)

# Lines that are reported one by one: enough to see what is wrong with a list. Further ones are counted.
_MOST_NAMED = 10
_COMMAND = re.compile(r"(exec|filter|query):", re.I)  # newsboat's; they may hold passwords
# The first word of a line, or a text in quotes. Tags of newsboat may follow. # begins a comment.
_FIRST = re.compile(r'\s*(?:"([^"]*)"|([^\s#]\S*))')


def read_sources(names: Iterable[str], report: Callable[[str], None] = log.warning) -> list[str]:
    """Return the URLs that these arguments name. `report` gets a line for each skipped entry. O(bytes of the files).

    >>> read_sources(["https://a.example/rss", "feed://b.example/atom", "https://a.example/rss"])
    ['https://a.example/rss', 'http://b.example/atom']

    Raises InputError for a file that cannot be read, and if all entries are skipped; UsageError if there are none.
    """
    urls, skipped = dict[str, None](), list[str]()
    for place, text in (address for name in names for address in _addresses(name)):
        url = re.sub(r"^feed:(//)?(?=https?:)", "", text.strip(), flags=re.I)
        url = re.sub("^feed://", "http://", url, flags=re.I)
        try:
            parts = httpx.URL(url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.host)
        except (httpx.InvalidURL, ValueError):  # ValueError: the host is no name
            is_usable = False
        if is_usable:
            urls[url] = None
        else:
            skipped.append(f"{place}: {_shown(url)!r} is no address of a feed; write https://HOST/PATH")
    if skipped and not urls:
        raise InputError(skipped[0])
    if not urls:
        raise UsageError("the lists name no feed: an OPML file needs outlines with xmlUrl, a plain file URLs")
    for line in skipped[:_MOST_NAMED]:
        report(f"{line}; it is skipped")
    if len(skipped) > _MOST_NAMED:
        report(f"{len(skipped) - _MOST_NAMED:,} more lines of the lists are no addresses of feeds, and are skipped")
    return list(urls)


def _shown(text: str) -> str:
    command = _COMMAND.match(text)
    return f"{command[0]}..." if command else public_url(text)[:80]


def _addresses(name: str) -> Iterator[tuple[str, str]]:
    """Yield the place of each address, and the address."""
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
        if [local_name(root).lower() for root in documents] != ["opml"]:
            raise InputError(f"{name} is XML, but no OPML; to poll a feed, name its URL")
        for outline in documents[0].iter():
            named = {local.rpartition("}")[2].lower(): value for local, value in outline.items()}
            if local_name(outline).lower() == "outline" and "xmlurl" in named:
                yield f"{name}, line {outline.sourceline}", named["xmlurl"]
        return
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        if word := _FIRST.match(line):
            yield f"{name}, line {number}", word[1] or word[2] or ""
