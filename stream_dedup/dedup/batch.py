"""The result of `Deduplicator.judge`: the verdicts of a batch, and the `Delta` of the index.

The caller acts on the verdicts, writes the delta to the changelog, and passes the batch to `Deduplicator.apply`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.clocks import CLOCK, Odd
from stream_dedup.dedup.verdict import Kind, Verdict

FORGOTTEN = np.dtype([("before", "<u4"), ("row_id", "<u8")])
"""An original to forget: the hash of its id, and the number of additions of the delta that come before."""
ARRIVAL = np.dtype([("watermark", "<i8"), ("elapsed", "<i8"), ("doubted", "u1")])
"""The arrival of an added row: the watermark and its elapsed event time then (clocks.py), ms; 1 if its time is
doubted."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes that a batch makes to the index: n rows to add and m ids to forget.

    - signatures: (n,) structured, the scheme's `signature_dtype`; keys: (n, T) uint32; ids: n strings.
    - forgotten: (m,) FORGOTTEN.
    - bodies: n packed bodies for exact comparison, else empty.
    - passages: uint32, hashes of the passages of the added originals; passage_counts: (n,) uint8, passages per row; or
      both empty if unknown.
    - arrivals: (n,) ARRIVAL; clocks: CLOCK, the new states of the partitions that had items; or both empty if unknown.
    - watermark, elapsed: after the batch, ms.
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


def merge_arrivals(deltas: Sequence[Delta]) -> tuple[NDArray[np.void], NDArray[np.void], int]:
    """Merge the arrivals, clocks and elapsed times of consecutive deltas, for one delta that replaces them.

    The last clock of each partition counts. Rows of first deltas without arrivals (of an older version) count as having
    arrived with the next ones.
    """
    timed = [delta for delta in deltas if len(delta.arrivals) or len(delta.clocks)]
    if not timed:
        return np.zeros(0, ARRIVAL), np.zeros(0, CLOCK), 0
    parts = []
    for delta in deltas:
        arrivals = delta.arrivals
        if len(arrivals) != len(delta):
            arrivals = np.zeros(len(delta), ARRIVAL)
            arrivals["watermark"] = delta.watermark
            arrivals["elapsed"] = timed[0].arrivals["elapsed"][0] if len(timed[0]) else timed[0].elapsed
        parts.append(arrivals)
    clocks = {clock["partition"].item(): clock for delta in timed for clock in delta.clocks}
    return np.concatenate(parts), np.array([clocks[p] for p in sorted(clocks)], CLOCK), timed[-1].elapsed


@dataclass(frozen=True, slots=True)
class Batch:
    """The verdicts of a batch, in the order of its items, and the delta to apply.

    odd: (n,) int8, `Odd`, what is unusual about the items' times; judged_at: script.py marks here the state of the
    index against which it judged the batch.
    """

    verdicts: list[Verdict]
    delta: Delta
    odd: NDArray[np.int8]
    judged_at: object = field(default=None, repr=False, compare=False)

    def odd_times(self) -> dict[str, int]:
        """The number of items by kind of unusual time (`Odd`, in lower case)."""
        counts = np.bincount(self.odd, minlength=len(Odd)).tolist()
        return {kind.name.lower(): counts[kind] for kind in Odd if kind is not Odd.NOTHING}

    def counts(self) -> dict[Kind, int]:
        """The number of verdicts of each kind."""
        counts = dict.fromkeys(Kind, 0)
        for verdict in self.verdicts:
            counts[verdict.kind] += 1
        return counts
