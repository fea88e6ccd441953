"""The producer of a task: begin, send offsets, send, flush, commit, each with a time limit, in a thread of its own.

A transaction is one job in that thread (`start`), which calls `begin` to `commit`; the caller waits for it for a
bounded time (`wait`, P5). When that is over, or after `close`, no further call of the job reaches the client.

After an error the producer is closed or abandoned, never used again: after a failed send_offsets its pending offsets
would go out with the next transaction (P3), and after an epoch bump it reports success for what never happened (P2).

`KafkaProducer.send` costs some 35 µs of Python a record: checks, locks, a future, a call for each byte of a number.
That is a third of a bare exactly-once pass-through. `TaskProducer` packs the records of a partition itself
(record_batch.py) and puts finished batches into the client's accumulator, which costs 8 µs a record. The client still
sends, retries, numbers and ends transactions. Packing also compresses, and needs no transaction, so it runs while the
offsets are sent. Left to the client, each batch of a partition would be compressed only when the broker has
acknowledged the batch before. Rules:

- All records of a producer go this way. `send` would append its record to a batch that is already compressed, and the
  broker would refuse that batch.
- `send` checks sizes and picks partitions; here worker/outgoing.py has done so before.
- A batch is never larger than the topics allow, unless they are altered meanwhile. Then it fails as a whole; the client
  does not split it (patches.py).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.producer.producer_batch import FinalState, ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.structs import OffsetAndMetadata

from stream_dedup.errors import Refused, Stalled, StreamError, TransactionFailed
from stream_dedup.kafka import errors, patches
from stream_dedup.kafka.client import KafkaProducer, TopicPartition
from stream_dedup.kafka.errors import KafkaError, error_text
from stream_dedup.kafka.record_batch import Outgoing, PackedBatch, compressed, pack
from stream_dedup.kafka.runtime import REAL, Bounded, Runtime, no_deadline

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


class RecordBatch:
    """A batch of records of one partition on its way: packed and compressed; once it is sent, with its outcome."""

    def __init__(self, place: TopicPartition, records: Sequence[Outgoing], builder: Any) -> None:
        self.place, self.records = place, records
        self._builder = builder  # the client's, complete
        self._sent: Any = None

    def sent(self) -> Any:
        """Make the client's batch of it, whose time limit begins now."""
        self._sent = ProducerBatch(self.place, self._builder)
        return self._sent

    @property
    def has_own_outcome(self) -> bool:
        """Whether the broker has answered to this batch. When one batch fails, the client gives up those that wait
        with the same error, which says nothing about their records.
        """
        return self._sent.final_state in (FinalState.SUCCEEDED, FinalState.FAILED)

    def failures(self) -> list[tuple[Outgoing, Exception]]:
        """Return each record that is not acknowledged, and why."""
        future = self._sent.produce_future
        if not future.is_done:
            missing = kafka_errors.KafkaTimeoutError("not acknowledged in time")
            return [(record, missing) for record in self.records]
        _base_offset, _append_time, error_of = future.value
        return [] if error_of is None else [(record, error_of(i)) for i, record in enumerate(self.records)]

    @property
    def end(self) -> int | None:
        """The offset after the last record, once all are acknowledged; None if the broker has not reported it."""
        base: int = self._sent.produce_future.value[0]
        return base + len(self.records) if base >= 0 else None


class _PackedBuilder(DefaultRecordBatchBuilder):  # type: ignore[misc]  # kafka-python ships no types
    """A builder whose content is compressed before the client closes it."""

    __slots__ = ("is_compressed",)

    def _maybe_compress(self) -> bool:
        return bool(self.is_compressed)


def batch_builder(packed: PackedBatch, compression: int, batch_bytes: int) -> Any:
    """Return the client's builder in the state after appending the records one by one, but already compressed.

    `compression`: the client's number of lz4; 0: none.
    """
    builder = _PackedBuilder(2, compression, False, -1, -1, -1, batch_bytes)
    content = min(packed.body, compressed(packed.body), key=len) if compression else packed.body
    builder.is_compressed = content is not packed.body
    builder._buffer.extend(content)
    builder._num_records = len(packed.records)
    builder._last_offset = len(packed.records) - 1
    builder._first_timestamp, builder._max_timestamp = packed.first_timestamp, packed.max_timestamp
    memory = MemoryRecordsBuilder(2, compression, batch_bytes)
    memory._builder, memory._next_offset = builder, len(packed.records)
    return memory


class TaskProducer:
    """A producer with one transactional id. Its constructor fences the former producer with this id.

    `bound`: most seconds of one call. `left()`: seconds until everything must be over. `partitions`: the
    number of partitions of each of `topics` at the last commit, as far as the client knows.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        bound: float,
        left: Callable[[], float] = no_deadline,
        topics: Sequence[str] = (),
        runtime: Runtime = REAL,
    ) -> None:
        self.partitions: dict[str, int] = {}
        self._topics, self._bound, self._wall = topics, bound, runtime.wall
        self._sent: list[RecordBatch] = []
        self._is_closed = False
        self._producer: Any = None
        self._calls = Bounded(str(config["transactional_id"]), left, runtime)

        def construct() -> None:
            self._producer = runtime.make_client(KafkaProducer, config)
            patches.keep_batches_whole(self._producer)
            self._producer.init_transactions()

        try:
            action = f"fencing the former writer of {config['transactional_id']}"
            with self._translated(action):
                self.wait(action, self._calls.start(action, construct))
        except StreamError:
            self.close()
            raise

    def start(self, action: str, job: Callable[[], T]) -> Future[T]:
        """Begin a job in the producer's thread."""
        return self._calls.start(action, job)

    def wait(self, action: str, job: Future[T]) -> T:
        """Return a job's result or raise its error. Raises Stalled if it takes too long; close the producer then."""
        # A bound of the client's own is the same; it should expire first, because its error tells more.
        return self._calls.wait(action, self._bound + 1, job)

    # -- the calls of a transaction, in a job ----------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction."""
        self._sent.clear()
        with self._translated("beginning a transaction"):
            self._producer.begin_transaction()

    def pack(self, records: Sequence[Outgoing]) -> list[RecordBatch]:
        """Prepare records for `send`; those of one partition keep their order. Computes only, in any thread."""
        config = self._producer._accumulator.config
        size, compression = config["batch_size"], config["compression_attrs"]
        groups: dict[TopicPartition, list[Outgoing]] = {}
        for record in records:
            groups.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return [
            RecordBatch(place, packed.records, batch_builder(packed, compression, size))
            for place, together in groups.items()
            for packed in pack(together, size, self._wall)
        ]

    def send(self, batches: Sequence[RecordBatch]) -> None:
        """Hand packed records to the client."""
        with self._translated("sending"):
            try:
                for batch in batches:
                    self._add(batch)
            except KafkaError:
                _raise_failure(self._sent)  # the failure of an earlier batch is often the cause, and tells more
                raise

    def _add(self, batch: RecordBatch) -> None:
        """Add a batch to the open transaction.

        Raises what `KafkaProducer.send` raises: KafkaError if the producer has failed or is closed, ValueError for a
        partition that does not exist.
        """
        producer, place = self._producer, batch.place
        if place.partition not in (producer.partitions_for(place.topic) or ()):
            raise ValueError(f"{place.topic} has no partition {place.partition}")
        producer._transaction_manager.maybe_add_partition_to_transaction(place)
        accumulator, sent = producer._accumulator, batch.sent()
        with accumulator._tp_lock(place):
            if accumulator._closed:
                raise kafka_errors.IllegalStateError("the producer is closed")
            accumulator._batches[place].append(sent)
            accumulator._incomplete.add(sent)
        self._sent.append(batch)

    def send_offsets(self, offsets: Mapping[Any, tuple[int, str, int]], membership: Any) -> None:
        """Add the input offsets to the transaction, under a membership of the group (P4).

        The group stores a note with each offset, and the leader epoch of the record before it.
        """
        commits = {place: OffsetAndMetadata(*commit) for place, commit in offsets.items()}
        with self._translated("sending the input offsets"):
            self._producer.send_offsets_to_transaction(commits, membership)

    def flush(self) -> None:
        """Return once every record is acknowledged; raise if one is not (P1)."""
        with self._translated("waiting for the acknowledgements"):
            self._producer.flush(self._bound)
            _raise_failure(self._sent)
            for batch in self._sent:
                for _record, error in batch.failures():
                    raise error

    def ends_in(self, topic: str) -> dict[TopicPartition, int]:
        """Return where the flushed transaction ends in each partition of a topic that got records of it,
        as far as the broker has reported it.
        """
        return {batch.place: batch.end for batch in self._sent if batch.place.topic == topic and batch.end is not None}

    def commit(self) -> None:
        """Commit the transaction."""
        with self._translated("committing"):
            self._producer.commit_transaction()
            with suppress(KafkaError):  # the commit stands; without new numbers the old ones are used
                known = {topic: self._producer.partitions_for(topic) for topic in self._topics}
                self.partitions = {topic: len(numbers) for topic, numbers in known.items() if numbers}

    def write(self, action: str, records: Sequence[Outgoing]) -> None:
        """Write these records in one transaction, without offsets. Waits until it is committed."""

        def transaction() -> None:
            self.begin()
            self.send(self.pack(records))
            self.flush()
            self.commit()

        self.wait(action, self.start(action, transaction))

    def close(self) -> None:
        """Release the client. An open transaction stays open, for the next owner of the id to abort (P10)."""
        self._is_closed, producer = True, self._producer
        if producer is None:  # the constructor failed or hangs; what it still makes is closed once it is made
            self._calls.end(lambda: _close(self._producer))
            return
        try:
            self._calls.call("closing", 2 * _CLOSE_SECONDS, lambda: _close(producer))
            self._calls.end()
        except StreamError:
            # The thread hangs in a call. The client must not go on sending when the broker is back.
            self._calls.end(lambda: _close(producer))
            patches.stop_sending(producer)

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Make a call of the client, unless it was given up meanwhile. Raises a StreamError in place of its errors."""
        if self._is_closed or self._calls.is_given_up:
            raise Stalled(f"{action} was not begun, the producer was given up")
        try:
            yield
        except KafkaError as error:
            raise errors.translate(error, action) from error
        except ValueError as error:  # an unknown partition: the topic has changed
            raise TransactionFailed(f"{action}: {error}", lasting=True) from error


def _close(producer: Any) -> None:
    if producer is None:
        return
    try:
        producer.close(timeout=_CLOSE_SECONDS)
    except KafkaError:  # for records that will never be sent
        patches.stop_sending(producer)


def _raise_failure(sent: Sequence[RecordBatch]) -> None:
    """Raise what the broker or the client has answered to these records, unless all is well.

    It is `Refused`, with all records that the broker refuses by name. If the broker refuses a batch as a whole, it is a
    failure that lasts, with the records of the batch: they have the very same error, so an error names a record only if
    no other record has it. Batches without an outcome of their own do not count: when the broker refuses one batch, the
    client gives up those behind it unseen, and the next try finds out about them.
    """
    failures = [failure for batch in sent if batch.has_own_outcome for failure in batch.failures()]
    if not failures:
        return
    shared = Counter(id(error) for _, error in failures)
    refused = [
        (record, error)
        for record, error in failures
        if isinstance(error, _REFUSED) and shared[id(error)] == 1 and record.source >= 0  # not of the changelog
    ]
    if refused:
        record, error = refused[0]
        text = f"{record.topic} refuses a record: {error_text(error)}"
        raise Refused(text, list(dict.fromkeys(record.source for record, _ in refused))) from error
    record, error = failures[0]
    if not isinstance(error, _REFUSED):
        raise error
    suspected = [record for record, failure in failures if failure is error]
    text = f"{record.topic} refuses a batch of {len(suspected)}: {error_text(error)}"
    sources = list(dict.fromkeys(record.source for record in suspected if record.source >= 0))
    raise TransactionFailed(text, lasting=True, sources=sources) from error
