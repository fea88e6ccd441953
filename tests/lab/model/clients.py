"""kafka-python's consumer, producer and admin client, as the worker uses them, on the broker in memory.

They take the same arguments and give the same results and errors, with the same pitfalls, including those that the
rules P1 to P11 (docs/architecture.md) are about. They stand in for `client.make` (edges.py). Where the worker reaches
into the library, the library's own code is used: the accumulator and its builders, `send` with its partitioner, and the
unpacking of a fetch.

Left out: the network, requests and their retries (a call succeeds, fails or hangs), the sender's timing (it sends at a
flush, or at random at once), outdated metadata, and JoinGroup and SyncGroup as two steps.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.protocol.api_key import ApiKey
from kafka.record.memory_records import MemoryRecords
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata, OffsetAndTimestamp

from tests.lab.model.broker import Broker
from tests.lab.model.group import Member, Metadata
from tests.lab.model.simulation import Killed, Process

_LATENCY = 0.004  # seconds of one request, at most


class _Client:
    """The base of all three: calls that take time and may fail, in a process that may die."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.simulation = broker.simulation
        self.process: Process = broker.simulation.current.process
        self._manager = SimpleNamespace(_conns={1: SimpleNamespace(connected=True)})

    def call(self, api: str, place: TopicPartition | None = None, effect: Callable[[], Any] = lambda: None) -> Any:
        """Make a request, which takes a while, and may meet a fault, before it has its effect or after it."""
        self.wait(self.simulation.rng.random() * _LATENCY)
        fault = self.broker.fault(api, self.process, place)
        if fault is None:
            return effect()
        if self.simulation.rng.random() < fault.done:
            effect()
        if fault.hang:
            self.process.hung_until = self.simulation.now + fault.hang
            self.wait(fault.hang)
        raise fault.error()

    def wait(self, seconds: float) -> None:
        if self.process.dead_since is not None:
            raise Killed
        self.simulation.sleep(seconds)


class Consumer(KafkaConsumer):  # type: ignore[misc]  # kafka-python ships no types
    """KafkaConsumer with the library's own subscription, but without its coordinator and fetcher."""

    def __init__(self, broker: Broker, **config: Any) -> None:  # the library's constructor would connect
        self._client = _Client(broker)
        self._broker, self._simulation = broker, broker.simulation
        self._client.call("connect")
        self.config = {**self.DEFAULT_CONFIG, **config, "api_version": (4, 0)}
        self._subscription = SubscriptionState("none")
        # The worker reaches into these: the unpacking of a fetch, its bound, which no poll of the model comes near, and
        # the parked records of paused partitions (none).
        self._fetcher = SimpleNamespace(
            PartitionRecords=Fetcher.PartitionRecords,
            _append=None,
            _paused_partition_records={},
            _paused_completed_fetches={},
        )
        self._coordinator = SimpleNamespace(
            request_rejoin=lambda: None, maybe_auto_commit_offsets_now=lambda: None, maybe_leave_group=self._leave
        )
        self._cluster = SimpleNamespace(set_topics=lambda topics: None)
        self._fetched: dict[TopicPartition, Any] = {}
        self._closed = False
        self._group = broker.group(config["group_id"]) if config.get("group_id") else None
        self._member: Member | None = None
        self._generation, self._state = -1, MemberState.UNJOINED
        self._hears_at: float | None = None  # when it notices a rebalance or its own removal
        assignors = config.get("partition_assignment_strategy") or [None]
        self._assignor = assignors[0]
        self._is_eager = self._assignor is None or RebalanceProtocol.EAGER in self._assignor.supported_protocols()

    # -- the group ---------------------------------------------------------------------------------------

    def _leave(self) -> None:
        if self._member is not None and self._group is not None:
            self._group.remove(self._member.name)
        self._member, self._generation, self._state = None, -1, MemberState.UNJOINED

    def group_metadata(self) -> ConsumerGroupMetadata:
        name = self._member.name if self._member is not None else ""
        group = self._group.name if self._group is not None else None
        return ConsumerGroupMetadata(group, self._generation, name, None, self._state)

    def _coordinate(self, end: float) -> bool:
        """Join if necessary; return whether this member belongs to a generation now."""
        while True:
            group, member = self._group, self._member
            assert group is not None
            if member is None:
                session, patience = self.config["session_timeout_ms"], self.config["max_poll_interval_ms"]
                self._member = member = group.enter(
                    self._client.process, self._assignor, session / 1000, patience / 1000
                )
                self._prepare()
            elif member.name not in group.members:
                if not self._hears():
                    return True
                self._lose()
                continue
            elif group.is_rebalancing and not member.has_joined:
                if not self._hears():
                    return True
                self._prepare()
            if member.given is not None:
                self._take(member)
                if group.is_rebalancing and not member.has_joined:
                    continue
            if self._state == MemberState.STABLE:
                return True
            if self._simulation.now >= end:
                return False
            self._broker.watch()
            self._client.wait(0)
            self._simulation.park(max(0.001, end - self._simulation.now))

    def _hears(self) -> bool:
        """Whether a heartbeat was due, since only heartbeats bring news from the coordinator."""
        if self._hears_at is None:
            interval = self.config["heartbeat_interval_ms"] / 1000
            self._hears_at = self._simulation.now + self._simulation.rng.random() * interval
        if self._simulation.now < self._hears_at:
            return False
        self._hears_at = None
        return True

    def _lose(self) -> None:
        lost = self.assignment()
        self._member, self._generation, self._state = None, -1, MemberState.UNJOINED
        if lost:
            self._subscription.rebalance_listener.on_partitions_lost(lost)
        self._subscription.assign_from_subscribed([])

    def _prepare(self) -> None:
        assert self._member is not None
        assert self._group is not None
        if self._is_eager:
            self._subscription.rebalance_listener.on_partitions_revoked(self.assignment())
            for state in self._subscription.assignment.values():
                state.mark_pending_revocation()
        self._state = MemberState.REBALANCING
        self._group.join(self._member, self._assignor.metadata(self.subscription()))

    def _take(self, member: Member) -> None:
        assert self._group is not None
        assignment, member.given = member.given, None
        places, before, listener = (
            set(assignment.partitions()),
            self.assignment(),
            self._subscription.rebalance_listener,
        )
        self._generation, self._state = self._group.generation, MemberState.STABLE
        self._assignor.on_assignment(assignment, self._generation)
        if self._is_eager:
            self._subscription.assign_from_subscribed([])
            before = set()
        self._subscription.assign_from_subscribed(sorted(places))
        if before - places:
            listener.on_partitions_revoked(before - places)
        if places - before or self._is_eager:
            listener.on_partitions_assigned(places - before)
        if before - places:
            self._group.rebalance()

    # -- fetching ----------------------------------------------------------------------------------------

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[Any, list[Any]]:
        if self._closed:
            raise kafka_errors.IllegalStateError("KafkaConsumer is closed")
        end = self._simulation.now + timeout_ms / 1000
        self._client.wait(self._simulation.rng.random() * _LATENCY)
        most = max_records or self.config["max_poll_records"]
        while True:
            if self._group is not None and self.subscription() and not self._coordinate(end):
                return {}
            found = self._taken(most)
            if found or self._simulation.now >= end:
                return found
            self._broker.watch()
            self._simulation.park(end - self._simulation.now)

    def _taken(self, most: int) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        places = sorted(self.assignment())
        for place in self._simulation.rng.sample(places, len(places)):
            state = self._subscription.assignment[place]
            if not state.is_fetchable() or most <= 0:
                continue
            fault = self._broker.fault("fetch", self._client.process, place)
            if fault is not None:
                continue  # a broker that is away looks like an empty poll (P11)
            if state.drop_pending_record_batch or not self._fetched.get(place):
                self._fetch(place, state)
            part = self._fetched.get(place)
            if part is None:
                continue
            records = part.take(most) if part else []
            state.position = OffsetAndMetadata(max(state.position.offset, part.next_fetch_offset), "", -1)
            if records:
                found[place] = records
                most -= len(records)
        return found

    def _fetch(self, place: TopicPartition, state: Any) -> None:
        state.drop_pending_record_batch, offset = False, state.position.offset
        self._fetched.pop(place, None)
        try:
            log = self._broker.log(place)
        except kafka_errors.UnknownTopicOrPartitionError:
            return
        try:
            content, aborted = log.read(offset, self.config["max_partition_fetch_bytes"])
        except kafka_errors.OffsetOutOfRangeError as error:
            raise kafka_errors.OffsetOutOfRangeError({place: offset}) from error
        state.highwater = log.end
        if content:
            self._fetched[place] = self._fetcher.PartitionRecords(
                offset, place, MemoryRecords(content), isolation_level=IsolationLevel.READ_COMMITTED,
                aborted_transactions=aborted,
            )  # fmt: skip

    def position(self, place: TopicPartition, timeout_ms: int | None = None) -> int:
        position = self._subscription.assignment[place].position
        if position is None:
            raise kafka_errors.KafkaTimeoutError(f"no position of {place}")
        return int(position.offset)

    # -- requests ------------------------------------------------------------------------------------

    def committed(self, place: TopicPartition, metadata: bool = False, timeout_ms: int | None = None) -> Any:
        self._client.call("committed", place)
        assert self._group is not None
        end = self._simulation.now + (1e9 if timeout_ms is None else timeout_ms / 1000)
        while self._group.pending.get(place):
            if self._simulation.now >= end:
                raise kafka_errors.KafkaTimeoutError("an offset is not stable")
            self._client.wait(0.02)
        found = self._group.offsets.get(place)
        return found if metadata or found is None else found.offset

    def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = {}
        for place in places:
            self._client.call("offsets", place)
            if self._broker.is_young(place):
                raise KeyError(place)  # the library looks it up in an answer that lacks it
            found[place] = self._broker.log(place).start
        return found

    def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = {}
        for place in places:
            self._client.call("offsets", place)
            found[place] = self._broker.log(place).stable
        return found

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        self._client.call("metadata")
        return Metadata(self._broker).partitions_for_topic(topic)

    def close(self, autocommit: bool = True, timeout_ms: int | None = None) -> None:
        self._client.wait(0)
        self._leave()
        self._closed = True


class Producer(KafkaProducer):  # type: ignore[misc]  # kafka-python ships no types
    """KafkaProducer with the library's own `send` and accumulator, but without its sender thread."""

    def __init__(self, broker: Broker, **config: Any) -> None:  # the library's constructor would connect
        self._client = _Client(broker)
        self._broker = broker
        self.config = {**self.DEFAULT_CONFIG, **config, "api_version": (4, 0)}
        self._client.call("connect")
        self.config["compression_attrs"] = self._COMPRESSORS[self.config["compression_type"]][1]
        self._closed = False
        self._metadata = Metadata(broker)
        self._accumulator = RecordAccumulator(**{**self.config, "transaction_manager": None})
        self._transaction_manager = _Transactions(self)
        self._sender = SimpleNamespace(wakeup=self._wakeup, force_close=lambda: setattr(self, "_closed", True))

    def __del__(self) -> None:
        pass

    @property
    def _id(self) -> tuple[str, int, int]:
        number, epoch = self._number_and_epoch
        return self.config["transactional_id"], number, epoch

    def partitions_for(self, topic: str) -> set[int]:
        found = self._metadata.partitions_for_topic(topic)
        if found is None:
            raise kafka_errors.KafkaTimeoutError(f"no metadata of {topic}")
        return found

    def init_transactions(self) -> None:
        self._client.call("init")
        begin = partial(
            self._broker.begin_producer, self.config["transactional_id"], self.config["transaction_timeout_ms"] / 1000
        )
        self._number_and_epoch = self._patiently(begin)

    def begin_transaction(self) -> None:
        self._transaction_manager.begin()

    def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_metadata: Any) -> None:
        manager = self._transaction_manager
        manager.check()
        # Offsets that a failed call leaves here go out with the next one (P3).
        manager.offsets.update(offsets)
        try:
            add = partial(self._broker.add_offsets, *self._id, manager.offsets, group_metadata)
            self._client.call("send_offsets", effect=lambda: self._patiently(add))
        except kafka_errors.KafkaError as error:
            if isinstance(error, (kafka_errors.ProducerFencedError, kafka_errors.CommitFailedError)):
                manager.error = error
            raise
        manager.offsets = {}

    def flush(self, timeout: float | None = None) -> None:
        self._client.wait(self._client.simulation.rng.random() * _LATENCY)
        waiting, manager = self._accumulator._batches, self._transaction_manager
        while any(waiting.values()):
            if manager.error is not None:
                for batches in waiting.values():  # batches that wait behind a failure are dropped unsent
                    while batches:
                        batch = batches.popleft()
                        batch.abort(manager.error)
                        self._accumulator._incomplete.remove(batch)
                return
            for place in list(waiting):  # a request has one batch of each partition
                self._drain(place, 1)

    def commit_transaction(self) -> None:
        manager = self._transaction_manager
        manager.check()
        self.flush()
        # It does not know of expired records (P1).
        manager.check()
        end = partial(self._broker.end_transaction, *self._id, True)
        self._client.call("commit", effect=lambda: self._patiently(end))
        self._client.wait(self._client.simulation.rng.random() * _LATENCY)
        manager.places.clear()
        manager.is_open = False

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        self._client.wait(0)
        self._closed = True

    def _patiently(self, request: Any) -> Any:
        while True:
            try:
                return request()
            except kafka_errors.ConcurrentTransactionsError:
                self._client.wait(0.02)

    def _wakeup(self) -> None:
        """The sender may send at once, or find several batches."""
        if self._client.simulation.rng.random() < 0.2:
            for place in list(self._accumulator._batches):
                self._drain(place)

    def _drain(self, place: TopicPartition, most: int = 2**30) -> None:
        waiting, manager = self._accumulator._batches[place], self._transaction_manager
        while waiting and most > 0 and (manager.error is None or most == 1):
            most -= 1
            batch = waiting.popleft()
            batch.records.set_producer_state(*self._number_and_epoch, 0, True)
            batch.records.close()
            fault = self._broker.fault("produce", self._client.process, place)
            try:
                base = -1
                if fault is None or self._client.simulation.rng.random() < fault.done:
                    if place not in manager.places:
                        self._patiently(lambda: self._broker.add_place(*self._id, place))
                        manager.places.add(place)
                    base = self._broker.produce(*self._id, place, batch.records.buffer())
                if fault is not None:
                    raise fault.error()
            except kafka_errors.KafkaTimeoutError as error:
                self._finish(batch, error, None)  # it has expired, and the transaction does not learn of it
            except kafka_errors.KafkaError as error:
                manager.error = manager.error or error
                self._finish(batch, error, getattr(error, "records", None))
            else:
                batch.complete(base, -1)
                self._accumulator._incomplete.remove(batch)

    def _finish(self, batch: Any, error: Exception, records: dict[int, str] | None) -> None:
        def of(i: int) -> Exception:
            if not records:
                return error
            if i in records:
                return kafka_errors.InvalidRecordError(records[i])
            return kafka_errors.KafkaError("Failed to append record because it was part of a batch which had one more "
                                           "more invalid records")  # fmt: skip

        batch.complete_exceptionally(error, of)
        self._accumulator._incomplete.remove(batch)


class _Transactions:
    """The producer's transaction manager; the names are those of kafka-python."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.error: Exception | None = None
        self.is_open = False
        self.places: set[TopicPartition] = set()
        self.offsets: dict[TopicPartition, Any] = {}

    def is_transactional(self) -> bool:
        return True

    def begin(self) -> None:
        self.check()
        self.is_open = True

    def check(self) -> None:
        if self.error is not None:
            raise kafka_errors.KafkaError(self.error)
        if self._producer._closed:
            raise kafka_errors.IllegalStateError("the producer is closed")

    def maybe_add_partition_to_transaction(self, place: TopicPartition) -> None:
        self.check()
        if not self.is_open:
            raise kafka_errors.KafkaError("no transaction is open")


class Admin:
    """KafkaAdminClient, as far as the worker uses it."""

    def __init__(self, broker: Broker, **config: Any) -> None:
        self._client, self._broker = _Client(broker), broker
        self._client.call("connect")

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        self._client.call("metadata")
        return [self._described(name) for name in (self._broker.topics if topics is None else topics)]

    def _described(self, name: str) -> dict[str, Any]:
        topic = self._broker.topics.get(name)
        if topic is None:
            return {"error_code": 3, "name": name, "topic_id": None, "partitions": []}
        partitions = [{"error_code": 0, "partition_index": i, "leader_id": 0} for i in range(len(topic.logs))]
        return {"error_code": 0, "name": name, "topic_id": topic.id, "partitions": partitions}

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": 0}]}

    def api_versions(self) -> dict[Any, tuple[int, int]]:
        return dict.fromkeys(ApiKey, (0, 10))

    def describe_configs(self, resources: Iterable[Any], **_: Any) -> dict[str, Any]:
        self._client.call("metadata")
        return {
            "topic": {
                one.name: {key: {"value": value} for key, value in self._broker.topics[one.name].config.items()}
                for one in resources
                if one.name in self._broker.topics
            }
        }

    def create_topics(self, topics: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        for name, spec in topics.items():
            count = spec["num_partitions"]
            self._broker.create(name, count if count > 0 else 1, spec["configs"])
        return {"topics": [{"error_code": 0, "error_message": None} for _ in topics]}

    def wait_for_topics(self, names: Iterable[str]) -> None:
        """They are there at once."""

    def list_group_offsets(self, group: str) -> dict[str, dict[TopicPartition, Any]]:
        return {group: dict(self._broker.group(group).offsets)}

    def list_partition_offsets(
        self, specs: Mapping[TopicPartition, Any], isolation_level: Any = IsolationLevel.READ_UNCOMMITTED, **_: Any
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        found = {}
        for place, spec in specs.items():
            self._client.call("offsets", place)
            log = self._broker.log(place)
            end = log.end if isolation_level == IsolationLevel.READ_UNCOMMITTED else log.stable
            earliest = getattr(spec, "name", "") == "EARLIEST" or getattr(spec, "value", spec) == -2
            found[place] = OffsetAndTimestamp(log.start if earliest else end, -1, -1)
        return found

    def describe_transactions(self, transactional_ids: Iterable[str]) -> None:
        pass

    def describe_producers(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        return {}

    def close(self) -> None:
        pass


def maker(broker: Broker) -> Any:
    """What stands in for `make` in kafka/client.py."""
    kinds = {KafkaConsumer: Consumer, KafkaProducer: Producer, KafkaAdminClient: Admin}

    def make(kind: Any, config: Mapping[str, Any]) -> Any:
        return kinds[kind](broker, **config)

    return make
