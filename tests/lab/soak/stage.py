"""The parts of a round: the feeder, the team of workers, and the changelog that the checker reads."""

import json
import random
import signal
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from stream_dedup.changelog.headers import OFFSETS_HEADER, SEQUENCE_HEADER, SequenceRange, span_of
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import CommitStep
from stream_dedup.worker.restore import index_partitions
from tests.harness.check import read_all
from tests.harness.member import Member
from tests.harness.topics import administrator, recreate
from tests.harness.wait import holds, wait_until
from tests.lab.model.items import Source, settings_for
from tests.lab.soak.checker import Block, Refusal
from tests.lab.soak.plan import Fault
from tests.worker.clock import set_clock

TRANSACTION_SECONDS = 6.0
# A clock stays wrong until an event shows it, at most for this time: the member may be about to start.
_SHOW_SECONDS = 30.0
# On a busy machine; ten otherwise.
_STOP_SECONDS = 60.0


def settings_of(bootstrap: str, scope: str, name: str, batch_items: int = 500) -> Settings:
    """Settings with topics and a group of their own."""
    times = {"session_timeout": "1500ms", "transaction_timeout": f"{TRANSACTION_SECONDS}s"}
    return settings_for(bootstrap, lambda role: f"{name}-{role}", scope=scope, batch_items=batch_items, **times)


# -- feeding -------------------------------------------------------------------------------------------------

_CHUNK = 50
# Chunks that may wait for the broker; the client itself has no bound.
_PENDING_CHUNKS = 400
_TRANSACTIONAL_SHARE = 0.03
# Its client may wait for a broker that is away, and gives a record up after two minutes.
_PAUSE_SECONDS = 180.0


class Feeder:
    """A thread that sends made-up items evenly over some seconds: copies, new versions, tombstones, bad records.

    Some are sent in transactions, half of which are aborted. A record that a broker's failure loses or repeats on its
    way in does not count, because the check begins with the input topic.
    """

    def __init__(self, settings: Settings, seed: int, items: int, rate: float, partitions: int) -> None:
        self.partitions = partitions
        self._settings, self._topic, self._items, self._rate = settings, settings.topics.input, items, rate
        self._rng = random.Random(seed)
        self._source = Source(self._rng, wild=0.0, updates=0.03)
        self._homes: dict[str, int] = {}  # records of an id stay in order, even after partitions were added
        self._producers: dict[bool, Any] = {}  # whether it is transactional
        self._pending: deque[Any] = deque()
        self._goes_on, self._has_paused, self._is_over = threading.Event(), threading.Event(), False
        self._goes_on.set()

    @property
    def is_done(self) -> bool:
        return self._feeding.done() and self._feeding.result() is None  # it raises what has ended the thread

    def pause(self) -> None:
        """Wait until everything that was sent is in the topic, and send no more."""
        self._has_paused.clear()
        self._goes_on.clear()
        wait_until(lambda: self._has_paused.is_set() or self.is_done, "the feeder has paused", _PAUSE_SECONDS)

    def resume(self) -> None:
        self._goes_on.set()

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(1, "feeder")
        self._feeding = self._pool.submit(self._feed)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._goes_on.set()
        self._pool.shutdown()

    def _feed(self) -> None:
        began, sent = time.monotonic(), 0
        while sent < self._items and not self._is_over:
            if not self._goes_on.is_set():
                paused = time.monotonic()
                self._close()  # the topic may be another one afterwards
                while not self._goes_on.wait(0.05):
                    self._has_paused.set()
                began += time.monotonic() - paused
            count, is_transactional = min(_CHUNK, self._items - sent), self._rng.random() < _TRANSACTIONAL_SHARE
            try:
                self._send(count, is_transactional)
            except KafkaError:
                if is_transactional and True in self._producers:
                    with suppress(KafkaError):
                        self._producers.pop(True).close(timeout=1)
            sent += count
            time.sleep(max(0.0, began + sent / self._rate - time.monotonic()))
        self._close()

    def _producer(self, is_transactional: bool) -> Any:
        if is_transactional not in self._producers:
            config: dict[str, Any] = {"bootstrap_servers": self._settings.kafka.bootstrap_servers, "acks": "all"}
            config |= {"linger_ms": 20, "batch_size": 2**17, "metadata_max_age_ms": 1000}
            if is_transactional:
                name = f"{self._topic}-feeder-{self._rng.getrandbits(32):x}"
                config |= {"transactional_id": name, "transaction_timeout_ms": 10_000}
            self._producers[is_transactional] = KafkaProducer(**config)
            if is_transactional:
                self._producers[True].init_transactions()
        return self._producers[is_transactional]

    def _send(self, count: int, is_transactional: bool) -> None:
        producer, topic = self._producer(is_transactional), self._topic
        if is_transactional:
            producer.begin_transaction()
        for _ in range(count):
            made = self._source.make(int(time.time() * 1000))
            # The client learns of a new partition when it asks for metadata again.
            known = min(self.partitions, len(producer.partitions_for(topic)))
            home = self._homes.setdefault(made.id, zlib.crc32(made.id.encode()) % known)
            while home not in producer.partitions_for(topic):  # a broker that was started again may know fewer
                time.sleep(0.1)
            key, value, headers, moment = made.record
            future = producer.send(topic, value, key, list(headers), home, timestamp_ms=moment)
        self._pending.append(future)
        if is_transactional:
            producer.flush(timeout=10)
            (producer.abort_transaction if self._rng.random() < 0.5 else producer.commit_transaction)()
        if len(self._pending) > _PENDING_CHUNKS:
            self._pending.popleft().get(60)

    def _close(self) -> None:
        """Close the producers, once everything has been sent."""
        for producer in self._producers.values():
            with suppress(KafkaError):
                producer.flush(timeout=60)
            with suppress(KafkaError):
                producer.close(timeout=5)
        self._producers.clear()
        self._pending.clear()


# -- workers -------------------------------------------------------------------------------------------------


@dataclass
class Life:
    """A worker from its start to its end. `fault`: the order that it has for a step of the commit protocol."""

    member: Member
    fault: Fault | None
    errors: list[Mapping[str, Any]] = field(default_factory=list)  # that end the worker
    is_over: bool = False
    is_frozen: bool = False
    is_ending: bool = False  # by our signal

    @property
    def is_alive(self) -> bool:
        return not self.is_over and self.member.process.is_alive()

    def end(self, number: int) -> None:
        """Send a signal that ends it, if it lives; it may be frozen."""
        if self.is_alive:
            self.is_ending = True
            self.member.signal(signal.SIGCONT)
            self.member.signal(number)


@dataclass
class Slot:
    """The place of a worker. `clock`: the file that its clock follows. `jump`: by how many seconds its clock was set;
    0: it is right, or the jump has shown.
    """

    clock: Path
    is_temporary: bool
    jump: int = 0
    life: Life | None = None


class Team:
    """Workers in processes of their own. Each is restarted when it ends, as by a supervisor.

    `orders`: faults at a step; each worker that starts takes the next one. `happened` counts the faults. `ended`: a
    sentence for each worker that ended by itself without a cause.
    """

    def __init__(self, settings: Settings, members: int, orders: Iterable[Fault], happened: Counter[str]) -> None:
        self._settings, self._members, self._orders = settings, members, deque(orders)
        self._happened = happened
        self._clocks = TemporaryDirectory(prefix="stream-dedup-clocks-")
        self._slots: list[Slot] = []
        self._later: list[tuple[float, Callable[[], object]]] = []
        self.ended: list[str] = []
        self._refusal: Refusal | None = None  # how workers must end that cannot go on now
        self._refused = 0
        self._is_over = False

    def __enter__(self) -> Self:
        for _ in range(self._members):
            self._join()
        return self

    def __exit__(self, *_: object) -> None:
        for life in self.lives:
            life.member.__exit__()
        self._clocks.cleanup()

    @property
    def lives(self) -> list[Life]:
        return [slot.life for slot in self._slots if slot.life is not None]

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + seconds, action))

    def until(self, condition: Callable[[], object], seconds: float = float("inf"), every: float = 0.05) -> bool:
        """Look after the workers until the condition holds, for some seconds at most; return whether it holds."""
        return holds(lambda: self._tick() or condition(), seconds, every)

    def run(self, seconds: float) -> None:
        """Look after the workers for some seconds."""
        self.until(lambda: False, seconds)

    def _tick(self) -> Any:
        now = time.monotonic()
        due = [action for at, action in self._later if at <= now]
        self._later = [(at, action) for at, action in self._later if at > now]
        for action in due:
            action()
        for slot in list(self._slots):
            if slot.life is not None:
                self._look_after(slot, slot.life)
        return None

    def _join(self, is_temporary: bool = False) -> Slot:
        slot = Slot(Path(self._clocks.name) / f"{time.monotonic_ns()}", is_temporary)
        set_clock(slot.clock, 0)
        self._slots.append(slot)
        self._start(slot)
        return slot

    def _start(self, slot: Slot) -> None:
        if self._is_over or slot.life is not None:
            return
        # A member that stands by reports it, so that its events always show its clock.
        fault, orders = None, {"clock": slot.clock, "tell_standby": True}
        if self._orders and not slot.is_temporary:
            fault = self._orders.popleft()
            order = "kill" if fault.kind == "worker_killed_at_step" else "freeze"
            orders[order] = [CommitStep(fault.step), fault.count]
        slot.life = Life(Member(self._settings, orders).go(), fault)

    def _look_after(self, slot: Slot, life: Life) -> None:
        is_alive = life.is_alive
        for event in life.member.drain():
            kind = event["event"]
            if slot.jump and abs(event["at"] - time.time() - slot.jump) < abs(slot.jump) / 2:
                self._happened["clock_jumped"] += 1
                slot.jump = 0
            if kind in ("kill", "freeze") and life.fault is not None:
                self._happened[life.fault.kind] += 1
                if kind == "freeze":
                    self._frozen(life, life.fault.seconds)
            elif kind == "stumble":
                self._happened["transaction_failed"] += 1
            elif kind == "error" and event["retry_in"] is None:
                life.errors.append(event)
        life.member.events.clear()
        if is_alive:
            return
        code = life.member.process.exitcode
        if code != -signal.SIGKILL and not (life.is_ending and code == 0):
            if self._refusal is not None and life.errors:
                self._refused += 1
                self.ended += self._refusal.check(life.errors[-1])
            else:
                self.ended.append(f"ended: a worker ended by itself with {code}: {life.errors}")
        life.member.__exit__()
        life.is_over, slot.life = True, None
        if slot.is_temporary:
            self._slots.remove(slot)
        else:
            self.after(random.uniform(0.1, 2.0), partial(self._start, slot))

    def _frozen(self, life: Life, seconds: float) -> None:
        life.is_frozen = True

        def thaw() -> None:
            if life.is_alive:
                life.is_frozen = False
                life.member.signal(signal.SIGCONT)

        self.after(seconds, thaw)

    # -- faults: each returns whether it happened ----------------------------------------------------------

    def _chosen(self, target: int) -> Slot | None:
        awake = [
            slot for slot in self._slots
            if (life := slot.life) and life.is_alive and not life.is_frozen and not life.is_ending
        ]  # fmt: skip
        return awake[target % len(awake)] if awake else None

    def signal(self, target: int, number: int, seconds: float = 0.0) -> bool:
        """Send a signal to a worker. `seconds`: after which it wakes again."""
        slot = self._chosen(target)
        if slot is None or slot.life is None:
            return False
        slot.life.is_ending |= number == signal.SIGTERM
        slot.life.member.signal(number)
        if number == signal.SIGSTOP:
            self._frozen(slot.life, seconds)
        return True

    def fail_transaction(self, target: int) -> bool:
        """Let the next transaction fail; it counts when it does."""
        self.signal(target, signal.SIGUSR2)
        return False

    def jump(self, target: int, offset: int, seconds: float) -> bool:
        """Set a worker's clock for some seconds; it counts when an event shows it."""
        slot = self._chosen(target)
        if slot is not None:
            slot.jump = offset
            set_clock(slot.clock, offset)
            latest = time.monotonic() + _SHOW_SECONDS

            def correct() -> None:
                if slot.jump and time.monotonic() < latest:
                    self.after(1.0, correct)
                    return
                slot.jump = 0
                set_clock(slot.clock, 0)

            self.after(seconds, correct)
        return False

    def storm(self, seconds: float) -> bool:
        """Three workers join one after the other; then one is killed and the others leave."""
        for number in range(3):
            self.after(number * seconds / 4, partial(self._visit, seconds / 2, number == 1))
        return True

    def _visit(self, seconds: float, is_killed: bool) -> None:
        life = self._join(is_temporary=True).life
        if life is not None:
            self.after(seconds, partial(life.end, signal.SIGKILL if is_killed else signal.SIGTERM))

    def stop_all(self) -> None:
        """Stop every worker, and start none until `resume`; each must end cleanly."""
        self._is_over = True
        for life in self.lives:
            life.end(signal.SIGTERM)
        if not self.until(lambda: not self.lives, _STOP_SECONDS):
            self.ended.append(f"ended: a worker has not ended {_STOP_SECONDS:.0f} s after SIGTERM")

    def stop_refusing(self, refusal: Refusal, cause: Callable[[], object], seconds: float) -> bool:
        """Stop every worker after one has ended as `refusal` says; return whether one did."""
        self._refusal, before = refusal, self._refused
        cause()
        happened = self.until(lambda: self._refused > before, seconds)
        if not happened:
            self.ended.append(f"refusal: for {seconds:.0f} s no worker has ended because of {refusal.place}")
        self.stop_all()
        return happened

    def resume(self, settings: Settings) -> None:
        """Start every worker again, with these settings."""
        self._settings, self._is_over, self._refusal = settings, False, None
        for slot in self._slots:
            self._start(slot)


# -- the topics ----------------------------------------------------------------------------------------------


class Changelog:
    """The blocks of each task, read before they are deleted. Those of large batches are in the second partition.

    `cut`: see checker.History.
    """

    def __init__(self, settings: Settings, tasks: int) -> None:
        self._tasks = range(tasks)
        self._span = 0
        self.cut: dict[int, tuple[int, int]] = {}
        self.blocks: dict[int, list[Block]] = {task: [] for task in self._tasks}
        self.follow(settings)

    def follow(self, settings: Settings) -> None:
        """Read another topic from now on, or another one of the same name."""
        self._settings, self._topic = settings, settings.topics.changelog
        self._places = {task: index_partitions(self._topic, task) for task in self._tasks}
        self._next = {place.partition: 0 for places in self._places.values() for place in places}
        self._last: dict[int, Any] = {}  # task -> its last entry, in whichever partition

    def end_span(self) -> dict[int, list[Block]]:
        """Return the blocks of the span; those that come from now on belong to the next one."""
        self.read()
        blocks, self.blocks = self.blocks, {task: [] for task in self._tasks}
        self._span += 1
        return blocks

    def forget(self) -> None:
        """Note that all blocks so far are gone."""
        self.read()
        for task, blocks in self.blocks.items():
            if blocks:
                self.cut[task] = self._span, max(block.progress for block in blocks)
            elif self._span:
                self.cut[task] = self._span, 0

    def read(self) -> None:
        for task, places in self._places.items():
            partitions = [place.partition for place in places]
            for record in read_all(self._settings, self._topic, start=self._next, partitions=partitions):
                self._next[record.partition] = record.offset + 1
                if _DAMAGE in record.headers:
                    continue
                self.blocks[task].append(_block(record))
                if task not in self._last or span_of(record).last >= span_of(self._last[task]).last:
                    self._last[task] = record

    def truncate(self, target: int, share: float) -> bool:
        """Delete the first share of a task's transactions, as retention does."""
        self.read()
        task = target % len(self._places)
        steps = sorted({block.progress for block in self.blocks[task]})
        if not steps:
            return False
        limit, places = steps[int(len(steps) * share)], list(self._places[task])
        limits = {place: self._next[place.partition] for place in places}
        for record in read_all(self._settings, self._topic, partitions=[place.partition for place in places]):
            place = TopicPartition(self._topic, record.partition)
            if _DAMAGE not in record.headers and _block(record).progress > limit:
                limits[place] = min(limits[place], record.offset)
        with administrator(self._settings) as admin:
            admin.delete_records(limits)
        self.cut[task] = max((self._span, limit), self.cut.get(task, (0, 0)))
        return True

    def damage(self, target: int, is_ours: bool) -> bool:
        """Write a record into a task's changelog, as another program does: one of its own, or a block with wrong bytes
        (`is_ours`).
        """
        self.read()
        task = target % len(self._places)
        last = self._last.get(task)
        if last is None:
            return False
        key, value, headers = _DAMAGE[1], b"a line of a log", [_DAMAGE]
        if is_ours:
            key, middle = last.key, len(last.value) // 2
            value = last.value[:middle] + bytes([last.value[middle] ^ 1]) + last.value[middle + 1 :]
            number = span_of(last).last + 1  # the next entry's; one with a known number is ignored
            headers += [pair for pair in last.headers if pair[0] != SEQUENCE_HEADER]
            headers.append(SequenceRange(number, number).header())
        partition = self._places[task].blocks.partition
        with closing(KafkaProducer(bootstrap_servers=self._settings.kafka.bootstrap_servers)) as producer:
            producer.send(self._topic, value, key, headers, partition=partition).get(30)
        return True

    def recreate(self) -> None:
        """Delete the topic and create it anew. Nothing may be written meanwhile."""
        self.forget()
        recreate(self._settings, self._topic)
        self.follow(self._settings)


_DAMAGE = ("written-by", b"another program")


def _block(record: Any) -> Block:
    after = json.loads(dict(record.headers)[OFFSETS_HEADER])
    return Block({int(name): offset for name, offset in after.items()})
