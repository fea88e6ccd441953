"""What the log says of the input."""

import json
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.settings import load_settings
from stream_dedup.tools.page.show import Incoming
from stream_dedup.worker.observer import BatchReport
from tests.observe.watched import START, Clock
from tests.observe.watched import report as full_report

SETTINGS = load_settings(item={"preset": "plain"}, worker={"memory": 2**30})


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stream_dedup.tools.page.show")


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def complete_record(number: int) -> dict[str, Any]:
    return {
        "id": f"n{number}", "title": f"Elm bridge {number}", "text": "It opened.", "source": "a.example",
        "published": "2023-11-14T22:13:20Z",
    }  # fmt: skip


def record_without_title(number: int) -> dict[str, Any]:
    record = complete_record(number)
    return record | {"headline": record.pop("title")}


def report(clock: Clock, make_record: Any, count: int) -> BatchReport:
    decode = Decoder(SETTINGS.item)
    values = [json.dumps(make_record(i)).encode() for i in range(count)]
    time = int(clock() * 1000)
    records = [
        SimpleNamespace(value=value, partition=0, offset=i, timestamp=time, headers=())
        for i, value in enumerate(values)
    ]
    items = [decode(record.value, None, record.timestamp, 0, record.offset) for record in records]
    return replace(full_report(items, []), records=records)


def test_the_summary_is_logged_once_after_a_thousand_items(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    incoming = Incoming(SETTINGS, clock=clock)
    assert incoming.latest() is None
    incoming.batch(report(clock, complete_record, 999))
    assert not caplog.records
    incoming.batch(report(clock, complete_record, 1))
    clock.passed += 1000
    incoming.batch(report(clock, complete_record, 1000))
    incoming.loop_completed(["global"])
    (line,) = caplog.messages
    assert line.startswith("input: 1,000 items, 0 bad; read as: plain")
    assert "title 100 %" in line


def test_a_slow_input_is_summarized_after_a_minute(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    incoming = Incoming(SETTINGS, clock=clock)
    clock.passed += 500
    incoming.loop_completed([])
    incoming.batch(report(clock, complete_record, 3))
    for seconds, lines in ((59, 0), (2, 1), (100, 1)):
        clock.passed += seconds
        incoming.loop_completed([])
        assert len(messages(caplog, logging.INFO)) == lines


def test_each_warning_is_logged_when_it_is_new(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, record_without_title, 1000))
    (warning,) = messages(caplog, logging.WARNING)
    assert "No item has a title" in warning
    assert 'title = "headline"' in warning
    clock.passed += 100
    incoming.batch(report(clock, record_without_title, 1000))
    assert len(messages(caplog, logging.WARNING)) == 1, "logged once"
    # The producer is corrected, and breaks again an hour later.
    for make_record, count in ((complete_record, 1000), (record_without_title, 1000)):
        clock.passed += 3700
        incoming.batch(report(clock, make_record, count))
    clock.passed += 100
    incoming.batch(report(clock, record_without_title, 1))
    assert len(messages(caplog, logging.WARNING)) == 2


def test_a_change_shows_after_many_earlier_items(clock: Clock) -> None:
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, complete_record, 3000))
    clock.passed += 3700
    # The hour before is shown while the new one has few items.
    for added, since, items, titles in ((99, START, 3000, 30), (1, START + 3700, 100, 0)):
        incoming.batch(report(clock, record_without_title, added))
        shown = incoming.latest()
        assert shown is not None
        assert (shown[0], shown[1].items, shown[1].filled["title"] > 0) == (since, items, titles > 0)


def test_odd_times_are_shown_but_logged_by_the_tasks_only(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    clock.passed = START / 1000 - START
    incoming = Incoming(SETTINGS, clock=clock)
    incoming.batch(report(clock, lambda i: complete_record(i) | {"published": "1970-01-20T16:13:20Z"}, 1000))
    shown = incoming.latest()
    assert shown is not None
    assert [warning.kind for warning in shown[1].warnings] == ["dates-1970"]
    assert messages(caplog, logging.WARNING) == []
