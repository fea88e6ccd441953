"""A worker whose wall clock is wrong works on a real Kafka, and others can restore what it wrote."""

import time

import pytest

from stream_dedup.kafka.runtime import Runtime
from stream_dedup.settings import Settings
from tests.harness.check import assert_exactly_once, read_all
from tests.harness.feed import feed, made_up
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka
_DAY = 24 * 3600.0


@pytest.mark.parametrize("seconds", [2 * 3600.0, 400 * _DAY, -400 * _DAY])
@pytest.mark.slow
def test_a_worker_with_a_wrong_clock_writes_a_changelog_that_lasts(settings: Settings, seconds: float) -> None:
    sent = feed(settings, made_up(30))
    run_until(settings, 30, seconds=20, runtime=Runtime(wall=lambda: time.time() + seconds))
    again = [(b"again-" + key, value) for key, value in made_up(30)]
    sent += feed(settings, again)
    run_until(settings, 30)
    came = assert_exactly_once(settings, sent)
    assert came.dead_letters == []
    assert not [record for record in came.output if record.key.startswith(b"again-")], "all were restored"
    [block, *_] = read_all(settings, settings.topics.changelog)
    assert abs(block.timestamp / 1000 - time.time()) < 600, "retention counts by the broker's clock"
