"""What a running worker says of its input: once after the first items or the first minute, and each new warning."""

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.observe.incoming import Incoming
from stream_dedup.settings import load_settings
from stream_dedup.stream.observer import BatchReport

SETTINGS = load_settings(item={"preset": "plain"})
AT = 1_700_000_000


class Clock:
    def __init__(self) -> None:
        self.now = float(AT)

    def __call__(self) -> float:
        return self.now


def sound(number: int) -> dict[str, Any]:
    return {"id": f"n{number}", "title": f"Elm bridge {number}", "text": "It opened.", "source": "a.example"}


def odd(number: int) -> dict[str, Any]:
    return {"id": f"n{number}", "headline": f"Elm bridge {number}", "text": "It opened.", "source": "a.example"}


def report(clock: Clock, made: Any, count: int) -> BatchReport:
    decode = Decoder(SETTINGS.item)
    values = [json.dumps(made(i)).encode() for i in range(count)]
    time = int(clock.now * 1000)
    records = [SimpleNamespace(value=value, partition=0, offset=i, timestamp=time) for i, value in enumerate(values)]
    items = [decode(one.value, None, one.timestamp, 0, one.offset) for one in records]
    return BatchReport("global", items, [], {}, {}, 0, 0, 0, 0, 0, {}, records=records)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == level]


def test_it_is_said_once_after_the_first_thousand(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, sound, 999))
    assert lines(caplog, logging.INFO) == []
    incoming.batch(report(clock, sound, 1))
    (line,) = lines(caplog, logging.INFO)
    assert line.startswith("input: 1,000 items, 0 bad; read as: plain")
    assert "title 100 %" in line
    clock.now += 1000
    incoming.batch(report(clock, sound, 1000))
    incoming.loop_completed(["global"])
    assert len(lines(caplog, logging.INFO)) == 1
    assert lines(caplog, logging.WARNING) == []


def test_a_trickle_is_told_of_after_a_minute(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    incoming = Incoming(SETTINGS, clock=clock)
    clock.now += 500
    incoming.loop_completed([])
    incoming.batch(report(clock, sound, 3))
    clock.now += 59
    incoming.loop_completed([])
    assert lines(caplog, logging.INFO) == []
    clock.now += 2
    incoming.loop_completed([])
    assert len(lines(caplog, logging.INFO)) == 1


def test_each_warning_is_logged_when_it_is_new(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, odd, 1000))
    (warning,) = lines(caplog, logging.WARNING)
    assert "No item has a title" in warning
    assert 'title = "headline"' in warning
    clock.now += 100
    incoming.batch(report(clock, odd, 1000))
    assert len(lines(caplog, logging.WARNING)) == 1, "said once"
    # The producer is mended; and hours later it is changed again.
    for made, count in ((sound, 1000), (odd, 1000)):
        clock.now += 3700
        incoming.batch(report(clock, made, count))
    clock.now += 100
    incoming.batch(report(clock, odd, 1))
    assert len(lines(caplog, logging.WARNING)) == 2


def test_a_change_shows_although_much_came_before(clock: Clock) -> None:
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, sound, 3000))
    clock.now += 3700
    incoming.batch(report(clock, odd, 99))
    survey = incoming.latest()
    assert survey is not None
    assert (survey.since, survey.summary.items) == (AT, 3000), "the hour before, while this one is young"
    incoming.batch(report(clock, odd, 1))
    survey = incoming.latest()
    assert survey is not None
    assert (survey.since, survey.summary.items) == (AT + 3700, 100)
    assert survey.summary.filled["title"] == 0


def test_before_anything_came_there_is_nothing(clock: Clock) -> None:
    assert Incoming(SETTINGS, clock=clock).latest() is None


def test_odd_times_stand_on_the_page_and_are_left_to_the_tasks_in_the_log(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.now = AT / 1000
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, sound, 1000))
    survey = incoming.latest()
    assert survey is not None
    assert [one.kind for one in survey.summary.warnings] == ["dates-1970"]
    assert lines(caplog, logging.WARNING) == []
