"""A restore from Kafka: of a trickle, one original a transaction, and of a flood, thousands a transaction.

In: a broker. Out: seconds from nothing to an index that has judged its first item, and from a worker's start, without a
standby, to its first commit (joining the group included, Python's start not).

The trickle's changelog is written by the worker's own parts. Its first hundred and its last three thousand
transactions, all that a restore may touch of the blocks, are real ones; those between are put together by the hundred,
in whose place a restore never looks. Each fold has a transaction of its own, as with a worker.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.stream.bounded import no_deadline
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.state_store import StateStore
from stream_dedup.stream.worker import Worker
from tests.benchmarks.kafka_texts import fill, fresh_topics
from tests.benchmarks.memory import deltas
from tests.stream.remembered import Remembering

_FIRST, _LAST, _TOGETHER = 100, 3000, 100
A_TRANSACTION = {"trickle": 1, "flood": 2000}
_DAY = 86_400_000
_ITEM = Item("first", "Elm bridge opens", "The bridge over the Elm opened on Monday after two years.", "a.example", 0)
_RECORD = (
    b'{"id": "%d", "title": "Elm bridge opens", "text": "The bridge over the Elm opened on Monday.", "source": "a"}'
)


def of_yesterday(settings: Settings, originals: int, a_transaction: int) -> Iterator[Delta]:
    """What a worker has remembered that has let so many unlike items through since yesterday."""
    yesterday = int(time.time() * 1000) - _DAY
    for delta in deltas(settings, originals, a_transaction):
        delta.signatures["time"] += yesterday
        delta.signatures["headline_size"] = delta.signatures["lead_size"] = 16
        yield replace(delta, watermark=delta.watermark + yesterday)


def remember(settings: Settings, originals: int, a_transaction: int) -> None:
    """Fills the changelog."""
    transactions = -(-originals // a_transaction)
    together: list[Delta] = []
    with Remembering(settings) as writer:
        for number, delta in enumerate(of_yesterday(settings, originals, a_transaction)):
            if a_transaction > 1 or not _FIRST <= number < transactions - _LAST:
                writer.write(*together, delta)
                together = []
                continue
            together.append(delta)
            if len(together) == _TOGETHER:
                writer.write(*together)
                together = []


def _restore(settings: Settings) -> tuple[float, int]:
    """Seconds, and the pieces that were read."""
    start = time.perf_counter()
    memory = StateStore(WorkerContext(settings, Observer(), time.time, Deduplicator, no_deadline), "global", 0)
    restored = memory.complete(lambda done, total: None)
    memory.dedup.judge([_ITEM])
    seconds = time.perf_counter() - start
    memory.close()
    return seconds, restored.blocks


def _first_commit(settings: Settings) -> float:
    """Seconds from a worker's start to its first commit."""
    committed, stop = threading.Event(), threading.Event()

    class Watching(Observer):
        def batch(self, report: BatchReport) -> None:
            committed.set()

    start = time.perf_counter()
    worker = threading.Thread(target=Worker(settings, observer=Watching()).run, args=(stop,))
    worker.start()
    while worker.is_alive() and not committed.wait(0.001):
        pass
    seconds = time.perf_counter() - start
    stop.set()
    worker.join()
    if not committed.is_set():
        raise RuntimeError("the worker ended before its first commit")
    return seconds


def measure_restore_from_kafka(
    bootstrap: str, originals: int, rounds: int, say: Callable[[str], None]
) -> dict[str, float]:
    """Of each: median seconds to restore, to the first commit, pieces read; and the trickle's share of the flood's."""
    settings, seconds, commits, pieces = {}, {}, {}, {}
    for name, a_transaction in A_TRANSACTION.items():
        settings[name] = fresh_topics(bootstrap, f"restore-{name}")
        start = time.monotonic()
        remember(settings[name], originals, a_transaction)
        say(f"{originals} originals in the changelog by {a_transaction}: {time.monotonic() - start:.0f} s")
        seconds[name], commits[name] = [], []
    for number in range(rounds):
        for name, one in settings.items():
            spent, pieces[name] = _restore(one)
            seconds[name].append(spent)
            fill(one, [_RECORD % number], int(time.time() * 1000))
            commits[name].append(_first_commit(one))
            say(f"{name}: restored in {spent:.2f} s, first commit after {commits[name][-1]:.2f} s")
    figures: dict[str, float] = {}
    for name in settings:
        for kind, some in (("s", seconds[name]), ("open_s", commits[name])):
            figure = f"restore_kafka_{name}_{kind}"
            figures |= {figure: statistics.median(some), f"{figure}_low": min(some), f"{figure}_high": max(some)}
        figures[f"restore_kafka_{name}_pieces"] = pieces[name]
    ratios = [trickle / flood for trickle, flood in zip(seconds["trickle"], seconds["flood"], strict=True)]
    return figures | {"restore_kafka_trickle_vs_flood": statistics.median(ratios)}
