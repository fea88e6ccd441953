"""Encode the `Delta` of a batch (what the index adds and forgets) as a block, the binary format of the changelog.

Deltas can also be merged into one, and split into parts that fit a record. A block is versioned, checksummed and bound
to a fingerprint scheme. Layout, little-endian: a header of 64 bytes, then one zstd frame.

    0   4  magic "SDB2"
    4   2  zero
    6   2  number of tables T
    8   8  scheme id
    16  4  additions n
    20  4  forgotten m
    24  8  watermark, ms
    32  8  elapsed, ms
    40  8  length of the frame's content, bytes
    48  16 xxh3-128 of header[0:48] and of the frame

The frame holds a `_Content` as MessagePack. A block contains no code (no pickle), and a cut or foreign block is refused
with its cause.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray

from stream_dedup.changelog import ENTRY_BYTES
from stream_dedup.dedup.batch import ARRIVAL, DELETED, Delta, stories_of
from stream_dedup.dedup.clocks import CLOCK, newest_clocks
from stream_dedup.errors import CorruptBlock, SchemeMismatch

MAGIC = b"SDB2"
_HEADER = struct.Struct("<4sHHQIIqqQ")
HEADER_BYTES = _HEADER.size + 16
# Sketches and keys are random bits that no level compresses; level 1 compresses ids and small integers. Measured on
# English news with 30 tables and ids of 45 bytes: 461 bytes per original become 361 at level 1 (1 µs to pack, .3 to
# unpack), 362 at level 3, 363 at 9. They take the same column by column, and more byte by byte. Sorted keys, delta
# coded, would take 23.5 bits each, and 10 more for their rows.
_LEVEL = 1
# A larger block is refused before anything is allocated; no batch comes near.
_MAX_CONTENT = 2**31
TOPIC_CURE = "set a new [topics] changelog and fill it with `stream-dedup migrate`"
"""The cure for a changelog topic of another scheme."""


class _Content(msgspec.Struct, array_like=True):
    """The content of a frame: the arrays and lists of a `Delta`, which says what may be empty."""

    signatures: memoryview
    keys: memoryview  # transposed, so that the keys of a table are adjacent
    ids: list[bytes]  # UTF-8
    bodies: list[bytes]
    passages: memoryview
    passage_counts: memoryview
    arrivals: memoryview
    clocks: memoryview
    forgotten: memoryview
    stories: list[bytes] = []  # earlier releases do not write them, and skip them


_ARRAYS: dict[str, Any] = {
    "passages": "<u4", "passage_counts": np.uint8, "arrivals": ARRIVAL, "clocks": CLOCK, "forgotten": DELETED
}  # fmt: skip
"""The arrays of a delta whose types do not depend on the scheme."""


class Head(NamedTuple):
    """The header of an intact block."""

    tables: int  # T
    scheme: int
    additions: int
    forgotten: int
    watermark: int  # ms
    elapsed: int  # ms
    content_bytes: int  # before compression


def encode(delta: Delta, scheme_id: int) -> bytes:
    """Encode one block. O(bytes)."""
    arrays = {name: _bytes_of(getattr(delta, name)) for name in ("signatures", *_ARRAYS)}
    arrays["keys"], ids, stories = _bytes_of(delta.keys.T), _encoded(delta.ids), _encoded(delta.stories)
    content = msgspec.msgpack.encode(_Content(**arrays, ids=ids, bodies=delta.bodies, stories=stories))
    tables = delta.keys.shape[1]
    head = Head(tables, scheme_id, len(delta), len(delta.forgotten), delta.watermark, delta.elapsed, len(content))
    packed = _HEADER.pack(MAGIC, 0, *head)
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    return packed + block_digest(packed, frame) + frame


def read_head(block: bytes) -> Head:
    """Verify a block's checksum and return its header; the content is not unpacked. O(bytes).

    Raises CorruptBlock for a damaged block.
    """
    if len(block) < HEADER_BYTES:
        raise CorruptBlock(f"a block of {len(block)} bytes is shorter than its header of {HEADER_BYTES}")
    head, frame = block[: _HEADER.size], block[HEADER_BYTES:]
    magic, _, *fields = _HEADER.unpack(head)
    if magic != MAGIC:
        raise CorruptBlock(f"not a changelog block: it starts with {magic!r}, not {MAGIC!r}")
    if block[_HEADER.size : HEADER_BYTES] != block_digest(head, frame):
        raise CorruptBlock("the block does not match its checksum: it was changed or cut after it was written")
    return Head(*fields)


def decode(block: bytes, scheme_id: int, signature_dtype: np.dtype[np.void], cure: str = TOPIC_CURE) -> Delta:
    """Decode one block. `cure`: what a user can do, other than restore the settings under which it was written.

    Raises CorruptBlock for a damaged block, SchemeMismatch for an intact block of another scheme, whose fingerprints
    cannot be compared with ours.
    """
    head = read_head(block)
    if head.scheme != scheme_id:
        raise SchemeMismatch(
            f"this was written under fingerprint scheme {head.scheme:016x}, the settings make {scheme_id:016x}; "
            f"restore the former [fingerprint] settings, or {cure}"
        )
    n = head.additions
    try:
        content = msgspec.msgpack.decode(
            unpack_frame(block[HEADER_BYTES:], head.content_bytes, _MAX_CONTENT), type=_Content
        )
        types: dict[str, Any] = {"signatures": signature_dtype, "keys": "<u4", **_ARRAYS}
        columns: dict[str, Any] = {name: np.frombuffer(getattr(content, name), dtype) for name, dtype in types.items()}
        columns["keys"] = columns["keys"].reshape(head.tables, n).T  # as the index sorts them: by table
        columns |= {"ids": _decoded(content.ids), "bodies": content.bodies, "stories": _decoded(content.stories)}
        delta = Delta(**columns, watermark=head.watermark, elapsed=head.elapsed)
    except (msgspec.MsgspecError, ValueError) as error:  # bytes that do not fit the type of their array, or no UTF-8
        raise CorruptBlock(f"the block's content cannot be read: {error}") from None
    is_complete = len(delta.signatures) == len(delta.ids) == n and len(delta.forgotten) == head.forgotten
    if not is_complete or any(len(getattr(delta, name)) not in (0, n) for name in _ROW_COLUMNS):
        raise CorruptBlock(f"the lengths of the block's columns do not add up to its {n} rows")
    if delta.passage_counts.sum(dtype=np.int64) != len(delta.passages):
        raise CorruptBlock("the lengths of the block's passages do not add up")
    return delta


def unpack_frame(frame: bytes, size: int, most: int) -> bytes:
    """Unpack a zstd frame with `size` bytes of content. Raises CorruptBlock for any other frame, and above `most`."""
    if size > most:
        raise CorruptBlock(f"the block claims {size} bytes of content")
    try:
        # The frame may claim another size, which the limit of `decompress` does not bind.
        if zstandard.frame_content_size(frame) != size:
            raise CorruptBlock(f"the block's frame claims another length than its header, {size} bytes")
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
    except zstandard.ZstdError as error:
        raise CorruptBlock(f"the block's content cannot be unpacked: {error}") from None


def block_digest(head: bytes, frame: bytes) -> bytes:
    """Return the checksum of a block: xxh3-128 of its header, before the checksum, and of its frame."""
    state = xxhash.xxh3_128(head)
    state.update(frame)
    return state.digest()


def _encoded(ids: Sequence[str]) -> list[bytes]:
    # JSON and Python strings may have a lone surrogate, which is not valid UTF-8, and an id must not change.
    return [name.encode("utf-8", "surrogatepass") for name in ids]


def _decoded(ids: Sequence[bytes]) -> list[str]:
    return [name.decode("utf-8", "surrogatepass") for name in ids]


def _bytes_of(array: NDArray[np.generic]) -> memoryview:
    return memoryview(np.ascontiguousarray(array).tobytes())


_ROW_COLUMNS = "signatures", "keys", "ids", "bodies", "passage_counts", "arrivals", "stories"
"""The parts of a delta that have an entry per row, unless they are empty."""


def merge_deltas(deltas: Sequence[Delta]) -> Delta:
    """Merge one or more deltas into one that changes the index like all of them in their order. O(bytes)."""
    forgotten, rows = [np.zeros(0, DELETED)], 0
    for delta in deltas:
        forgotten.append(_moved(delta.forgotten, rows))
        rows += len(delta)
    are_counted = any(len(delta.passage_counts) for delta in deltas)
    counts = [delta.passage_counts if len(delta.passage_counts) else np.zeros(len(delta), np.uint8) for delta in deltas]
    return Delta(
        # NumPy would concatenate structured arrays field by field, which takes 30 times as long as bytes.
        signatures=np.frombuffer(
            b"".join([delta.signatures.tobytes() for delta in deltas]), deltas[0].signatures.dtype
        ),
        keys=np.concatenate([delta.keys for delta in deltas]),
        ids=[name for delta in deltas for name in delta.ids],
        forgotten=np.concatenate(forgotten),
        watermark=max(delta.watermark for delta in deltas),
        bodies=[body for delta in deltas for body in delta.bodies],
        passages=np.concatenate([delta.passages for delta in deltas]),
        passage_counts=np.concatenate(counts if are_counted else [np.zeros(0, np.uint8)]),
        arrivals=np.concatenate([delta.arrivals for delta in deltas]),
        clocks=newest_clocks([delta.clocks for delta in deltas]),
        elapsed=deltas[-1].elapsed,
        stories=stories_of(name for delta in deltas for name in delta.names()),
    )


def split_delta(delta: Delta, limit: int = ENTRY_BYTES) -> Iterator[Delta]:
    """Split the delta into one or more parts of at most about `limit` bytes.

    The parts must be written in one transaction, since only all of them together are the delta.
    """
    bounds = _bounds(delta, limit)
    passages = np.zeros(len(delta) + 1, np.int64)  # the begins of each row's passages
    if len(delta.passage_counts):
        np.cumsum(delta.passage_counts, out=passages[1:])
    for start, end in pairwise(bounds):
        before = delta.forgotten["before"]
        in_part = (before >= start) & ((before < end) | (end == bounds[-1]))
        forgotten = _moved(delta.forgotten[in_part], -start)
        rows = {name: getattr(delta, name)[start:end] for name in _ROW_COLUMNS}
        yield replace(delta, forgotten=forgotten, passages=delta.passages[passages[start] : passages[end]], **rows)


def size_of(delta: Delta) -> int:
    """Return the bytes of a delta's block before compression. O(rows)."""
    return int(_row_bytes(delta).sum()) + _other_bytes(delta)


def _moved(forgotten: NDArray[np.void], rows: int) -> NDArray[np.void]:
    """Return the ids to forget with the positions that they have `rows` rows later."""
    moved = forgotten.astype(DELETED)
    moved["before"] = moved["before"].astype(np.int64) + rows
    return moved


def _bounds(delta: Delta, limit: int) -> list[int]:
    capacity = limit - _other_bytes(delta)
    bounds, size = [0], 0
    for i, row in enumerate(_row_bytes(delta).tolist()):
        if size + row > capacity and size:
            bounds.append(i)
            size = 0
        size += row
    return [*bounds, len(delta)]


def _other_bytes(delta: Delta) -> int:
    """Return the bytes of forgotten ids and clocks."""
    return len(delta.forgotten) * DELETED.itemsize + delta.clocks.nbytes


def _row_bytes(delta: Delta) -> NDArray[np.int64]:
    """Return the bytes of each row."""
    fixed = delta.signatures.dtype.itemsize + 4 * delta.keys.shape[1] + delta.arrivals.itemsize
    sizes = np.full(len(delta), fixed, np.int64)
    # A string is preceded by its length.
    for strings, head in ((_encoded(delta.ids), 4), (_encoded(delta.stories), 1), (delta.bodies, 4)):
        if strings:
            sizes += np.fromiter((head + len(string) for string in strings), np.int64, len(delta))
    if len(delta.passage_counts):
        sizes += 1 + 4 * delta.passage_counts.astype(np.int64)
    return sizes
