"""Encode the `Delta` of a batch (what the index adds and forgets) as a block, the binary format of the changelog.

A block is versioned, checksummed and bound to a fingerprint scheme. Layout, little-endian: a header of 64 bytes, then
one zstd frame.

    0   4  magic "SDB1"
    4   2  version of this layout: 1, 1 more with bodies, 2 more with passages, 4 more with times
    6   2  number of tables T
    8   8  scheme id
    16  4  additions n
    20  4  forgotten m
    24  8  watermark, ms
    32  8  length of the frame's content, bytes
    40  16 xxh3-128 of header[0:40] and of the frame
    56  8  zero

The frame holds, in this order: with times, the watermark's progress (int64), the number of clocks (uint32), the clocks
and the arrivals of the additions; signatures; keys, transposed, so that the keys of a table are adjacent; the lengths
of the ids, and the ids in UTF-8; with bodies, their lengths and the bodies; with passages, the number of each addition
(uint8) and the hashes; forgotten.
A block without bodies, passages and times has the layout of the first version. A block contains no code (no pickle),
and a cut or foreign block is refused with its cause.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import xxhash
import zstandard

from stream_dedup.dedup.batch import ARRIVAL, FORGOTTEN, Delta
from stream_dedup.dedup.clocks import CLOCK
from stream_dedup.errors import CorruptBlock, SchemeMismatch

MAGIC = b"SDB1"
_BODIES, _PASSAGES, _TIMES = 1, 2, 4
PLAIN = 1
"""The first version. The others add 1 for bodies, 2 for passages, 4 for times."""
_VERSIONS = range(PLAIN, PLAIN + _BODIES + _PASSAGES + _TIMES + 1)
_TIMES_HEADER = struct.Struct("<qI")
_HEADER = struct.Struct("<4sHHQIIqQ")
HEADER_BYTES = 64
# Sketches and keys are random bits that no level compresses; level 1 compresses ids and small integers. Measured on
# English news, 30 tables, ids of 45 bytes: 461 bytes per original become 361 at level 1 (1 µs to pack, .3 to unpack),
# 362 at level 3, 363 at 9. Column by column they take the same, byte by byte more. Sorted keys, delta coded, would take
# 23.5 bits each, and 10 more for their rows.
_LEVEL = 1
# A larger block is refused before anything is allocated; no batch comes near.
_MAX_CONTENT = 2**31


def encode(delta: Delta, scheme_id: int) -> bytes:
    """Encode one block. O(bytes)."""
    # JSON and Python strings can have a lone surrogate, which is not valid UTF-8, and an id must not change.
    ids = [name.encode("utf-8", "surrogatepass") for name in delta.ids]
    has_times = bool(len(delta.arrivals) or len(delta.clocks))
    times = [_TIMES_HEADER.pack(delta.elapsed, len(delta.clocks)), delta.clocks.tobytes(), delta.arrivals.tobytes()]
    content = b"".join(
        [
            *(times if has_times else []),
            delta.signatures.tobytes(),
            np.ascontiguousarray(delta.keys.T).tobytes(),
            np.array([len(name) for name in ids], "<u4").tobytes(),
            *ids,
            *([np.array([len(body) for body in delta.bodies], "<u4").tobytes(), *delta.bodies] if delta.bodies else []),
            delta.passage_counts.tobytes(),
            delta.passages.astype("<u4").tobytes(),
            delta.forgotten.tobytes(),
        ]
    )
    head = _HEADER.pack(
        MAGIC,
        PLAIN + _BODIES * bool(delta.bodies) + _PASSAGES * bool(len(delta.passage_counts)) + _TIMES * has_times,
        delta.keys.shape[1],
        scheme_id,
        len(ids),
        len(delta.forgotten),
        delta.watermark,
        len(content),
    )
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    return head + block_digest(head, frame) + bytes(8) + frame


class Head(NamedTuple):
    """The header of an intact block; `tables` is T, `watermark` in ms, `content_bytes` before compression."""

    version: int
    tables: int
    scheme: int
    additions: int
    forgotten: int
    watermark: int
    content_bytes: int


def read_head(block: bytes) -> Head:
    """Verify a block's checksum and return its header; the content is not unpacked. O(bytes).

    Raises CorruptBlock for a damaged block.
    """
    if len(block) < HEADER_BYTES:
        raise CorruptBlock(f"a block of {len(block)} bytes is shorter than its header of {HEADER_BYTES}")
    head, frame = block[: _HEADER.size], block[HEADER_BYTES:]
    magic, version, *rest = _HEADER.unpack(head)
    if magic != MAGIC:
        raise CorruptBlock(f"not a changelog block: it starts with {magic!r}, not {MAGIC!r}")
    if block[_HEADER.size : HEADER_BYTES] != block_digest(head, frame) + bytes(8):
        raise CorruptBlock("the block does not match its checksum: it was changed or cut after it was written")
    if version not in _VERSIONS:
        raise CorruptBlock(f"the block has layout version {version}; this program reads {PLAIN} to {_VERSIONS[-1]}")
    return Head(version, *rest)


TOPIC_CURE = "set a new [topics] changelog and fill it with `stream-dedup migrate`"
"""The cure for a changelog topic of another scheme."""


def decode(block: bytes, scheme_id: int, signature_dtype: np.dtype[np.void], cure: str = TOPIC_CURE) -> Delta:
    """Decode one block. `cure`: what a user can do, other than restore the settings under which it was written.

    Raises CorruptBlock for a damaged block, SchemeMismatch for an intact block of another scheme, whose fingerprints
    cannot be compared with ours.
    """
    version, tables, scheme, n, m, watermark, size = read_head(block)
    if scheme != scheme_id:
        raise SchemeMismatch(
            f"this was written under fingerprint scheme {scheme:016x}, the settings make {scheme_id:016x}; restore the "
            f"former [fingerprint] settings, or {cure}"
        )
    content = unpack_frame(block[HEADER_BYTES:], size, _MAX_CONTENT)
    has_bodies, has_passages, has_times = (bool((version - PLAIN) & flag) for flag in (_BODIES, _PASSAGES, _TIMES))
    row_bytes = signature_dtype.itemsize + 4 * tables + 4 * (1 + has_bodies) + has_passages
    before = n * ARRIVAL.itemsize + _TIMES_HEADER.size if has_times else 0
    elapsed, clocks = _TIMES_HEADER.unpack_from(content) if has_times and len(content) >= before else (0, 0)
    before += clocks * CLOCK.itemsize
    fixed = before + n * row_bytes + m * FORGOTTEN.itemsize
    if len(content) != size or size < fixed:
        raise CorruptBlock(f"the block's content has {len(content)} bytes, its header says {size}, at least {fixed}")
    clock_rows = np.frombuffer(content, CLOCK, clocks, _TIMES_HEADER.size * has_times)
    arrivals = np.frombuffer(content, ARRIVAL, n * has_times, before - n * ARRIVAL.itemsize * has_times)
    at = before + n * signature_dtype.itemsize
    signatures = np.frombuffer(content, signature_dtype, n, before)
    keys = np.frombuffer(content, "<u4", n * tables, at).reshape(tables, n).T  # as the index sorts them: by table
    at += 4 * n * tables
    end = size - m * FORGOTTEN.itemsize
    ids, at = _strings(content, at, end, n)
    bodies, at = _strings(content, at, end, n) if has_bodies else ([], at)
    counts = np.frombuffer(content, np.uint8, min(n, end - at) if has_passages else 0, at)
    passages = np.frombuffer(content, "<u4", (end - at - len(counts)) // 4, at + len(counts))
    if at + len(counts) + 4 * counts.sum(dtype=np.int64) != end or len(counts) != n * has_passages:
        raise CorruptBlock("the lengths of the block's ids do not add up")
    forgotten = np.frombuffer(content, FORGOTTEN, m, end)
    try:
        names = [name.decode("utf-8", "surrogatepass") for name in ids]
    except UnicodeDecodeError as error:
        raise CorruptBlock(f"an id of the block is not UTF-8: {error.reason}") from None
    return Delta(signatures, keys, names, forgotten, watermark, bodies, passages, counts, arrivals, clock_rows, elapsed)


def unpack_frame(frame: bytes, size: int, most: int) -> bytes:
    """Unpack a zstd frame with `size` bytes of content. Raises CorruptBlock for any other frame, and above `most`."""
    if size > most:
        raise CorruptBlock(f"the block claims {size} bytes of content")
    try:
        # The frame may claim a size of its own, which the limit of `decompress` does not bind.
        if zstandard.frame_content_size(frame) != size:
            raise CorruptBlock(f"the block's frame claims another length than its header, {size} bytes")
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
    except zstandard.ZstdError as error:
        raise CorruptBlock(f"the block's content cannot be unpacked: {error}") from None


def block_digest(head: bytes, frame: bytes) -> bytes:
    """Checksum of a block: xxh3-128 of its header, before the checksum, and of its frame."""
    state = xxhash.xxh3_128(head)
    state.update(frame)
    return state.digest()


def _strings(content: bytes, at: int, end: int, n: int) -> tuple[list[bytes], int]:
    """Read n lengths and the n strings after them; returns the strings and the offset of their end."""
    if at + 4 * n > end:
        raise CorruptBlock("the lengths of the block's strings lie outside it")
    ends = at + 4 * n + np.cumsum(np.frombuffer(content, "<u4", n, at), dtype=np.int64)
    starts = [at + 4 * n, *ends.tolist()]
    if starts[-1] > end:
        raise CorruptBlock("the lengths of the block's strings do not add up")
    return [content[start:stop] for start, stop in pairwise(starts)], starts[-1]
