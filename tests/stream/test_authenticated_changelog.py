"""A worker with a key refuses changelog blocks that no member wrote, and can begin on an existing changelog."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from typer.testing import CliRunner

from stream_dedup.changelog.authentication import HMAC_HEADER, Authenticator
from stream_dedup.changelog.entries import SEQUENCE_HEADER
from stream_dedup.cli.main import app
from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import CorruptBlock
from stream_dedup.settings import Settings, load_settings
from tests.stream.support import article, feed, final_outcome, make_settings, read_all, ready, run_until

pytestmark = pytest.mark.kafka

KEY = "0123456789abcdef" * 4
TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor said at noon."


def with_worker(settings: Settings, **worker: Any) -> Settings:
    changed = load_settings(worker=settings.worker.model_dump() | worker).worker
    return settings.model_copy(update={"worker": changed})


def judge(settings: Settings, *names: str) -> None:
    feed(settings, [(name.encode(), article(name, TEXT)) for name in names])
    run_until(settings, len(names), 30)


def are_signed(settings: Settings) -> list[bool]:
    check = Authenticator([KEY], accept_unauthenticated=True).check
    records = read_all(settings, settings.topics.changelog)
    for record in records:
        check(record)
    return [any(name == HMAC_HEADER for name, _ in record.headers) for record in records]


def forge(settings: Settings, **changes: Any) -> None:
    """Append a copy of the last block with the next sequence number, as someone may who can write to the topic."""
    last = read_all(settings, settings.topics.changelog)[-1]
    number = int(dict(last.headers)[SEQUENCE_HEADER].partition(b"-")[2]) + 1
    headers = [
        (name, f"{number}-{number}".encode() if name == SEQUENCE_HEADER else value) for name, value in last.headers
    ]
    producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers)
    try:
        fields = {"key": last.key, "value": last.value, "headers": headers} | changes
        producer.send(settings.topics.changelog, partition=last.partition, **fields)
        producer.flush()
    finally:
        producer.close()


def test_a_worker_with_a_key_goes_on_from_its_own_blocks_and_refuses_a_forged_one(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"changelog_key": KEY}))
    judge(settings, "a")
    judge(settings, "b")  # another worker, which restores the first one's block
    came = final_outcome(settings, 2)
    assert [record.key for record in came.duplicates] == [b"b"]
    assert all(are_signed(settings))

    forge(settings)
    feed(settings, [(b"c", article("c", TEXT))])
    with pytest.raises(CorruptBlock, match=rf"{settings.topics.changelog}-\d at offset \d+: the block's keyed hash"):
        run_until(settings, 1, 30)
    assert len(final_outcome(settings, 2).fates) == 2, "nothing was judged with the forged block"

    config = tmp_path / "settings.toml"
    config.write_text(
        f'[kafka]\nbootstrap_servers = "{kafka.bootstrap}"\n[topics]\nchangelog = "{settings.topics.changelog}"\n'
        f'[worker]\nchangelog_key = "{KEY}"\n',
        "utf-8",
    )
    verified = CliRunner().invoke(app, ["state", "verify", "--config", str(config)])
    assert verified.exit_code == 1
    assert "keyed hash does not fit" in f"{verified.output}{verified.exception}"


def test_a_key_can_be_introduced_for_an_existing_changelog(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    before = ready(make_settings(kafka.bootstrap, topic_name))
    judge(before, "a")
    assert not any(are_signed(before)), "without a key nothing changes"

    with pytest.raises(CorruptBlock, match=r"is not authenticated, and \[worker\] changelog_key demands it"):
        run_until(with_worker(before, changelog_key=KEY), 1, 30)

    during = with_worker(before, changelog_key=KEY, changelog_accept_unauthenticated=True)
    judge(during, "b")
    assert {*are_signed(before)} == {True, False}
    assert [record.key for record in final_outcome(before, 2).duplicates] == [b"b"]

    judge(before, "c")  # a member that was forgotten
    assert "this member has no [worker] changelog_key" in caplog.text
