"""Compare `pairs` with text-dedup's MinHash and datasketch's LSH: the same file in, near-duplicates out.

All three search for bodies with a Jaccard similarity of word 3-shingles of at least .8; the reference are all such
pairs, found exactly (`all_pairs`).

- Ours runs from the file to its two outputs, with `decision.rule = "jaccard"` at .76, since a sketch errs by .02.
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

import msgspec
import numpy as np
from datasketch import MinHashLSH
from numpy.typing import NDArray

from stream_dedup.batch.lines import read_lines
from stream_dedup.batch.pairs import find_pairs
from stream_dedup.evaluate.exact import ShingleSets, body_sets, shingle_sets
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.benchmarks import apart
from tests.benchmarks.all_pairs import all_pairs
from tests.benchmarks.peers import datasketch_minhash

THRESHOLD = 0.8
# Measured: at .8 the pairs have recall .995, precision .997; at .76 .9999 and .983; text-dedup's clusters .9997, .924.
_BODY_THRESHOLD = 0.76
# Its usual threshold, our shingles, and 256 permutations.
_TEXT_DEDUP_ARGUMENTS = ("0.7", "3", "256")


def settings() -> Settings:
    """Return settings that compare bodies by plain Jaccard similarity."""
    return load_settings(decision={"rule": "jaccard", "body": _BODY_THRESHOLD})


def measure_pairs(
    corpora: Sequence[Path], rounds: int, text_dedup: Path, datasketch_every: int = 8
) -> dict[str, float]:
    """Return seconds, ratios and recalls. `text_dedup`: the Python of its environment."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        corpus = directory / "corpus.jsonl"
        items = _write(corpora, corpus)
        # The first run compiles the kernels and warms the caches.
        find_pairs([corpus], directory / "p", directory / "c", settings=settings())
        times: dict[str, list[float]] = {"ours": [], "text_dedup": []}
        for _ in range(rounds):
            start = time.perf_counter()
            summary = find_pairs([corpus], directory / "p.jsonl", directory / "c.jsonl", settings=settings())
            times["ours"].append(time.perf_counter() - start)
            text_dedup_result = apart.run(text_dedup, "text_dedup_pairs", str(corpus), *_TEXT_DEDUP_ARGUMENTS)
            times["text_dedup"].append(text_dedup_result["seconds"])
        sample = items[::datasketch_every]
        datasketch_seconds, datasketch_pairs = _datasketch(sample)
        position = {item.id: i for i, item in enumerate(items)}
        our_pairs = _codes(_rows(directory / "p.jsonl", "a", position), _rows(directory / "p.jsonl", "b", position))
        clusters = np.arange(len(items))  # an item without a cluster stays alone
        clusters[_rows(directory / "c.jsonl", "id", position)] = _rows(directory / "c.jsonl", "cluster", position)
    print(f"{len(items):,} items; the exact pairs ...", file=sys.stderr)
    sets = shingle_sets(body_sets(items, Fingerprinter(Scheme(settings().fingerprint))))
    later, earlier, _ = all_pairs(sets, THRESHOLD)
    exact = _codes(earlier, later)
    text_dedup_clusters = np.array(text_dedup_result["clusters"])
    sampled = np.zeros(len(items), np.bool_)
    sampled[::datasketch_every] = True
    exact_of_sample = exact[sampled[earlier] & sampled[later]]
    ratios = [theirs / ours for ours, theirs in zip(times["ours"], times["text_dedup"], strict=True)]
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
        "pairs_vs_text_dedup": statistics.median(ratios),
        "pairs_vs_text_dedup_low": min(ratios),
        "pairs_vs_text_dedup_high": max(ratios),
        "pairs_datasketch_items_per_second": len(sample) / datasketch_seconds,
        "pairs_datasketch_recall": _share(exact_of_sample, datasketch_pairs * np.uint64(datasketch_every)),
        "pairs_vs_datasketch": (datasketch_seconds / len(sample)) / (seconds / len(items)),
    }


def _write(corpora: Sequence[Path], path: Path) -> list[Item]:
    """Write the items of all corpora to one plain file; return them in order."""
    decode = Decoder(settings().item)
    items = []
    with path.open("wb") as file:
        for corpus in corpora:
            for line in read_lines(corpus):
                item = decode(line, None, None)
                if isinstance(item, Item):
                    row = {"id": item.id, "title": item.title, "text": item.text, "source": item.source}
                    file.write(msgspec.json.encode(row) + b"\n")
                    items.append(item)
    return items


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
