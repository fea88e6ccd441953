"""Where a worker resumes on a real Kafka: recreated topics, lost offsets, markers, a lost changelog."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.structs import OffsetAndMetadata

from stream_dedup.errors import TopicError
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from stream_dedup.tools.topics.setup import create_topics
from tests.harness.check import assert_exactly_once, outcome, read_all
from tests.harness.feed import START, feed, made_up
from tests.harness.topics import Make, ready
from tests.harness.wait import wait_until
from tests.worker.support import fails, run_until, running

pytestmark = pytest.mark.kafka
Names = Callable[[str], str]
Records = Iterable[tuple[bytes | None, bytes | None]]


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> Iterator[Any]:
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as client:
        yield client


@pytest.fixture
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker notices a recreated topic within half a second."""
    monkeypatch.setattr("stream_dedup.worker.topic_watch._CHECK_SECONDS", 0.5)


def others(count: int, seed: int = 7) -> list[tuple[bytes, bytes]]:
    """Items with keys of their own."""
    return [(b"other-%d-%s" % (seed, key), value) for key, value in made_up(count, seed=seed)]


def recreate(admin: Any, topic: str, partitions: int = 1, **configs: str) -> None:
    admin.delete_topics([topic])
    wait_until(lambda: admin.describe_topics([topic])[0]["error_code"], f"{topic} is gone", 30)
    admin.create_topics({topic: {"num_partitions": partitions, "configs": configs}}, wait_for_metadata=True)


def alter(admin: Any, topic: str, values: Mapping[str, Any]) -> None:
    texts = {key: str(value) for key, value in values.items()}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, texts)])


def delete_to(admin: Any, topic: str, offset: int, partition: int = 0) -> None:
    admin.delete_records({TopicPartition(topic, partition): offset})


def reset_offsets(admin: Any, settings: Settings, offsets: Mapping[int, int]) -> None:
    """Set the group's offsets, as kafka-consumer-groups.sh --reset-offsets does."""
    new = {TopicPartition(settings.topics.input, one): OffsetAndMetadata(at, "", -1) for one, at in offsets.items()}
    admin.alter_group_offsets(settings.kafka.group_id, new)


def end_of_topic(settings: Settings, admin: Any, topic: str, partition: int = 0) -> int:
    place = TopicPartition(topic, partition)
    return int(admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset)


# -- a recreated or another input topic --------------------------------------------------------------------------------


def test_a_recreated_input_topic_is_refused_until_a_person_resets_the_offsets(settings: Settings, admin: Any) -> None:
    sent = feed(settings, made_up(30))
    run_until(settings, 30)
    recreate(admin, settings.topics.input)
    sent += feed(settings, others(40))
    message = fails(settings, "was deleted and created anew", TopicError)
    assert "groups set-offset earliest" in message
    reset_offsets(admin, settings, {0: 0})
    run_until(settings, 40)
    assert_exactly_once(settings, sent)


@pytest.mark.usefixtures("quick_watch")
def test_topics_that_are_altered_or_deleted_under_a_worker_are_named_at_once(
    settings: Settings, admin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    names, day = settings.topics, 24 * 3600 * 1000
    alter(admin, names.input, {"retention.ms": 3 * day})
    alter(admin, names.changelog, {"retention.ms": (7 + 3 + 1) * day})
    caplog.set_level(logging.WARNING)
    sent = feed(settings, made_up(10))
    with running(settings) as worker:
        worker.wait_judged(10)
        alter(admin, names.input, {"retention.ms": 4 * day})
        raised = f"{names.changelog} retains less than {12 * day} ms"
        wait_until(lambda: raised in caplog.text, "a raised retention is said", 30)
        alter(admin, names.input, {"retention.ms": day})
        wait_until(
            lambda: f"{names.input}: retention.ms is {day}, and was {4 * day}" in caplog.text, "a lowered one", 30
        )
        admin.delete_topics([names.dead_letters])
        gone = f"{names.dead_letters} does not exist; create it with: stream-dedup topics create"
        wait_until(lambda: gone in caplog.text, "a deleted topic is named", 30)
        assert caplog.text.count(raised) == 1
        create_topics(settings)
    assert_exactly_once(settings, sent)


@pytest.mark.usefixtures("quick_watch")
@pytest.mark.slow
def test_a_second_deployment_with_the_same_group_and_another_output_is_refused(
    settings: Settings, topic_name: Names, admin: Any
) -> None:
    """As a standby it would wait in silence, and after a take-over the first output would lack items."""
    own = {role: topic_name(f"second-{role}") for role in ("output", "duplicates", "dead_letters", "changelog")}
    second = ready(
        load_settings(
            kafka=settings.kafka.model_dump(),
            topics={**settings.topics.model_dump(), **own},
            worker=settings.worker.model_dump(),
        )
    )
    sent = feed(settings, made_up(30))
    expected = f"{settings.kafka.group_id} writes to {settings.topics.output}, and here .* is {own['output']}"
    with running(settings) as first:
        first.wait_judged(30)
        message = fails(second, expected, TopicError)
        assert "give this one a [kafka] group_id and a [topics] changelog of its own" in message
        assert "groups set-offset current" in message
        sent += feed(settings, others(10))
        first.wait_judged(40)
    assert_exactly_once(settings, sent)
    fails(second, expected, TopicError)  # the role is free, and it does not take it
    assert not outcome(second).fates
    reset_offsets(admin, settings, {0: end_of_topic(settings, admin, settings.topics.input)})
    feed(second, others(5, seed=8))
    run_until(second, 5)
    assert len(outcome(second).fates) == 5, "as the message says"


@pytest.mark.usefixtures("quick_watch")
@pytest.mark.slow
def test_a_member_with_another_changelog_is_refused(settings: Settings, topic_name: Names, admin: Any) -> None:
    """One member of a rolling update has it: as a standby it would wait in silence, and after a take-over copies of
    everything would go out.
    """
    topics = settings.topics.model_copy(update={"changelog": topic_name("another-changelog")})
    second = ready(settings.model_copy(update={"topics": topics}))
    feed(settings, made_up(30))
    expected = f"keeps its memory in {settings.topics.changelog}, and here .* is {topics.changelog}, which lacks"
    with running(settings) as first:
        first.wait_judged(30)
        message = fails(second, expected, TopicError)
        assert "groups set-offset current" in message
        again = [(b"again-" + key, value) for key, value in made_up(30)]
        feed(settings, again)
        first.wait_judged(60)
    fails(second, expected, TopicError)  # the role is free, and it does not take it
    assert not [record for record in outcome(second).output if record.key.startswith(b"again-")]
    reset_offsets(admin, settings, {0: end_of_topic(settings, admin, settings.topics.input)})
    feed(second, others(5))
    run_until(second, 5)  # as the message says
    fails(settings, f"keeps its memory in {topics.changelog}, and here .* is {settings.topics.changelog}", TopicError)


@pytest.mark.usefixtures("quick_watch")
def test_an_input_topic_that_is_recreated_under_a_running_worker_ends_it(settings: Settings, admin: Any) -> None:
    feed(settings, made_up(30))
    with running(settings) as watching:
        watching.wait_judged(30)
        recreate(admin, settings.topics.input)
        feed(settings, others(40))
        wait_until(lambda: TopicError in map(type, watching.errors), "the worker ends")
    assert "was deleted and created anew" in str(watching.errors[-1])
    fails(settings, "was deleted and created anew", TopicError)


# -- no offsets anywhere -----------------------------------------------------------------------------------


def test_an_output_that_is_not_empty_is_not_filled_again_by_a_new_group(
    settings: Settings, topic_name: Names, admin: Any
) -> None:
    """The worker of the new group must end with an error that names the command."""
    feed(settings, made_up(30))
    run_until(settings, 30)
    other = ready(
        load_settings(
            kafka={**settings.kafka.model_dump(), "group_id": topic_name("other-group")},
            topics={**settings.topics.model_dump(), "changelog": topic_name("other-changelog")},
            worker=settings.worker.model_dump(),
        )
    )
    fails(other, f"{settings.topics.output} has had records.*there are no offsets of .* to resume at")


# -- markers -----------------------------------------------------------------------------------


def feed_in_transaction(settings: Settings, records: Records, partition: int = 0, *, abort: bool = False) -> None:
    feeder = f"feeder-{settings.topics.input}"
    with closing(
        KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers, transactional_id=feeder)
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for i, (key, value) in enumerate(records):
            producer.send(settings.topics.input, value, key, partition=partition, timestamp_ms=START + i)
        producer.flush()
        producer.abort_transaction() if abort else producer.commit_transaction()


@pytest.mark.slow
def test_positions_past_markers_are_committed_after_a_while(
    make: Make, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_dedup.worker.worker._MARKERS_SECONDS", 0.5)
    settings = make(2)
    place = TopicPartition(settings.topics.input, 1)
    with running(settings) as watching:
        feed(settings, made_up(5), partition=1)
        watching.wait_judged(5)
        feed_in_transaction(settings, others(10), partition=1, abort=True)
        end = 5 + 10 + 1
        # The marker is written after the feeder has its answer.
        wait_until(lambda: end_of_topic(settings, admin, settings.topics.input, 1) == end, "the marker is written")

        def committed() -> int:
            group = settings.kafka.group_id
            return int(admin.list_group_offsets({group: [place]})[group][place].offset)

        wait_until(lambda: committed() == end, "the position past the aborted transaction is committed")
        blocks = len(read_all(settings, settings.topics.changelog))
        time.sleep(2)
        assert len(read_all(settings, settings.topics.changelog)) == blocks, "once, not again and again"
    delete_to(admin, settings.topics.input, end, partition=1)
    feed(settings, others(5, seed=8))
    run_until(settings, 5)


# -- a damaged changelog ------------------------------------------------------------------------------


def warnings(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [one.message for one in caplog.records if one.levelno >= level and one.name.startswith("stream_dedup")]


def remake_changelog(admin: Any, settings: Settings) -> None:
    configs = {"cleanup.policy": "delete", "retention.ms": "-1"}
    recreate(admin, settings.topics.changelog, 2, **configs)


@pytest.mark.usefixtures("quick_watch")
@pytest.mark.slow
def test_a_changelog_recreated_under_a_running_worker_is_reported_and_the_index_stays(
    settings: Settings, admin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    feed(settings, made_up(30))
    with running(settings) as watching:
        watching.wait_judged(30)
        known = watching.judged
        remake_changelog(admin, settings)
        wait_until(lambda: warnings(caplog, logging.ERROR), "an ERROR is logged")
        again = [(b"again-" + key, value) for key, value in made_up(30)]
        feed(settings, again)
        watching.wait_judged(known + 30)
        time.sleep(2)  # four more checks
    message = warnings(caplog, logging.ERROR)
    assert len(message) == 1, message
    assert "was deleted and created anew" in message[0]
    came = outcome(settings)
    assert not [record for record in came.output if record.key.startswith(b"again-")], "the index is still there"


def test_a_changelog_that_has_lost_its_beginning_is_reported_at_the_take_over(
    make: Make, admin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings = make(worker={"batch_items": 50})
    feed(settings, made_up(300))
    run_until(settings, 300)
    delete_to(admin, settings.topics.changelog, end_of_topic(settings, admin, settings.topics.changelog) - 2)
    feed(settings, others(5))
    caplog.clear()
    run_until(settings, 5)
    [message] = warnings(caplog, logging.ERROR)
    assert "originals" in message


@pytest.mark.parametrize("partition", [0, 1], ids=["blocks", "folds"])
@pytest.mark.slow
def test_a_foreign_transaction_in_the_changelog_is_reported_soon(
    settings: Settings, kafka: EmbeddedKafka, topic_name: Names, caplog: pytest.LogCaptureFixture, partition: int
) -> None:
    feed(settings, made_up(30))
    run_until(settings, 30)
    foreign = KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic_name("foreign"))
    try:
        foreign.init_transactions()
        foreign.begin_transaction()
        foreign.send(settings.topics.changelog, b"x", b"y", partition=partition).get(10)
        with running(settings):
            wait_until(lambda: any("open transaction" in one for one in warnings(caplog)), "it is reported", 30)
        [message] = [warning for warning in warnings(caplog) if "open transaction" in warning]
        assert f"{settings.topics.changelog}-{partition} stands still" in message
        assert "find-hanging" in message
    finally:
        foreign.abort_transaction()
        foreign.close()
