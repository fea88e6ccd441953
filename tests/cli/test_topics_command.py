"""`stream-dedup topics` says what it made, and what it was asked for in vain."""

import pytest
from click.testing import Result
from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.stream import topics


def create(monkeypatch: pytest.MonkeyPatch, made: list[str], *options: str) -> Result:
    """`topics create` on a cluster whose input has one partition."""
    layout = topics.TopicMetadata({"news.raw": 1, "news.unique": 1}, {}, frozenset(), {}, 0)
    monkeypatch.setattr(topics, "create_topics", lambda *_: made)
    monkeypatch.setattr(topics, "check_topics", lambda *_: layout)
    result = CliRunner().invoke(app, ["topics", "create", *options])
    assert result.exit_code == 0
    return result


def test_partitions_that_were_not_used_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    result = create(monkeypatch, [], "--partitions", "3")

    assert result.stdout == "all five topics exist; nothing was made\n"
    assert "--partitions 3 was not used: the input news.raw has 1 partition," in result.stderr
    assert create(monkeypatch, [], "--partitions", "1").stderr == ""


def test_an_input_that_was_made_is_said_to_be_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a misspelled name makes a topic that nobody ever writes to."""
    result = create(monkeypatch, ["news.raw", "news.unique"])

    assert result.stdout == "made: news.raw, news.unique\n"
    assert "news.raw, the input, is new and empty. If your feed writes to another topic" in result.stderr
    assert create(monkeypatch, ["news.unique"]).stderr == ""


def test_check_names_each_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = topics.TopicMetadata({"news.raw": 1, "news.unique": 3}, {}, frozenset(), {}, 0)
    monkeypatch.setattr(topics, "check_topics", lambda _: layout)

    assert (
        CliRunner().invoke(app, ["topics", "check"]).stdout
        == "news.raw: 1 partition, ok\nnews.unique: 3 partitions, ok\n"
    )
