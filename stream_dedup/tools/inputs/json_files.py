"""Read JSON: lines of one item each (JSON Lines), or documents that hold many items, one in a file or one a line.

A document is a list, an envelope with a list, or a table by columns; its first bytes show what it is. It is in memory
as a whole, so its size is bounded. What JavaScript and Python write, and JSON does not allow, is repaired. The path of
a list in an envelope is noted.
"""

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from stream_dedup.errors import BadItem, InputError
from stream_dedup.loose_json import decode_json, loads, lone_in, without_lone
from stream_dedup.news.item_lists import Found, items_in
from stream_dedup.tools.inputs import xml_files
from stream_dedup.tools.inputs.packing import CHUNK, KEPT, LEAD, STDIN_NAME, CutLine, Input, Row
from stream_dedup.tools.inputs.tables import are_known

# A line of JSON that ends like this goes on in the next one.
_OPEN = (b"{", b"[", b",")
_CURE = "convert it to JSON Lines: jq -c '.[]' FILE (a list) or jq -c . FILE (objects)"
_MOST_NAMED = 8  # lists that a note names
_ACTION = re.compile(rb'\s*\{\s*"(index|create|update|delete)"\s*:\s*\{[^{}]*\}\s*\}\s*$', re.MULTILINE)
# The begin of a script that holds JSON: an assignment (an archive of Twitter), a module, or a call (JSONP).
_SCRIPT = re.compile(
    rb"[\s;]*(?:/\*\*/\s*)?(?:export\s+default\s+|(?:(?:var|let|const)\s+)?[A-Za-z_$][\w.$\[\]\"']{0,200}\s*(?:=\s*|\(\s*))(?=[\[{])"
)
_MALFORMED = (msgspec.MsgspecError, ValueError, RecursionError)
# A header consists of column names, at least one of them usual in feeds. A line of prose with commas does not.
_NAME = re.compile(r'"?[^\W\d][\w@:-]*(?: [\w@:-]+){0,2}"?')


def json_rows(input: Input) -> Iterator[Row]:
    """Return the lines of JSON Lines; or the items of JSON or XML documents, if the first line shows these."""
    head = b""
    if not input.is_declared:
        while len(head) < CHUNK and b"\n" not in head.lstrip(LEAD) and (chunk := next(input.chunks, b"")):
            head += chunk
        input = input._replace(chunks=chain([head], input.chunks))
        if head.lstrip(LEAD).startswith(b"<"):
            return xml_files.xml_rows(input)
        if (script := _SCRIPT.match(head)) is not None:
            head = _whole(input)[script.end() :].rstrip(b"; )\r\n\t")
            input.note(f"is a script: what it assigns is read, without {script[0].decode(errors='replace').strip()!r}")
            return _rows(input, [head])
        if (rows := _document_rows(input, head)) is not None:
            return rows
    lines = input.lines()
    if _ACTION.match(head.lstrip(LEAD)):
        input.note("is a bulk request of Elasticsearch: the _id of an action is that of the document in the next line")
        return map(input.row, _bulk(lines))
    if not input.is_declared:
        cure = "say --format csv" if input.name == STDIN_NAME else "give it the suffix .csv"
        lines = check_json_lines(input.name, cure, lines)
    return (Row(line, None, line.fault if isinstance(line, CutLine) else None) for line in lines)


def _bulk(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Give each document of a bulk request the id of its action, whose own line becomes blank."""
    action: dict[str, Any] = {}
    for line in lines:
        match = _ACTION.match(line)
        if match and match[1] != b"delete":
            action = {}
            with suppress(*_MALFORMED):
                action = next(iter(decode_json(line).values()))
            yield b""
            continue
        name = action.get("_id")
        yield b'{"_id":%s,%s' % (msgspec.json.encode(name), line[1:]) if name and line.startswith(b"{") else line
        action = {}


def check_json_lines(path: str, cure: str, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Pass the lines through. Raise InputError if the first line shows a common mistake: one JSON document, or CSV.

    Any other line that is not JSON is a bad item and costs only itself. `cure`: how the user can declare CSV.
    """
    for first in islice(lines, 1):
        start = first.removeprefix(BOM_UTF8).strip()
        if start in (b"[", b"{") or start.startswith(b"[{"):
            raise InputError(
                f"{path} looks like one JSON document, not like JSON Lines with one object a line; {_CURE}"
            )
        text = start.decode("utf-8", "replace")
        cells = [cell.strip() for cell in re.split("[,;\t]", text)]
        if len(cells) > 1 and all(map(_NAME.fullmatch, cells)) and are_known([cell.strip('"') for cell in cells]):
            raise InputError(
                f"{path} looks like CSV: its first line is {text[:80]!r}; {cure}, or --format jsonl if it is not"
            )
        yield first
    yield from lines


def _document_rows(input: Input, head: bytes) -> Iterator[Row] | None:
    """Return the rows of an input that begins with `head`, which ends with a line; None if the input holds JSON Lines.

    Raises InputError, as the iterator does, for a document that is too large or is not JSON.
    """
    first, end, more = head.lstrip(LEAD).partition(b"\n")
    first = first.rstrip()
    # A list that ends with its line is a document if no other line follows.
    is_list = first.startswith(b"[") and not (first.endswith(b"]") and more.strip())
    if is_list or (first.startswith(b"{") and end and first.endswith(_OPEN)):
        return _rows(input, [_whole(input)])
    if first.startswith(b"{") and (not end or _has_several(input, first)):
        return _rows(input, input._replace(most=xml_files.MOST).lines(), is_line=True)
    return None


def _has_several(input: Input, line: bytes) -> bool:
    """Return whether a line is an envelope, or several documents."""
    try:
        value = decode_json(line)
        return bool(items_in(value).read if input.query is None else input.query.items(value))
    except msgspec.DecodeError:
        with suppress(*_MALFORMED):
            return len(loads(line)) > 1
    except _MALFORMED:
        pass
    return False


def _whole(input: Input) -> bytes:
    parts, size = list[bytes](), 0
    for chunk in input.chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > xml_files.MOST:
            raise _too_long(input)
    return b"".join(parts)


def _too_long(input: Input) -> InputError:
    return InputError(f"{input.name} looks like one JSON document of more than {xml_files.MOST:,} bytes; {_CURE}")


def _rows(input: Input, documents: Iterable[bytes], *, is_line: bool = False) -> Iterator[Row]:
    lists = _Lists(Counter(), Counter())
    for document in documents:
        if isinstance(document, CutLine):
            raise _too_long(input)
        try:
            values = _items(input, document.strip(LEAD), lists)
        except _MALFORMED as error:
            if not is_line:
                raise InputError(f"{input.name} looks like one JSON document, and is none: {error}; {_CURE}") from None
            yield input.row(document)
            continue
        for value in values:
            no_object = BadItem("type", "an element of the list is no JSON object")
            yield input.row(value) if value.startswith(b"{") else Row(value[:KEPT], None, no_object)
    lists.note(input)


class _Lists(NamedTuple):
    """The lists of the documents: path -> entries that were read, and that were left."""

    read: Counter[str]
    left: Counter[str]

    def add(self, found: Found) -> None:
        for counts, lists in zip(self, found, strict=True):
            counts.update({found_list.path: len(found_list.items) for found_list in lists})

    def note(self, input: Input) -> None:
        """Name each list with its size. Nothing is left out without a word."""
        read, left = (
            ", ".join([f"{path or '@'} ({count:,})" for path, count in counts.most_common()][:_MOST_NAMED])
            + (f" and {len(counts) - _MOST_NAMED:,} more" if len(counts) > _MOST_NAMED else "")
            for counts in self
        )
        if [*self.read] == [""] and not left:
            input.note("is read as a table or dict of items")
        elif read or left:
            message = f"is read as the items of {read}" if read else "has no list of items"
            message += f"; not read: {left}" if left else ""
            input.note(f'{message}. If that is wrong, say it: [item] query = "PATH[]"')


def _items(input: Input, document: bytes, lists: _Lists) -> list[bytes]:
    """Return the items of a document, a line each. An item that stands alone or in a list is otherwise unchanged."""
    if not document:
        return []
    try:
        value = decode_json(document)
    except msgspec.DecodeError:
        values = loads(document)
        input.note("is not quite JSON (several documents, NaN, a comma too many, a wrong escape), and was repaired")
        return [line for value in values for line in _items(input, msgspec.json.encode(value), lists)]
    if input.query is not None:
        if (queried := input.query.items(value)) is not None:
            return [msgspec.json.encode(item) for item in queried]
        if isinstance(value, list):
            return [line for element in _elements(document) for line in _items(input, element, lists)]
        return _elements(document)
    found = items_in(value)
    if isinstance(value, list) and (not found.read or found.read[0].items == value):
        return _elements(document)
    if found.read:
        lists.add(found)
    return [line for found_list in found.read for line in found_list.lines()] if found.read else _elements(document)


def _elements(document: bytes) -> list[bytes]:
    lone = lone_in(document)
    if lone:  # msgspec refuses lone surrogates, so an escape that the document lacks replaces them
        stand_in = next(escape for code in range(0xE000, 0xF900) if (escape := rb"\u%04x" % code) not in document)
        document = without_lone(document, stand_in)
    raw = msgspec.json.decode(document, type=list[msgspec.Raw]) if document.startswith(b"[") else [document]
    lines = [msgspec.json.format(element, indent=-1) for element in raw]
    if lone:
        surrogates = iter(lone)
        lines = [re.sub(re.escape(stand_in), lambda _: next(surrogates), line) for line in lines]
    return lines
