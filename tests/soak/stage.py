"""The parts of a round: settings, the feeder, the team of workers, and what is read from the topics."""

import json
import multiprocessing
import random
import signal
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from stream_dedup.changelog.records import OFFSETS_HEADER, SEQUENCE_HEADER, SequenceRange, index_partitions, span_of
from stream_dedup.kafka.topics import create_topics
from stream_dedup.settings import Settings, load_settings
from stream_dedup.worker.commit import CommitStep
from tests.model.items import Source
from tests.soak.checker import Block, Refusal
from tests.soak.plan import Fault
from tests.worker.clock import set_clock
from tests.worker.support import Member, read_all

TRANSACTION_SECONDS = 6.0
# For a broker that has just been restarted.
_DELETE_SECONDS = 30.0
# A clock stays wrong until an event shows it, for this long at most: the member may be about to start.
_SHOW_SECONDS = 30.0
_PREFERRED = 0  # kafka-python's number of the election of preferred leaders
_PROCESSES = multiprocessing.get_context("forkserver")


def settings_of(bootstrap: str, scope: str, name: str, batch_items: int = 500) -> Settings:
    """Settings with topics and a group of their own.

    A made-up item brings its fingerprint, so its true verdict is known.
    """
    roles = ("input", "output", "duplicates", "dead_letters", "changelog")
    return load_settings(
        kafka={"bootstrap_servers": bootstrap, "group_id": f"{name}-group"},
        topics={role: f"{name}-{role.replace('_', '-')}" for role in roles},
        fingerprint={"family": "given", "layout": "4 choose 1"},
        item={"fingerprint": "fp"},
        worker={
            "scope": scope,
            "batch_items": batch_items,
            "session_timeout": "1500ms",
            "transaction_timeout": f"{TRANSACTION_SECONDS}s",
        },
    )


# -- feeding -------------------------------------------------------------------------------------------------

_CHUNK = 50
# Chunks that may wait for the broker; the client itself has no bound.
_PENDING_CHUNKS = 400
_TRANSACTIONAL_SHARE = 0.03
_FEEDING, _PAUSING, _PAUSED = range(3)
# Its client may wait for a broker that is away, and gives a record up after two minutes.
_PAUSE_SECONDS = 180.0


class Feeder:
    """A process that sends made-up items evenly over some seconds: copies, new versions, tombstones, bad records.

    Some are sent in transactions, half of which are aborted. What a broker's failure loses or repeats on the way in is
    no matter: the input topic is the truth.
    """

    def __init__(self, settings: Settings, seed: int, items: int, seconds: float, partitions: int) -> None:
        self.partitions = _PROCESSES.Value("i", partitions)
        self.sent = _PROCESSES.Value("i", 0)
        self._pause = _PROCESSES.Value("i", _FEEDING)
        self._process = _PROCESSES.Process(
            target=_feed,
            args=(settings, seed, items, items / seconds, self.partitions, self.sent, self._pause),
            daemon=True,
        )

    @property
    def is_done(self) -> bool:
        code = self._process.exitcode
        assert not code, f"the feeder has ended with {code}"
        return code == 0

    def pause(self) -> None:
        """Wait until everything that was sent is in the topic, and send no more."""
        with self._pause.get_lock():
            self._pause.value = _PAUSING
        deadline = time.monotonic() + _PAUSE_SECONDS
        while self._pause.value != _PAUSED and not self.is_done:
            assert time.monotonic() < deadline, f"the feeder has not paused in {_PAUSE_SECONDS} s"
            time.sleep(0.05)

    def resume(self) -> None:
        with self._pause.get_lock():
            self._pause.value = _FEEDING

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(10)


def _feed(settings: Settings, seed: int, items: int, rate: float, partitions: Any, sent: Any, pause: Any) -> None:
    topic = settings.topics.input
    rng = random.Random(seed)
    source = Source(rng, wild=0.0, updates=0.03)
    homes: dict[str, int] = {}  # records of an id stay in order, even after partitions were added
    config: dict[str, Any] = {"bootstrap_servers": settings.kafka.bootstrap_servers, "acks": "all"}
    config |= {"linger_ms": 20, "batch_size": 2**17, "metadata_max_age_ms": 1000}
    producers: dict[bool, Any] = {}  # whether it is transactional
    pending: deque[Any] = deque()
    began, number = time.monotonic(), 0
    while sent.value < items:
        if pause.value == _PAUSING:
            paused = time.monotonic()
            _close(producers)  # the topic may be another one afterwards
            pending.clear()
            pause.value = _PAUSED
            while pause.value == _PAUSED:
                time.sleep(0.05)
            began += time.monotonic() - paused
        number += 1
        made = [source.make(int(time.time() * 1000)) for _ in range(min(_CHUNK, items - sent.value))]
        is_transactional = rng.random() < _TRANSACTIONAL_SHARE
        try:
            if is_transactional not in producers:
                own = {"transactional_id": f"{topic}-feeder-{number}", "transaction_timeout_ms": 10_000}
                producers[is_transactional] = KafkaProducer(**config, **(own if is_transactional else {}))
                if is_transactional:
                    producers[True].init_transactions()
            producer = producers[is_transactional]
            if is_transactional:
                producer.begin_transaction()
            for one in made:
                # The client learns of a new partition when it asks for metadata again.
                count = min(partitions.value, len(producer.partitions_for(topic)))
                home = homes.setdefault(one.id, zlib.crc32(one.id.encode()) % count)
                while home not in producer.partitions_for(topic):  # a broker that was started again may know fewer
                    time.sleep(0.1)
                record = one.record
                future = producer.send(
                    topic, record.value, record.key, list(record.headers), home, timestamp_ms=record.timestamp
                )
            pending.append(future)
            if is_transactional:
                producer.flush(timeout=10)
                (producer.abort_transaction if rng.random() < 0.5 else producer.commit_transaction)()
            if len(pending) > _PENDING_CHUNKS:
                pending.popleft().get(60)
        except KafkaError:
            if is_transactional and True in producers:
                with suppress(KafkaError):
                    producers.pop(True).close(timeout=1)
        sent.value += len(made)
        time.sleep(max(0.0, began + sent.value / rate - time.monotonic()))
    _close(producers)


def _close(producers: dict[bool, Any]) -> None:
    """Close the producers, once everything has been sent."""
    for one in producers.values():
        with suppress(KafkaError):
            one.flush(timeout=60)
        with suppress(KafkaError):
            one.close(timeout=5)
    producers.clear()


# -- workers -------------------------------------------------------------------------------------------------


@dataclass
class Slot:
    """The place of a worker. `clock`: the file that its clock follows. `fault`: the order that it has for a step of the
    commit protocol. `jump`: by how many seconds its clock was set; 0: it is right, or the jump has shown.
    """

    clock: Path
    jump: int = 0
    member: Member | None = None
    errors: list[Mapping[str, Any]] = field(default_factory=list)  # that end the worker
    fault: Fault | None = None
    is_temporary: bool = False
    is_frozen: bool = False
    long_freeze: bool = False  # its calls may have passed their limits, so it may end by itself
    is_ending: bool = False  # by our signal

    @property
    def is_alive(self) -> bool:
        return self.member is not None and self.member.process.is_alive()


class Team:
    """Workers in processes of their own, each restarted when it ends, as by a supervisor.

    `orders`: faults at a step, which the next workers to start take with them. `happened` counts the faults. `refusal`:
    how workers must end that cannot go on now; `refused` counts those that did.
    """

    def __init__(self, settings: Settings, members: int, orders: Iterable[Fault], happened: Counter[str]) -> None:
        self._settings, self._orders, self._happened = settings, deque(orders), happened
        self._count = 0
        self._clocks = TemporaryDirectory(prefix="stream-dedup-clocks-")
        self.slots: list[Slot] = []
        for _ in range(members):
            self._add_slot()
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.ended: list[str] = []  # workers that ended by themselves without a cause
        self.refusal: Refusal | None = None
        self.refused = 0
        self._is_over = False

    def __enter__(self) -> Self:
        for slot in self.slots:
            self._start(slot)
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self.slots:
            if slot.member is not None:
                slot.member.__exit__()
        self._clocks.cleanup()

    def _add_slot(self, is_temporary: bool = False) -> Slot:
        self._count += 1
        slot = Slot(Path(self._clocks.name) / str(self._count), is_temporary=is_temporary)
        set_clock(slot.clock, 0)
        self.slots.append(slot)
        return slot

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.later.append((time.monotonic() + seconds, action))

    def run(self, seconds: float) -> None:
        """Look after the workers for some seconds."""
        end = time.monotonic() + seconds
        while True:
            self.tick()
            if time.monotonic() >= end:
                return
            time.sleep(0.05)

    def tick(self) -> None:
        now = time.monotonic()
        due = [action for at, action in self.later if at <= now]
        self.later = [(at, action) for at, action in self.later if at > now]
        for action in due:
            action()
        for slot in list(self.slots):
            if slot.member is not None:
                self._look_after(slot, slot.member)

    def _start(self, slot: Slot) -> None:
        if self._is_over or slot.member is not None:
            return
        # A member that stands by reports it, so that its events always show its clock.
        slot.fault, orders = None, {"clock": slot.clock, "tell_standby": True}
        if self._orders and not slot.is_temporary:
            slot.fault = self._orders.popleft()
            order = "kill" if slot.fault.kind == "worker_killed_at_step" else "freeze"
            orders[order] = [CommitStep(slot.fault.step), slot.fault.count]
        slot.long_freeze = slot.is_ending = False
        slot.errors = []
        slot.is_frozen = False
        slot.member = Member(self._settings, orders).go()

    def _look_after(self, slot: Slot, member: Member) -> None:
        is_alive = member.process.is_alive()
        for event in member.drain():
            kind = event["event"]
            if slot.jump and abs(event["at"] - time.time() - slot.jump) < abs(slot.jump) / 2:
                self._happened["clock_jumped"] += 1
                slot.jump = 0
            if kind in ("kill", "freeze") and slot.fault is not None:
                self._happened[slot.fault.kind] += 1
                if kind == "freeze":
                    self._frozen(slot, slot.fault.seconds)
            elif kind == "stumble":
                self._happened["transaction_failed"] += 1
            elif kind == "error" and event["retry_in"] is None:
                slot.errors.append(event)
        member.events.clear()
        if is_alive:
            return
        code = member.process.exitcode
        if code != -signal.SIGKILL and not (slot.is_ending and code == 0) and not slot.long_freeze:
            if self.refusal is not None and slot.errors:
                self.refused += 1
                self.ended += self.refusal.check(slot.errors[-1])
            else:
                self.ended.append(f"ended: a worker ended by itself with {code}: {slot.errors}")
        member.__exit__()
        slot.member = None
        if slot.is_temporary:
            self.slots.remove(slot)
        else:
            self.after(random.uniform(0.1, 2.0), lambda: self._start(slot))

    def _frozen(self, slot: Slot, seconds: float) -> None:
        slot.is_frozen = True
        slot.long_freeze |= seconds >= TRANSACTION_SECONDS - 1
        member = slot.member

        def thaw() -> None:
            if member is not None and slot.member is member and slot.is_alive:
                slot.is_frozen = False
                member.signal(signal.SIGCONT)

        self.after(seconds, thaw)

    # -- faults ------------------------------------------------------------------------------------------

    def _chosen(self, target: int) -> Slot | None:
        awake = [one for one in self.slots if one.is_alive and not one.is_frozen and not one.is_ending]
        return awake[target % len(awake)] if awake else None

    def kill(self, target: int) -> bool:
        return self._signal(target, signal.SIGKILL)

    def stop(self, target: int) -> bool:
        return self._signal(target, signal.SIGTERM)

    def fail_transaction(self, target: int) -> bool:
        """Let the next transaction fail; it counts when it does."""
        self._signal(target, signal.SIGUSR2)
        return False

    def freeze(self, target: int, seconds: float) -> bool:
        slot = self._chosen(target)
        if slot is None or slot.member is None:
            return False
        slot.member.signal(signal.SIGSTOP)
        self._frozen(slot, seconds)
        return True

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

    def _signal(self, target: int, number: int) -> bool:
        slot = self._chosen(target)
        if slot is None or slot.member is None:
            return False
        slot.is_ending |= number == signal.SIGTERM
        slot.member.signal(number)
        return True

    def storm(self, seconds: float) -> bool:
        """Three workers join one after the other; then one is killed and the others leave."""
        for number in range(3):
            self.after(number * seconds / 4, lambda number=number: self._visit(seconds / 2, number == 1))  # type: ignore[misc]
        return True

    def _visit(self, seconds: float, is_killed: bool) -> None:
        slot = self._add_slot(is_temporary=True)
        self._start(slot)
        member = slot.member

        def leave() -> None:
            if member is not None and slot.member is member and slot.is_alive:
                slot.is_ending = True
                member.signal(signal.SIGKILL if is_killed else signal.SIGTERM)

        self.after(seconds, leave)

    def stop_all(self, seconds: float = 60) -> None:
        """Stop every worker, and start none until `resume`; each must end cleanly."""
        self._is_over = True
        for slot in self.slots:
            if slot.member is not None and slot.is_alive:
                slot.is_ending = True
                slot.member.signal(signal.SIGCONT)
                slot.member.signal(signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while any(slot.member is not None for slot in self.slots):
            self.tick()
            if time.monotonic() > deadline:
                self.ended.append(f"ended: a worker has not ended {seconds} s after SIGTERM")
                return
            time.sleep(0.05)

    def resume(self, settings: Settings) -> None:
        """Start every worker again, with these settings."""
        self._settings, self._is_over, self.refusal = settings, False, None
        for slot in self.slots:
            self._start(slot)

    def wait_for_refusal(self, seconds: float) -> bool:
        """Look after the workers until one ends as `refusal` says."""
        before, deadline = self.refused, time.monotonic() + seconds
        while self.refused == before:
            if time.monotonic() > deadline:
                return False
            self.run(0.2)
        return True


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
            for one in read_all(self._settings, self._topic, start=self._next, partitions=partitions):
                self._next[one.partition] = one.offset + 1
                if _DAMAGE in one.headers:
                    continue
                self.blocks[task].append(_block(one))
                if task not in self._last or _number(one) >= _number(self._last[task]):
                    self._last[task] = one

    def truncate(self, target: int, share: float) -> bool:
        """Delete the first share of a task's transactions, as retention does."""
        self.read()
        task = target % len(self._places)
        steps = sorted({block.progress for block in self.blocks[task]})
        if not steps:
            return False
        limit, places = steps[int(len(steps) * share)], list(self._places[task])
        limits = {place: self._next[place.partition] for place in places}
        for one in read_all(self._settings, self._topic, partitions=[place.partition for place in places]):
            place = TopicPartition(self._topic, one.partition)
            if _block(one).progress > limit:
                limits[place] = min(limits[place], one.offset)
        with admin_of(self._settings) as admin:
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
            number = _number(last) + 1  # the next entry's; one with a known number is ignored
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


def _number(record: Any) -> int:
    """The last sequence number of an entry."""
    return span_of(record).last


def _block(record: Any) -> Block:
    after = json.loads(dict(record.headers)[OFFSETS_HEADER])
    return Block({int(name): offset for name, offset in after.items()})


def admin_of(settings: Settings) -> Any:
    """An admin client for a `with` block."""
    return closing(KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers))


def _reader_of(settings: Settings, **config: Any) -> Any:
    """A read_committed consumer for a `with` block."""
    consumer = KafkaConsumer(
        bootstrap_servers=settings.kafka.bootstrap_servers,
        **{"isolation_level": "read_committed", "enable_auto_commit": False, **config},
    )
    return closing(consumer)


def _inputs(settings: Settings, consumer: Any) -> list[TopicPartition]:
    topic = settings.topics.input
    return [TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)]


def _wait_until(condition: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + _DELETE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.1)


def recreate(settings: Settings, topic: str, partitions: int | None = None) -> None:
    """Delete a topic and create it anew, as `stream-dedup topics create` does."""
    with admin_of(settings) as admin:
        admin.delete_topics([topic])
        _wait_until(lambda: admin.describe_topics([topic])[0]["error_code"] != 0, f"{topic} is still there")
    create_topics(settings, partitions=partitions)


def settle(settings: Settings) -> None:
    """Wait until no transaction is open in the input."""
    with _reader_of(settings) as one, _reader_of(settings, isolation_level="read_uncommitted") as other:
        places = _inputs(settings, one)
        problem = f"a transaction stays open in {settings.topics.input}"
        _wait_until(lambda: one.end_offsets(places) == other.end_offsets(places), problem)


def begin_at_the_beginning(settings: Settings) -> None:
    """Set the group's offsets as `kafka-consumer-groups.sh --reset-offsets --to-earliest` does; no worker runs."""
    group = settings.kafka.group_id
    with admin_of(settings) as admin, _reader_of(settings, group_id=group) as consumer:
        places = _inputs(settings, consumer)

        def is_set() -> bool:
            with suppress(KafkaError):  # refused while the session of a killed member lasts
                admin.alter_group_offsets(group, {one: OffsetAndMetadata(0, "", -1) for one in places})
            return all(consumer.committed(place) == 0 for place in places)

        _wait_until(is_set, f"the offsets of {group} cannot be set")


def elect(settings: Settings, topic: str) -> bool:
    """Let the second replica of each partition lead; return whether a leader has changed."""
    with admin_of(settings) as admin:
        before = {one["partition_index"]: one for one in admin.describe_topics([topic])[0]["partitions"]}
        replicas = {
            TopicPartition(topic, number): [*one["replica_nodes"][1:], one["replica_nodes"][0]]
            for number, one in before.items()
        }
        admin.alter_partition_reassignments(replicas)
        admin.elect_leaders(_PREFERRED, {topic: list(before)}, raise_errors=False)
        after = {one["partition_index"]: one["leader_id"] for one in admin.describe_topics([topic])[0]["partitions"]}
        return any(after[number] != one["leader_id"] for number, one in before.items())


def unfinished(settings: Settings) -> int:
    """How many offsets of the input the group has not committed yet."""
    with _reader_of(settings, group_id=settings.kafka.group_id) as consumer:
        ends = consumer.end_offsets(_inputs(settings, consumer))
        return sum(max(0, end - (consumer.committed(place) or 0)) for place, end in ends.items())
