"""Read the entries of a feed's document.

In: the body of an answer. Out: a `Document`: the entries as news/xml.py gives them, or the items of a JSON Feed, each
with a stable id, the feed's address, and a digest of what a reader sees. The presets of news/fields.py read them.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urljoin

import msgspec
import xxhash
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from stream_dedup.errors import BadItem
from stream_dedup.feeds.sources import public_url
from stream_dedup.news.decode import Decoder
from stream_dedup.news.fields import plain_value
from stream_dedup.news.item import Item
from stream_dedup.news.xml import entries as xml_entries
from stream_dedup.settings import ItemSettings

# A web page begins with one of these, after an XML declaration and comments perhaps; a feed has its root before.
_START = 1000
_PAGE = re.compile(rb"<(?:!doctype\s+html|html[\s>])", re.I)
_ROOT = re.compile(rb"<(?:rss|feed|rdf:rdf)[\s>]", re.I)
_FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json")
_TTL = re.compile(rb"<ttl>\s*(\d{1,5})\s*</ttl>")
# Ids that are unique in the world. "tag" is that of Atom (RFC 4151).
_UNIQUE = re.compile(r"(?:https?://|urn:|tag:)", re.I)
# Characters of an id that is kept as it is. Every consumer stores ids; URLs have a few hundred characters at most.
_LONGEST_ID = 1000


class Entry(NamedTuple):
    """An entry. `digest`: 16 bytes over title, text, link and date."""

    id: str
    digest: bytes
    value: dict[str, Any]

    @property
    def line(self) -> bytes:
        """The JSON object that is emitted."""
        return msgspec.json.encode(self.value)


class Document(NamedTuple):
    """`ttl`: seconds for which the feed asks not to be polled. `left_out`: why entries were left out, one for each."""

    entries: Sequence[Entry]
    ttl: float
    left_out: Sequence[BadItem]


class DocumentReader:
    """Reads the documents of all feeds.

    >>> feed = b"<rss><channel><item><title>Ferry stops</title><guid>7</guid></item></channel></rss>"
    >>> DocumentReader()(feed, "https://a.example/rss").entries[0].value
    {'title': 'Ferry stops', 'guid': 'https://a.example/rss#7', 'source': 'https://a.example/rss', \
'feed': 'https://a.example/rss', 'id': 'https://a.example/rss#7'}

    A call raises BadItem for a document that is no feed: `html`, `json`, `xml`. O(bytes).
    """

    def __init__(self) -> None:
        self._decode = Decoder(ItemSettings())

    def __call__(self, body: bytes, url: str) -> Document:
        feed, found, left_out = public_url(url), _values(body, url), []
        entries: dict[str, Entry] = {}
        for value, home in found:
            try:
                entry = self._entry(value, feed, home or feed)
            except BadItem as bad:
                left_out.append(bad)
                continue
            if entries.setdefault(entry.id, entry).digest != entry.digest:
                # Another entry with an id of this document. It gets an id of its own; under the same one the two would
                # replace each other at each poll.
                entry = _named(entry, f"{entry.id}#{_hash(str(entry.value.get('title')))}")
                entries.setdefault(entry.id, entry)
        ttl = _TTL.search(body)
        return Document(list(entries.values()), 60.0 * int(ttl[1]) if ttl else 0.0, left_out)

    def _entry(self, value: dict[str, Any], feed: str, home: str) -> Entry:
        line = msgspec.json.encode(value)
        record, item = self._decode.read(line), self._decode(line, None, None)
        if not isinstance(item, Item):
            raise item if isinstance(item, BadItem) else BadItem("empty", "an entry without content")
        link = record.fields["url"] or plain_value("url", value.get("link"))
        url = link if isinstance(link, str) else ""
        seen = (*(" ".join(text.split()) for text in (item.title, item.text)), url, str(record.fields["published"]))
        digest = xxhash.xxh3_128_digest("\0".join(seen).encode())
        if not record.fields["source"] and not url.startswith(("http://", "https://")):
            value["source"] = home
        own = [plain_value("id", value.get(name)) for name in ("guid", "id", "uri")]
        name = next((str(each) for each in own if each and isinstance(each, (str, int))), url) or _hash(
            seen[0] or seen[1]
        )
        if len(name) > _LONGEST_ID:
            name = _hash(name)
        unique = name if _UNIQUE.match(name) else f"{feed}#{name}"
        value["feed"] = feed
        return _named(Entry(unique, digest, value), unique)


def _named(entry: Entry, name: str) -> Entry:
    """Give an entry this id, under each name that a preset may read."""
    value = entry.value
    value["id"] = name
    for also in ("guid", "uri"):
        if also in value and plain_value("id", value[also]) != name:
            value[also] = name
    return entry._replace(id=name)


def _hash(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())


def _values(body: bytes, url: str) -> list[tuple[dict[str, Any], str]]:
    """The entries as dicts, and the home page that a JSON Feed names."""
    start = body[:_START]
    if _PAGE.search(start) and not _ROOT.search(start):
        raise BadItem("html", f"it is a web page and no feed{_named_feed(body, url)}")
    if not start.lstrip().startswith(b"{"):
        try:
            return [(value, "") for value in xml_entries(body)]
        except etree.LxmlError as error:
            raise BadItem("xml", str(error)) from None
    try:
        document = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadItem("json", str(error)) from None
    items, home = document.get("items"), document.get("home_page_url")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadItem("json", "it has no list of objects named items, so it is no JSON Feed")
    return [(item, home if isinstance(home, str) else "") for item in items]


def _named_feed(body: bytes, url: str) -> str:
    for link in LexborHTMLParser(body).css("link[rel~=alternate][href]"):
        if (link.attributes.get("type") or "").lower() in _FEED_TYPES:
            target = urljoin(public_url(url), link.attributes["href"] or "")
            return f"; put the feed that it names into the list: {public_url(target)}"
    return "; put the address of the feed into the list"
