"""Judge a corpus and count the candidates: the distinct originals that the index proposes for an item.

In: lines and settings. Out: the verdicts of the stream, and the mean number of candidates. `Evidence.candidates` counts
those that were compared, at most 24. What a lookup costs depends on all that it finds, so they are counted here, with
the public parts of the index.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.judge import judge_batches
from stream_dedup.batch.lines import Line
from stream_dedup.dedup.batch import ITEM, Batch, Prepared
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.times import EARLIEST
from stream_dedup.settings import Settings


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts in order, and the mean number of candidates of an item."""

    verdicts: list[Verdict]
    candidates: float


def judge_and_count(lines: Iterable[Line], settings: Settings) -> Judged:
    """Judge the lines as `judge_lines` does, from an empty index, and count the candidates. O(items)."""
    verdicts: list[Verdict] = []
    items = candidates = 0
    with closing(Deduplicator(settings)) as dedup:
        for ready, batch in judge_batches(dedup, lines):
            items += int(np.count_nonzero(ready.kinds == ITEM))
            candidates += _proposed(dedup, ready, _originals(ready, batch))
            verdicts += batch.verdicts
    return Judged(verdicts, candidates / max(items, 1))


def _originals(ready: Prepared, batch: Batch) -> NDArray[np.bool_]:
    """Which subjects of the batch pass, and so may be candidates of later ones."""
    verdicts = [
        verdict for item, verdict in zip(ready.items, batch.verdicts, strict=True) if not isinstance(item, BadItem)
    ]
    is_original: NDArray[np.bool_] = ready.kinds == ITEM
    is_original &= np.array([verdict.forward for verdict in verdicts], np.bool_)
    return is_original


def _proposed(dedup: Deduplicator, ready: Prepared, is_original: NDArray[np.bool_]) -> int:
    """Count the originals in the index and in the batch that share a key, other than that of the id, with an item.

    Those in the index count within a window of the stream's time, which is each item's own on a feed in order.
    """
    keys = np.zeros_like(ready.prints.keys)
    is_item = ready.kinds == ITEM
    keys[is_item, :-1] = ready.prints.keys[is_item, :-1]  # the last column is that of ids
    horizon = max(dedup.watermark - dedup.settings.window.length_ms, EARLIEST)
    items, _ = dedup.index.lookup(keys, np.full(len(keys), horizon))
    # The originals of this batch, in an index of their own.
    batch = HybridIndex(
        dedup.scheme.table_of,
        limits=dedup.settings.index,
        background=False,
        dont_care_bits=dedup.scheme.dont_care_bits,
        max_hamming=dedup.settings.fingerprint.hamming,
    )
    originals = np.flatnonzero(is_original)
    batch.add(keys[originals], np.zeros(len(originals), np.int64))
    later, rows = batch.lookup(keys, np.zeros(len(keys), np.int64), len(keys))
    return len(items) + int(np.count_nonzero(originals[rows] < later))
