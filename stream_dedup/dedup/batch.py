"""What `judge` hands to whoever does the I/O: verdicts to act on, and the delta to remember.

Out of `Deduplicator.judge`; into the changelog, and, once that is safe, into `Deduplicator.apply`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.clocks import CLOCK, Odd
from stream_dedup.dedup.verdict import Kind, Verdict

FORGOTTEN = np.dtype([("before", "<u4"), ("row_id", "<u8")])
"""Originals to forget: the addition before which it happens, and the 64-bit hash of the item's id."""
ARRIVAL = np.dtype([("watermark", "<i8"), ("elapsed", "<i8"), ("doubted", "u1")])
"""Of an addition: the watermark and its elapsed (clocks.py) when it came, ms, and 1 if its own time says nothing."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What a batch adds to the index's memory and takes out of it.

    signatures: (n,) structured, the scheme's `signature_dtype`; keys: (n, T) uint32; ids: n strings;
    forgotten: (m,) FORGOTTEN; watermark: after the batch, ms; bodies: n packed bodies where they are
    compared exactly, else empty; passages: uint32, hashes of the passages of the additions that are originals,
    passage_counts: (n,) uint8, how many each has, or empty: none are known; arrivals: (n,) ARRIVAL, clocks: CLOCK, the
    new state of the partitions that had items, or both empty: nothing is known of them; elapsed: of the watermark,
    after the batch, ms.
    """

    signatures: NDArray[np.void]
    keys: NDArray[np.uint32]
    ids: list[str]
    forgotten: NDArray[np.void]
    watermark: int
    bodies: list[bytes] = field(default_factory=list)
    passages: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    passage_counts: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    arrivals: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, ARRIVAL))
    clocks: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, CLOCK))
    elapsed: int = 0

    def __len__(self) -> int:
        return len(self.ids)


def joined_times(deltas: Sequence[Delta]) -> tuple[NDArray[np.void], NDArray[np.void], int]:
    """Arrivals, clocks and elapsed of one delta that stands for all of these, in their order.

    Of each partition the last clock counts. Where the first ones are from before arrivals were remembered, their
    additions count as having come when the next ones did.
    """
    told = [one for one in deltas if len(one.arrivals) or len(one.clocks)]
    if not told:
        return np.zeros(0, ARRIVAL), np.zeros(0, CLOCK), 0
    parts = []
    for one in deltas:
        arrivals = one.arrivals
        if len(arrivals) != len(one):
            arrivals = np.zeros(len(one), ARRIVAL)
            arrivals["watermark"] = one.watermark
            arrivals["elapsed"] = told[0].arrivals["elapsed"][0] if len(told[0]) else told[0].elapsed
        parts.append(arrivals)
    clocks = {clock["partition"].item(): clock for one in told for clock in one.clocks}
    return np.concatenate(parts), np.array([clocks[one] for one in sorted(clocks)], CLOCK), told[-1].elapsed


@dataclass(frozen=True, slots=True)
class Batch:
    """The verdicts of a batch, in the order of its items, what is to be remembered of it, and what was `Odd` about the
    items' times: (n,) int8 in the same order. `judged_at`: what script.py knows by what it was judged against.
    """

    verdicts: list[Verdict]
    delta: Delta
    odd: NDArray[np.int8]
    judged_at: object = field(default=None, repr=False, compare=False)

    def odd_times(self) -> dict[str, int]:
        """How many items had a time of each odd kind, by its name."""
        counts = np.bincount(self.odd, minlength=len(Odd)).tolist()
        return {kind.name.lower(): counts[kind] for kind in Odd if kind is not Odd.NOTHING}

    def counts(self) -> dict[Kind, int]:
        out = dict.fromkeys(Kind, 0)
        for verdict in self.verdicts:
            out[verdict.kind] += 1
        return out
