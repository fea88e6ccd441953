"""With `[kafka] client = "public"` the worker gives the same results as with the patches."""

import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.structs import MemberState

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import Refused, TransactionFailed
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.bounded import no_deadline
from stream_dedup.stream.client_access import PublicAccess
from stream_dedup.stream.producer import TaskProducer
from stream_dedup.stream.topic_reader import TopicReader
from stream_dedup.stream.transaction import CommitStep, Outgoing
from tests.stream.support import (
    Member,
    article,
    assert_exactly_once,
    feed,
    from_scratch,
    header,
    made_up,
    make_settings,
    outcome,
    ready,
    run_until,
)  # fmt: skip

Names = Callable[[str], str]
REFUSED = kafka_errors.InvalidRecordError


class Client:
    """A KafkaProducer whose records fail as `errors` says, by their place in the transaction."""

    def __init__(self, errors: dict[int, Exception]) -> None:
        self._errors, self._futures = errors, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None

    def send(self, topic: str, value: Any, key: Any, headers: Any, partition: int, timestamp: Any) -> Any:
        result = FutureProduceResult(TopicPartition(topic, partition))
        self._futures.append((result, FutureRecordMetadata(result, 0, 0, None, 0, 0, 0)))
        return self._futures[-1][1]

    def flush(self, timeout: float) -> None:
        for i, (result, _) in enumerate(self._futures):
            error = self._errors.get(i)
            result.success((17, -1, None if error is None else lambda _, error=error: error))


def failure(records: Sequence[Outgoing], errors: dict[int, Exception]) -> TransactionFailed:
    """What a producer makes of these errors."""
    producer = TaskProducer({"transactional_id": "t"}, 5, no_deadline, lambda _: Client(errors), access=PublicAccess())
    producer.begin()
    with pytest.raises(TransactionFailed) as caught:  # before the changelog is sent
        producer.send(producer.pack(records))
    producer.close()
    return caught.value


def records(count: int) -> list[Outgoing]:
    return [Outgoing("out", i % 2, b"k", b"v", [], 0, i) for i in range(count)]


def test_the_only_record_that_fails_is_the_one_that_is_refused() -> None:
    error = failure(records(3), {1: REFUSED("too old")})
    assert isinstance(error, Refused)
    assert error.sources == (2,), "partition 0 comes first"


def test_the_two_copies_of_shadow_mode_are_one_record() -> None:
    copies = [Outgoing(topic, 0, b"k", b"v", [], 0, 4) for topic in ("out", "duplicates")]
    error = failure(copies, {0: REFUSED("too old"), 1: REFUSED("given up")})
    assert isinstance(error, Refused)
    assert error.sources == (4,)


def test_where_several_fail_nobody_is_accused_and_all_are_suspected() -> None:
    # One is refused by name, and the client gives up the other's batch: public calls do not tell which is which.
    error = failure(records(3), {0: REFUSED("too old"), 2: REFUSED("invalid")})
    assert not isinstance(error, Refused)
    assert (error.lasting, set(error.sources)) == (True, {0, 1})


def test_a_record_that_send_does_not_take_is_named_beside_others_that_fail() -> None:
    without_content = Outgoing("out", 1, None, None, [], 0, 7)
    null_header = Outgoing("out", 1, b"k", b"v", [("h", None)], 0, 8)
    error = failure([*records(2), without_content, null_header], {0: REFUSED("bad"), 1: REFUSED("bad")})
    assert isinstance(error, Refused)
    assert error.sources == (7, 8)


def test_a_failure_of_the_network_accuses_nobody() -> None:
    gone = kafka_errors.KafkaConnectionError("gone")
    error = failure(records(3), {0: gone, 1: gone})
    assert (error.lasting, error.sources) == (False, ())


def test_a_rebalance_that_lasts_too_long_is_begun_anew() -> None:
    begun: list[bool] = []
    for seconds in (0.0, 2.9, 3.1):
        PublicAccess().go_on_rebalancing(SimpleNamespace(state=MemberState.REBALANCING), seconds, 3.0,
                                         lambda: begun.append(True))  # fmt: skip
    assert len(begun) == 1


def test_a_producer_with_unsent_records_is_closed_when_they_have_expired() -> None:
    import time

    class Unsent:
        config = {"delivery_timeout_ms": 5000}  # noqa: RUF012
        tries = 0

        def close(self, timeout: float) -> None:
            self.tries += 1
            if self.tries < 3:
                raise kafka_errors.KafkaTimeoutError("records are unsent")

    producer = Unsent()
    PublicAccess().stop_sending(producer)
    deadline = time.monotonic() + 5
    while producer.tries < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert producer.tries == 3


def everything(settings: Settings) -> list[list[Any]]:
    """All that a worker wrote, partition by partition, but for the names of the input topic and our time stamps."""
    came = outcome(settings)

    def shown(record: Any) -> Any:
        source = settings.topics.input.encode()
        headers = [(name, value and value.replace(source, b"input")) for name, value in record.headers]
        return record.partition, record.key, record.value, record.timestamp, headers

    return [
        sorted(map(shown, some), key=lambda one: one[0]) for some in (came.output, came.duplicates, came.dead_letters)
    ]


@pytest.mark.kafka
def test_the_same_records_headers_order_and_dead_letters(kafka: EmbeddedKafka, topic_name: Names) -> None:
    large = [(b"large-%d" % i, article(f"large-{i}", os.urandom(300_000).hex())) for i in range(6)]
    # Small enough to be read, and too large for a batch of its own: the patched client skips what is larger.
    room = 1_999_913 - len(article("giant", ""))
    too_large = (b"giant", article("giant", os.urandom(10**6).hex()[:room]))
    odd = [(b"x", b"no JSON"), (None, article("keyless", "Some text")), (b"item-3", None), (b"e", b"")]
    results = []
    for kind in ("patched", "public"):

        def names(role: str, kind: str = kind) -> str:
            return topic_name(f"{role}-{kind}")

        # An index for each partition: which partition is polled first makes no difference.
        worker = {"batch_items": 50, "max_record_bytes": 2_000_000, "scope": "partition"}
        settings = ready(make_settings(kafka.bootstrap, names, worker=worker, kafka={"client": kind}), partitions=2)
        feed(settings, [*made_up(150), *odd, *large, too_large], 0, compression="zstd", trace=b"\x00\xff")
        feed(settings, made_up(150, seed=2), 1, compression="gzip")
        run_until(settings, 311)
        results.append(everything(settings))
        with TopicReader(settings) as reader:
            assert sum(1 for _ in reader.all(settings.topics.output)) == len(results[-1][0])
    patched, public = results
    assert public == patched
    assert [len(some) for some in public] != [311, 0, 0]
    assert {dict(headers)["dedup-reason"] for *_, headers in public[2]} >= {b"too-large"}


@pytest.mark.kafka
def test_killed_while_sending_and_before_the_commit(kafka: EmbeddedKafka, topic_name: Names) -> None:
    short = {"batch_items": 50, "session_timeout": "1s"}
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker=short, kafka={"client": "public"}))
    sent = feed(settings, made_up(3000))
    steps = (CommitStep.SEND, CommitStep.COMMIT)
    members = [Member(settings, {"kill": [step, 3]}) for step in steps]
    for member in members:
        with member:
            member.go().wait_killed()
    with Member(settings) as last:
        last.go().wait_for("batch", 60, lag=0)
        last.stop()
    came = assert_exactly_once(settings, sent)
    verdicts = {key: (kind, of if kind == "duplicate" else None) for key, (kind, of) in came.verdicts().items()}
    assert verdicts == from_scratch(settings, sent)


@pytest.mark.kafka
def test_a_record_that_send_does_not_take_becomes_a_dead_letter(kafka: EmbeddedKafka, topic_name: Names) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, kafka={"client": "public"}))
    feed(settings, made_up(10))
    producer = TaskProducer(client.producer(settings, topic_name("id")), 30, no_deadline)  # with the patches
    producer.begin()
    topic = settings.topics.input
    producer.send(producer.pack([
        Outgoing(topic, 0, None, None, [], 5, 0),
        Outgoing(topic, 0, b"null", article("n", "A text"), [("h", None)], 5, 1),
    ]))  # fmt: skip
    producer.flush()
    producer.commit()
    producer.close()
    feed(settings, made_up(10, seed=2))
    run_until(settings, 22)
    came = outcome(settings)
    assert [(one.key, one.value) for one in came.dead_letters] == [(None, b""), (b"null", b"")]
    assert {header(one, "dedup-reason") for one in came.dead_letters} <= {"refused", "json", "empty", "tombstone"}
    assert len(came.output) + len(came.duplicates) == 20
