"""The decision's kernels, compiled before they are needed: a made-up feed through each family -> their number.

numba compiles a kernel when it first meets the types of its arguments, and keeps the machine code beside the source,
or in NUMBA_CACHE_DIR. Without this the first start on a machine would spend that time while items wait, and in an
image with a read-only file system each start would. No list of kernels and types stands here, since it would be
forgotten with the next change: items are judged, with merges, expiry, broken lines and a restart from a changelog
among them, and numba notices what that needs.

numba compiles one kernel at a time in a process, and on the way to a verdict the fingerprints come first: what follows
them is compiled in a second process meanwhile (beside.py). From an empty cache the default settings are ready in half
the time: 16 s of two idle cores instead of 33.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, product
from pathlib import Path
from typing import Any

from numba.core import event

from stream_dedup.batch.filter import filter_files
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.demo.beside import BUSY
from stream_dedup.demo.sample import sample_feed
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.weights import build
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings

log = logging.getLogger(__name__)

# The feed of 400 items is two days long; a window of hours and a small tree make it expire and merge on the way.
_ITEMS = 400
# A trickle goes to the recent tree, a bulk batch straight to a sorted run.
_BATCHES = (3, 100)
# More than the candidates of an item that are compared (dedup/candidates.py).
_CROWD = 40
# Whatever the environment says of the items that the worker will see: these are plain.
_PLAIN: Mapping[str, Any] = {"format": "json", "markup": "auto", "preset": "plain", "fields": {}}
_FAMILIES: tuple[Mapping[str, Any], ...] = (
    {"family": "minhash", "verify": "sketch"},
    {"family": "minhash", "verify": "exact"},
    {"family": "simhash", "bits": 64, "features": "shingles", "weights": "tf"},
    {"family": "simhash", "bits": 64, "features": "tokens", "weights": "uniform"},
    {"family": "simhash", "bits": 128, "features": "shingles", "weights": "idf"},
    {"family": "simhash", "bits": 64, "layout": "4 choose 1", "views": "body"},
    {"family": "given", "bits": 64},
)


def warm() -> int:
    """Compiles what no cache has yet; the number of compilations, 0 where all were found. O(1), files are temporary.

    Raises InputError where the temporary directory cannot be written.
    """
    plain = load_settings(item=dict(_PLAIN))
    beside = make_ready(plain)
    with counted() as compilations, tempfile.TemporaryDirectory(prefix="stream-dedup-warm-") as name:
        _trickle(plain)
        directory = Path(name)
        feed = [item | {"phash": n} for n, item in enumerate(sample_feed(_ITEMS))]
        half = _ITEMS // 2
        parts = [directory / "before.jsonl", directory / "after.jsonl"]
        for part, items in zip(parts, (feed[:half], feed[half:]), strict=True):
            part.write_text("".join(json.dumps(item) + "\n" for item in items) + "{broken\n", encoding="utf-8")
        for number, (fingerprint, batch) in enumerate(product(_FAMILIES, _BATCHES)):
            settings = _settings(fingerprint, batch, directory, feed)
            for part in parts:  # the second begins with what the state remembers of the first
                out, held = directory / f"{number}-out.jsonl", directory / f"{number}-held.jsonl"
                filter_files([part], out, held, settings=settings, state=directory / f"{number}-state")
    return beside + len(compilations)


def make_ready(settings: Settings, tell: Callable[[int], None] = lambda count: None) -> int:
    """Compiles what the first items under these settings need, unless it is there; the number of compilations.

    `tell` hears of each compilation in this process how many there were.
    """
    beside: list[subprocess.Popen[str]] = []

    def begun(count: int) -> None:
        # Only now is it known that something is to be compiled. The process knows the one family that most take.
        usual = settings.fingerprint.family == "minhash" and settings.fingerprint.verify == "sketch"
        if count == 1 and usual and (os.cpu_count() or 1) > 1:
            beside.append(_start_beside())
        tell(count)

    decode = Decoder(load_settings(item=dict(_PLAIN)).item)
    decoded = [decode(json.dumps(item).encode(), None, None) for item in sample_feed(sum(_BATCHES))]
    items = [item for item in decoded if isinstance(item, Item)]
    others = 0
    try:
        with counted(begun) as names, Deduplicator(settings) as dedup:
            dedup.prepare(items)
            for process in beside:
                others += _compilations_of(process)
            # As the worker does: pending until committed, and taken back after a failure.
            dedup.apply(dedup.judge(_crowd(settings)), pending=True)
            dedup.rollback()
            dedup.apply(dedup.judge(_crowd(settings)), pending=True)
            dedup.confirm()
            first = 0
            for size in (1, *_BATCHES):
                dedup.apply(dedup.judge([*_crowd(settings)[:1], *items[first : first + size]]))
                first += size
    finally:
        for process in beside:
            process.kill()  # it has ended, unless this is an error's way out
            process.wait()
    return len(names) + others


def _trickle(settings: Settings) -> None:
    """Judges items one by one and in pairs, as they come on a quiet topic.

    A table of one row counts as contiguous, whatever it was cut from, and for numba that is another type: without this
    the first batch of one item waits six seconds.
    """
    decode = Decoder(settings.item)
    decoded = [decode(json.dumps(item).encode(), None, None) for item in sample_feed(_ITEMS)]
    items = iter([item for item in decoded if isinstance(item, Item)])
    with Deduplicator(settings) as dedup:
        for size in (1, 2) * (_ITEMS // 4):
            dedup.apply(dedup.judge(list(islice(items, size))))


def _start_beside() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stream_dedup.demo.beside"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603


def _crowd(settings: Settings) -> list[Item]:
    """One site's notices, the same page under other headlines: an item that meets more of them than are compared."""
    phash = 1 if settings.fingerprint.family == "given" else None
    text = " ".join(f"word{n} of the notice" for n in range(100))
    return [
        Item(f"crowd-{n}", f"Notice{n} ward{n}", text, "crowd.example", n, fingerprint=phash) for n in range(_CROWD)
    ]


def _compilations_of(process: subprocess.Popen[str]) -> int:
    said, trouble = process.communicate()
    if process.returncode:
        # All that is lost is time: what it has not compiled is compiled here.
        last = trouble.strip().rpartition("\n")[2] or f"exit code {process.returncode}"
        log.warning("the second process that compiles kernels failed (%s); this one compiles all that is left", last)
        return 0
    return int(said)


@contextmanager
def counted(tell: Callable[[int], None] = lambda count: None) -> Iterator[list[str]]:
    """The names of the kernels compiled within the block; what a cache has is not compiled.

    `tell` hears of each, before it is compiled, how many there are by then.
    """
    names: list[str] = []

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            names.append(str(event.data["dispatcher"].py_func.__qualname__))
            tell(len(names))

        def on_end(self, event: Any) -> None:
            pass

    listener = Listener()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]  # numba ships no types
    try:
        yield names
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


def _settings(
    fingerprint: Mapping[str, Any], batch: int, directory: Path, feed: Sequence[Mapping[str, Any]]
) -> Settings:
    item = {**_PLAIN, "fingerprint": "phash" if fingerprint["family"] == "given" else None}
    if fingerprint.get("weights") == "idf":
        table = directory / "weights"
        plain = load_settings(fingerprint={**fingerprint, "weights": "tf"}, item=item)
        make = Fingerprinter(Scheme(plain.fingerprint))
        table.write_bytes(build(make.scheme.features_id, (make.features(one["text"]) for one in feed)).to_bytes())
        fingerprint = {**fingerprint, "idf": table}
    return load_settings(fingerprint=dict(fingerprint), item=item, worker={"batch_items": batch}, **BUSY)
