"""Compare two sketches, and two headlines: the innermost loops of similarity.py.

In: sketches of one-permutation MinHash, or lists of word hashes, and the sizes of the sets. Out: estimates of Jaccard
and containment.

Sources: one-permutation estimator with empty bins, Li, Owen, Zhang 2012; correction for b-bit collisions, Li, König
2010.
"""

import numpy as np
from numba import njit, uint64

from stream_dedup.fingerprint.bits import bit_count, load64

_LOWEST_BITS = np.uint64(0x1111111111111111)
_CHANCE_EQUAL = 1.0 / 15.0  # probability that two different hashes have the same nibble, see kernel.sketch


@njit(nogil=True, cache=True)
def compare_sketches(left, right, n, m):
    """Jaccard and containment of two sets of n and m, none empty, from sketches of nibbles. 16 bins at a time."""
    either, both, equal = uint64(0), uint64(0), uint64(0)
    for k in range(0, left.size, 8):
        left_word, right_word = load64(left, k), load64(right, k)
        in_left, in_right = _nonzero_nibbles(left_word), _nonzero_nibbles(right_word)
        either += bit_count(in_left | in_right)
        both += bit_count(in_left & in_right)
        equal += bit_count(in_left & ~_nonzero_nibbles(left_word ^ right_word))
    true_equal = max(0.0, (equal - both * _CHANCE_EQUAL) / (1.0 - _CHANCE_EQUAL))
    # The sizes bound the Jaccard.
    alike = min(true_equal / either, min(n, m) / max(n, m))
    return alike, min(1.0, alike / (1.0 + alike) * (n + m) / min(n, m))


@njit(nogil=True, cache=True, inline="always")
def _nonzero_nibbles(word):
    """Set the lowest bit of each nibble that is not 0, clear all others."""
    word |= word >> uint64(2)
    word |= word >> uint64(1)
    return word & _LOWEST_BITS


@njit(nogil=True, cache=True)
def compare_headlines(left, right, left_size, right_size, words):
    """Jaccard, `swapped` and `grounded` (see `SIMILARITY`) of headlines: ascending lists of word hashes.

    The lowest bit of a hash says that the item's own text contains the word. Of a longer headline only the smallest
    hashes are stored; the merge stops where such a list ends, which gives a bottom-k estimate (Broder 1997).
    """
    width = left.size
    n, m = min(left_size, width), min(right_size, width)
    in_left, in_right = 0, 0
    for k in range(n):
        in_left += left[k] & 1
    for k in range(m):
        in_right += right[k] & 1
    x, y, shared, union = 0, 0, 0, 0
    unmatched_left, unmatched_right = False, False  # a word of its text that the other headline lacks
    while True:
        if x == n and (y == m or left_size > width):
            break
        if y == m and right_size > width:
            break
        if y == m or (x < n and left[x] >> 1 < right[y] >> 1):
            unmatched_left |= (left[x] & 1) == 1
            x += 1
        elif x == n or right[y] >> 1 < left[x] >> 1:
            place = right[y] >> 1
            in_new = (words[place >> 3] >> (place & 7)) & 1
            unmatched_right |= (right[y] & 1) == 1 and in_new == 0
            y += 1
        else:
            x += 1
            y += 1
            shared += 1
        union += 1
    return shared / max(union, 1), unmatched_left and unmatched_right, max(in_left / n, in_right / m)
