"""Encode a prepared batch as blocks of fingerprints, without texts, and decode them for the judge.

In: a `Prepared` batch of one partition of the input. Out: blocks, from which `decode_fingerprints` makes a batch that
`Deduplicator.judge` decides in the same way, bit by bit. The content of a block (see frame.py for what surrounds it):

    range of the input, offsets of all n items
    1 byte an item: it is bad; the ids, reasons and details of the bad ones
    of the m others: kinds, whether the headline marks a correction, lengths of the ids, ids
    signatures
    packed bodies, if they are compared exactly: their lengths, then the bodies
    keys; number of passages of each item; hashes of the passages, byte by byte: all lowest bytes first
    word sets, unless only bodies are compared: number of words of each, then the packed sets (packing.py)
    unless bodies are SimHashes, which have no use for shingles:
        sizes and lengths of the passages
        with exact comparison the hashes of the shingles, else what their sketches need (packing.py)

An English news article of 4.2 KB takes 1.4 KB: 360 bytes are the signature, the keys and the id, which the changelog
remembers too; the others serve the comparison alone.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.prepared import Prepared
from stream_dedup.dedup.resolve import EMPTY, TOMBSTONE
from stream_dedup.errors import BadItem, CorruptBlock
from stream_dedup.fingerprint.fingerprint import WORD_SET_BYTES, Fingerprints, Prose
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.split.frame import (
    Content,
    InputRange,
    as_bytes,
    pack_range,
    pack_strings,
    seal,
    unpack_range,
    unpack_strings,
    unpack_texts,
    unseal,
)
from stream_dedup.split.packing import (
    NARROW,
    ItemEnds,
    PackedProse,
    gather_passages,
    gather_shingles,
    pack_shingles,
    pack_words,
    unpack_shingles,
    unpack_words,
)

MAGIC = b"SDF1"
# The word sets of more items than this would take more than 64 MB at the reader.
MAX_ITEMS = 1 << 14
_BYTES = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class FingerprintBlock:
    """A decoded block: the range of the input, the offsets of all its items, bad ones included, and the batch."""

    where: InputRange
    offsets: NDArray[np.int64]
    prepared: Prepared


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams of a whole batch, and where the part of each subject in them ends, (m,) int64 each."""

    words: NDArray[np.uint8]
    word_counts: NDArray[np.uint16]
    word_ends: NDArray[np.int64]
    prose: PackedProse
    hashes: NDArray[np.uint64]  # of the shingles, for exact comparison
    ends: ItemEnds


def encode_fingerprints(
    prepared: Prepared,
    offsets: Sequence[int] | NDArray[np.int64],
    where: InputRange,
    scheme: Scheme,
    limit: int,
) -> list[tuple[InputRange, bytes]]:
    """Encode a batch as blocks of at most about `limit` bytes; one item alone may have more. O(bytes).

    Returns each block with the range that it covers.

    offsets: of the items, ascending within `where`. The ranges of the blocks are contiguous and together are `where`.
    Without an item there is one empty block. Raises ValueError if the offsets do not fit `where` or the items.
    """
    places = np.asarray(offsets, np.int64)
    if len(places) != len(prepared):
        raise ValueError(f"{len(places)} offsets for {len(prepared)} items")
    is_bad = np.zeros(len(prepared), np.bool_)
    if len(prepared.subjects) < len(prepared):
        is_bad[:] = [isinstance(item, BadItem) for item in prepared.items]
    streams = _pack(prepared.prints, scheme)
    ids = [item.id.encode("utf-8", "surrogatepass") for item in prepared.subjects]  # `as_bytes`, in place
    bounds = _bounds(prepared, is_bad, ids, streams, limit)
    subject_bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(~is_bad)])[bounds].tolist()
    firsts = [where.first, *places[bounds[1:-1]].tolist(), where.next]
    ranges = [where._replace(first=first, next=end) for first, end in pairwise(firsts)]
    blocks = (
        seal(
            MAGIC,
            scheme.id,
            [
                [
                    *pack_range(covered, places[start:end]),
                    is_bad[start:end],
                    *(_bad_items(prepared.items[start:end]) if is_bad[start:end].any() else pack_strings([])),
                    prepared.kinds[low:high],
                    prepared.is_correction[low:high],
                    *pack_strings(ids[low:high]),
                ],
                *_content(prepared.prints, streams, low, high, scheme),
            ],
        )
        for covered, (start, end), (low, high) in zip(ranges, pairwise(bounds), pairwise(subject_bounds), strict=True)
    )
    return list(zip(ranges, blocks, strict=True))


def decode_fingerprints(block: bytes, scheme: Scheme) -> FingerprintBlock:
    """Decode one block. O(bytes).

    Raises CorruptBlock for a damaged block, SchemeMismatch for an intact block of another scheme.
    """
    content = unseal(block, MAGIC, scheme.id)
    where, offsets = unpack_range(content, MAX_ITEMS)
    is_bad = content.array(np.bool_, len(offsets)).view(np.uint8)
    if len(is_bad) and is_bad.max() > 1:
        raise CorruptBlock("the block marks an item as neither bad nor good")
    m = len(is_bad) - int(is_bad.sum())
    texts = iter(unpack_texts(content, 3 * (len(is_bad) - m)))
    bad = [BadItem(reason, detail, name) for name, reason, detail in zip(texts, texts, texts, strict=True)]
    kinds = content.array(np.int8, m).copy()
    is_correction = content.array(np.uint8, m)
    if m and (kinds.min() < EMPTY or kinds.max() > TOMBSTONE or is_correction.max() > 1):
        raise CorruptBlock("the block has an item of an unknown kind")
    ids = unpack_texts(content, m)
    signatures = content.array(scheme.signature_dtype, m).copy()
    bodies = unpack_strings(content, m) if scheme.is_exact else []
    keys = content.array(np.uint32, m * scheme.tables).reshape(m, scheme.tables).copy()
    passage_counts = content.array(np.uint32, m)
    passages = int(passage_counts.sum(dtype=np.int64))
    hashes = content.array(np.uint8, 4 * passages).reshape(4, passages).T.copy().view(np.uint32).ravel()
    words = np.zeros((m, WORD_SET_BYTES), np.uint8)
    if not scheme.is_body_only:
        counts = content.array(np.uint16, m)
        if not unpack_words(counts, content.array(np.uint8, *content.fields(_BYTES)), words):
            raise CorruptBlock("the word sets of the block cannot be unpacked")
    prose = _prose(content, passage_counts, hashes, scheme)
    content.end()
    columns = signatures["time"].tolist(), signatures["partition"].tolist(), signatures["offset"].tolist()
    subjects = list(map(Item, ids, repeat(""), repeat(""), repeat(""), *columns))
    prints = Fingerprints(signatures, keys, words, scheme.settings.hamming, bodies, prose)
    items = _items(subjects, kinds, bad, is_bad)
    return FingerprintBlock(where, offsets, Prepared(items, subjects, prints, kinds, is_correction.astype(np.bool_)))


def join_prepared(batches: Sequence[Prepared]) -> Prepared:
    """Join batches of one scheme into one for `Deduplicator.judge`, in order. At least one batch. O(bytes)."""
    if len(batches) == 1:
        return batches[0]
    prints = [batch.prints for batch in batches]
    bases = np.cumsum([0, *(len(each.prose.hashes) for each in prints)])[:-1].tolist()
    firsts = np.concatenate([each.prose.firsts + base for each, base in zip(prints, bases, strict=True)])
    lasts = np.concatenate([each.prose.lasts + base for each, base in zip(prints, bases, strict=True)])
    # NumPy would concatenate structured arrays field by field, which takes 30 times as long.
    signatures = np.empty(len(firsts), prints[0].signatures.dtype)
    np.concatenate([_rows(each.signatures) for each in prints], out=_rows(signatures))
    return Prepared(
        [item for batch in batches for item in batch.items],
        [item for batch in batches for item in batch.subjects],
        Fingerprints(
            signatures,
            np.concatenate([each.keys for each in prints]),
            np.concatenate([each.words for each in prints]),
            prints[0].hamming,
            [body for each in prints for body in each.bodies],
            Prose.joined([each.prose for each in prints], firsts, lasts),
        ),
        np.concatenate([batch.kinds for batch in batches]),
        np.concatenate([batch.is_correction for batch in batches]),
    )


# -- encode ----------------------------------------------------------------------------------------------


def _pack(prints: Fingerprints, scheme: Scheme) -> _Streams:
    """The streams of a batch; see the module's docstring for what each scheme has."""
    prose, m = prints.prose, len(prints.signatures)
    no_bytes, no_counts = np.zeros(0, np.uint8), np.zeros(m, np.uint16)
    ends = ItemEnds(*(np.zeros(m, np.int64) for _ in ItemEnds._fields))
    words = no_bytes, no_counts, np.zeros(m, np.int64)
    if not scheme.is_body_only:
        words = pack_words(prints.words.view(np.uint64))
    ranges = prose.firsts, prose.lasts
    passages = gather_passages(*ranges, prose.starts, prose.stops, prose.hashes, prose.units, ends.passages)
    hashes, sizes, units, fits = passages
    shingles, packed, is_expected = np.zeros(0, np.uint64), (no_bytes, no_bytes, np.zeros(0, np.uint32)), True
    if scheme.is_exact:
        shingles = gather_shingles(*ranges, prose.shingles, prose.starts, prose.stops, ends.shingles)
    elif not scheme.layout:
        *packed, is_expected = pack_shingles(
            *ranges, prose.shingles, prose.starts, prose.stops, hashes, _bin_bits(scheme), ends
        )
    if not (fits and is_expected):
        raise ValueError("the passages of a batch have other sizes, lengths or hashes than those of a fingerprint")
    return _Streams(*words, PackedProse(hashes, sizes, units, *packed), shingles, ends)


def _content(
    prints: Fingerprints, streams: _Streams, low: int, high: int, scheme: Scheme
) -> Iterator[Sequence[bytes | NDArray[Any]]]:
    """The content of a block of the subjects low to high, after its head."""

    def part(stream: NDArray[Any], ends: NDArray[np.int64]) -> NDArray[Any]:
        return stream[_end(ends, low) : _end(ends, high)]

    yield [prints.signatures[low:high]]
    if scheme.is_exact:
        yield pack_strings(prints.bodies[low:high])
    prose, ends = streams.prose, streams.ends
    counts = np.diff(ends.passages, prepend=0)[low:high].astype("<u4")
    hashes = part(prose.hashes, ends.passages).view(np.uint8).reshape(-1, 4).T
    yield [prints.keys[low:high], counts, hashes]
    if not scheme.is_body_only:
        words = part(streams.words, streams.word_ends)
        yield [streams.word_counts[low:high], _BYTES.pack(len(words)), words]
    if scheme.layout:
        return
    lengths = part(prose.units, ends.passages).view(np.uint8).reshape(-1, 2).T
    sizes = part(prose.sizes, ends.passages)
    if scheme.is_exact:
        yield [sizes, lengths, part(streams.hashes, ends.shingles)]
        return
    yield [sizes, lengths]
    tokens = part(prose.tokens, ends.tokens)
    yield [_BYTES.pack(len(tokens)), tokens]
    yield [part(prose.places, ends.shingles), part(prose.far_places, ends.far)]


def _bounds(
    prepared: Prepared, is_bad: NDArray[np.bool_], ids: Sequence[bytes], streams: _Streams, limit: int
) -> list[int]:
    """Where to cut the items into blocks; n + 1 bounds of n blocks."""
    prints, ends = prepared.prints, streams.ends
    sizes = np.full(len(prepared), 16, np.int64)
    if len(ids):
        subjects = np.full(len(ids), 32 + prints.signatures.dtype.itemsize + 4 * prints.keys.shape[1], np.int64)
        subjects += np.fromiter(map(len, ids), np.int64, len(ids))
        if prints.bodies:
            subjects += np.fromiter(map(len, prints.bodies), np.int64, len(ids))
        shingle_bytes = 8 if len(streams.hashes) else 1
        for stream_ends, width in (
            (streams.word_ends, 1), (ends.passages, 7), (ends.tokens, 1), (ends.shingles, shingle_bytes), (ends.far, 4),
        ):  # fmt: skip
            subjects += width * np.diff(stream_ends, prepend=0)
        sizes[~is_bad] += subjects
    for i in np.flatnonzero(is_bad).tolist():
        item = prepared.items[i]
        sizes[i] += 12 + len(as_bytes(item.id + str(item)))
    bounds, size = [0], 0
    for i, more in enumerate(sizes.tolist()):
        if i > bounds[-1] and (size + more > limit or i - bounds[-1] == MAX_ITEMS):
            bounds.append(i)
            size = 0
        size += more
    return [*bounds, len(prepared)]


def _bad_items(items: Sequence[Item | Tombstone | BadItem]) -> list[bytes]:
    texts = [text for item in items if isinstance(item, BadItem) for text in (item.id, item.reason, item.detail)]
    return pack_strings([as_bytes(text) for text in texts])


def _end(ends: NDArray[np.int64], subject: int) -> int:
    """The end of what comes before this subject."""
    return int(ends[subject - 1]) if subject else 0


def _bin_bits(scheme: Scheme) -> int:
    return scheme.settings.body_bins.bit_length() - 1


def _rows(array: NDArray[np.void]) -> NDArray[np.void]:
    """The rows of a structured array as plain bytes."""
    return array.view(f"V{array.dtype.itemsize}")


# -- decode ----------------------------------------------------------------------------------------------


def _items(
    subjects: list[Item], kinds: NDArray[np.int8], bad: Sequence[BadItem], is_bad: NDArray[np.uint8]
) -> Sequence[Item | Tombstone | BadItem]:
    """All items in order."""
    if not bad and not np.any(kinds == TOMBSTONE):
        return subjects
    others, bad_ones = zip(subjects, kinds.tolist(), strict=True), iter(bad)
    items: list[Item | Tombstone | BadItem] = []
    for is_bad_one in is_bad.tolist():
        if is_bad_one:
            items.append(next(bad_ones))
            continue
        item, kind = next(others)
        is_tombstone = kind == TOMBSTONE
        items.append(Tombstone(item.id, item.time, item.partition, item.offset) if is_tombstone else item)
    return items


def _prose(content: Content, counts: NDArray[np.uint32], hashes: NDArray[np.uint32], scheme: Scheme) -> Prose:
    """The prose of the items; counts: passages of each."""
    lasts = np.cumsum(counts, dtype=np.int64)
    firsts, passages = lasts - counts, len(hashes)
    if scheme.layout:
        none = np.zeros(passages, np.int64)
        return Prose(firsts, lasts, np.zeros(0, np.uint64), none, none, hashes, np.zeros(passages, np.float32))
    sizes = content.array(np.uint8, passages)
    lengths = content.array(np.uint8, 2 * passages).reshape(2, passages).T.copy().view(np.uint16).ravel()
    units = lengths.astype(np.float32) / np.float32(2)
    stops = np.cumsum(sizes, dtype=np.int64)
    starts, count = stops - sizes, int(stops[-1]) if passages else 0
    if scheme.is_exact:
        shingles = content.array(np.uint64, count).copy()
        return Prose(firsts, lasts, shingles, starts, stops, hashes, units)
    tokens = content.array(np.uint8, *content.fields(_BYTES))
    places = content.array(np.uint8, count)
    of_item = np.diff(stops[lasts - 1] * (lasts > 0), prepend=0) if passages else np.zeros(len(counts), np.int64)
    far_places = content.array(np.uint32, int(of_item[counts > NARROW].sum()))
    packed = PackedProse(hashes, sizes, lengths, tokens, places, far_places)
    shingles = np.empty(count, np.uint64)
    if not unpack_shingles(counts, packed, _bin_bits(scheme), starts, stops, hashes, shingles):
        raise CorruptBlock("the passages of the block cannot be unpacked")
    return Prose(firsts, lasts, shingles, starts, stops, hashes, units)
