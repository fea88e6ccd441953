"""Read whole documents: XML and JSON that holds many items, or one; one after another, or one a line.

In: an open input (`Source`) of which lines.py has seen that it is no JSON Lines. Out: a row of JSON for each item, as
in JSON Lines. A document is in memory as a whole, so its size is bounded (`MOST`); any number of XML documents may
follow each other, as in the dump of a topic, and only one of them is in memory.
"""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, iterdecode
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from stream_dedup.batch.tables import CutLine, Row, Source, limited
from stream_dedup.errors import BadItem, InputError
from stream_dedup.news.envelope import is_feed, items_of
from stream_dedup.news.xml import OPML, entries
from stream_dedup.surrogates import lone_in, without_lone

MOST = 64 * 2**20
"""Bytes of a document. Ten thousand articles fit; reading takes seven times as much memory (XML of 63 MiB: 431)."""

_LEAD = BOM_UTF8 + b" \t\r\n"
_UTF16 = (BOM_UTF16_LE, BOM_UTF16_BE)
# A line of JSON that ends like this goes on in the next one.
_OPEN = (b"{", b"[", b",")
_BEGINS: tuple[bytes, ...] = (b"<?xml",)
# The first tag of a document, or of a comment before it: then the document is read with those behind it.
_ROOT = re.compile(rb"<([A-Za-z_][\w:.-]*)")
_CURE = "convert it to JSON Lines: jq -c '.[]' FILE (a list) or jq -c . FILE (objects)"
_HEAD = 1000  # bytes of a document that a bad item shows


def rows_of(source: Source, head: bytes) -> Iterator[Row] | None:
    """The rows of an input that begins with these bytes, up to the end of a line; None if it holds JSON Lines.

    Raises InputError, as does the iterator, where a document is too large, no JSON, or a list of feeds (OPML).
    """
    first, end, more = head.lstrip(_LEAD).partition(b"\n")
    first = first.rstrip()
    if head.startswith(_UTF16) or first.startswith(b"<"):
        return xml_rows(source)
    is_list = first.startswith(b"[") and not (first.endswith(b"]") and more.strip())  # else it is a line of several
    if is_list or (first.startswith(b"{") and end and first.endswith(_OPEN)):
        return _json_rows(source, [_whole(source)])
    if is_feed(first):
        return _json_rows(source, source._replace(most=MOST).lines())
    return None


def xml_rows(source: Source) -> Iterator[Row]:
    """The entries of XML documents. A document that cannot be read is one bad item, and so is a line between them."""
    for document in _documents(source):
        if not document.lstrip(_LEAD).startswith(b"<"):
            yield Row(document)
            continue
        try:
            values = [msgspec.json.encode(entry) for entry in entries(document)]
        except BadItem as bad:
            if bad.detail == OPML:
                raise InputError(f"{source.name}: {bad.detail}") from None
            yield Row(document[:_HEAD], None, bad)
        else:
            yield from (limited(value, source.most) for value in values)


def _documents(source: Source) -> Iterator[bytes]:
    """Split an input behind a line that closes the first element, and before one that opens another. O(bytes).

    What is in one line stays together: entries() takes several documents.
    """
    first = next(source.chunks, b"")
    chunks: Iterator[bytes] = chain([first], source.chunks)
    if first.startswith(_UTF16):
        chunks = (text.encode() for text in iterdecode(chunks, "utf-16", "replace"))
    document, begins, ends = bytearray(), _BEGINS, b""
    for line in source._replace(chunks=chunks, most=MOST).lines():
        if document and line.startswith(begins):
            yield bytes(document)
            document, begins, ends = bytearray(), _BEGINS, b""
        if isinstance(line, CutLine) or len(document) + len(line) > MOST:
            raise InputError(f"{source.name} holds a document of more than {MOST:,} bytes; split it")
        if not document and not line.lstrip(_LEAD).startswith(b"<"):
            yield line
            continue
        document += line + b"\n"
        if not ends and (root := _ROOT.search(line)):
            begins, ends = (*_BEGINS, root[0] + b" ", root[0] + b">"), b"</" + root[1] + b">"
        if ends and line.rstrip().endswith(ends):
            yield bytes(document)
            document, begins, ends = bytearray(), _BEGINS, b""
    if document:
        yield bytes(document)


def _whole(source: Source) -> bytes:
    parts, size = list[bytes](), 0
    for chunk in source.chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MOST:
            raise InputError(f"{_what(source)} of more than {MOST:,} bytes; {_CURE}")
    return b"".join(parts)


def _json_rows(source: Source, documents: Iterable[bytes]) -> Iterator[Row]:
    """The objects of JSON documents: a list, an object, or the items of a JSON Feed."""
    for document in documents:
        if isinstance(document, CutLine):
            raise InputError(f"{_what(source)} of more than {MOST:,} bytes; {_CURE}")
        try:
            lines = _lines(document.strip(_LEAD))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{_what(source)}, and is none: {error}; if it holds several, {_CURE}") from None
        for line in lines:
            no_object = BadItem("type", "an element of the list is no JSON object")
            yield limited(line, source.most) if line.startswith(b"{") else Row(line[:_HEAD], None, no_object)


def _lines(document: bytes) -> Sequence[bytes]:
    """The objects of a document in one line each, and otherwise as they were."""
    if is_feed(document):
        return items_of(document)
    lone = lone_in(document)
    if lone:  # msgspec refuses them, so an escape that the document lacks stands in
        stand_in = next(escape for code in range(0xE000, 0xF900) if (escape := rb"\u%04x" % code) not in document)
        document = without_lone(document, stand_in)
    values = msgspec.json.decode(document, type=list[msgspec.Raw]) if document.startswith(b"[") else [document]
    lines = [msgspec.json.format(value, indent=-1) for value in values if value]
    if lone:
        each = iter(lone)
        lines = [re.sub(re.escape(stand_in), lambda _: next(each), line) for line in lines]
    return lines


def _what(source: Source) -> str:
    return f"{source.name} looks like one JSON document"
