"""The memory and the metrics of a running worker, and a producer that does not wait for it."""

import json
import multiprocessing
import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaProducer

_PAGE = 4096
_PROCESSES = multiprocessing.get_context("forkserver")
# Records that may wait for the broker; the client itself has no bound.
_IN_FLIGHT = 5_000


def resident(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def highest(pid: int) -> int:
    """The most bytes of a process that were ever resident."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


def metric(address: str, name: str) -> float:
    """The sum of all series of a metric at /metrics."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{| )", line))


class Sample(NamedTuple):
    """What a worker shows at a moment, s."""

    at: float
    processor: float
    resident: int
    items: float
    lag: float


class Watch:
    """Samples a worker every second until `stop`, from a thread of its own."""

    def __init__(self, address: str, pid: int) -> None:
        self._address, self._pid = address, pid
        self.samples: list[Sample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(1):
            with suppress(OSError):  # the worker is busy
                items, lag = (metric(self._address, f"stream_dedup_{name}") for name in ("items_total", "lag_records"))
                self.samples.append(Sample(time.monotonic(), processor(self._pid), resident(self._pid), items, lag))

    def stop(self) -> list[Sample]:
        self._over.set()
        self._thread.join(60)
        return self.samples


@contextmanager
def flood(bootstrap: str, topic: str, records: Callable[[], Iterator[bytes]]) -> Iterator[Any]:
    """Send records as fast as the broker takes them, from a process of its own; yields the number sent so far."""
    sent, over = _PROCESSES.Value("q", 0), _PROCESSES.Event()
    process = _PROCESSES.Process(target=_send, args=(bootstrap, topic, records, sent, over), daemon=True)
    process.start()
    try:
        yield sent
    finally:
        over.set()
        process.join(60)
        if process.is_alive():
            process.kill()
            process.join(10)


def _send(bootstrap: str, topic: str, records: Callable[[], Iterator[bytes]], sent: Any, over: Any) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, batch_size=2**19, linger_ms=20, compression_type="lz4", max_request_size=2**26
    )
    futures = []
    for value in records():
        futures.append(producer.send(topic, value))
        if len(futures) == _IN_FLIGHT:
            for future in futures[: _IN_FLIGHT // 2]:
                future.get(60)
            del futures[: _IN_FLIGHT // 2]
            sent.value += _IN_FLIGHT // 2
        if over.is_set():
            break
    producer.flush()
    sent.value += len(futures)
    producer.close()


def as_json(name: str, title: str, text: str, source: str) -> bytes:
    """A record with these fields."""
    return json.dumps({"id": name, "title": title, "text": text, "source": source}).encode()
