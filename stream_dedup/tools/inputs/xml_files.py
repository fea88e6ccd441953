"""Read XML documents, each of one item or many: a row of JSON for each item.

A document is in memory as a whole, so its size is bounded (`MOST`). Any number of documents may follow each other, as
in the dump of a topic; only one of them is in memory.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from stream_dedup.errors import BadItem, InputError
from stream_dedup.extras import require
from stream_dedup.tools.inputs.packing import KEPT, LEAD, Input, Row

MOST = 64 * 2**20
"""Bytes of a document. Ten thousand articles fit; reading takes three times as much memory (XML of 54 MiB: 165)."""

# Texts that have no tags, and what ends them; XML declarations; the elements that may be the root of a document.
_TEXTS = {b"<![CDATA[": b"]]>", b"<!--": b"-->"}
_MAY_NEST = frozenset((b"item", b"entry", b"newsItem", b"NewsItem"))
_MARK = re.compile(
    rb"<!\[CDATA\[|<!--|<\?xml\s|<(/?)((?:rdf:)?RDF|rss|feed|NewsML|newsMessage|nitf|opml|item|entry|newsItem|NewsItem)"
    rb"(?=[\s/>])[^<>]*>"
)
_UNKNOWN = re.compile(rb"<!--.*?-->|(<[A-Za-z])", re.DOTALL)  # a tag before the first known one
_OTHER = b"*"  # a root of another name, with items in it
_LONGEST_TAG = 2**16
_GAP = re.compile(rb"(?:\s|\xef\xbb\xbf)*+")


def xml_rows(input: Input) -> Iterator[Row]:
    """Yield the entries of XML documents. An unreadable document is one bad item; JSON between them is a row.

    Raises InputError for a list of feeds, and where the first document is no news; ConfigError without lxml.
    """
    require("lxml", "XML", "give the items as JSON")
    from stream_dedup.news.xml import NO_NEWS, OPML, entries

    for count, document in enumerate(_documents(input.name, input.chunks)):
        if document.lstrip(LEAD).startswith(b"{"):
            yield Row(document)
            continue
        try:
            values = [msgspec.json.encode(entry) for entry in entries(document, note=input.note)]
        except BadItem as bad:
            if bad.detail == OPML or (bad.detail.endswith(NO_NEWS) and not count):
                raise InputError(f"{input.name}: {bad.detail}") from None
            yield Row(document[:KEPT], None, bad)
        else:
            yield from map(input.row, values)


def _documents(name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split an input before the root element of each document but the first, and before a line of JSON. O(bytes).

    Each document declares its own encoding, so the bytes are split before they are decoded and parsed. Text before a
    root, such as a warning of PHP, and behind it, such as a comment, stays with a document.
    """
    data, splitter = bytearray(), _Splitter()
    for chunk in chain(chunks, [b""]):
        data += chunk
        while cut := splitter.next_cut(data, is_end=not chunk):
            yield bytes(data[:cut])
            del data[:cut]
            splitter = _Splitter()
        if len(data) > MOST:
            raise InputError(f"{name} holds a document of more than {MOST:,} bytes; split it")
    if data.strip(LEAD):
        yield bytes(data)


class _Splitter:
    """Finds the end of the first document of an input. It knows the roots of all formats, and skips text."""

    def __init__(self) -> None:
        self._position, self._terminator = 0, b""  # where the search continues, and what ends the text there
        self._root, self._depth = b"", 0
        self._gap = 0  # begin of the white space behind which a line of JSON may begin; -1: nowhere
        self._declared = -1  # begin of the last XML declaration, if no known element followed it

    def next_cut(self, data: bytearray, *, is_end: bool) -> int:
        """Return the length of the document if it ends in the data; 0 if it does not. O(new bytes)."""
        while True:
            if self._gap >= 0 and (found := _GAP.match(data, self._gap)):
                self._gap = found.end()
                if data[self._gap : self._gap + 1] == b"{":
                    return self._gap or self._end_of_line(data, is_end)
                self._gap = self._gap if self._gap == len(data) else -1
            if self._terminator:
                end = data.find(self._terminator, self._position)
                if end < 0:
                    self._position = max(self._position, len(data) - len(self._terminator))
                    return 0
                self._position, self._terminator = end + len(self._terminator), b""
            mark = _MARK.search(data, self._position)
            if mark is None:
                begin = data.rfind(b"<", max(self._position, len(data) - _LONGEST_TAG))
                self._position = begin if begin >= 0 else len(data)
                return 0
            self._position = mark.end()
            if until := _TEXTS.get(bytes(mark[0])):
                self._terminator = until
                continue
            if mark[0].startswith(b"<?"):
                self._declared = mark.start()
                continue
            cut = self._element(mark)
            if cut:
                return cut
            if self._root and not self._depth:
                self._gap = self._position

    def _end_of_line(self, data: bytearray, is_end: bool) -> int:
        end = data.find(b"\n", self._position)
        self._position = len(data)
        return end + 1 if end >= 0 else len(data) if is_end else 0

    def _element(self, mark: re.Match[bytes]) -> int:
        """Count a known element. If it begins another document, return where the present one ends, else 0."""
        is_end, name, declared, self._declared = bool(mark[1]), bytes(mark[2]), self._declared, -1
        if is_end:
            self._depth -= name == self._root and self._depth > 0
        elif not self._root:
            before = _UNKNOWN.finditer(mark.string, 0, mark.start()) if name in _MAY_NEST else ()
            self._root, self._depth = _OTHER if any(tag[1] for tag in before) else name, 1
        elif not self._depth or declared >= 0 or (name == self._root and name not in _MAY_NEST):
            return declared if declared >= 0 else mark.start()
        elif name == self._root:
            self._depth += 1
        if not is_end and mark[0].endswith(b"/>") and name == self._root:
            self._depth -= 1
        return 0
