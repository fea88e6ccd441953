"""The leader epochs of what a consumer has read. By them a broker can tell that a partition has lost its end (KIP-320).

Each time a partition gets a new leader, its epoch rises, and each batch has the epoch under which it was written. A
position is sent together with the epoch of the record before it. If the leader's log of that epoch ends before the
position, the records between were lost, and others may stand in their place: after an unclean election, or when a
broker was restored from a snapshot. A position without an epoch would be taken for a place in the new log.
"""

from typing import Any

UNKNOWN = -1


class LeaderEpochs:
    """Learns epochs from batches, and knows that of the record before an offset. One thread writes at a time.

    >>> epochs = LeaderEpochs()
    >>> epochs.begin("news-0", 20, 3); epochs.read("news-0", 20, 3); epochs.read("news-0", 25, 4)
    >>> [epochs.before("news-0", offset) for offset in (20, 25, 26)], epochs.before("news-1", 7)
    ([3, 3, 4], -1)
    >>> epochs.begin("news-0", 5, UNKNOWN); epochs.before("news-0", 5)
    -1
    """

    def __init__(self) -> None:
        self._read: dict[Any, tuple[tuple[int, int], ...]] = {}  # place -> (first offset, epoch) of each, in order

    def begin(self, place: Any, offset: int, epoch: int) -> None:
        """Begin to read here; the record before has this epoch."""
        self._read[place] = ((offset - 1, epoch),)

    def read(self, place: Any, first: int, epoch: int) -> None:
        """Learn that a batch was read that begins here. O(1); O(epochs) when the epoch or the direction changes."""
        known = self._read.get(place, ())
        if known and known[-1][1] == epoch and known[-1][0] <= first:
            return
        earlier = tuple(batch for batch in known if batch[0] < first)
        self._read[place] = earlier if earlier and earlier[-1][1] == epoch else (*earlier, (first, epoch))

    def before(self, place: Any, offset: int) -> int:
        """Return the epoch of the record before this offset; UNKNOWN: it was neither read nor given."""
        return next((epoch for first, epoch in reversed(self._read.get(place, ())) if first < offset), UNKNOWN)
