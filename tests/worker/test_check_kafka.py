"""`stream-dedup check --topic` on a real Kafka reads the end of each partition and writes nothing."""

import json
from collections.abc import Callable

import pytest
from kafka.admin import KafkaAdminClient
from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import TopicError
from stream_dedup.kafka.reader import TopicReader
from stream_dedup.settings import Settings
from tests.worker.support import feed, made_up, make_settings, ready

pytestmark = pytest.mark.kafka


def test_the_last_records_of_each_partition_are_summarised(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str]
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name), partitions=2)
    topic = settings.topics.input
    feed(settings, made_up(40), partition=0)
    feed(settings, [(b"k", b"{"), *made_up(5)], partition=1)
    groups = _groups(kafka)
    ends = _ends(settings, topic)
    result = CliRunner().invoke(
        app, ["check", "--topic", topic, "--bootstrap", kafka.bootstrap, "--items", "10", "--json"]
    )
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["items"] == 16
    assert summary["dates"]["origin"] == "timestamp"
    assert summary["dates"]["missing"] == 0
    assert any(one.startswith(f"{topic}/1/0: json") for one in summary["reasons"])
    assert _groups(kafka) == groups, "it joins no group"
    assert _ends(settings, topic) == ends, "it writes nothing"


def test_an_empty_topic_exits_with_1_and_a_missing_one_is_an_error(
    settings: Settings, kafka: EmbeddedKafka, topic_name: Callable[[str], str]
) -> None:
    command = ["check", "--bootstrap", kafka.bootstrap, "--topic"]
    empty = CliRunner().invoke(app, [*command, settings.topics.input])
    assert empty.exit_code == 1
    assert "The input is empty" in empty.stdout
    assert isinstance(CliRunner().invoke(app, [*command, topic_name("nowhere")]).exception, TopicError)


def _groups(kafka: EmbeddedKafka) -> set[str]:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    try:
        return {str(one) for one in admin.list_groups()}
    finally:
        admin.close()


def _ends(settings: object, topic: str) -> list[int]:
    with TopicReader(settings) as reader:  # type: ignore[arg-type]
        return [record.offset for record in reader.all(topic, 1)]
