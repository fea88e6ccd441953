"""A record and its verdict become the record that goes out; what cannot go out is known beforehand."""

import json
import os
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import DefaultPartitioner

from stream_dedup.dedup.source_rules import REASONS
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.kafka.record_batch import Outgoing
from stream_dedup.kafka.topics import Topic
from stream_dedup.settings import PolicySettings, Settings, load_settings
from stream_dedup.tools.topics.headers import was_held_back
from stream_dedup.worker.outgoing import OutgoingRecords, partition_of, trace_fields

SETTINGS = load_settings(
    topics={"input": "in", "output": "out", "duplicates": "dup", "dead_letters": "dead", "changelog": "log"},
    worker={"max_record_bytes": 4 * 2**20},
)
SHADOW = SETTINGS.model_copy(update={"policy": PolicySettings(shadow=True)})
MIB = 2**20
UNIQUE = Verdict("1", Kind.UNIQUE, Stage.NONE, True, story="1")
HELD = Verdict(
    "2", Kind.DUPLICATE, Stage.BODY, False, Original("1é", 5, 0, 9), Evidence(body=0.75, candidates=1), story="0é"
)
UPDATE = Verdict(
    "4", Kind.UPDATE, Stage.BODY, True, Original("1", 5, 0, 9), Evidence(novelty=0.8, new_share=0.3), story="0"
)
TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BAD = Verdict("3", Kind.BAD, Stage.NONE, False, reason="json: Input data was truncated: at the end")


def outgoing(partitions: dict[str, int] | None = None, settings: Settings = SETTINGS, **output: str) -> OutgoingRecords:
    """For topics with Kafka's default limit of a MiB; `output`: the configuration of that topic."""
    counts = {"in": 4, "out": 4, "dup": 4, "dead": 4} | (partitions or {})
    topics = {name: Topic(count, output if name == "out" else {}) for name, count in counts.items()}
    return OutgoingRecords(settings, topics, 0xABC)


def one(maker: OutgoingRecords, *arguments: Any) -> Outgoing:
    """The last outgoing record: that of the verdict, behind a copy of shadow mode."""
    *_, sent = maker.of(*arguments)
    return sent


def record(**fields: Any) -> Any:
    plain = {"topic": "in", "partition": 3, "offset": 7, "key": b"k", "value": b"v", "timestamp": 11}
    return SimpleNamespace(**{**plain, "headers": [("a", b"1"), ("a", b"2")], **fields})


OURS = [("dedup-verdict", b"unique"), ("dedup-source", b"in/3/7"), ("dedup-scheme", b"0000000000000abc")]


def as_verdict(name: bytes, story: str = "") -> list[tuple[str, bytes]]:
    return [("dedup-verdict", name), *OURS[1:], *([("dedup-story", story.encode())] if story else [])]


def evidence(verdict: Verdict, original: str) -> list[tuple[str, bytes]]:
    row = {name: value for name, value in verdict.as_json().items() if name != "story"}
    return [("dedup-original", original.encode()), ("dedup-evidence", json.dumps(row).encode())]


@pytest.mark.parametrize(
    ("verdict", "value", "topic", "headers"),
    [
        (UNIQUE, b"v", "out", as_verdict(b"unique", "1")),
        (Verdict("k", Kind.TOMBSTONE, Stage.POLICY, True), None, "out", as_verdict(b"tombstone")),
        (HELD, b"v", "dup", [*as_verdict(b"duplicate", "0é"), *evidence(HELD, "1é")]),
        (UPDATE, b"v", "out", [*evidence(UPDATE, "1"), *as_verdict(b"update", "0")]),
        (
            BAD,
            b"v",
            "dead",
            [
                ("dedup-verdict", b"bad"),
                OURS[2],
                ("dedup-reason", b"json"),
                ("dedup-detail", b"Input data was truncated: at the end"),
                OURS[1],
            ],
        ),
    ],
)
def test_a_record_keeps_all_it_has_and_gets_our_headers(
    verdict: Verdict, value: bytes | None, topic: str, headers: list[tuple[str, bytes]]
) -> None:
    sent = one(outgoing(), record(value=value), verdict, 5)
    assert (sent.topic, sent.partition, sent.key, sent.value) == (topic, 3, b"k", value)
    assert (sent.timestamp, sent.source) == (11, 5)

    def parsed(header: tuple[str, bytes | None]) -> Any:
        return json.loads(header[1] or b"") if header[0] == "dedup-evidence" else header

    assert [parsed(each) for each in sent.headers] == [("a", b"1"), ("a", b"2"), *map(parsed, headers)]


def test_an_update_let_through_differs_from_one_held_back() -> None:
    assert not was_held_back(one(outgoing(), record(), UPDATE, 0))
    dropped = msgspec.structs.replace(UPDATE, forward=False, reason="policy.updates = drop")
    copy, held = outgoing(settings=SHADOW).of(record(), dropped, 0)
    assert (copy.topic, held.topic) == ("out", "dup")
    assert was_held_back(copy)
    assert was_held_back(held)


def test_a_duplicate_that_a_rule_lets_through_names_its_original() -> None:
    passed = msgspec.structs.replace(HELD, forward=True, stage=Stage.POLICY, reason=REASONS["pass"])
    sent = one(outgoing(settings=SHADOW), record(), passed, 0)
    assert sent.topic == "out"
    assert ("dedup-original", "1é".encode()) in sent.headers
    assert not was_held_back(sent)


@pytest.mark.parametrize(("reason", "value"), [("too-large: x", b"v"), ("refused: x", b"v"), ("no-key: x", None)])
def test_records_that_cannot_be_output_stay_out_in_shadow_mode_too(reason: str, value: bytes | None) -> None:
    verdict = Verdict("3", Kind.BAD, Stage.NONE, False, reason=reason)
    key = b"k" if value else None
    assert [sent.topic for sent in outgoing(settings=SHADOW).of(record(key=key, value=value), verdict, 0)] == ["dead"]


@pytest.mark.parametrize("verdict", [UNIQUE, HELD, UPDATE, BAD])
def test_headers_of_tracing_pass_through(verdict: Verdict) -> None:
    theirs = [("traceparent", TRACE), ("tracestate", b"a=1"), ("baggage", b"\xff"), ("traceparent", None)]
    sent = one(outgoing(), record(headers=theirs), verdict, 0)
    assert sent.headers[:4] == theirs
    assert trace_fields(record(headers=theirs)) == {"traceparent": TRACE.decode()}
    assert trace_fields(record()) == {}


def test_nulls_stay_null() -> None:
    sent = one(outgoing(), record(headers=[("n", None)]), UNIQUE, 0)
    assert sent.headers[0] == ("n", None)
    sent = one(outgoing(), record(key=None, value=None), BAD, 0)
    assert (sent.key, sent.value) == (None, None)


@pytest.mark.parametrize(
    ("count", "key", "expected"),
    [(4, b"k", 3), (4, None, 3), (2, None, 1), (8, None, 3), (2, b"k", 0), (8, b"k", 0), (8, b"other", 2)],
)
def test_partitions(count: int, key: bytes | None, expected: int) -> None:
    assert one(outgoing({"out": count}), record(key=key), UNIQUE, 0).partition == expected


@given(st.binary(max_size=40), st.integers(1, 50))
def test_partition_of_equals_the_client_s_partitioner(key: bytes, count: int) -> None:
    cluster = SimpleNamespace(
        topics=lambda: {"out"},
        partitions_for_topic=lambda _: set(range(count)),
        available_partitions_for_topic=lambda _: set(range(count)),
    )
    assert partition_of(key, count) == DefaultPartitioner().partition("out", key, key, None, None, cluster)


def test_new_partition_counts_are_used() -> None:
    router = outgoing({"in": 6})
    assert one(router, record(key=None, partition=5), UNIQUE, 0).partition == 1
    router.update_partitions({"in": 6, "out": 6, "dup": 3})
    assert one(router, record(key=None, partition=5), UNIQUE, 0).partition == 5, "as many partitions now"
    assert one(router, record(key=None, partition=5), HELD, 0).partition == 1, "a smaller count is outdated"


def test_a_header_whose_name_is_not_utf8_is_a_dead_letter_with_its_bytes() -> None:
    router, escaped = outgoing(), record(headers=[("ok", b"1"), ("n\udcff", None), ("ü", b"")])
    refused = router.refusal_of(escaped)
    assert refused is not None
    assert (refused.reason, refused.detail) == ("header", r"the name of a header is not UTF-8: b'n\xff'")
    sent = one(router, escaped, Verdict("", Kind.BAD, Stage.NONE, False, reason=str(refused)), 0)
    assert (sent.topic, sent.key, sent.value, sent.headers[:3]) == ("dead", b"k", b"v", escaped.headers)
    assert router.refusal_of(record(headers=[("ü", b"1"), ("\u4e2d", b"")])) is None
    large = router.refusal_of(record(headers=[("\udcff" * 5 * MIB, b"")]))
    assert large is not None
    assert large.reason == "too-large"


def test_a_record_that_is_too_large_is_refused() -> None:
    router = outgoing()
    assert router.refusal_of(record(value=os.urandom(MIB - 70_000))) is None
    refused = router.refusal_of(record(value=os.urandom(MIB - 60_000)))
    assert refused is not None
    assert refused.reason == "too-large"
    assert "max.message.bytes" in refused.detail
    # The limit is for what travels: compressed.
    assert router.refusal_of(record(value=b"a" * 3 * MIB)) is None
    refused = router.refusal_of(record(value=b"a" * 5 * MIB))
    assert refused is not None
    assert "max_record_bytes" in refused.detail


def test_a_dead_letter_that_is_too_large_has_no_value() -> None:
    large = record(value=os.urandom(2 * MIB), key=b"k" * 2000)
    refused = outgoing().refusal_of(large)
    verdict = Verdict("", Kind.BAD, Stage.NONE, False, reason=str(refused))
    sent = one(outgoing(), large, verdict, 0)
    assert (sent.topic, sent.key, sent.value, sent.timestamp) == ("dead", None, b"", 11)
    assert dict(sent.headers)["dedup-source"] == b"in/3/7"
    assert ("a", b"1") not in sent.headers
    # Of its headers it keeps the trace alone, if it is one.
    for value, kept in ((TRACE, [TRACE]), (b"x" * 55, []), (None, [])):
        large.headers = [("a", b"1"), ("traceparent", value), ("tracestate", b"k=v")]
        sent = one(outgoing(), large, verdict, 0)
        assert [value for name, value in sent.headers if not name.startswith("dedup-")] == kept
    # One that Kafka refused has no part left that it could refuse again.
    sent = one(outgoing(), record(), BAD, 0, False)
    assert (sent.key, sent.value, sent.timestamp) == (b"k", b"", None)
