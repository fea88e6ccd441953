"""What a worker takes from the machine: clocks, threads and Kafka clients.

Everything that waits or reads a clock in the worker goes through one `Runtime`, so a test can run the whole worker in
virtual time (tests/lab/model).
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from stream_dedup.kafka import client


def _start_thread(name: str, function: Callable[[], object]) -> None:
    threading.Thread(target=function, name=name, daemon=True).start()


@dataclass(frozen=True, slots=True)
class Runtime:
    """Clocks, threads and clients; by default those of the standard library and of kafka-python."""

    monotonic: Callable[[], float] = time.monotonic  # seconds from any moment on
    wall: Callable[[], float] = time.time  # seconds since 1970
    start_thread: Callable[[str, Callable[[], object]], object] = _start_thread
    future: Callable[[], Future[Any]] = Future
    queue: Callable[[], Any] = SimpleQueue
    wait: Callable[..., Any] = wait
    make_client: Callable[[Callable[..., Any], Mapping[str, Any]], Any] = client.make


REAL = Runtime()
