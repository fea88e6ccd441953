"""The rights in deploy/README.md are exactly those that the worker needs: without any of them it ends.

The tests use the embedded Kafka with an authorizer and a second listener that requires a user and a password.
"""

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random
from typing import Any

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)

from stream_dedup.errors import StreamError
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.topics.give_back import give_back
from stream_dedup.tools.topics.live_reader import LiveReader
from stream_dedup.tools.topics.migration import Migration
from stream_dedup.tools.topics.setup import create_topics
from stream_dedup.tools.topics.trial import Ended, Trial, run_trial
from stream_dedup.worker.cluster_watch import BrokerProbe
from tests.broker import EmbeddedKafka, Listener
from tests.deploy.files import DEPLOY
from tests.harness.feed import START, article, feed
from tests.worker.support import run_until

pytestmark = [pytest.mark.operate, pytest.mark.kafka]
PASSWORD = "open sesame"  # noqa: S105 - of this test's broker
CURE = r"compare its ACLs .* with those in deploy/README\.md, Topics and rights"
RIGHTS = [
    line
    for line in (DEPLOY / "README.md").read_text("utf-8").splitlines()
    if line.startswith("kafka-acls.sh --add --allow-principal User:stream-dedup ")
]


class GuardedKafka(EmbeddedKafka):
    """A Kafka whose second listener demands rights; clients of the embedded Kafka's own listener may do everything."""

    def __init__(self) -> None:
        login = "org.apache.kafka.common.security.plain.PlainLoginModule"
        super().__init__(
            listeners={"GUARDED": Listener("SASL_PLAINTEXT")},
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.guarded.plain.sasl.jaas.config": f'{login} required user_stream-dedup="{PASSWORD}";',
            },
        )


def acls() -> Iterator[ACL]:
    """Yield each right of the README's commands."""
    for line in RIGHTS:
        resource_type, name = re.findall(r"--(topic|group|transactional-id) (\S+)", line)[0]
        pattern = ACLResourcePatternType.PREFIXED if "prefixed" in line else ACLResourcePatternType.LITERAL
        for operation in re.findall(r"--operation (\S+)", line):
            number = ACLOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()]
            yield right_to(number, name, ResourceType[resource_type.replace("-", "_").upper()], pattern)


def right_to(
    operation: ACLOperation,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ACLResourcePatternType = ACLResourcePatternType.LITERAL,
) -> ACL:
    return ACL("User:stream-dedup", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name, pattern))


def right_id(acl: ACL) -> str:
    return f"{acl.operation.name} on {acl.resource_pattern.resource_name}"


def expected_error(acl: ACL) -> str:
    """Return the pattern of the worker's error without the right: Kafka's error, the resource, and the cure."""
    resource_type, name = acl.resource_pattern.resource_type, acl.resource_pattern.resource_name
    if acl.operation is ACLOperation.DESCRIBE_CONFIGS:
        return f"--operation DescribeConfigs --topic {name}"
    if resource_type is ResourceType.TOPIC:
        return f"TopicAuthorizationFailedError.*{name}.*{CURE}"
    prefix = "Group" if resource_type is ResourceType.GROUP else "TransactionalId"
    return f"{prefix}AuthorizationFailedError.*{CURE}"


@pytest.fixture(scope="module")
def broker(kafka_prepared: None) -> Iterator[GuardedKafka]:
    with GuardedKafka() as kafka:
        create_topics(load_settings(kafka={"bootstrap_servers": kafka.bootstrap}), partitions=1)
        with administrator(kafka) as admin:
            admin.create_acls(list(acls()))
        yield kafka


def administrator(kafka: EmbeddedKafka) -> Any:
    return closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap))


def as_worker(kafka: GuardedKafka) -> Settings:
    return load_settings(
        kafka={
            "bootstrap_servers": kafka.addresses["GUARDED"],
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "stream-dedup",
            "sasl_password": PASSWORD,
        },
        worker={"session_timeout": "1500ms", "transaction_timeout": "10s"},
    )


def send_records(kafka: GuardedKafka, name: str, topic: str = "news.raw") -> int:
    """Send one record for each topic that the worker writes to; return their number."""
    settings = load_settings(kafka={"bootstrap_servers": kafka.bootstrap}, topics={"input": topic})
    # All tests of this broker share an index, so the items of another name have other words.
    chance = Random(name)
    text = " ".join("".join(chance.choices("abdefgiklmnoprstuv", k=7)) for _ in range(20))
    first, copy = (article(f"{name}-{n}", text, f"The {name} of the town", f"{n}.example") for n in "ab")
    return len(feed(settings, [(f"{name}-a".encode(), first), (f"{name}-b".encode(), copy), (b"broken", b"{")]))


def test_the_listed_rights_are_enough(broker: GuardedKafka) -> None:
    """`run_until` raises the error that ends the worker, or asserts that the records are judged."""
    run_until(as_worker(broker), send_records(broker, "all rights"))
    with closing(BrokerProbe(as_worker(broker))) as question:
        question()


@pytest.mark.parametrize("right", list(acls()), ids=right_id)
def test_the_worker_ends_without_any_one_of_them_and_names_it(broker: GuardedKafka, right: ACL) -> None:
    count = send_records(broker, right_id(right))
    with administrator(broker) as admin:
        admin.delete_acls([right])
        try:
            with pytest.raises(StreamError, match=expected_error(right)):
                run_until(as_worker(broker), count, 30)
        finally:
            admin.create_acls([right])
    run_until(as_worker(broker), count)


def test_a_trial_needs_only_to_read_its_topic(broker: GuardedKafka) -> None:
    """A topic that it may not read is an error, not an empty topic."""
    settings = as_worker(broker)
    with administrator(broker) as admin:
        admin.create_topics({"foreign": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        count = send_records(broker, "trial", "foreign")
        with pytest.raises(StreamError, match=r"there is no topic foreign|TopicAuthorizationFailed"), \
                LiveReader(settings, "foreign") as reading:  # fmt: skip
            reading.begin(0)
        admin.create_acls([right_to(ACLOperation.READ, "foreign")])
    deadline = time.monotonic() + 30
    while True:  # the right takes a moment
        try:
            with LiveReader(settings, "foreign") as reading, Trial(settings, "foreign") as trial:
                reading.begin(0)
                ended = run_trial(reading, trial, items=count, seconds=30, stop=lambda: False)
                assert (trial.items, ended) == (count, (Ended.ITEMS, None))
                return
        except StreamError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_giving_back_needs_to_read_the_duplicates(broker: GuardedKafka) -> None:
    settings = as_worker(broker)
    run_until(settings, send_records(broker, "give back"))
    with pytest.raises(StreamError, match=f"TopicAuthorizationFailedError.*{settings.topics.duplicates}.*{CURE}"):
        give_back(settings, "give back-b", 0, "by hand")
    with granted(broker, (ACLOperation.READ, settings.topics.duplicates)):
        assert give_back(settings, "give back-b", 0, "by hand").decision["original"]["id"] == "give back-a"


@contextmanager
def granted(broker: GuardedKafka, *rights: tuple[ACLOperation, str]) -> Iterator[None]:
    """Grant the worker's user more rights on topics."""
    more = [right_to(*right) for right in rights]
    with administrator(broker) as admin:
        admin.create_acls(more)
        try:
            yield
        finally:
            admin.delete_acls(more)


def test_the_worker_may_not_create_topics(broker: GuardedKafka) -> None:
    settings = load_settings(kafka=as_worker(broker).kafka.model_dump(), topics={"changelog": "news.another-changelog"})
    with pytest.raises(StreamError, match=f"AuthorizationFailedError.*{CURE}"):
        create_topics(settings, partitions=1)


def test_a_migration_needs_the_listed_rights_and_names_each_that_is_missing(broker: GuardedKafka) -> None:
    """Those of the worker, those on the new changelog, and Read on the output."""
    topics, fingerprint, worker = {"changelog": "news.new-changelog"}, {"verify": "exact"}, as_worker(broker)
    settings = load_settings(
        kafka=worker.kafka.model_dump(), worker=worker.worker.model_dump(), topics=topics, fingerprint=fingerprint
    )
    create_topics(load_settings(kafka={"bootstrap_servers": broker.bootstrap}, topics=topics), partitions=1)
    run_until(worker, send_records(broker, "migration"))
    of_changelog, read = topics["changelog"], ACLOperation.READ
    rights = [
        (read, settings.topics.output),
        (ACLOperation.WRITE, of_changelog),
        (ACLOperation.DESCRIBE_CONFIGS, of_changelog),
        (read, of_changelog),
    ]

    def migrate() -> str:
        return Migration(settings, lambda progress: None, clock=lambda: START / 1000 + 60).run().phase

    for missing in rights:
        if missing == (read, of_changelog):  # nothing is read of an empty changelog
            with granted(broker, *rights):
                assert migrate() == "done"
        expected = f"AuthorizationFailedError.*{missing[1]}|--operation DescribeConfigs --topic {missing[1]}"
        with granted(broker, *(right for right in rights if right != missing)), \
                pytest.raises(StreamError, match=expected):  # fmt: skip
            migrate()
