"""Seal and open the blocks that the roles of split mode exchange.

A block is versioned, checksummed and bound to a fingerprint scheme, as a block of the changelog is. Layout,
little-endian: a header of 40 bytes, then one zstd frame.

    0   4  magic: "SDF1" fingerprints, "SDV1" verdicts
    4   4  version of the content's layout
    8   8  scheme id
    16  8  length of the frame's content, bytes
    24  16 xxh3-128 of header[0:24] and of the frame

The content begins with the range of the input that the block covers. A block contains no code (no pickle), and a cut,
changed or foreign block is refused with its cause.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from stream_dedup.changelog.block import block_digest, unpack_frame
from stream_dedup.errors import CorruptBlock, SchemeMismatch

VERSION = 1
_HEADER = struct.Struct("<4sIQQ")
HEADER_BYTES = _HEADER.size + 16
# Level 1 takes 2.5 µs for the fingerprints of an article; level 3 takes twice that and saves nothing.
_LEVEL = 1
# More is refused before anything is allocated. A block has the size of a Kafka record; only one item whose text has
# 50 MB would come near.
MAX_CONTENT = 2**28
CURE = (
    "run all roles with the same [fingerprint] settings; before a change of these settings, let the judge and publish "
    "workers finish what the topics hold, or give the new settings new topics"
)
"""The cure for blocks of another scheme."""
_Scalar = TypeVar("_Scalar", bound=np.generic)


class InputRange(NamedTuple):
    """A range of a partition of the input: the offsets `first` to `next` - 1, in the topic with this name and id.

    `next` also covers control records, so that consecutive blocks are contiguous.
    """

    topic: str
    topic_id: str
    partition: int
    first: int
    next: int


def seal(magic: bytes, scheme_id: int, parts: Sequence[Sequence[bytes | NDArray[Any]]]) -> bytes:
    """Make a block of this content. O(bytes).

    Each part becomes a zstd block of its own, so that the Huffman code fits the statistics of its bytes. Raises
    ValueError for more content than a reader accepts.
    """
    chunks = [b"".join([piece if isinstance(piece, bytes) else piece.tobytes() for piece in part]) for part in parts]
    size = sum(map(len, chunks))
    if size > MAX_CONTENT:
        raise ValueError(f"{size} bytes for one block; at most {MAX_CONTENT} are allowed")
    packer = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=size)
    frame = []
    for chunk in chunks[:-1]:
        frame += [packer.compress(chunk), packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    packed = b"".join([*frame, packer.compress(chunks[-1]), packer.flush()])
    head = _HEADER.pack(magic, VERSION, scheme_id, size)
    return head + block_digest(head, packed) + packed


def unseal(block: bytes, magic: bytes, scheme_id: int) -> "Content":
    """Verify a block and unpack its content. O(bytes).

    Raises CorruptBlock for a damaged block, SchemeMismatch for an intact block of another scheme.
    """
    if len(block) < HEADER_BYTES:
        raise CorruptBlock(f"a block of {len(block)} bytes is shorter than its header of {HEADER_BYTES}")
    head, frame = block[: _HEADER.size], block[HEADER_BYTES:]
    found, version, scheme, size = _HEADER.unpack(head)
    if found != magic:
        raise CorruptBlock(f"not a block of this topic: it starts with {found!r}, not {magic!r}")
    if block[_HEADER.size : HEADER_BYTES] != block_digest(head, frame):
        raise CorruptBlock("the block does not match its checksum: it was changed or cut after it was written")
    if version != VERSION:
        raise CorruptBlock(
            f"the block has layout version {version}; this program reads {VERSION}: run the same version of "
            "stream-dedup in all roles"
        )
    if scheme != scheme_id:
        raise SchemeMismatch(
            f"this block was written under fingerprint scheme {scheme:016x}, the settings make {scheme_id:016x}; {CURE}"
        )
    return Content(unpack_frame(frame, size, MAX_CONTENT))


class Content:
    """Reads the content of a block from front to back; raises CorruptBlock at what lies beyond its end."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        start, self._at = self._at, self._at + size
        if not 0 <= size <= len(self._content) - start:
            raise CorruptBlock(
                f"the block's content has {len(self._content)} bytes; {size} more at {start} are missing"
            )
        return self._content[start : self._at]

    def array(self, dtype: "type[_Scalar] | np.dtype[_Scalar]", count: int) -> NDArray[_Scalar]:
        """The next `count` elements, read-only."""
        kind: np.dtype[_Scalar] = np.dtype(dtype)
        start, self._at = self._at, self._at + count * kind.itemsize
        if not 0 <= count * kind.itemsize <= len(self._content) - start:
            raise CorruptBlock(
                f"the block's content has {len(self._content)} bytes; {count} elements of {kind.itemsize} bytes at "
                f"{start} are missing"
            )
        return np.frombuffer(self._content, kind, count, start)

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The next fields of this layout."""
        return layout.unpack(self.take(layout.size))

    def rest(self) -> bytes:
        """All that remains."""
        return self.take(len(self._content) - self._at)

    def end(self) -> None:
        """Raises CorruptBlock if there is more."""
        if self._at != len(self._content):
            raise CorruptBlock(f"the block's content has {len(self._content)} bytes, of which {self._at} are used")


_COUNT = struct.Struct("<I")
_RANGE = msgspec.msgpack.Decoder(tuple[str, str, int, int, int])


def pack_range(where: InputRange, offsets: NDArray[np.int64]) -> list[bytes]:
    """Encode a range of the input, and the offsets of its items.

    Raises ValueError for offsets that do not ascend within the range.
    """
    if not _ascend(offsets, where):
        raise ValueError(f"the offsets of a block must ascend within {where}")
    text = msgspec.msgpack.encode(tuple(where))
    return [_COUNT.pack(len(text)), text, _COUNT.pack(len(offsets)), np.diff(offsets, prepend=where.first).tobytes()]


def unpack_range(content: Content, most: int) -> tuple[InputRange, NDArray[np.int64]]:
    """Decode what `pack_range` encoded; more than `most` offsets are refused."""
    try:
        where = InputRange(*_RANGE.decode(content.take(*content.fields(_COUNT))))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptBlock(f"the block's range of the input cannot be read: {error}") from None
    if not (0 <= where.first <= where.next < 2**63 and 0 <= where.partition < 2**31):
        raise CorruptBlock(f"the block covers no possible range of the input: {where}")
    (count,) = content.fields(_COUNT)
    if count > most:
        raise CorruptBlock(f"the block claims {count} items; at most {most} are allowed")
    steps = content.array(np.int64, count)
    if count and (steps.min() < 0 or steps.max() > where.next - where.first):
        raise CorruptBlock(f"the offsets of the block lie outside {where}")
    offsets = np.cumsum(steps, dtype=np.int64) + where.first
    if not _ascend(offsets, where):
        raise CorruptBlock(f"the offsets of the block do not ascend within {where}")
    return where, offsets


def _ascend(offsets: NDArray[np.int64], where: InputRange) -> bool:
    if not len(offsets):
        return where.first <= where.next
    return bool(where.first <= offsets[0] and offsets[-1] < where.next and np.all(offsets[1:] > offsets[:-1]))


def pack_strings(strings: Sequence[bytes]) -> list[bytes]:
    """Encode byte strings: their lengths, then the strings."""
    return [np.fromiter(map(len, strings), "<u4", len(strings)).tobytes(), b"".join(strings)]


def unpack_strings(content: Content, count: int) -> list[bytes]:
    """Decode `count` byte strings."""
    ends = np.cumsum(content.array(np.uint32, count), dtype=np.int64).tolist()
    joined = content.take(ends[-1] if ends else 0)
    return [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def unpack_texts(content: Content, count: int) -> list[str]:
    """Decode `count` strings that were encoded by `as_bytes`."""
    ends = np.cumsum(content.array(np.uint32, count), dtype=np.int64).tolist()
    joined = content.take(ends[-1] if ends else 0)
    if joined.isascii():
        text = joined.decode()
        return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [as_text(joined[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def as_bytes(text: str) -> bytes:
    """UTF-8. JSON and Python strings can have a lone surrogate, which is not valid UTF-8, and an id must not change."""
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    """The string that `as_bytes` encoded. Raises CorruptBlock for other bytes."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptBlock(f"a string of the block is not UTF-8: {error.reason}") from None
