"""Run the worker on the model: replace its clock, its Kafka clients and its threads.

In: a broker. Out: within the `with`, every module of the worker that reads a clock, opens a client or starts a thread
uses the simulation instead; the rest of the worker is real. The changelog is folded every few blocks, so that short
schedules have folds.
"""

import concurrent.futures
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from stream_dedup.changelog import entries
from stream_dedup.dedup import deduplicator
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.kafka import bounded, client
from stream_dedup.worker import worker
from tests.model.broker import Broker
from tests.model.clients import maker
from tests.model.simulation import Calls, Result, Time, waiter

assert worker  # its imports are patched
_PACKAGES = ("stream_dedup.kafka", "stream_dedup.worker", "stream_dedup.changelog")
_Bounded = bounded.Bounded
_MAKE = client.make
# Eight megabytes, most of the cost of an index. It stays empty: the model's items have fingerprints and no prose.
_BOILERPLATE = Boilerplate()
# A task has only dozens of batches in a schedule.
_FOLDING: tuple[tuple[Any, str, int], ...] = (
    (entries, "MAX_BLOCKS", 4),
    (entries, "_LARGE_ROWS", 8),
)


@contextmanager
def under(broker: Broker) -> Iterator[None]:
    """Replace the edges of the worker (see the module docstring)."""
    replacements: dict[Any, Any] = {
        time: Time(broker.simulation),
        _Bounded: partial(Calls, broker.simulation),
        _MAKE: maker(broker),
        concurrent.futures.wait: waiter(broker.simulation),
        concurrent.futures.Future: partial(Result, broker.simulation),
    }
    changed: list[tuple[Any, str, Any]] = [(deduplicator, "Boilerplate", Boilerplate)]
    vars(deduplicator)["Boilerplate"] = lambda: _BOILERPLATE
    for of, name, small in _FOLDING:
        changed.append((of, name, getattr(of, name)))
        setattr(of, name, small)
    for name, module in list(sys.modules.items()):
        if not name.startswith(_PACKAGES):
            continue
        for attribute, value in list(vars(module).items()):
            if any(value is one for one in replacements):
                changed.append((module, attribute, value))
                setattr(module, attribute, replacements[value])
    try:
        yield
    finally:
        for module, attribute, value in changed:
            setattr(module, attribute, value)
