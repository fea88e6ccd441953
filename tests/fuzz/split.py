"""Targets for the blocks that the roles of split mode exchange, and for the headers beside them."""

import struct
from functools import cache
from types import SimpleNamespace

import xxhash
import zstandard

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem, CorruptBlock, SchemeMismatch
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from stream_dedup.split.fingerprints import decode_fingerprints, encode_fingerprints
from stream_dedup.split.frame import HEADER_BYTES, InputRange
from stream_dedup.split.verdicts import decode_verdicts, encode_verdicts
from stream_dedup.stream.roles.sizes import sizes_of
from tests.fuzz.records import NOW
from tests.fuzz.target import Target


@cache
def _split_blocks() -> tuple[bytes, bytes]:
    """A block of fingerprints and one of verdicts."""
    text = "The bridge over the Elm opened after two years of work. The mayor and two thousand people were there. " * 3
    items = [
        Item("id 1", "Bridge opens", text, "a.example", NOW), Tombstone("id 1", NOW), BadItem("json", "x", "id 2"),
        Item("id 3", "Bridge opens again", text, "b.example", NOW), Item("id 3", "Bridge opens again", text, "b", NOW),
    ]  # fmt: skip
    where = InputRange("news.raw", "465bf025", 0, 7, 99)
    with Deduplicator(load_settings()) as dedup:
        prepared = dedup.prepare(items)
        [(_, prints)] = encode_fingerprints(prepared, range(7, 12), where, dedup.scheme, 2**20)
        return prints, encode_verdicts(dedup.judge(prepared).verdicts, range(7, 12), where, dedup.scheme_id)


def _plain_split_block(kind: int) -> bytes:
    """The unpacked content of a block of split mode."""
    return zstandard.ZstdDecompressor().decompress(_split_blocks()[kind][HEADER_BYTES:])


def _signed_split_block(kind: int, content: bytes) -> bytes:
    """A block with this content, and the right length and checksum."""
    head = _split_blocks()[kind][:16] + struct.pack("<Q", len(content))
    frame = zstandard.ZstdCompressor(level=1).compress(content)
    state = xxhash.xxh3_128(head)
    state.update(frame)
    return head + state.digest() + frame


@cache
def _scheme() -> Scheme:
    return Scheme(load_settings().fingerprint)


def _fingerprints(data: bytes) -> None:
    block = decode_fingerprints(data, _scheme())
    prints = block.prepared.prints
    assert len(block.offsets) == len(block.prepared) >= len(prints.keys) == len(block.prepared.subjects)
    assert (prints.prose.stops <= len(prints.prose.shingles)).all()


def _verdicts(data: bytes) -> None:
    block = decode_verdicts(data, _scheme().id)
    assert len(block.offsets) == len(block.verdicts)


def _sizes(data: bytes) -> None:
    half = len(data) // 2
    items, size = sizes_of(SimpleNamespace(headers=[("items", data[:half]), ("bytes", data[half:])], value=data))
    assert items >= 0 <= size


def split_targets() -> list[Target]:
    """Everything that a role reads of another one."""
    return [
        Target("fingerprints", [_split_blocks()[0]], [b"SDF1"], _fingerprints, (CorruptBlock, SchemeMismatch)),
        Target("fingerprints, signed", [_plain_split_block(0)], [b"\xed\xa0\x80", b"\xff" * 4, b"\x0f", b"\0" * 8],
               lambda data: _fingerprints(_signed_split_block(0, data)), (CorruptBlock,)),
        Target("verdict block", [_split_blocks()[1]], [b"SDV1"], _verdicts, (CorruptBlock, SchemeMismatch)),
        Target("verdict block, signed", [_plain_split_block(1)],
               [b"\xed\xa0\x80", b"\xdd\xff\xff\xff\xff", b"\xc4", b"\xc0"],
               lambda data: _verdicts(_signed_split_block(1, data)), (CorruptBlock,)),
        Target("sizes", [b"3001200000"], [b"9" * 5000, "²".encode()], _sizes, (), 0.1),
    ]  # fmt: skip
