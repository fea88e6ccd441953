"""`stream-dedup run` in a process with built-in faults.

Each fault is active while its file exists in the directory that FAULTS names:

    refused-batches batches of more than two records to the output are damaged, so that the broker refuses them
    slow-merges     every merge of the index takes half a second longer, as on a machine that swaps
    slow-text       from the start on; holds a text: work on an item with it takes eight seconds longer, and the group
                    waits for a member that works for five seconds only
    few-originals   a thousand originals are remembered at most
    long-exit       the exit of Python takes a minute longer, as on a starved machine
    blind-standby   the standby's state store reads nothing, as if the changelog were unreadable
    little-memory   holds a number of bytes: metrics and log take it for the memory that the process may take
    freeze-broker   holds a process id: that process is stopped (SIGSTOP) once, at the first entry of a restore
"""

import atexit
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from stream_dedup.cli.main import main
from stream_dedup.dedup.decider import Decider
from stream_dedup.index import runs
from stream_dedup.kafka import client, producer
from stream_dedup.kafka.record_batch import PackedBatch
from stream_dedup.observe import watch
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import Observer
from stream_dedup.worker.state_store import StateStore

FAULTS = Path(os.environ.get("FAULTS", "none"))
_merged, _builder, _consumer = runs._merged, producer.batch_builder, client.consumer
_prepare, _evict, _follow = Decider.prepare, Decider._expire_and_evict, StateStore.follow


def is_on(fault: str) -> bool:
    return (FAULTS / fault).exists()


def long_exit() -> None:
    if is_on("long-exit"):
        time.sleep(60)


def slowly_merged(*arguments: Any) -> Any:
    run_, seconds = _merged(*arguments)
    if is_on("slow-merges"):
        time.sleep(0.5)
        seconds += 0.5
    return run_, seconds


def slowly_prepared(dedup: Decider, items: Sequence[Any]) -> Any:
    if any((FAULTS / "slow-text").read_text() in getattr(item, "text", "") for item in items):
        time.sleep(8)
    return _prepare(dedup, items)


def impatient_consumer(settings: Settings, assignor: Any) -> dict[str, Any]:
    return _consumer(settings, assignor) | {"max_poll_interval_ms": 5000}


def blindly_followed(store: StateStore) -> None:
    if not is_on("blind-standby"):
        _follow(store)


def sometimes_damaged(packed: PackedBatch, compression: int, batch_bytes: int) -> Any:
    if len(packed.records) > 2 and packed.records[0].source >= 0 and is_on("refused-batches"):
        packed = packed._replace(body=b"\xff" * len(packed.body))
    return _builder(packed, compression, batch_bytes)


def evicted(dedup: Decider) -> None:
    usual = dedup.max_originals
    if is_on("few-originals"):
        dedup.max_originals = 1000
    _evict(dedup)
    dedup.max_originals = usual


class Saboteur(Observer):
    def restore_progress(self, task: str, done: int, total: int) -> None:
        order = FAULTS / "freeze-broker"
        if done < total and order.exists():
            process = int(order.read_text())
            order.unlink()
            os.kill(process, signal.SIGSTOP)


class SabotagedWatch(watch.Watch):
    def __init__(self, settings: Settings, version: str, **options: Any) -> None:
        order = FAULTS / "little-memory"
        if order.exists():
            # Without the validation, which refuses less memory than the batches take.
            worker = BaseModel.model_copy(settings.worker, update={"memory": int(order.read_text())})
            settings = BaseModel.model_copy(settings, update={"worker": worker})
        super().__init__(settings, version, Saboteur(), **options)


if __name__ == "__main__":
    atexit.register(long_exit)
    runs._merged = slowly_merged
    if is_on("slow-text"):  # not always: the wrapper would keep the items in memory for longer
        Decider.prepare = slowly_prepared  # type: ignore[method-assign]
        client.consumer = impatient_consumer
    Decider._expire_and_evict = evicted  # type: ignore[method-assign]
    StateStore.follow = blindly_followed  # type: ignore[method-assign]
    producer.batch_builder = sometimes_damaged
    watch.Watch = SabotagedWatch  # type: ignore[misc]  # the command imports it when it runs
    sys.argv[1:] = ["run", *sys.argv[1:]]
    main()
