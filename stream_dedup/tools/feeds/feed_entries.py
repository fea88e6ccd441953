"""Read the entries of a feed's document: XML, by news/xml.py, or a JSON Feed.

Each entry gets a stable id, the feed's address, and a digest of what a reader sees. The presets of news/names.py read
the result.

An id is global only if it names the site of its feed. Any other id becomes the feed's own, so that no feed can speak
for another. An id that several entries share is replaced.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import xxhash
from selectolax.lexbor import LexborHTMLParser

from stream_dedup.errors import BadItem
from stream_dedup.loose_json import tolerant
from stream_dedup.news.dates import NO_TIME
from stream_dedup.news.decode import Decoder, site_of
from stream_dedup.news.formats import GZIP
from stream_dedup.news.item import Item
from stream_dedup.news.plain_values import plain_value
from stream_dedup.news.xml import entries as xml_entries
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.addresses import public_url
from stream_dedup.tools.feeds.web import MOST_BYTES

_TTL = re.compile(rb"<ttl>\s*(\d{1,5})\s*</ttl>")
# A web page names its feeds in these first bytes. The head of a page has some ten KB; a longer search takes time.
_HEAD = 2**17
_FEED_LINK = ",".join(f"link[rel~=alternate][href][type*='{kind}']" for kind in ("rss+xml", "atom+xml", "feed+json"))
# Ids that name a site. "tag" is that of Atom (RFC 4151).
_NAMES_SITE = re.compile(r"(?:https?://|tag:)", re.I)
_WEB = ("http://", "https://")
# A longer id is hashed, because every consumer stores ids. URLs have a few hundred characters at most.
_LONGEST_ID = 1000
_decode = Decoder(ItemSettings())


class _JsonFeed(msgspec.Struct):
    items: list[dict[str, Any]]
    home_page_url: Any = ""


_DECODE_JSON = tolerant(msgspec.json.Decoder(_JsonFeed).decode)


class Entry(NamedTuple):
    """An entry of a feed."""

    id: str
    digest: bytes  # 16 bytes of title, text, link and date
    value: dict[str, Any]  # the object that is emitted
    link: str  # as the feed gives it
    length: int  # characters of the text
    time: int = NO_TIME  # the date in ms, negative if there is none


class Document(NamedTuple):
    """A document: its entries, the oldest first; seconds in which the feed asks for no poll; problems with entries."""

    entries: Sequence[Entry]
    ttl: float
    problems: Sequence[BadItem]


def read_document(body: bytes, url: str, charset: str = "") -> Document:
    """Read the document of the feed at this URL. `charset`: that of the answer's header. O(bytes).

    >>> feed = b"<rss><channel><item><title>Ferry stops</title><guid>7</guid></item></channel></rss>"
    >>> read_document(feed, "https://a.example/rss").entries[0].value
    {'title': 'Ferry stops', 'guid': 'https://a.example/rss#7', 'source': 'https://a.example/rss', \
'feed': 'https://a.example/rss', 'id': 'https://a.example/rss#7'}

    Raises BadItem (`json`, `xml`) for a document that is no feed.
    """
    feed, entries, problems = public_url(url), list[Entry](), list[BadItem]()
    values, home = _values(body, charset)
    for value in values:
        try:
            entries.append(_entry(value, feed, home))
        except BadItem as bad:
            problems.append(BadItem(f"entry-{bad.reason}", f"an entry is left out: {bad.detail}"))
    entries = _oldest_first(_distinct(entries, problems))
    ttl = _TTL.search(body)
    return Document(entries, 60.0 * int(ttl[1]) if ttl else 0.0, problems)


def _distinct(entries: Sequence[Entry], problems: list[BadItem]) -> list[Entry]:
    """Return each entry once. Unlike entries with one id would replace each other at each poll, so they get new ids."""
    by_id: dict[str, dict[bytes, Entry]] = {}
    for entry in entries:
        by_id.setdefault(entry.id, {}).setdefault(entry.digest, entry)
    shared = {name: list(group.values()) for name, group in by_id.items() if len(group) > 1}
    if shared:
        name, group = max(shared.items(), key=lambda entry: len(entry[1]))
        problems.append(
            BadItem("entry-id", f"{len(group):,} entries have the id {name[:80]}: their links or texts tell them apart")
        )
    mark = {name: _first_distinct(group) for name, group in shared.items()}
    distinct: dict[str, Entry] = {}
    for entry in entries:
        if entry.id in shared:
            entry = _named(entry, f"{entry.id}#{_hash(mark[entry.id](entry))}")
        distinct.setdefault(entry.id, entry)
    return list(distinct.values())


# What may tell entries apart, the most lasting first: links, titles, all that a reader sees.
_MARKS: tuple[Callable[[Entry], str], ...] = (
    lambda entry: entry.link, lambda entry: str(entry.value.get("title")), lambda entry: entry.digest.hex(),
)  # fmt: skip


def _first_distinct(group: Sequence[Entry]) -> Callable[[Entry], str]:
    return next(mark for mark in _MARKS if len({*map(mark, group)}) == len(group))


def _oldest_first(entries: Sequence[Entry]) -> list[Entry]:
    """Sort by date. Feeds list the newest first, so an entry without a date follows the one below it."""
    time, dated = NO_TIME, list[tuple[int, Entry]]()
    for entry in reversed(entries):
        time = entry.time if entry.time > NO_TIME else time
        dated.append((time, entry))
    return [entry for _, entry in sorted(dated, key=itemgetter(0))]


def _values(body: bytes, charset: str) -> tuple[list[dict[str, Any]], str]:
    """Return the entries as dicts, and the home page that a JSON Feed names."""
    if body.startswith(GZIP):  # the server did not say so
        unpack = zlib.decompressobj(zlib.MAX_WBITS + 16)
        with suppress(zlib.error):
            body = unpack.decompress(body, MOST_BYTES)
        if not unpack.eof:
            raise BadItem("xml", f"it is packed with gzip, and it is damaged or larger than {MOST_BYTES // 2**20} MiB")
    if not body.strip():
        raise BadItem("xml", "the answer is empty")
    if body.lstrip()[:1] == b"{":
        try:
            document = _DECODE_JSON(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadItem("json", str(error)) from None
        return document.items, document.home_page_url if isinstance(document.home_page_url, str) else ""
    try:
        return xml_entries(body, charset), ""
    except BadItem as bad:
        named = LexborHTMLParser(body[:_HEAD]).css_first(_FEED_LINK)
        if named is None:
            raise
        feed = public_url(named.attributes["href"] or "")
        raise BadItem("xml", f"{bad.detail}; put the feed that it names into the list: {feed}") from None


def _entry(value: dict[str, Any], feed: str, home: str) -> Entry:
    item = _decode(msgspec.json.encode(value), None, None)
    if not isinstance(item, Item):
        raise item if isinstance(item, BadItem) else BadItem("empty", "an entry without content")
    links = (plain_value("url", value.get(name)) for name in ("feedburner:origLink", "link", "url", "external_url"))
    link = next((value for value in links if value and isinstance(value, str)), "")
    if not link.startswith(_WEB) and str(value.get("source") or "/").startswith("/"):  # a path names no site
        value["source"] = home if home.startswith(_WEB) else feed
    title, text = (" ".join(part.split()) for part in (item.title, item.text))
    digest = xxhash.xxh3_128_digest(f"{title}\0{text}\0{link}\0{item.time}".encode())
    ids = (plain_value("id", value.get(name)) for name in ("guid", "id", "uri"))
    name = next((str(id) for id in ids if id and isinstance(id, (str, int))), link) or _hash(title or text)
    name = name if len(name) <= _LONGEST_ID else _hash(name)
    value["feed"] = feed
    is_own = _NAMES_SITE.match(name) and site_of(name) == site_of(feed)
    return _named(Entry("", digest, value, link, len(text), item.time), name if is_own else f"{feed}#{name}")


def _named(entry: Entry, name: str) -> Entry:
    """Set this id under each name that a preset may read."""
    entry.value.update(dict.fromkeys({"guid", "uri"} & entry.value.keys() | {"id"}, name))
    return entry._replace(id=name)


def _hash(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())
