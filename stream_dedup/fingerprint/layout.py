"""SimHash layouts: index keys such that all pairs within a given Hamming distance share at least one key.

A layout turns SimHashes, (n, words) uint64, into keys, (n, tables) uint32, for the index that also serves MinHash
bands. Each table selects some bits. If they are many, the key is a hash of them, and it must match as a whole. If they
are few, the key consists of them, followed by as many other bits as fit: the selected bits must be equal, and the rest
may differ in up to the maximum Hamming distance (the index's near tables).

Recall is exact by the pigeonhole principle: cut the bits into m blocks; k flipped bits touch at most k blocks, so m - k
blocks are intact; with one table for each choice of m - k blocks, one table matches. More blocks in a key mean more
tables with longer keys, and so fewer false candidates. With 4 choose 1, one unrelated SimHash in 65,536 shares the bits
of a table, and one in 6 million matches the key; with 5 choose 2 it is one in 67 million. The Hamming distance of the
whole SimHashes then confirms or rejects each candidate.

Source: Manku, Jain, Das Sarma, "Detecting Near-Duplicates for Web Crawling", WWW 2007, section 3 (tables of permuted
fingerprints, the rest compared by Hamming distance; "4 x 4" is its two-level scheme of 16 tables).
"""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from math import comb

import numpy as np
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.bits import GOLDEN, mix_all
from stream_dedup.settings.judging import MOST_BANDS

_FORM = re.compile(r"(\d+) (choose|x) (\d+)")
# A table costs each original eight bytes and each lookup a cache miss; 8 choose 2 has 28, the default family 30. The
# bound is that of MinHash bands, for layouts of 128 bits such as 10 choose 5 (252 tables, 5 bits).
_MAX_TABLES = MOST_BANDS
# With keys of 15 bits, a million originals fill buckets of 30; with fewer bits a lookup becomes a scan.
_MIN_KEY_BITS = 15
_KEY_BITS = 32
# With fewer don't-care bits, comparing them rejects too few candidates: 8 bits within distance 3 reject 64 in 100.
_MIN_DONT_CARE_BITS = 8
VERSION = 2
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
                h = mix_all((h * GOLDEN) ^ (simhashes[:, word] & bits))
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
    result = choose(bits, first, second) if is_choice else two_level(bits, first, second)
    shortest = int(np.bitwise_count(result.masks).sum(axis=1).min())
    if shortest < _MIN_KEY_BITS:
        raise ConfigError(
            f"[fingerprint] layout = {text!r} makes keys of {shortest} bits out of {bits}; fewer than {_MIN_KEY_BITS} "
            "match nearly everything: use 128 bits, or a layout with fewer blocks"
        )
    return result


def choose(bits: int, blocks: int, chosen: int) -> Layout:
    """One table for each choice of `chosen` of `blocks` equal blocks; recall is exact up to blocks - chosen."""
    parts = _divide(list(range(bits)), blocks)
    tables = [[bit for part in choice for bit in part] for choice in combinations(parts, chosen)]
    return Layout(_masks(tables, bits), blocks - chosen)


def two_level(bits: int, blocks: int, parts: int) -> Layout:
    """One table for each block and each part of the other bits; recall is exact up to min(blocks, parts) - 1.

    It needs fewer tables than "choose" for keys nearly as long: one block is intact, and one part of the others.
    """
    tables = []
    for block in _divide(list(range(bits)), blocks):
        rest = [bit for bit in range(bits) if bit not in block]
        tables += [block + part for part in _divide(rest, parts)]
    return Layout(_masks(tables, bits), min(blocks, parts) - 1)


def distances(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The Hamming distance of each row of a (n, words) to the same row of b: (n,) int64.

    >>> distances(np.array([[7, 1]], np.uint64), np.array([[4, 0]], np.uint64)).tolist()
    [3]
    """
    flipped: NDArray[np.int64] = np.bitwise_count(a ^ b).sum(axis=1, dtype=np.int64)
    return flipped


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


def _masks(tables: list[list[int]], bits: int) -> NDArray[np.uint64]:
    masks = np.zeros((len(tables), bits // 64), np.uint64)
    for table, positions in enumerate(tables):
        for bit in positions:
            masks[table, bit // 64] |= np.uint64(1 << (bit % 64))
    return masks
