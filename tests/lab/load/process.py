"""The memory and the metrics of a running worker, a producer that does not wait for it, and limits.

The limits of a process: a control group, whose processes the kernel kills beyond its memory, and few descriptors.
"""

import multiprocessing
import os
import re
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kafka import KafkaProducer

T = TypeVar("T")

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


def parts_of(values: Sequence[T], count: int) -> list[Sequence[T]]:
    """Cut a list into parts of equal length."""
    size = len(values) // count
    return [values[i * size : (i + 1) * size] for i in range(count)]


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


# -- limits ---------------------------------------------------------------------------------------------------

_ROOT = Path("/sys/fs/cgroup")
_V1 = _ROOT / "memory"
DESCRIPTORS = 256


@contextmanager
def limited(limit: int) -> Iterator[Path]:
    """Yield the directory of a new group of `limit` bytes; skip the test where none can be made (it takes root)."""
    parent, files = (_V1, ("memory.limit_in_bytes",)) if _V1.is_dir() else (_ROOT, ("memory.max",))
    group = parent / f"stream-dedup-test-{os.getpid()}"
    try:
        group.mkdir()
        for file in files:
            (group / file).write_text(str(limit))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield group
    finally:
        group.rmdir()


def highest_of(group: Path) -> int:
    """The most bytes that the processes of the group ever took, files in memory included."""
    names = ("memory.max_usage_in_bytes", "memory.peak")
    return next(int((group / name).read_text()) for name in names if (group / name).exists())


def entering(group: Path) -> list[str]:
    """The command that runs another one in the group with 256 descriptors.

    The shell enters the group before Python starts, which reads the limit of its group.
    """
    return ["sh", "-c", f'echo $$ > "$0" && ulimit -n {DESCRIPTORS} && exec "$@"', str(group / "cgroup.procs")]
