"""A changelog that others have written into, on a real Kafka: foreign records are skipped, damage is named."""

import json
import re
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaProducer

from stream_dedup.changelog import entries
from stream_dedup.cli.main import app
from stream_dedup.errors import ChangelogError, CorruptBlock
from stream_dedup.kafka.runtime import Runtime
from stream_dedup.settings import Settings
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from stream_dedup.tools.topics.migration import Migration
from stream_dedup.tools.topics.setup import create_topics
from tests.harness.check import final_outcome
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make, variables_of
from tests.lab.soak.stage import Changelog
from tests.tools.topics.test_migration import clock
from tests.worker.support import fails, open_store, run_until
from tests.worker.test_refused import _Raw
from tests.worker.test_restore import ids

pytestmark = pytest.mark.kafka
Names = Callable[[str], str]

CURE = r"topics create --config FILE, and run `stream-dedup migrate --config FILE`"


def write_foreign(settings: Settings) -> int:
    """Write what other programs may write by mistake into both partitions of the index; returns the records of each."""
    owner = f"{settings.kafka.group_id}-global".encode()
    foreign: list[dict[str, Any]] = [
        {"key": None, "value": b"a line of a log"},
        {"key": b"another program", "value": b"\x00\x00\x00\x00\x07\x0cAvro", "headers": [("sequence", b"seven")]},
        {"key": owner, "value": None},
        {"key": owner, "value": b'{"id": 1}', "headers": [("offsets", b'{"0": 999}'), ("sequence", b"")]},
        {"key": b"", "value": b"", "headers": [(_Raw("?"), b"1")]},
    ]
    with closing(KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers)) as producer:
        for partition in (0, 1):
            for record in foreign:
                producer.send(settings.topics.changelog, partition=partition, **record)
        producer.flush()
    return len(foreign)


def state(settings: Settings, *command: str) -> tuple[int, str]:
    """The exit code and the output of a `state` command."""
    result = CliRunner(env=variables_of(settings)).invoke(app, ["state", *command])
    return result.exit_code, result.output


@pytest.fixture
def settings(make: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setattr(entries, "MAX_BLOCKS", 5)  # so that some blocks are merged
    return make(worker={"batch_items": 10})


@pytest.mark.slow
def test_records_of_other_programs_are_skipped_counted_and_listed(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(settings)  # a standby, which follows meanwhile
    try:
        count, items = 0, list(made_up(200))
        for start in range(0, 200, 100):
            count += write_foreign(settings)
            feed(settings, items[start : start + 100])
            run_until(settings, 100)  # the second worker restores what the first one wrote
            store.follow()
        count += write_foreign(settings)
        store.complete(lambda done, total: None)
        fresh = open_store(settings)
        fresh.complete(lambda done, total: None)
        assert ids(store) == ids(fresh)
        assert len(ids(fresh)) > 100
        fresh.close()
    finally:
        store.close()
    feed(settings, [(b"again-" + key, value.replace(b'"id": "', b'"id": "again-')) for key, value in items])
    run_until(settings, 200)
    held_back = {record.key for record in final_outcome(settings, 400).duplicates}
    assert {b"again-" + key for key, _ in items} <= held_back, "it remembers everything"

    said = [record.getMessage() for record in caplog.records if "another program" in record.getMessage()]
    assert re.search(rf"{settings.topics.changelog}-[01] has a record of another program at offset \d+, with", said[0])
    assert len(said) == 5, "once in each process: three workers and two stores"
    code, shown = state(settings, "verify")
    assert (code, shown.count("a record of another program")) == (0, 2 * count)
    assert f" 0 damaged, {2 * count} records of other programs" in shown
    assert f"{settings.topics.changelog}-1 at offset 1, key 'another program'" in shown
    assert json.loads(state(settings, "inspect", "--json")[1])["skipped"] == 2 * count


def test_a_bomb_of_another_program_is_not_unpacked(settings: Settings) -> None:
    """A record of 200 MB in 8 kB; one of some gigabytes would kill every member that restores."""
    feed(settings, made_up(30))
    run_until(settings, 30)
    producer = KafkaProducer(
        bootstrap_servers=settings.kafka.bootstrap_servers, compression_type="zstd", max_request_size=2**28
    )
    producer.send(settings.topics.changelog, bytes(200_000_000), partition=0)
    producer.close()
    store = open_store(settings)
    tracemalloc.start()
    try:
        store.complete(lambda done, total: None)
        assert tracemalloc.get_traced_memory()[1] < 2**28
        assert len(ids(store)) > 10
    finally:
        tracemalloc.stop()
        store.close()


def test_a_damaged_block_is_named_and_migrate_keeps_what_was_remembered(settings: Settings, topic_name: Names) -> None:
    items = list(made_up(30))
    feed(settings, items)
    run_until(settings, 30, runtime=Runtime(wall=clock))
    assert Changelog(settings, 1).damage(0, is_ours=True)
    fails(settings, rf"{settings.topics.changelog}-0 at offset \d+: .*checksum.*{CURE}", ChangelogError)
    code, shown = state(settings, "verify")
    assert code == 1
    assert re.search(rf"{settings.topics.changelog}-0 at offset \d+: .*checksum", shown)
    assert "1 damaged" in shown
    assert re.search(CURE, shown)

    topics = settings.topics.model_copy(update={"changelog": topic_name("another-changelog")})
    new = settings.model_copy(update={"topics": topics})
    create_topics(new)
    Migration(new, lambda progress: None, clock).run()
    feed(new, [(b"again-" + key, value.replace(b'"id": "', b'"id": "again-')) for key, value in items])
    run_until(new, 30, runtime=Runtime(wall=clock))
    came = final_outcome(new, 60)
    assert {b"again-" + key for key, _ in items} <= {record.key for record in came.duplicates}


def test_damage_on_the_brokers_disk_is_named(settings: Settings, kafka: EmbeddedKafka) -> None:
    feed(settings, made_up(30))
    run_until(settings, 30)
    segment = kafka.directory / "data" / f"{settings.topics.changelog}-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    with segment.open("r+b") as file:
        file.write(content)
    with pytest.raises(CorruptBlock, match=rf"{settings.topics.changelog}.* offset 0 .*the broker are damaged.*{CURE}"):
        open_store(settings).complete(lambda done, total: None)
