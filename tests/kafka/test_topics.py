"""Topics that would lose data are refused, each with the command that fixes it."""

import subprocess
import sys
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.net import manager
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BrokerVersionData

from stream_dedup.errors import StreamError, TopicError
from stream_dedup.kafka import client
from stream_dedup.kafka.topics import changelog_retention_ms, check_topics
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.topics.setup import create_topics, fix_topics
from tests.broker import VERSION
from tests.harness.check import assert_exactly_once
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make, administrator
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka


def create(settings: Settings, **topics: tuple[int, dict[str, Any]]) -> None:
    names = settings.topics.model_dump()
    made = {
        names[role]: {"num_partitions": count, "configs": {k: str(v) for k, v in config.items()}}
        for role, (count, config) in topics.items()
    }
    with administrator(settings) as admin:
        admin.create_topics(made, wait_for_metadata=True)


def problems(settings: Settings) -> list[str]:
    with pytest.raises(TopicError) as caught:
        check_topics(settings)
    return str(caught.value).splitlines()[1:]


@pytest.mark.parametrize("scope", ["global", "partition"])
def test_created_topics_pass(make: Make, scope: str) -> None:
    settings = make(0, worker={"scope": scope})
    names = settings.topics
    assert create_topics(settings, partitions=3) == [
        names.input, names.output, names.duplicates, names.dead_letters, names.changelog,
    ]  # fmt: skip
    found = check_topics(settings)
    assert found[names.output].partitions == 3
    assert found[names.changelog].partitions == (2 if scope == "global" else 6)
    assert found[names.output].limit == found[names.input].limit + client.HEADER_ROOM
    assert create_topics(settings) == [], "what exists is left alone"


def test_more_replicas_than_brokers_are_refused_with_the_cure(make: Make) -> None:
    settings = make(0)
    with pytest.raises(TopicError, match=r"cannot be created \(.*replicat.*give --replication with no more") as caught:
        create_topics(settings, partitions=1, replication=3)
    assert "CreateTopicsRequest" not in str(caught.value)
    assert create_topics(settings, partitions=1, replication=1)


def test_a_name_that_kafka_takes_for_another_topic_s_is_refused(make: Make) -> None:
    settings = make(0)
    twin = settings.topics.input.replace("-", ".", 1)
    with administrator(settings) as admin:
        admin.create_topics({twin: {}})
    topics = settings.topics.model_copy(update={"duplicates": twin.replace(".", "_", 1)})
    with pytest.raises(TopicError, match=r"collides with existing topic.*; name another one in \[topics\]"):
        create_topics(settings.model_copy(update={"topics": topics}), partitions=1)


@pytest.mark.parametrize("version", [(2, 4), (2, 8), (3, 2), (3, 3)])
def test_brokers_that_are_too_old_are_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    settings = make(0)
    connection = client.connection
    monkeypatch.setattr(client, "connection", lambda settings: connection(settings) | {"api_version": version})
    if version == (3, 3):
        assert create_topics(settings, partitions=1)
        return
    for ask in (check_topics, create_topics):
        with pytest.raises(StreamError, match=r"are too old: Kafka 3\.3 or newer is needed") as caught:
            ask(settings)
        assert ("and has TxnOffsetCommit 3 and OffsetFetch 7" in str(caught.value)) == (version == (2, 4))


# What Redpanda offers; of the others as much as the client asks for.
REDPANDA = {"DescribeAcls": 1, "TxnOffsetCommit": 3, "OffsetFetch": 7, "Metadata": 8, "InitProducerId": 4}


def test_compatible_brokers_are_not_called_too_old(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = make(0)
    known = BrokerVersionData((3, 3))
    for name, most in REDPANDA.items():
        known.api_versions[ApiKey[name]] = (known.api_versions[ApiKey[name]][0], most)
    monkeypatch.setattr(manager, "BrokerVersionData", lambda _: known)
    connection = client.connection
    monkeypatch.setattr(client, "connection", lambda settings: connection(settings) | {"api_version": (3, 3)})
    assert create_topics(settings, partitions=1)
    assert {topic.id for topic in check_topics(settings).values()} == {""}
    assert "give topics no ids" in caplog.text
    sent = feed(settings, made_up(20))
    run_until(settings, 20)
    assert_exactly_once(settings, sent)


def test_every_missing_topic_is_reported(make: Make) -> None:
    settings = make(0)
    lines = problems(settings)
    assert len(lines) == 5
    assert lines[0].strip() == (
        f"{settings.topics.input} does not exist; is [topics] input spelled right? If so, create it with: "
        "stream-dedup topics create"
    )


def test_every_way_of_losing_data_is_reported(make: Make) -> None:
    settings = make(0)
    late = f"message.timestamp.{'difference' if VERSION < (3, 6) else 'after'}.max.ms"
    create(
        settings,
        input=(2, {"max.message.bytes": 1_000_000, late: 3_600_000}),
        output=(2, {"max.message.bytes": 1_000_000, late: 3_600_000}),
        duplicates=(2, {"cleanup.policy": "compact", late: 1000}),
        dead_letters=(2, {"message.timestamp.type": "LogAppendTime"}),
        changelog=(3, {"cleanup.policy": "compact,delete", "retention.ms": 1000, "retention.bytes": 10**9}),
    )
    lines = problems(settings)
    names = settings.topics
    expected = [
        (names.output, "max.message.bytes=1065536"),
        (names.duplicates, f"{late}=3600000"),
        (names.duplicates, "cleanup.policy=delete"),
        (names.dead_letters, "message.timestamp.type=CreateTime"),
        (names.changelog, "cleanup.policy=delete"),
        # The broker keeps input without a limit by age: that counts as thirty days.
        (names.changelog, f"retention.ms={(7 + 30 + 1) * 24 * 3600 * 1000}"),
        (names.changelog, "retention.bytes=-1"),
        (names.changelog, "needs 2"),
    ]
    assert len(lines) == len(expected)
    for line, (topic, mending) in zip(lines, expected, strict=True):
        assert line.strip().startswith(topic)
        key, _, value = mending.partition("=")
        assert key in line
        assert value in line
    assert "fix it with: stream-dedup topics fix" in lines[0]
    fix_topics(settings)
    assert [line for line in problems(settings) if "fix it with" in line] == []


@pytest.mark.parametrize(
    ("configs", "days"),
    [
        ({"retention.ms": 3 * 24 * 3600 * 1000}, 7 + 3 + 1),
        ({"retention.ms": 90 * 24 * 3600 * 1000}, 7 + 30 + 1),
        ({"cleanup.policy": "compact", "retention.ms": 3 * 24 * 3600 * 1000}, 7 + 30 + 1),
    ],
)
def test_the_changelog_retains_window_and_input_and_the_reported_command_mends_it(
    make: Make, configs: dict[str, Any], days: int
) -> None:
    settings = make(0)
    create(settings, input=(1, configs))
    create_topics(settings)
    needed = changelog_retention_ms(settings, check_topics(settings)[settings.topics.input])
    assert needed == days * 24 * 3600 * 1000

    def retain(milliseconds: str) -> None:
        changed = {"retention.ms": milliseconds}
        with administrator(settings) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, settings.topics.changelog, changed)])

    retain(str(needed - 1))
    [line] = problems(settings)
    assert line.endswith(f"retention.ms is {needed - 1}, and must be {needed}; fix it with: stream-dedup topics fix")
    assert fix_topics(settings) == [f"{settings.topics.changelog}: retention.ms is {needed}"]
    check_topics(settings)
    retain("-1")
    check_topics(settings)


@pytest.mark.parametrize(("scope", "former", "needed"), [("global", 1, 2), ("partition", 3, 6)])
def test_a_changelog_with_one_partition_per_index_is_refused(make: Make, scope: str, former: int, needed: int) -> None:
    settings = make(0, worker={"scope": scope})
    create(settings, changelog=(former, {"cleanup.policy": "delete"}))
    create_topics(settings, partitions=3)
    found = [line for line in problems(settings) if f"{former} partition" in line and "scope" in line]
    assert len(found) == 1
    assert found[0].endswith(f"scope {scope} needs {needed}; fix it with: stream-dedup topics fix")
    assert fix_topics(settings) == [f"{settings.topics.changelog}: {needed} partitions"]
    check_topics(settings)


ABSENT = """
import threading
from stream_dedup.errors import TransactionFailed
from stream_dedup.settings import load_settings
from stream_dedup.kafka.topics import check_topics
try:
    check_topics(load_settings(kafka={"bootstrap_servers": "127.0.0.1:1"}))
except TransactionFailed as error:
    print(error, threading.active_count())
"""


@pytest.mark.slow
def test_no_broker_is_reported_and_leaves_no_threads() -> None:
    # In its own process: the garbage collector closes the client's sockets, with a warning, in any later test.
    ended = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.startswith("no broker answers at 127.0.0.1:1: nothing listens at 127.0.0.1:1; check [kafka] ")
    assert ended.stdout.endswith(" 1\n"), f"threads are left: {ended.stdout}"


def test_a_password_is_never_printed() -> None:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "ann"}
    config = client.producer(load_settings(kafka=login | {"sasl_password": "open sesame"}), "id")
    assert config["sasl_plain_password"] == "open sesame"  # noqa: S105
    assert "sesame" not in f"{config} {config!r}"
