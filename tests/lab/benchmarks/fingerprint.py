"""Compare the speed of fingerprinting UTF-8 texts with peers and with a floor, at four document sizes.

The figures are µs a document and MB a second. Ours computes everything that an item needs: keys, sketches, a filter of
the words. `kernel` is the compiled part of that. The floor is the cost of reading the bytes: one xxh3 of each document.
Ours gets batches, as in the worker; the peers' interfaces take one document at a time.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from unittest.mock import patch

import xxhash

from stream_dedup.fingerprint import fingerprint as module
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings
from tests.lab.benchmarks.corpus import Run
from tests.lab.benchmarks.interleave import interleave, speedup, spread
from tests.lab.benchmarks.peers import FINGERPRINTS

SIZES = {"200b": 200, "1k": 1000, "4k": 4000, "20k": 20_000}
_BATCH = 200
# Bytes a round, enough for at least a tenth of a second. Peers take 10 to 100 times as long a byte.
_OURS, _PEERS = 8_000_000, 400_000


def documents(texts: Sequence[str], size: int, total: int) -> list[bytes]:
    """Join the texts and cut them at words into documents of about `size` bytes, `total` bytes in all."""
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


def _make_ours(make: Fingerprinter, documents: Sequence[bytes]) -> None:
    for start in range(0, len(documents), _BATCH):
        make([Item("1", "", document.decode(), "", 0) for document in documents[start : start + _BATCH]])


def _make_in_threads(makers: Sequence[Fingerprinter], documents: Sequence[bytes]) -> None:
    share = len(documents) // len(makers)
    with ThreadPoolExecutor(len(makers)) as pool:
        list(pool.map(_make_ours, makers, [documents[i * share : (i + 1) * share] for i in range(len(makers))]))


def _make_peer(make: Callable[[str], object], documents: Sequence[bytes]) -> None:
    for document in documents:
        make(document.decode())


def _hash_documents(documents: Sequence[bytes]) -> None:
    for document in documents:
        xxhash.xxh3_64_intdigest(document)


def _kernel_seconds(make: Fingerprinter, documents: Sequence[bytes]) -> float:
    """The seconds of the compiled kernel alone."""
    spent, kernel = [], module.fingerprint_batch

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = kernel(*arguments)
        spent.append(time.perf_counter() - start)
        return result

    with patch.object(module, "fingerprint_batch", timed):
        _make_ours(make, documents)
    return sum(spent)


def measure(run: Run) -> dict[str, float]:
    """Return `fingerprint_us_NAME_SIZE`, `fingerprint_mb_s_NAME_SIZE`, and ratios at 4 KB."""
    figures: dict[str, float] = {}
    texts = [item.text for _, item in run.news]
    makers = [Fingerprinter(Scheme(FingerprintSettings())) for _ in range(2)]
    for label, size in SIZES.items():
        ours, theirs = documents(texts, size, _OURS), documents(texts, size, _PEERS)
        contestants: dict[str, Callable[[], object]] = {
            "ours": partial(_make_ours, makers[0], ours),
            "ours_2_threads": partial(_make_in_threads, makers, ours),
            "floor": partial(_hash_documents, ours),
        } | {name: partial(_make_peer, make, theirs) for name, make in FINGERPRINTS.items()}
        _make_ours(makers[0], theirs)
        times = interleave(contestants, run.rounds)
        times["kernel"] = [_kernel_seconds(makers[0], ours) for _ in range(run.rounds)]
        mean = sum(map(len, ours)) / len(ours)
        for name, seconds in times.items():
            times[name] = [value / len(theirs if name in FINGERPRINTS else ours) for value in seconds]
            figures |= spread(f"fingerprint_us_{name}_{label}", [value * 1e6 for value in times[name]])
            figures |= spread(f"fingerprint_mb_s_{name}_{label}", [mean / value / 1e6 for value in times[name]])
        if label == "4k":
            for name in FINGERPRINTS:
                figures |= speedup(f"fingerprint_vs_{name}", times["ours"], times[name])
            figures |= speedup("fingerprint_two_threads", times["ours_2_threads"], times["ours"])
            figures |= speedup("fingerprint_kernel_of_floor", times["floor"], times["kernel"])
    return figures
