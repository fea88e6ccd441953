"""One line in the log before the kernel kills the process."""

import logging
import re

import pytest

from stream_dedup.observe.memory_watch import NEAR_LIMIT, MemoryWatch
from stream_dedup.settings import Settings, load_settings
from tests.operate.prometheus import RULES

LIMIT = 2**30


class Clockwork:
    def __init__(self, settings: Settings) -> None:
        self.taken: float | None = 0.5
        self.now = 0.0
        self.looks = 0
        self.watch = MemoryWatch(settings, resident=self.resident, clock=lambda: self.now)

    def resident(self) -> int | None:
        self.looks += 1
        return None if self.taken is None else int(self.taken * LIMIT)

    def at(self, taken: float | None) -> None:
        self.now += 1
        self.taken = taken
        self.watch.loop_completed(["global"])


@pytest.fixture
def clockwork() -> Clockwork:
    return Clockwork(load_settings(worker={"memory": LIMIT}))


def test_the_approach_to_the_limit_is_logged_once_with_the_cure(
    clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    for share in (0.5, 0.84, 0.86, 0.95, 0.84, 0.99):
        clockwork.at(share)
    [line] = caplog.messages
    assert line.startswith("memory: 881 of 1024 MiB are taken (86 %). At the limit the kernel kills the process")
    assert all(words in line for words in ("more memory", "[window] length", "plan"))
    assert caplog.records[0].levelno == logging.WARNING
    for share in (0.7, 0.9):
        clockwork.at(share)
    assert len(caplog.messages) == 2, "after it was well below, it is news again"


def test_a_restore_says_how_far_it_got(clockwork: Clockwork, caplog: pytest.LogCaptureFixture) -> None:
    clockwork.now, clockwork.taken = 5.0, 0.9
    clockwork.watch.restore_progress("global", 30, 100)
    assert "30% of the changelog is restored" in caplog.text


def test_it_looks_once_a_second_and_an_unknown_limit_or_size_is_no_error(
    clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        clockwork.watch.loop_completed(["global"])
    assert clockwork.looks == 1
    clockwork.at(None)
    assert not caplog.messages


def test_the_share_is_that_of_the_alert() -> None:
    expressions = re.findall(r"expr: instance:stream_dedup_memory_taken:ratio > ([\d.]+)", RULES.read_text("utf-8"))
    assert expressions == [str(NEAR_LIMIT)]
