"""A worker within the memory of deploy/compose.yaml and 256 descriptors: nothing that comes in ends it.

Bombs, the largest records, a producer that does not wait and a full window come at once, for LOAD_SECONDS (60 by
default). Every record must come out in exactly one place.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer

from stream_dedup.dedup.decider import Decider
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from stream_dedup.tools.topics.headers import place_of
from tests.harness.check import lost_and_repeated, outcome, read_all
from tests.harness.feed import article
from tests.harness.member import Command
from tests.harness.topics import make_settings, ready, worked_off
from tests.lab.load.process import entering, highest_of, limited, metric
from tests.lab.load.test_overload import two_floods
from tests.lab.measured import record

MEMORY = 2**30
SECONDS = float(os.environ.get("LOAD_SECONDS", "60"))
BOMBS, BOMB_BYTES = 12, 30 * 10**6


def send_large(settings: Settings, size: int, count: int, codec: str | None) -> None:
    """Records of words of one letter, the most expensive, each followed by a small one."""
    producer = KafkaProducer(
        bootstrap_servers=settings.kafka.bootstrap_servers, compression_type=codec, max_request_size=2**27
    )
    for number in range(count):
        name = f"{size}-{number}"
        for key, text in ((name, "a b " * ((size - 400) // 4)), (f"small-{name}", "")):
            producer.send(settings.topics.input, article(key, text, f"Number {key}"), key.encode(), partition=0)
    producer.close()


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_records_that_compress_to_nothing_do_not_kill_a_worker_of_the_shipped_size(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """They took 1.4 GiB, so the kernel killed the worker, and its successor, and so on."""
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"session_timeout": "10s"}))
    largest = load_settings(worker={"memory": MEMORY}).worker.max_record_bytes
    with limited(MEMORY) as group, Command("a", settings, tmp_path, within=entering(group)) as worker:
        worker.start().wait_until("ok")
        taken = {"mib_before": highest_of(group) >> 20}
        send_large(settings, BOMB_BYTES, BOMBS, "zstd")
        worked_off(settings)
        taken["mib_bombs"] = highest_of(group) >> 20
        send_large(settings, largest, 50, "zstd")
        worked_off(settings)
        taken["mib_largest"] = highest_of(group) >> 20
        assert worker.status == "ok", worker.log()
    name = f"bombs of {BOMB_BYTES // 10**6} MB, and records of {largest >> 20} MiB, in {MEMORY >> 20} MiB"
    record("load", {name: taken})
    assert lost_and_repeated(settings) == ([], [])
    assert len(outcome(settings).dead_letters) == BOMBS


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(1800)
def test_a_full_window_a_flood_and_bombs_together_do_not_kill_a_worker(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Less memory than is shipped, so that the window is soon full: what there is of it is used as far as it goes."""
    memory = 640 * 2**20
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"session_timeout": "10s"}), 2)
    own = load_settings(worker={"memory": memory})
    with Decider(own) as dedup:
        most = dedup.max_originals
    statuses = set()
    with limited(memory) as group, Command("a", settings, tmp_path, within=entering(group)) as worker:
        worker.start().wait_until("ok")
        with two_floods(settings, worker, 1.3 * most) as produced_so_far:
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                send_large(settings, BOMB_BYTES, 2, "zstd")
                send_large(settings, own.worker.max_record_bytes, 4, None)
                statuses.add(worker.status)
                time.sleep(0.5)
            produced, judged = produced_so_far(), metric(worker.address, "stream_dedup_items_total")
        evicted = metric(worker.address, "stream_dedup_evicted_originals_total")
        worked_off(settings, 10 * SECONDS)  # the producer was three times as fast
        statuses.add(worker.status)
        taken = highest_of(group)
    came = outcome(settings)
    figures = {
        "seconds": SECONDS, "originals": most, "evicted": evicted, "mib_most": taken >> 20,
        "produced_to_judged": produced / judged, "dead_letters": len(came.dead_letters),
    }  # fmt: skip
    record("load", {f"a full window, a flood and bombs in {memory >> 20} MiB": figures})
    assert evicted > 0, "the window was not full"
    assert produced > 1.2 * judged, "the producer was not faster"
    assert statuses == {"ok"}
    sent = [(record.partition, record.offset) for record in read_all(settings, settings.topics.input)]
    assert sorted(map(place_of, came.every)) == sorted(sent), "records are lost or repeated"
