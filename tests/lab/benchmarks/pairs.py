"""Compare `pairs` with text-dedup's MinHash and datasketch's LSH: the same file in, near-duplicates out.

All three search for bodies with a Jaccard similarity of word 3-shingles of at least .8; the reference are all such
pairs, found exactly (`alike_pairs`).

- Ours runs from the file to its two outputs, with `decision.jaccard = .76`, since a sketch errs by .02.
- text-dedup runs from the file to the deduplicated data set, with its usual threshold of .7, which raises its recall.
- datasketch runs as its users write it, from texts in memory, on a sample of the items, since all would take minutes.

Ours and text-dedup use all processors, datasketch only one. text-dedup returns clusters, not pairs: it finds a pair if
both items are in one cluster. The same measure is given for our clusters, beside that of our pairs.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
import numpy as np
from datasketch import MinHashLSH
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.batch.pairs import find_pairs
from stream_dedup.tools.evaluate.exact import ShingleSets, alike_pairs, body_sets
from tests.lab.benchmarks import apart
from tests.lab.benchmarks.corpus import Run, news
from tests.lab.benchmarks.interleave import speedup
from tests.lab.benchmarks.peers import datasketch_minhash

THRESHOLD = 0.8
# Measured: at .8 the pairs have recall .995, precision .997; at .76 .9999 and .983; text-dedup's clusters .9997, .924.
_BODY_THRESHOLD = 0.76
# Its usual threshold, our shingles, and 256 permutations.
_TEXT_DEDUP_ARGUMENTS = ("0.7", "3", "256")


# datasketch gets every eighth item.
_DATASKETCH_EVERY = 8
# More pairs than any corpus here has.
_ALL = 10_000_000


def settings() -> Settings:
    """Return settings that compare bodies by plain Jaccard similarity."""
    return load_settings(decision={"jaccard": _BODY_THRESHOLD})


def measure(run: Run) -> dict[str, float]:
    """Return seconds, ratios and recalls."""
    if (text_dedup := apart.python_of("text_dedup", click.echo)) is None:
        raise ModuleNotFoundError("text-dedup is not installed")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        corpus = directory / "corpus.jsonl"
        items = _write(run, corpus)
        # The first run warms the caches.
        find_pairs([corpus], directory / "p", directory / "c", settings=settings())
        times: dict[str, list[float]] = {"ours": [], "text_dedup": []}
        for _ in range(run.rounds):
            start = time.perf_counter()
            summary = find_pairs([corpus], directory / "p.jsonl", directory / "c.jsonl", settings=settings())
            times["ours"].append(time.perf_counter() - start)
            text_dedup_result = apart.run(text_dedup, "text_dedup_pairs", str(corpus), *_TEXT_DEDUP_ARGUMENTS)
            times["text_dedup"].append(text_dedup_result["seconds"])
        sample = items[::_DATASKETCH_EVERY]
        datasketch_seconds, datasketch_pairs = _datasketch(sample)
        position = {item.id: i for i, item in enumerate(items)}
        our_pairs = _codes(_rows(directory / "p.jsonl", "a", position), _rows(directory / "p.jsonl", "b", position))
        clusters = np.arange(len(items))  # an item without a cluster stays alone
        clusters[_rows(directory / "c.jsonl", "id", position)] = _rows(directory / "c.jsonl", "story", position)
    print(f"{len(items):,} items; the exact pairs ...", file=sys.stderr)
    sets = body_sets(items, Fingerprinter(Scheme(settings().fingerprint)))
    earlier, later, _ = alike_pairs(sets, THRESHOLD, most=_ALL, comparisons=2**62)
    exact = _codes(earlier, later)
    text_dedup_clusters = np.array(text_dedup_result["clusters"])
    sampled = np.zeros(len(items), np.bool_)
    sampled[::_DATASKETCH_EVERY] = True
    exact_of_sample = exact[sampled[earlier] & sampled[later]]
    seconds = statistics.median(times["ours"])
    return {
        "pairs_items": len(items),
        "pairs_seconds": seconds,
        "pairs_items_per_second": len(items) / seconds,
        "pairs_found": summary.pairs,
        "pairs_exact": len(exact),
        "pairs_recall": _share(exact, our_pairs),
        "pairs_precision": _share(_with_bodies(our_pairs, sets), exact),
        "pairs_cluster_recall": float(np.mean(clusters[earlier] == clusters[later])),
        "pairs_cluster_precision": _share(_with_bodies(_pairs_within(clusters), sets), exact),
        "pairs_text_dedup_seconds": statistics.median(times["text_dedup"]),
        "pairs_text_dedup_cluster_recall": float(np.mean(text_dedup_clusters[earlier] == text_dedup_clusters[later])),
        "pairs_text_dedup_cluster_precision": _share(_with_bodies(_pairs_within(text_dedup_clusters), sets), exact),
        **speedup("pairs_vs_text_dedup", times["ours"], times["text_dedup"]),
        "pairs_datasketch_items_per_second": len(sample) / datasketch_seconds,
        "pairs_datasketch_recall": _share(exact_of_sample, datasketch_pairs * np.uint64(_DATASKETCH_EVERY)),
        "pairs_vs_datasketch": (datasketch_seconds / len(sample)) / (seconds / len(items)),
    }


def _write(run: Run, path: Path) -> list[Item]:
    """Write all items of the corpora, or the news of the run, to one plain file; return them in order."""
    found = news(run.corpora, sys.maxsize) if run.corpora else run.news
    rows = ({"id": item.id, "title": item.title, "text": item.text, "source": item.source} for _, item in found)
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return [item for _, item in found]


def _datasketch(items: Sequence[Item]) -> tuple[float, NDArray[np.uint64]]:
    """Return the seconds and the pairs found, as codes of positions in `items`; unverified, as those of text-dedup."""
    lsh = MinHashLSH(threshold=THRESHOLD, num_perm=128)
    first, second = [], []
    start = time.perf_counter()
    for number, item in enumerate(items):
        if item.text:
            sketch = datasketch_minhash(item.text)
            matches = lsh.query(sketch)
            first += matches
            second += [number] * len(matches)
            lsh.insert(number, sketch, check_duplication=False)
    return time.perf_counter() - start, _codes(np.array(first, np.int64), np.array(second, np.int64))


def _rows(path: Path, column: str, position: dict[str, int]) -> NDArray[np.int64]:
    return np.array([position[json.loads(line)[column]] for line in path.read_bytes().splitlines()], np.int64)


def _codes(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.uint64]:
    return (np.maximum(first, second).astype(np.uint64) << np.uint64(32)) | np.minimum(first, second).astype(np.uint64)


def _pairs_within(clusters: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the codes of all pairs of items in the same cluster."""
    order = np.argsort(clusters, kind="stable")
    first, second = [], []
    for group in np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1):
        left, right = np.triu_indices(len(group), 1)
        first.append(group[left])
        second.append(group[right])
    return _codes(np.concatenate(first), np.concatenate(second))


def _with_bodies(codes: NDArray[np.uint64], sets: ShingleSets) -> NDArray[np.uint64]:
    """Drop pairs in which an item has no body: the exact reference compares bodies only."""
    first, second = codes >> np.uint64(32), codes & np.uint64(0xFFFFFFFF)
    return codes[(sets.sizes[first] > 0) & (sets.sizes[second] > 0)]


def _share(wanted: NDArray[np.uint64], present: NDArray[np.uint64]) -> float:
    return float(np.isin(wanted, present).mean()) if len(wanted) else 1.0
