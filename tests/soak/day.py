"""A day in minutes: a load with one hostile record in a thousand, members that are killed, and a truncated input.

In: how long and how fast. Out: `Figures`. Two processes with `stream-dedup run` share a group, and nobody reads the log
of the first. The partition 0 of the input is set back to a snapshot once, as when its broker is restored from a backup;
the operator then runs the command that the members print. One record makes each member work for longer than the group
waits for it. What the brokers have at the end, and what was read before the truncation, must have gone out once.

As a program: `stream-dedup run` as one of these members.
"""

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from zlib import crc32

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from stream_dedup.cli.main import main
from stream_dedup.dedup.batch import Prepared
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.kafka import client
from stream_dedup.news.item import Item
from stream_dedup.settings import PREFIX, Settings
from tests.fuzz.hostile import NAMES, text_of
from tests.operate.stage import reader_of, unfinished
from tests.worker.support import administrator, made_up, outcome, read_all, variables_of, wait_until
from tests.worker.test_resume_kafka import reset_offsets
from tests.worker.test_truncated_log import RestoredKafka

_ROOT = Path(__file__).parents[2]
_HOSTILE_EVERY = 1000  # records
_KILL_SECONDS = 10.0
_SLOW = "a text on which the work takes long"
_POLL_SECONDS, _WORK_SECONDS = 5.0, 8.0
_PATIENCE = 300.0  # seconds without an end, on a busy machine
_PARTITIONS = 2


def hostile(seed: int) -> Iterator[bytes]:
    """Records that have stopped a worker, or might: runs of marks, every pattern of fuzz/hostile.py, XML, no JSON."""
    names = random.Random(seed).sample(NAMES, len(NAMES))
    spaces = "".join(f' xmlns:n{i}="urn:{i}"' for i in range(2500))
    children = "".join(f"<n{i}:c>{i}</n{i}:c>" for i in range(2500))
    yield _article("a" + "\u064c" * 150_000 + "\u064b" * 150_000)
    yield f"<rss{spaces}><channel><item><title>Ferry</title>{children}</item></channel></rss>".encode()
    yield b"<rss><channel><item><title>Ferry</title><description>" + b"<b>" * 100_000
    yield b'{"id": "lone", "title": "Ferry \\ud83d", "text": "It stops at the island."}'
    yield b"\x00\xff" * 50_000
    for name in names:
        yield _article(text_of(name, 100_000), text_of(name, 20_000))


def _article(text: str, title: str = "Mayor opens the bridge over the Elm") -> bytes:
    item = {"id": f"{crc32(text.encode('utf-8', 'replace')):x}", "title": title, "text": text, "source": "post.example"}
    return json.dumps(item, ensure_ascii=False).encode("utf-8", "replace")


@dataclass
class Figures:
    """What a day has shown. The delays are from the acknowledgement of a record to its outcome, in seconds."""

    records: int = 0
    hostile: int = 0
    kills: int = 0
    cut_away: int = 0  # records that the input lost after they had been judged
    lost: int = 0
    repeated: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # of dead letters
    worst_delay: dict[str, float] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)  # members that ended by themselves


class Members:
    """Two members, each started again when it ends. The first writes its log into a pipe that nobody reads."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._variables = os.environ | variables_of(settings) | {f"{PREFIX}OBSERVE__ENABLED": "false"}
        self.log = directory / "member.log"
        self._processes: list[subprocess.Popen[bytes] | None] = [None, None]
        self._killed: set[int] = set()
        self.ended: list[str] = []

    def start(self) -> None:
        """Start those that do not run."""
        for number, process in enumerate(self._processes):
            if process is not None and process.poll() is None:
                continue
            if process is not None:
                self._note(process)
            with self.log.open("ab") as log:
                stderr = log if number else subprocess.PIPE
                command = [sys.executable, "-m", "tests.soak.day"]
                self._processes[number] = subprocess.Popen(command, stderr=stderr, cwd=_ROOT, env=self._variables)

    def kill(self, number: int) -> None:
        process = self._processes[number % len(self._processes)]
        if process is not None and process.poll() is None:
            self._killed.add(process.pid)
            process.kill()
            process.wait()

    def wait_ended(self) -> None:
        """Wait until each has ended by itself; they stay down."""
        processes = [process for process in self._processes if process is not None]
        wait_until(lambda: all(one.poll() is not None for one in processes), "the members end", _PATIENCE)
        for one in processes:
            self._close(one)
        self._processes = [None, None]

    def _note(self, process: "subprocess.Popen[bytes]") -> None:
        if process.pid not in self._killed:
            self.ended.append(f"a member ended by itself with {process.returncode}")
        self._close(process)

    def _close(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stderr is not None:
            process.stderr.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, process in enumerate(self._processes):
            self.kill(number)
            if process is not None:
                self._close(process)


class Tail:
    """A reader of the outcomes, which notes when each becomes visible."""

    def __init__(self, settings: Settings) -> None:
        self.seen: dict[bytes, float] = {}  # key -> wall time
        topics = settings.topics
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings.kafka.bootstrap_servers, isolation_level="read_committed",
            auto_offset_reset="earliest", enable_auto_commit=False, max_partition_fetch_bytes=2**25,
        )  # fmt: skip
        names = (topics.output, topics.duplicates, topics.dead_letters)
        self._consumer.assign([TopicPartition(one, number) for one in names for number in range(_PARTITIONS)])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with closing(self._consumer):
            while not self._over.is_set():
                for some in self._consumer.poll(100).values():
                    for one in some:
                        self.seen.setdefault(one.key, time.time())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)


class Day:
    """One run on a broker of its own. `settings`: of topics with two partitions."""

    def __init__(self, settings: Settings, broker: RestoredKafka, directory: Path, seconds: float, rate: float) -> None:
        self._settings, self._broker, self._rate = settings, broker, rate
        self._count = int(seconds * rate)
        self._directory = directory
        self._sent: dict[bytes, float] = {}  # key -> wall time of the acknowledgement
        self._hostile: set[bytes] = set()
        self._known: set[bytes] = set()  # keys that the input had before it was cut
        self.figures = Figures()

    def run(self) -> Figures:
        with Members(self._settings, self._directory) as self._members, Tail(self._settings) as tail:
            plain, bad = made_up(self._count), hostile(1)
            records = []
            for number, (_, value) in enumerate(plain):
                key = f"day-{number}".encode()
                if number % _HOSTILE_EVERY == _HOSTILE_EVERY // 2:
                    self._hostile.add(key)
                    value = next(bad)
                records.append((key, value))
            third = self._count // 3
            self._feed(records[:third])
            self._rest()
            self._broker.snapshot(self._settings.topics.input)
            self._feed(records[third : 2 * third])
            self._rest()
            self._truncate()
            self._feed(records[2 * third :])
            self._rest()
            slow = (b"slow", _article(_SLOW))
            self._feed([*records[:50], slow, *records[50:100]], again=b"later-", kills=False)
            self._rest()
            wait_until(lambda: len(tail.seen) >= len(self._sent), "everything is visible", _PATIENCE)
            self.figures.ended = self._members.ended
        self._check(tail)
        return self.figures

    def _feed(self, records: Sequence[tuple[bytes, bytes]], again: bytes = b"", kills: bool = True) -> None:
        """Send records evenly, and kill a member every few seconds."""
        config: dict[str, Any] = {"acks": "all", "linger_ms": 20, "max_request_size": 2**25}
        began = killed = time.monotonic()
        topic = self._settings.topics.input
        with closing(KafkaProducer(bootstrap_servers=self._settings.kafka.bootstrap_servers, **config)) as producer:
            for number, (name, value) in enumerate(records):
                key = again + name
                future = producer.send(topic, value, key, partition=number % _PARTITIONS)
                future.add_callback(lambda _, key=key: self._sent.setdefault(key, time.time()))
                if kills and time.monotonic() - killed > _KILL_SECONDS:
                    killed = time.monotonic()
                    self._members.kill(self.figures.kills)
                    self._members.start()
                    self.figures.kills += 1
                time.sleep(max(0.0, began + number / self._rate - time.monotonic()))
            producer.flush()

    def _rest(self) -> None:
        """Wait until the group has read everything."""
        with reader_of(self._settings, group_id=self._settings.kafka.group_id) as consumer:

            def is_done() -> bool:
                self._members.start()
                time.sleep(0.5)
                return not unfinished(self._settings, consumer)

            wait_until(is_done, "everything is judged", _PATIENCE)

    def _truncate(self) -> None:
        """Set partition 0 back, and do what the members say."""
        topic = self._settings.topics.input
        self._known = {one.key for one in read_all(self._settings, topic)}
        self._broker.restore(topic)
        self._members.wait_ended()
        log = self._members.log.read_text()
        found = re.findall(rf"--topic {topic}:0 --reset-offsets --to-offset (\d+) --execute", log)
        assert found, log[-3000:]
        with administrator(self._settings) as admin:
            reset_offsets(admin, self._settings, {0: int(found[-1])})
        self.figures.cut_away = len(self._known) - len(read_all(self._settings, topic))
        self._members.start()

    def _check(self, tail: Tail) -> None:
        figures, came = self.figures, outcome(self._settings)
        known = self._known | {one.key for one in read_all(self._settings, self._settings.topics.input)}
        fates = came.fates
        figures.records, figures.hostile = len(known), len(self._hostile)
        figures.lost = len(known - fates.keys())
        figures.repeated = sum(count > 1 for count in fates.values()) + len(fates.keys() - known)
        reasons = Counter(dict(one.headers).get("dedup-reason", b"").decode() for one in came.dead_letters)
        figures.reasons = dict(sorted(reasons.items()))
        delays = {key: tail.seen[key] - at for key, at in self._sent.items() if key in tail.seen}
        slow = b"later-slow"
        kinds = {
            "hostile": self._hostile,
            "plain": {key for key in delays if key.startswith(b"day-")} - self._hostile,
            "too slow": {slow},
            "behind it": {key for key in delays if key.startswith(b"later-")} - {slow},
        }
        for kind, keys in kinds.items():
            figures.worst_delay[kind] = round(max((delays[key] for key in keys & delays.keys()), default=0.0), 1)


def _prepare(dedup: Deduplicator, items: Sequence[Any]) -> Prepared:
    if any(isinstance(item, Item) and _SLOW in item.text for item in items):
        time.sleep(_WORK_SECONDS)
    return _usual_prepare(dedup, items)


def _consumer(settings: Settings, assignor: Any) -> dict[str, Any]:
    return _usual_consumer(settings, assignor) | {"max_poll_interval_ms": int(_POLL_SECONDS * 1000)}


_usual_prepare, _usual_consumer = Deduplicator.prepare, client.consumer

if __name__ == "__main__":
    Deduplicator.prepare = _prepare  # type: ignore[method-assign]
    client.consumer = _consumer
    sys.argv[1:] = ["run"]
    main()
