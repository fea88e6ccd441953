"""While one batch is judged, the next is fingerprinted, with the same verdicts; odd times are logged once."""

import logging
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from stream_dedup.dedup.batch import Prepared
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import BadItem
from stream_dedup.kafka.record_batch import Record
from stream_dedup.kafka.topics import Topic
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from stream_dedup.worker.failed_records import FailedRecords
from stream_dedup.worker.judge import Judge
from stream_dedup.worker.outgoing import OutgoingRecords
from tests.harness.feed import START, made_up
from tests.worker.support import context

POISON = "a text on which the code fails"


class _Watched(Decider):
    """Records the thread and the number of items of each fingerprinting; fails on POISON."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.made: list[tuple[str, int]] = []

    def prepare(self, items: Sequence[Any]) -> Prepared:
        self.made.append((threading.current_thread().name.rpartition("-")[2], len(items)))
        if any(isinstance(item, Item) and POISON in item.text for item in items):
            raise RuntimeError("poison")
        return super().prepare(items)


class _Bench:
    def __init__(self) -> None:
        settings = load_settings()
        self.dedup = _Watched(settings)
        topics = settings.topics
        names = [topics.input, topics.output, topics.duplicates, topics.dead_letters]
        outgoing = OutgoingRecords(settings, dict.fromkeys(names, Topic(1, {})), self.dedup.scheme_id)
        store: Any = SimpleNamespace(name="global", context=context(settings), dedup=self.dedup)
        self.judge = Judge(store, outgoing, FailedRecords())

    def kinds(self, records: Sequence[Record], next_records: Sequence[Record] = ()) -> list[Kind]:
        items, batch = self.judge(records, next_records)
        assert len(items) == len(records)
        self.dedup.apply(batch)
        return [verdict.kind for verdict in batch.verdicts]

    def close(self) -> None:
        self.judge.close()
        self.dedup.close()


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def bench() -> Iterator[_Bench]:
    made = _Bench()
    yield made
    made.close()


def records(count: int) -> list[Record]:
    return [Record("raw", 0, i, START + i, key, value, []) for i, (key, value) in enumerate(made_up(count))]


def test_a_close_waits_for_the_batch_that_is_made_ahead(bench: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    some, made, go_on = records(20), threading.Event(), threading.Event()
    prepare = bench.dedup.prepare

    def slow(items: Sequence[Any]) -> Prepared:
        if threading.current_thread() is not threading.main_thread():
            go_on.wait(10)
            made.set()
        return prepare(items)

    monkeypatch.setattr(bench.dedup, "prepare", slow)
    bench.kinds(some[:10], some[10:])
    bench.judge.close()
    assert not made.is_set()
    threading.Timer(0.1, go_on.set).start()
    bench.judge.close(wait=True)
    assert made.is_set()


def test_the_next_batch_is_fingerprinted_ahead_and_once(bench: _Bench) -> None:
    some = records(90)
    first, second, third = some[:30], some[30:60], some[60:]
    kinds = bench.kinds(first, second) + bench.kinds(second, third) + bench.kinds(third)
    this_thread = threading.current_thread().name
    assert bench.dedup.made == [(this_thread, 30), ("preparer", 30), ("preparer", 30)]
    alone = _Bench()
    assert alone.kinds(some) == kinds
    assert {Kind.UNIQUE, Kind.DUPLICATE} <= set(kinds)
    alone.close()


def test_fingerprints_of_a_batch_that_does_not_come_next_are_dropped(bench: _Bench) -> None:
    some = records(30)
    bench.kinds(some[:10], some[10:20])
    bench.kinds(some[20:])
    items, _ = bench.judge(some[10:20])
    assert [item.id for item in items] == [f"item-{i}" for i in range(10, 20)]
    bench.judge._thread.call("waiting for the fingerprints", 60, lambda: None)
    this_thread = threading.current_thread().name
    assert sorted(bench.dedup.made) == sorted(
        [(this_thread, 10), ("preparer", 10), (this_thread, 10), (this_thread, 10)]
    )


def test_an_item_on_which_the_code_fails_ahead_loses_one_item(bench: _Bench, caplog: pytest.LogCaptureFixture) -> None:
    some = records(20)
    some[15] = Record("raw", 0, 15, START, b"k", b'{"id": "k", "title": "T", "text": "%s"}' % POISON.encode(), [])
    bench.kinds(some[:10], some[10:])
    items, batch = bench.judge(some[10:])
    assert [i for i, verdict in enumerate(batch.verdicts, 10) if verdict.kind is Kind.BAD] == [15]
    assert str(items[5]) == "internal: judging it failed: RuntimeError('poison')"
    assert "trying them one by one" in caplog.text


def test_missing_memory_is_not_the_fault_of_an_item(bench: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = bench.dedup.judge

    def short(items: Any, *latest: int) -> Any:
        if len(items) == 1 and items[0].id == "item-7":
            raise MemoryError
        if len(items) > 1:
            raise RuntimeError("poison")
        return judge(items, *latest)

    monkeypatch.setattr(bench.dedup, "judge", short)
    with pytest.raises(MemoryError):
        bench.judge(records(20))


def test_shapes_are_counted_once_also_of_records_that_are_decoded_ahead(bench: _Bench) -> None:
    some = records(20)
    some[3] = Record("raw", 0, 3, START, b"k", b'{"guid": "1", "title": "T", "description": "x", "link": "/1"}', [])
    some[4] = Record("raw", 0, 4, START, b"k", b"{broken", [])
    first, second = some[:10], some[10:]
    bench.kinds(first, second)
    bench.kinds(second)
    assert bench.judge.take_shapes() == {"plain": 18, "rss": 1}
    assert bench.judge.take_shapes() == {}


DAY = 86_400_000
SECONDS_OF_NOW = START // 1000


def item(offset: int, time: int) -> Item:
    return Item(f"{offset}", f"Headline {offset}", f"Text number {offset}.", "a.example", time, 3, offset)


@pytest.mark.parametrize(
    ("items", "counts", "places"),
    [
        (
            [
                *(item(n, START - 20 * DAY + n * DAY // 9) for n in range(90)),
                item(100, -1),
                item(101, START + DAY),
                item(102, 7),
                *(item(200 + n, START - 300 * DAY) for n in range(9)),
            ],
            {"missing": 1, "future": 1, "alone": 3, "late": 7},
            {"missing": 100, "future": 101, "alone": 102, "late": 202},
        ),
        ([item(n, SECONDS_OF_NOW + n) for n in range(20)], {"seconds": 20}, {"seconds": 0}),
        # A time that is odd already is counted once.
        ([*(item(n, START - n) for n in range(20)), item(20, SECONDS_OF_NOW)], {"alone": 1}, {"alone": 20}),
    ],
)
def test_the_first_odd_time_of_each_kind_is_logged_with_its_place(
    bench: _Bench, caplog: pytest.LogCaptureFixture, items: list[Any], counts: dict[str, int], places: dict[str, int]
) -> None:
    items = [BadItem("json", "made up"), *items]
    headers = [("traceparent", TRACE.encode())]
    traced = [SimpleNamespace(partition=3, offset=one.offset, headers=headers) for one in items[1:]]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = bench.judge.count_odd_times(items, bench.dedup.judge(items, START), traced)
    assert {kind: count for kind, count in found.items() if count} == counts
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len(places)
    assert {record.__dict__["traceparent"] for record in caplog.records} == {TRACE}
    for text, (reason, offset) in zip(messages, places.items(), strict=True):
        assert f"partition 3, offset {offset} " in text
        assert f'reason="{reason}"' in text
        assert "? Logged once" in text or ". Logged once" in text


def test_a_full_index_is_logged_once(
    bench: _Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.dedup, "max_originals", 3)
    with caplog.at_level(logging.WARNING):
        for start in range(0, 80, 20):
            bench.kinds(records(80)[start : start + 20])
            bench.judge.warn_if_full()
    [record] = caplog.records
    assert "max_originals" in record.getMessage()
