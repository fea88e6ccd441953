"""The interface to kafka-python's clients for both values of `[kafka] client`: patched internals, or public calls.

`[kafka] client` selects the implementation: "patched" reaches into the client (client_internals/patches.py), "public",
here, uses its public calls alone. client_internals/__init__.py compares the two.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from kafka import errors as kafka_errors

from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.record_sender import RecordSender
from stream_dedup.stream.transaction import Outgoing

_CLOSE_SECONDS = 1.5


class Sent(Protocol):
    """Records that were handed to a producer, and what became of them."""

    @property
    def records(self) -> Sequence[Outgoing]: ...
    @property
    def has_own_outcome(self) -> bool:
        """Whether the broker or the client has answered, about these records and not about others."""

    @property
    def names_records(self) -> bool:
        """Whether an error that one record alone has is about this record."""

    def failures(self) -> list[tuple[Outgoing, Exception]]:
        """Each record that is not acknowledged, and why."""

    @property
    def end(self) -> int | None:
        """The offset after the last record, once all are acknowledged; None if the broker has not reported it."""


class Sender(Protocol):
    """Sends the records of a transaction through one KafkaProducer."""

    def pack(self, records: Sequence[Outgoing]) -> Sequence[Any]:
        """Batches of records of one partition, each with its `records`. Computes only, in any thread."""

    def send(self, topic: str, partition: int, batches: Any) -> Iterator[Sent]:
        """Hand batches to the producer. Raises KafkaError and, for a missing partition, ValueError."""


class ClientAccess(ABC):
    """One way to use kafka-python's clients."""

    network: Callable[..., Any] | None = None
    """Value of a client's option `kafka_client`; None: the client's own."""
    max_poll_records: int | None = None
    """Most records of one poll; None: as many as a transaction takes."""

    @abstractmethod
    def prepare_consumer(self, consumer: Any, most_of_record: int) -> None:
        """Call it once, after making a KafkaConsumer. Larger records come without their values (`Record.cut`)."""

    @abstractmethod
    def before_resume(self, consumer: Any, place: Any) -> None:
        """Call it after a seek in a paused partition, before the partition is resumed."""

    @abstractmethod
    def go_on_rebalancing(self, consumer: Any, seconds: float, patience: float, rejoin: Callable[[], None]) -> None:
        """Call it after each poll during a rebalance that has lasted for `seconds`.

        `patience`: seconds after which a rebalance counts as forgotten; `rejoin` leaves the group and joins it anew.
        """

    @abstractmethod
    def sender(self, producer: Any) -> Sender:
        """What sends the records of this KafkaProducer."""

    @abstractmethod
    def stop_sending(self, producer: Any) -> None:
        """Let go of a KafkaProducer that could not be closed because records are unsent. Does not wait."""


class PublicAccess(ClientAccess):
    """Public calls of kafka-python alone."""

    # A poll returns all that is fetched. Otherwise the client parks the rest of a partition that is then paused, and
    # may never fetch this partition again (client_internals/paused_fetches.py).
    max_poll_records = 2**31 - 1

    def prepare_consumer(self, consumer: Any, most_of_record: int) -> None:
        pass

    def before_resume(self, consumer: Any, place: Any) -> None:
        pass

    def go_on_rebalancing(self, consumer: Any, seconds: float, patience: float, rejoin: Callable[[], None]) -> None:
        if seconds > patience:
            rejoin()

    def sender(self, producer: Any) -> RecordSender:
        return RecordSender(producer)

    def stop_sending(self, producer: Any) -> None:
        Bounded("closing-producer").end(lambda: _close_when_possible(producer))


def _close_when_possible(producer: Any) -> None:
    """Close a producer once its unsent records have expired; the next owner of its transactional id fences it."""
    end = time.monotonic() + 2 * producer.config["delivery_timeout_ms"] / 1000
    while time.monotonic() < end:
        with suppress(kafka_errors.KafkaError):
            producer.close(timeout=_CLOSE_SECONDS)
            return
