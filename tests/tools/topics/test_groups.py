"""The cures that need no tools of Kafka: offsets set by hand, settings of topics mended, everything begun anew."""

import threading
from collections.abc import Callable

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from stream_dedup.errors import StreamError, UsageError
from stream_dedup.kafka.topics import Topic, check_topics, topic_names, weaknesses
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.groups import reset, set_offsets, show
from stream_dedup.tools.topics.setup import fix_topics
from stream_dedup.tools.topics.tail import tail
from tests.harness.check import read_all
from tests.harness.feed import feed, made_up
from tests.harness.topics import administrator
from tests.harness.wait import PATIENCE, wait_until
from tests.worker.support import Watching, run_until, running


@pytest.mark.parametrize(
    ("topic", "keys"),
    [
        (Topic(1, {}, replicas=1, brokers=3), {"replicas"}),
        (Topic(1, {}, replicas=1, brokers=1), set()),
        (Topic(1, {"min.insync.replicas": "1"}, replicas=3, brokers=3), {"min.insync.replicas"}),
        (Topic(1, {"min.insync.replicas": "1"}, replicas=2, brokers=3), set()),
        (
            Topic(1, {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}, replicas=3, brokers=3),
            {"unclean.leader.election.enable"},
        ),
        (Topic(1, {"min.insync.replicas": "2"}, replicas=3, brokers=0), set()),
    ],
)
def test_what_the_loss_of_one_broker_costs(topic: Topic, keys: set[str]) -> None:
    assert weaknesses(topic).keys() == keys


@pytest.mark.kafka
def test_a_reset_begins_anew_in_the_same_topics(make: Callable[..., Settings]) -> None:
    settings = make(1)
    feed(settings, made_up(20))
    with running(settings, Watching()) as seen:
        seen.wait_judged(20)
        with pytest.raises(StreamError, match="stop every one"):
            reset(settings, "earliest", confirmed=True)
        with pytest.raises(StreamError, match="stop every one"):
            set_offsets(settings, "earliest")
    before = read_all(settings, settings.topics.output)
    shown = list(tail(settings, settings.topics.output, 0, threading.Event(), follows=False))
    assert [line.verdict for line in shown].count("unique") == len(before)

    planned = reset(settings, "earliest", confirmed=False)
    assert planned.deleted[settings.topics.output] >= len(before)
    assert len(read_all(settings, settings.topics.output)) == len(before), "a dry run changes nothing"
    assert reset(settings, "earliest", confirmed=True) == planned
    assert read_all(settings, settings.topics.output) == []
    run_until(settings, 20)
    assert len(read_all(settings, settings.topics.output)) == len(before), "as if for the first time"


@pytest.mark.kafka
def test_active_and_standby_are_named(make: Callable[..., Settings], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    settings = make(2)
    with running(settings) as first:
        assert first.opened.wait(PATIENCE)
        with running(settings):
            wait_until(lambda: [member.role for member in show(settings).members] == ["active", "standby"], "both")
            active, standby = show(settings).members
            assert (active.partitions, standby.partitions) == ([0, 1], [])
            wait_until(lambda: "stands by" in caplog.text, "the standby says so")
    (said,) = [record.getMessage() for record in caplog.records if "stands by" in record.getMessage()]
    assert active.id in said


@pytest.mark.kafka
def test_offsets_are_set_where_a_person_says(make: Callable[..., Settings]) -> None:
    settings = make(2)
    feed(settings, made_up(10), partition=0)
    assert set_offsets(settings, "7", [0]) == {0: 7}
    assert set_offsets(settings, "latest", [1]) == {1: 0}
    assert set_offsets(settings, "2001-01-01T00:00:00Z", [0]) == {0: 0}
    assert set_offsets(settings, "2101-01-01T00:00:00Z", [0]) == {0: 10}
    assert set_offsets(settings, "current") == {0: 10, 1: 0}
    for to, partitions, message in (("11", [0], "and not 11"), ("5", [7], "no partition 7"), ("noon", [], "no offset")):
        with pytest.raises(UsageError, match=message):
            set_offsets(settings, to, partitions)


@pytest.mark.kafka
def test_wrong_settings_of_a_topic_are_mended(make: Callable[..., Settings]) -> None:
    settings = make(1)
    with administrator(settings) as admin:
        resource = ConfigResource(ConfigResourceType.TOPIC, settings.topics.changelog, configs={"retention.ms": "1000"})
        admin.alter_configs([resource])
    assert [line.partition(": ")[0] for line in fix_topics(settings)] == [settings.topics.changelog]
    assert list(check_topics(settings)) == topic_names(settings)
    assert fix_topics(settings) == []
