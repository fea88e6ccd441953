"""Split mode on a real Kafka: the same verdicts as one worker, and each item exactly once, whichever role is killed."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import StreamError
from stream_dedup.settings import Settings
from stream_dedup.stream.roles.names import RoleName
from stream_dedup.stream.roles.role import Role
from stream_dedup.stream.transaction import CommitStep
from tests.stream.support import (
    Member,
    Sent,
    assert_exactly_once,
    feed,
    final_outcome,
    from_scratch,
    made_up,
    make_settings,
    read_all,
    ready,
    run_until,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
Names = Callable[[str], str]
STEPS = ["fingerprint", "judge", "publish"]


@contextmanager
def members(settings: Settings, *roles: str) -> Iterator[list[Member]]:
    """A member of each of these roles."""
    with ExitStack() as stack:
        yield [stack.enter_context(Member(settings, {"role": role})).go() for role in roles]


def wait_for(settings: Settings, count: int, seconds: float = 60) -> None:
    """Wait until `count` items are published."""
    deadline = time.monotonic() + seconds
    while True:
        came = final_outcome(settings, count)
        if sum(came.fates.values()) >= count:
            return
        assert time.monotonic() < deadline, f"{sum(came.fates.values())} of {count} items are published"


def assert_as_one_worker(settings: Settings, sent: list[Sent], records: list[Any]) -> None:
    """Each item has one outcome, and the verdicts are those of one run over the input in its order."""
    came = assert_exactly_once(settings, sent)
    expected = from_scratch(settings, records)
    verdicts = {key: (kind, of if kind == "duplicate" else None) for key, (kind, of) in came.verdicts().items()}
    assert verdicts == expected


def test_two_of_each_role_decide_as_one_worker(kafka: EmbeddedKafka, topic_name: Names) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 100}), is_split=True)
    with members(settings, *STEPS, *STEPS):
        sent = feed(settings, [*made_up(1500), (b"gone", None), (b"broken", b"{")], compression="lz4")
        wait_for(settings, len(sent))
    assert_as_one_worker(settings, sent, read_all(settings, settings.topics.input))
    came = final_outcome(settings, len(sent))
    by_key = {record.key: record for record in [*came.output, *came.duplicates, *came.dead_letters]}
    assert all(by_key[one.key].value == one.value for one in sent)
    assert all(by_key[one.key].timestamp == one.timestamp for one in sent)
    assert not any(b"headline" in record.value for record in read_all(settings, settings.topics.fingerprints))


def test_the_partitions_are_shared(kafka: EmbeddedKafka, topic_name: Names) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 100}), 4, is_split=True)
    with members(settings, *STEPS, "fingerprint", "publish") as started:
        items = list(made_up(1200))
        sent = [one for p in range(4) for one in feed(settings, items[p::4], partition=p)]
        wait_for(settings, len(sent))
        time.sleep(0.5)
        for member in (started[0], started[2], started[3], started[4]):
            assert any(event["event"] == "batch" for event in member.drain()), "a member had nothing to do"
    assert_exactly_once(settings, sent)


@pytest.mark.parametrize("step", [CommitStep.CHANGELOG, CommitStep.COMMIT], ids=lambda step: step.name.lower())
def test_each_role_is_killed_at_a_step(kafka: EmbeddedKafka, topic_name: Names, step: CommitStep) -> None:
    killed_at_steps(kafka, topic_name, [step])


@pytest.mark.soak
def test_each_role_is_killed_at_each_step(kafka: EmbeddedKafka, topic_name: Names) -> None:
    killed_at_steps(kafka, topic_name, list(CommitStep))


def killed_at_steps(kafka: EmbeddedKafka, topic_name: Names, steps: list[CommitStep]) -> None:
    worker = {"batch_items": 40, "session_timeout": "1s"}
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker=worker), is_split=True)
    items = list(made_up(1000 * len(steps) + 1000))
    sent: list[Sent] = []
    for number, step in enumerate(steps):
        sent += feed(settings, items[1000 * number : 1000 * (number + 1)])
        with ExitStack() as stack:
            for role in STEPS:
                # In its second transaction, so that one is done; its successor works while the next role is killed.
                doomed = stack.enter_context(Member(settings, {"role": role, "kill": [step, 2]})).go()
                doomed.wait_killed(60)
                stack.enter_context(Member(settings, {"role": role})).go()
            # Leaving the stack kills the three successors at a moment of their own.
    sent += feed(settings, items[1000 * len(steps) :])
    with members(settings, *STEPS):
        wait_for(settings, len(sent), 90)
    # The timestamps begin anew with each call of `feed`, in the expected verdicts too.
    assert_as_one_worker(settings, sent, read_all(settings, settings.topics.input))


def test_from_one_worker_to_split_mode_and_back(kafka: EmbeddedKafka, topic_name: Names) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 100}), is_split=True)
    items = list(made_up(900))
    sent = feed(settings, items[:300])
    run_until(settings, 300)
    sent += feed(settings, items[300:600])
    with members(settings, *STEPS) as started:
        wait_for(settings, 600)
        for member in started:
            member.stop()
    sent += feed(settings, items[600:])
    run_until(settings, 300)
    assert_as_one_worker(settings, sent, read_all(settings, settings.topics.input))


def test_one_worker_refuses_to_leave_out_what_waits(kafka: EmbeddedKafka, topic_name: Names) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name), is_split=True)
    feed(settings, made_up(50))
    with members(settings, "fingerprint") as [fingerprint]:
        fingerprint.wait_for("batch")
        fingerprint.stop()
    with pytest.raises(StreamError, match=f"{settings.topics.fingerprints} has blocks that group .*-judge has not"):
        run_until(settings, 50)
    with members(settings, "judge") as [judge]:
        judge.wait_for("batch")
        judge.stop()
    group = Role.of(RoleName.PUBLISH, settings).group_id
    with pytest.raises(StreamError, match=f"{settings.topics.verdicts} has blocks that group {group} has not"):
        run_until(settings, 50)


def test_a_missing_topic_is_named(kafka: EmbeddedKafka, topic_name: Names) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name))
    with members(settings, "fingerprint") as [member]:
        error = member.wait_for("error")
    assert (
        f"{settings.topics.fingerprints} does not exist; create it with: stream-dedup topics create --split"
        in (error["error"])
    )
