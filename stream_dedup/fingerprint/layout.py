"""Layouts: a SimHash -> T table keys, so that every pair within Hamming distance k shares a key. For certain.

In: fingerprints (n, words) uint64. Out: keys (n, T) uint32 for the same index as MinHash bands; each key is a hash
of some chosen bits, and the whole key must match, so no table needs a prefix search of its own.

Why it is exact: cut the bits into m blocks. k flipped bits touch at most k blocks, so m - k blocks stay whole (the
pigeonhole principle); with one table for each choice of m - k blocks, one of them meets. More blocks in a key mean
more tables, each with longer keys and so fewer false candidates: 4 choose 1 proposes 1 in 65,536 strangers a table,
5 choose 2 one in 67 million. What a shared key proposes, the Hamming distance then confirms or refuses.

Source: Manku, Jain, Das Sarma, "Detecting Near-Duplicates for Web Crawling", WWW 2007, section 3 (tables of permuted
fingerprints; "4 x 4" is its two-level scheme of 16 tables). It is stated here with masks instead of permutations:
which bits stand in front matters only to a prefix search.
"""

import re
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

import numpy as np
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError

_FORM = re.compile(r"(\d+) (choose|x) (\d+)")
# A table costs each original eight bytes and each lookup a cache miss; 8 choose 2 has 28, the default family 30.
_MOST_TABLES = 128
# With 15 bits a key, a million originals crowd into buckets of 30 a table; fewer bits make the index a scan.
_FEWEST_BITS = 15
_M1 = np.uint64(0xFF51AFD7ED558CCD)
_M2 = np.uint64(0xC4CEB9FE1A85EC53)
_ROTATE = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Layout:
    """masks: (T, words) uint64, the bits of each table's key; `within`: the distance up to which recall is exact."""

    masks: NDArray[np.uint64]
    within: int

    @property
    def tables(self) -> int:
        return len(self.masks)

    def keys(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Keys (n, T) of fingerprints (n, words); never 0, which is the index's "no key". O(n T words).

        A hash of the chosen bits, because the index spreads keys by their upper bits; two different choices of bits
        meet by chance once in 2^32.

        >>> four = layout("4 choose 1", 64)
        >>> a, b = four.keys(np.array([[0x1234], [0x1234 | 1 << 20]], np.uint64))
        >>> (a == b).tolist()
        [True, False, True, True]
        """
        out = np.empty((len(fingerprints), self.tables), np.uint32)
        for table, mask in enumerate(self.masks):
            h = np.full(len(fingerprints), table + 1, np.uint64)
            for word, bits in enumerate(mask):
                h = _mix((h * _ROTATE) ^ (fingerprints[:, word] & bits))
            out[:, table] = np.maximum(h >> np.uint64(32), 1)
        return out


def layout(text: str, bits: int) -> Layout:
    """The layout that a setting names: "m choose r" or "m x n".

    Raises ConfigError for another form, too many tables, or keys too short to be of use.

    >>> [(layout(text, 64).tables, layout(text, 64).within) for text in ("4 choose 1", "5 choose 2", "8 choose 2")]
    [(4, 3), (10, 3), (28, 6)]
    >>> layout("6 choose 3", 128).tables, layout("4 x 4", 64).tables, layout("4 x 4", 64).within
    (20, 16, 3)
    """
    form = _FORM.fullmatch(text)
    if not form:
        raise ConfigError(f"[fingerprint] layout = {text!r} is neither 'm choose r' nor 'm x n', e.g. '5 choose 2'")
    first, second = int(form[1]), int(form[3])
    chosen = form[2] == "choose"
    if not 2 <= first <= bits or not 1 <= second <= (first - 1 if chosen else bits):
        raise ConfigError(f"[fingerprint] layout = {text!r}: {bits} bits cannot be cut so")
    count = comb(first, second) if chosen else first * second
    if count > _MOST_TABLES:
        raise ConfigError(f"[fingerprint] layout = {text!r} makes {count} tables; at most {_MOST_TABLES} are sensible")
    made = choose(bits, first, second) if chosen else two_level(bits, first, second)
    shortest = int(np.bitwise_count(made.masks).sum(axis=1).min())
    if shortest < _FEWEST_BITS:
        raise ConfigError(
            f"[fingerprint] layout = {text!r} makes keys of {shortest} bits out of {bits}; fewer than {_FEWEST_BITS} "
            "propose nearly everything: use 128 bits, or a layout of fewer blocks"
        )
    return made


def choose(bits: int, blocks: int, chosen: int) -> Layout:
    """A table for every choice of `chosen` out of `blocks` equal blocks: exact within blocks - chosen."""
    parts = _cut(list(range(bits)), blocks)
    tables = [[bit for part in some for bit in part] for some in combinations(parts, chosen)]
    return Layout(_masks(tables, bits), blocks - chosen)


def two_level(bits: int, blocks: int, parts: int) -> Layout:
    """A table for each block together with each part of the bits outside it: exact within min(blocks, parts) - 1.

    Fewer tables than "choose" for keys nearly as long: one block stays whole, and, of the rest, one part.
    """
    tables = []
    for block in _cut(list(range(bits)), blocks):
        rest = [bit for bit in range(bits) if bit not in block]
        tables += [block + part for part in _cut(rest, parts)]
    return Layout(_masks(tables, bits), min(blocks, parts) - 1)


def distances(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Hamming distances of a (n, words) and b (n, words), row by row: (n,) int64.

    >>> distances(np.array([[7, 1]], np.uint64), np.array([[4, 0]], np.uint64)).tolist()
    [3]
    """
    flipped: NDArray[np.int64] = np.bitwise_count(a ^ b).sum(axis=1, dtype=np.int64)
    return flipped


def _cut(positions: list[int], parts: int) -> list[list[int]]:
    ends = [len(positions) * i // parts for i in range(parts + 1)]
    return [positions[start:end] for start, end in pairwise(ends)]


def _masks(tables: list[list[int]], bits: int) -> NDArray[np.uint64]:
    masks = np.zeros((len(tables), bits // 64), np.uint64)
    for table, positions in enumerate(tables):
        for bit in positions:
            masks[table, bit // 64] |= np.uint64(1 << (bit % 64))
    return masks


def _mix(h: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """MurmurHash3's 64-bit finaliser, as kernel.mix."""
    h = (h ^ (h >> np.uint64(33))) * _M1
    h = (h ^ (h >> np.uint64(33))) * _M2
    return h ^ (h >> np.uint64(33))
