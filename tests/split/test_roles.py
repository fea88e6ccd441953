"""The roles of split mode without Kafka: what each refuses, reports and asks for."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka.errors import OffsetOutOfRangeError

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import ConfigError, CorruptBlock, RecordsGone, SchemeMismatch, StreamError, TopicError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings, load_settings
from stream_dedup.split.frame import InputRange
from stream_dedup.split.verdicts import encode_verdicts
from stream_dedup.stream.bounded import no_deadline
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.observer import Observer
from stream_dedup.stream.record_batch import Record
from stream_dedup.stream.roles import input_reader
from stream_dedup.stream.roles.blocks import decoded
from stream_dedup.stream.roles.gaps import GapWatch
from stream_dedup.stream.roles.input_reader import InputReader
from stream_dedup.stream.roles.names import RoleName
from stream_dedup.stream.roles.publish import PublishProcessor
from stream_dedup.stream.roles.role import Role
from stream_dedup.stream.topics import TopicMetadata

SETTINGS = load_settings(kafka={"bootstrap_servers": "broker:9092", "group_id": "group"})
INPUT = SETTINGS.topics.input
LETS_THROUGH = Verdict("", Kind.UNIQUE, Stage.NONE, True)


class Gaps(Observer):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def blocks_not_contiguous(self, partition: int) -> None:
        self.seen.append(partition)


def context(role: RoleName, settings: Settings = SETTINGS) -> WorkerContext:
    return WorkerContext(settings, Gaps(), time.time, Deduplicator, no_deadline, role_name=role)


def record(offset: int, value: bytes | None = b"value", topic: str = INPUT) -> Record:
    return Record(topic, 0, offset, 1_700_000_000_000, b"key", value, [])


# -- roles -------------------------------------------------------------------------------------------------


def test_a_judge_and_a_worker_of_all_exclude_each_other() -> None:
    judge, alone = Role.of(RoleName.JUDGE, SETTINGS), Role.of(RoleName.ALL, SETTINGS)
    assert judge.transactional_id("global") == alone.transactional_id("global") == "group-global"
    assert judge.group_id != alone.group_id


def test_fingerprint_workers_go_on_where_workers_of_all_have_stopped() -> None:
    fingerprint, alone = Role.of(RoleName.FINGERPRINT, SETTINGS), Role.of(RoleName.ALL, SETTINGS)
    assert (fingerprint.group_id, fingerprint.source) == (alone.group_id, alone.source)
    assert fingerprint.transactional_id("0") != alone.transactional_id("0")


@pytest.mark.parametrize("role", [RoleName.FINGERPRINT, RoleName.JUDGE, RoleName.PUBLISH])
def test_split_mode_needs_one_index(role: RoleName) -> None:
    with pytest.raises(ConfigError, match='set scope = "global", or leave --role out'):
        Role.of(role, load_settings(worker={"scope": "partition"}))


# -- gaps --------------------------------------------------------------------------------------------------


def test_a_gap_between_blocks_is_named_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    shared = context(RoleName.JUDGE)
    gaps = GapWatch(shared)
    for first, end in ((0, 10), (10, 20), (25, 30), (28, 40)):
        gaps.check(InputRange(INPUT, "", 3, first, end))
    assert [line.split(":")[0] for line in caplog.messages] == [
        f"offsets 20 to 24 of {INPUT}-3 have no fingerprints",
        f"offsets 28 to 29 of {INPUT}-3 come again, as after a reset of the offsets of group group",
    ]
    assert shared.observer.seen == [3, 3]  # type: ignore[attr-defined]


def test_a_damaged_block_is_refused_with_its_place() -> None:
    def damaged(value: bytes) -> None:
        raise CorruptBlock("the checksum does not fit")

    with pytest.raises(CorruptBlock, match="verdicts-0 at offset 7: the checksum does not fit"):
        decoded(record(7, topic="verdicts"), damaged)
    with pytest.raises(CorruptBlock, match="verdicts-0 at offset 7: the record has no value"):
        decoded(record(7, None, "verdicts"), damaged)


# -- the reader of the input ------------------------------------------------------------------------------------


@dataclass
class Consumer:
    """A consumer of one partition with these records; a poll returns two. `gone`: offsets below it were deleted."""

    records: Sequence[Any]
    gone: int = 0
    end: int = 0
    at: int = 0
    seeks: list[int] = field(default_factory=list)

    def assign(self, places: Any) -> None: ...
    def close(self, **_: Any) -> None: ...

    def seek(self, place: Any, offset: int) -> None:
        self.seeks.append(offset)
        self.at = offset

    def poll(self, _: int) -> dict[Any, Any]:
        if self.at < self.gone:
            raise OffsetOutOfRangeError({})
        some = [record for record in self.records if record.offset >= self.at][:2]
        self.at = some[-1].offset + 1 if some else max(self.at, self.end)
        return {"place": some} if some else {}

    def position(self, _: Any) -> int:
        return self.at


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    made = Consumer([record(offset) for offset in (0, 1, 3, 4, 5, 8)], end=12)
    monkeypatch.setattr(input_reader.client, "make_consumer", lambda *_: made)
    monkeypatch.setattr(input_reader.client, "changelog_reader", lambda *_: {})
    return made


def offsets(records: Sequence[Any]) -> list[int]:
    return [one.offset for one in records]


def test_ranges_that_follow_one_another_are_read_without_a_seek(consumer: Consumer) -> None:
    reader = InputReader(context(RoleName.PUBLISH), 0)
    assert offsets(reader.read(0, 2)) == [0, 1]
    assert offsets(reader.read(2, 5)) == [3, 4]
    assert offsets(reader.read(5, 12)) == [5, 8], "the range ends in control records"
    assert consumer.seeks == [0]
    assert offsets(reader.read(3, 5)) == [3, 4], "another range"
    assert consumer.seeks == [0, 3]
    reader.close()


def test_records_that_were_deleted_before_they_were_published_are_named(consumer: Consumer) -> None:
    consumer.gone = 3
    with pytest.raises(RecordsGone, match=rf"{INPUT}-0 no longer has the records at offset 0.*--shift-by 1"):
        InputReader(context(RoleName.PUBLISH), 0).read(0, 2)


# -- the join --------------------------------------------------------------------------------------------


def publisher(settings: Settings = SETTINGS, compacted: frozenset[str] = frozenset()) -> PublishProcessor:
    shared = context(RoleName.PUBLISH, settings)
    topics = settings.topics
    names = [topics.input, topics.output, topics.duplicates, topics.dead_letters]
    metadata = TopicMetadata(dict.fromkeys(names, 1), dict.fromkeys(names, 2**20), compacted, {topics.input: "id"})
    return PublishProcessor(shared, 0, metadata, shared.thread("ahead"))


def verdicts(at: Sequence[int], first: int, end: int, topic_id: str = "id", settings: Settings = SETTINGS) -> Record:
    scheme = Scheme(settings.fingerprint).id
    where = InputRange(INPUT, topic_id, 0, first, end)
    block = encode_verdicts([LETS_THROUGH for _ in at], np.array(at, np.int64), where, scheme)
    return record(70, block, "news.verdicts")


def test_each_record_gets_its_verdict(consumer: Consumer) -> None:
    processed = publisher().process([verdicts([0, 1], 0, 3), verdicts([3, 4], 3, 5)], [], {0: 70}, {0: 72})
    assert offsets(processed.inputs) == [0, 1, 3, 4]
    assert [(one.topic, one.source) for one in processed.outgoing] == [(SETTINGS.topics.output, n) for n in range(4)]


def test_a_record_without_a_verdict_ends_the_worker(consumer: Consumer) -> None:
    with pytest.raises(StreamError, match=rf"offset 1 of {INPUT}-0 has no verdict, although news.verdicts-0 has one"):
        publisher().process([verdicts([0], 0, 3)], [], {}, {})


def test_a_verdict_without_a_record_ends_the_worker_unless_the_input_is_compacted(consumer: Consumer) -> None:
    block = verdicts([0, 1, 2], 0, 3)
    with pytest.raises(StreamError, match=rf"offsets that {INPUT}-0 does not have: \[2\]"):
        publisher().process([block], [], {}, {})
    assert len(publisher(compacted=frozenset([INPUT])).process([block], [], {}, {}).inputs) == 2


def test_verdicts_about_a_former_topic_are_refused(consumer: Consumer) -> None:
    with pytest.raises(TopicError, match=rf"about a former topic {INPUT}.*topics create --split"):
        publisher().process([verdicts([0], 0, 1, topic_id="another")], [], {}, {})


def test_verdicts_of_another_scheme_are_refused(consumer: Consumer) -> None:
    other = load_settings(fingerprint={"seed": 2})
    with pytest.raises(SchemeMismatch, match=r"news.verdicts-0 at offset 70: .*same \[fingerprint\] settings"):
        publisher().process([verdicts([0], 0, 1, settings=other)], [], {}, {})


def test_a_record_that_kafka_refused_becomes_a_dead_letter(consumer: Consumer) -> None:
    processor = publisher()
    processor._context.poison.refusals[0, 1] = 1
    first, second = processor.process([verdicts([0, 1], 0, 3)], [], {}, {}).outgoing
    assert (first.topic, second.topic) == (SETTINGS.topics.output, SETTINGS.topics.dead_letters)
    assert ("dedup-reason", b"refused") in second.headers


def test_sizes_of_a_record_without_headers_are_its_own() -> None:
    plain = SimpleNamespace(headers=[("items", b"-1"), ("bytes", None)], value=b"abc")
    assert Role.of(RoleName.JUDGE, SETTINGS).weigh(plain) == (1, 3)
    assert Role.of(RoleName.FINGERPRINT, SETTINGS).weigh(record(0)) == (1, len(b"valuekey"))
