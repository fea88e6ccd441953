"""A worker logs a summary of its input once, after 1,000 items or a minute, and each new warning."""

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.observe.incoming import Incoming
from stream_dedup.settings import load_settings
from stream_dedup.worker.observer import BatchReport

SETTINGS = load_settings(item={"preset": "plain"})
AT = 1_700_000_000


class Clock:
    def __init__(self) -> None:
        self.now = float(AT)

    def __call__(self) -> float:
        return self.now


def complete_record(number: int) -> dict[str, Any]:
    return {"id": f"n{number}", "title": f"Elm bridge {number}", "text": "It opened.", "source": "a.example"}


def record_without_title(number: int) -> dict[str, Any]:
    return {"id": f"n{number}", "headline": f"Elm bridge {number}", "text": "It opened.", "source": "a.example"}


def report(clock: Clock, make_record: Any, count: int) -> BatchReport:
    decode = Decoder(SETTINGS.item)
    values = [json.dumps(make_record(i)).encode() for i in range(count)]
    time = int(clock.now * 1000)
    records = [SimpleNamespace(value=value, partition=0, offset=i, timestamp=time) for i, value in enumerate(values)]
    items = [decode(record.value, None, record.timestamp, 0, record.offset) for record in records]
    return BatchReport("global", items, [], {}, {}, 0, 0, 0, 0, 0, {}, records=records)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_the_summary_is_logged_once_after_a_thousand_items(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, complete_record, 999))
    assert messages(caplog, logging.INFO) == []
    incoming.batch(report(clock, complete_record, 1))
    (line,) = messages(caplog, logging.INFO)
    assert line.startswith("input: 1,000 items, 0 bad; read as: plain")
    assert "title 100 %" in line
    clock.now += 1000
    incoming.batch(report(clock, complete_record, 1000))
    incoming.loop_completed(["global"])
    assert len(messages(caplog, logging.INFO)) == 1
    assert messages(caplog, logging.WARNING) == []


def test_a_slow_input_is_summarized_after_a_minute(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    incoming = Incoming(SETTINGS, clock=clock)
    clock.now += 500
    incoming.loop_completed([])
    incoming.batch(report(clock, complete_record, 3))
    clock.now += 59
    incoming.loop_completed([])
    assert messages(caplog, logging.INFO) == []
    clock.now += 2
    incoming.loop_completed([])
    assert len(messages(caplog, logging.INFO)) == 1


def test_each_warning_is_logged_when_it_is_new(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, record_without_title, 1000))
    (warning,) = messages(caplog, logging.WARNING)
    assert "No item has a title" in warning
    assert 'title = "headline"' in warning
    clock.now += 100
    incoming.batch(report(clock, record_without_title, 1000))
    assert len(messages(caplog, logging.WARNING)) == 1, "logged once"
    # The producer is corrected, and breaks again an hour later.
    for make_record, count in ((complete_record, 1000), (record_without_title, 1000)):
        clock.now += 3700
        incoming.batch(report(clock, make_record, count))
    clock.now += 100
    incoming.batch(report(clock, record_without_title, 1))
    assert len(messages(caplog, logging.WARNING)) == 2


def test_a_change_shows_after_many_earlier_items(clock: Clock) -> None:
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, complete_record, 3000))
    clock.now += 3700
    incoming.batch(report(clock, record_without_title, 99))
    survey = incoming.latest()
    assert survey is not None
    assert (survey.since, survey.summary.items) == (AT, 3000), "the hour before, while this one is young"
    incoming.batch(report(clock, record_without_title, 1))
    survey = incoming.latest()
    assert survey is not None
    assert (survey.since, survey.summary.items) == (AT + 3700, 100)
    assert survey.summary.filled["title"] == 0


def test_there_is_no_summary_before_the_first_item(clock: Clock) -> None:
    assert Incoming(SETTINGS, clock=clock).latest() is None


def test_odd_times_are_shown_on_the_page_but_logged_by_the_tasks_only(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.now = AT / 1000
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, complete_record, 1000))
    survey = incoming.latest()
    assert survey is not None
    assert [warning.kind for warning in survey.summary.warnings] == ["dates-1970"]
    assert messages(caplog, logging.WARNING) == []
