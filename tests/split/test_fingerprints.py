"""Blocks of fingerprints carry all that a decision needs: the judge decides as with the items themselves."""

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import xxhash
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dedup.changelog import block as changelog_block
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.prepared import Prepared
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import BadItem, CorruptBlock, SchemeMismatch
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings
from stream_dedup.split import fingerprints
from stream_dedup.split.fingerprints import FingerprintBlock, decode_fingerprints, encode_fingerprints, join_prepared
from stream_dedup.split.frame import HEADER_BYTES, InputRange
from stream_dedup.split.verdicts import MAGIC as VERDICTS_MAGIC
from tests.split.feed import START, feed, long_item

FAMILIES: dict[str, dict[str, Any]] = {
    "minhash": {},
    "few bins": {"body_bins": 64},
    "many bins": {"body_bins": 4096, "shingle_words": 2},
    "exact": {"verify": "exact"},
    "letters": {"shingle_letters": 5},
    "simhash": {"family": "simhash"},
    "simhash, long": {"family": "simhash", "bits": 128, "layout": "6 choose 3", "weights": "uniform"},
    "body": {"family": "simhash", "layout": "4 choose 1", "views": "body"},
    "given": {"family": "given"},
}
LIMIT = 900_000
Items = Sequence[Item | Tombstone | BadItem]


def settings_of(family: str) -> Settings:
    item = {"fingerprint": "phash"} if family == "given" else {}
    return load_settings(fingerprint=FAMILIES[family], item=item)


def where(first: int, next_offset: int, partition: int = 0) -> InputRange:
    return InputRange("news.raw", "465bf025", partition, first, next_offset)


def blocks_of(dedup: Deduplicator, items: Items, first: int = 0, limit: int = LIMIT) -> list[FingerprintBlock]:
    """The items as decoded blocks; a control record follows them."""
    offsets = np.arange(first, first + len(items))
    covered = where(first, first + len(items) + 1)
    blocks = [block for _, block in encode_fingerprints(dedup.prepare(items), offsets, covered, dedup.scheme, limit)]
    return [decode_fingerprints(block, dedup.scheme) for block in blocks]


def assert_judged_alike(first: Deduplicator, second: Deduplicator, prepared: Prepared, decoded: Prepared) -> None:
    """Both batches get the same verdicts and change the index in the same way; apply them."""
    one, other = first.judge(prepared), second.judge(decoded)
    assert one.verdicts == other.verdicts
    assert one.odd.tolist() == other.odd.tolist()
    scheme = first.scheme_id
    assert changelog_block.encode(one.delta, scheme) == changelog_block.encode(other.delta, scheme)
    first.apply(one)
    second.apply(other)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("limit", [LIMIT, 4000])
def test_the_judge_decides_as_with_the_items(family: str, limit: int) -> None:
    items, kinds = feed(1, 200), set[Kind]()
    with Deduplicator(settings_of(family)) as first, Deduplicator(settings_of(family)) as second:
        for start, end in ((0, 1), (1, 90), (90, 91), (91, 200)):
            part = items[start:end]
            prepared = first.prepare(part)
            decoded = [block.prepared for block in blocks_of(first, part, start, limit)]
            assert (len(decoded) > 1) == (limit < LIMIT and end - start > 1)
            kinds.update(verdict.kind for verdict in first.judge(prepared).verdicts)
            assert_judged_alike(first, second, prepared, join_prepared(decoded))
    assert kinds >= {Kind.UNIQUE, Kind.DUPLICATE, Kind.BAD, Kind.TOMBSTONE}


def test_a_correction_is_let_through_and_an_update_named() -> None:
    """The feed has verdicts for which headlines and prose count."""
    with Deduplicator() as dedup:
        verdicts = dedup.judge(feed(1, 200)).verdicts
        prepared = dedup.prepare(feed(1, 200))
    assert any(verdict.kind is Kind.UPDATE for verdict in verdicts)
    assert any(verdict.evidence is not None and verdict.evidence.novelty is not None for verdict in verdicts)
    assert prepared.is_correction.any()


def test_recurring_passages_do_not_count_as_with_the_items() -> None:
    """Which shingles a sketch of the prose has depends on what the judge knows; the block carries enough for each."""
    with Deduplicator() as first, Deduplicator() as second:
        for seed in range(4):
            items = [item for item in feed(seed, 60) if isinstance(item, Item)]
            assert_judged_alike(first, second, first.prepare(items), blocks_of(first, items)[0].prepared)
        known = first.boilerplate.known(first.prepare(feed(0, 60)).prints.prose.hashes, START)
        assert known.any()
        assert not known.all()


def test_decoded_arrays_are_of_the_same_types_to_numba() -> None:
    """A read-only or strided array is another type, for which the judge's kernels would be compiled again."""
    with Deduplicator() as dedup:
        items = feed(1, 30)
        blocks = [block.prepared for block in blocks_of(dedup, items, limit=10_000)]
        assert len(blocks) > 1
        prepared = dedup.prepare(items)
    for decoded in (blocks[0], join_prepared(blocks)):
        pairs = list(zip(prepared.prints.prose, decoded.prints.prose, strict=True))
        for name in ("signatures", "keys", "words"):
            pairs += [(getattr(prepared.prints, name), getattr(decoded.prints, name))]
        pairs += [(prepared.kinds, decoded.kinds), (prepared.is_correction, decoded.is_correction)]
        for one, other in pairs:
            assert one.dtype == other.dtype
            assert one.shape[1:] == other.shape[1:]
            assert other.flags.c_contiguous
            assert other.flags.writeable


@pytest.mark.parametrize("family", ["minhash", "exact", "simhash"])
def test_a_page_of_more_passages_than_a_byte_counts(family: str) -> None:
    items = [long_item("long", 700), long_item("256", 256, 1), long_item("shorter", 300, 2), *feed(3, 5)]
    with Deduplicator(settings_of(family)) as first, Deduplicator(settings_of(family)) as second:
        prepared = first.prepare(items)
        assert np.diff(prepared.prints.prose.lasts, prepend=0)[:3].tolist() == [700, 256, 300]
        assert_judged_alike(first, second, prepared, blocks_of(first, items)[0].prepared)


def test_a_batch_of_several_partitions_is_joined_in_order() -> None:
    with Deduplicator() as first, Deduplicator() as second:
        parts = [feed(partition, 50, partition) for partition in range(3)]
        decoded = [block.prepared for part in parts for block in blocks_of(first, part, limit=30_000)]
        assert len(decoded) > 3
        together = [item for part in parts for item in part]
        assert_judged_alike(first, second, first.prepare(together), join_prepared(decoded))


def test_what_comes_back_of_the_items() -> None:
    items = feed(1, 80)
    with Deduplicator() as dedup:
        [block] = blocks_of(dedup, items, first=1000)
    assert block.where == where(1000, 1081)
    assert block.offsets.tolist() == list(range(1000, 1080))
    assert len(block.prepared) == len(items)
    for item, found in zip(items, block.prepared.items, strict=True):
        assert type(found) is type(item)
        if isinstance(item, BadItem) and isinstance(found, BadItem):
            assert (found.id, found.reason, found.detail) == (item.id, item.reason, item.detail)
        elif isinstance(item, Item) and isinstance(found, Item):
            assert found == Item(item.id, "", "", "", item.time, item.partition, item.offset)
        else:
            assert found == item


@pytest.mark.parametrize("items", [[], [BadItem("json", "no object", "7")], [BadItem("json", "x")] * 3])
def test_a_range_without_an_item_to_judge_is_one_block(items: Items) -> None:
    with Deduplicator() as dedup:
        [block] = blocks_of(dedup, items, first=40)
        assert block.where == where(40, 41 + len(items))
        assert [verdict.kind for verdict in dedup.judge(block.prepared).verdicts] == [Kind.BAD] * len(items)


@pytest.mark.parametrize("family", ["minhash", "exact", "simhash"])
@pytest.mark.parametrize("limit", [1, 3000, 20_000])
def test_blocks_keep_to_the_limit_and_their_ranges_are_contiguous(family: str, limit: int) -> None:
    items = feed(2, 100)
    with Deduplicator(settings_of(family)) as dedup:
        offsets = np.arange(100) * 3 + 7
        blocks = [
            block for _, block in encode_fingerprints(dedup.prepare(items), offsets, where(5, 400), dedup.scheme, limit)
        ]
        decoded = [decode_fingerprints(block, dedup.scheme) for block in blocks]
    for block, found in zip(blocks, decoded, strict=True):
        assert len(block) <= limit + 200 or len(found.offsets) == 1
    assert len(blocks) == 100 if limit == 1 else len(blocks) > 1
    assert [block.where.first for block in decoded] == [5, *(block.where.next for block in decoded[:-1])]
    assert decoded[-1].where.next == 400
    assert np.concatenate([block.offsets for block in decoded]).tolist() == offsets.tolist()


def test_a_block_has_a_bounded_number_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "MAX_ITEMS", 7)
    with Deduplicator() as dedup:
        assert [len(block.offsets) for block in blocks_of(dedup, feed(1, 20))] == [7, 7, 6]
        monkeypatch.setattr(fingerprints, "MAX_ITEMS", 6)
        [(_, block), *_] = encode_fingerprints(dedup.prepare(feed(1, 6)), range(6), where(0, 6), dedup.scheme, LIMIT)
        monkeypatch.setattr(fingerprints, "MAX_ITEMS", 5)
        with pytest.raises(CorruptBlock, match="claims 6 items; at most 5"):
            decode_fingerprints(block, dedup.scheme)


@pytest.mark.parametrize("offsets", [[0, 1], [0, 1, 1], [2, 1, 3], [0, 1, 9], [-1, 1, 2]])
def test_offsets_that_do_not_fit_are_refused(offsets: list[int]) -> None:
    with Deduplicator() as dedup, pytest.raises(ValueError, match="offsets"):
        encode_fingerprints(dedup.prepare(feed(1, 3)), offsets, where(0, 9), dedup.scheme, LIMIT)


# -- damage --------------------------------------------------------------------------------------------


@cache
def sample() -> tuple[Scheme, bytes]:
    with Deduplicator() as dedup:
        [(_, block)] = encode_fingerprints(dedup.prepare(feed(1, 12)), range(12), where(0, 12), dedup.scheme, LIMIT)
        return dedup.scheme, block


def signed(block: bytes, content: bytes) -> bytes:
    """A block with this content and the right checksum."""
    head = block[:16] + struct.pack("<Q", len(content))
    frame = zstandard.ZstdCompressor().compress(content)
    state = xxhash.xxh3_128(head)
    state.update(frame)
    return head + state.digest() + frame


@given(st.data())
def test_any_changed_byte_is_corruption(data: st.DataObject) -> None:
    scheme, block = sample()
    changed = bytearray(block)
    changed[data.draw(st.integers(0, len(block) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBlock):
        decode_fingerprints(bytes(changed), scheme)


def test_every_byte_of_the_header_is_checked() -> None:
    scheme, block = sample()
    for place in range(HEADER_BYTES):
        changed = bytearray(block)
        changed[place] ^= 1
        with pytest.raises(CorruptBlock):
            decode_fingerprints(bytes(changed), scheme)


@given(st.integers(0, len(sample()[1]) - 1))
def test_a_cut_block_is_corruption(size: int) -> None:
    scheme, block = sample()
    with pytest.raises(CorruptBlock):
        decode_fingerprints(block[:size], scheme)


@settings(max_examples=300)
@given(st.data())
def test_a_signed_block_with_changed_content_raises_nothing_else(data: st.DataObject) -> None:
    scheme, block = sample()
    content = bytearray(zstandard.ZstdDecompressor().decompress(block[HEADER_BYTES:]))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from([0, 1, 15, 127, 128, 255]))
    del content[data.draw(st.integers(len(content) // 2, 2 * len(content))) :]
    try:
        found = decode_fingerprints(signed(block, bytes(content)), scheme)
    except CorruptBlock:
        return
    assert len(found.offsets) == len(found.prepared) <= 12


@pytest.mark.parametrize("size", [3, 2**28, 2**28 + 1, 2**63])
def test_a_false_length_of_the_content_is_corruption(size: int) -> None:
    scheme, block = sample()
    head, frame = block[:16] + struct.pack("<Q", size), block[HEADER_BYTES:]
    state = xxhash.xxh3_128(head)
    state.update(frame)
    with pytest.raises(CorruptBlock):
        decode_fingerprints(head + state.digest() + frame, scheme)


def test_a_block_of_another_scheme_is_a_mismatch_that_names_both_and_the_cure() -> None:
    _, block = sample()
    other = Scheme(load_settings(fingerprint={"seed": 9}).fingerprint)
    with pytest.raises(SchemeMismatch, match=rf"{sample()[0].id:016x}.*{other.id:016x}.*same \[fingerprint\]"):
        decode_fingerprints(block, other)


def test_a_block_of_another_version_or_topic_is_refused_with_the_cure() -> None:
    scheme, block = sample()
    content = zstandard.ZstdDecompressor().decompress(block[HEADER_BYTES:])
    later = block[:4] + struct.pack("<I", 2) + block[8:]
    with pytest.raises(CorruptBlock, match="version 2; this program reads 1: run the same version"):
        decode_fingerprints(signed(later, content), scheme)
    with pytest.raises(CorruptBlock, match="starts with b'SDV1', not b'SDF1'"):
        decode_fingerprints(signed(VERDICTS_MAGIC + block[4:], content), scheme)
