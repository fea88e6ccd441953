"""Layouts: a SimHash -> T table keys, so that every pair within Hamming distance k shares a key. For certain.

In: fingerprints (n, words) uint64. Out: keys (n, T) uint32 for the same index as MinHash bands. A table of many chosen
bits has a hash of them as its key, and the whole key must match. A table of few has those bits, and behind them as
many of the others as a key holds: the former must be equal, and the latter may differ in as many bits as two
fingerprints may (the index's near tables).

Why it is exact: cut the bits into m blocks. k flipped bits touch at most k blocks, so m - k blocks stay whole (the
pigeonhole principle); with one table for each choice of m - k blocks, one of them meets. More blocks in a key mean
more tables, each with longer keys and so fewer false candidates: of 4 choose 1 one stranger in 65,536 has the bits of a
table, and one in 6 million the key as well; of 5 choose 2 one in 67 million. What a key proposes, the Hamming distance
of the whole then confirms or refuses.

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
from stream_dedup.fingerprint.hashing import GOLDEN, mix_all

_FORM = re.compile(r"(\d+) (choose|x) (\d+)")
# A table costs each original eight bytes and each lookup a cache miss; 8 choose 2 has 28, the default family 30.
_MOST_TABLES = 128
# With 15 bits a key, a million originals crowd into buckets of 30 a table; fewer bits make the index a scan.
_FEWEST_BITS = 15
_KEY_BITS = 32
# With fewer bits behind the chosen ones a comparison of them refuses next to nobody: of 8 bits within 3, 64 in 100.
_FEWEST_LOOSE = 8
VERSION = 2
"""Part of the scheme id: how keys are made of a fingerprint."""


@dataclass(frozen=True)
class Layout:
    """masks: (T, words) uint64, the bits of each table's key; `max_hamming`: the distance up to which recall is
    exact."""

    masks: NDArray[np.uint64]
    max_hamming: int

    @property
    def tables(self) -> int:
        return len(self.masks)

    @cached_property
    def dont_care_bits(self) -> tuple[int, ...]:
        """For each table how many lower bits of its keys need not be equal; 0: the key is a hash."""
        spare = [_KEY_BITS - int(bits) for bits in np.bitwise_count(self.masks).sum(axis=1)]
        return tuple(bits if bits >= _FEWEST_LOOSE else 0 for bits in spare)

    def keys(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Keys (n, T) of fingerprints (n, words); never 0, which is the index's "no key". O(n T words).

        A hash, where it is one, because the index spreads keys by their upper bits; two different choices of bits meet
        by chance once in 2^32.

        >>> four = layout("4 choose 1", 64)
        >>> [f"{key:08x}" for key in four.keys(np.array([[0x0123456789ABCDEF]], np.uint64))[0]]
        ['cdef89ab', '89abcdef', '4567cdef', '0123cdef']
        """
        out = np.empty((len(fingerprints), self.tables), np.uint32)
        for table, mask in enumerate(self.masks):
            if self.dont_care_bits[table]:
                out[:, table] = np.maximum(_permuted(fingerprints, mask), 1)
                continue
            h = np.full(len(fingerprints), table + 1, np.uint64)
            for word, bits in enumerate(mask):
                h = mix_all((h * GOLDEN) ^ (fingerprints[:, word] & bits))
            out[:, table] = np.maximum(h >> np.uint64(32), 1)
        return out


def layout(text: str, bits: int) -> Layout:
    """The layout that a setting names: "m choose r" or "m x n".

    Raises ConfigError for another form, too many tables, or keys too short to be of use.

    >>> [(layout(text, 64).tables, layout(text, 64).max_hamming) for text in ("4 choose 1", "5 choose 2", "8 choose 2")]
    [(4, 3), (10, 3), (28, 6)]
    >>> layout("6 choose 3", 128).tables, layout("4 x 4", 64).tables, layout("4 x 4", 64).max_hamming
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


def _permuted(fingerprints: NDArray[np.uint64], mask: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The mask's bits of fingerprints (n, words), and behind them the first of the others, as numbers of 32 bits."""
    chosen = [place for place in range(64 * len(mask)) if int(mask[place // 64]) >> place % 64 & 1]
    others = [place for place in range(64 * len(mask)) if place not in chosen]
    out = np.zeros(len(fingerprints), np.uint64)
    for word, low, width in _stretches(chosen) + _stretches(others[: _KEY_BITS - len(chosen)]):
        bits = (fingerprints[:, word] >> np.uint64(low)) & np.uint64((1 << width) - 1)
        out = (out << np.uint64(width)) | bits
    return out


def _stretches(places: list[int]) -> list[tuple[int, int, int]]:
    """Bits in order as stretches of neighbours: (word, lowest bit, width).

    >>> _stretches([0, 1, 2, 62, 63, 64])
    [(0, 0, 3), (0, 62, 2), (1, 0, 1)]
    """
    found: list[tuple[int, int, int]] = []
    for place in places:
        word, bit = divmod(place, 64)
        if found and found[-1][0] == word and found[-1][1] + found[-1][2] == bit:
            found[-1] = (word, found[-1][1], found[-1][2] + 1)
        else:
            found.append((word, bit, 1))
    return found


def _cut(positions: list[int], parts: int) -> list[list[int]]:
    ends = [len(positions) * i // parts for i in range(parts + 1)]
    return [positions[start:end] for start, end in pairwise(ends)]


def _masks(tables: list[list[int]], bits: int) -> NDArray[np.uint64]:
    masks = np.zeros((len(tables), bits // 64), np.uint64)
    for table, positions in enumerate(tables):
        for bit in positions:
            masks[table, bit // 64] |= np.uint64(1 << (bit % 64))
    return masks
