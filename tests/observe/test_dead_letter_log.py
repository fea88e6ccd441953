"""Dead letters leave lines in the log: the first of each reason with its place, then their number each minute."""

import logging
from collections.abc import Sequence

import pytest

from stream_dedup.errors import BadItem
from stream_dedup.observe.dead_letter_log import DeadLetterLog
from stream_dedup.settings import load_settings
from tests.observe.watched import Watched


class Feed:
    def __init__(self) -> None:
        self.now = 0.0
        self.log = DeadLetterLog(clock=lambda: self.now)
        self._watched = Watched(load_settings(observe={"port": 0}))
        self._watched.watch._observers = (self.log,)

    def send(self, *bad: BadItem, seconds: float = 1.0) -> None:
        self._watched.judge(list(bad))
        self.now += seconds

    def close(self) -> None:
        self._watched.close()


@pytest.fixture
def feed() -> Feed:
    return Feed()


def lines(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    assert {record.levelno for record in caplog.records} <= {logging.WARNING}
    return caplog.messages


def test_the_first_of_each_reason_is_said_and_the_others_are_summed_up(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        feed.send(*[BadItem("type", "title is a list")] * 2, BadItem("json", "byte 7 is wrong"))
    assert lines(caplog)[:2] == [
        "a record is a dead letter (type): title is a list; at news.raw/0/0. More of them are summed up each minute",
        "a record is a dead letter (json): byte 7 is wrong; at news.raw/0/0. More of them are summed up each minute",
    ]
    assert lines(caplog)[2:] == ["181 more dead letters in 60 s: type 121, json 60; the last at news.raw/0/0"]
    feed.log.loop_completed(["global"])
    feed.now += 60
    feed.log.loop_completed(["global"])  # nothing comes any more
    assert lines(caplog)[3:] == ["117 more dead letters in 99 s: type 78, json 39; the last at news.raw/0/0"]
    feed.now += 600
    feed.log.loop_completed(["global"])
    assert len(caplog.messages) == 4
    feed.close()


def test_the_last_ones_are_said_at_the_end(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    feed.send(*[BadItem("empty", "neither title nor text")] * 300)
    feed.log.sum_up()
    assert [line.partition(":")[0] for line in lines(caplog)] == [
        "a record is a dead letter (empty)",
        "299 more dead letters in 1 s",
    ]
    feed.close()
