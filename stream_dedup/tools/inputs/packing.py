"""Open and unpack inputs (gzip, zstd). An `Input` is what the reader of a file format takes, and a `Row` what it gives.

A reader is a function from an `Input` to `Row`s; lines.py lists the reader of each format. The first bytes of an input
show how it is packed (gzip, zstd), whatever its name says. A file that is cut short is an error, never a shorter file;
python-zstandard's own stream reader would not notice. `files_of` and `check_inputs` are for the names that users give.
"""

import os
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import zstandard

from stream_dedup.errors import BadItem, InputError, UsageError
from stream_dedup.news.formats import BZIP2, GZIP, XZ, ZIP, ZSTD
from stream_dedup.news.item_lists import Query
from stream_dedup.settings.memory import available

STDIN, STDIN_NAME = "-", "standard input"
CHUNK = 2**18
"""Bytes of a chunk: the calls cost little beside it, and many chunks fit in a cache."""
LEAD = BOM_UTF8 + b" \t\r\n"
"""Bytes that may precede a document."""
TOO_LARGE = "too-large"
KEPT = 1000
"""Bytes that are kept of what is too large or cannot be read: enough to recognise it."""


# -- rows ------------------------------------------------------------------------------------------------------------


class CsvRow(NamedTuple):
    """The bytes of a row and of its header, without the last line feed. Rows under one header fit into one output."""

    file_format: str
    header: bytes
    raw: bytes


class ParquetRow(NamedTuple):
    """A row as a position in a batch of rows (pyarrow.RecordBatch)."""

    batch: Any
    position: int


SourceRow = CsvRow | ParquetRow


class Row(NamedTuple):
    """A row: its JSON object, the row as it was read, and what is wrong with it."""

    value: bytes
    source_row: SourceRow | None = None
    fault: BadItem | None = None


class CutLine(bytes):
    """The beginning of a line that was too large to be read. `size`: bytes of the line; `quotes`: those in it."""

    size = quotes = 0

    @property
    def fault(self) -> BadItem:
        return too_large(self.size)


def too_large(size: int) -> BadItem:
    return BadItem(TOO_LARGE, f"it has {size} bytes, more than [worker] max_record_bytes; it was not read")


class Input(NamedTuple):
    """An open input."""

    name: str
    file_format: str  # one of `FileFormat`
    is_declared: bool  # whether the user said the format; otherwise it follows from the name
    file: BinaryIO  # packed as it is, for a format that seeks
    chunks: Iterator[bytes]  # unpacked
    most: int  # bytes of a row
    report: Callable[[float], None] = lambda _: None  # takes the share that was read, if a reader ignores the chunks
    note: Callable[[str], None] = lambda _: None  # takes what a person should know of how the input is read
    query: Query | None = None  # what finds the items of a document, if the user says it

    def row(self, value: bytes) -> Row:
        """Return the row of a JSON object. If it is too large, it is a bad item, and only its beginning is kept."""
        return Row(value) if len(value) <= self.most else Row(value[:KEPT], None, too_large(len(value)))

    def lines(self) -> Iterator[bytes]:
        """Split the chunks into lines; a line that is too large comes as a `CutLine`.

        This takes linear time even if a line spans thousands of chunks.
        """
        parts, size, quotes = list[bytes](), 0, 0
        for chunk in self.chunks:
            is_new = False
            for part in chunk.split(b"\n"):
                if is_new:
                    yield self._line(parts, size, quotes)
                    parts, size, quotes = [], 0, 0
                is_new = True
                parts.append(part)
                size += len(part)
                if size > self.most:
                    whole = b"".join(parts)
                    quotes += whole.count(b'"', KEPT)
                    parts = [whole[:KEPT]]
        if size:
            yield self._line(parts, size, quotes)

    def _line(self, parts: list[bytes], size: int, quotes: int) -> bytes:
        if size <= self.most:
            return b"".join(parts)
        cut = CutLine(parts[0])
        cut.size, cut.quotes = size, quotes + cut.count(b'"')
        return cut


# -- names -----------------------------------------------------------------------------------------------------------


def files_of(inputs: Iterable[str | Path]) -> list[str]:
    """Replace each directory by all files below it, in the order of their paths; hidden ones are left out.

    Raises InputError for a directory without files.
    """
    files = list[str]()
    for name in map(str, inputs):
        top = Path(name)
        if name == STDIN or not top.is_dir():
            files.append(name)
            continue
        paths = [path for path in top.rglob("*") if not any(part[0] == "." for part in path.relative_to(top).parts)]
        found = sorted(str(path) for path in paths if path.is_file())
        if not found:
            raise InputError(f"{name} is a directory without files")
        files += found
    return files


def check_inputs(inputs: Sequence[str], missing_hint: str = "") -> None:
    """Raise InputError for an input that cannot be read. `missing_hint` is added for a missing one, {} is its name."""
    if inputs.count(STDIN) > 1:
        raise UsageError("standard input (-) can be read only once")
    for name in inputs:
        if name == STDIN:
            continue
        if not Path(name).exists():
            raise InputError(f"there is no file {name}{missing_hint.format(name)}")
        if Path(name).is_dir():
            raise InputError(f"{name} is a directory; name a file in it")
        if not os.access(name, os.R_OK):
            raise InputError(f"cannot read {name}: permission denied")


# -- packing ---------------------------------------------------------------------------------------------------------

GZIP_BITS = zlib.MAX_WBITS + 16
"""Tells zlib to read and write the head and the checksum of gzip."""
# Bytes that are unpacked at a time. They become 32 MiB at most, since a block of 128 KiB of zstd may take four bytes.
# Larger pieces are not faster.
_PIECE = 2**10
# Skippable frames, as pzstd and seekable zstd write them: 0x184D2A50 to 0x184D2A5F, little-endian.
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
# The first bytes of what cannot be read: what it is, and what to do.
_UNREADABLE = {
    BZIP2: ("packed with bzip2", "unpack it in a pipe: bzip2 -dc FILE | stream-dedup ... -"),
    XZ: ("packed with xz", "unpack it in a pipe: xz -dc FILE | stream-dedup ... -"),
    b"WARC/": (
        "a WARC file",
        "make JSON Lines of it, and set [item] markup = 'page': pip install warcio; python3 -c \"import json, sys; "
        "from warcio import ArchiveIterator as A; [print(json.dumps({'id': h('WARC-Target-URI'), 'url': "
        "h('WARC-Target-URI'), 'published': h('WARC-Date'), 'text': r.content_stream().read().decode('utf-8', "
        "'replace')})) for r in A(open(sys.argv[1], 'rb')) if r.rec_type in ('response', 'conversion') for h in "
        '[r.rec_headers.get_header]]" FILE > OTHER.jsonl',
    ),
    b"From ": (
        "a mailbox (mbox)",
        'make JSON Lines of it: python3 -c "import email, email.policy, json, mailbox, sys; [print(json.dumps({'
        "'id': m['message-id'], 'title': m['subject'], 'source': m['from'].addresses[0].domain, 'published': m['date'],"
        " 'text': m.get_body(('plain', 'html')).get_content()})) for m in mailbox.mbox(sys.argv[1], lambda f: "
        'email.message_from_binary_file(f, policy=email.policy.default))]" FILE > OTHER.jsonl',
    ),
    b"SQLite f": (
        "a database of SQLite",
        'make JSON Lines of a table: python3 -c "import json, sqlite3, sys; d = sqlite3.connect(sys.argv[1]); '
        "d.row_factory = sqlite3.Row; [print(json.dumps(dict(r))) for r in d.execute('SELECT * FROM ' + sys.argv[2])]"
        '" FILE TABLE > OTHER.jsonl',
    ),
    b"ARROW1": (
        "a Feather or Arrow file",
        'make Parquet of it: python3 -c "import sys; from pyarrow import feather, parquet; '
        'parquet.write_table(feather.read_table(sys.argv[1]), sys.argv[2])" FILE OTHER.parquet',
    ),
    b"ORC": (
        "an ORC file",
        'make Parquet of it: python3 -c "import sys; from pyarrow import orc, parquet; '
        'parquet.write_table(orc.read_table(sys.argv[1]), sys.argv[2])" FILE OTHER.parquet',
    ),
    ZIP: ("a zip archive or a spreadsheet", "unpack it (unzip -p FILE | stream-dedup ... -) or save it as CSV (UTF-8)"),
}


class Packing(StrEnum):
    """The kinds of packing that are read and written; the value is the suffix."""

    GZIP = ".gz"
    ZSTD = ".zst"


def packing_of(path: str | Path) -> Packing | None:
    """Return the packing that a name stands for, if any.

    >>> packing_of("a.jsonl.gz"), packing_of("a.jsonl")
    (<Packing.GZIP: '.gz'>, None)
    """
    suffix = Path(path).suffix.lower()
    return Packing(suffix) if suffix in list(Packing) else None


def refuse(path: str, head: bytes) -> None:
    """Raise InputError, which names the cure, if an input begins like one that cannot be read."""
    for magic, (kind, cure) in _UNREADABLE.items():
        if head.startswith(magic):
            raise InputError(f"{path} is {kind}, which cannot be read; {cure}")


def recognise(path: str, head: bytes) -> Packing | None:
    """Return the packing that the first bytes show. Raises InputError if the name differs or it is unknown here."""
    refuse(path, head)
    if head.startswith(GZIP):
        return Packing.GZIP
    if head.startswith(ZSTD) or (head[1:4] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5):
        return Packing.ZSTD
    if (named := packing_of(path)) and head:
        raise InputError(
            f"{path} is not packed as its name says: it does not begin like a {named} file. If it is plain, give it a "
            f"name without {named}; if it was damaged, fetch it again"
        )
    return None


def unpacked(chunks: Iterable[bytes], packing: Packing | None) -> Iterator[bytes]:
    """Yield the unpacked chunks. Raises EOFError for a file cut short, OSError, zlib.error, zstandard.ZstdError."""
    if packing is None:
        yield from chunks
        return
    new, frame = _unpacker(packing), None
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            piece = chunk[start : start + _PIECE]
            # `cat a.zst b.zst` makes several frames; `gzip -d` skips zeros between members, too.
            while piece := piece if frame else piece.lstrip(b"\0"):
                frame = frame or new()
                data = frame.decompress(piece)  # a thousand times as much as the piece, at most
                yield from (data[offset : offset + CHUNK] for offset in range(0, len(data), CHUNK))
                if not frame.eof:
                    break
                piece, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError


def _unpacker(packing: Packing) -> Callable[[], Any]:
    if packing is Packing.GZIP:
        return lambda: zlib.decompressobj(GZIP_BITS)
    # Files of `zstd --long=31` have a window of 2 GiB, which the unpacker fills.
    return zstandard.ZstdDecompressor(max_window_size=min(2**31, available() // 4)).decompressobj


def as_text(path: str) -> str:
    """Return a path as valid text; a file system allows bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
