"""SimHash: 64 bits of a text; the Hamming distance of two estimates the angle between the texts. Also their index keys.

Each shingle of a text votes on each bit as often as it occurs, for or against, according to that bit of its hash; the
majority decides. If the vectors of two texts form the angle a, each bit differs with probability a / pi.

Sources: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002; Manku, Jain, Das Sarma,
"Detecting Near-Duplicates for Web Crawling", WWW 2007 (64 bits and k = 3).

A layout makes index keys, such that all pairs within a given Hamming distance share at least one key.

It turns SimHashes, (n,) uint64, into keys, (n, tables) uint32, for the index that also serves anchors. Each table
selects some bits. If they are many, the key is a hash of them, and it must match as a whole. If they are few, the key
consists of them, followed by as many other bits as fit: the selected bits must be equal, and the rest may differ in up
to the maximum Hamming distance (the index's near tables).

Recall is exact by the pigeonhole principle: cut the bits into m blocks; k flipped bits touch at most k blocks, so m - k
blocks are intact; with a table for each choice of m - k blocks, one table matches. More blocks in a key mean more
tables with longer keys, and so fewer false candidates. With 5 choose 2, one unrelated SimHash in 67 million matches a
key; with 4 choose 1, one in 65,536 shares the bits of a table, and one in 6 million the key. The Hamming distance of
the whole SimHashes confirms or rejects each candidate. (Tables of permuted fingerprints: Manku et al., section 3.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, combinations, pairwise

import numpy as np
from numpy.typing import NDArray

BITS = 64
VERSION = 1
"""Part of the scheme id: raise it when a SimHash changes."""
LAYOUT_VERSION = 2
"""Part of the scheme id: raise it when the keys of a SimHash change."""
_KEY_BITS = 32
# With fewer don't-care bits, comparing them rejects too few candidates: 8 bits within distance 3 reject 64 in 100.
_MIN_DONT_CARE_BITS = 8

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


@dataclass(frozen=True)
class Layout:
    """The tables of a SimHash.

    name: as in the ids of schemes; masks: (tables,) uint64, the bits that each table selects.
    """

    name: str
    masks: NDArray[np.uint64]

    @property
    def tables(self) -> int:
        return len(self.masks)

    @cached_property
    def dont_care_bits(self) -> tuple[int, ...]:
        """For each table the number of lower key bits that need not be equal; 0 if the key is a hash."""
        spare = [_KEY_BITS - int(bits) for bits in np.bitwise_count(self.masks)]
        return tuple(bits if bits >= _MIN_DONT_CARE_BITS else 0 for bits in spare)

    def keys(self, simhashes: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the keys (n, tables) of SimHashes (n,); never 0, which means "no key" in the index. O(n · tables).

        Long keys are hashed because the index distributes keys by their upper bits. Two different selections of bits
        have the same hash with probability 2^-32.

        >>> [f"{key:08x}" for key in layout(3, is_compact=True).keys(np.array([0x0123456789ABCDEF], np.uint64))[0]]
        ['cdef89ab', '89abcdef', '4567cdef', '0123cdef']
        """
        out = np.empty((len(simhashes), self.tables), np.uint32)
        for table, mask in enumerate(self.masks):
            if self.dont_care_bits[table]:
                keys = _permuted(simhashes, mask)
            else:
                first = np.uint64((table + 1) * int(_GOLDEN) % 2**64)
                keys = _mixed(first ^ (simhashes & mask)) >> np.uint64(32)
            out[:, table] = np.maximum(keys, 1)
        return out


@cache
def layout(hamming: int, *, is_compact: bool = False) -> Layout:
    """Return the layout that finds every pair within this distance.

    A table costs each original eight bytes and each lookup a cache miss. The compact one, within 3 bits, has fewer
    tables and proposes more unrelated texts: at 10 million, a lookup takes 2.8 µs in place of 1.2.

    >>> [(each.name, each.tables) for each in (layout(3), layout(6), layout(3, is_compact=True))]
    [('5 choose 2', 10), ('8 choose 2', 28), ('4 choose 1', 4)]
    """
    count, chosen = (4, 1) if is_compact else (5, 2) if hamming <= 3 else (8, 2)
    ends = [BITS * i // count for i in range(count + 1)]
    blocks = [range(start, end) for start, end in pairwise(ends)]
    tables = (chain.from_iterable(choice) for choice in combinations(blocks, chosen))
    masks = [sum(1 << place for place in places) for places in tables]
    return Layout(f"{count} choose {chosen}", np.array(masks, np.uint64))


def _permuted(simhashes: NDArray[np.uint64], mask: np.uint64) -> NDArray[np.uint64]:
    """Return keys of 32 bits: the bits in the mask, then the first of the other bits."""
    chosen = [place for place in range(BITS) if int(mask) >> place & 1]
    others = [place for place in range(BITS) if place not in chosen]
    out = np.zeros(len(simhashes), np.uint64)
    for low, width in _runs(chosen) + _runs(others[: _KEY_BITS - len(chosen)]):
        bits = (simhashes >> np.uint64(low)) & np.uint64((1 << width) - 1)
        out = (out << np.uint64(width)) | bits
    return out


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Group bit positions into runs of adjacent ones: (lowest bit, width).

    >>> _runs([0, 1, 2, 62, 63])
    [(0, 3), (62, 2)]
    """
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and sum(runs[-1]) == place:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((place, 1))
    return runs
