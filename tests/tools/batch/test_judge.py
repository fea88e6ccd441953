"""A line's time is its own or that of the stream, never the clock's; and a batch's size decides nothing."""

from collections.abc import Sequence

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import load_settings
from tests.tools.batch.feed import HOUR, START, feed, judge_lines, story

NOW = START / 1000 + 90 * 86400
DAY = 24


def judge(lines: Sequence[bytes], batch_items: int = 1000, now: float = NOW) -> list[Verdict]:
    return list(judge_lines(lines, load_settings(worker={"batch_items": batch_items}), clock=lambda: now))


def kinds(verdicts: Sequence[Verdict]) -> list[str]:
    return [str(verdict.kind) for verdict in verdicts]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_size_of_a_batch_decides_nothing(size: int) -> None:
    lines = feed(400)
    verdicts = judge(lines, size)
    assert verdicts == judge(lines)
    assert set(kinds(verdicts)) == {"unique", "duplicate", "update", "bad"}


def test_the_decision_is_that_of_records_with_these_timestamps() -> None:
    """What the worker on Kafka does with the same items: decode with the record's timestamp, judge, apply."""
    lines = [story(i % 7, i * DAY, f"site{i}") for i in range(40)]
    settings = load_settings()
    decode, dedup = Decoder(settings.item), Decider(settings)
    verdicts = []
    for i, value in enumerate(lines):
        batch = dedup.judge([decode(value, None, START + i * DAY * HOUR, 0, i + 1)])
        dedup.apply(batch)
        verdicts += batch.verdicts
    dedup.close()
    assert judge(lines) == verdicts
    assert set(kinds(verdicts)) == {"unique", "duplicate"}


def test_an_undated_line_counts_as_of_just_before_it() -> None:
    days = [story(100 + n, n / 2 * DAY) for n in range(11)]  # to the fifth
    later = [story(200 + n, (6 + n / 2) * DAY) for n in range(20)]
    copies = story(3, 11 * DAY, "a"), story(3, 15 * DAY, "b")
    verdicts = judge([*days, story(3, None), *later[:10], copies[0], *later[10:], copies[1]])
    undated, a, b = verdicts[11], verdicts[22], verdicts[-1]
    assert kinds([undated, a, b]) == ["unique", "duplicate", "unique"]
    assert a.original is not None
    assert a.original.time == START + 3 * DAY * HOUR, "the median of the nine before it"


def test_an_undated_line_at_the_head_counts_as_of_the_first_dates() -> None:
    days = [story(100 + n, n / 2 * DAY) for n in range(26)]
    verdicts = judge([story(3, None), *days[:10], story(3, 5 * DAY, "a"), *days[10:], story(3, 13 * DAY, "b")])
    assert kinds([verdicts[0], verdicts[11], verdicts[-1]]) == ["unique", "duplicate", "unique"]


def test_a_line_from_the_future_does_not_push_the_window_on() -> None:
    lines = [story(1, 0), story(2, 1000 * DAY), story(1, 1, "other"), story(2, 2, "another")]
    assert kinds(judge(lines)) == ["unique", "unique", "duplicate", "duplicate"]


def test_the_clock_does_not_enter_a_verdict() -> None:
    lines = [*feed(100), story(999, 5000 * DAY), story(999, 3, "copy")]
    assert judge(lines, now=NOW) == judge(lines, now=NOW + 1000 * 86400)


def test_a_line_a_little_ahead_of_the_clock_keeps_its_date() -> None:
    verdicts = judge([story(1, 0.5), story(1, 0.6, "copy")], now=START / 1000)
    assert verdicts[1].original is not None
    assert verdicts[1].original.time == START + HOUR // 2
