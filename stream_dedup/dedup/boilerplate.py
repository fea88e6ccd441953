"""Recognise boilerplate: passages (16 words of a line) that recur in several originals, counted in fixed memory.

In: hashes of the passages of each original, and its time. Out: `known(...)`: which passages are boilerplate. Copyright
notices, requests to subscribe and teasers look like sentences of an article, but they recur in originals that are not
copies of each other. Counting them is the document frequency of the literature (Spärck Jones 1972), on a stream.

An entry holds the hash of a passage and the times of its last three sightings. The passage is boilerplate while all
three lie within the window. So a notice that a site drops is forgotten with the window, and a new one is known after
three originals. The table depends only on the originals within the window: after a restart, the changelog restores the
same knowledge.

A bucket has four entries, one cache line. In a full bucket a new passage replaces the one that was seen least recently;
this, too, depends only on the last sightings.
"""

from typing import TypeAlias

import numpy as np
from numba import njit, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.bits import GOLDEN

SIGHTINGS = 3
"""Originals that must share a passage to make it boilerplate. Two may be an article and another that quotes it."""
# 2^20 entries of 16 bytes: 16 MiB, for some 15,000 originals of 70 passages. The boilerplate of a site that publishes
# three items among these is recognised.
_BITS = 20
_BUCKET_ENTRIES = 4
_CACHE_LINE = 64
# A page of comments has thousands of sentences; more than these tell nothing about its site.
MOST_PASSAGES = 128
SEEN = 4 * MOST_PASSAGES
"""Slots of a hash set of the passages of one original."""
_MS_PER_SECOND = 1000


Snapshot: TypeAlias = tuple[NDArray[np.int64], NDArray[np.uint32]]
"""Bucket numbers (n,) and the contents of these buckets."""


class Boilerplate:
    """The table of passages. Not thread-safe: one owner.

    >>> table = Boilerplate()
    >>> notice, news = np.array([7], np.uint32), np.array([8], np.uint32)
    >>> for hour in range(3):
    ...     table.add(notice, np.array([1]), np.array([hour * 3_600_000]))
    >>> table.known(np.array([7, 8], np.uint32), 0).tolist()
    [True, False]
    >>> table.known(notice, 3_600_000).tolist()  # the window begins later, after the first sighting
    [False]
    """

    def __init__(self) -> None:
        buffer = np.zeros((16 << _BITS) + _CACHE_LINE, np.uint8)
        start = -buffer.ctypes.data % _CACHE_LINE  # a bucket is one cache line
        self.entries = buffer[start : start + (16 << _BITS)].view(np.uint32).reshape(1 << _BITS, 1 + SIGHTINGS)
        """Hash (0: free) and times, s, the latest first."""

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return len(self._by_bucket())

    @property
    def bucket_words(self) -> int:
        """Words of 4 bytes per bucket of a `Snapshot`."""
        return _BUCKET_ENTRIES * (1 + SIGHTINGS)

    def add(self, hashes: NDArray[np.uint32], counts: NDArray[np.integer], times: NDArray[np.integer]) -> None:
        """Count the passages of n originals; each passage counts once per original. O(passages).

        hashes: of all originals, concatenated; counts: (n,) passages of each; times: (n,) ms.
        """
        _add(self.entries, hashes, counts.astype(np.int64), in_seconds(times))

    def snapshot(self, hashes: NDArray[np.uint32] | None = None) -> Snapshot:
        """Copy the buckets that `add` of these hashes would change, or all that are in use, for `put_back`.

        64 bytes per bucket. O(passages), or O(table).
        """
        buckets = np.flatnonzero(self._by_bucket().any(axis=1)) if hashes is None else _buckets(self.entries, hashes)
        return buckets, self._by_bucket()[buckets]

    def put_back(self, snapshot: Snapshot) -> None:
        """Restore the buckets of a snapshot; of several snapshots the newest first. O(passages)."""
        buckets, entries = snapshot
        self._by_bucket()[buckets] = entries  # a bucket that occurs twice has the same contents twice

    def _by_bucket(self) -> NDArray[np.uint32]:
        return self.entries.reshape(-1, _BUCKET_ENTRIES * (1 + SIGHTINGS))

    def known(self, hashes: NDArray[np.uint32], horizon: int) -> NDArray[np.bool_]:
        """(n,) whether each passage is boilerplate for an item whose window begins at `horizon`, ms."""
        start = self.starts(np.array([horizon]))[0]
        return np.array([is_boilerplate(self.entries, h, start) for h in hashes], np.bool_)

    @staticmethod
    def starts(horizons: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The begins of windows, ms, in the unit of `is_boilerplate`."""
        return in_seconds(horizons)


def in_seconds(times: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Times in s; at least 1, because 0 means no sighting."""
    seconds: NDArray[np.uint32] = np.clip(times // _MS_PER_SECOND, 1, 2**32 - 1).astype(np.uint32)
    return seconds


@njit(nogil=True, cache=True, inline="always")
def _bucket(entries, h):
    """The first entry of the hash's bucket."""
    spread = (uint64(h) * GOLDEN) >> uint64(32)
    return np.int64(spread & uint64(entries.shape[0] // _BUCKET_ENTRIES - 1)) * _BUCKET_ENTRIES


@njit(nogil=True, cache=True, inline="always")
def touch(entries, h):
    """Read the hash's bucket into the cache. Use the result, or the compiler removes the read."""
    return entries[_bucket(entries, h), 0]


@njit(nogil=True, cache=True)
def _buckets(entries, hashes):
    found = np.empty(hashes.size, np.int64)
    for p in range(hashes.size):
        found[p] = _bucket(entries, hashes[p]) // _BUCKET_ENTRIES
    return found


@njit(nogil=True, cache=True)
def is_boilerplate(entries, h, start):
    """Whether a passage was seen in three originals since `start`, s (`Boilerplate.starts`)."""
    first = _bucket(entries, h)
    for i in range(first, first + _BUCKET_ENTRIES):
        if entries[i, 0] == h:
            return entries[i, SIGHTINGS] >= start
    return False


@njit(nogil=True, cache=True)
def _add(entries, hashes, counts, times):
    passages_seen, seen_by = np.zeros(SEEN, np.uint32), np.full(SEEN + 1, -1, np.int64)
    nowhere, nothing = np.zeros(0, np.int64), np.zeros((0, 1 + SIGHTINGS), np.uint32)
    first = 0
    for original in range(counts.size):
        last = first + counts[original]
        seen = original, passages_seen, seen_by
        add_original(entries, hashes, first, last, times[original], *seen, nowhere, nothing, 0)
        first = last


@njit(nogil=True, cache=True)
def add_original(entries, hashes, first, last, time, original, passages_seen, seen_by, changed, before, changes):
    """Count the passages hashes[first:last] of an original, at most `MOST_PASSAGES`, each once; return `changes`.

    time: s. passages_seen, seen_by: scratch, (SEEN,) uint32 and (SEEN + 1,) int64, at first -1: a hash set that the
    next original overwrites. changed, before: unless they are empty, the entries that change are kept there from
    `changes` on, which then increases.
    """
    last = min(last, first + MOST_PASSAGES)
    touched = uint32(0)
    for p in range(first, last):  # the table exceeds the cache: reads ahead make the cache misses overlap
        touched |= touch(entries, hashes[p])
    seen_by[-1] = touched
    for p in range(first, last):
        seen_slot = np.int64(hashes[p]) & (passages_seen.size - 1)
        while seen_by[seen_slot] == original and passages_seen[seen_slot] != hashes[p]:
            seen_slot = (seen_slot + 1) & (passages_seen.size - 1)
        if seen_by[seen_slot] != original:
            passages_seen[seen_slot], seen_by[seen_slot] = hashes[p], original
            entry = _entry(entries, hashes[p])
            if changed.size:
                changed[changes] = entry
                for word in range(1 + SIGHTINGS):  # faster than a slice
                    before[changes, word] = entries[entry, word]
                changes += 1
            _record(entries, entry, hashes[p], time)
    return changes


@njit(nogil=True, cache=True)
def undo(entries, changed, before, changes):
    """Restore the first `changes` entries that `add_original` has kept, the last one first."""
    for k in range(changes - 1, -1, -1):
        for word in range(1 + SIGHTINGS):
            entries[changed[k], word] = before[k, word]


@njit(nogil=True, cache=True, inline="always")
def _entry(entries, h):
    """The entry of a hash, or the one that it replaces."""
    first = _bucket(entries, h)
    entry = first
    for i in range(first, first + _BUCKET_ENTRIES):
        if entries[i, 0] == h:
            return i
        # Ties go to the smallest hash, not to a position: that depends on what came before the window.
        is_older = entries[i, 1] < entries[entry, 1]
        if is_older or (entries[i, 1] == entries[entry, 1] and entries[i, 0] < entries[entry, 0]):
            entry = i
    return entry


@njit(nogil=True, cache=True)
def _record(entries, entry, h, time):
    """Record a sighting. Items may come late, so the times of an entry are sorted, the latest first."""
    if entries[entry, 0] != h:
        entries[entry, 0] = h
        for slot in range(1, SIGHTINGS + 1):
            entries[entry, slot] = uint32(0)
    for slot in range(1, SIGHTINGS + 1):
        if time >= entries[entry, slot]:
            time, entries[entry, slot] = entries[entry, slot], time
