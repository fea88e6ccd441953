"""Read JSON documents that hold many items: a list, an envelope with a list, a table by columns; one, or one a line.

In: an open input (`Source`) and its first bytes. Out: a row of JSON for each item, as in JSON Lines, or None if the
input is JSON Lines. A document is in memory as a whole, so its size is bounded. What JavaScript and Python
write, and JSON does not allow, is repaired. The path of a list in an envelope is noted.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from stream_dedup.batch import documents as whole
from stream_dedup.batch.tables import CutLine, Row, Source, limited
from stream_dedup.errors import BadItem, InputError
from stream_dedup.news.item_lists import items_in, loads
from stream_dedup.surrogates import lone_in, tolerant, without_lone

_LEAD = BOM_UTF8 + b" \t\r\n"
# A line of JSON that ends like this goes on in the next one.
_OPEN = (b"{", b"[", b",")
_CURE = "convert it to JSON Lines: jq -c '.[]' FILE (a list) or jq -c . FILE (objects)"
_HEAD = 1000  # bytes of a document that a bad item shows
_DECODE = tolerant(msgspec.json.decode)
_MALFORMED = (msgspec.MsgspecError, ValueError, RecursionError)


def document_rows(source: Source, head: bytes) -> Iterator[Row] | None:
    """The rows of an input that begins with these bytes, up to the end of a line; None if it holds JSON Lines.

    Raises InputError, as does the iterator, where a document is too large, or is no JSON.
    """
    first, end, more = head.lstrip(_LEAD).partition(b"\n")
    first = first.rstrip()
    is_list = first.startswith(b"[") and not (first.endswith(b"]") and more.strip())  # else it is a line of several
    if is_list or (first.startswith(b"{") and end and first.endswith(_OPEN)):
        return _rows(source, [_whole(source)])
    if first.startswith(b"{") and (not end or _has_several(source, first)):
        return _rows(source, source._replace(most=whole.MOST).lines(), is_line=True)
    return None


def _has_several(source: Source, line: bytes) -> bool:
    """Whether a line is an envelope, or several documents."""
    try:
        return items_in(_DECODE(line), source.path) is not None
    except msgspec.DecodeError:
        with suppress(*_MALFORMED):
            return len(loads(line)) > 1
    except _MALFORMED:
        pass
    return False


def _whole(source: Source) -> bytes:
    parts, size = list[bytes](), 0
    for chunk in source.chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > whole.MOST:
            raise InputError(f"{source.name} looks like one JSON document of more than {whole.MOST:,} bytes; {_CURE}")
    return b"".join(parts)


def _rows(source: Source, documents: Iterable[bytes], *, is_line: bool = False) -> Iterator[Row]:
    for document in documents:
        if isinstance(document, CutLine):
            raise InputError(f"{source.name} looks like one JSON document of more than {whole.MOST:,} bytes; {_CURE}")
        try:
            values = _items(source, document.strip(_LEAD))
        except _MALFORMED as error:
            if not is_line:
                raise InputError(f"{source.name} looks like one JSON document, and is none: {error}; {_CURE}") from None
            yield limited(document, source.most)
            continue
        for value in values:
            no_object = BadItem("type", "an element of the list is no JSON object")
            yield limited(value, source.most) if value.startswith(b"{") else Row(value[:_HEAD], None, no_object)


def _items(source: Source, document: bytes) -> list[bytes]:
    """The items of a document, each in one line and otherwise as it was if it stands in a list or alone."""
    if not document:
        return []
    try:
        value = _DECODE(document)
    except msgspec.DecodeError:
        values = loads(document)
        source.note("is not quite JSON (several documents, NaN, a comma too many, a wrong escape), and was repaired")
        return [line for each in values for line in _items(source, msgspec.json.encode(each))]
    if isinstance(value, dict) and (listing := items_in(value, source.path)):
        source.note(
            f'is read as the list of items at {listing.path}; [item] list = "PATH" names another one'
            if listing.path
            else "is read as a table or dict of items"
        )
        return listing.lines()
    return _elements(document)


def _elements(document: bytes) -> list[bytes]:
    lone = lone_in(document)
    if lone:  # msgspec refuses them, so an escape that the document lacks stands in
        stand_in = next(escape for code in range(0xE000, 0xF900) if (escape := rb"\u%04x" % code) not in document)
        document = without_lone(document, stand_in)
    raw = msgspec.json.decode(document, type=list[msgspec.Raw]) if document.startswith(b"[") else [document]
    lines = [msgspec.json.format(each, indent=-1) for each in raw]
    if lone:
        each = iter(lone)
        lines = [re.sub(re.escape(stand_in), lambda _: next(each), line) for line in lines]
    return lines
