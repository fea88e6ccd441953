"""Recognise boilerplate: passages (16 words of a line) that recur in several originals, counted in fixed memory.

In: hashes of the passages of each original, and its time. Out: `is_boilerplate`: whether a passage is. Copyright
notices, requests to subscribe and teasers look like sentences of an article, but they recur in originals that are not
copies of each other. Counting them is the document frequency of the literature (Spärck Jones 1972), on a stream.

An entry holds the hash of a passage and the times of its last three sightings. The passage is boilerplate while all
three lie within the window. So a notice that a site drops is forgotten with the window, and a new one is known after
three originals. The table depends only on the originals within the window: after a restart, the changelog restores the
same knowledge.

A bucket has four entries, one cache line. In a full bucket a new passage replaces the one that was seen least recently;
this, too, depends only on the last sightings.
"""

from typing import NamedTuple

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray

from stream_dedup.compiled import njit
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
_MS_PER_SECOND = 1000


class Log(NamedTuple):
    """What `add_original` notes, if there is room. counts: entries that changed, and a number of no use; changed,
    before: these entries, and what they held.
    """

    counts: NDArray[np.int64]
    changed: NDArray[np.int64]
    before: NDArray[np.uint32]


def log_for(passages: int) -> Log:
    """Room for the changes by these many passages."""
    return Log(np.zeros(2, np.int64), np.empty(passages, np.int64), np.empty((passages, 4), np.uint32))


class Boilerplate:
    """The table of passages. Not thread-safe: one owner.

    >>> table = Boilerplate()
    >>> notice, news = np.array([7], np.uint32), np.array([8], np.uint32)
    >>> for hour in range(3):
    ...     table.add(notice, np.array([1]), np.array([hour * 3_600_000]))
    >>> [is_boilerplate(table.entries, one[0], 1) for one in (notice, news)]
    [True, False]
    >>> is_boilerplate(table.entries, notice[0], 3_600)  # the window begins later, after the first sighting
    False
    """

    def __init__(self) -> None:
        buffer = np.zeros((16 << _BITS) + _CACHE_LINE, np.uint8)
        start = -buffer.ctypes.data % _CACHE_LINE  # a bucket is one cache line
        self.entries = buffer[start : start + (16 << _BITS)].view(np.uint32).reshape(1 << _BITS, 1 + SIGHTINGS)
        """Hash (0: free) and times, s, the latest first."""

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes

    def add(
        self,
        hashes: NDArray[np.uint32],
        counts: NDArray[np.integer],
        times: NDArray[np.integer],
        log: Log | None = None,
    ) -> None:
        """Count the passages of n originals; each passage counts once per original. O(passages).

        hashes: of all originals, concatenated; counts: (n,) passages of each; times: (n,) ms. log: for `undo`.
        """
        _add(self.entries, hashes, counts.astype(np.int64), in_seconds(times), log or log_for(0))


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
def is_boilerplate(entries, h, start):
    """Whether a passage was seen in three originals since `start`, s."""
    first = _bucket(entries, h)
    for i in range(first, first + _BUCKET_ENTRIES):
        if entries[i, 0] == h:
            return entries[i, SIGHTINGS] >= start
    return False


@njit(nogil=True, cache=True)
def _add(entries, hashes, counts, times, log):
    first = 0
    for original in range(counts.size):
        last = first + counts[original]
        add_original(entries, hashes, first, last, times[original], log)
        first = last


@njit(nogil=True, cache=True)
def add_original(entries, hashes, first, last, time, log):
    """Count the passages hashes[first:last] of an original at `time`, s: at most `MOST_PASSAGES`, each once."""
    last = min(last, first + MOST_PASSAGES)
    touched, seen = uint32(0), np.zeros(8 * MOST_PASSAGES, np.bool_)
    for p in range(first, last):  # the table exceeds the cache: reads ahead make the cache misses overlap
        touched |= touch(entries, hashes[p])
    log.counts[1] = touched
    for p in range(first, last):
        place, is_repeated = np.int64(hashes[p]) % seen.size, False
        if seen[place]:  # seldom, and then the hashes lie together: faster than a hash set
            for other in range(first, p):
                is_repeated |= hashes[other] == hashes[p]
        seen[place] = True
        if not is_repeated:
            entry = _entry(entries, hashes[p])
            if log.changed.size:
                change = log.counts[0]
                log.changed[change] = entry
                for word in range(1 + SIGHTINGS):  # faster than a slice
                    log.before[change, word] = entries[entry, word]
                log.counts[0] += 1
            _record(entries, entry, hashes[p], time)


@njit(nogil=True, cache=True)
def undo(entries, log):
    """Restore the entries that `add_original` has noted, the last one first."""
    for change in range(log.counts[0] - 1, -1, -1):
        for word in range(1 + SIGHTINGS):
            entries[log.changed[change], word] = log.before[change, word]


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
