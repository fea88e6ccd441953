"""Read XML documents that hold many items, or one; one after another, or one a line.

In: an open input (`Source`). Out: a row of JSON for each item, as in JSON Lines. A document is in memory as a whole, so
its size is bounded (`MOST`); any number of documents may follow each other, as in the dump of a topic, and only one of
them is in memory.
"""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, iterdecode
from collections.abc import Iterator
from itertools import chain

import msgspec

from stream_dedup.batch.tables import CutLine, Row, Source, limited
from stream_dedup.errors import BadItem, InputError
from stream_dedup.news.xml import OPML, entries

MOST = 64 * 2**20
"""Bytes of a document. Ten thousand articles fit; reading takes seven times as much memory (XML of 63 MiB: 431)."""

_LEAD = BOM_UTF8 + b" \t\r\n"
_UTF16 = (BOM_UTF16_LE, BOM_UTF16_BE)
_BEGINS: tuple[bytes, ...] = (b"<?xml",)
# The first tag of a document, or of a comment before it: then the document is read with those behind it.
_ROOT = re.compile(rb"<([A-Za-z_][\w:.-]*)")
_HEAD = 1000  # bytes of a document that a bad item shows


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
