"""Compile the decision's kernels before they are needed, by judging a made-up feed with each fingerprint family.

numba compiles a kernel when it first meets the types of its arguments, and caches the machine code beside the source,
or in NUMBA_CACHE_DIR. Without this module the first start on a machine would compile while items wait, and in an image
with a read-only file system each start would. There is no list of kernels and types to maintain: items are judged, with
merges, expiry, broken lines and a restart from a changelog among them, pairs are found and the index is exported, and
numba notices which kernels that needs.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

from stream_dedup.batch.filter import filter_files
from stream_dedup.batch.pairs import find_pairs
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.demo.sample import sample_feed
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.simhash import build_weights
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.precompile.compilations import count_compilations
from stream_dedup.settings import Settings, load_settings

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
    with count_compilations() as names, tempfile.TemporaryDirectory(prefix="stream-dedup-warm-") as name:
        compile_for(load_settings(item=dict(_ITEM_SETTINGS)))
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
            find_pairs(parts, directory / "pairs.jsonl", directory / "clusters.jsonl", settings=settings)
        with Deduplicator(load_settings(**_BUSY_INDEX)) as dedup:
            dedup.apply(dedup.judge(_items(_ITEMS)))
            list(dedup.export(_ITEMS))  # as `Deduplicator.save` does
    return len(names)


def compile_for(settings: Settings) -> None:
    """Compile the kernels that the first items under these settings need."""
    items, notices = _items(_TRICKLE_ITEMS), _notices(settings)
    with Deduplicator(settings) as dedup:
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


def _items(count: int) -> list[Item]:
    decode = Decoder(load_settings(item=dict(_ITEM_SETTINGS)).item)
    decoded = (decode(json.dumps(item).encode(), None, None) for item in sample_feed(count))
    return [item for item in decoded if isinstance(item, Item)]


def _notices(settings: Settings) -> list[Item]:
    """One site's notices, the same text under different headlines: more candidates than an item is compared with."""
    phash = 1 if settings.fingerprint.family == "given" else None
    text = " ".join(f"word{n} of the notice" for n in range(100))
    return [
        Item(f"notice-{n}", f"Notice{n} ward{n}", text, "notices.example", n, fingerprint=phash)
        for n in range(_NOTICES)
    ]


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
