"""`send` puts each item of a file into a topic, under its id, and says what it did not send."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from stream_dedup.errors import InputError, TopicError
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.reader import TopicReader
from tests.cli.commands import done
from tests.harness.topics import administrator, variables_of

pytestmark = pytest.mark.kafka
BAD = b'{"id": "bad"}'


@pytest.fixture
def settings(make: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings, which commands find in the environment."""
    made = make(3)
    for name, value in variables_of(made).items():
        monkeypatch.setenv(name, value)
    return made


def item(name: str | None, text: str = "The ferry runs again.") -> bytes:
    return json.dumps({"id": name, "title": f"Ferry {name}", "text": text}).encode()


def file_of(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"\n".join(lines))
    return path


def in_topic(settings: Settings) -> dict[bytes | None, bytes | None]:
    with TopicReader(settings) as reader:
        return {record.key: record.value for record in reader.all(settings.topics.input)}


def test_each_item_is_a_record_under_its_id_and_bad_ones_are_counted(settings: Settings, tmp_path: Path) -> None:
    lines = [*(item(f"n{number}") for number in range(9)), BAD, item(None)]
    shown = done("send", file_of(tmp_path / "news.jsonl", *lines), "--tombstone", "n1").output
    assert f"sent 12 records to {settings.topics.input}" in shown
    assert f"1 record that cannot be judged: a worker puts them into {settings.topics.dead_letters}" in shown
    assert "news.jsonl:10: empty: the record has id alone" in shown
    assert "1 record without an id" in shown
    found = in_topic(settings)
    assert found == {f"n{n}".encode(): line for n, line in enumerate(lines[:9])} | {
        b"n1": None,
        b"bad": BAD,
        None: lines[10],
    }
    with TopicReader(settings) as reader:
        assert len({record.partition for record in reader.all(settings.topics.input)}) > 1
        of_n1 = {record.partition for record in reader.all(settings.topics.input) if record.key == b"n1"}
    assert len(of_n1) == 1, "the tombstone reaches the partition of its item"


def test_what_the_topic_does_not_take_is_named_and_the_rest_is_sent(settings: Settings, tmp_path: Path) -> None:
    with administrator(settings) as admin:
        config = {"cleanup.policy": "compact", "max.message.bytes": "20000"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, settings.topics.input, configs=config)])
    lines = [item("a"), item("long", "word " * 9000), item(None), *(item(f"n{number}") for number in range(300))]
    shown = done("send", file_of(tmp_path / "news.jsonl", *lines), code=1).output
    assert "sent 301 records" in shown
    assert f"news.jsonl:2: {settings.topics.input} takes 20,000 bytes a record" in shown
    assert "news.jsonl:3: it has no id, and" in shown
    assert len(in_topic(settings)) == 301


def test_nothing_is_sent_of_a_file_that_cannot_be_judged(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the first 2 can be judged\. .*news\.jsonl:1: empty"):
        done("send", file_of(tmp_path / "news.jsonl", BAD, BAD))
    assert in_topic(settings) == {}


def test_of_a_file_that_is_cut_short_the_beginning_is_sent_and_said(settings: Settings, tmp_path: Path) -> None:
    packed = gzip.compress(b"\n".join(item(f"n{number}", f"Ferry {number**9}.") for number in range(900)))
    path = file_of(tmp_path / "news.jsonl.gz", packed[:-900])
    with pytest.raises(InputError, match=r"cut short: .*; of \d+ records the last may be missing .* Send all again"):
        done("send", path)
    assert in_topic(settings)


def test_a_topic_that_is_missing_is_not_created(settings: Settings, topic_name: Callable[[str], str]) -> None:
    missing = topic_name("missing")
    for _ in range(2):
        with pytest.raises(TopicError, match=rf"no topic {missing} at .* stream-dedup topics create"):
            done("send", "--tombstone", "a", "--topic", missing)
