"""The three forms of a schema registry on a real Kafka: verdicts as of their JSON, and a registry that goes away."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stream_dedup.observe.health import Health, Status
from stream_dedup.observe.watch import ObserverGroup
from stream_dedup.settings import Settings
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from stream_dedup.worker.worker import Worker
from tests.harness.check import assert_exactly_once, from_scratch, header
from tests.harness.feed import Sent, feed, made_up
from tests.harness.topics import make_settings, ready
from tests.harness.wait import wait_until
from tests.registry.server import (
    FORMS,
    RegistryServer,
    as_json,
    frame,
)
from tests.worker.support import Watching, run_until

pytestmark = pytest.mark.kafka
Names = Callable[[str], str]


def articles(count: int) -> list[dict[str, Any]]:
    """Made-up articles, a third of them copies."""
    found = [json.loads(value) for _, value in made_up(count)]
    return [
        {"id": one["id"], "title": one["title"], "text": one["text"], "url": f"https://{one['source']}/{one['id']}"}
        for one in found
    ]


Encode = Callable[[dict[str, Any]], bytes]


def encoders(registry: RegistryServer) -> dict[str, Encode]:
    """By kind: what a producer makes of an article, under a schema that is registered now."""
    numbers = {kind: registry.register(kind, schema) for kind, (schema, _) in FORMS.items()}

    def encoder(kind: str) -> Encode:
        return lambda item: frame(numbers[kind], FORMS[kind][1](item))

    return {kind: encoder(kind) for kind in FORMS}


@pytest.mark.parametrize("kind", FORMS)
def test_a_thousand_items_get_the_verdicts_of_their_json(
    kafka: EmbeddedKafka, topic_name: Names, registry: RegistryServer, kind: str
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, registry={"url": registry.url}))
    encode, items = encoders(registry)[kind], articles(1000)
    sent = feed(settings, [(item["id"].encode(), encode(item)) for item in items])
    run_until(settings, len(sent))
    came = assert_exactly_once(settings, sent)
    twins = [
        Sent(one.partition, one.offset, one.key, as_json(item), [], one.timestamp)
        for one, item in zip(sent, items, strict=True)
    ]
    expected = from_scratch(settings, twins)
    assert came.verdicts() == expected
    assert len(came.duplicates) > 100
    values = {one.key: one.value for one in sent}
    assert all(record.value == values[record.key] for record in came.every), "republished byte for byte"


class Members(Watching):
    """Counts rebalances, too."""

    def __init__(self) -> None:
        super().__init__()
        self.rebalances = 0

    def rebalanced(self, partitions: Sequence[int]) -> None:
        self.rebalances += 1


def test_a_registry_that_is_down_for_a_while_delays_and_loses_nothing(
    kafka: EmbeddedKafka, topic_name: Names, registry: RegistryServer
) -> None:
    settings = ready(
        make_settings(kafka.bootstrap, topic_name, registry={"url": registry.url}, worker={"batch_items": 40})
    )
    before, after = encoders(registry), encoders(registry)  # the ids of `after` are not known when it goes away
    items = articles(600)
    values = [before["AVRO"](item) for item in items[:200]]
    values += [(after["AVRO"], after["PROTOBUF"], as_json)[i % 3](item) for i, item in enumerate(items[200:])]
    records = [(item["id"].encode(), value) for item, value in zip(items, values, strict=True)]
    health, members, stop = Health(60.0), Members(), threading.Event()
    feed(settings, records[:120])
    worker = Worker(settings, observer=ObserverGroup(health, members))
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        members.wait_judged(120)
        assert health.state().status is Status.OK
        registry.stop()
        feed(settings, records[120:])
        members.wait_judged(200)
        wait_until(lambda: health.state().status is Status.DEGRADED, "degraded")
        time.sleep(2 * settings.worker.session_timeout.total_seconds())
        state = health.state()
        assert (state.status, state.healthy, state.alive) == (Status.DEGRADED, True, True)
        assert "the schema registry" in state.reason
        assert members.judged == 200, "what came before goes out, and no record behind"
        rebalances = members.rebalances
        registry.start()
        members.wait_judged(600)
        wait_until(lambda: health.state().status is Status.OK, "ok")
        assert members.rebalances == rebalances == 1, "the member stayed in its group"
    finally:
        stop.set()
        thread.join(15)
    sent = [Sent(0, i, key, value, [], 0) for i, (key, value) in enumerate(records)]
    came = assert_exactly_once(settings, sent)
    assert not came.dead_letters
    offsets = [int((header(record, "dedup-source") or "").rpartition("/")[2]) for record in came.output]
    assert offsets == sorted(offsets)


def test_broken_ones_are_dead_letters_with_the_reason(
    kafka: EmbeddedKafka, topic_name: Names, registry: RegistryServer
) -> None:
    settings: Settings = ready(make_settings(kafka.bootstrap, topic_name, registry={"url": registry.url}))
    encode, [item] = encoders(registry), articles(1)
    values = {
        "unknown": frame(99, b"\x06Elm"), "cut": encode["AVRO"](item)[:-9], "long": encode["AVRO"](item) + b"\0",
        "protobuf": frame(3, b"\x02\x10"), "json": frame(2, b"[]"), "good": encode["AVRO"](item),
    }  # fmt: skip
    sent = feed(settings, [(name.encode(), value) for name, value in values.items()])
    run_until(settings, len(sent))
    came = assert_exactly_once(settings, sent)
    details = {record.key.decode(): header(record, "dedup-detail") for record in came.dead_letters}
    assert set(details) == set(values) - {"good"}
    assert {header(record, "dedup-reason") for record in came.dead_letters} == {"schema"}
    assert "schema 99: the registry has no such schema" in str(details["unknown"])
