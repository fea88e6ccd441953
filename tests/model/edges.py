"""Run the worker on the model: replace its clock, its Kafka clients and its threads.

In: a broker. Out: within the `with`, every module of the worker that reads a clock, opens a client or starts a thread
uses the simulation instead; the rest of the worker is real. The changelog is folded every few blocks, so that short
schedules have folds.
"""

import concurrent.futures
import queue
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from stream_dedup.changelog import entries
from stream_dedup.dedup import deduplicator
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.kafka import bounded, client
from stream_dedup.worker import worker
from tests.model.broker import Broker
from tests.model.clients import maker
from tests.model.simulation import Queue, Result, threads_of, time_of, waiter

assert worker  # its imports are patched
_PACKAGES = ("stream_dedup.kafka", "stream_dedup.worker", "stream_dedup.changelog")
# Eight megabytes, most of the cost of an index. It stays empty: the model's items have fingerprints and no prose.
_BOILERPLATE = Boilerplate()


@contextmanager
def under(broker: Broker) -> Iterator[None]:
    """Replace the edges of the worker (see the module docstring)."""
    simulation = broker.simulation
    everywhere: list[tuple[Any, Any]] = [
        (time, time_of(simulation)),
        (client.make, maker(broker)),
        (concurrent.futures.wait, waiter(simulation)),
        (concurrent.futures.Future, partial(Result, simulation)),
        (queue.SimpleQueue, partial(Queue, simulation)),
    ]
    replaced: list[tuple[Any, str, Any]] = [
        (bounded, "threading", threads_of(simulation)),
        (deduplicator, "Boilerplate", lambda: _BOILERPLATE),
        (entries, "MAX_BLOCKS", 4),  # a task has only dozens of batches in a schedule
        (entries, "_LARGE_ROWS", 8),
    ]
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGES):
            replaced += [
                (module, attribute, new)
                for attribute, value in vars(module).items()
                for real, new in everywhere
                if value is real
            ]
    with ExitStack() as stack:
        for place in replaced:
            stack.enter_context(patch.object(*place))
        yield
