"""Read the entries of a feed's document.

In: the body of an answer. Out: a `Document`: the entries as news/xml.py gives them, or the items of a JSON Feed, each
with a stable id, the feed's address, and a digest of what a reader sees. The presets of news/fields.py read them.
"""

import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import xxhash
from selectolax.lexbor import LexborHTMLParser

from stream_dedup.errors import BadItem
from stream_dedup.feeds.fetch import MOST_BYTES
from stream_dedup.feeds.sources import public_url
from stream_dedup.news.decode import GZIP, Decoder
from stream_dedup.news.item import Item
from stream_dedup.news.values import plain_value
from stream_dedup.news.xml import entries as xml_entries
from stream_dedup.settings import ItemSettings

_TTL = re.compile(rb"<ttl>\s*(\d{1,5})\s*</ttl>")
# Bytes of a web page in which it names its feeds. The head of a page has some ten KB, and a reader must not be held up.
_HEAD = 2**17
_FEED_LINK = ",".join(f"link[rel~=alternate][href][type*='{kind}']" for kind in ("rss+xml", "atom+xml", "feed+json"))
# Ids that are unique in the world. "tag" is that of Atom (RFC 4151).
_UNIQUE = re.compile(r"(?:https?://|urn:|tag:)", re.I)
# Characters of an id that is kept as it is. Every consumer stores ids; URLs have a few hundred characters at most.
_LONGEST_ID = 1000
_decode = Decoder(ItemSettings())


class _JsonFeed(msgspec.Struct):
    items: list[dict[str, Any]]
    home_page_url: Any = ""


class Entry(NamedTuple):
    """An entry. `value`: the object that is emitted. `digest`: 16 bytes over title, text, link and date. `link`: as the
    feed gives it; `length`: characters of its text.
    """

    id: str
    digest: bytes
    value: dict[str, Any]
    link: str
    length: int


class Document(NamedTuple):
    """`ttl`: seconds for which the feed asks not to be polled. `left_out`: why entries were left out, one for each."""

    entries: Sequence[Entry]
    ttl: float
    left_out: Sequence[BadItem]


def read_document(body: bytes, url: str, charset: str = "") -> Document:
    """Read what the feed at this URL sent. `charset`: that of the answer's header. O(bytes).

    >>> feed = b"<rss><channel><item><title>Ferry stops</title><guid>7</guid></item></channel></rss>"
    >>> read_document(feed, "https://a.example/rss").entries[0].value
    {'title': 'Ferry stops', 'guid': 'https://a.example/rss#7', 'source': 'https://a.example/rss', \
'feed': 'https://a.example/rss', 'id': 'https://a.example/rss#7'}

    Raises BadItem for a document that is no feed: `json`, `xml`.
    """
    feed, entries, left_out = public_url(url), dict[str, Entry](), []
    values, home = _values(body, charset)
    for value in values:
        try:
            entry = _entry(value, feed, home or feed)
        except BadItem as bad:
            left_out.append(BadItem(f"entry-{bad.reason}", f"an entry is left out: {bad.detail}"))
            continue
        if entries.setdefault(entry.id, entry).digest != entry.digest:
            # Another entry with an id of this document. It gets an id of its own; under the same one the two would
            # replace each other at each poll.
            entry = _named(entry, f"{entry.id}#{_hash(str(value.get('title')))}")
            entries.setdefault(entry.id, entry)
    ttl = _TTL.search(body)
    return Document(list(entries.values()), 60.0 * int(ttl[1]) if ttl else 0.0, left_out)


def _values(body: bytes, charset: str) -> tuple[list[dict[str, Any]], str]:
    """The entries as dicts, and the home page that a JSON Feed names."""
    if body.startswith(GZIP):  # of a server that does not say so
        unpack = zlib.decompressobj(zlib.MAX_WBITS + 16)
        with suppress(zlib.error):
            body = unpack.decompress(body, MOST_BYTES)
        if not unpack.eof:
            raise BadItem("xml", f"it is packed with gzip, and damaged or of more than {MOST_BYTES // 2**20} MiB")
    if not body.strip():
        raise BadItem("xml", "the answer is empty")
    if body.lstrip()[:1] == b"{":
        try:
            document = msgspec.json.decode(body, type=_JsonFeed)
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
    link = next((each for each in links if each and isinstance(each, str)), "")
    if not link.startswith(("http://", "https://")) and not value.get("source"):
        value["source"] = home
    title, text = (" ".join(each.split()) for each in (item.title, item.text))
    digest = xxhash.xxh3_128_digest(f"{title}\0{text}\0{link}\0{item.time}".encode())
    ids = (plain_value("id", value.get(name)) for name in ("guid", "id", "uri"))
    name = next((str(each) for each in ids if each and isinstance(each, (str, int))), link) or _hash(title or text)
    name = name if len(name) <= _LONGEST_ID else _hash(name)
    value["feed"] = feed
    name = name if _UNIQUE.match(name) else f"{feed}#{name}"
    return _named(Entry(name, digest, value, link, len(text)), name)


def _named(entry: Entry, name: str) -> Entry:
    """Give an entry this id, under each name that a preset may read."""
    entry.value.update(dict.fromkeys({"guid", "uri"} & entry.value.keys() | {"id"}, name))
    return entry._replace(id=name)


def _hash(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())
