"""A transactional producer with a thread of its own, every wait bounded and every error translated.

A transaction is one job in that thread (`start`), which calls `begin` to `commit`; whoever waits for it does so for a
bounded time (`wait`, P5). When that is over, or after `close`, no further call of the job reaches the client.

A `TaskProducer` is used until its first error, then closed or abandoned. After a failed send_offsets its pending
offsets would go out with the next transaction (P3), and after an epoch bump it reports success for what never happened
(P2). When the broker refuses one batch, the client gives up those behind it unseen; the next try finds out about them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.producer_batch import FinalState, ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.structs import OffsetAndMetadata

from stream_dedup.errors import Refused, Stalled, StreamError, TransactionFailed
from stream_dedup.kafka import client, errors, patches
from stream_dedup.kafka.bounded import Bounded
from stream_dedup.kafka.errors import error_text
from stream_dedup.kafka.record_batch import Outgoing, PackedBatch, pack


class CompressedBatch(NamedTuple):
    """Records, and the client's builder of their batch, which is complete."""

    records: Sequence[Outgoing]
    builder: Any


class SentBatch(NamedTuple):
    """Records that were handed to the client, and the client's batch of them."""

    records: Sequence[Outgoing]
    batch: ProducerBatch

    @property
    def has_own_outcome(self) -> bool:
        """Whether the broker has answered to this batch. When one batch fails, the client gives up those that wait
        with the same error, which says nothing about their records.
        """
        return self.batch.final_state in (FinalState.SUCCEEDED, FinalState.FAILED)

    def failures(self) -> list[tuple[Outgoing, Exception]]:
        """Each record that is not acknowledged, and why."""
        future = self.batch.produce_future
        if not future.is_done:
            missing = kafka_errors.KafkaTimeoutError("not acknowledged in time")
            return [(record, missing) for record in self.records]
        _base_offset, _append_time, error_of = future.value
        return [] if error_of is None else [(record, error_of(i)) for i, record in enumerate(self.records)]

    @property
    def end(self) -> int | None:
        """The offset after the last record, once all are acknowledged; None if the broker has not reported it."""
        base: int = self.batch.produce_future.value[0]
        return base + len(self.records) if base >= 0 else None


class BulkSender:
    """Sends records through one KafkaProducer, in batches."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def pack(self, records: Sequence[Outgoing]) -> list[CompressedBatch]:
        """Pack and compress the records of one partition. O(bytes)."""
        config = self._producer._accumulator.config
        batch_bytes, compression = config["batch_size"], config["compression_attrs"]
        return [
            CompressedBatch(packed.records, batch_builder(packed, compression, batch_bytes))
            for packed in pack(records, batch_bytes)
        ]

    def send(self, topic: str, partition: int, batches: Sequence[CompressedBatch]) -> Iterator[SentBatch]:
        """Add batches to the open transaction.

        Raises what `KafkaProducer.send` raises: KafkaError if the producer has failed or is closed, ValueError for a
        partition that does not exist.
        """
        producer = self._producer
        if partition not in (producer.partitions_for(topic) or ()):
            raise ValueError(f"{topic} has no partition {partition}")
        accumulator, place = producer._accumulator, TopicPartition(topic, partition)
        producer._transaction_manager.maybe_add_partition_to_transaction(place)
        for records, builder in batches:
            batch = ProducerBatch(place, builder)
            with accumulator._tp_lock(place):
                if accumulator._closed:
                    raise kafka_errors.IllegalStateError("the producer is closed")
                accumulator._batches[place].append(batch)
                accumulator._incomplete.add(batch)
            producer._sender.wakeup()
            yield SentBatch(records, batch)


class _CompressedBuilder(DefaultRecordBatchBuilder):  # type: ignore[misc]  # kafka-python ships no types
    """A builder whose content is compressed before the client closes it."""

    __slots__ = ("_is_compressed",)

    def compress(self) -> None:
        self._is_compressed = super()._maybe_compress()  # False: compressed it would be larger

    def _maybe_compress(self) -> bool:
        return bool(self._is_compressed)


def batch_builder(packed: PackedBatch, compression: int, batch_bytes: int) -> Any:
    """The client's builder in the state after appending the records one by one, but already compressed."""
    builder = _CompressedBuilder(2, compression, False, -1, -1, -1, batch_bytes)
    builder._buffer.extend(packed.body)
    builder._num_records = len(packed.records)
    builder._last_offset = len(packed.records) - 1
    builder._first_timestamp, builder._max_timestamp = packed.first_timestamp, packed.max_timestamp
    builder.compress()
    memory = MemoryRecordsBuilder(2, compression, batch_bytes)
    memory._builder, memory._next_offset = builder, len(packed.records)
    return memory


T = TypeVar("T")

# A close waits only for threads to end: a tenth of a second when all is well.
_CLOSE_SECONDS = 1.5
# Errors about one record, which the broker or the client would give again.
_REFUSED = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.InvalidRecordError,
    kafka_errors.InvalidTimestampError,
)


def _make(config: Mapping[str, Any]) -> Any:
    return client.make(KafkaProducer, config)


class Parcel(NamedTuple):
    """Batches of records of one partition, as `BulkSender` packed them."""

    topic: str
    partition: int
    batches: Sequence[CompressedBatch]


class TaskProducer:
    """A producer with one transactional id. Its constructor fences the former producer with this id.

    `bound`: most seconds of one call. `left()`: seconds until everything must be over. `partitions`: the
    number of partitions of each of `topics` at the last commit, as far as the client knows.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        bound: float,
        left: Callable[[], float],
        make: Callable[[Mapping[str, Any]], Any] = _make,
        topics: Sequence[str] = (),
    ) -> None:
        self.note: Callable[[], str] = str  # the metadata that the group stores with each offset
        self.partitions: dict[str, int] = {}
        self._topics = topics
        self._bound = bound
        self._sent: list[SentBatch] = []
        self._is_closed = False
        self._producer: Any = None
        self._sender: BulkSender
        self._calls = Bounded(str(config["transactional_id"]), left)

        def construct() -> None:
            self._producer = make(config)
            self._sender = BulkSender(self._producer)
            self._producer.init_transactions()

        try:
            what = f"fencing the former writer of {config['transactional_id']}"
            with self._translated(what):
                self.wait(what, self._calls.start(what, construct))
        except StreamError:
            self.close()
            raise

    def start(self, what: str, job: Callable[[], T]) -> Future[T]:
        """Begin a job in the producer's thread."""
        return self._calls.start(what, job)

    def wait(self, what: str, job: Future[T]) -> T:
        """The result or the error of a job. Raises Stalled if it takes too long; then the producer is of no use."""
        # A bound of the client's own is the same; it should expire first, because its error tells more.
        return self._calls.wait(what, self._bound + 1, job)

    # -- the calls of a transaction, in a job ----------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction."""
        self._sent.clear()
        with self._translated("beginning a transaction"):
            self._producer.begin_transaction()

    def pack(self, records: Sequence[Outgoing]) -> list[Parcel]:
        """Prepare records for `send`; those of one partition keep their order. Computes only, in any thread."""
        return [
            Parcel(topic, partition, self._sender.pack(together))
            for (topic, partition), together in _by_partition(records).items()
        ]

    def send(self, parcels: Sequence[Parcel]) -> None:
        """Hand packed records to the client."""
        with self._translated("sending"):
            try:
                for parcel in parcels:
                    self._sent.extend(self._sender.send(*parcel))
            except kafka_errors.KafkaError:
                self._raise_failure()  # the failure of an earlier batch is often the cause, and tells more
                raise

    def send_offsets(self, offsets: Mapping[Any, int], membership: Any) -> None:
        """Add the input offsets to the transaction, under a membership of the group (P4)."""
        commits = {place: OffsetAndMetadata(offset, self.note(), -1) for place, offset in offsets.items()}
        with self._translated("sending the input offsets"):
            self._producer.send_offsets_to_transaction(commits, membership)

    def flush(self) -> None:
        """Return once every record is acknowledged; raise if one is not (P1)."""
        with self._translated("waiting for the acknowledgements"):
            self._producer.flush(self._bound)
            self._raise_failure()
            for sent in self._sent:
                for _record, error in sent.failures():
                    raise error

    def ends_in(self, topic: str) -> dict[TopicPartition, int | None]:
        """Where the flushed transaction ends in each partition of a topic that got records of it; None: unknown."""
        ends = [(sent.records[0], sent.end) for sent in self._sent]
        return {TopicPartition(topic, record.partition): end for record, end in ends if record.topic == topic}

    def commit(self) -> None:
        """Commit the transaction."""
        with self._translated("committing"):
            self._producer.commit_transaction()
            with suppress(kafka_errors.KafkaError):  # the commit stands; without new numbers the old ones are used
                known = {topic: self._producer.partitions_for(topic) for topic in self._topics}
                self.partitions = {topic: len(numbers) for topic, numbers in known.items() if numbers}

    def close(self) -> None:
        """Release the client. An open transaction stays open, for the next owner of the id to abort (P10)."""
        self._is_closed, producer = True, self._producer
        if producer is None:  # the constructor failed or hangs; what it still makes is closed once it is made
            self._calls.end(lambda: self._close(self._producer))
            return
        try:
            self._calls.call("closing", 2 * _CLOSE_SECONDS, lambda: self._close(producer))
            self._calls.end()
        except StreamError:
            # The thread hangs in a call. The client must not go on sending when the broker is back.
            self._calls.end(lambda: self._close(producer))
            patches.stop_sending(producer)

    def _close(self, producer: Any) -> None:
        if producer is None:
            return
        with suppress(kafka_errors.KafkaError):  # raised for records that will never be sent
            producer.close(timeout=_CLOSE_SECONDS)
            return
        patches.stop_sending(producer)

    # -- errors ------------------------------------------------------------------------------------------

    def _raise_failure(self) -> None:
        """Raise what the broker or the client has answered to this transaction's records, unless all is well."""
        error = _failure(self._sent)
        if error is not None:
            raise error

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Make a call of the client, unless it was given up meanwhile. Raises a StreamError in place of its errors."""
        if self._is_closed or self._calls.is_given_up:
            raise Stalled(f"{what} was not begun, the producer was given up")
        try:
            yield
        except kafka_errors.KafkaError as error:
            raise errors.translate(error, what) from error
        except ValueError as error:  # an unknown partition: the topic has changed
            raise TransactionFailed(f"{what}: {error}", lasting=True) from error


def _by_partition(records: Sequence[Outgoing]) -> dict[tuple[str, int], list[Outgoing]]:
    """Records by (topic, partition), in their order."""
    groups: dict[tuple[str, int], list[Outgoing]] = {}
    for record in records:
        groups.setdefault((record.topic, record.partition), []).append(record)
    return groups


def _failure(sent: Sequence[SentBatch]) -> Exception | None:
    """The error that the broker or the client has given for these records, if any.

    `Refused`, of all records that the broker refuses by name. If it refuses a batch as a whole, a failure that lasts,
    with the records of the batch: they have the very same error, so an error names a record only if no other record
    has it. Batches without an outcome of their own do not count.
    """
    failures = [failure for batch in sent if batch.has_own_outcome for failure in batch.failures()]
    if not failures:
        return None
    shared = Counter(id(error) for _, error in failures)
    ours = [
        (record, error)
        for record, error in failures
        if isinstance(error, _REFUSED) and shared[id(error)] == 1 and record.source >= 0  # not of the changelog
    ]
    if ours:
        record, error = ours[0]
        sources = list(dict.fromkeys(record.source for record, _ in ours))
        return _because(error, Refused(f"{record.topic} refuses a record: {error_text(error)}", sources))
    record, error = failures[0]
    if not isinstance(error, _REFUSED):
        return error
    suspected = [record for record, its in failures if its is error]
    text = f"{record.topic} refuses a batch of {len(suspected)}: {error_text(error)}"
    sources = list(dict.fromkeys(record.source for record in suspected if record.source >= 0))
    return _because(error, TransactionFailed(text, lasting=True, sources=sources))


def _because(cause: Exception, error: StreamError) -> StreamError:
    error.__cause__ = cause
    return error
