"""SimHash: 64 or 128 bits of a text; the Hamming distance of two estimates the angle between the texts. Also their idf
weights and index keys.

Each feature of a text (a shingle or a token) votes on each bit with its weight, for or against, according to that bit
of its hash; the majority decides. If the feature vectors of two texts form the angle a, each bit differs with
probability a / pi.

Weights are integers, so that votes have the same sum on every machine: 1 for each distinct feature (uniform), the
number of its occurrences (tf), or occurrences times rarity (idf).

Sources: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002; Manku, Jain, Das Sarma,
"Detecting Near-Duplicates for Web Crawling", WWW 2007 (features, weights, 64 bits and k = 3).

The table of idf weights counts the features of a corpus. It is frozen, so that all SimHashes are comparable: a table
that kept learning would change the fingerprints of unchanged texts. Its digest is part of the scheme id; another table
is another scheme. `stream-dedup weights build` writes the file. The weight of a feature is 256 · ln(documents /
documents with the feature), rounded, at least 1; a feature that is not in the table counts as seen in one document.
1/256 is finer than the precision of any corpus.

File format, little-endian: magic "SDW1", version u2, 2 zero bytes, id of the features u8, documents u8, entries u8,
xxh3-128 of all other bytes; then the hashes (entries · u8, ascending) and the weights (entries · u2).
Source: Spärck Jones, "A statistical interpretation of term specificity and its application in retrieval", 1972.
"""

import re
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, pairwise
from math import comb
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.settings.judging import MOST_BANDS

VERSION = 1
"""Part of the scheme id: raise it when a SimHash changes."""

# The same numbers as in core/core.h: with others, keys would never match. Multiples of 2^64 divided by the golden ratio
# are evenly spread.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2, _HALF = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of hashes with MurmurHash3's 64-bit finaliser: every input bit affects every output bit.

    >>> hex(_mixed(np.array([7], np.uint64))[0])
    '0x740729cbe468d1dd'
    """
    mixed = (hashes ^ (hashes >> _HALF)) * _MIX_1
    mixed = (mixed ^ (mixed >> _HALF)) * _MIX_2
    return mixed ^ (mixed >> _HALF)


# -- weights --------------------------------------------------------------------------------------------

_MAGIC = b"SDW1"
WEIGHTS_VERSION = 1
"""Version of the file of a table of weights."""
_HEADER = struct.Struct("<4sHHQQQ")
_BEGIN = _HEADER.size + 16  # of the entries, after the digest
_UNIT = 256
# A feature of one document has the weight of an unseen one; most features are such.
_MIN_DOCUMENTS = 2


@dataclass(frozen=True)
class Weights:
    """A table of weights. features: the id of the hashed features, see `Scheme.features_id`; documents: their number.

    hashes: (n,) uint64, ascending; values: (n,) uint16, the weights.
    """

    features: int
    documents: int
    hashes: NDArray[np.uint64]
    values: NDArray[np.uint16]

    @property
    def unseen(self) -> int:
        """The weight of a feature that is not in the table: that of a feature of one document."""
        return max(1, round(_UNIT * float(np.log(max(self.documents, 1)))))

    @cached_property
    def digest(self) -> bytes:
        """xxh3-128 of the whole table."""
        return self.to_bytes()[_HEADER.size : _BEGIN]

    @cached_property
    def table(self) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
        """(keys, values) for the core: open addressing, at most half full, 0 = free."""
        size = 1 << (2 * len(self.hashes)).bit_length()
        keys, values = np.zeros(size, np.uint64), np.zeros(size, np.uint16)
        slots = (_mixed(self.hashes) & np.uint64(size - 1)).tolist()
        for hash_, value, slot in zip(self.hashes.tolist(), self.values.tolist(), slots, strict=True):
            while keys[slot]:
                slot = (slot + 1) & (size - 1)
            keys[slot], values[slot] = hash_, value
        return keys, values

    def to_bytes(self) -> bytes:
        """The content of the file. O(entries)."""
        head = _HEADER.pack(_MAGIC, WEIGHTS_VERSION, 0, self.features, self.documents, len(self.hashes))
        content = self.hashes.astype("<u8").tobytes() + self.values.astype("<u2").tobytes()
        return head + xxhash.xxh3_128_digest(head + content) + content


def build_weights(features: int, documents: Iterable[NDArray[np.uint64]]) -> Weights:
    """Build the table of a corpus from the feature hashes of each document. Needs some 100 bytes per distinct feature.

    >>> texts = [np.array(features, np.uint64) for features in ([5, 5, 9], [5], [5, 9])]
    >>> weights = build_weights(7, texts)
    >>> weights.hashes.tolist(), weights.values.tolist(), weights.unseen
    ([5, 9], [1, 104], 281)
    """
    frequencies, count = Counter[int](), 0
    for document in documents:
        frequencies.update(np.unique(document).tolist())
        count += 1
    entries = sorted((h, n) for h, n in frequencies.items() if n >= _MIN_DOCUMENTS)
    hashes = np.array([h for h, _ in entries], np.uint64)
    rarity = np.log(max(count, 1) / np.array([n for _, n in entries], np.float64))
    return Weights(features, count, hashes, np.clip(np.rint(_UNIT * rarity), 1, 0xFFFF).astype(np.uint16))


def read_weights(path: Path, features: int) -> Weights:
    """Read a table from a file. features: the id of the features under the current settings.

    Raises ConfigError if the file is unreadable, not a table of weights, damaged, or built for other features.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"[fingerprint] idf: cannot read {path}: {error.strerror}") from None
    if len(data) < _BEGIN or data[:4] != _MAGIC:
        raise ConfigError(
            f"[fingerprint] idf: {path} is not a table of weights; `stream-dedup weights build` writes one"
        )
    head, content = data[: _HEADER.size], data[_BEGIN:]
    _, version, _, built_for, documents, entries = _HEADER.unpack(head)
    if version != WEIGHTS_VERSION:
        raise ConfigError(f"[fingerprint] idf: {path} has version {version}; this program reads {WEIGHTS_VERSION}")
    if data[_HEADER.size : _BEGIN] != xxhash.xxh3_128_digest(head + content) or len(content) != 10 * entries:
        raise ConfigError(f"[fingerprint] idf: {path} was changed or truncated after it was written")
    if built_for != features:
        raise ConfigError(
            f"[fingerprint] idf: {path} was built for other features; build it again with the current "
            "settings (features, shingle_words and shingle_characters matter)"
        )
    hashes = np.frombuffer(content, "<u8", entries).astype(np.uint64)
    return Weights(built_for, documents, hashes, np.frombuffer(content, "<u2", entries, 8 * entries).astype(np.uint16))


# -- layouts ---------------------------------------------------------------------------------------------
# A layout makes index keys, such that all pairs within a given Hamming distance share at least one key.
#
# A layout turns SimHashes, (n, words) uint64, into keys, (n, tables) uint32, for the index that also serves MinHash
# bands. Each table selects some bits. If they are many, the key is a hash of them, and it must match as a whole. If
# they are few, the key consists of them, followed by as many other bits as fit: the selected bits must be equal, and
# the rest may differ in up to the maximum Hamming distance (the index's near tables).
#
# Recall is exact by the pigeonhole principle: cut the bits into m blocks; k flipped bits touch at most k blocks, so m -
# k blocks are intact; with a table for each choice of m - k blocks, one table matches. More blocks in a key mean more
# tables with longer keys, and so fewer false candidates. With 4 choose 1, one unrelated SimHash in 65,536 shares the
# bits of a table, and one in 6 million matches the key; with 5 choose 2 it is one in 67 million. The Hamming distance
# of the whole SimHashes then confirms or rejects each candidate.
#
# Source: Manku, Jain, Das Sarma, "Detecting Near-Duplicates for Web Crawling", WWW 2007, section 3 (tables of permuted
# fingerprints, the rest compared by Hamming distance; "4 x 4" is its two-level scheme of 16 tables).

_FORM = re.compile(r"(\d+) (choose|x) (\d+)")
# A table costs each original eight bytes and each lookup a cache miss; 8 choose 2 has 28, the default family 30. The
# bound is that of MinHash bands, for layouts of 128 bits such as 10 choose 5 (252 tables, 5 bits).
_MAX_TABLES = MOST_BANDS
# With keys of 15 bits, a million originals fill buckets of 30; with fewer bits a lookup becomes a scan.
_MIN_KEY_BITS = 15
_KEY_BITS = 32
# With fewer don't-care bits, comparing them rejects too few candidates: 8 bits within distance 3 reject 64 in 100.
_MIN_DONT_CARE_BITS = 8
LAYOUT_VERSION = 2
"""Part of the scheme id: raise it when the keys of a SimHash change."""


@dataclass(frozen=True)
class Layout:
    """The tables of a SimHash.

    masks: (tables, words) uint64, the bits that each table selects; max_hamming: largest distance with exact recall.
    """

    masks: NDArray[np.uint64]
    max_hamming: int

    @property
    def tables(self) -> int:
        return len(self.masks)

    @cached_property
    def dont_care_bits(self) -> tuple[int, ...]:
        """For each table the number of lower key bits that need not be equal; 0 if the key is a hash."""
        spare = [_KEY_BITS - int(bits) for bits in np.bitwise_count(self.masks).sum(axis=1)]
        return tuple(bits if bits >= _MIN_DONT_CARE_BITS else 0 for bits in spare)

    def keys(self, simhashes: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Keys (n, tables) of SimHashes (n, words); never 0, which means "no key" in the index. O(n · tables · words).

        Long keys are hashed because the index distributes keys by their upper bits. Two different selections of bits
        have the same hash with probability 2^-32.

        >>> four = layout("4 choose 1", 64)
        >>> [f"{key:08x}" for key in four.keys(np.array([[0x0123456789ABCDEF]], np.uint64))[0]]
        ['cdef89ab', '89abcdef', '4567cdef', '0123cdef']
        """
        out = np.empty((len(simhashes), self.tables), np.uint32)
        for table, mask in enumerate(self.masks):
            if self.dont_care_bits[table]:
                out[:, table] = np.maximum(_permuted(simhashes, mask), 1)
                continue
            h = np.full(len(simhashes), table + 1, np.uint64)
            for word, bits in enumerate(mask):
                h = _mixed((h * _GOLDEN) ^ (simhashes[:, word] & bits))
            out[:, table] = np.maximum(h >> np.uint64(32), 1)
        return out


def layout(text: str, bits: int) -> Layout:
    """Parse a layout setting: "m choose r" or "m x n".

    Raises ConfigError for any other form, for too many tables, and for keys that are too short to be useful.

    >>> [(layout(text, 64).tables, layout(text, 64).max_hamming) for text in ("4 choose 1", "5 choose 2", "8 choose 2")]
    [(4, 3), (10, 3), (28, 6)]
    >>> layout("6 choose 3", 128).tables, layout("4 x 4", 64).tables, layout("4 x 4", 64).max_hamming
    (20, 16, 3)
    """
    form = _FORM.fullmatch(text)
    if not form:
        raise ConfigError(f"[fingerprint] layout = {text!r} is neither 'm choose r' nor 'm x n', e.g. '5 choose 2'")
    first, second = int(form[1]), int(form[3])
    is_choice = form[2] == "choose"
    if not 2 <= first <= bits or not 1 <= second <= (first - 1 if is_choice else bits):
        raise ConfigError(f"[fingerprint] layout = {text!r}: {bits} bits cannot be divided this way")
    count = comb(first, second) if is_choice else first * second
    if count > _MAX_TABLES:
        raise ConfigError(f"[fingerprint] layout = {text!r} makes {count} tables; at most {_MAX_TABLES} are allowed")
    blocks = _divide(list(range(bits)), first)
    if is_choice:
        tables, distance = (
            [list(chain.from_iterable(choice)) for choice in combinations(blocks, second)],
            first - second,
        )
    else:  # a table for each block and each part of the other bits: one block is intact, and one part of the others
        others = [[bit for bit in range(bits) if bit not in block] for block in blocks]
        tables = [block + part for block, rest in zip(blocks, others, strict=True) for part in _divide(rest, second)]
        distance = min(first, second) - 1
    masks = np.zeros((count, bits // 64), np.uint64)
    for mask, places in zip(masks, tables, strict=True):
        for place in places:
            mask[place // 64] |= np.uint64(1 << place % 64)
    shortest = int(np.bitwise_count(masks).sum(axis=1).min())
    if shortest < _MIN_KEY_BITS:
        raise ConfigError(
            f"[fingerprint] layout = {text!r} makes keys of {shortest} bits out of {bits}; fewer than {_MIN_KEY_BITS} "
            "match nearly everything: use 128 bits, or a layout with fewer blocks"
        )
    return Layout(masks, distance)


def _permuted(simhashes: NDArray[np.uint64], mask: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys of 32 bits: the bits in the mask, then the first of the other bits, of SimHashes (n, words)."""
    chosen = [place for place in range(64 * len(mask)) if int(mask[place // 64]) >> place % 64 & 1]
    others = [place for place in range(64 * len(mask)) if place not in chosen]
    out = np.zeros(len(simhashes), np.uint64)
    for word, low, width in _runs(chosen) + _runs(others[: _KEY_BITS - len(chosen)]):
        bits = (simhashes[:, word] >> np.uint64(low)) & np.uint64((1 << width) - 1)
        out = (out << np.uint64(width)) | bits
    return out


def _runs(places: list[int]) -> list[tuple[int, int, int]]:
    """Group bit positions into runs of adjacent ones: (word, lowest bit, width).

    >>> _runs([0, 1, 2, 62, 63, 64])
    [(0, 0, 3), (0, 62, 2), (1, 0, 1)]
    """
    runs: list[tuple[int, int, int]] = []
    for place in places:
        word, bit = divmod(place, 64)
        if runs and runs[-1][0] == word and runs[-1][1] + runs[-1][2] == bit:
            runs[-1] = (word, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((word, bit, 1))
    return runs


def _divide(positions: list[int], parts: int) -> list[list[int]]:
    ends = [len(positions) * i // parts for i in range(parts + 1)]
    return [positions[start:end] for start, end in pairwise(ends)]
