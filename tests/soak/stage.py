"""The parts of a round: settings, the feeder, the team of workers, and what is read from the topics."""

import json
import multiprocessing
import random
import signal
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from stream_dedup.changelog.headers import OFFSETS_HEADER
from stream_dedup.changelog.partitions import index_partitions
from stream_dedup.settings import Settings, load_settings
from stream_dedup.stream.transaction import CommitStep
from tests.model.items import Source
from tests.soak.checker import Block
from tests.soak.corpus import Corpus
from tests.soak.plan import Fault
from tests.stream.support import Member, read_all

TRANSACTION_SECONDS = 6.0
_PROCESSES = multiprocessing.get_context("forkserver")


def settings_of(bootstrap: str, scope: str, name: str, batch_items: int = 500, corpus: Path | None = None) -> Settings:
    """Settings with topics and a group of their own.

    A made-up item brings its fingerprint, so its true verdict is known; those of a `corpus` have real fingerprints.
    """
    given: dict[str, Any] = {"fingerprint": {"family": "given", "layout": "4 choose 1"}, "item": {"fingerprint": "fp"}}
    roles = ("input", "output", "duplicates", "dead_letters", "changelog")
    return load_settings(
        kafka={"bootstrap_servers": bootstrap, "group_id": f"{name}-group"},
        topics={role: f"{name}-{role.replace('_', '-')}" for role in roles},
        **({} if corpus else given),
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


class Feeder:
    """A process that sends made-up items evenly over some seconds: copies, new versions, tombstones, bad records.

    Some are sent in transactions, half of which are aborted. What a broker's failure loses or repeats on the way in is
    no matter: the input topic is the truth.
    """

    def __init__(
        self,
        settings: Settings,
        seed: int,
        items: int,
        seconds: float,
        partitions: int,
        corpus: Path | None = None,
    ) -> None:
        self.partitions = _PROCESSES.Value("i", partitions)
        self.sent = _PROCESSES.Value("i", 0)
        self._process = _PROCESSES.Process(
            target=_feed,
            args=(settings, seed, items, items / seconds, self.partitions, self.sent, corpus),
            daemon=True,
        )

    @property
    def is_done(self) -> bool:
        code = self._process.exitcode
        assert not code, f"the feeder has ended with {code}"
        return code == 0

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(10)


def _feed(
    settings: Settings, seed: int, items: int, rate: float, partitions: Any, sent: Any, corpus: Path | None = None
) -> None:
    topic = settings.topics.input
    rng = random.Random(seed)
    source = Corpus(corpus, rng) if corpus else Source(rng, wild=0.0, updates=0.03)
    homes: dict[str, int] = {}  # records of an id stay in order, even after partitions were added
    config: dict[str, Any] = {"bootstrap_servers": settings.kafka.bootstrap_servers, "acks": "all"}
    config |= {"linger_ms": 20, "batch_size": 2**17}
    plain = KafkaProducer(**config)
    transactional: Any = None
    pending: deque[Any] = deque()
    began, number = time.monotonic(), 0
    while sent.value < items:
        number += 1
        made = [source.make(int(time.time() * 1000)) for _ in range(min(_CHUNK, items - sent.value))]
        is_transactional = rng.random() < _TRANSACTIONAL_SHARE
        try:
            if is_transactional and transactional is None:
                name = f"{topic}-feeder-{number}"
                transactional = KafkaProducer(**config, transactional_id=name, transaction_timeout_ms=10_000)
                transactional.init_transactions()
            producer = plain
            if is_transactional:
                producer = transactional
                producer.begin_transaction()
            for one in made:
                # The client learns of a new partition when it asks for metadata again.
                count = min(partitions.value, len(producer.partitions_for(topic)))
                home = homes.setdefault(one.id, zlib.crc32(one.id.encode()) % count)
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
            if is_transactional and transactional is not None:
                with suppress(KafkaError):
                    transactional.close(timeout=1)
                transactional = None
        sent.value += len(made)
        time.sleep(max(0.0, began + sent.value / rate - time.monotonic()))
    with suppress(KafkaError):
        plain.flush(timeout=60)
    for one in (plain, transactional):
        if one is not None:
            with suppress(KafkaError):
                one.close(timeout=5)


# -- workers -------------------------------------------------------------------------------------------------


@dataclass
class Slot:
    """The place of a worker. `fault`: the order that it has for a step of the commit protocol."""

    member: Member | None = None
    fault: Fault | None = None
    is_temporary: bool = False
    is_frozen_until: float = 0.0
    long_freeze: bool = False  # its calls may have passed their limits, so it may end by itself
    is_ending: bool = False  # by our signal


class Team:
    """Workers in processes of their own, each restarted when it ends, as by a supervisor.

    `orders`: faults at a step, which the next workers to start take with them. `happened` counts the faults.
    """

    def __init__(self, settings: Settings, members: int, orders: Iterable[Fault], happened: Counter[str]) -> None:
        self._settings, self._orders, self._happened = settings, deque(orders), happened
        self.slots = [Slot() for _ in range(members)]
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.ended: list[str] = []  # workers that ended by themselves without a cause
        self.losses: Counter[str] = Counter()
        self._is_over = False

    def __enter__(self) -> Self:
        for slot in self.slots:
            self._start(slot)
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self.slots:
            if slot.member is not None:
                slot.member.__exit__()

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
        slot.fault, orders = None, {}
        if self._orders and not slot.is_temporary:
            slot.fault = self._orders.popleft()
            order = "kill" if slot.fault.kind == "worker_killed_at_step" else "freeze"
            orders = {order: [CommitStep(slot.fault.step), slot.fault.count]}
        slot.long_freeze = slot.is_ending = False
        slot.is_frozen_until = 0.0
        slot.member = Member(self._settings, orders).go()

    def _look_after(self, slot: Slot, member: Member) -> None:
        is_alive = member.process.is_alive()
        errors = []
        for event in member.drain():
            kind = event["event"]
            if kind in ("kill", "freeze") and slot.fault is not None:
                self._happened[slot.fault.kind] += 1
                if kind == "freeze":
                    self._frozen(slot, slot.fault.seconds)
            elif kind == "stumble":
                self._happened["transaction_failed"] += 1
            elif kind == "error" and event["retry_in"] is None:
                errors.append(event["error"])
        member.events.clear()
        if is_alive:
            return
        code = member.process.exitcode
        if code != -signal.SIGKILL and not (slot.is_ending and code == 0) and not slot.long_freeze:
            self.ended.append(f"ended: a worker ended by itself with {code}: {errors}")
        member.__exit__()
        slot.member = None
        if slot.is_temporary:
            self.slots.remove(slot)
        else:
            self.after(random.uniform(0.1, 2.0), lambda: self._start(slot))

    def _frozen(self, slot: Slot, seconds: float) -> None:
        slot.is_frozen_until = time.monotonic() + seconds
        slot.long_freeze |= seconds >= TRANSACTION_SECONDS - 1
        member = slot.member

        def thaw() -> None:
            if slot.member is member and member is not None and member.process.is_alive():
                slot.is_frozen_until = 0.0
                member.signal(signal.SIGCONT)

        self.after(seconds, thaw)

    # -- faults ------------------------------------------------------------------------------------------

    def _chosen(self, target: int) -> Slot | None:
        awake = [one for one in self.slots if one.member is not None and not one.is_frozen_until and not one.is_ending]
        awake = [one for one in awake if one.member is not None and one.member.process.is_alive()]
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
        slot = Slot(is_temporary=True)
        self.slots.append(slot)
        self._start(slot)
        member = slot.member

        def leave() -> None:
            if slot.member is member and member is not None and member.process.is_alive():
                slot.is_ending = True
                member.signal(signal.SIGKILL if is_killed else signal.SIGTERM)

        self.after(seconds, leave)

    def end(self, seconds: float) -> None:
        """Stop every worker; each must end cleanly."""
        self._is_over = True
        self._orders.clear()
        for slot in self.slots:
            if slot.member is not None and slot.member.process.is_alive():
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


# -- the topics ----------------------------------------------------------------------------------------------


class Changelog:
    """The blocks of each task, read before they are deleted. Those of large batches are in the second partition."""

    def __init__(self, settings: Settings, tasks: int) -> None:
        self._settings, self._topic = settings, settings.topics.changelog
        self._places = {task: index_partitions(self._topic, task) for task in range(tasks)}
        self._next = {place.partition: 0 for places in self._places.values() for place in places}
        self.blocks: dict[int, list[Block]] = {task: [] for task in range(tasks)}
        self.cut: dict[int, int] = {}

    def read(self) -> None:
        for task, places in self._places.items():
            for one in read_all(
                self._settings, self._topic, start=self._next, partitions=[one.partition for one in places]
            ):
                after = {int(name): offset for name, offset in json.loads(dict(one.headers)[OFFSETS_HEADER]).items()}
                self.blocks[task].append(Block(one.timestamp, after))
                self._next[one.partition] = one.offset + 1

    def truncate(self, target: int, share: float) -> bool:
        """Delete the first share of a task's blocks by their time, as retention does."""
        self.read()
        task = target % len(self._places)
        times = sorted(block.time for block in self.blocks[task])
        if not times:
            return False
        moment = times[int(len(times) * share)]
        places = list(self._places[task])
        consumer = KafkaConsumer(bootstrap_servers=self._settings.kafka.bootstrap_servers)
        try:
            found, ends = consumer.offsets_for_times(dict.fromkeys(places, moment)), consumer.end_offsets(places)
        finally:
            consumer.close()
        admin = KafkaAdminClient(bootstrap_servers=self._settings.kafka.bootstrap_servers)
        try:
            admin.delete_records({place: found[place].offset if found[place] else ends[place] for place in places})
        finally:
            admin.close()
        self.cut[task] = max(moment, self.cut.get(task, 0))
        return True


def unfinished(settings: Settings) -> int:
    """How many offsets of the input the group has not committed yet."""
    config: dict[str, Any] = {"isolation_level": "read_committed", "enable_auto_commit": False}
    consumer = KafkaConsumer(
        bootstrap_servers=settings.kafka.bootstrap_servers, group_id=settings.kafka.group_id, **config
    )
    try:
        topic = settings.topics.input
        places = [TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)]
        ends = consumer.end_offsets(places)
        return sum(max(0, ends[place] - (consumer.committed(place) or 0)) for place in places)
    finally:
        consumer.close(autocommit=False)
