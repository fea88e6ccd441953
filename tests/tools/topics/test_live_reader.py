"""A live topic is read in the order of time, from a given time on, without a trace; failures are reported."""

import gc
from collections.abc import Callable

import pytest

from stream_dedup.errors import StreamError
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.live_reader import LiveReader
from tests.broker import EmbeddedKafka
from tests.harness.feed import START, article, feed
from tests.harness.topics import Make, administrator, make_settings, ready
from tests.harness.wait import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(make: Make) -> Settings:
    return make(3)


def spread(settings: Settings, count: int) -> list[bytes]:
    """Send records a millisecond apart, by key to all three partitions; returns the keys in the order of time."""
    keys = [f"k-{i}".encode() for i in range(count)]
    records = [(key, article(key.decode(), "A text.")) for key in keys]
    feed(settings, records, partition=None)
    return keys


def read_to_end(reader: LiveReader) -> list[bytes | None]:
    received: list[bytes | None] = []
    wait_until(lambda: received.extend(record.key for record in reader.poll()) or reader.caught_up, "all is read")
    return received


def test_all_partitions_come_in_the_order_of_time(settings: Settings) -> None:
    keys = spread(settings, 3000)  # more than the buffer of a partition
    with LiveReader(settings, settings.topics.input) as reader:
        assert reader.begin(0) == 3000
        assert read_to_end(reader) == keys
        feed(settings, [(b"later", b"{}")])
        wait_until(lambda: [record.key for record in reader.poll()] == [b"later"], "it follows the topic")


def test_it_begins_at_a_given_time_and_leaves_no_trace(settings: Settings) -> None:
    keys = spread(settings, 300)
    with LiveReader(settings, settings.topics.input) as reader:
        assert reader.begin(since=START + 200) == 100
        assert read_to_end(reader) == keys[200:]
        assert reader.begin(since=START + 10_000) == 0
        assert reader.caught_up
        assert not reader.is_empty
        with administrator(settings) as admin:
            groups = str(admin.list_groups())
    assert settings.kafka.group_id not in groups
    with LiveReader(settings, settings.topics.output) as reader:
        assert reader.begin(0) == 0
        assert reader.is_empty
        assert reader.caught_up


def test_a_lone_wrong_date_does_not_hold_up_its_partition(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for partition, starts in ((0, (START, START + 10**10, START + 2)), (1, (START + 1, START + 3))):
        for i, start in enumerate(starts):
            monkeypatch.setattr("tests.harness.feed.START", start)
            feed(settings, [(f"{partition}-{i}".encode(), b"{}")], partition=partition)
    with LiveReader(settings, settings.topics.input) as reader:
        reader.begin(0)
        assert read_to_end(reader) == [b"0-0", b"1-0", b"0-1", b"0-2", b"1-1"]


@pytest.mark.slow
def test_an_outage_is_reported(topic_name: Callable[[str], str]) -> None:
    """A poll alone returns nothing, as on a quiet topic."""
    with EmbeddedKafka() as own:
        settings = ready(make_settings(own.bootstrap, topic_name))
        feed(settings, [(b"k", b"{}")])
        with LiveReader(settings, settings.topics.input) as reader:
            reader.begin(0)
            assert read_to_end(reader) == [b"k"]
            own.kill()
            with pytest.raises(StreamError, match="the brokers no longer answer"):
                wait_until(lambda: reader.poll() and False, "the outage is noticed", 90)
    gc.collect()
