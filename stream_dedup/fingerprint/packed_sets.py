"""Packed sets: the distinct shingles of a body as the short byte string that the index stores, for an exact Jaccard.

With `fingerprint.verify = "exact"`, a packed set is stored for each body instead of its sketch. The core encodes and
decodes sets (core/shingles.c, sets.c), and counts the members that two of them share.

Encoding: truncate the shingle hashes to their upper 24 bits and sort them; encode each difference to the previous one
with a Golomb-Rice code: the part above k bits in unary (zeros, then a one), then the k bits, lowest bits first. n
random numbers take about log2(2^24 / n) + 1.5 bits each: 16 for a text of 600 words. k depends on n, which is in the
signature.

The cost of truncation: hashes that become equal remain separate members, and sizes are counted before truncation, so no
common shingle is missed. Two sets with a and b members that the other lacks seem to share about a·b / 2^24 too many: at
600 shingles each and a Jaccard of .8, 67·67 / 2^24 = .0003 of a member. It changes the decision only for a pair that is
a single shingle below the threshold. 16 bits would save half of the bytes, and share .07 of a member too many.

For a body with more than 65,536 distinct shingles (a book), only the smallest hashes are stored: 78 KB of usual text.
Who chooses words by their hashes can make it 64 KiB and .37 bytes a shingle, a fifth of the text: `most_set_bytes` in
sets.c has the proof. Such a body fits into a record of the changelog wherever its text fitted into one of the input.
Two such sets are compared on the range of hashes that both have stored, which is a fair sample (bottom-k, Broder 1997):
the Jaccard is accurate to .002.

Sources: Golomb, "Run-length encodings", 1966; Rice, "Some practical universal noiseless coding techniques", 1979.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

VERSION = 1
"""Part of the id of schemes with packed sets: raise it when the code changes, so that old sets are not misread."""

HASH_BITS = 24
MAX_MEMBERS = 1 << 16
"""Maximum number of hashes stored for a set."""


def join(strings: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Join n byte strings in one array, with bounds (n + 1,): string i is data[bounds[i]:bounds[i + 1]].

    >>> data, bounds = join([b"ab", b"", b"c"])
    >>> data.tolist(), bounds.tolist()
    ([97, 98, 99], [0, 2, 2, 3])
    """
    bounds = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(string) for string in strings], out=bounds[1:])
    return np.frombuffer(b"".join(strings), np.uint8), bounds


def expected_bytes(shingles: float) -> float:
    """Return the mean bytes of a packed set of this many shingles; accurate to 2 % from ten shingles on.

    >>> round(expected_bytes(600))
    1220
    """
    if shingles < 1:
        return 0.0
    low = math.floor(math.log2(max(2.0**HASH_BITS * 11 / (16 * shingles), 1.0)))  # k, see rice_bits
    mean = 2.0**HASH_BITS / shingles
    # How often 2^low fits into a geometric variable with this mean, on average. The end wastes half a byte on average.
    quotient = 1.0 / math.expm1(2.0**low / mean)
    return min(shingles, MAX_MEMBERS) * (low + 1 + quotient) / 8 + 0.5
