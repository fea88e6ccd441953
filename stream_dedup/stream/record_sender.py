"""Send single records with `KafkaProducer.send`, for `[kafka] client = "public"`.

The caller has chosen the partition and checked the size (records.py), and asks every future after the flush.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafka import errors as kafka_errors

from stream_dedup.stream.transaction import Outgoing


class RecordBatch(NamedTuple):
    """Records of one partition that are sent together."""

    records: Sequence[Outgoing]


class SentRecords(NamedTuple):
    """Records that were sent, and their futures."""

    records: Sequence[Outgoing]
    futures: Sequence[Any]
    # When one batch fails, the client gives up those that wait with the same error, and public calls do not tell which
    # of the batches a future belongs to.
    names_records: bool = False

    @property
    def has_own_outcome(self) -> bool:
        """Whether every record has an outcome."""
        return all(future.is_done for future in self.futures)

    def failures(self) -> list[tuple[Outgoing, Exception]]:
        """Each record that is not acknowledged, and why."""
        missing = kafka_errors.KafkaTimeoutError("not acknowledged in time")
        return [
            (record, future.exception if future.is_done else missing)
            for record, future in zip(self.records, self.futures, strict=True)
            if not future.succeeded()
        ]

    @property
    def end(self) -> int | None:
        """The offset after the last record, once all are acknowledged; None if the broker has not reported it."""
        offset: int = self.futures[-1].value.offset
        return offset + 1 if offset >= 0 else None


class RecordSender:
    """Sends records through one KafkaProducer, one by one."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def pack(self, records: Sequence[Outgoing]) -> list[RecordBatch]:
        """The records of one partition as one batch; the client packs and compresses them when it sends."""
        return [RecordBatch(records)]

    def send(self, topic: str, partition: int, batches: Sequence[RecordBatch]) -> Iterator[SentRecords]:
        """Send records in the open transaction.

        Raises KafkaError if the producer has failed or is closed, ValueError for a partition that does not exist. A
        record that `KafkaProducer.send` does not take becomes a failure that names it.
        """
        for batch in batches:
            futures = [self._send(topic, partition, record) for record in batch.records]
            sent = list(zip(batch.records, futures, strict=True))
            if taken := [pair for pair in sent if not isinstance(pair[1], _Refused)]:
                yield SentRecords([record for record, _ in taken], [future for _, future in taken])
            for record, future in sent:
                if isinstance(future, _Refused):
                    yield SentRecords([record], [future], names_records=True)

    def _send(self, topic: str, partition: int, record: Outgoing) -> Any:
        if record.key is None and record.value is None:
            return _Refused("it has neither key nor value")
        if any(value is None for _, value in record.headers):
            return _Refused("a header has no value")
        try:
            return self._producer.send(
                topic, record.value, record.key, list(record.headers), partition, record.timestamp
            )
        except kafka_errors.MessageSizeTooLargeError as error:
            return _Refused(str(error))


class _Refused:
    """The future of a record that `KafkaProducer.send` does not take."""

    is_done = True

    def __init__(self, reason: str) -> None:
        self.exception = kafka_errors.InvalidRecordError(f"KafkaProducer.send does not take the record: {reason}")

    def succeeded(self) -> bool:
        return False
