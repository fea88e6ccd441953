"""UTF-8 bytes -> fingerprint: microseconds a document and MB a second at four sizes, against peers and a floor.

Ours makes all it needs of an item (three views, keys of some thirty tables, sketches); `kernel` is the compiled
part of it. The floor is what reading the bytes costs: one xxh3 of each document. Ours is called with batches, as
the worker calls it, peers document by document, as their interfaces are.
"""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import xxhash

from stream_dedup.fingerprint import fingerprint as module
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings
from tests.benchmarks import apart
from tests.benchmarks.interleave import interleave, speedup, spread
from tests.benchmarks.peers import FINGERPRINTS

SIZES = {"200b": 200, "1k": 1000, "4k": 4000, "20k": 20_000}
_BATCH = 200
# Bytes a round: enough for a tenth of a second and more. Peers take 10 to 100 times as long for a byte.
_OURS, _PEERS = 8_000_000, 400_000


def documents(texts: Sequence[str], size: int, total: int) -> list[bytes]:
    """`total` bytes of documents of about `size` bytes each: the texts, joined and cut at words."""
    out: list[bytes] = []
    words: list[str] = []
    length = 0
    while True:
        for text in texts:
            for word in text.split():
                words.append(word)
                length += len(word.encode()) + 1
                if length >= size:
                    out.append(" ".join(words).encode())
                    words, length = [], 0
                    if len(out) * size >= total:
                        return out


def _ours(make: Fingerprinter, documents: Sequence[bytes]) -> None:
    for start in range(0, len(documents), _BATCH):
        make([Item("1", "", one.decode(), "", 0) for one in documents[start : start + _BATCH]])


def _in_threads(makers: Sequence[Fingerprinter], documents: Sequence[bytes]) -> None:
    share = len(documents) // len(makers)
    with ThreadPoolExecutor(len(makers)) as pool:
        list(pool.map(_ours, makers, [documents[i * share : (i + 1) * share] for i in range(len(makers))]))


def _peer(make: Callable[[str], object], documents: Sequence[bytes]) -> None:
    for one in documents:
        make(one.decode())


def _floor(documents: Sequence[bytes]) -> None:
    for one in documents:
        xxhash.xxh3_64_intdigest(one)


class _Kernel:
    """Adds up the seconds that are spent in the compiled kernel."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._kernel = module.fingerprint_batch

    def __call__(self, *arguments: Any) -> Any:
        start = time.perf_counter()
        left = self._kernel(*arguments)
        self.seconds += time.perf_counter() - start
        return left


def _text_dedup(python: Path, texts: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Seconds a document by size: in a process of its own, before ours."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "documents.json"
        sizes = [[one.decode() for one in documents(texts, size, _PEERS)] for size in SIZES.values()]
        path.write_text(json.dumps(sizes), "utf-8")
        runs = [apart.run(python, "text_dedup_kernel", str(path))["seconds"] for _ in range(rounds)]
    return {label: [run[i] for run in runs] for i, label in enumerate(SIZES)}


def measure_fingerprint(texts: Sequence[str], rounds: int, text_dedup: Path | None = None) -> dict[str, float]:
    """Figures `fingerprint_us_NAME_SIZE`, `fingerprint_mb_s_NAME_SIZE`, and ratios at 4 KB.

    `text_dedup`: the Python that has it; None leaves it out.
    """
    figures: dict[str, float] = {}
    apart_seconds = _text_dedup(text_dedup, texts, rounds) if text_dedup else {}
    makers = [Fingerprinter(Scheme(FingerprintSettings())) for _ in range(2)]
    for label, size in SIZES.items():
        many, few = documents(texts, size, _OURS), documents(texts, size, _PEERS)
        counts = {"ours": len(many), "ours_2_threads": len(many), "floor": len(many)} | dict.fromkeys(
            FINGERPRINTS, len(few)
        )
        contestants: dict[str, Callable[[], object]] = {
            "ours": partial(_ours, makers[0], many),
            "ours_2_threads": partial(_in_threads, makers, many),
            "floor": partial(_floor, many),
        } | {name: partial(_peer, make, few) for name, make in FINGERPRINTS.items()}
        _ours(makers[0], few)
        times = interleave(contestants, rounds)
        kernel = _Kernel()
        with patch.object(module, "fingerprint_batch", kernel):
            times["kernel"] = []
            for _ in range(rounds):
                kernel.seconds = 0.0
                _ours(makers[0], many)
                times["kernel"].append(kernel.seconds)
        counts["kernel"] = len(many)
        a_document = {name: [one / counts[name] for one in seconds] for name, seconds in times.items()}
        if label in apart_seconds:
            a_document["text_dedup"] = apart_seconds[label]
        mean = sum(map(len, many)) / len(many)
        for name, seconds in a_document.items():
            figures |= spread(f"fingerprint_us_{name}_{label}", [one * 1e6 for one in seconds])
            figures |= spread(f"fingerprint_mb_s_{name}_{label}", [mean / one / 1e6 for one in seconds])
        if label == "4k":
            for name in [*FINGERPRINTS, *(["text_dedup"] if text_dedup else [])]:
                figures |= speedup(f"fingerprint_vs_{name}", a_document["ours"], a_document[name])
            figures |= speedup("fingerprint_two_threads", a_document["ours_2_threads"], a_document["ours"])
            figures |= speedup("fingerprint_kernel_of_floor", a_document["floor"], a_document["kernel"])
    return figures
