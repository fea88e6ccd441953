"""What an original costs in memory, and how long a restore and a start take.

Memory is resident memory of a process of its own, not a sum of array sizes; restore is from changelog blocks in
memory,
without Kafka's part. Originals are synthetic: random sketches and keys, as hashes are.

python -m tests.benchmarks.index --only memory --originals 10000000
"""

import contextlib
import ctypes
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stream_dedup.changelog.block import decode, encode
from stream_dedup.dedup.batch import FORGOTTEN, Delta
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.evaluate.planner import footprint
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.index.check import merge

DEFAULT: dict[str, dict[str, Any]] = {}
COMPACT: dict[str, dict[str, Any]] = {
    "fingerprint": {"family": "simhash", "layout": "4 choose 1", "hamming": 3, "views": "body"}
}
PROFILES = {"default": DEFAULT, "compact": COMPACT}
ID_BYTES = 40  # a SHA-1 in hexadecimal, the longest ids that feeds commonly have
_DAY = 86_400_000


def deltas(settings: Settings, originals: int, batch: int) -> Iterator[Delta]:
    """What a changelog of so many unlike originals says: random sketches and keys, rising times within a day."""
    scheme, random = Scheme(settings.fingerprint), np.random.default_rng(1)
    for start in range(0, originals, batch):
        n = min(batch, originals - start)
        records = np.frombuffer(random.bytes(n * scheme.signature_dtype.itemsize), scheme.signature_dtype).copy()
        records["time"] = np.linspace(start, start + n, n) / originals * _DAY
        keys = random.integers(1, 2**32, (n, scheme.tables), np.uint32)
        ids = [f"{number:0{ID_BYTES}x}" for number in range(start, start + n)]
        yield Delta(records, keys, ids, np.empty(0, FORGOTTEN), int(records["time"][-1]))


def _resident() -> int:
    """Bytes of this process in memory, after whatever can be given back was given back."""
    with contextlib.suppress(OSError):  # another C library keeps what it keeps
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _resident_bytes(profile: str, originals: int) -> float:
    settings = load_settings(**PROFILES[profile])
    warm = Deduplicator(settings)
    for delta in deltas(settings, 100_000, 20_000):
        warm.restore(delta)
    merge(warm.index)
    warm.close()
    del warm, delta
    before = _resident()
    dedup = Deduplicator(settings)
    for delta in deltas(settings, originals, 20_000):
        dedup.restore(delta)
    del delta
    merge(dedup.index)
    after = _resident()
    dedup.close()
    return (after - before) / originals


def measure_memory(originals: int = 10**7) -> dict[str, float]:
    """Resident bytes an original of each profile, ids of 40 bytes and all else included, and what `plan` says."""
    out = {}
    for profile, tables in PROFILES.items():
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.memory", profile, str(originals)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        measured = float(json.loads(done.stdout))
        planned = footprint(Scheme(load_settings(**tables).fingerprint), originals, ID_BYTES).bytes_per_item
        out[f"bytes_per_original_{profile}"] = measured
        out[f"plan_bytes_per_original_{profile}"] = planned
        out[f"plan_vs_measured_{profile}"] = planned / measured
    return out


def measure_restore(originals: int = 10**6, rounds: int = 3) -> dict[str, float]:
    """Seconds a million originals from changelog blocks in memory to the first verdict; and to start with none.

    A start is a new process: import, kernels from the cache, the first item judged. Kafka's part is not in it.
    """
    settings, dedup = load_settings(), Deduplicator()
    scheme = dedup.scheme
    dedup.close()
    item = Item(
        "first", "Elm bridge opens", "The bridge over the Elm opened on Monday after two years.", "a.example", 0
    )
    seconds: dict[str, list[float]] = {"decode": [], "restore": [], "first": []}
    size = 0
    for _ in range(rounds):
        dedup = Deduplicator()
        spent = dict.fromkeys(seconds, 0.0)
        size = 0
        for delta in deltas(settings, originals, settings.worker.batch_items):
            block = encode(delta, scheme.id)
            size += len(block)
            start = time.perf_counter()
            decoded = decode(block, scheme.id, scheme.signature_dtype)
            spent["decode"] += time.perf_counter() - start
            start = time.perf_counter()
            dedup.restore(decoded)
            spent["restore"] += time.perf_counter() - start
        start = time.perf_counter()
        dedup.judge([item])
        spent["first"] += time.perf_counter() - start
        dedup.close()
        for name, value in spent.items():
            seconds[name].append(value / originals * 1e6)
    total = [sum(parts) for parts in zip(*seconds.values(), strict=True)]
    return {
        "restore_s_per_million": statistics.median(total),
        **{f"restore_{name}_s_per_million": statistics.median(some) for name, some in seconds.items()},
        "changelog_bytes_per_original": size / originals,
        "start_s": statistics.median(_starts(rounds)),
    }


_START = """
from stream_dedup import Deduplicator, Item
dedup = Deduplicator()
dedup.apply(dedup.judge([Item("1", "Elm bridge opens", "The bridge over the Elm opened on Monday.", "a.example", 0)]))
dedup.close()
"""


def _starts(rounds: int) -> Iterator[float]:
    subprocess.run([sys.executable, "-c", _START], check=True)
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", _START], check=True)
        yield time.perf_counter() - start


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_resident_bytes(sys.argv[1], int(sys.argv[2]))))
