"""kafka-python's consumer, producer and admin client, as the worker uses them, on the broker in memory.

In: the same keyword arguments and calls. Out: the same results, errors and habits, including those that the rules P1 to
P11 (docs/architecture.md) are about. They replace the real clients in `kafka/client.py`'s `make`. Where the worker
reaches into the library, the library's own code is used: the accumulator and its builders, `send` with its partitioner,
and the unpacking of a fetch.

Left out: the network, requests and their retries (a call succeeds, fails or hangs), the sender's timing (it sends at a
flush, or at random at once), outdated metadata, and JoinGroup and SyncGroup as two steps.
"""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.protocol.api_key import ApiKey
from kafka.record.memory_records import MemoryRecords
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndTimestamp

from tests.model.broker import Broker
from tests.model.group import Member
from tests.model.simulation import Killed, Process

_LATENCY = 0.004  # seconds of one request, at most


class _Client:
    """The base of all three: calls that take time and may fail, in a process that may die."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.simulation = broker.simulation
        self.process: Process = broker.simulation.current.process

    def call(self, api: str, place: TopicPartition | None = None) -> None:
        """Make a request, which takes a while and may meet a fault."""
        self.wait(self.simulation.rng.random() * _LATENCY)
        fault = self.broker.fault(api, self.process, place)
        if fault is not None:
            if fault.hang:
                self.wait(fault.hang)
            raise fault.error()

    def wait(self, seconds: float) -> None:
        if self.process.dead_since is not None:
            raise Killed
        self.simulation.sleep(seconds)


class _State:
    """The consumer's state of an assigned partition."""

    def __init__(self) -> None:
        self.position: int | None = None
        self.is_paused = False
        self.fetched: Any = None
        self.high: int | None = None


class Consumer:
    """The replacement of KafkaConsumer."""

    def __init__(self, broker: Broker, **config: Any) -> None:
        self._client = _Client(broker)
        self._broker, self._simulation, self._config = broker, broker.simulation, config
        self._client.call("connect")
        # The worker reaches into these: the unpacking of a fetch, its bound, which no poll of the model comes near, and
        # the parked records of paused partitions (none).
        self.config = {**KafkaConsumer.DEFAULT_CONFIG, **config}
        self._fetcher = SimpleNamespace(
            PartitionRecords=Fetcher.PartitionRecords,
            _append=None,
            _paused_partition_records={},
            _paused_completed_fetches={},
        )
        self._coordinator = SimpleNamespace(request_rejoin=lambda: None)
        self._states: dict[TopicPartition, _State] = {}
        self._closed = False
        self._group = broker.group(config["group_id"]) if config.get("group_id") else None
        self._member: Member | None = None
        self._generation, self._state = -1, MemberState.UNJOINED
        self._topics: set[str] = set()
        self._listener: Any = None
        self._hears_at: float | None = None  # when it notices a rebalance or its own removal
        assignors = config.get("partition_assignment_strategy") or [None]
        self._assignor = assignors[0]
        self._is_eager = self._assignor is None or RebalanceProtocol.EAGER in self._assignor.supported_protocols()

    # -- the group ---------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], listener: Any = None) -> None:
        self._topics, self._listener = set(topics), listener

    def unsubscribe(self) -> None:
        if self._member is not None and self._group is not None:
            self._group.remove(self._member.name)
        self._member, self._generation, self._state = None, -1, MemberState.UNJOINED
        self._topics = set()
        self._states.clear()

    def group_metadata(self) -> ConsumerGroupMetadata:
        name = self._member.name if self._member is not None else ""
        group = self._group.name if self._group is not None else None
        return ConsumerGroupMetadata(group, self._generation, name, None, self._state)

    def assignment(self) -> set[TopicPartition]:
        return set(self._states)

    def _coordinate(self, end: float) -> bool:
        """Join if necessary; return whether this member belongs to a generation now."""
        while True:
            group, member = self._group, self._member
            assert group is not None
            if member is None:
                config = self._config
                session, patience = config["session_timeout_ms"] / 1000, config["max_poll_interval_ms"] / 1000
                self._member = member = group.enter(
                    self._client.process, self._assignor, session, patience, self._topics
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
            interval = self._config["heartbeat_interval_ms"] / 1000
            self._hears_at = self._simulation.now + self._simulation.rng.random() * interval
        if self._simulation.now < self._hears_at:
            return False
        self._hears_at = None
        return True

    def _lose(self) -> None:
        lost = set(self._states)
        self._member, self._generation, self._state = None, -1, MemberState.UNJOINED
        if lost and self._listener is not None:
            self._listener.on_partitions_lost(lost)
        self._states.clear()

    def _prepare(self) -> None:
        assert self._member is not None
        assert self._group is not None
        if self._is_eager:
            if self._listener is not None:
                self._listener.on_partitions_revoked(set(self._states))
            for state in self._states.values():
                state.is_paused = True
        self._state = MemberState.REBALANCING
        self._group.join(self._member, self._assignor.metadata(self._topics))

    def _take(self, member: Member) -> None:
        assert self._group is not None
        assignment, member.given = member.given, None
        places = set(assignment.partitions())
        before = set(self._states)
        self._generation, self._state = self._group.generation, MemberState.STABLE
        self._assignor.on_assignment(assignment, self._generation)
        if self._is_eager:
            self._states = {place: _State() for place in sorted(places)}
            if self._listener is not None:
                self._listener.on_partitions_assigned(places)
            return
        self._states = {place: self._states.get(place) or _State() for place in sorted(places)}
        if before - places:
            self._listener.on_partitions_revoked(before - places)
        if places - before:
            self._listener.on_partitions_assigned(places - before)
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
        most = max_records or self._config.get("max_poll_records", 500)
        while True:
            if self._group is not None and self._topics and not self._coordinate(end):
                return {}
            found = self._fetched(most)
            if found or self._simulation.now >= end:
                return found
            self._broker.watch()
            self._simulation.park(end - self._simulation.now)

    def _fetched(self, most: int) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for place in self._simulation.rng.sample(sorted(self._states), len(self._states)):
            state = self._states[place]
            if state.is_paused or state.position is None or most <= 0:
                continue
            fault = self._broker.fault("fetch", self._client.process, place)
            if fault is not None:
                continue  # a broker that is away looks like an empty poll (P11)
            if not state.fetched:
                self._fetch(place, state)
            records = state.fetched.take(most) if state.fetched else []
            if state.fetched is not None:
                state.position = max(state.position, state.fetched.next_fetch_offset)
            if records:
                found[place] = records
                most -= len(records)
        return found

    def _fetch(self, place: TopicPartition, state: _State) -> None:
        try:
            log = self._broker.log(place)
        except kafka_errors.UnknownTopicOrPartitionError:
            return
        assert state.position is not None
        try:
            content, aborted = log.read(state.position, self._config.get("max_partition_fetch_bytes", 2**20))
        except kafka_errors.OffsetOutOfRangeError as error:
            raise kafka_errors.OffsetOutOfRangeError({place: state.position}) from error
        state.high = log.end
        if content:
            state.fetched = self._fetcher.PartitionRecords(
                state.position, place, MemoryRecords(content), isolation_level=IsolationLevel.READ_COMMITTED,
                aborted_transactions=aborted,
            )  # fmt: skip

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._states = {place: self._states.get(place) or _State() for place in places}

    def seek(self, place: TopicPartition, offset: int) -> None:
        if place not in self._states:
            raise AssertionError("Unassigned partition")
        self._states[place].position, self._states[place].fetched = offset, None

    def seek_to_beginning(self, *places: TopicPartition) -> None:
        for place in places or list(self._states):
            self.seek(place, self._broker.log(place).start)

    def seek_to_end(self, *places: TopicPartition) -> None:
        for place in places or list(self._states):
            self.seek(place, self._broker.log(place).stable)

    def pause(self, *places: TopicPartition) -> None:
        for place in places:
            if place in self._states:
                self._states[place].is_paused = True

    def resume(self, *places: TopicPartition) -> None:
        for place in places:
            if place in self._states:
                self._states[place].is_paused = False

    def paused(self) -> set[TopicPartition]:
        return {place for place, state in self._states.items() if state.is_paused}

    def position(self, place: TopicPartition, timeout_ms: int | None = None) -> int:
        position = self._states[place].position
        if position is None:
            raise kafka_errors.KafkaTimeoutError(f"no position of {place}")
        return position

    def highwater(self, place: TopicPartition) -> int | None:
        return self._states[place].high if place in self._states else None

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
        found = self._broker.topics.get(topic)
        return set(range(len(found.logs))) if found else None

    def topics(self) -> set[str]:
        return set(self._broker.topics)

    def close(self, autocommit: bool = True, timeout_ms: int | None = None) -> None:
        self._client.wait(0)
        if self._member is not None and self._group is not None:
            self._group.remove(self._member.name)
        self._closed = True


class Producer(KafkaProducer):  # type: ignore[misc]  # kafka-python ships no types
    """KafkaProducer with the library's own `send` and accumulator, but without its sender thread."""

    def __init__(self, broker: Broker, **config: Any) -> None:  # the library's constructor would connect
        self._client = _Client(broker)
        self._broker = broker
        self.config = {**self.DEFAULT_CONFIG, **config, "api_version": (4, 0)}
        self._client.call("connect")
        attributes = self._COMPRESSORS[self.config["compression_type"]][1]
        self.config["compression_attrs"] = attributes
        self._closed = False
        self._metadata = _Metadata(broker)
        self._accumulator = RecordAccumulator(**{**self.config, "transaction_manager": None})
        self._transaction_manager = _Transactions(self)
        self._sender = SimpleNamespace(wakeup=self._wakeup, force_close=self._force_close)

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
        while True:
            try:
                timeout = self.config["transaction_timeout_ms"] / 1000
                self._number_and_epoch = self._broker.begin_producer(self.config["transactional_id"], timeout)
                return
            except kafka_errors.ConcurrentTransactionsError:
                self._client.wait(0.02)

    def begin_transaction(self) -> None:
        self._transaction_manager.begin()

    def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_metadata: Any) -> None:
        manager = self._transaction_manager
        manager.check()
        # Offsets that a failed call leaves here go out with the next one (P3).
        manager.offsets.update(offsets)
        try:
            self._client.call("send_offsets")
            self._patiently(lambda: self._broker.add_offsets(*self._id, manager.offsets, group_metadata))
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
        fault = self._broker.fault("commit", self._client.process)
        if fault is None or self._client.simulation.rng.random() < fault.done:
            self._client.wait(self._client.simulation.rng.random() * _LATENCY)
            self._patiently(lambda: self._broker.end_transaction(*self._id, True))
        if fault is not None:
            if fault.hang:
                self._client.wait(fault.hang)
            raise fault.error()
        self._client.wait(self._client.simulation.rng.random() * _LATENCY)
        manager.places.clear()
        manager.is_open = False

    def abort_transaction(self) -> None:
        manager = self._transaction_manager
        self._client.call("abort")
        for batch in list(self._accumulator._incomplete.all()):
            batch.abort(kafka_errors.KafkaError("the transaction is aborted"))
            self._accumulator._incomplete.remove(batch)
        self._accumulator._batches.clear()
        self._patiently(lambda: self._broker.end_transaction(*self._id, False))
        manager.places.clear()
        manager.is_open, manager.error = False, None

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        self._client.wait(0)
        self._closed = True

    def _force_close(self) -> None:
        self._closed = True

    def _patiently(self, request: Any) -> None:
        while True:
            try:
                request()
                return
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


class _Metadata:
    """The cluster metadata, always current."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def topics(self) -> set[str]:
        return set(self._broker.topics)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        found = self._broker.topics.get(topic)
        return set(range(len(found.logs))) if found else None

    available_partitions_for_topic = partitions_for_topic


class Admin:
    """The replacement of KafkaAdminClient."""

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

    def create_topics(self, topics: Mapping[str, Any], **_: Any) -> None:
        for name, spec in topics.items():
            count = spec["num_partitions"]
            self._broker.create(name, count if count > 0 else 1, spec["configs"])

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

    def close(self) -> None:
        pass


def maker(broker: Broker) -> Any:
    """The replacement of `make` in kafka/client.py."""
    kinds = {KafkaConsumer: Consumer, KafkaProducer: Producer, KafkaAdminClient: Admin}

    def make(kind: Any, config: Mapping[str, Any]) -> Any:
        return kinds[kind](broker, **config)

    return make
