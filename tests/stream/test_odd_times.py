"""The first odd time of each kind is logged with its place; a full index is logged once."""

import logging
from collections.abc import Iterator

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from stream_dedup.worker.odd_times import log_odd_times, odd_times

DAY = 86_400_000
NOW = 1_700_000_000_000


@pytest.fixture
def dedup() -> Iterator[Deduplicator]:
    made = Deduplicator(load_settings())
    yield made
    made.close()


def item(offset: int, time: int) -> Item:
    return Item(f"{offset}", f"Headline {offset}", f"Text number {offset}.", "a.example", time, 3, offset)


def test_each_kind_is_logged_once(dedup: Deduplicator, caplog: pytest.LogCaptureFixture) -> None:
    times = [NOW - 20 * DAY + n * DAY // 9 for n in range(90)]
    items: list[Item | Tombstone | BadItem] = [BadItem("json", "made up"), *(item(n, t) for n, t in enumerate(times))]
    items += [item(100, -1), item(101, NOW + DAY), item(102, 7), *(item(200 + n, NOW - 300 * DAY) for n in range(9))]
    logged: set[str] = set()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            batch = dedup.judge(items, NOW)
            log_odd_times("global", items, batch, odd_times(items, batch), dedup, logged)
    assert batch.odd_times() == {"missing": 1, "future": 1, "alone": 3, "late": 7}
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 4
    for text, place, reason in zip(messages, (100, 101, 102, 202), ("missing", "future", "alone", "late"), strict=True):
        assert f"partition 3, offset {place} " in text
        assert f'reason="{reason}"' in text
        assert "?." not in text
        assert "? Logged once" in text or ". Logged once" in text


def test_a_feed_in_seconds_is_logged_and_counted(dedup: Deduplicator, caplog: pytest.LogCaptureFixture) -> None:
    items: list[Item | Tombstone | BadItem] = [BadItem("json", "made up")]
    items += [item(n, NOW // 1000 + n) for n in range(20)]
    logged: set[str] = set()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            batch = dedup.judge(items, NOW)
            log_odd_times("global", items, batch, odd_times(items, batch), dedup, logged)
    assert odd_times(items, batch) == {"missing": 0, "future": 0, "alone": 0, "late": 0, "seconds": 20}
    [message] = [record.getMessage() for record in caplog.records]
    assert "seconds for milliseconds" in message
    assert "partition 3, offset 0 " in message
    assert 'reason="seconds"' in message


def test_a_time_that_is_odd_already_is_counted_once(dedup: Deduplicator) -> None:
    items: list[Item | Tombstone | BadItem] = [item(n, NOW - n) for n in range(20)]
    items += [item(20, NOW // 1000)]
    assert odd_times(items, dedup.judge(items, NOW)) == {"missing": 0, "future": 0, "alone": 1, "late": 0, "seconds": 0}


def test_a_full_index_is_logged_once(
    dedup: Deduplicator, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedup, "_max_originals", 3)
    logged: set[str] = set()
    with caplog.at_level(logging.WARNING):
        for start in range(0, 8, 2):
            items = [item(n, NOW) for n in (start, start + 1)]
            batch = dedup.judge(items)
            dedup.apply(batch)
            log_odd_times("global", items, batch, odd_times(items, batch), dedup, logged)
    [record] = caplog.records
    assert "max_originals" in record.getMessage()
