"""A Kafka broker in memory: topics, transactions and groups, with the responses of a real one.

It models what the worker's guarantees depend on: transactional ids with epochs, control records that come later than
the commit, offsets that belong to a transaction, groups with generations and sessions, and retention. It leaves out
replication, and everything below one request. The clients (clients.py) send it requests, and get results or
kafka-python's errors.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors

from tests.lab.model.group import Group
from tests.lab.model.log import Batch, Log, Record, encoded, parsed
from tests.lab.model.simulation import Process, Simulation

_ANY = str(2**63 - 1)
_DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * 24 * 3600 * 1000),
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY,
    "message.timestamp.after.max.ms": _ANY,
}


class Topic:
    """`incarnation`: how many topics had this name before."""

    def __init__(self, name: str, partitions: int, config: Mapping[str, str], incarnation: int) -> None:
        self.name, self.incarnation = name, incarnation
        self.id = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{incarnation}")
        self.config = {**_DEFAULTS, **config}
        self.logs = [Log() for _ in range(partitions)]


@dataclass
class Transaction:
    """The coordinator's state of a transactional id."""

    producer: int
    epoch: int = 0
    timeout: float = 30.0
    state: str = "empty"  # empty, open, ending
    places: set[TopicPartition] = field(default_factory=set)
    offsets: dict[str, dict[TopicPartition, Any]] = field(default_factory=dict)
    serial: int = 0


class Committed(NamedTuple):
    """A record that a read_committed reader sees. `moment`: the number of its transaction, in order of commit."""

    topic: str
    partition: int
    offset: int
    record: Record
    moment: int


@dataclass
class Fault:
    """Calls of one kind fail until a moment."""

    api: str
    until: float
    error: Callable[[], Exception]
    process: Process | None = None
    place: TopicPartition | None = None
    hang: float = 0.0  # seconds that the call hangs before it fails
    done: float = 0.0  # the probability that the call takes effect all the same
    left: int = 2**30


class Broker:
    """The cluster."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.process = Process("broker")
        self.topics: dict[str, Topic] = {}
        self.transactions: dict[str, Transaction] = {}
        self.groups: dict[str, Group] = {}
        self.faults: list[Fault] = []
        self.committed: dict[str, list[Committed]] = {}  # by topic; never deleted
        self._moment = 0
        self.refuses: Callable[[str, Record], bool] = lambda topic, record: False
        self._producers = 0
        self._incarnations: dict[str, int] = {}
        self._known_from: dict[TopicPartition, float] = {}  # of added partitions
        self._watching: list[Any] = []

    # -- topics ------------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> Topic:
        if name in self.topics:
            raise kafka_errors.TopicAlreadyExistsError(name)
        self._incarnations[name] = self._incarnations.get(name, -1) + 1
        self.topics[name] = Topic(name, partitions, config or {}, self._incarnations[name])
        self.committed.setdefault(name, [])
        self.changed()
        return self.topics[name]

    def delete(self, name: str) -> None:
        """Delete a topic with its open transactions and the groups' offsets."""
        del self.topics[name]
        for transaction in self.transactions.values():
            transaction.places = {place for place in transaction.places if place.topic != name}
        for group in self.groups.values():
            group.offsets = {place: offset for place, offset in group.offsets.items() if place.topic != name}

    def add_partitions(self, name: str, partitions: int, lag: float = 0.0) -> None:
        """Add partitions, which not every broker knows for some seconds (`lag`)."""
        for number in range(len(self.topics[name].logs), partitions):
            self.topics[name].logs.append(Log())
            self._known_from[TopicPartition(name, number)] = self.simulation.now + lag
        for group in self.groups.values():
            group.metadata_changed()

    def log(self, place: TopicPartition) -> Log:
        topic = self.topics.get(place.topic)
        if topic is None or place.partition >= len(topic.logs):
            raise kafka_errors.UnknownTopicOrPartitionError(str(place))
        return topic.logs[place.partition]

    def is_young(self, place: TopicPartition) -> bool:
        """Whether the broker that is asked may not know the partition yet."""
        return self._known_from.get(place, 0.0) > self.simulation.now

    def now_ms(self) -> int:
        return int(self.simulation.wall() * 1000)

    # -- waiting for records ---------------------------------------------------------------------------

    def watch(self) -> None:
        """Wake the current fiber when something is written."""
        self._watching.append(self.simulation.current)

    def changed(self) -> None:
        watching, self._watching = self._watching, []
        for fiber in watching:
            self.simulation.wake(fiber)

    # -- writing -----------------------------------------------------------------------------------------

    def feed(
        self,
        place: TopicPartition,
        records: list[Record],
        producer: tuple[int, int] | None = None,
        names: dict[str, bytes] | None = None,
    ) -> int:
        """Append records of a foreign producer, in its transaction if it has a number and an epoch; return the first
        offset.
        """
        log, (number, epoch) = self.log(place), producer or (-1, -1)
        content = encoded(records, number, epoch, epoch, names)  # no sequence of its batches is ever checked
        batch = Batch(content, records, number, self.now_ms())
        base = log.append(batch, producer is not None)
        if producer is None:
            self._add_committed(place, [batch], 0)
        self.changed()
        return base

    def produce(self, transaction_id: str, producer: int, epoch: int, place: TopicPartition, content: bytearray) -> int:
        """Append a batch of an open transaction; return its first offset. Raises the errors of a broker."""
        transaction = self._mine(transaction_id, producer, epoch)
        log = self.log(place)
        config = self.topics[place.topic].config
        if len(content) > int(config["max.message.bytes"]):
            raise kafka_errors.MessageSizeTooLargeError(f"{place.topic}: {len(content)} bytes")
        records = parsed(content)
        wrong = {
            i: "refused by the broker"
            for i, record in enumerate(records)
            if self.refuses(place.topic, record) or (record.key is None and "compact" in config["cleanup.policy"])
        }
        if wrong:
            error = kafka_errors.InvalidRecordError("one or more records were rejected")
            error.records = wrong
            raise error
        if transaction.state != "open" or place not in transaction.places:
            raise kafka_errors.InvalidTxnStateError(transaction_id)
        base = log.append(Batch(content, records, producer, self.now_ms()), True)
        self.changed()
        return base

    def _add_committed(self, place: TopicPartition, batches: list[Batch], moment: int) -> None:
        for batch in batches:
            self.committed[place.topic] += [
                Committed(place.topic, place.partition, batch.base + i, record, moment)
                for i, record in enumerate(batch.records)
            ]

    # -- transactions ------------------------------------------------------------------------------------

    def begin_producer(self, transaction_id: str, timeout: float) -> tuple[int, int]:
        """InitProducerId: return (producer id, epoch). Raises ConcurrentTransactionsError while a transaction ends."""
        transaction = self.transactions.get(transaction_id)
        if transaction is None:
            self._producers += 1
            transaction = self.transactions[transaction_id] = Transaction(self._producers)
        elif transaction.state == "ending":
            raise kafka_errors.ConcurrentTransactionsError(transaction_id)
        else:
            transaction.epoch += 1
            if transaction.state == "open":
                self._end(transaction, False)
                raise kafka_errors.ConcurrentTransactionsError(transaction_id)
        transaction.timeout = timeout
        return transaction.producer, transaction.epoch

    def add_place(self, transaction_id: str, producer: int, epoch: int, place: TopicPartition) -> None:
        self.log(place)
        self._open(self._mine(transaction_id, producer, epoch)).places.add(place)

    def add_offsets(
        self, transaction_id: str, producer: int, epoch: int, offsets: Mapping[TopicPartition, Any], membership: Any
    ) -> None:
        transaction = self._open(self._mine(transaction_id, producer, epoch))
        group = self.group(membership.group_id)
        group.check(membership)
        transaction.offsets.setdefault(membership.group_id, {}).update(offsets)
        for place in offsets:
            group.pending.setdefault(place, set()).add(transaction.producer)

    def end_transaction(self, transaction_id: str, producer: int, epoch: int, commits: bool) -> None:
        """Decide the transaction; its control records come later."""
        transaction = self._mine(transaction_id, producer, epoch)
        if transaction.state == "open":
            self._end(transaction, commits)

    def _mine(self, transaction_id: str, producer: int, epoch: int) -> Transaction:
        transaction = self.transactions.get(transaction_id)
        if transaction is None or (transaction.producer, transaction.epoch) != (producer, epoch):
            raise kafka_errors.ProducerFencedError(transaction_id)
        return transaction

    def _open(self, transaction: Transaction) -> Transaction:
        if transaction.state == "ending":
            raise kafka_errors.ConcurrentTransactionsError()
        if transaction.state == "empty":
            transaction.state = "open"
            transaction.serial += 1
            serial = transaction.serial
            at = self.simulation.now + transaction.timeout

            def expire() -> None:
                if transaction.state == "open" and transaction.serial == serial:
                    transaction.epoch += 1
                    self._end(transaction, False)

            self.simulation.call_at(at, expire)
        return transaction

    def _end(self, transaction: Transaction, commits: bool) -> None:
        transaction.state = "ending"
        self._moment += 1
        rng, moment, epoch, number = self.simulation.rng, self.simulation.now, transaction.epoch, self._moment
        for place in sorted(transaction.places):
            moment += rng.uniform(0, 0.02)
            self.simulation.call_at(
                moment, lambda place=place: self._mark(place, transaction.producer, epoch, commits, number)
            )
        for name, offsets in transaction.offsets.items():
            moment += rng.uniform(0, 0.02)
            end = partial(self.group(name).end_transaction, transaction.producer, offsets, commits)
            self.simulation.call_at(moment, end)
        transaction.places, transaction.offsets = set(), {}

        def over() -> None:
            transaction.state = "empty"

        self.simulation.call_at(moment + 1e-9, over)

    def _mark(self, place: TopicPartition, producer: int, epoch: int, commits: bool, moment: int) -> None:
        if place.topic not in self.topics:
            return
        ended = self.log(place).end_transaction(commits, producer, epoch, self.now_ms())
        if commits:
            self._add_committed(place, ended, moment)
        self.changed()

    # -- groups ------------------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        if name not in self.groups:
            self.groups[name] = Group(self, name)
        return self.groups[name]

    # -- trouble -----------------------------------------------------------------------------------------

    def fault(self, api: str, process: Process, place: TopicPartition | None = None) -> Fault | None:
        """The fault that this call meets, if any."""
        for one in self.faults:
            is_on = one.api == api and one.until > self.simulation.now and one.left > 0
            if is_on and one.process in (None, process) and (place is None or one.place in (None, place)):
                one.left -= 1
                return one
        return None
