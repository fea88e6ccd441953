"""A backfill, months of items produced in a moment, is judged by the items' own dates ([item] time = "published")."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.filter import judge_batches
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from stream_dedup.tools.inputs.lines import LineReader
from stream_dedup.tools.topics.live_reader import LiveReader
from stream_dedup.tools.topics.migration import Migration
from stream_dedup.tools.topics.trial import Trial
from tests.harness.check import Decision, final_outcome, in_headers
from tests.harness.feed import made_up
from tests.harness.topics import make_settings, ready, under_another_scheme
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka
FIRST = 1_580_000_000  # s, long before the records are produced
DAYS, EACH = 60, 8
WINDOW = 7
Verdicts = dict[bytes | None, Decision]


def archive(seed: int = 5, page: int = 0) -> list[tuple[bytes, bytes]]:
    """Eight items a day; some are copies, a day or five weeks after the original. One in fifty has a wrong date.

    `page`: bytes of a field that is not read.
    """
    chance = random.Random(seed)
    texts = [json.loads(value) for _, value in made_up(DAYS * EACH, seed)]
    dated: list[tuple[bytes, bytes]] = []
    for i, item in enumerate(texts):
        age = i % 3 and (EACH if i % 3 == 1 else 35 * EACH)
        if age and i >= age and i % 2:
            item |= {name: texts[i - age][name] for name in ("title", "text")}
        day = FIRST + i * 86_400 // EACH
        if not chance.randrange(50):
            day += chance.choice((-400, 300)) * 86_400
        item |= {"id": f"a{i}", "page": "." * page, "published": datetime.fromtimestamp(day, UTC).isoformat()}
        dated.append((item["id"].encode(), json.dumps(item).encode()))
    return dated


def produce(settings: Settings, records: Sequence[tuple[bytes, bytes]], partitions: int = 1) -> None:
    """As a tool that fills a topic does: at once, with the present as timestamp."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers, linger_ms=20)
    for i, (key, value) in enumerate(records):
        producer.send(settings.topics.input, value, key, partition=i % partitions)
    producer.flush()
    producer.close()


def of_files(settings: Settings, records: Sequence[tuple[bytes, bytes]], path: Path) -> Verdicts:
    """The verdicts of `filter` on a file of these records."""
    path.write_bytes(b"".join(value + b"\n" for _, value in records))
    with Decider(settings) as dedup:
        lines = LineReader([str(path)], None, most=settings.worker.max_record_bytes)
        return by_key(verdict for batch in judge_batches(dedup, lines) for verdict in batch.verdicts)


def by_key(verdicts: Iterable[Verdict]) -> Verdicts:
    return {verdict.id.encode(): in_headers(verdict) for verdict in verdicts}


def dated(kafka: EmbeddedKafka, topic_name: Any, partitions: int = 1, time: str = "published") -> Settings:
    return ready(make_settings(kafka.bootstrap, topic_name, item={"time": time}), partitions)


def test_three_months_produced_at_once_are_judged_as_a_file_is(
    kafka: EmbeddedKafka, topic_name: Any, tmp_path: Path
) -> None:
    settings, records = dated(kafka, topic_name), archive()
    produce(settings, records)
    half = len(records) // 2
    run_until(settings, half)
    done = len(final_outcome(settings, half).every)
    restored = run_until(settings, len(records) - done)  # with what the changelog says, clocks too
    assert restored.remembered
    came = final_outcome(settings, len(records))
    wanted = of_files(settings, records, tmp_path / "archive.jsonl")
    assert came.verdicts() == wanted
    assert Counter(kind for kind, *_ in wanted.values())["duplicate"] > EACH
    now = time.time() * 1000
    assert all(abs(one.timestamp - now) < 600_000 for one in came.every), "records keep their own timestamps"

    with LiveReader(settings, settings.topics.input) as reader, Trial(settings, settings.topics.input) as trial:
        reader.begin(0)
        tried: Verdicts = {}
        while not reader.caught_up:
            some = reader.poll()
            tried |= by_key(trial.judge(some))
        summary = trial.result().summary
    assert tried == wanted
    assert (summary.dates.origin, summary.dates.dated) == ("published", 0)

    # After a migration copies are found by their own dates, too: within the window, and no further.
    new = under_another_scheme(settings, topic_name("other")).model_copy(update={"item": settings.item})
    Migration(new, lambda progress: None).run()
    items = [json.loads(value) for _, value in records]
    near = {item["title"] for item in items[-2 * WINDOW * EACH :]}
    older = next(item for item in reversed(items) if item["title"] not in near)
    today = {"published": items[-1]["published"]}
    produce(new, [(name, json.dumps(item | today | {"id": name.decode()}).encode()) for name, item in (
        (b"again", items[-1]), (b"older", older)
    )])  # fmt: skip
    run_until(new, 2)
    verdicts = final_outcome(new, len(records) + 2).verdicts()
    assert verdicts[b"again"][0] == "duplicate"
    assert verdicts[b"older"][0] == "unique"


def test_partitions_of_a_backfill_are_read_in_step(kafka: EmbeddedKafka, topic_name: Any, tmp_path: Path) -> None:
    """Read one after the other, copies in another partition would come when their originals have left the window."""
    settings, records = dated(kafka, topic_name, partitions=3), archive(page=4000)
    produce(settings, records, partitions=3)
    run_until(settings, len(records))
    came = final_outcome(settings, len(records)).verdicts()
    wanted = of_files(settings, records, tmp_path / "archive.jsonl")
    held = {key for key, (kind, *_) in wanted.items() if kind == "duplicate"}
    also = {key for key, (kind, *_) in came.items() if kind == "duplicate"}
    # Of two copies another one may come first.
    assert len(also) == pytest.approx(len(held), rel=0.1)
