"""The worker's edges in the model: clocks, threads and Kafka clients, in virtual time on the broker in memory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

from stream_dedup.changelog import entries
from stream_dedup.dedup import decider
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.kafka.runtime import Runtime
from tests.lab.model.broker import Broker
from tests.lab.model.clients import maker
from tests.lab.model.simulation import Queue, Result, waiter

# Eight megabytes, most of the cost of an index. It stays empty: the model's items have fingerprints and no prose.
_BOILERPLATE = Boilerplate()


def runtime_on(broker: Broker) -> Runtime:
    """The worker's runtime; a thread is a fiber of the same process."""
    simulation = broker.simulation
    return Runtime(
        monotonic=lambda: simulation.now,
        wall=simulation.wall,
        start_thread=lambda name, function: simulation.spawn(name, simulation.current.process, function),
        future=partial(Result, simulation),
        queue=partial(Queue, simulation),
        wait=waiter(simulation),
        make_client=maker(broker),
    )


@contextmanager
def small() -> Iterator[None]:
    """Fold the changelog every few blocks, since a task has only dozens of batches in a schedule; share one table."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(decider, "Boilerplate", lambda: _BOILERPLATE))
        stack.enter_context(patch.object(entries, "MAX_BLOCKS", 4))
        stack.enter_context(patch.object(entries, "_LARGE_ROWS", 8))
        yield
