"""Bytes of a fetch -> records, in half of the client's time.

In: what kafka-python has fetched of one partition. Out: `Record`s, in their order. Why: of a record of 4 KB the client
makes three objects, in some thirty calls, and copies its value three times: 9.8 µs, most of it with the interpreter's
lock, for which every thread of a worker waits. Here it is 5.5, of which 2.6 are the decompression. What fetches, has
the codecs, checks sums and knows which transactions were aborted stays kafka-python's.

kafka-python has no public way in for this, so `Unpacking` takes the place of the fetcher's own class: 3.0.12 to below
3.1 (pyproject), and tests hold its records against the client's.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from kafka import codec
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from stream_dedup.stream.bulk import ESCAPED

_DECODE = {
    DefaultRecordBatch.CODEC_GZIP: codec.gzip_decode,
    DefaultRecordBatch.CODEC_SNAPPY: codec.snappy_decode,
    DefaultRecordBatch.CODEC_LZ4: codec.lz4_decode,
    DefaultRecordBatch.CODEC_ZSTD: codec.zstd_decode,
}
_NO_HEADERS: tuple[tuple[str, bytes | None], ...] = ()


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record as it was read: what kafka-python's ConsumerRecord says of it, by the same names, as far as we ask.

    `timestamp` in ms since 1970. Bytes of a header's name that are not UTF-8 are escaped (bulk.ESCAPED), where the
    client takes the whole record for damaged.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def take_over(consumer: Any) -> None:
    """From now on this KafkaConsumer's polls return `Record`s."""
    consumer._fetcher.PartitionRecords = Unpacking


def drop_parked(consumer: Any, place: Any) -> None:
    """Forgets what the client holds of a partition that was paused; somebody seeks in it and resumes it.

    kafka-python 3.0.12 takes up what it has parked of a paused partition when its place for the current partition is
    None, which it is no more once another one has come: until then it does not fetch the resumed partition, and under
    load it stands still for good.
    """
    consumer._fetcher._paused_partition_records.pop(place, None)
    consumer._fetcher._paused_completed_fetches.pop(place, None)


class Unpacking(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python ships no types
    """The records of one fetched partition: the client's own, but for how a batch's are taken out of it."""

    def _unpack_records(self, place: Any, batches: Any, *_: Any) -> Iterator[Record]:
        last = None
        while (batch := batches.next_batch()) is not None:
            last = batch
            if not batch.validate_crc():
                raise kafka_errors.CorruptRecordError(
                    f"Record batch for partition {place} at offset {batch.base_offset} failed crc check"
                )
            if self._is_for_us(batch):
                for record in unpack(batch, place.topic, place.partition):
                    self.next_fetch_offset = record.offset + 1
                    yield record
            elif batch.magic >= 2:
                self.next_fetch_offset = batch.next_offset
        if last is not None and last.magic >= 2:
            # Compaction may take a batch's last records: without this the client would fetch the batch again.
            self.next_fetch_offset = last.next_offset
        self.drain()

    def _is_for_us(self, batch: Any) -> bool:
        """Not a marker of a transaction's end, and not of a transaction that was aborted."""
        if batch.magic < 2:
            return True
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return False
        return not batch.is_control_batch


def unpack(batch: Any, topic: str, partition: int) -> Iterator[Record]:
    """The records of a batch (kafka-python's DefaultRecordBatch or, of old, LegacyRecordBatch). O(bytes).

    Raises CorruptRecordError at the first that is none; those before it have come.
    """
    if batch.magic < 2:  # written before Kafka 0.11
        for old in batch:
            if not old.validate_crc():
                raise kafka_errors.CorruptRecordError(f"Record at offset {old.offset} failed crc check")
            yield Record(topic, partition, old.offset, old.timestamp, old.key, old.value, old.headers)
        return
    data, at = _content(batch), 0
    size = len(data)
    base, first = batch.base_offset, batch.first_timestamp
    appended = batch.max_timestamp if batch.timestamp_type == batch.LOG_APPEND_TIME else None
    try:
        for _ in range(batch.records_count):
            length, at = decode_varint(data, at)
            end = at + length
            _, at = decode_varint(data, at)  # attributes, of which there are none yet
            delta, at = decode_varint(data, at)
            place, at = decode_varint(data, at)
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            count, at = decode_varint(data, at)
            headers: Sequence[tuple[str, bytes | None]] = _NO_HEADERS
            if count:
                headers, at = _headers(data, at, count)
            if at != end or end > size:
                raise ValueError(f"a record ends at byte {at} of {size}, and should at {end}")
            time = first + delta if appended is None else appended
            yield Record(topic, partition, base + place, time, key, value, headers)
    except (ValueError, IndexError) as error:
        raise kafka_errors.CorruptRecordError(f"Found invalid record structure: {error!r}") from error
    if at != size:
        raise kafka_errors.CorruptRecordError(f"{size - at} unconsumed bytes after all records consumed")


def _content(batch: Any) -> bytes:
    """The batch's records, decompressed; the client would copy them twice more on the way."""
    content = memoryview(batch._buffer)[batch.HEADER_STRUCT.size :].tobytes()
    kind = batch.compression_type
    if kind == batch.CODEC_NONE:
        return content
    batch._assert_has_codec(kind)
    return bytes(_DECODE[kind](content))


def _headers(data: bytes, at: int, count: int) -> tuple[list[tuple[str, bytes | None]], int]:
    headers = []
    if count < 0:
        raise ValueError(f"a record has {count} headers")
    for _ in range(count):
        name, at = _bytes(data, at)
        if name is None:
            raise ValueError("a header has no name")
        value, at = _bytes(data, at)
        # Whose name is not UTF-8 shall be seen by somebody, so it is read, and can be written again: judge.py has it.
        headers.append((name.decode(errors=ESCAPED), value))
    return headers, at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """(bytes with their length before them, or None for null; place behind them)."""
    length, at = decode_varint(data, at)
    if length < 0:
        return None, at
    return data[at : at + length], at + length
