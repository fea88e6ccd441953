"""Compile the decision's kernels before they are needed, by judging a made-up feed with each fingerprint family.

numba compiles a kernel when it first meets the types of its arguments, and caches the machine code beside the source,
or in NUMBA_CACHE_DIR. Without this module the first start on a machine would compile while items wait, and in an image
with a read-only file system each start would. There is no list of kernels and types to maintain: items are judged, with
merges, expiry, broken lines and a restart from a changelog among them, and numba notices which kernels that needs.

numba compiles one kernel at a time in a process, and fingerprints come first on the way to a verdict. A second process
(`python -m stream_dedup.precompile.kernels`) compiles the kernels behind them meanwhile, by judging synthetic
fingerprints, and the first one finds them in numba's cache. From an empty cache the default settings are ready in half
the time: 16 s of two idle cores instead of 33. Nothing depends on the second process: a kernel that it misses is
compiled when it is needed.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from stream_dedup.batch.filter import filter_files
from stream_dedup.dedup.batch import ITEM, Prepared
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind
from stream_dedup.demo.sample import sample_feed
from stream_dedup.fingerprint.fingerprint import WORD_SET_BYTES, Fingerprinter, Fingerprints, Texts
from stream_dedup.fingerprint.kernel import MOST_HEADLINE_NUMBERS
from stream_dedup.fingerprint.scheme import HEADLINE_FEATURES, Scheme
from stream_dedup.fingerprint.sentences import Passages
from stream_dedup.fingerprint.simhash import build_weights
from stream_dedup.fingerprint.word_filter import FILTER_BITS, Numbers
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.precompile.compilations import count_compilations
from stream_dedup.settings import Settings, load_settings

log = logging.getLogger(__name__)

# The feed of 400 items is two days long, so that a window of hours expires on the way.
_ITEMS = 400
# A small batch goes to the recent tree, a bulk batch straight to a sorted run.
_BATCHES = (3, 100)
# More candidates than are compared for one item (dedup/candidates.py).
_NOTICES = 40
# Judged one by one and in pairs: 120 of them meet every kernel that the whole feed meets.
_TRICKLE_ITEMS = 120
# A window of hours, so that the index expires on the way.
_BUSY_INDEX: Mapping[str, Any] = {"window": {"length": "6h"}}
# Sizes of batches of synthetic fingerprints. A batch of one row is another type to numba than a batch of several.
_SYNTHETIC = (3, 3, 1, 1, 1, 100, 3, 1, 1, 1, 3, 100, 3)
_HOUR = 3_600_000
_COPIES = 3
_TOKENS = 20  # of a text of one passage, with a shingle for each token and one number
# The format of the made-up items, whatever the environment sets for the worker's own.
_ITEM_SETTINGS: Mapping[str, Any] = {"format": "json", "markup": "auto", "preset": "plain", "fields": {}}
_FAMILIES: tuple[Mapping[str, Any], ...] = (
    {"family": "minhash", "verify": "sketch"},
    {"family": "minhash", "verify": "exact"},
    {"family": "minhash", "verify": "sketch", "shingle_letters": 5},
    {"family": "minhash", "verify": "exact", "shingle_letters": 5},
    {"family": "simhash", "bits": 64, "features": "shingles", "weights": "tf"},
    {"family": "simhash", "bits": 64, "features": "tokens", "weights": "uniform"},
    {"family": "simhash", "bits": 64, "shingle_letters": 5},
    {"family": "simhash", "bits": 128, "features": "shingles", "weights": "idf"},
    {"family": "simhash", "bits": 64, "layout": "4 choose 1"},
    {"family": "given", "bits": 64},
)


def compile_all() -> int:
    """Compile every kernel that is not in the cache; return the number of compilations, 0 if all were cached.

    Files are temporary. Raises InputError if the temporary directory cannot be written.
    """
    default_compilations = compile_for(load_settings(item=dict(_ITEM_SETTINGS)))
    with count_compilations() as compilations, tempfile.TemporaryDirectory(prefix="stream-dedup-warm-") as name:
        directory = Path(name)
        feed = [item | {"phash": n} for n, item in enumerate(sample_feed(_ITEMS))]
        half = _ITEMS // 2
        parts = [directory / "before.jsonl", directory / "after.jsonl"]
        for part, items in zip(parts, (feed[:half], feed[half:]), strict=True):
            part.write_text("".join(json.dumps(item) + "\n" for item in items) + "{broken\n", encoding="utf-8")
        for number, (fingerprint, batch) in enumerate(product(_FAMILIES, _BATCHES)):
            settings = _settings(fingerprint, batch, directory, feed)
            for part in parts:  # the second run restores its state from the first run's changelog
                output, duplicates = directory / f"{number}-out.jsonl", directory / f"{number}-duplicates.jsonl"
                filter_files([part], output, duplicates, settings=settings, state=directory / f"{number}-state")
    return default_compilations + len(compilations)


def compile_for(settings: Settings, report: Callable[[int], None] = lambda count: None) -> int:
    """Compile the kernels that the first items under these settings need; return the number of compilations.

    Calls `report` before each compilation in this process with the number of compilations so far.
    """
    second: list[subprocess.Popen[str]] = []

    def on_compilation(count: int, seconds: float) -> None:
        # Before the first compilation it is unknown whether anything is missing. The process compiles the default
        # family.
        is_default = settings.fingerprint.family == "minhash" and settings.fingerprint.verify == "sketch"
        if count == 1 and is_default and (os.cpu_count() or 1) > 1:
            second.append(_start_second_process())
        report(count)

    decode = Decoder(load_settings(item=dict(_ITEM_SETTINGS)).item)
    decoded = (decode(json.dumps(item).encode(), None, None) for item in sample_feed(_TRICKLE_ITEMS))
    items, notices = [item for item in decoded if isinstance(item, Item)], _notices(settings)
    second_count = 0
    try:
        with count_compilations(on_compilation) as names:
            with Deduplicator(settings) as dedup:
                dedup.prepare(items)
                dedup.prepare(items[:1])
                for process in second:
                    second_count += _compilations_of(process)
                # As the worker does: pending until committed, and rolled back after a failure.
                dedup.apply(dedup.judge(notices), pending=True)
                dedup.rollback()
                dedup.apply(dedup.judge(notices), pending=True)
                dedup.confirm()
                first = 0
                for size in (1, *_BATCHES):
                    dedup.apply(dedup.judge([*notices[:1], *items[first : first + size]]))
                    first += size
            # One by one and in pairs, as items arrive on a quiet topic. numba has another type for a table of one row,
            # because it is contiguous whatever it was cut from; without this the first batch of one waits six seconds.
            remaining = iter(items)
            with Deduplicator(settings) as dedup:
                for size in (1, 2) * (len(items) // 3):
                    dedup.apply(dedup.judge(list(islice(remaining, size))))
    finally:
        for process in second:
            # It has ended, unless an error is on its way out or its kernels were the only ones that were missing.
            process.kill()
            process.communicate()  # closes its pipes
    return len(names) + second_count


def _start_second_process() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stream_dedup.precompile.kernels"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603 - ourselves # nosec B603


def _notices(settings: Settings) -> list[Item]:
    """One site's notices, the same text under different headlines: more candidates than an item is compared with."""
    phash = 1 if settings.fingerprint.family == "given" else None
    text = " ".join(f"word{n} of the notice" for n in range(100))
    return [
        Item(f"notice-{n}", f"Notice{n} ward{n}", text, "notices.example", n, fingerprint=phash)
        for n in range(_NOTICES)
    ]


def _compilations_of(process: subprocess.Popen[str]) -> int:
    output, errors = process.communicate()
    if process.returncode:
        # Only time is lost: this process compiles the kernels that the other one has not.
        reason = errors.strip().rpartition("\n")[2] or f"exit code {process.returncode}"
        log.warning("the second process that compiles kernels failed (%s); this one compiles all that is left", reason)
        return 0
    return int(output)


def _settings(
    fingerprint: Mapping[str, Any], batch: int, directory: Path, feed: Sequence[Mapping[str, Any]]
) -> Settings:
    item_settings = {**_ITEM_SETTINGS, "fingerprint": "phash" if fingerprint["family"] == "given" else None}
    if fingerprint.get("weights") == "idf":
        table = directory / "weights"
        plain = load_settings(fingerprint={**fingerprint, "weights": "tf"}, item=item_settings)
        make = Fingerprinter(Scheme(plain.fingerprint))
        weights = build_weights(make.scheme.features_id, (make.features(item["text"]) for item in feed))
        table.write_bytes(weights.to_bytes())
        fingerprint = {**fingerprint, "idf": table}
    return load_settings(
        fingerprint=dict(fingerprint), item=item_settings, worker={"batch_items": batch}, **_BUSY_INDEX
    )


def judge_synthetic() -> Counter[Kind]:
    """Judge and remember batches of synthetic fingerprints, each three of them alike; return the verdicts' counts."""
    settings, first, kinds = load_settings(**_BUSY_INDEX), 0, Counter[Kind]()
    with Deduplicator(settings) as dedup:
        for count in _SYNTHETIC:
            batch = dedup.judge(_synthetic(dedup.scheme, first, count))
            kinds.update(batch.counts())
            dedup.apply(batch)
            first += count
        list(dedup.export(first))
    return kinds


def _synthetic(scheme: Scheme, first: int, count: int) -> Prepared:
    numbers = np.arange(first, first + count)
    items = [
        Item(str(n), f"Title {n}", f"Text {n}", f"{n % 5}.example", int(n) * _HOUR // 10, 0, int(n)) for n in numbers
    ]
    stories = [np.random.default_rng(int(n) // _COPIES) for n in numbers]  # the same numbers for each copy
    signatures = np.concatenate(
        [np.frombuffer(story.bytes(scheme.signature_dtype.itemsize), scheme.signature_dtype) for story in stories]
    )
    signatures["row_id"], signatures["offset"], signatures["partition"] = numbers + 1, numbers, 0
    signatures["time"] = [item.time for item in items]
    signatures["digest"] = numbers + 1  # no two texts are equal, so the similarities are asked for
    keys = np.stack([story.integers(1, 2**32, scheme.key_columns, np.uint32) for story in stories])
    keys[:, -2:] = numbers[:, None] + 1
    words = np.zeros((count, WORD_SET_BYTES), np.uint8)
    shingles = np.concatenate([story.integers(1, 2**64, _TOKENS, np.uint64) for story in stories])
    hashes = (shingles >> np.uint64(32)).astype(np.uint32)
    places, flags = np.arange(count + 1), np.ones(count, np.bool_)
    firsts, lasts = np.stack([places[:-1]] * 2, axis=1), np.stack([places[1:]] * 2, axis=1)
    starts, ends = places[:-1] * _TOKENS, places[1:] * _TOKENS
    texts = Texts(
        firsts,
        lasts,
        np.zeros((count, HEADLINE_FEATURES), np.uint32),
        np.zeros((count, MOST_HEADLINE_NUMBERS), np.uint32),
        (hashes % FILTER_BITS).astype(np.uint16),
        shingles,
        Numbers(hashes[::_TOKENS].copy(), starts.astype(np.int32)),
        Passages(ends, hashes[::_TOKENS].copy(), flags, flags, starts, ends),
    )
    prints = Fingerprints(signatures, keys, words, scheme.settings.hamming, [], texts)
    return Prepared(items, items, prints, np.full(count, ITEM, np.int8), np.zeros(count, np.bool_))


if __name__ == "__main__":
    with count_compilations() as names:
        judge_synthetic()
    sys.stdout.write(f"{len(names)}\n")
