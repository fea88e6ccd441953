"""Packed prose has the sketches of the true hashes, whichever passages are left out; packed word sets are the same."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import WORD_SET_BYTES, Prose
from stream_dedup.fingerprint.minhash import sketch
from stream_dedup.split.packing import (
    NARROW,
    WORDS,
    ItemEnds,
    PackedProse,
    gather_passages,
    pack_shingles,
    pack_words,
    unpack_shingles,
    unpack_words,
)

# Few values of each part of a hash, so that bins, nibbles and whole hashes coincide.
hashes = st.builds(
    lambda place, rank, low: (place << 52 | rank << 20 | low << 1 | 1) & (2**64 - 1),
    st.integers(0, 3) | st.integers(0, 4095),
    st.integers(0, 2) | st.integers(0, 2**32 - 1),
    st.integers(0, 2) | st.integers(0, 2**19 - 2),  # a sketch takes 2^64 - 1 for an empty bin
)
texts = st.lists(st.lists(st.lists(hashes, min_size=1, max_size=6), max_size=6), max_size=4)


def prose_of(items: list[list[list[int]]]) -> Prose:
    """Items as passages as hashes; the items are stored in reverse order, as the fingerprinter may do."""
    shingles, starts, stops, units, firsts, lasts = (
        [7],
        list[int](),
        list[int](),
        list[float](),
        list[int](),
        list[int](),
    )
    for passages in reversed(items):
        firsts.append(len(starts))
        for passage in passages:
            starts.append(len(shingles))
            shingles += passage
            stops.append(len(shingles))
            units.append(len(passage) + len(starts) % 2 / 2)
        lasts.append(len(starts))
    own = [min(shingles[a:b]) >> 32 | 1 for a, b in zip(starts, stops, strict=True)]
    return Prose(
        np.array(firsts[::-1], np.int64), np.array(lasts[::-1], np.int64), np.array(shingles, np.uint64),
        np.array(starts, np.int64), np.array(stops, np.int64), np.array(own, np.uint32), np.array(units, np.float32),
    )  # fmt: skip


def packed(prose: Prose, bits: int) -> tuple[NDArray[np.uint32], PackedProse]:
    """The number of passages of each item, and the streams."""
    ends = ItemEnds(*(np.zeros(len(prose.firsts), np.int64) for _ in ItemEnds._fields))
    ranges = prose.firsts, prose.lasts
    own, sizes, units, fits = gather_passages(*ranges, prose.starts, prose.stops, prose.hashes, prose.units, ends[0])
    tokens, places, far, is_expected = pack_shingles(
        *ranges, prose.shingles, prose.starts, prose.stops, own, bits, ends
    )
    assert fits
    assert is_expected
    assert ends.tokens[-1:].tolist() == [len(tokens)][: len(prose.firsts)]
    return (prose.lasts - prose.firsts).astype(np.uint32), PackedProse(own, sizes, units, tokens, places, far)


def unpacked(counts: NDArray[np.uint32], streams: PackedProse, bits: int) -> tuple[bool, list[list[list[int]]]]:
    starts, stops = np.empty(len(streams.sizes), np.int64), np.empty(len(streams.sizes), np.int64)
    shingles = np.full(int(streams.sizes.sum(dtype=np.int64)), 0, np.uint64)
    if not unpack_shingles(counts, streams, bits, starts, stops, streams.hashes, shingles):
        return False, []
    passages = iter([shingles[a:b].tolist() for a, b in zip(starts, stops, strict=True)])
    return True, [[next(passages) for _ in range(count)] for count in counts.tolist()]


def sketch_of(passages: list[list[int]], bits: int) -> tuple[int, bytes]:
    """What a decision needs of the prose: the number of distinct shingles, and the sketch."""
    members = np.array(sorted({h for passage in passages for h in passage}), np.uint64)
    out = np.zeros(2**bits // 2, np.uint8)
    sketch(members, len(members), np.empty(2**bits, np.uint64), out)
    return len(members), out.tobytes()


@given(texts, st.sampled_from([6, 8, 12]), st.data())
@example([[[1]]], 8, None)
@example([[[2**64 - 3] * 3, [2**64 - 3]], [], [[5]]], 6, None)
def test_the_sketch_of_any_passages_is_that_of_the_true_hashes(
    items: list[list[list[int]]], bits: int, data: st.DataObject | None
) -> None:
    counts, streams = packed(prose_of(items), bits)
    is_intact, found = unpacked(counts, streams, bits)
    assert is_intact
    for true, new in zip(items, found, strict=True):
        assert [len(passage) for passage in new] == [len(passage) for passage in true]
        every = list(range(len(true)))
        chosen = data.draw(st.sets(st.sampled_from(every))) if data and true else every
        assert sketch_of([new[p] for p in chosen], bits) == sketch_of([true[p] for p in chosen], bits)
    own = [min(passage) >> 32 | 1 for item in items for passage in item]
    assert streams.hashes.tolist() == own


@pytest.mark.parametrize("passages", [NARROW - 1, NARROW, NARROW + 1, 2000])
def test_numbers_of_passages_beyond_a_byte(passages: int) -> None:
    random = np.random.default_rng(passages)
    item = [[int(h) | 1 for h in random.integers(0, 2**63, 2)] for _ in range(passages)]
    counts, streams = packed(prose_of([item, [[1]]]), 8)
    assert len(streams.far_places) == (2 * passages if passages > NARROW else 0)
    is_intact, found = unpacked(counts, streams, 8)
    assert is_intact
    for chosen in (slice(None), slice(0, None, 3), slice(NARROW - 2, NARROW + 2)):
        assert sketch_of(found[0][chosen], 8) == sketch_of(item[chosen], 8)


@given(texts.filter(any), st.sampled_from([6, 8, 12]), st.data())
def test_damaged_prose_is_noticed_or_stays_within_its_bounds(
    items: list[list[list[int]]], bits: int, data: st.DataObject
) -> None:
    counts, streams = packed(prose_of(items), bits)
    changed = streams._replace(**{name: getattr(streams, name).copy() for name in ("tokens", "places", "hashes")})
    for stream in data.draw(st.lists(st.sampled_from([changed.tokens, changed.places]), min_size=1, max_size=5)):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(changed.tokens)))
    is_intact, found = unpacked(counts, changed._replace(tokens=changed.tokens[:cut]), bits)
    if is_intact:
        assert all(h % 2 for item in found for passage in item for h in passage)


@given(st.lists(st.sets(st.integers(0, WORDS - 1)) | st.sampled_from([set(range(WORDS)), {WORDS - 1}]), max_size=5))
def test_word_sets_come_back(sets: list[set[int]]) -> None:
    is_member = np.zeros((len(sets), WORDS), np.bool_)
    for row, members in zip(is_member, sets, strict=True):
        row[list(members)] = True
    bits = np.packbits(is_member, axis=1, bitorder="little")
    data, counts, ends = pack_words(bits.view(np.uint64))
    assert ends[-1:].tolist() == [len(data)][: len(sets)]
    found = np.zeros_like(bits)
    assert unpack_words(counts, data, found)
    assert found.tobytes() == bits.tobytes()


@given(st.lists(st.integers(0, 2**16 - 1), max_size=3), st.binary(max_size=300))
def test_damaged_word_sets_are_noticed_or_stay_within_their_bounds(counts: list[int], data: bytes) -> None:
    bits = np.zeros((len(counts), WORD_SET_BYTES), np.uint8)
    if unpack_words(np.array(counts, np.uint16), np.frombuffer(data, np.uint8), bits):
        assert np.bitwise_count(bits).sum() == sum(counts)
