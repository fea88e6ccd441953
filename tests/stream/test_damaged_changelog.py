"""A changelog that another program has written into, on a real Kafka: the worker ends with the place and the cure."""

import threading
from collections.abc import Callable

import pytest

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import ChangelogError
from stream_dedup.stream.worker import Worker
from tests.soak.stage import Changelog
from tests.stream.support import feed, made_up, make_settings, ready, run_until

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("is_ours", [False, True], ids=["foreign record", "block with a wrong byte"])
def test_a_restore_refuses_what_another_program_wrote(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], is_ours: bool
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name))
    feed(settings, made_up(30))
    run_until(settings, 30)
    assert Changelog(settings, 1).damage(0, is_ours=is_ours)
    stop = threading.Event()
    timer = threading.Timer(30, stop.set)
    timer.start()
    try:
        with pytest.raises(ChangelogError, match=rf"{settings.topics.changelog}-0 .*\[topics\] changelog"):
            Worker(settings).run(stop)
    finally:
        timer.cancel()
