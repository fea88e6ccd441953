"""Compile the kernels of index and decision in a second process, while the first one compiles the fingerprints.

`python -m stream_dedup.precompile.second_process` judges synthetic fingerprints. A third of the compilation time goes
into the kernel that makes fingerprints, and numba compiles one kernel at a time in a process. So this process compiles
the other kernels at the same time, and the first process finds them in numba's cache (kernels.py). Nothing depends on
this process: a kernel that it misses is compiled when it is needed.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_dedup.dedup.batch import ITEM, Prepared
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind
from stream_dedup.fingerprint.fingerprint import WORD_SET_BYTES, Fingerprints, Texts
from stream_dedup.fingerprint.kernel import MOST_HEADLINE_NUMBERS
from stream_dedup.fingerprint.scheme import HEADLINE_FEATURES, Scheme
from stream_dedup.fingerprint.sentences import Passages
from stream_dedup.fingerprint.word_filter import FILTER_BITS, Numbers
from stream_dedup.news.item import Item
from stream_dedup.precompile.compilations import count_compilations
from stream_dedup.settings import load_settings

# A small tree and a window of hours, so that the index merges and expires on the way.
BUSY_INDEX: Mapping[str, Any] = {"index": {"recent_limit": 16}, "window": {"length": "6h"}}
_HOUR = 3_600_000
# A small batch goes to the recent tree, a bulk batch straight to a sorted run. A batch of one row is another type to
# numba than a batch of several.
_BATCHES = (3, 3, 1, 1, 1, 100, 3, 1, 1, 1, 3, 100, 3)
_COPIES = 3
_TOKENS = 20  # of a text of one passage, with a shingle for each token and one number


def judge_synthetic() -> Counter[Kind]:
    """Judge and remember batches of synthetic fingerprints, each three of them alike; return the verdicts' counts."""
    settings, first, kinds = load_settings(**BUSY_INDEX), 0, Counter[Kind]()
    with Deduplicator(settings) as dedup:
        for count in _BATCHES:
            batch = dedup.judge(_synthetic(dedup.scheme, first, count))
            kinds.update(batch.counts())
            dedup.apply(batch)
            first += count
        list(dedup.export(first))
    return kinds


def _synthetic(scheme: Scheme, first: int, count: int) -> Prepared:
    numbers = np.arange(first, first + count)
    items = [
        Item(str(n), f"Title {n}", f"Text {n}", f"{n % 5}.example", int(n) * _HOUR // 10, 0, int(n)) for n in numbers
    ]
    stories = [np.random.default_rng(int(n) // _COPIES) for n in numbers]  # the same numbers for each copy
    signatures = np.concatenate(
        [np.frombuffer(story.bytes(scheme.signature_dtype.itemsize), scheme.signature_dtype) for story in stories]
    )
    signatures["row_id"], signatures["offset"], signatures["partition"] = numbers + 1, numbers, 0
    signatures["time"] = [item.time for item in items]
    signatures["digest"] = numbers + 1  # no two texts are equal, so the similarities are asked for
    keys = np.stack([story.integers(1, 2**32, scheme.key_columns, np.uint32) for story in stories])
    keys[:, -2:] = numbers[:, None] + 1
    words = np.zeros((count, WORD_SET_BYTES), np.uint8)
    shingles = np.concatenate([story.integers(1, 2**64, _TOKENS, np.uint64) for story in stories])
    hashes = (shingles >> np.uint64(32)).astype(np.uint32)
    places, flags = np.arange(count + 1), np.ones(count, np.bool_)
    firsts, lasts = np.stack([places[:-1]] * 2, axis=1), np.stack([places[1:]] * 2, axis=1)
    starts, ends = places[:-1] * _TOKENS, places[1:] * _TOKENS
    texts = Texts(
        firsts,
        lasts,
        np.zeros((count, HEADLINE_FEATURES), np.uint32),
        np.zeros((count, MOST_HEADLINE_NUMBERS), np.uint32),
        (hashes % FILTER_BITS).astype(np.uint16),
        shingles,
        Numbers(hashes[::_TOKENS].copy(), starts.astype(np.int32)),
        Passages(ends, hashes[::_TOKENS].copy(), flags, flags, starts, ends),
    )
    prints = Fingerprints(signatures, keys, words, scheme.settings.hamming, [], texts)
    return Prepared(items, items, prints, np.full(count, ITEM, np.int8), np.zeros(count, np.bool_))


if __name__ == "__main__":
    with count_compilations() as names:
        judge_synthetic()
    sys.stdout.write(f"{len(names)}\n")
