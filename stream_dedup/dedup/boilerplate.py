"""Recognise boilerplate: passages (16 words of a line) that recur in several originals, counted in fixed memory.

Copyright notices, requests to subscribe and teasers look like sentences of an article, but they recur in originals that
are not copies of each other. An original counts only if its headline is unlike that of the nearest earlier one: a
warning that three reports of floods have is no boilerplate. Counting them is the document frequency of the literature
(Spärck Jones 1972), on a stream.

An entry holds the hash of a passage and the times of its last three sightings. The passage is boilerplate while all
three lie within the window. So a notice that a site drops is forgotten with the window, and a new one is known after
three originals. The table depends only on the originals within the window, so after a restart the changelog restores
the same table.

A bucket has four entries, one cache line. In a full bucket a new passage replaces the one that was seen least recently.
This, too, depends only on the last sightings.
"""

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, call, record

SIGHTINGS = 3
"""A passage of this many originals is boilerplate. Of two, one may be an article that quotes the other."""
# 2^20 entries of 16 bytes: 16 MiB, for some 15,000 originals of 70 passages. The boilerplate of a site with three items
# among these is recognised.
_BITS = 20
_CACHE_LINE = 64
MOST_PASSAGES = 128
"""Passages of an original that count. A page of comments has thousands; more than this tell nothing about its site."""
_MS_PER_SECOND = 1000


SIGHTED = record("sighted", [("hash", "<u4"), ("seen", "<u4", (SIGHTINGS,))])
"""An entry: the hash of a passage (0: free) and the times of its last sightings, s, the latest first."""
CHANGE = record("change", [("entry", "<i8"), ("before", SIGHTED)])
"""What an entry held before it changed."""


class Log(Struct, name="changes"):
    """The changes while passages are counted, for `Boilerplate.undo`."""

    _fields_ = (("list", POINTER), ("count", INT64), ("room", INT64))


def log_for(passages: int) -> Log:
    """Return room for the changes by this many passages."""
    return Log(list=np.empty(passages, CHANGE), count=0, room=passages)


class Table(Struct, name="boilerplate"):
    """The entries, and their number."""

    _fields_ = (("entries", POINTER), ("count", INT64))


class Boilerplate:
    """The table of passages. Not thread-safe: one owner.

    >>> table = Boilerplate()
    >>> for hour in range(3):
    ...     table.add(np.array([7], np.uint32), np.array([1]), np.array([hour * 3_600_000]))
    >>> table.entries["seen"][table.entries["hash"] == 7].tolist()
    [[7200, 3600, 1]]
    """

    def __init__(self, bits: int = _BITS) -> None:
        size = SIGHTED.itemsize << bits
        buffer = np.zeros(size + _CACHE_LINE, np.uint8)
        start = -buffer.ctypes.data % _CACHE_LINE  # a bucket is one cache line
        self.entries: NDArray[np.void] = buffer[start : start + size].view(SIGHTED)
        """(2^20,) SIGHTED."""
        self.table = Table(entries=self.entries, count=len(self.entries))
        """The same for the core."""

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

        hashes: those of all originals, one original after the other.
        counts: (n,) how many passages each original has.
        times: (n,) when they count as seen, ms.
        log: takes the changes for `undo`.

        Raises InputError if the counts are more than the hashes.
        """
        hashes, sizes = np.ascontiguousarray(hashes), counts.astype(np.int64)
        call("add_originals", self.table, hashes, len(hashes), sizes, in_seconds(times), len(sizes), log)

    def undo(self, log: Log) -> None:
        """Restore the entries of the log, the last one first."""
        call("undo_changes", self.table, log)


def in_seconds(times: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Return times in s; at least 1, because 0 means no sighting."""
    seconds: NDArray[np.uint32] = np.clip(times // _MS_PER_SECOND, 1, 2**32 - 1).astype(np.uint32)
    return seconds
