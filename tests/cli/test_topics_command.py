"""`stream-dedup topics` names the topics that it created, and options that it did not use."""

import pytest
from click.testing import Result
from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.kafka import topics


def create(monkeypatch: pytest.MonkeyPatch, created: list[str], *options: str) -> Result:
    """`topics create` on a cluster whose input has one partition."""
    metadata = topics.TopicMetadata({"news.raw": 1, "news.unique": 1}, {}, frozenset(), {}, 0)
    monkeypatch.setattr(topics, "create_topics", lambda *_, **__: created)
    monkeypatch.setattr(topics, "check_topics", lambda *_, **__: metadata)
    result = CliRunner().invoke(app, ["topics", "create", *options])
    assert result.exit_code == 0
    return result


def test_unused_partitions_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = create(monkeypatch, [], "--partitions", "3")

    assert result.stdout == "all five topics exist; nothing was created\n"
    assert "--partitions 3 was not used: the input news.raw has 1 partition," in result.stderr
    assert create(monkeypatch, [], "--partitions", "1").stderr == ""


def test_a_created_input_is_reported_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelled name would create a topic that nobody writes to."""
    result = create(monkeypatch, ["news.raw", "news.unique"])

    assert result.stdout == "created: news.raw, news.unique\n"
    assert "news.raw, the input, is new and empty. If your feed writes to another topic" in result.stderr
    assert create(monkeypatch, ["news.unique"]).stderr == ""


def test_check_names_each_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = topics.TopicMetadata({"news.raw": 1, "news.unique": 3}, {}, frozenset(), {}, 0)
    monkeypatch.setattr(topics, "check_topics", lambda *_, **__: metadata)

    assert (
        CliRunner().invoke(app, ["topics", "check"]).stdout
        == "news.raw: 1 partition, ok\nnews.unique: 3 partitions, ok\n"
    )
