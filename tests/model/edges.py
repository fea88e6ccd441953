"""Puts the model under the worker: its clock, its clients, its bounded calls.

In: a broker. Out: within the `with`, every module of the worker that reads a clock, opens a client or starts a thread
uses the simulation instead. These are its edges, and nothing else of it is replaced; but the changelog is folded every
few blocks, so that short schedules have folds.
"""

import concurrent.futures
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from stream_dedup.changelog import entries, reader
from stream_dedup.dedup import deduplicator
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.stream import bounded, client, worker
from tests.model.broker import Broker
from tests.model.clients import maker
from tests.model.simulation import Calls, Time, waiter

assert worker  # what it imports is what is patched
_PACKAGES = ("stream_dedup.stream", "stream_dedup.changelog")
_Bounded = bounded.Bounded
_MAKE = client.make
# Eight megabytes, most of the cost of an index; the model's items bring fingerprints and no prose, so it stays empty.
_BOILERPLATE = Boilerplate()
# Of a task's batches, of which a schedule has some dozens; and a restore begins so near the end that it often looks
# further back.
_FOLDING: tuple[tuple[Any, str, int], ...] = (
    (entries, "MOST_BLOCKS", 4),
    (entries, "_LARGE_ROWS", 8),
    (reader, "_FIRST_DISTANCE", 8),
)


@contextmanager
def under(broker: Broker) -> Iterator[None]:
    """See the module's first lines."""
    instead: dict[Any, Any] = {
        time: Time(broker.simulation),
        _Bounded: partial(Calls, broker.simulation),
        _MAKE: maker(broker),
        concurrent.futures.wait: waiter(broker.simulation),
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
            if any(value is one for one in instead):
                changed.append((module, attribute, value))
                setattr(module, attribute, instead[value])
    try:
        yield
    finally:
        for module, attribute, value in changed:
            setattr(module, attribute, value)
