"""Text -> verdict, one thread: ours against datasketch's MinHashLSH on the same texts.

The peer does what its users write: lower-cased words, 3-shingles, MinHash of 128 permutations, an LSH at
threshold .8; query, and insert what has no match. Rounds are interleaved; the median counts.
"""

import re
import statistics
import time
from collections.abc import Callable, Sequence

from datasketch import MinHash, MinHashLSH

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.item import Item

_BATCH = 1000
_WORD = re.compile(r"\w+")


def ours(items: Sequence[Item]) -> int:
    """Items held back."""
    dedup, held = Deduplicator(), 0
    for start in range(0, len(items), _BATCH):
        batch = dedup.judge(items[start : start + _BATCH])
        dedup.apply(batch)
        held += sum(not verdict.forward for verdict in batch.verdicts)
    dedup.close()
    return held


def datasketch(items: Sequence[Item]) -> int:
    """Items held back."""
    lsh, held = MinHashLSH(threshold=0.8, num_perm=128), 0
    for n, item in enumerate(items):
        words = _WORD.findall(f"{item.title} {item.text}".lower())
        sketch = MinHash(num_perm=128)
        sketch.update_batch([" ".join(words[i : i + 3]).encode() for i in range(max(1, len(words) - 2))])
        if lsh.query(sketch):
            held += 1
        else:
            lsh.insert(n, sketch, check_duplication=False)
    return held


def measure(items: Sequence[Item], rounds: int) -> dict[str, float]:
    """Items a second of both, and their ratio round by round (median, lowest, highest)."""
    ours(items[:2000])  # compiled kernels are loaded, caches are warm
    datasketch(items[:50])
    times: dict[str, list[float]] = {"ours": [], "datasketch": []}
    held = {}
    engines: dict[str, Callable[[Sequence[Item]], int]] = {"ours": ours, "datasketch": datasketch}
    for _ in range(rounds):
        for name, run in engines.items():
            start = time.perf_counter()
            held[name] = run(items)
            times[name].append(time.perf_counter() - start)
    ratios = [b / a for a, b in zip(times["ours"], times["datasketch"], strict=True)]
    return {
        "items": len(items),
        "ours_items_per_second": len(items) / statistics.median(times["ours"]),
        "datasketch_items_per_second": len(items) / statistics.median(times["datasketch"]),
        "ours_held_back": held["ours"],
        "datasketch_held_back": held["datasketch"],
        "engine_vs_datasketch": statistics.median(ratios),
        "engine_vs_datasketch_low": min(ratios),
        "engine_vs_datasketch_high": max(ratios),
    }
