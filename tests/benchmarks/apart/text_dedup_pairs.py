"""Time text-dedup's MinHash deduplication: FILE THRESHOLD NGRAM PERMUTATIONS -> {"seconds", "real", "clusters"}.

The script runs the command that its users run; imports are not counted. If text-dedup is not installed ("real": false),
it runs the same steps itself: the kernel (`embed_func`) and the clustering of ChenghaoMou/text-dedup,
text_dedup/minhash.py 0.4.0, Apache-2.0, reproduced without the `datasets` library. So the peer then does not pay for
loading and saving.
"""

import hashlib
import json
import os
import re
import struct
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np

_NON_ALPHA = re.compile(r"\W", re.UNICODE)
_KERNEL: list[Callable[[str], list[bytes]]] = []  # a global, so that forked processes inherit it
_PRIME, _MAX = np.uint64((1 << 61) - 1), np.uint32((1 << 32) - 1)


def by_command(path: Path, threshold: float, ngram: int, permutations: int) -> tuple[float, list[int]]:
    """Run the whole command with all processors, its default; return the seconds and each row's cluster."""
    with tempfile.TemporaryDirectory() as directory:
        # An empty cache, so that no round profits from an earlier one.
        os.environ |= {"HF_HOME": directory, "HF_HUB_OFFLINE": "1"}
        from text_dedup import minhash

        arguments = {
            "path": "json", "data_files": str(path), "split": "train", "cache_dir": f"{directory}/cache",
            "output": f"{directory}/out", "column": "text", "ngram": ngram, "num_perm": permutations,
            "threshold": threshold,
        }  # fmt: skip
        start = time.perf_counter()
        minhash.main([f"--{name}={value}" for name, value in arguments.items()], standalone_mode=False)
        seconds = time.perf_counter() - start
    rows = len(path.read_bytes().splitlines())
    return seconds, [minhash.uf.find(row) for row in range(rows)]


def by_kernel(path: Path, threshold: float, ngram: int, permutations: int) -> tuple[float, list[int]]:
    """Run the same steps without the library; return the seconds and each row's cluster."""
    bands, rows = _bands(threshold, permutations)
    random = np.random.RandomState(42)
    a = random.randint(1, _PRIME, size=(permutations,), dtype=np.uint64)
    b = random.randint(0, _PRIME, size=(permutations,), dtype=np.uint64)

    def embed(text: str) -> list[bytes]:
        words = _NON_ALPHA.split(text.lower())
        if len(words) < 5:
            return []
        shingles = {" ".join(words[i : i + ngram]).encode() for i in range(max(1, len(words) - ngram + 1))}
        hashes = np.array(
            [struct.unpack("<I", hashlib.sha1(one).digest()[:4])[0] for one in shingles],  # noqa: S324 - the peer's
            dtype=np.uint64,
        )
        hashes = ((hashes.reshape(-1, 1) * a + b) % _PRIME & _MAX).min(axis=0)
        return [bytes(hashes[i * rows : (i + 1) * rows].byteswap().data) for i in range(bands)]

    start = time.perf_counter()
    texts = [json.loads(line)["text"] for line in path.read_bytes().splitlines()]
    _KERNEL.append(embed)
    with get_context("fork").Pool(os.cpu_count()) as pool:
        keys = pool.map(_call, texts, chunksize=500)
    tables: list[dict[bytes, set[int]]] = [defaultdict(set) for _ in range(bands)]
    for row, found in enumerate(keys):
        for table, key in zip(tables, found, strict=False):
            table[key].add(row)
    parent = list(range(len(texts)))

    def find(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for table in tables:
        for bucket in table.values():
            first = min(bucket)
            for row in bucket:
                x, y = find(row), find(first)
                parent[max(x, y)] = min(x, y)
    clusters = [find(row) for row in range(len(texts))]
    return time.perf_counter() - start, clusters


def _call(text: str) -> list[bytes]:
    return _KERNEL[0](text)


def _bands(threshold: float, permutations: int) -> tuple[int, int]:
    """Return the bands and rows with the fewest false positives and false negatives together, as datasketch does."""
    s = np.linspace(0, 1, 1001)
    best = (np.inf, 1, 1)
    for bands in range(1, permutations + 1):
        for rows in range(1, permutations // bands + 1):
            found = 1 - (1 - s**rows) ** bands
            cost = found[s < threshold].sum() + (1 - found[s >= threshold]).sum()
            best = min(best, (cost, bands, rows))
    return best[1], best[2]


def main() -> None:
    path, threshold, ngram, permutations = sys.argv[1:]
    try:
        import text_dedup  # noqa: F401
    except ImportError:
        real, run = False, by_kernel
    else:
        real, run = True, by_command
    seconds, clusters = run(Path(path), float(threshold), int(ngram), int(permutations))
    sys.stdout.write("\n" + json.dumps({"seconds": seconds, "real": real, "clusters": clusters}) + "\n")


if __name__ == "__main__":
    main()
