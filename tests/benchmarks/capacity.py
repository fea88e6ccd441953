"""Measure what the model of `plan --rate` predicts: the judge's cost of an item, and its memory, by originals.

In: the sizes. Out: figures `capacity_FIGURE_SIZE`, beside them `capacity_plan_FIGURE_SIZE` as the model predicts, and
`capacity_plan_off`: times by which the model is off at worst. Each size has a process of its own, because memory is
resident memory. Costs are processor time and contain all merges. Of the rounds the least counts: what other programs
take of the cache only adds.

Originals are synthetic: random sketches and keys, each key shared by about 24 originals, as common phrases are. A
window of originals slides over one and a half times as many, so expiry and its merges are included. The items that are
judged are fingerprints of shuffled texts of the made-up feed under random keys, in four kinds:

- `fresh`: no candidates;
- `crowded`: two keys of originals: 24 unrelated originals are compared, the most (`candidates.MAX_CANDIDATES`);
- `saturated`: all keys of originals, which find some 600: as many as [index] bucket_limit allows. 24 are compared;
- `held`: copies of remembered items, which are held back.

With corpora (`--corpus`), `capacity_news_found_SIZE` and `capacity_news_compared_SIZE` are the originals that share a
key with an item of news, and those of them that are compared.

python -m tests.benchmarks.capacity --originals 1000000
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.dedup.candidates import MAX_CANDIDATES
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.prepared import Prepared
from stream_dedup.evaluate.costs import judge_us, restore_seconds
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import MEMORY_SLACK, footprint, peak_bytes
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.benchmarks import corpus
from tests.benchmarks.memory import ID_BYTES, _resident, deltas

SIZES = (10**4, 10**5, 10**6, 4 * 10**6)
NEWS_SIZES = (5000, 10_000, 20_000, 40_000)
_BATCH = 2000  # worker.batch_items
_DAY = 86_400_000
# The window is two thirds of the stream, so that originals expire during its last third.
_SLIDE = 1.5
_PASSAGES = 10  # of an article of 4 KB
_SPREAD = np.uint32(2_654_435_769)
_COMPARED_MEMORY = 10**6
_SAMPLE = 40_000  # originals whose keys are kept, to make items that collide with them


def stream(settings: Settings, originals: int) -> Iterator[Delta]:
    """Yield the deltas of a stream of 1.5 times `originals` over one day, with passages and plausible sizes."""
    random, shared = np.random.default_rng(2), max(originals // settings.index.bucket_limit, 1)
    for delta in deltas(settings, round(_SLIDE * originals), _BATCH):
        n = len(delta)
        delta.signatures["headline_size"] = delta.signatures["lead_size"] = 16
        delta.signatures["body_size"] = 500
        # Odd multiples of the numbers below `shared` are spread over all keys, and distinct.
        delta.keys[:, :-2] = random.integers(1, shared + 1, delta.keys[:, :-2].shape, np.uint32) * _SPREAD
        counts = np.full(n, _PASSAGES, np.uint8)
        passages = random.integers(1, 2**32, n * _PASSAGES, np.uint32)
        yield replace(delta, passages=passages, passage_counts=counts)


class _Probes:
    """Batches of items to judge: fingerprints of real texts under new random keys each time."""

    def __init__(self, dedup: Deduplicator, now: int) -> None:
        unique = corpus.all_unique(corpus.news([], _BATCH))
        self.items = [
            msgspec.structs.replace(item, id=f"probe {n}", time=now, offset=n) for n, (_, item) in enumerate(unique)
        ]
        self._prepared = dedup.prepare(self.items)
        self._random = np.random.default_rng(3)

    def fresh(self) -> Prepared:
        return self._with(self._random.integers(1, 2**32, self._prepared.prints.keys.shape, np.uint32))

    def sharing(self, known: NDArray[np.uint32], tables: int) -> Prepared:
        """Give each item the keys of remembered originals in the first `tables` tables, each of another original."""
        keys = self._random.integers(1, 2**32, self._prepared.prints.keys.shape, np.uint32)
        rows = self._random.integers(0, len(known), (len(keys), tables))
        keys[:, :tables] = known[rows, np.arange(tables)]
        return self._with(keys)

    def _with(self, keys: NDArray[np.uint32]) -> Prepared:
        return replace(self._prepared, prints=replace(self._prepared.prints, keys=keys))

    def copies(self, dedup: Deduplicator) -> Prepared:
        """Make the same texts under new ids and other sources, with a word more."""
        return dedup.prepare(
            [
                msgspec.structs.replace(i, id=f"copy of {i.id}", source="b.example", text=f"{i.text} ends")
                for i in self.items
            ]
        )


def _highest_resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def _timed(run: Callable[[], object], count: int) -> float:
    """Return the processor time of `run` in µs an item."""
    start = time.process_time()
    run()
    return (time.process_time() - start) / count * 1e6


def measure_size(originals: int, rounds: int = 8) -> dict[str, float]:
    """Measure one size in this process; merges run in the measured thread."""
    settings = load_settings(window={"length": f"{_DAY / _SLIDE:.0f}ms"})
    small = Deduplicator(settings)  # compiles, and loads what every process has
    _fill(small, settings, 20_000)
    small.judge(_Probes(small, _DAY).fresh())
    small.close()
    del small
    out = {"restore_s": _restore_seconds(settings, originals)}
    empty = _resident()
    with contextlib.suppress(OSError):  # makes the highest resident memory begin here
        Path("/proc/self/clear_refs").write_text("5")
    dedup = Deduplicator(settings)
    dedup.close()  # later merges run at once, in this thread
    out["apply_us"], known = _fill(dedup, settings, originals)
    out["peak_bytes"] = float(_highest_resident() - empty)
    out["bytes"] = float(_resident() - empty)
    probes = _Probes(dedup, dedup.watermark)
    views = dedup.scheme.tables - 2
    kinds: dict[str, Callable[[], Prepared]] = {
        "fresh_us": probes.fresh,
        "crowded_us": lambda: probes.sharing(known, 2),
        "saturated_us": lambda: probes.sharing(known, views),
    }
    costs: dict[str, list[float]] = {name: [] for name in (*kinds, "held_us")}
    for name, make in kinds.items():
        for _ in range(rounds):
            prepared = make()  # other keys each time: known ones are in the cache
            costs[name].append(_timed(partial(dedup.judge, prepared), _BATCH))
    dedup.apply(dedup.judge(probes.items))
    copies = probes.copies(dedup)
    for _ in range(rounds):
        costs["held_us"].append(_timed(partial(dedup.judge, copies), _BATCH))
    held = sum(not verdict.forward for verdict in dedup.judge(copies).verdicts)
    if held < 0.95 * _BATCH:
        raise RuntimeError(f"only {held} of {_BATCH} copies were held back; the figure held_us would mislead")
    dedup.close()
    return out | {name: min(values) for name, values in costs.items()}


def _fill(dedup: Deduplicator, settings: Settings, originals: int) -> tuple[float, NDArray[np.uint32]]:
    """Let a window of originals slide; return the µs of an apply in the last third, and keys of the newest ones."""
    spent, count, applied = 0.0, 0, 0
    newest: list[NDArray[np.uint32]] = []
    for delta in stream(settings, originals):
        start = time.process_time()
        dedup.apply(Batch([], delta, np.zeros(0, np.int8)))
        seconds = time.process_time() - start
        applied += len(delta)
        if applied > originals:
            spent, count = spent + seconds, count + len(delta)
        if applied > _SLIDE * originals - min(_SAMPLE, originals // 2):
            newest.append(delta.keys)
    return spent / count * 1e6, np.concatenate(newest)


def _restore_seconds(settings: Settings, originals: int) -> float:
    """Return the processor time to restore `originals` from decoded blocks until the first verdict."""
    dedup = Deduplicator(settings)
    spent = 0.0
    for delta in deltas(settings, originals, _BATCH):
        start = time.process_time()
        dedup.restore(delta)
        spent += time.process_time() - start
    start = time.process_time()
    dedup.judge([Item("first", "Elm bridge opens", "The bridge over the Elm opened on Monday.", "a.example", 0)])
    dedup.close()
    return spent + time.process_time() - start


def measure_capacity(sizes: Sequence[int] = SIZES, say: Callable[[str], None] = print) -> dict[str, float]:
    """Measure all sizes, and compare them with the model; `capacity_plan_off` is the largest factor between both."""
    out: dict[str, float] = {}
    worst = 1.0
    for size in sizes:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.capacity", "--one", "--originals", str(size)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        measured: dict[str, float] = json.loads(done.stdout)
        say(f"{size:,} originals: {measured}")
        name = label(size)
        factors = off_by(size, measured)
        for figure in factors:
            out[f"capacity_{figure}_{name}"] = measured[figure]
            out[f"capacity_plan_{figure}_{name}"] = predict(size)[figure]
        say(f"  the model is off by {', '.join(f'{f} {v:.2f}' for f, v in factors.items())}")
        worst = max(worst, *factors.values())
    return out | {"capacity_plan_off": worst}


def measure_candidates(news: Sequence[Item]) -> dict[str, float]:
    """Return how many originals share a key with an item of news, and how many of them are compared, by originals.

    The items arrive in random order, so that nearly all are unrelated; their copies are counted too. A figure is the
    mean of the items between half and all of the originals that it names. Sizes that the news do not fill are left out.
    """
    order = np.random.default_rng(4).permutation(len(news))
    items = [msgspec.structs.replace(news[j], id=f"{n}", time=n, offset=n) for n, j in enumerate(order.tolist())]
    counts: dict[int, list[NDArray[np.int64]]] = {}
    with Deduplicator() as dedup:
        for start in range(0, len(items), _BATCH):
            prepared = dedup.prepare(items[start : start + _BATCH])
            found = dedup.index.lookup(prepared.prints.keys, np.zeros(len(prepared.subjects), np.int64))[0]
            originals = next((size for size in NEWS_SIZES if size / 2 <= len(dedup) <= size), None)
            if originals is not None:
                counts.setdefault(originals, []).append(np.bincount(found, minlength=len(prepared.subjects)))
            dedup.apply(dedup.judge(prepared))
        filled = len(dedup)
    out: dict[str, float] = {}
    for size, some in counts.items():
        if size <= filled:
            all_counts = np.concatenate(some)
            out[f"capacity_news_found_{label(size)}"] = float(all_counts.mean())
            out[f"capacity_news_compared_{label(size)}"] = float(np.minimum(all_counts, MAX_CANDIDATES).mean())
    return out


def label(size: int) -> str:
    """Name a size in figures.

    >>> label(10_000), label(4_000_000)
    ('1e4', '4e6')
    """
    return f"{size:.0e}".replace("e+0", "e")


def off_by(originals: int, measured: Mapping[str, float]) -> dict[str, float]:
    """Return the factor between model and measurement of each figure, 1 or more.

    Memory is compared from a million originals on: a smaller index hides in what the process has anyway.
    """
    return {
        figure: max(value / measured[figure], measured[figure] / value)
        for figure, value in predict(originals).items()
        if originals >= _COMPARED_MEMORY or not figure.endswith("bytes")
    }


def predict(originals: int) -> dict[str, float]:
    """Return what the model predicts for the figures of `measure_size`."""
    settings = load_settings()
    scheme = Scheme(settings.fingerprint)
    takes = footprint(scheme, originals, ID_BYTES)
    a_key = settings.index.bucket_limit
    found = {"fresh": 0, "crowded": 2 * a_key, "saturated": (scheme.tables - 2) * a_key}
    costs = {name: judge_us(originals, min(n, MAX_CANDIDATES), 0.0, n) for name, n in found.items()}
    return {
        **{f"{name}_us": cost.judge for name, cost in costs.items()},
        "held_us": judge_us(originals, 0.0, 1.0).judge,
        "apply_us": costs["fresh"].apply,
        "bytes": originals * takes.bytes_per_item,
        "peak_bytes": MEMORY_SLACK * peak_bytes(originals, takes),
        "restore_s": restore_seconds(originals).cpu,
    }


def main(
    originals: Annotated[list[int] | None, typer.Option(help="Sizes.")] = None,
    one: Annotated[bool, typer.Option(help="One size, in this process; print JSON.")] = False,
) -> None:
    sizes = originals or list(SIZES)
    figures: dict[str, Any] = measure_size(sizes[0]) if one else measure_capacity(sizes)
    sys.stdout.write(json.dumps(figures, indent=None if one else 1) + "\n")


if __name__ == "__main__":
    typer.run(main)
