"""What is odd about times is said once a kind, with its place, and a full memory is said too."""

import logging
from collections.abc import Iterator

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from stream_dedup.stream.odd_times import odd_times, tell

DAY = 86_400_000
NOW = 1_700_000_000_000


@pytest.fixture
def dedup() -> Iterator[Deduplicator]:
    made = Deduplicator(load_settings())
    yield made
    made.close()


def item(offset: int, time: int) -> Item:
    return Item(f"{offset}", f"Headline {offset}", f"Text number {offset}.", "a.example", time, 3, offset)


def test_each_kind_is_said_once(dedup: Deduplicator, caplog: pytest.LogCaptureFixture) -> None:
    times = [NOW - 20 * DAY + n * DAY // 9 for n in range(90)]
    items: list[Item | Tombstone | BadItem] = [BadItem("json", "made up"), *(item(n, t) for n, t in enumerate(times))]
    items += [item(100, -1), item(101, NOW + DAY), item(102, 7), *(item(200 + n, NOW - 300 * DAY) for n in range(9))]
    said: set[str] = set()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            batch = dedup.judge(items, NOW)
            tell("global", items, batch, odd_times(items, batch), dedup, said)
    assert batch.odd_times() == {"missing": 1, "future": 1, "alone": 3, "late": 7}
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 4
    for text, place, reason in zip(told, (100, 101, 102, 202), ("missing", "future", "alone", "late"), strict=True):
        assert f"partition 3, offset {place} " in text
        assert f'reason="{reason}"' in text
        assert "?." not in text
        assert "? Said once" in text or ". Said once" in text


def test_a_feed_in_seconds_is_said_and_counted(dedup: Deduplicator, caplog: pytest.LogCaptureFixture) -> None:
    items: list[Item | Tombstone | BadItem] = [BadItem("json", "made up")]
    items += [item(n, NOW // 1000 + n) for n in range(20)]
    said: set[str] = set()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            batch = dedup.judge(items, NOW)
            tell("global", items, batch, odd_times(items, batch), dedup, said)
    assert odd_times(items, batch) == {"missing": 0, "future": 0, "alone": 0, "late": 0, "seconds": 20}
    [told] = [record.getMessage() for record in caplog.records]
    assert "seconds for milliseconds" in told
    assert "partition 3, offset 0 " in told
    assert 'reason="seconds"' in told


def test_a_time_that_is_odd_already_is_counted_once(dedup: Deduplicator) -> None:
    items: list[Item | Tombstone | BadItem] = [item(n, NOW - n) for n in range(20)]
    items += [item(20, NOW // 1000)]
    assert odd_times(items, dedup.judge(items, NOW)) == {"missing": 0, "future": 0, "alone": 1, "late": 0, "seconds": 0}


def test_a_full_memory_is_said_once(
    dedup: Deduplicator, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedup, "_most", 3)
    said: set[str] = set()
    with caplog.at_level(logging.WARNING):
        for start in range(0, 8, 2):
            items = [item(n, NOW) for n in (start, start + 1)]
            batch = dedup.judge(items)
            dedup.apply(batch)
            tell("global", items, batch, odd_times(items, batch), dedup, said)
    [told] = caplog.records
    assert "max_originals" in told.getMessage()
