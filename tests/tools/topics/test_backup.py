"""The drill of deploy/changes.md: back the changelog up, lose the topic, restore the copy, and go on as before."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from stream_dedup.changelog import entries
from stream_dedup.errors import TopicError
from stream_dedup.settings import Settings
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from stream_dedup.tools.topics.setup import create_topics
from tests.deploy.files import ROOT
from tests.harness.check import assert_exactly_once, from_scratch, read_all
from tests.harness.feed import feed, made_up
from tests.harness.topics import administrator, make_settings, ready
from tests.worker.support import fails, run_until
from tests.worker.test_resume_kafka import reset_offsets

pytestmark = pytest.mark.kafka


def with_changelog(settings: Settings, name: str) -> Settings:
    made = settings.model_copy(update={"topics": settings.topics.model_copy(update={"changelog": name})})
    create_topics(made)
    return made


def copied(source: Settings, target: Settings, folder: Path) -> subprocess.CompletedProcess[str]:
    files = []
    for number, one in enumerate((source, target)):
        files.append(folder / f"{number}.toml")
        files[-1].write_text(
            f'[kafka]\nbootstrap_servers = "{one.kafka.bootstrap_servers}"\n'
            f'[topics]\nchangelog = "{one.topics.changelog}"\n'
        )
    command = [sys.executable, "-m", "stream_dedup", "state", "copy", str(files[1]), "--config", str(files[0])]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("lacks", [0, 20])
def test_a_lost_changelog_is_restored_from_its_copy(
    kafka: EmbeddedKafka,
    topic_name: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    lacks: int,
) -> None:
    """`lacks`: items that were committed after the copy was made."""
    monkeypatch.setattr(entries, "MAX_BLOCKS", 7)
    first = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 10}))
    backup, second = (with_changelog(first, topic_name(name)) for name in ("backup", "restored"))
    records = list(made_up(420))
    sent = feed(first, records[:240])
    run_until(first, 240)
    done = copied(first, backup, tmp_path)
    assert done.returncode == 0, done.stderr
    blocks, merged = (read_all(backup, backup.topics.changelog, partitions=[one]) for one in (0, 1))
    assert len(merged) >= 2, "the copy has both kinds of entries, and blocks that are in no merged one"
    assert len(blocks) % 7

    sent += feed(first, records[240 : 240 + lacks])
    if lacks:
        run_until(first, lacks)
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.delete_topics([first.topics.changelog])
    admin.close()
    assert copied(backup, second, tmp_path).returncode == 0
    assert "has records: name an empty topic" in copied(backup, second, tmp_path).stderr

    sent += feed(second, records[240 + lacks :])
    if lacks:
        message = fails(second, f"is {second.topics.changelog}, which lacks what was committed", TopicError)
        assert "groups set-offset current" in message
        with administrator(second) as admin:
            reset_offsets(admin, second, {0: 240 + lacks})
    run_until(second, 420 - 240 - lacks)
    came = assert_exactly_once(second, sent).verdicts()
    if not lacks:
        errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert came == from_scratch(first, read_all(first, first.topics.input))
        assert [text for text in errors if "changelog" in text] == []
