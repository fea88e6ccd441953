"""`stream-dedup check --topic` on a real Kafka reads the end of each partition and writes nothing."""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import TopicError
from stream_dedup.settings import Settings
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make
from tests.tools.topics.test_trial_kafka import traces

pytestmark = pytest.mark.kafka


def test_the_last_records_of_each_partition_are_summarised(make: Make) -> None:
    settings = make(2)
    topic = settings.topics.input
    feed(settings, made_up(40), partition=0)
    feed(settings, [(b"k", b"{"), *made_up(5)], partition=1)
    before = traces(settings)
    command = ["check", "--topic", topic, "--bootstrap", settings.kafka.bootstrap_servers, "--items", "10", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["items"] == 16
    assert summary["dates"]["origin"] == "timestamp"
    assert summary["dates"]["missing"] == 0
    assert any(reason.startswith(f"{topic}/1/0: json") for reason in summary["reasons"])
    assert traces(settings) == before, "it joins no group and writes nothing"


def test_an_empty_topic_exits_with_1_and_a_missing_one_is_an_error(
    settings: Settings, topic_name: Callable[[str], str]
) -> None:
    command = ["check", "--bootstrap", settings.kafka.bootstrap_servers, "--topic"]
    empty = CliRunner().invoke(app, [*command, settings.topics.input])
    assert empty.exit_code == 1
    assert "The input is empty" in empty.stdout
    assert isinstance(CliRunner().invoke(app, [*command, topic_name("nowhere")]).exception, TopicError)
