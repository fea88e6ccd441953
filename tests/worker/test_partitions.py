"""Every record comes out once for any number of partitions, with and without keys, also when topics grow."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from stream_dedup.errors import TransactionFailed
from stream_dedup.settings import Settings
from stream_dedup.worker.group import Group
from tests.harness.check import final_outcome, header, outcome
from tests.harness.feed import Sent, feed, made_up
from tests.harness.member import Member
from tests.harness.topics import Make, administrator
from tests.harness.wait import wait_until
from tests.worker.support import context

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
Names = Callable[[str], str]
# A growth is noticed when a client refreshes its metadata, otherwise every 30 s.
QUICK = {"metadata_ms": 3000}


def grow(settings: Settings, **partitions: int) -> None:
    """Add partitions to topics, named by their roles."""
    with administrator(settings) as admin:
        admin.create_partitions({getattr(settings.topics, role): count for role, count in partitions.items()})


def mixed(count: int, seed: int = 1) -> Iterator[tuple[bytes | None, bytes]]:
    """Made-up articles, every second one without a key."""
    for i, (key, value) in enumerate(made_up(count, seed)):
        yield (key if i % 2 else None), value


def places(records: Iterable[Any]) -> Counter[str | None]:
    return Counter(header(record, "dedup-source") for record in records)


def assert_each_once(settings: Settings, sent: Iterable[Sent]) -> list[Any]:
    """Assert that every input record came out once and unchanged; returns the records that came out."""
    sent = list(sent)
    came = final_outcome(settings, len(sent))
    records = came.every
    found = places(records)
    expected = {f"{settings.topics.input}/{one.partition}/{one.offset}": one for one in sent}
    assert not expected.keys() - found.keys(), "lost"
    assert not found.keys() - expected.keys(), "never sent"
    assert max(found.values()) == 1, "came twice"
    for record in records:
        one = expected[header(record, "dedup-source") or ""]
        assert (record.key, record.value, record.timestamp) == (one.key, one.value, one.timestamp)
    return records


def wait_for(settings: Settings, count: int) -> None:
    """Wait until this many records have come out."""
    wait_until(lambda: len(places(outcome(settings).every)) >= count, f"{count} came out", 120)


@pytest.mark.slow
def test_topics_grow_under_a_running_member(make: Make) -> None:
    """The input grows from 6 to 8 partitions, the output from 4 to 7. The model grows topics between crashes, too."""
    settings = make(4, worker={"batch_items": 50, "session_timeout": "1s"})
    grow(settings, input=6)
    sent = feed(settings, mixed(500), partition=None)
    with Member(settings, QUICK) as member:
        member.go().wait_for("opened", 60, partitions=[0, 1, 2, 3, 4, 5])
        grow(settings, input=8, output=7)
        sent += feed(settings, mixed(500, seed=2), partition=None)
        member.wait_for("opened", 120, partitions=[0, 1, 2, 3, 4, 5, 6, 7])
        wait_for(settings, len(sent))
        sent += feed(settings, mixed(2_000, seed=3), partition=None)
        wait_for(settings, len(sent))
        member.stop()
        assert not [event for event in member.drain() if event["event"] == "error"], "growth is not a failure"
    records = assert_each_once(settings, sent)
    assert {one.partition for one in sent} == set(range(8))
    assert {record.partition for record in records if record.topic == settings.topics.output} == set(range(7))


def test_a_partition_that_not_every_broker_knows_yet_is_worth_another_try(make: Make) -> None:
    """The client leaves it out of its answer and fails with a KeyError; after TransactionFailed the worker goes on."""
    settings = make(2)
    group = Group(context(settings))
    try:
        assert group.beginnings([0, 1]) == {0: 0, 1: 0}
        with pytest.raises(TransactionFailed, match=r"first offsets.*partition 7"):
            group.beginnings([0, 7])
    finally:
        group.leave()
