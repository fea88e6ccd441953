"""Compare sketches and index with exact sets: on how many items do both deduplicators agree?

In: items in order of arrival. The pipeline of the stream judges them with `decision.rule = "jaccard"` (no headline,
one window); the oracle judges the same bodies with exact sets. Out: the agreement, and the
disagreements by interval of the exact Jaccard.

Items without a body and unreadable items are left out.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.evaluate.oracle import first_seen_wins
from stream_dedup.evaluate.sets import ShingleSets
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

# Edges of the Jaccard intervals in the report, relative to the threshold; narrow where sketches err.
_STEPS = (-0.3, -0.2, -0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Band:
    """The items whose nearest exact original has low <= Jaccard < high (in the last band: <= high)."""

    low: float
    high: float
    items: int
    misses: int
    false_drops: int


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The agreement with the exact oracle at one threshold, item by item.

    sketch_bytes: bytes remembered of a body for comparison; with verify = "exact" the mean over the originals.
    misses: items that the oracle holds back and the stream does not; false_drops: the reverse. Both include
    consequences of an earlier disagreement, after which different originals are remembered.
    """

    threshold: float
    sketch_bytes: int
    items: int
    held_exactly: int
    misses: int
    false_drops: int
    bands: list[Band]

    @property
    def agreement(self) -> float:
        """The share of the items on which both agree."""
        return 1.0 - (self.misses + self.false_drops) / self.items if self.items else float("nan")


def fidelity(
    items: Sequence[Item],
    sets: ShingleSets,
    settings: Settings,
    threshold: float,
    progress: Callable[[int], None] = lambda done: None,
) -> Fidelity:
    """Compare the two deduplicators. `sets`: the items' bodies, in the same order. O(items) plus the oracle's time.

    >>> from stream_dedup.evaluate.sets import body_sets, shingle_sets
    >>> from stream_dedup.fingerprint.fingerprint import Fingerprinter
    >>> from stream_dedup.fingerprint.scheme import Scheme
    >>> text = "The bridge over the Elm opened on Monday after two years of work, the mayor said."
    >>> items = [Item(name, "", text, "", 0) for name in "ab"]
    >>> settings = Settings()
    >>> sets = shingle_sets(body_sets(items, Fingerprinter(Scheme(settings.fingerprint))))
    >>> fidelity(items, sets, settings, 0.8).agreement
    1.0
    """
    exact = first_seen_wins(sets, threshold)
    held, original, body_bytes = _stream(items, settings, threshold, progress)
    counts = sets.sizes > 0
    # A false drop belongs to the band of the pair that the stream considered similar.
    wrong = held & ~exact.held & counts
    jaccard = exact.jaccard.copy()
    for i in np.flatnonzero(wrong):
        jaccard[i] = max(jaccard[i], sets.jaccard(int(i), int(original[i])))
    missed = exact.held & ~held & counts
    edges = sorted({min(max(round(threshold + step, 4), 0.0), 1.0) for step in _STEPS} | {0.0, 1.0})
    bands = []
    for low, high in pairwise(edges):
        inside = counts & (jaccard >= low) & ((jaccard < high) | (high == 1.0))
        bands.append(Band(low, high, *(int(np.count_nonzero(inside & x)) for x in (counts, missed, wrong))))
    return Fidelity(
        threshold,
        body_bytes,
        int(np.count_nonzero(counts)),
        int(np.count_nonzero(exact.held)),
        int(np.count_nonzero(missed)),
        int(np.count_nonzero(wrong)),
        bands,
    )


def _stream(
    items: Sequence[Item], settings: Settings, threshold: float, progress: Callable[[int], None]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], int]:
    """Run the pipeline with the Jaccard rule: (held back, number of the named original, bytes of a body)."""
    decision = settings.decision.model_copy(update={"rule": "jaccard", "body": threshold})
    plain = settings.model_copy(update={"decision": decision})
    held, original = np.zeros(len(items), np.bool_), np.full(len(items), -1, np.int64)
    originals, whole = 0, 0
    with closing(Deduplicator(plain)) as dedup:
        for start in range(0, len(items), _BATCH):
            # Number the items, so that a new version of an id is an item of its own; one time, so that all are in one
            # window; no headline, so that only bodies count.
            part = [
                msgspec.structs.replace(item, id=str(n), title="", time=0)
                for n, item in enumerate(items[start : start + _BATCH], start)
            ]
            batch = dedup.judge(part)
            dedup.apply(batch)
            originals += len(batch.delta)
            whole += sum(map(len, batch.delta.bodies))
            for n, verdict in enumerate(batch.verdicts, start):
                held[n] = not verdict.forward and verdict.original is not None
                if held[n] and verdict.original is not None:
                    original[n] = int(verdict.original.id)
            progress(len(part))
    return held, original, Scheme(settings.fingerprint).body_bytes + round(whole / max(originals, 1))
