"""A live topic read without a trace: in the order of time, from a moment on; what cannot be read."""

import gc
import time
from collections.abc import Callable

import pytest
from kafka.admin import KafkaAdminClient

from stream_dedup.demo.embedded import EmbeddedKafka, free_ports
from stream_dedup.errors import StreamError, TopicError
from stream_dedup.settings import Settings, load_settings
from stream_dedup.stream.live_reader import LiveReader
from tests.stream.support import START, article, feed, make_settings, ready

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(kafka: EmbeddedKafka, topic_name: Callable[[str], str]) -> Settings:
    return ready(make_settings(kafka.bootstrap, topic_name), partitions=3)


def spread(settings: Settings, count: int) -> list[bytes]:
    """Records a millisecond apart, one partition after the other and unevenly; their keys in the order of time."""
    keys = [f"k-{i}".encode() for i in range(count)]
    records = [(key, article(key.decode(), "A text.")) for key in keys]
    # By the key's hash they lie in all three.
    feed(settings, records, partition=None)
    return keys


def read(reading: LiveReader) -> list[bytes | None]:
    got: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while not reading.caught_up:
        assert time.monotonic() < deadline
        got += [record.key for record in reading.poll()]
    return got


def test_all_partitions_come_in_the_order_of_time(settings: Settings) -> None:
    keys = spread(settings, 3000)  # more than may wait of a partition
    with LiveReader(settings, settings.topics.input) as reading:
        assert reading.begin(0) == 3000
        assert read(reading) == keys
        feed(settings, [(b"later", b"{}")])
        got: list[bytes | None] = []
        deadline = time.monotonic() + 60
        while not got and time.monotonic() < deadline:
            got = [record.key for record in reading.poll()]
        assert got == [b"later"], "it follows the topic"


def test_from_a_moment_on(settings: Settings) -> None:
    keys = spread(settings, 300)
    with LiveReader(settings, settings.topics.input) as reading:
        assert reading.begin(since=START + 200) == 100
        assert read(reading) == keys[200:]
        assert reading.begin(since=START + 10_000) == 0
        assert reading.caught_up


def test_a_lone_wrong_date_does_not_hold_up_its_partition(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.stream import support

    for partition, starts in ((0, (START, START + 10**10, START + 2)), (1, (START + 1, START + 3))):
        for i, start in enumerate(starts):
            monkeypatch.setattr(support, "START", start)
            feed(settings, [(f"{partition}-{i}".encode(), b"{}")], partition=partition)
    with LiveReader(settings, settings.topics.input) as reading:
        reading.begin(0)
        assert read(reading) == [b"0-0", b"1-0", b"0-1", b"0-2", b"1-1"]


def test_an_empty_topic(settings: Settings) -> None:
    with LiveReader(settings, settings.topics.input) as reading:
        assert reading.is_empty
        assert reading.begin(0) == 0
        assert reading.caught_up


def test_no_group_appears(settings: Settings) -> None:
    spread(settings, 10)
    with LiveReader(settings, settings.topics.input) as reading:
        reading.begin(0)
        read(reading)
        admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers)
        try:
            groups = str(admin.list_groups())
        finally:
            admin.close()
    assert settings.kafka.group_id not in groups


def test_a_topic_that_is_not_there(settings: Settings) -> None:
    with pytest.raises(TopicError, match=r"there is no topic never-made at 127.0.0.1:\d+"):
        LiveReader(settings, "never-made")


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_no_broker() -> None:
    [port] = free_ports(1)
    with pytest.raises(StreamError, match=f"no broker answers at 127.0.0.1:{port}"):
        LiveReader(load_settings(kafka={"bootstrap_servers": f"127.0.0.1:{port}"}), "news")
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # kafka-python's, of connections that are refused
def test_brokers_that_go_away_are_said(topic_name: Callable[[str], str]) -> None:
    """A poll returns nothing then, as on a quiet topic."""

    def read_on(reading: LiveReader) -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            reading.poll()

    with EmbeddedKafka() as own:
        settings = ready(make_settings(own.bootstrap, topic_name))
        feed(settings, [(b"k", b"{}")])
        with LiveReader(settings, settings.topics.input) as reading:
            reading.begin(0)
            assert read(reading) == [b"k"]
            own.kill()
            with pytest.raises(StreamError, match="the brokers no longer answer"):
                read_on(reading)
    gc.collect()
