"""Passages that recur from original to original: how often each was seen within the window, in bounded memory.

In: hashes of the passages of each original, with its time. Out: `known(...)`: is this passage boilerplate? Copyright
notices, requests to subscribe and teasers of other stories are sentences like those of an article; what tells them
apart is that they recur in originals which are not each other's copies. This is the document frequency of the
literature (Spärck Jones 1972), counted on a stream.

An entry holds a passage's hash and the times of its last three sightings. It is boilerplate while all three lie within
the window: so what a site no longer prints fades with the window, and a new template is known after three originals.
That makes the table a function of the originals within the window, whatever came before: a restart that reads them
again from the changelog knows the same.

Memory is fixed. A bucket of four entries, a cache line, that is full gives up the one that was seen least recently;
that, too, depends on the last sightings alone.
"""

from typing import TypeAlias

import numpy as np
from numba import njit, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.hashing import GOLDEN

SIGHTINGS = 3
"""Originals that share a passage which is then boilerplate. Two may be an article and a retelling that quotes it."""
# 2^19 entries of 16 bytes: 8 MiB, the passages of the last 15,000 originals or so of 35 each. A site that publishes
# three items in that stretch of the feed is known by its boilerplate.
_BITS = 19
_WAYS = 4
_LINE = 64
# Their lines are 32 KB, what the first cache has.
_AHEAD = 512
# A page of comments has thousands of sentences; more than these teach nothing about its site.
MOST_PASSAGES = 128
_SECOND = 1000


Image: TypeAlias = tuple[NDArray[np.int64], NDArray[np.uint32]]
"""Some buckets and what is in them."""


class Boilerplate:
    """A table of passages. Not thread-safe: one owner.

    >>> table = Boilerplate()
    >>> notice, news = np.array([7], np.uint32), np.array([8], np.uint32)
    >>> for hour in range(3):
    ...     table.add(notice, np.array([1]), np.array([hour * 3_600_000]))
    >>> table.known(np.array([7, 8], np.uint32), 0).tolist()
    [True, False]
    >>> table.known(notice, 3_600_000).tolist()  # the window begins later: two sightings are left
    [False]
    """

    def __init__(self) -> None:
        memory = np.zeros((16 << _BITS) + _LINE, np.uint8)
        start = -memory.ctypes.data % _LINE  # a bucket is one cache line
        self.entries = memory[start : start + (16 << _BITS)].view(np.uint32).reshape(1 << _BITS, 1 + SIGHTINGS)
        """Hash (0: free) and times, s, the latest first."""

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes

    @property
    def buckets(self) -> int:
        """How many buckets the table has."""
        return len(self._by_bucket())

    @property
    def bucket_words(self) -> int:
        """How many words of 4 bytes a bucket of an `Image` has."""
        return _WAYS * (1 + SIGHTINGS)

    def add(self, hashes: NDArray[np.uint32], counts: NDArray[np.integer], times: NDArray[np.integer]) -> None:
        """Counts the passages of n originals: hashes of all, one original behind the other; counts: (n,) of each.

        times: (n,) ms. A passage that an original repeats counts once. O(passages).
        """
        _add(self.entries, hashes, counts.astype(np.int64), _seconds(times))

    def image(self, hashes: NDArray[np.uint32] | None = None) -> Image:
        """The buckets that `add` of these hashes will change, or all that are in use, for `put_back`.

        O(passages), or of the table; 64 bytes each.
        """
        buckets = np.flatnonzero(self._by_bucket().any(axis=1)) if hashes is None else _buckets(self.entries, hashes)
        return buckets, self._by_bucket()[buckets]

    def put_back(self, image: Image) -> None:
        """Undoes what was added since the image was taken; of several the newest first. O(passages)."""
        buckets, entries = image
        self._by_bucket()[buckets] = entries  # a bucket that occurs twice has the same content twice

    def _by_bucket(self) -> NDArray[np.uint32]:
        return self.entries.reshape(-1, _WAYS * (1 + SIGHTINGS))

    def known(self, hashes: NDArray[np.uint32], horizon: int) -> NDArray[np.bool_]:
        """Which of the passages are boilerplate for an item whose window begins at `horizon`, ms."""
        start = self.starts(np.array([horizon]))[0]
        return np.array([is_known(self.entries, one, start) for one in hashes], np.bool_)

    @staticmethod
    def starts(horizons: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Where windows begin, as `is_known` takes it."""
        return _seconds(horizons)


def _seconds(times: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Times in s; 1 for those before 1970, as 0 means that there was none."""
    seconds: NDArray[np.uint32] = np.clip(times // _SECOND, 1, 2**32 - 1).astype(np.uint32)
    return seconds


@njit(nogil=True, cache=True, inline="always")
def _bucket(entries, h):
    """First entry of the bucket of a hash."""
    spread = (uint64(h) * GOLDEN) >> uint64(32)
    return np.int64(spread & uint64(entries.shape[0] // _WAYS - 1)) * _WAYS


@njit(nogil=True, cache=True)
def _buckets(entries, hashes):
    found = np.empty(hashes.size, np.int64)
    for p in range(hashes.size):
        found[p] = _bucket(entries, hashes[p]) // _WAYS
    return found


@njit(nogil=True, cache=True)
def is_known(entries, h, start):
    """Whether a passage was seen in three originals since `start`, s."""
    first = _bucket(entries, h)
    for i in range(first, first + _WAYS):
        if entries[i, 0] == h:
            return entries[i, SIGHTINGS] >= start
    return False


@njit(nogil=True, cache=True)
def _add(entries, hashes, counts, times):
    seen, by = np.zeros(4 * MOST_PASSAGES, np.uint32), np.full(4 * MOST_PASSAGES, -1, np.int64)
    touched = uint32(0)
    first, ahead = 0, 0
    for original in range(counts.size):
        last = first + counts[original]
        if last > ahead:  # the table is larger than the cache: asked for ahead, its lines come side by side
            for p in range(first, min(hashes.size, max(last, first + _AHEAD))):
                touched |= entries[_bucket(entries, hashes[p]), 0]
                ahead = p + 1
        for p in range(first, last):
            # What this original has shown already: a set that the next one overwrites.
            slot = np.int64(hashes[p]) & (seen.size - 1)
            while by[slot] == original and seen[slot] != hashes[p]:
                slot = (slot + 1) & (seen.size - 1)
            if by[slot] != original:
                seen[slot], by[slot] = hashes[p], original
                _see(entries, hashes[p], times[original])
        first = last
    return touched


@njit(nogil=True, cache=True)
def _see(entries, h, time):
    """One more sighting; items may come late, so the times are kept in order."""
    first = _bucket(entries, h)
    at = -1
    for i in range(first, first + _WAYS):
        if entries[i, 0] == h:
            at = i
    if at < 0:
        at = first
        for i in range(first + 1, first + _WAYS):
            # Of those seen in one second the least hash: where an entry stands depends on what came before the window.
            is_older = entries[i, 1] < entries[at, 1]
            if is_older or (entries[i, 1] == entries[at, 1] and entries[i, 0] < entries[at, 0]):
                at = i
        entries[at, 0] = h
        for place in range(1, SIGHTINGS + 1):
            entries[at, place] = uint32(0)
    for place in range(1, SIGHTINGS + 1):
        if time >= entries[at, place]:
            time, entries[at, place] = entries[at, place], time
