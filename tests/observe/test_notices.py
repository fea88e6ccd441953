"""What the log says of dead letters, and of memory that runs short."""

import logging
import re

import pytest

from stream_dedup.errors import BadItem
from stream_dedup.observe.watch import NEAR_LIMIT, DeadLetterLog, MemoryWatch, resident_memory
from stream_dedup.settings import load_settings
from tests.lab.operate.prometheus import RULES
from tests.observe.watched import Clock, bad
from tests.observe.watched import report as full_report

SETTINGS = load_settings(item={"preset": "plain"}, worker={"memory": 2**30})


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stream_dedup.observe.watch")


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


# -- dead letters ----------------------------------------------------------------------------------------


def test_the_first_dead_letter_of_each_reason_is_said(caplog: pytest.LogCaptureFixture) -> None:
    dead_letters = DeadLetterLog()
    reasons = ["type: title is a list", "type: title is a list", "json: byte 7 is wrong"]
    verdicts = list(map(bad, reasons))
    for _ in range(100):
        dead_letters.batch(full_report([BadItem("x", "y")] * 3, verdicts))
    end = "stream_dedup_bad_items_total counts more of them"
    assert caplog.messages == [
        f"a record is a dead letter (type): title is a list; at news.raw/0/0. {end}",
        f"a record is a dead letter (json): byte 7 is wrong; at news.raw/0/0. {end}",
    ]


# -- memory ----------------------------------------------------------------------------------------------


def test_a_dead_letter_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    report, trace = full_report([BadItem("x", "y")], [bad("json: no")]), "00-" + "a" * 32 + "-00f067aa0ba902b7-01"
    report.records[0].headers = [("traceparent", trace.encode())]
    DeadLetterLog().batch(report)
    [line] = caplog.records
    assert line.__dict__["traceparent"] == trace


def test_the_approach_to_the_limit_is_logged_once_with_the_cure(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    shares = iter((0.5, 0.84, 0.86, 0.95, 0.84, 0.99, 0.7, 0.9, 0.0))
    watch = MemoryWatch(SETTINGS, resident=lambda: int(next(shares) * 2**30), clock=clock)
    for _ in range(6):
        clock.passed += 1
        watch.loop_completed(["global"])
        watch.loop_completed(["global"])  # it looks once a second
    [line] = caplog.messages
    assert line.startswith("memory: 881 of 1024 MiB are taken (86 %). At the limit the kernel kills the process")
    assert all(words in line for words in ("more memory", "[window] length", "plan"))
    for _ in range(3):
        clock.passed += 1
        watch.restore_progress("global", 30, 100)
    assert len(caplog.messages) == 2, "after it was well below, it is news again"
    assert "30% of the changelog is restored" in caplog.messages[1]


def test_the_share_is_that_of_the_alert_and_the_kernel_says_what_is_taken() -> None:
    expressions = re.findall(r"expr: instance:stream_dedup_memory_taken:ratio > ([\d.]+)", RULES.read_text("utf-8"))
    assert expressions == [str(NEAR_LIMIT)]
    assert resident_memory() > 2**24
