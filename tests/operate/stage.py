"""The parts of a run: members of the group as processes of their own, and a configurable load."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from stream_dedup.demo.embedded import free_ports
from stream_dedup.demo.newsroom import sample_records
from stream_dedup.settings import PREFIX, Settings
from tests.worker.support import outcome, read_all, variables_of, wait_until

_ROOT = Path(__file__).parents[2]
# The longest wait for a condition, in seconds, on a busy machine; it ends when the condition is met.
PATIENCE = 240.0


class Member:
    """A process with `stream-dedup run`, on ports that stay the same when it is restarted.

    `within`: a command that runs it, such as with limits.
    """

    def __init__(
        self, name: str, settings: Settings, directory: Path, *, within: Iterable[str] = (), **observe: Any
    ) -> None:
        self.faults = directory / f"faults-{name}"
        self.faults.mkdir(exist_ok=True)
        port, health_port = free_ports(2)
        self.address, self.health_address = f"127.0.0.1:{port}", f"127.0.0.1:{health_port}"
        self._within = list(within)
        self._log = directory / f"{name}.log"
        own = {"port": port, "health_port": health_port, **observe}
        observed = {f"{PREFIX}OBSERVE__{name.upper()}": str(value) for name, value in own.items()}
        self._variables = variables_of(settings) | observed | {"FAULTS": str(self.faults)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, sys.executable, "-m", "tests.operate.member"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=_ROOT,
                env=os.environ | self._variables,
            )  # fmt: skip
        return self

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def status(self) -> str:
        """The status in /healthz; empty if there is no response."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/healthz", timeout=5) as answer:
                return str(json.load(answer)["status"])
        except urllib.error.HTTPError as error:
            with error:
                return str(json.load(error)["status"])
        except OSError:
            return ""

    def wait_until(self, *statuses: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.status not in statuses:
            assert self._process is not None
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, f"{self.status}, not {statuses}:\n{self.log()}"
            time.sleep(0.1)

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def kill(self) -> None:
        """Send SIGKILL, like the failure of a machine."""
        self._end(signal.SIGKILL)

    def stop(self) -> tuple[int, float]:
        """Send SIGTERM, like a deployment; return the exit code and the seconds until then."""
        began = time.monotonic()
        return self._end(signal.SIGTERM), time.monotonic() - began

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE)
        self._process = None
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Load:
    """Sends records to the input topic from a thread of its own, each with its own key and the present time.

    `rate`: records a second. `shares`: the probability that a record is `poison` (not JSON), a `copy` (of an earlier
    item, under another id and host), `new` (unused words), `packed` (gzip in the value), `bare` (a headline without a
    text), `template` (ten words of its own in sixty) or `feed` (an item of an RSS feed); the others come from the
    made-up feed, in which every kind of verdict occurs. `in_seconds`: share of timestamps in seconds instead of
    milliseconds. With `records` (keys and values) it sends those and ends. While `is_behind()` it waits: a fault's
    records must not queue behind those before.
    """

    def __init__(self, settings: Settings, rate: float, records: Iterable[tuple[bytes, bytes]] | None = None) -> None:
        self.rate, self.sent = rate, 0
        self.is_behind: Callable[[], bool] = lambda: False
        self.usual()
        self._source = records if records is not None else self._records()
        self._settings = settings
        self._chance = random.Random(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def wait_until_sent(self) -> None:
        """Wait until all `records` are sent."""
        self._thread.join()

    def usual(self) -> None:
        """Reset the shares. Only half comes from the made-up feed, where one record in forty is broken: an alert's
        worth."""
        self.shares: Mapping[str, float] = {"new": 0.5}
        self.in_seconds = 0.0

    def _run(self) -> None:
        config: dict[str, Any] = {"linger_ms": 20, "delivery_timeout_ms": 600_000, "acks": "all"}
        producer = KafkaProducer(bootstrap_servers=self._settings.kafka.bootstrap_servers, **config)
        try:
            due = asked = time.monotonic()
            for key, value in self._source:
                if time.monotonic() - asked > 1:
                    while self.is_behind() and not self._stop.wait(0.5):
                        pass
                    asked = time.monotonic()
                unit = 1 if self._chance.random() < self.in_seconds else 1000
                producer.send(self._settings.topics.input, value, key, timestamp_ms=int(time.time() * unit))
                self.sent += 1
                # After a halt (a frozen broker) the missed records are not sent all at once.
                due = max(due + 1 / self.rate, time.monotonic() - 1)
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    break
            producer.flush()
        finally:
            producer.close(timeout=30)

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        usual = sample_records(10**9)
        for number in range(10**9):
            key, draw = f"record-{number}".encode(), self._chance.random()
            for kind, share in self.shares.items():
                draw -= share
                if draw < 0:
                    yield key, self._made(kind, number)
                    break
            else:
                yield key, next(usual)[1]

    def _made(self, kind: str, number: int) -> bytes:
        words = [f"{self._chance.getrandbits(32):x}" for _ in range(60)]
        item = {"id": f"load-{number}", "source": f"site{number % 5}.example", "title": " ".join(words[:8])}
        item["text"] = " ".join(words)
        if kind == "poison":
            return b"{poison"
        if kind == "copy":
            item["title"] = f"The archive of {number % 10}"
            item["text"] = " ".join(f"archive{number % 10}word{n}" for n in range(60))
        if kind == "bare":
            item |= {"title": f"{words[0]} and no more", "text": ""}
        if kind == "template":
            fixed = [f"fixed{n}word" for n in range(50)]
            item |= {"source": "weather.example", "title": f"Weather for {words[0]} {words[1]} today"}
            item["text"] = " ".join([*fixed[:25], *words[:10], *fixed[25:]])
        if kind == "feed":
            item = {"guid": item["id"], "title": item["title"], "description": item["text"], "link": "/1"}
        value = json.dumps(item).encode()
        return gzip.compress(value) if kind == "packed" else value

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)


def reader_of(settings: Settings, **config: Any) -> Any:
    """A read_committed consumer for a `with` block."""
    own = {"isolation_level": "read_committed", "enable_auto_commit": False, **config}
    return closing(KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap_servers, **own))


def inputs(settings: Settings, consumer: Any) -> list[TopicPartition]:
    topic = settings.topics.input
    return [TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)]


def unfinished(settings: Settings, consumer: Any) -> int:
    """How many offsets of the input the consumer's group has not committed yet."""
    ends = consumer.end_offsets(inputs(settings, consumer))
    return sum(max(0, end - (consumer.committed(place) or 0)) for place, end in ends.items())


def worked_off(settings: Settings, seconds: float = PATIENCE) -> None:
    """Wait until the group has committed everything in the input topic, at most for `seconds`."""
    with reader_of(settings, group_id=settings.kafka.group_id) as consumer:
        what = f"all of {settings.topics.input} is worked off"
        wait_until(lambda: not unfinished(settings, consumer), what, seconds)


def lost_and_repeated(settings: Settings) -> tuple[list[bytes], list[bytes]]:
    """The keys of input records without an outcome, and those with several. Each record has a key of its own."""
    keys = {record.key for record in read_all(settings, settings.topics.input)}
    fates = outcome(settings).fates
    return [key for key in keys if key not in fates], [key for key, count in fates.items() if count > 1]
