"""kafka-python's transactional producer with every call bounded and every error one of ours.

In: configuration, a bound. Out: `LaneProducer`. One is used until its first error, then closed or left behind:
after a failed send_offsets its pending offsets would go out with the next transaction (P3), and after an epoch
bump it reports success for what never happened (P2).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from stream_dedup.errors import Refused, StreamError, TransactionFailed
from stream_dedup.stream import bulk, client
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.transaction import Outgoing

T = TypeVar("T")

# A close has nothing to wait for but threads: a tenth of a second when all is well.
_CLOSE_SECONDS = 1.5
# What a broker or the client says of one record, and would say of it again.
_REFUSED = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.InvalidRecordError,
    kafka_errors.InvalidTimestampError,
)


def _make(config: Mapping[str, Any]) -> Any:
    return client.make(KafkaProducer, config)


class Parcel(NamedTuple):
    """Records that follow one another, and their batches; partition None: each of the records goes by itself."""

    partition: int | None
    records: Sequence[Outgoing]
    batches: Sequence[bulk.Ready]


class LaneProducer:
    """A producer with one transactional id. Its constructor fences whoever had the id before.

    `bound` is the most seconds of one call, `left()` how many remain before everything must be over.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        bound: float,
        left: Callable[[], float],
        make: Callable[[Mapping[str, Any]], Any] = _make,
    ) -> None:
        self._bound = bound
        self._sent: list[bulk.Sent] = []
        self._batch_bytes = min(config["batch_size"], config["max_request_size"])
        self._producer: Any = None
        self._calls = Bounded(str(config["transactional_id"]), left)

        def construct() -> None:
            self._producer = make(config)
            self._producer.init_transactions()

        try:
            self._call("fencing the former writer", construct)
        except StreamError:
            self.close()
            raise

    def begin(self) -> None:
        self._sent.clear()
        self._call("beginning a transaction", self._producer.begin_transaction)

    def pack(self, records: Sequence[Outgoing]) -> list[Parcel]:
        """The records as `send` wants them; those of one partition in their order. Computes only, in any thread."""
        return [
            Parcel(partition, together, [] if partition is None else bulk.compressed(self._producer, together))
            for partition, together in _by_partition(records, self._batch_bytes)
        ]

    def send(self, parcels: Sequence[Parcel]) -> None:
        """Hands what `pack` has made to the client."""

        def hand_over() -> None:
            for partition, records, batches in parcels:
                if partition is None:
                    self._sent.extend(map(self._send_alone, records))
                else:
                    self._sent.extend(bulk.hand_over(self._producer, records[0].topic, partition, batches))

        self._call("sending", hand_over)

    def _send_alone(self, record: Outgoing) -> bulk.Sent:
        try:
            future = self._producer.send(
                record.topic,
                value=record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp,
            )
        except _REFUSED as error:
            raise _refusal(record, error) from error
        return bulk.Sent([record], future)

    def send_offsets(self, offsets: Mapping[Any, int], membership: Any) -> None:
        commits = {place: OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        self._call("sending the input offsets", lambda: self._producer.send_offsets_to_transaction(commits, membership))

    def flush(self) -> None:
        """Returns only when every record is acknowledged (P1)."""

        def confirm() -> None:
            self._producer.flush(self._bound)
            failed = [pair for sent in self._sent for pair in zip(sent.records, sent.errors(), strict=False)]
            for record, error in failed:
                if isinstance(error, _REFUSED):
                    raise _refusal(record, error) from error
            for _, error in failed:
                raise error

        self._call("waiting for the acknowledgements", confirm)

    def end_of(self, topic: str, partition: int) -> int | None:
        """Where the records of the flushed transaction end in that partition; None: none was sent, or nobody knows."""
        mine = [sent for sent in self._sent if (sent.records[0].topic, sent.records[0].partition) == (topic, partition)]
        return mine[-1].end if mine else None

    def commit(self) -> None:
        self._call("committing", self._producer.commit_transaction)

    def close(self) -> None:
        """Lets go of it. An open transaction stays open, for the next owner of the id to abort (P10)."""
        producer = self._producer
        if producer is None:  # the constructor failed or hangs; what it still makes is closed when it is made
            self._calls.end(lambda: _close(self._producer))
            return
        try:
            self._calls.call("closing", 2 * _CLOSE_SECONDS, lambda: _close(producer))
            self._calls.end()
        except StreamError:
            # Its thread hangs in a call. Its sender must not go on by itself when the broker is back.
            self._calls.end(lambda: _close(producer))
            _stop_sending(producer)

    def _call(self, what: str, function: Callable[[], T]) -> T:
        try:
            # Where the client has a bound of its own it is this one; it shall speak first, it knows more.
            return self._calls.call(what, self._bound + 1, function)
        except kafka_errors.KafkaError as error:
            raise client.translate(error, what) from error
        except ValueError as error:  # an unknown partition: the topic was changed under us
            raise TransactionFailed(f"{what}: {error}") from error


def _by_partition(records: Sequence[Outgoing], batch_bytes: int) -> Iterator[tuple[int | None, list[Outgoing]]]:
    """(partition, records), each as long as can be while a partition's records keep their order. Partition None: each
    of them goes by itself, as the client has to find its partition, or it is larger than a batch.
    """
    waiting: dict[tuple[str, int], list[Outgoing]] = {}
    for record in records:
        if record.partition is not None and bulk.size_bound(record) <= batch_bytes:
            waiting.setdefault((record.topic, record.partition), []).append(record)
            continue
        # What waits for its partition was there before.
        yield from ((partition, together) for (_, partition), together in waiting.items())
        waiting.clear()
        yield None, [record]
    yield from ((partition, together) for (_, partition), together in waiting.items())


def _refusal(record: Outgoing, error: Exception) -> Refused:
    return Refused(f"{record.topic} refuses a record: {type(error).__name__}: {error}", record.source)


def _close(producer: Any) -> None:
    if producer is None:
        return
    with suppress(kafka_errors.KafkaError):  # records that will never be sent
        producer.close(timeout=_CLOSE_SECONDS)
        return
    _stop_sending(producer)


def _stop_sending(producer: Any) -> None:
    # The public close() waits for records to go out before it stops the sender, and raises when they do not:
    # with the broker down there is no other way to stop it.
    producer._sender.force_close()
