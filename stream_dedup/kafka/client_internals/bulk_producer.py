"""Send whole record batches instead of single records.

`KafkaProducer.send` costs some 35 µs of Python a record: checks, locks, a future, a call for each byte of a number.
That is a third of a bare exactly-once pass-through. `BulkSender` packs the records of a partition itself
(record_batch.py) and puts finished batches into the producer's accumulator; that costs 8 µs a record. The client still
sends, retries, numbers and ends transactions.

`pack` also compresses. It needs no transaction, so it runs while the offsets are sent. Left to the client, each batch
of a partition would be compressed only when the broker has acknowledged the batch before.

Rules:

- All records of a producer go this way. `send` would append its record to a batch that is already compressed, and the
  broker would refuse that batch.
- `send` checks sizes and picks partitions; here records.py has done so before.
- A batch is never larger than the topics allow, so the client never splits one. A split batch would leave its future
  without an answer; a missing answer fails the transaction.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.producer_batch import FinalState, ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

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
