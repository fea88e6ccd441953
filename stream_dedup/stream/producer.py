"""kafka-python's transactional producer with every call bounded and every error one of ours.

In: configuration, a bound. Out: `TaskProducer`. One is used until its first error, then closed or left behind:
after a failed send_offsets its pending offsets would go out with the next transaction (P3), and after an epoch
bump it reports success for what never happened (P2). It never commits again; only when the broker refuses a record, it
is asked about the others before, in transactions that end aborted.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from stream_dedup.errors import Refused, StreamError, TransactionFailed
from stream_dedup.stream import bulk, client
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.error_text import error_text
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
    """Records of one partition, and their batches."""

    topic: str
    partition: int
    batches: Sequence[bulk.Ready]


class TaskProducer:
    """A producer with one transactional id. Its constructor fences whoever had the id before.

    `bound` is the most seconds of one call, `left()` how many remain before everything must be over. `partitions` says
    how many each of `topics` had at the last commit, as far as the client knows.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        bound: float,
        left: Callable[[], float],
        make: Callable[[Mapping[str, Any]], Any] = _make,
        topics: Sequence[str] = (),
    ) -> None:
        self.note: Callable[[], str] = str  # what the group remembers beside each offset
        self.partitions: dict[str, int] = {}
        self._topics = topics
        self._bound = bound
        self._sent: list[bulk.Sent] = []
        self._parcels: list[Parcel] = []
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
        self._parcels.clear()
        self._call("beginning a transaction", self._producer.begin_transaction)

    def pack(self, records: Sequence[Outgoing]) -> list[Parcel]:
        """The records as `send` wants them; those of one partition in their order. Computes only, in any thread."""
        return [
            Parcel(topic, partition, bulk.compressed(self._producer, together))
            for (topic, partition), together in _by_partition(records).items()
        ]

    def send(self, parcels: Sequence[Parcel]) -> None:
        """Hands what `pack` has made to the client."""

        def hand_over() -> None:
            try:
                for topic, partition, batches in parcels:
                    self._sent.extend(bulk.hand_over(self._producer, topic, partition, batches))
            except kafka_errors.KafkaError:
                self._raise_answered()  # what was sent before is often the cause, and says more
                raise

        self._parcels.extend(parcels)
        self._call("sending", hand_over)

    def send_offsets(self, offsets: Mapping[Any, int], membership: Any) -> None:
        commits = {place: OffsetAndMetadata(offset, self.note(), -1) for place, offset in offsets.items()}
        self._call("sending the input offsets", lambda: self._producer.send_offsets_to_transaction(commits, membership))

    def flush(self) -> None:
        """Returns only when every record is acknowledged (P1)."""

        def confirm() -> None:
            self._producer.flush(self._bound)
            self._raise_answered()
            for sent in self._sent:
                for error in sent.errors():
                    raise error

        self._call("waiting for the acknowledgements", confirm)

    def ends_in(self, topic: str) -> dict[TopicPartition, int | None]:
        """Where the records of the flushed transaction end in each partition of the topic that it has some in; None:
        nobody knows.
        """
        mine = [(sent.records[0], sent.end) for sent in self._sent]
        return {TopicPartition(topic, one.partition): end for one, end in mine if one.topic == topic}

    def _raise_answered(self) -> None:
        """Raises what the broker or the client has answered to a batch of this transaction, if that was no success."""
        error = _failure(self._sent)
        if isinstance(error, Refused):
            answered = {id(one.records) for one in self._sent if one.was_answered}
            waiting = [
                (topic, partition, batch.records)
                for topic, partition, batches in self._parcels
                for batch in batches
                if id(batch.records) not in answered and batch.records[0].source >= 0
            ]
            more = self._refused_of(waiting)
            raise Refused(str(error), sorted({*error.sources, *more})) from error.__cause__
        if error is not None:
            raise error

    def _refused_of(self, waiting: Sequence[tuple[str, int, Sequence[Outgoing]]]) -> set[int]:
        """Which of these batches' records the broker refuses too, by their places in the batch.

        When one is refused, those that wait behind it are given up unseen. To hear of all at once they are sent again,
        as often as one more is refused, in transactions that never commit. It is a question only: where there is no
        answer, the next try finds out.
        """
        refused: set[int] = set()
        until = time.monotonic() + self._bound / 2  # of the bounded call that this is part of
        with suppress(kafka_errors.KafkaError, ValueError):
            while waiting and time.monotonic() < until:
                self._producer.abort_transaction()
                self._producer.begin_transaction()
                sent: list[bulk.Sent] = []
                with suppress(kafka_errors.KafkaError):
                    for topic, partition, records in waiting:
                        batches = bulk.compressed(self._producer, records)
                        sent.extend(bulk.hand_over(self._producer, topic, partition, batches))
                self._producer.flush(max(0.0, until - time.monotonic()))
                error = _failure(sent)
                if not isinstance(error, Refused):
                    break
                refused.update(error.sources)
                waiting = [*waiting[len(sent) :]] + [
                    one for one, its in zip(waiting, sent, strict=False) if not its.was_answered
                ]
        return refused

    def commit(self) -> None:
        def commit() -> None:
            self._producer.commit_transaction()
            with suppress(kafka_errors.KafkaError):  # it is committed; who is told nothing goes on with what it knows
                self.partitions = {topic: len(self._producer.partitions_for(topic)) for topic in self._topics}

        self._call("committing", commit)

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
            raise TransactionFailed(f"{what}: {error}", lasting=True) from error


def _by_partition(records: Sequence[Outgoing]) -> dict[tuple[str, int], list[Outgoing]]:
    """(topic, partition) -> its records, in their order."""
    found: dict[tuple[str, int], list[Outgoing]] = {}
    for record in records:
        found.setdefault((record.topic, record.partition), []).append(record)
    return found


def _failure(sent: Sequence[bulk.Sent]) -> Exception | None:
    """What the broker or the client has answered to these batches, if that was no success.

    `Refused` for all records that are named; where a batch of several is refused and none is named, a failure that
    lasts, of this batch. None also where there is no answer.
    """
    failed = [(one.records, one.errors()) for one in sent if one.was_answered]
    refused = [pair for records, errors in failed for pair in _named(records, errors)]
    ours = dict.fromkeys(record.source for record, _ in refused if record.source >= 0)
    if ours:
        record, error = next((record, error) for record, error in refused if record.source >= 0)
        return _because(error, Refused(f"{record.topic} refuses a record: {error_text(error)}", list(ours)))
    for records, errors in failed:
        for record, error in zip(records, errors, strict=False):
            if not isinstance(error, _REFUSED):
                return error
            suspected = dict.fromkeys(one.source for one in records if one.source >= 0)
            text = f"{record.topic} refuses a batch of {len(records)}: {error_text(error)}"
            return _because(error, TransactionFailed(text, lasting=True, sources=list(suspected)))
    return None


def _because(cause: Exception, error: StreamError) -> StreamError:
    error.__cause__ = cause
    return error


def _named(records: Sequence[Outgoing], errors: Sequence[Exception]) -> list[tuple[Outgoing, Exception]]:
    """The records of a batch that the broker refuses by name. It names none where all have one and the same error."""
    if len(errors) > 1 and all(error is errors[0] for error in errors):
        return []
    return [(record, error) for record, error in zip(records, errors, strict=False) if isinstance(error, _REFUSED)]


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
