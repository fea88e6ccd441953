"""A worker whose wall clock is wrong works on a real Kafka, and others can restore what it wrote."""

import time

import pytest
from kafka import KafkaConsumer, TopicPartition

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.settings import Settings
from tests.worker.support import assert_exactly_once, feed, made_up, run_until

pytestmark = pytest.mark.kafka
_DAY = 24 * 3600.0


@pytest.mark.parametrize("seconds", [2 * 3600.0, 400 * _DAY, -400 * _DAY])
@pytest.mark.slow
def test_a_worker_with_a_wrong_clock_writes_a_changelog_that_lasts(
    settings: Settings, kafka: EmbeddedKafka, seconds: float
) -> None:
    sent = feed(settings, made_up(30))
    run_until(settings, 30, seconds=20, clock=lambda: time.time() + seconds)
    again = [(b"again-" + key, value) for key, value in made_up(30)]
    sent += feed(settings, again)
    run_until(settings, 30)
    came = assert_exactly_once(settings, sent)
    assert came.dead_letters == []
    assert not [one for one in came.output if one.key.startswith(b"again-")], "all were restored"
    place = TopicPartition(settings.topics.changelog, 0)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    try:
        consumer.assign([place])
        [block, *_] = next(iter(consumer.poll(10_000).values()))
    finally:
        consumer.close()
    assert abs(block.timestamp / 1000 - time.time()) < 600, "retention counts by the broker's clock"
