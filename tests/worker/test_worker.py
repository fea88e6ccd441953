"""The whole path on a real Kafka: what passes untouched, what becomes a dead letter, and how the worker stops."""

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import ChangelogError, TopicError
from stream_dedup.kafka.runtime import Runtime
from stream_dedup.observe.health import Health, Status
from stream_dedup.observe.watch import ObserverGroup
from stream_dedup.settings import Settings, load_settings
from stream_dedup.worker.observer import CommitStep
from tests.harness.check import assert_exactly_once, header, outcome
from tests.harness.feed import START, article, feed, made_up
from tests.harness.topics import Make, ready
from tests.worker.support import Watching, fails, run_until, run_worker

pytestmark = pytest.mark.kafka
Names = Callable[[str], str]
TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."


def test_each_record_goes_to_its_topic_untouched(settings: Settings) -> None:
    raw = b'{"id":"a",  "title":"Elm bridge opens", "text":"' + TEXT.encode() + b'", "extra":[1, 2.50]}'
    sent = feed(
        settings,
        [
            (b"k1", raw),
            (b"k2", article("b", TEXT, "Elm bridge opens", "gazette.example")),
            (b"k3", b"{"),
            (b"a", None),
        ],
        trace=b"\x00\xff",
    )
    run_until(settings, 4)
    came = assert_exactly_once(settings, sent)
    by_key = {record.key: record for record in came.every}
    for one in sent:
        record = by_key[one.key]
        assert (record.value, record.timestamp) == (one.value, one.timestamp)
        assert record.headers[: len(one.headers)] == one.headers
    assert [record.key for record in came.output] == [b"k1", b"a"]
    assert [header(record, "dedup-verdict") for record in came.output] == ["unique", "tombstone"]
    [held] = came.duplicates
    assert header(held, "dedup-original") == "a"
    evidence = json.loads(header(held, "dedup-evidence") or "")
    assert evidence["original"] == {"id": "a", "time": START, "partition": 0, "offset": 0}
    [dead] = came.dead_letters
    assert header(dead, "dedup-reason") == "json"
    assert header(dead, "dedup-source") == f"{settings.topics.input}/0/2"


def test_in_shadow_mode_the_output_holds_everything_and_the_other_topics_are_unchanged(
    make: Make,
) -> None:
    records = [*made_up(120), (b"bad", b"{"), (b"item-3", None)]
    came, counted = {}, {}
    for shadow in (False, True):
        settings = make(policy={"shadow": shadow})
        sent = feed(settings, records)
        reports = run_until(settings, len(sent)).reports
        came[shadow] = outcome(settings)
        counted[shadow] = sum((Counter(report.counts) for report in reports), Counter())
    headers = {record.key: record.headers for record in [*came[False].output, *came[False].duplicates]}
    headers |= {b"bad": came[False].dead_letters[0].headers}
    shadow = came[True]
    assert [record.key for record in shadow.output] == [key for key, _ in records], "every item, in its order"
    assert [(record.value, record.timestamp) for record in shadow.output] == [
        (one.value, one.timestamp) for one in sent
    ]
    tombstones = [record for record in shadow.output if record.value is None]
    assert [header(record, "dedup-verdict") for record in tombstones] == ["tombstone"]
    for record in shadow.output:
        if record.value is not None and record.key != b"item-3":
            assert _ours(record.headers) == _ours(headers[record.key])
    for mine, theirs in ((shadow.duplicates, came[False].duplicates), (shadow.dead_letters, came[False].dead_letters)):
        assert len(mine) > 0
        assert [_content(record) for record in mine] == [_content(record) for record in theirs]
    assert counted[True] == counted[False], "metrics count what would have been held back"
    assert counted[True][Kind.DUPLICATE] == len(shadow.duplicates)


def _content(record: Any) -> Any:
    return record.key, record.value, record.timestamp, _ours(record.headers)


def _ours(headers: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The headers without the one that names the input topic, which differs between the runs."""
    return [header for header in headers if header[0] != "dedup-source"]


# What is wrong -> key, value, and the reason of the dead letter (None: it is judged).
BROKEN: dict[str, tuple[bytes | None, bytes | None, str | None]] = {
    "invalid UTF-8": (b"1", b'{"id": "1", "title": "\xff\xfe", "text": "x"}', "encoding"),
    "invalid UTF-8 in the key": (b"\xff\xfe", article("", TEXT + " One."), None),
    "truncated JSON": (b"2", article("2", TEXT)[:-9], "json"),
    "no JSON": (b"3", b"\x00\x01\x02", "json"),
    "wrong types": (b"4", b'{"id": [1], "title": {"a": 1}, "text": 7}', "type"),
    "not an object": (b"5", b'["a", "b"]', "type"),
    "empty object": (b"6", b"{}", "empty"),
    "empty value": (b"7", b"", "json"),
    "empty text": (b"8", article("8", "", ""), "empty"),
    "only punctuation": (b"9", article("9", "?!… --- ***", ""), "empty"),
    "tombstone": (b"10", None, None),
    "nested bomb": (b"12", b'{"id": "12", "text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "json"),
    "nested bomb beside": (b"13", b'{"text": "x y z", "o": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, "json"),
    "a number of many digits": (b"14", b'{"id": "14", "text": "x", "n": ' + b"9" * 100_000 + b"}", "type"),
    "an id of a megabyte": (b"15", article("i" * 2**20, TEXT + " Two."), "id"),
    "a key of a megabyte": (b"k" * 2**20, article("16", TEXT + " Three."), None),
    "nulls in the text": (b"17", article("17", "a\x00b " * 50), None),
    "lone surrogates": (b"18", b'{"id": "18", "title": "\\ud800", "text": "a b c d \\udfff"}', None),
    "one word a million times": (b"19", article("19", "word " * 1_000_000, "One word"), None),
    "twenty megabytes": (b"20", article("20", " ".join(f"w{i}" for i in range(2_600_000)), "Twenty megabytes"), None),
}


@pytest.mark.slow
def test_broken_input_never_stops_the_worker(settings: Settings) -> None:
    good = [(b"g1", article("g1", TEXT + " At last.")), (b"g2", article("g2", TEXT + " At last."))]
    assert len(BROKEN["twenty megabytes"][1] or b"") > 20_000_000
    sent = feed(settings, [good[0], *((key, value) for key, value, _ in BROKEN.values()), good[1]])
    run_until(settings, len(sent), seconds=120)
    came = assert_exactly_once(settings, sent)
    reasons = {record.key: header(record, "dedup-reason") for record in came.dead_letters}
    assert reasons == {key: reason for key, _, reason in BROKEN.values() if reason is not None}
    kinds = {key: kind for key, (kind, *_) in came.verdicts().items()}
    assert [kinds[key] for key in (b"10", b"19", b"20", b"g1", b"g2")] == [
        "tombstone", "unique", "unique", "unique", "duplicate",
    ]  # fmt: skip
    values = {one.key: one.value for one in sent}
    assert all(record.value == values[record.key] for record in came.dead_letters)


def test_a_judge_that_always_fails_ends_the_worker_and_loses_nothing(settings: Settings) -> None:
    class Broken(Decider):
        def judge(self, items: Any, latest: int | None = None) -> Any:
            raise IndexError("a bug of ours")

    sent = feed(settings, made_up(5))
    with pytest.raises(IndexError, match="a bug of ours"):
        run_until(settings, 5, decider=Broken)
    assert outcome(settings).fates == {}
    run_until(settings, 5)
    assert_exactly_once(settings, sent)


def test_a_transaction_holds_no_more_than_batch_bytes(make: Make) -> None:
    settings = make(worker={"batch_bytes": 2**16})
    sent = feed(
        settings, [(b"%d" % i, article(str(i), " ".join(f"w{i}x{n}" for n in range(1_200)))) for i in range(50)]
    )
    reports = run_until(settings, 50).reports
    assert max(sum(len(record.value) for record in report.records) for report in reports) <= 2**16
    assert {tuple(sorted(report.seconds)) for report in reports} == {tuple(sorted(set(CommitStep) - {CommitStep.POLL}))}
    assert reports[-1].lag == {0: 0}
    assert reports[-1].remembered == 50
    assert_exactly_once(settings, sent)


def test_a_clock_far_ahead_does_not_move_the_window(settings: Settings) -> None:
    sent = feed(settings, [(b"%d" % i, article(str(i), TEXT, f"Elm bridge {i}", f"{i}.example")) for i in range(3)])
    # The records are from two hours ahead, an hour more than is allowed: they count as of no time.
    reports = run_until(settings, 3, runtime=Runtime(wall=lambda: START / 1000 - 7200)).reports
    assert {report.watermark for report in reports} == {0}
    came = assert_exactly_once(settings, sent)
    assert [record.timestamp for record in [*came.output, *came.duplicates]] == [START, START + 1, START + 2]


def test_a_graceful_stop_finishes_the_transaction(make: Make) -> None:
    settings = make(worker={"batch_items": 50})
    sent = feed(settings, made_up(500))

    class Stopping(Watching):
        def step(self, step: CommitStep, task: str) -> None:
            if step is CommitStep.FLUSH:
                self.stop.set()

    stopping = Stopping()
    began = time.monotonic()
    run_worker(settings, stopping)
    assert time.monotonic() - began < 10
    assert sum(outcome(settings).fates.values()) == stopping.judged > 0
    run_until(settings, 500 - stopping.judged)
    assert_exactly_once(settings, sent)


def test_errors_that_no_retry_can_cure_end_the_worker(make: Make, topic_name: Names) -> None:
    settings = make(0)
    watching = Watching()
    with pytest.raises(TopicError, match="does not exist"):
        run_worker(settings, watching)
    assert [type(error) for error in watching.errors] == [TopicError]

    ready(settings)
    feed(settings, made_up(5))
    run_until(settings, 5)
    foreign = load_settings(
        kafka={**settings.kafka.model_dump(), "group_id": topic_name("other")}, topics=settings.topics.model_dump()
    )
    fails(foreign, "each group needs a changelog of its own", ChangelogError)
    changed = load_settings(
        kafka=settings.kafka.model_dump(), topics=settings.topics.model_dump(), fingerprint={"shingles": "letters"}
    )
    fails(changed, "at offset 0: this was written under fingerprint scheme", ChangelogError)


def test_a_session_longer_than_the_brokers_allow_ends_with_the_setting(make: Make) -> None:
    settings = make(worker={"session_timeout": "31m"})
    fails(settings, r"set \[worker\] session_timeout within the brokers' group\.min\.session\.timeout\.ms")


def test_before_the_first_batch_the_lag_is_known_and_health_is_starting(settings: Settings) -> None:
    sent = feed(settings, made_up(300))
    health, watching = Health(60.0), Watching(300)
    seen: list[tuple[Status, dict[int, int]]] = []

    class Looking(Decider):
        def judge(self, *arguments: Any, **options: Any) -> Any:
            seen.append((health.state().status, dict(watching.lag)))
            return super().judge(*arguments, **options)

    run_worker(settings, watching, observer=ObserverGroup(watching, health), decider=Looking)
    assert seen[0] == (Status.STARTING, {0: 300})
    assert health.state().status is Status.OK
    assert_exactly_once(settings, sent)


def test_headers_of_a_cloud_event_reach_the_verdicts(settings: Settings) -> None:
    attributes = {"ce_id": b"e1", "ce_source": b"https://wire.example/a"}  # a path alone would be no source
    sent = feed(settings, [(b"k", b'{"title": "T", "text": "One text."}')], **attributes)
    sent += feed(settings, [(b"l", b'{"title": "U", "text": "Another one."}')], **attributes)
    run_until(settings, 2)
    came = assert_exactly_once(settings, sent)
    assert {kind for kind, *_ in came.verdicts().values()} == {"unique", "update"}, "two versions of one id"
