"""`pairs` against text-dedup's MinHash and datasketch's LSH: the same file in, near-duplicates out.

All three look for bodies with a Jaccard of word 3-shingles of .8 or more, and are measured against all such pairs,
found exactly (`all_pairs`). Ours runs with `decision.rule = "jaccard"` at .76, since a sketch errs by .02, from the
file to the two outputs; text-dedup with its usual threshold of .7, by which it finds more of what is above .8, from the
file to the deduplicated data set; datasketch as its users write it, from texts in memory, on every so-manyth item,
since it would take minutes. Ours and text-dedup use all processors, datasketch has only one. text-dedup tells clusters,
not pairs: a pair counts as found by it if both are in one cluster, and beside our pairs the same is said of our
clusters.
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
from stream_dedup.evaluate.sets import ShingleSets, body_sets, shingle_sets
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
_BODY = 0.76
# Its usual threshold, our shingles, and 256 permutations.
_TEXT_DEDUP = ("0.7", "3", "256")


def settings() -> Settings:
    """Plain Jaccard of the bodies."""
    return load_settings(decision={"rule": "jaccard", "body": _BODY})


def measure_pairs(
    corpora: Sequence[Path], rounds: int = 3, text_dedup: Path | None = None, datasketch_every: int = 8
) -> dict[str, float]:
    """Seconds, ratios and recalls. `text_dedup`: the Python of an environment that has it; None: its kernel."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        corpus = directory / "corpus.jsonl"
        items = _write(corpora, corpus)
        find_pairs([corpus], directory / "p", directory / "c", settings=settings())  # compiles and warms
        times: dict[str, list[float]] = {"ours": [], "text_dedup": []}
        for _ in range(rounds):
            start = time.perf_counter()
            ours = find_pairs([corpus], directory / "p.jsonl", directory / "c.jsonl", settings=settings())
            times["ours"].append(time.perf_counter() - start)
            peer = apart.run(text_dedup or Path(sys.executable), "text_dedup_pairs", str(corpus), *_TEXT_DEDUP)
            times["text_dedup"].append(peer["seconds"])
        sample = items[::datasketch_every]
        datasketch_seconds, datasketch_pairs = _datasketch(sample)
        place = {item.id: i for i, item in enumerate(items)}
        found = _codes(_rows(directory / "p.jsonl", "a", place), _rows(directory / "p.jsonl", "b", place))
        clusters = np.arange(len(items))  # an item that was no item stays alone
        clusters[_rows(directory / "c.jsonl", "id", place)] = _rows(directory / "c.jsonl", "cluster", place)
    print(f"{len(items):,} items; the exact pairs ...", file=sys.stderr)
    sets = shingle_sets(body_sets(items, Fingerprinter(Scheme(settings().fingerprint))))
    later, earlier, _ = all_pairs(sets, THRESHOLD)
    exact = _codes(earlier, later)
    theirs = np.array(peer["clusters"])
    sampled = np.zeros(len(items), np.bool_)
    sampled[::datasketch_every] = True
    of_sample = exact[sampled[earlier] & sampled[later]]
    ratios = [b / a for a, b in zip(times["ours"], times["text_dedup"], strict=True)]
    seconds = statistics.median(times["ours"])
    return {
        "pairs_items": len(items),
        "pairs_seconds": seconds,
        "pairs_items_per_second": len(items) / seconds,
        "pairs_found": ours.pairs,
        "pairs_exact": len(exact),
        "pairs_recall": _share(exact, found),
        "pairs_precision": _share(_with_bodies(found, sets), exact),
        "pairs_cluster_recall": float(np.mean(clusters[earlier] == clusters[later])),
        "pairs_cluster_precision": _share(_with_bodies(_within(clusters), sets), exact),
        "pairs_text_dedup_real": float(peer["real"]),
        "pairs_text_dedup_seconds": statistics.median(times["text_dedup"]),
        "pairs_text_dedup_cluster_recall": float(np.mean(theirs[earlier] == theirs[later])),
        "pairs_text_dedup_cluster_precision": _share(_with_bodies(_within(theirs), sets), exact),
        "pairs_vs_text_dedup": statistics.median(ratios),
        "pairs_vs_text_dedup_low": min(ratios),
        "pairs_vs_text_dedup_high": max(ratios),
        "pairs_datasketch_items_per_second": len(sample) / datasketch_seconds,
        "pairs_datasketch_recall": _share(of_sample, datasketch_pairs * np.uint64(datasketch_every)),
        "pairs_vs_datasketch": (datasketch_seconds / len(sample)) / (seconds / len(items)),
    }


def _write(corpora: Sequence[Path], to: Path) -> list[Item]:
    """One plain file for all, and its items in order."""
    decode = Decoder(settings().item)
    items = []
    with to.open("wb") as file:
        for corpus in corpora:
            for line in read_lines(corpus):
                item = decode(line, None, None)
                if isinstance(item, Item):
                    row = {"id": item.id, "title": item.title, "text": item.text, "source": item.source}
                    file.write(msgspec.json.encode(row) + b"\n")
                    items.append(item)
    return items


def _datasketch(items: Sequence[Item]) -> tuple[float, NDArray[np.uint64]]:
    """Seconds, and the pairs it found as codes of places in `items`; unverified, as text-dedup's are."""
    lsh = MinHashLSH(threshold=THRESHOLD, num_perm=128)
    a, b = [], []
    start = time.perf_counter()
    for n, item in enumerate(items):
        if item.text:
            sketch = datasketch_minhash(item.text)
            near = lsh.query(sketch)
            a += near
            b += [n] * len(near)
            lsh.insert(n, sketch, check_duplication=False)
    return time.perf_counter() - start, _codes(np.array(a, np.int64), np.array(b, np.int64))


def _rows(path: Path, column: str, place: dict[str, int]) -> NDArray[np.int64]:
    return np.array([place[json.loads(line)[column]] for line in path.read_bytes().splitlines()], np.int64)


def _codes(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.uint64]:
    return (np.maximum(a, b).astype(np.uint64) << np.uint64(32)) | np.minimum(a, b).astype(np.uint64)


def _within(clusters: NDArray[np.int64]) -> NDArray[np.uint64]:
    """All pairs of items in one cluster."""
    order = np.argsort(clusters, kind="stable")
    a, b = [], []
    for group in np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1):
        x, y = np.triu_indices(len(group), 1)
        a.append(group[x])
        b.append(group[y])
    return _codes(np.concatenate(a), np.concatenate(b))


def _with_bodies(codes: NDArray[np.uint64], sets: ShingleSets) -> NDArray[np.uint64]:
    """Without pairs of headlines alone, of which the exact sets of bodies say nothing."""
    a, b = codes >> np.uint64(32), codes & np.uint64(0xFFFFFFFF)
    return codes[(sets.sizes[a] > 0) & (sets.sizes[b] > 0)]


def _share(of: NDArray[np.uint64], among: NDArray[np.uint64]) -> float:
    return float(np.isin(of, among).mean()) if len(of) else 1.0
