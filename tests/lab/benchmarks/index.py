"""Measure the index alone on synthetic fingerprints: lookups, inserts, pauses during merges.

Keys and fingerprints are random, as hashes are. In a batch of lookups half of the items are new, and half are copies of
stored ones. The peers are FAISS's binary indexes of SimHashes: a flat one (compares with all) and the multi-hash
(buckets of 16 bits, as our "4 choose 1"). All have the recall that the pigeonhole principle guarantees.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.simhash import Layout, layout
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.settings import load_settings
from tests.index.check import merge, rows_held
from tests.lab.benchmarks.corpus import Run

LAYOUTS = {"4c1": layout(3, is_compact=True), "5c2": layout(3)}
LAYOUT_OF_SIX = {"8c2": layout(6)}
DEFAULT = Scheme(load_settings().fingerprint).table_of
_BATCH = 500
_FILL = 200_000
_MERGES = 2  # with 10 million rows, each merge adds a quarter; the last takes 12 GB at 30 tables


def _short(n: int) -> str:
    return f"{n // 10**6}m" if n >= 10**6 else f"{n // 1000}k"


# -- the index -----------------------------------------------------------------------------------------------


class _MinHash:
    """Synthetic random keys, in the tables of a scheme."""

    def __init__(self, table_of: Sequence[int]) -> None:
        self.table_of = table_of
        self.near: dict[str, Any] = {}

    def items(self, n: int, seed: int) -> NDArray[np.uint32]:
        return np.random.default_rng(seed).integers(1, 2**32, (n, len(self.table_of)), np.uint32)

    def keys(self, items: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return items

    def copies(self, items: NDArray[np.uint32], random: np.random.Generator) -> NDArray[np.uint32]:
        """Make copies that share about half of the keys of their originals."""
        same = random.random(items.shape) < 0.5
        return np.where(same, items, random.integers(1, 2**32, items.shape, np.uint32))


class _SimHash:
    """Synthetic SimHashes of 64 random bits under a layout; k bits of a copy are flipped."""

    def __init__(self, tables: Layout, k: int = 3) -> None:
        self.layout, self.table_of, self.k = tables, range(tables.tables), k
        self.near = {"dont_care_bits": self.layout.dont_care_bits, "max_hamming": k}

    def items(self, n: int, seed: int) -> NDArray[np.uint64]:
        return np.random.default_rng(seed).integers(0, 2**64, n, np.uint64)

    def keys(self, items: NDArray[np.uint64]) -> NDArray[np.uint32]:
        return self.layout.keys(items)

    def copies(self, items: NDArray[np.uint64], random: np.random.Generator) -> NDArray[np.uint64]:
        bits = np.argsort(random.random((len(items), 64)), axis=1)[:, : self.k].astype(np.uint64)
        return items ^ np.bitwise_or.reduce(np.uint64(1) << bits, axis=1)


_Family = _MinHash | _SimHash


def _stored(family: _Family, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the originals in blocks, each with the row at which it starts."""
    for start in range(0, n, _FILL):
        yield start, family.items(min(_FILL, n - start), start // _FILL)


def _filled(family: _Family, n: int, *, background: bool = False) -> HybridIndex:
    """Build an index of n originals in one run; original r is row r % _FILL of items(_FILL, r // _FILL)."""
    index = HybridIndex(family.table_of, background=background, **family.near, bucket_limit=1024)
    for start, items in _stored(family, n):
        keys = family.keys(items)
        index.add(keys, np.arange(start, start + len(keys)), defer_sort=True)
    merge(index)
    return index


def _queries(family: _Family, n: int, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Make a batch; return its items and the row that each copies, -1 for new items."""
    block = int(random.integers(0, (n - 1) // _FILL + 1))
    stored = family.items(min(_FILL, n - block * _FILL), block)
    copied = random.integers(0, len(stored), _BATCH // 2)
    new = family.items(_BATCH // 2, int(random.integers(10**6, 10**9)))
    items = np.concatenate([new, family.copies(stored[copied], random)])
    return items, np.concatenate([np.full(len(new), -1), block * _FILL + copied])


def _lookups(family: _Family, index: HybridIndex, n: int, rounds: int) -> dict[str, float]:
    """Return the median µs a lookup, the candidates an item, and the recall of copies."""
    random, horizons = np.random.default_rng(5), np.zeros(_BATCH, np.int64)
    seconds, pairs, recalled, copies = [], 0, 0, 0
    for _ in range(rounds):  # other keys each time, since repeated lookups would hit the processor's cache
        items, rows = _queries(family, n, random)
        lookup_keys = family.keys(items)
        start = time.perf_counter()
        items_found, candidates = index.lookup(lookup_keys, horizons)
        seconds.append((time.perf_counter() - start) / _BATCH)
        pairs += len(items_found)
        recalled += len(np.unique(items_found[candidates == rows[items_found]]))
        copies += _BATCH // 2
    return {
        "lookup_us": statistics.median(seconds) * 1e6,
        "candidates": pairs / rounds / _BATCH,
        "recall": recalled / copies,
    }


def _inserts(family: _Family, n: int) -> float:
    """Return the µs a row to build an index of n rows in batches of 1000, with all merges in the foreground."""
    index = HybridIndex(family.table_of, background=False, **family.near)
    spent = 0.0
    for start, items in _stored(family, n):
        keys = family.keys(items)
        times = np.arange(start, start + len(keys))
        started = time.perf_counter()
        for offset in range(0, len(keys), 1000):
            index.add(keys[offset : offset + 1000], times[offset : offset + 1000])
        spent += time.perf_counter() - started
    return spent / n * 1e6


def _pauses(family: _Family, index: HybridIndex, n: int) -> dict[str, float]:
    """Return the ms of a batch of 500 lookups during background merges of the whole index, and for as long without.

    Each merge joins all rows with a run of a quarter of their number. A hypervisor causes pauses of up to half a
    second, more while both cores are busy and new memory is touched. So a single long pause means nothing: pauses above
    20 ms are counted.
    """
    random = np.random.default_rng(6)
    horizons = np.zeros(_BATCH, np.int64)
    lookup_keys = [family.keys(_queries(family, n, random)[0]) for _ in range(16)]
    times: dict[str, list[float]] = {"merge": [], "idle": []}

    def timed(name: str) -> None:
        start = time.perf_counter()
        index.lookup(lookup_keys[len(times[name]) % 16], horizons)
        times[name].append((time.perf_counter() - start) * 1e3)

    for turn in range(_MERGES):
        merges, stored = index._tiers.merges, rows_held(index)
        new_keys = family.keys(family.items(-(-stored // 4), 10**9 + turn))
        index.add(new_keys, np.full(len(new_keys), stored), defer_sort=True)
        index.lookup(lookup_keys[0], horizons)  # sorts the new rows, which starts the merge
        start = time.perf_counter()
        while index._tiers.merges == merges:
            timed("merge")
            index.lookup(lookup_keys[0][:1], horizons[:1])  # adopts the merged run when it is finished
        timed("merge")  # the first lookup in the new run
        end = 2 * time.perf_counter() - start
        while time.perf_counter() < end:
            timed("idle")
    out: dict[str, float] = {}
    for name, values in times.items():
        for what, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            out[f"pause_ms_{what}_{name}"] = float(np.quantile(values, share))
        out[f"pauses_over_20_ms_a_minute_{name}"] = sum(pause > 20 for pause in values) * 60e3 / sum(values)
    return out


def _as_bytes(simhashes: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return simhashes[:, None].view(np.uint8)


def _faiss(n: int, rounds: int) -> dict[str, float]:
    """Return µs an item and recall within 3 bits of FAISS's binary indexes on the same SimHashes."""
    import faiss

    family = _SimHash(LAYOUTS["4c1"])
    stored = _as_bytes(np.concatenate([items for _, items in _stored(family, n)]))
    faiss.omp_set_num_threads(1)
    out: dict[str, float] = {}
    multi = faiss.IndexBinaryMultiHash(64, 4, 16)
    for name, index in (("flat", faiss.IndexBinaryFlat(64)), ("multihash", multi)):
        start = time.perf_counter()
        index.add(stored)
        out[f"faiss_{name}_insert_us_{_short(n)}"] = (time.perf_counter() - start) / n * 1e6
        random, seconds, recalled, copies = np.random.default_rng(5), [], 0, 0
        for _ in range(rounds if name == "multihash" else 2):
            items, rows = _queries(family, n, random)
            subset = slice(_BATCH // 2 - 25, _BATCH // 2 + 25) if name == "flat" else slice(None)
            items, rows = np.ascontiguousarray(items[subset]), rows[subset]
            start = time.perf_counter()
            bounds, _, labels = index.range_search(_as_bytes(items), 4)  # distances below 4, so up to 3
            seconds.append((time.perf_counter() - start) / len(items))
            hits = [rows[i] in labels[bounds[i] : bounds[i + 1]] for i in np.flatnonzero(rows >= 0)]
            recalled, copies = recalled + sum(hits), copies + len(hits)
        out[f"faiss_{name}_us_{_short(n)}"] = statistics.median(seconds) * 1e6
        out[f"faiss_{name}_recall"] = recalled / copies
    return out


def _verified(family: _SimHash, index: HybridIndex, n: int, rounds: int) -> float:
    """Return the µs an item of a lookup with the Hamming distances of all candidates, as FAISS's range search does."""
    random, seconds = np.random.default_rng(5), []
    horizons = np.zeros(_BATCH, np.int64)
    stored = np.concatenate([items for _, items in _stored(family, n)])
    for _ in range(rounds):
        items, _ = _queries(family, n, random)
        start = time.perf_counter()
        items_found, rows = index.lookup(family.keys(items), horizons)
        near = np.bitwise_count(items[items_found] ^ stored[rows]) <= family.k
        items_found, rows = items_found[near], rows[near]
        seconds.append((time.perf_counter() - start) / _BATCH)
    return statistics.median(seconds) * 1e6


def measure(run: Run, originals: int = 10**7, rounds: int = 60) -> dict[str, float]:
    """Measure lookups, inserts and pauses of every layout with `originals` originals, whatever the run.

    `lookup_us_simhash_SIZE` is the fastest layout with exact recall within 3 bits; each layout also has its own figure.
    """
    size, out = _short(originals), {}
    families: dict[str, _Family] = {"minhash": _MinHash(DEFAULT)}
    families |= {f"simhash_{name}": _SimHash(tables) for name, tables in LAYOUTS.items()}
    families |= {f"simhash_{name}": _SimHash(tables, 6) for name, tables in LAYOUT_OF_SIX.items()}
    for name, family in families.items():
        index = _filled(family, originals, background=True)
        lookups = _lookups(family, index, originals, rounds if name != "simhash_8c2" else max(rounds // 8, 4))
        out |= {f"{figure}_{name}_{size}": value for figure, value in lookups.items()}
        if name == "simhash_4c1" and isinstance(family, _SimHash):
            out[f"verified_us_simhash_4c1_{size}"] = _verified(family, index, originals, rounds)
        if name in ("minhash", "simhash_4c1"):
            out |= {f"{figure}_{name}_{size}": v for figure, v in _pauses(family, index, originals).items()}
        index.close()
        del index
        if name in ("minhash", "simhash_4c1", "simhash_5c2"):
            out[f"insert_us_{name}_{size}"] = _inserts(family, originals)
    out[f"lookup_us_simhash_{size}"] = min(out[f"lookup_us_simhash_{name}_{size}"] for name in LAYOUTS)
    out |= _faiss(originals, rounds)
    ours = out[f"verified_us_simhash_4c1_{size}"]
    out[f"faiss_multihash_vs_ours_{size}"] = out[f"faiss_multihash_us_{size}"] / ours
    out[f"faiss_flat_vs_ours_{size}"] = out[f"faiss_flat_us_{size}"] / ours
    return out
