"""The commit protocol with producers that misbehave as kafka-python does (P1, P3, P4, P5)."""

import threading
import time
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.structs import ConsumerGroupMetadata, MemberState

from stream_dedup.errors import Fenced, Stalled, StreamError, TransactionFailed
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.record_batch import Outgoing
from stream_dedup.kafka.runtime import Runtime, no_deadline
from stream_dedup.worker.group import Changes, is_member
from stream_dedup.worker.observer import CommitStep
from stream_dedup.worker.pipeline import StepClock, commit
from tests.harness.wait import wait_until

CONFIG = {"transactional_id": "group-global", "batch_size": 1000, "max_request_size": 1000}
MEMBERSHIP = ConsumerGroupMetadata("group", 3, "member", None, MemberState.STABLE)


class FakeClient:
    """A stand-in for kafka-python's producer: records its calls, and raises or hangs in some."""

    def __init__(self, **config: Any) -> None:
        self.calls: list[str] = []
        self.raises: dict[str, Exception] = {}
        self.hangs: set[str] = set()
        self.hold = threading.Event()
        self.answers: list[Exception | None] = []
        self.stopped = False
        self._sender = SimpleNamespace(force_close=lambda: setattr(self, "stopped", True))
        self._transaction_manager = SimpleNamespace(maybe_add_partition_to_transaction=lambda _: self._record("send"))
        self._accumulator = RecordAccumulator(batch_size=1000, compression_attrs=0)

    def _record(self, call: str) -> None:
        self.calls.append(call)
        if call in self.hangs:
            self.hold.wait(10)
        if call in self.raises:
            raise self.raises[call]

    def init_transactions(self) -> None:
        self._record("init")

    def begin_transaction(self) -> None:
        self._record("begin")

    def partitions_for(self, topic: str) -> set[int]:
        return {0, 1, 2}

    def _answer(self) -> None:
        """Complete or fail each batch that was handed over."""
        for batches in self._accumulator._batches.values():
            while batches:
                error = self.answers.pop(0) if self.answers else None
                if error is None:
                    batches.popleft().complete(0, -1)
                else:
                    batches.popleft().complete_exceptionally(error, lambda _, error=error: error)

    def send_offsets_to_transaction(self, offsets: Any, membership: Any) -> None:
        self._record("offsets")
        self.offsets, self.membership = offsets, membership

    def flush(self, timeout: float) -> None:
        self._record("flush")
        self._answer()

    def commit_transaction(self) -> None:
        self._record("commit")

    def close(self, timeout: float) -> None:
        self._record("close")


def a_record(source: int = 0, partition: int = 0) -> Outgoing:
    return Outgoing("out", partition, b"key", b"value", [], 0, source)


def run(client: FakeClient, bound: float = 5) -> list[CommitStep]:
    producer = TaskProducer(CONFIG, bound, no_deadline, runtime=Runtime(make_client=lambda *_: client))
    steps: list[CommitStep] = []
    try:
        packed: Future[Any] = Future()
        packed.set_result((producer.pack([a_record(0), a_record(1, 1)]), producer.pack([a_record(-1)])))
        clock = StepClock(steps.append, time.monotonic)
        job = partial(commit, producer, packed, {"place": (7, "note", 3)}, MEMBERSHIP, Future(), clock)
        producer.wait("committing", producer.start("committing", job))
    finally:
        producer.close()
    return steps


def test_the_steps_in_their_order() -> None:
    client = FakeClient()
    assert run(client) == [
        CommitStep.BEGIN,
        CommitStep.OFFSETS,
        CommitStep.SEND,
        CommitStep.CHANGELOG,
        CommitStep.FLUSH,
        CommitStep.COMMIT,
    ]
    assert client.calls == ["init", "begin", "offsets", "send", "send", "send", "flush", "commit", "close"]
    assert tuple(client.offsets["place"]) == (7, "note", 3)
    assert client.membership is MEMBERSHIP


EXPIRED = kafka_errors.KafkaTimeoutError("Expiring 1 record(s)")


def test_p1_what_is_not_acknowledged_is_never_committed() -> None:
    """As measured: flush() and commit_transaction() both succeed; only the future has the error."""
    client = FakeClient()
    client.answers = [None, EXPIRED, None]
    with pytest.raises(TransactionFailed, match="Expiring"):
        run(client)
    assert "commit" not in client.calls


@pytest.mark.parametrize(
    ("call", "error", "expected"),
    [
        ("offsets", kafka_errors.CommitFailedError("stale generation"), Fenced),
        ("commit", kafka_errors.ProducerFencedError(), Fenced),
        ("send", kafka_errors.KafkaError("earlier error"), TransactionFailed),
        ("commit", kafka_errors.TransactionalIdAuthorizationFailedError(), StreamError),
    ],
)
def test_errors_of_the_client_are_translated(call: str, error: Exception, expected: type[Exception]) -> None:
    client = FakeClient()
    client.raises[call] = error
    with pytest.raises(expected) as caught:
        run(client)
    assert type(caught.value) is expected
    # P10: an open transaction is left to the next owner.
    assert client.calls[-1] == "close"


def test_p5_a_commit_that_hangs_is_abandoned() -> None:
    client = FakeClient()
    client.hangs = {"commit"}
    began = time.monotonic()
    with pytest.raises(Stalled, match="committing"):
        run(client, bound=0.2)
    assert time.monotonic() - began < 5
    assert client.stopped, "otherwise its sender would go on when the broker is back"
    client.hold.set()


def test_p5_a_constructor_that_hangs_is_abandoned_and_closed_later() -> None:
    client = FakeClient()
    client.hangs = {"init"}
    with pytest.raises(Stalled, match="fencing"):
        TaskProducer(CONFIG, 0.2, no_deadline, runtime=Runtime(make_client=lambda *_: client))
    client.hold.set()
    wait_until(lambda: client.calls == ["init", "close"], "it is closed", 5)


@pytest.mark.parametrize(
    "gone",
    [
        MEMBERSHIP._replace(generation_id=-1),
        MEMBERSHIP._replace(member_id=""),
        MEMBERSHIP._replace(state=MemberState.REBALANCING),
        MEMBERSHIP._replace(state=MemberState.UNJOINED),
    ],
)
def test_p4_only_a_member_may_commit_offsets(gone: ConsumerGroupMetadata) -> None:
    assert is_member(MEMBERSHIP)
    assert not is_member(gone)


def test_p6_the_listener_only_sets_flags() -> None:
    calls: list[str] = []
    consumer = SimpleNamespace(
        pause=lambda place: calls.append(f"pause {place.partition}"),
        seek=lambda place, offset: calls.append(f"seek {place.partition} {offset}"),
    )
    place = SimpleNamespace(partition=4)
    changes = Changes(consumer)
    changes.on_partitions_assigned([place])
    assert calls == ["pause 4", "seek 4 0"], "a fetch before the fence is prevented"
    changes.on_partitions_lost([place])
    assert (changes.count, changes.lost) == (2, {4})
