"""The kernels that follow the fingerprint, compiled in a process of their own: nothing in; out goes their number.

`python -m stream_dedup.demo.beside` judges made-up fingerprints. A third of what is compiled is the kernel that
makes fingerprints, and numba compiles one kernel at a time in a process; so the rest is compiled here at the same time,
and found in numba's cache by the other process (warm.py). Nothing depends on it: what it does not meet is compiled when
it is needed.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.prepared import Prepared
from stream_dedup.dedup.resolve import ITEM
from stream_dedup.dedup.verdict import Kind
from stream_dedup.fingerprint.fingerprint import WORD_BYTES, Fingerprints, Prose
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings

# A small tree and a window of hours: it merges and expires on the way.
BUSY: Mapping[str, Any] = {"index": {"recent_limit": 16}, "window": {"length": "6h"}}
_HOUR = 3_600_000
# A trickle goes to the recent tree, a bulk batch straight to a sorted run.
_BATCHES = (3, 3, 100, 3, 3, 100, 3)
_COPIES = 3
_PASSAGE = 12  # shingles


def judge_made_up() -> Counter[Kind]:
    """Judges and remembers batches of fingerprints that nobody's text has, every three of them alike; the verdicts."""
    settings, first, found = load_settings(**BUSY), 0, Counter[Kind]()
    with Deduplicator(settings) as dedup:
        for count in _BATCHES:
            batch = dedup.judge(_made_up(dedup.scheme, first, count))
            found.update(batch.counts())
            dedup.apply(batch)
            first += count
    return found


def _made_up(scheme: Scheme, first: int, count: int) -> Prepared:
    numbers = np.arange(first, first + count)
    items = [
        Item(str(n), f"Title {n}", f"Text {n}", f"{n % 5}.example", int(n) * _HOUR // 10, 0, int(n)) for n in numbers
    ]
    stories = [np.random.default_rng(int(n) // _COPIES) for n in numbers]  # the same numbers for each copy
    records = np.concatenate(
        [np.frombuffer(story.bytes(scheme.signature_dtype.itemsize), scheme.signature_dtype) for story in stories]
    )
    records["row_id"], records["offset"], records["partition"] = numbers + 1, numbers, 0
    records["time"] = [item.time for item in items]
    records["digest"] = numbers + 1  # no two texts are the same: so views are compared
    keys = np.stack([story.integers(1, 2**32, scheme.tables, np.uint32) for story in stories])
    keys[:, -2:] = numbers[:, None] + 1
    words = np.zeros((count, WORD_BYTES), np.uint8)
    starts = np.arange(count) * _PASSAGE
    prose = Prose(
        np.arange(count),
        np.arange(count) + 1,
        np.concatenate([story.integers(1, 2**64, _PASSAGE, np.uint64) for story in stories]),
        starts,
        starts + _PASSAGE,
        np.array([story.integers(1, 2**32) for story in stories], np.uint32),
        np.full(count, float(_PASSAGE), np.float32),
    )
    prints = Fingerprints(records, keys, words, scheme.settings.hamming, [], prose)
    return Prepared(items, items, prints, np.full(count, ITEM, np.int8))


if __name__ == "__main__":
    from stream_dedup.demo.warm import counted  # which starts this module as a process

    with counted() as names:
        judge_made_up()
    sys.stdout.write(f"{len(names)}\n")
