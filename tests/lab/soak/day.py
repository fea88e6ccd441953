"""A day in minutes: hostile records, killed members and a truncated input, under load.

Two commands share a group, and the log of the first is never read. Partition 0 of the input is set back to a snapshot
once, as when its broker is restored from a backup. Then the operator runs the command that the members print. One
record makes each member work for longer than the group waits for it. Every record that the input has at the end, or
that was read before the truncation, must come out once.
"""

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from kafka import TopicPartition

from stream_dedup.settings import Settings
from tests.broker import EmbeddedKafka
from tests.fuzz.hostile import NAMES, text_of
from tests.harness.check import outcome, read_all
from tests.harness.feed import Load, made_up
from tests.harness.member import Command
from tests.harness.topics import copy_while_stopped, reader_of, set_offsets, unfinished
from tests.harness.wait import holds, wait_until

_HOSTILE_EVERY = 1000  # records
_KILL_SECONDS = 10.0
_SLOW = "a text on which the work takes long"
_PATIENCE = 300.0  # seconds without an end, on a busy machine
_PARTITIONS = 2


def hostile(seed: int) -> Iterator[bytes]:
    """Records that have stopped a worker, or might: runs of marks, XML, no JSON, every pattern of fuzz/hostile.py."""
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


@contextmanager
def tail(settings: Settings) -> Iterator[dict[bytes, float]]:
    """Read the outcomes in a thread; yield the wall time at which each key became visible."""
    seen, over, topics = dict[bytes, float](), threading.Event(), settings.topics
    names = (topics.output, topics.duplicates, topics.dead_letters)

    def read() -> None:
        with reader_of(settings, auto_offset_reset="earliest", max_partition_fetch_bytes=2**25) as consumer:
            consumer.assign([TopicPartition(name, number) for name in names for number in range(_PARTITIONS)])
            while not over.is_set():
                for records in consumer.poll(100).values():
                    for record in records:
                        seen.setdefault(record.key, time.time())

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(30)


class Day:
    """One run on a broker of its own, whose topics are in the folder `data` and have two partitions."""

    def __init__(self, settings: Settings, broker: EmbeddedKafka, directory: Path, seconds: float, rate: float) -> None:
        self._settings, self._broker, self._rate = settings, broker, rate
        self._count = int(seconds * rate)
        self._partition = directory / "data" / f"{settings.topics.input}-0"
        self._snapshot = directory / "snapshot"
        self._members = [Command(name, settings, directory, is_unread=name == "a") for name in "ab"]
        for member in self._members:
            (member.faults / "slow-text").write_text(_SLOW)
        self._sent: dict[bytes, float] = {}  # key -> wall time of the acknowledgement
        self._hostile: set[bytes] = set()
        self._known: set[bytes] = set()  # keys that the input had before it was cut
        self.figures = Figures()

    def run(self) -> Figures:
        with ExitStack() as stack:
            for member in self._members:
                stack.enter_context(member).start()
            seen = stack.enter_context(tail(self._settings))
            bad, records = hostile(1), []
            for number, (_, value) in enumerate(made_up(self._count)):
                key = f"day-{number}".encode()
                if number % _HOSTILE_EVERY == _HOSTILE_EVERY // 2:
                    self._hostile.add(key)
                    value = next(bad)
                records.append((key, value))
            third = self._count // 3
            self._feed(records[:third])
            copy_while_stopped(self._broker, self._partition, self._snapshot)
            self._feed(records[third : 2 * third])
            self._truncate()
            self._feed(records[2 * third :])
            slow = (b"slow", _article(_SLOW))
            again = [*records[:50], slow, *records[50:100]]
            self._feed([(b"later-" + key, value) for key, value in again], kills=False)
            wait_until(lambda: len(seen) >= len(self._sent), "everything is visible", _PATIENCE)
        self._check(seen)
        return self.figures

    def _feed(self, records: Sequence[tuple[bytes, bytes]], kills: bool = True) -> None:
        """Send records evenly, kill a member every few seconds, and wait until the group has read everything."""
        killed = time.monotonic()
        with Load(self._settings, self._rate, records, self._sent) as load:
            while load.is_sending:
                time.sleep(0.1)
                if kills and time.monotonic() - killed > _KILL_SECONDS:
                    killed = time.monotonic()
                    self._members[self.figures.kills % 2].kill()
                    self._start_missing()
                    self.figures.kills += 1
        with reader_of(self._settings, group_id=self._settings.kafka.group_id) as consumer:

            def is_done() -> bool:
                self._start_missing()
                return not unfinished(self._settings, consumer)

            assert holds(is_done, _PATIENCE, 0.5), "not everything is judged"

    def _start_missing(self) -> None:
        for member in self._members:
            if member.exit_code is not None:
                self.figures.ended.append(f"a member ended by itself with {member.exit_code}")
                member.kill()
            if not member.is_started:
                member.start()

    def _truncate(self) -> None:
        """Set partition 0 back, and do what the members say."""
        topic = self._settings.topics.input
        self._known = {record.key for record in read_all(self._settings, topic)}
        copy_while_stopped(self._broker, self._snapshot, self._partition)

        def have_ended() -> bool:
            return all(member.exit_code is not None for member in self._members)

        wait_until(have_ended, "the members end", _PATIENCE)
        for member in self._members:
            member.kill()
        log = self._members[1].log()
        found = re.findall(r"set-offset (\d+) --partitions 0", log)
        assert found, log[-3000:]
        set_offsets(self._settings, {0: int(found[-1])})
        self.figures.cut_away = len(self._known) - len(read_all(self._settings, topic))
        self._start_missing()

    def _check(self, seen: dict[bytes, float]) -> None:
        figures, came = self.figures, outcome(self._settings)
        known = self._known | {record.key for record in read_all(self._settings, self._settings.topics.input)}
        figures.records, figures.hostile = len(known), len(self._hostile)
        lost, repeated = came.lost_and_repeated(known)
        figures.lost, figures.repeated = len(lost), len(repeated) + len(came.fates.keys() - known)
        reasons = Counter(dict(one.headers).get("dedup-reason", b"").decode() for one in came.dead_letters)
        figures.reasons = dict(sorted(reasons.items()))
        delays = {key: seen[key] - at for key, at in self._sent.items() if key in seen}
        slow = b"later-slow"
        kinds = {
            "hostile": self._hostile,
            "plain": {key for key in delays if key.startswith(b"day-")} - self._hostile,
            "too slow": {slow},
            "behind it": {key for key in delays if key.startswith(b"later-")} - {slow},
        }
        for kind, keys in kinds.items():
            figures.worst_delay[kind] = round(max((delays[key] for key in keys & delays.keys()), default=0.0), 1)
