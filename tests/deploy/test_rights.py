"""The rights that deploy/README.md lists are what the worker needs: with them it works, without any one it does not.

On a real Kafka that authorises: the embedded one with a listener for a user and a password beside its own.
"""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import StreamError
from stream_dedup.settings import Settings, load_settings
from stream_dedup.stream.broker_watch import BrokerProbe
from stream_dedup.stream.live_reader import LiveReader
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.topics import create_topics
from stream_dedup.stream.trial import Ended, Trial, run_trial
from stream_dedup.stream.worker import Worker
from tests.deploy.files import DEPLOY
from tests.stream.support import article, feed

pytestmark = [pytest.mark.operate, pytest.mark.kafka]
PASSWORD = "open sesame"  # noqa: S105 - of this test's broker
RIGHTS = [
    line
    for line in (DEPLOY / "README.md").read_text("utf-8").splitlines()
    if line.startswith("kafka-acls.sh --add --allow-principal User:stream-dedup ")
]


class GuardedKafka(EmbeddedKafka):
    """Every right must be given; who comes through the embedded Kafka's own listener may do everything."""

    guarded: str

    def _format(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        self.guarded = f"127.0.0.1:{port}"
        text = self._properties.read_text("utf-8")
        text = re.sub(r"^((?:advertised\.)?listeners=.*)$", rf"\1,GUARDED://{self.guarded}", text, flags=re.M)
        text = text.replace("protocol.map=", "protocol.map=GUARDED:SASL_PLAINTEXT,")
        login = "org.apache.kafka.common.security.plain.PlainLoginModule"
        text += f"""
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=PLAIN
listener.name.guarded.plain.sasl.jaas.config={login} required user_stream-dedup="{PASSWORD}";
"""
        self._properties.write_text(text, "utf-8")
        super()._format()


def acls() -> Iterator[ACL]:
    """Each single right of the README's commands."""
    kinds = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "transactional-id": ResourceType.TRANSACTIONAL_ID,
    }
    for line in RIGHTS:
        kind, name = re.findall(r"--(topic|group|transactional-id) (\S+)", line)[0]
        pattern = ACLResourcePatternType.PREFIXED if "prefixed" in line else ACLResourcePatternType.LITERAL
        for operation in re.findall(r"--operation (\S+)", line):
            number = ACLOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()]
            resource = ResourcePattern(kinds[kind], name, pattern)
            yield ACL("User:stream-dedup", "*", number, ACLPermissionType.ALLOW, resource)


def named(acl: ACL) -> str:
    return f"{acl.operation.name} on {acl.resource_pattern.resource_name}"


def message(acl: ACL) -> str:
    """What the worker says without it: Kafka's word, and the topic or what it is about."""
    kind, name = acl.resource_pattern.resource_type, acl.resource_pattern.resource_name
    if acl.operation is ACLOperation.DESCRIBE_CONFIGS:
        return f"--operation DescribeConfigs --topic {name}"
    if kind is ResourceType.TOPIC:
        return f"TopicAuthorizationFailedError.*{name}"
    return "GroupAuthorizationFailedError" if kind is ResourceType.GROUP else "TransactionalIdAuthorizationFailedError"


def filter_of(acl: ACL) -> ACLFilter:
    resource = acl.resource_pattern
    pattern = ResourcePatternFilter(resource.resource_type, resource.resource_name, resource.pattern_type)
    return ACLFilter(acl.principal, acl.host, acl.operation, acl.permission_type, pattern)


@pytest.fixture(scope="module")
def broker(kafka_prepared: None) -> Iterator[GuardedKafka]:
    with GuardedKafka() as kafka:
        create_topics(load_settings(kafka={"bootstrap_servers": kafka.bootstrap}), partitions=1)
        with administrator(kafka) as admin:
            admin.create_acls(list(acls()))
        yield kafka


@contextmanager
def administrator(kafka: EmbeddedKafka) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def as_worker(kafka: GuardedKafka) -> Settings:
    return load_settings(
        kafka={
            "bootstrap_servers": kafka.guarded,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "stream-dedup",
            "sasl_password": PASSWORD,
        },
        worker={"session_timeout": "1500ms", "transaction_timeout": "10s"},
    )


class Watcher(Observer):
    def __init__(self) -> None:
        self.judged = 0

    def batch(self, report: BatchReport) -> None:
        self.judged += sum(report.counts.values())


def works(settings: Settings, count: int, seconds: float = 60) -> None:
    """A worker judges `count` records. Raises what ends it."""
    stop, watcher = threading.Event(), Watcher()
    ended: list[Exception] = []

    def run() -> None:
        try:
            Worker(settings, observer=watcher).run(stop)
        except StreamError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + seconds
    while thread.is_alive() and watcher.judged < count and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    thread.join(20)
    if ended:
        raise ended[0]
    assert watcher.judged >= count, f"only {watcher.judged} of {count} records were judged"


def some(settings: Settings, name: str) -> int:
    """One record for each topic that is written to; the number of them."""
    text = "The bridge over the Elm opened on Monday after two years of work, the mayor said at noon."
    first, copy = (article(f"{name}-{n}", f"{name} {text}", source=f"{n}.example") for n in "ab")
    return len(feed(settings, [(f"{name}-a".encode(), first), (f"{name}-b".encode(), copy), (b"broken", b"{")]))


def test_with_the_listed_rights_it_works(broker: GuardedKafka) -> None:
    own = load_settings(kafka={"bootstrap_servers": broker.bootstrap})
    works(as_worker(broker), some(own, "all rights"))


@pytest.mark.parametrize("right", list(acls()), ids=named)
def test_without_one_of_them_it_ends_and_says_so(broker: GuardedKafka, right: ACL) -> None:
    own = load_settings(kafka={"bootstrap_servers": broker.bootstrap})
    count = some(own, named(right))
    with administrator(broker) as admin:
        admin.delete_acls([filter_of(right)])
        try:
            with pytest.raises(StreamError, match=message(right)):
                works(as_worker(broker), count, 30)
        finally:
            admin.create_acls([right])
    works(as_worker(broker), count)


def test_the_brokers_are_asked_without_a_right_of_its_own(broker: GuardedKafka) -> None:
    question = BrokerProbe(as_worker(broker))
    try:
        question()
    finally:
        question.close()


def test_a_trial_needs_no_more_than_to_read_its_topic(broker: GuardedKafka) -> None:
    """And a topic that it may not read is said, not taken for empty."""
    own = load_settings(kafka={"bootstrap_servers": broker.bootstrap}, topics={"input": "foreign"})
    settings = as_worker(broker)
    with administrator(broker) as admin:
        admin.create_topics({"foreign": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        count = some(own, "trial")
        with pytest.raises(StreamError, match=r"there is no topic foreign|TopicAuthorizationFailed"), \
                LiveReader(settings, "foreign") as reading:  # fmt: skip
            reading.begin(0)
        pattern = ResourcePattern(ResourceType.TOPIC, "foreign", ACLResourcePatternType.LITERAL)
        admin.create_acls([ACL("User:stream-dedup", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)])
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
