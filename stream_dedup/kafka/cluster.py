"""One look at the cluster: what the topics are, what the group has committed, and what a worker may be waiting for.

To a client a missing coordinator, a partition without a leader, and a producer that leaves its transaction open all
look like a quiet topic: it tries again and says nothing. So `look` asks for each of them, and puts the answer into a
sentence that names what is missing and what mends it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kafka.admin import OffsetSpec
from kafka.consumer.fetcher import IsolationLevel
from kafka.errors import TransactionalIdNotFoundError

from stream_dedup.errors import TransactionFailed
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.errors import KafkaError, error_text
from stream_dedup.kafka.runtime import REAL, Runtime
from stream_dedup.kafka.topics import Topic, as_they_are, topic_names
from stream_dedup.settings import Settings

# Half of what other clients wait: a broker that does not answer must not use up the ten seconds within which it is
# reported, nor the time of many probes.
_TIMEOUT_MS = 5000
_LISTED = 5  # partitions in a sentence


class Wait(StrEnum):
    """What a worker may wait for."""

    GROUP = "group"
    TRANSACTIONS = "transactions"
    LEADERS = "leaders"
    PRODUCERS = "producers"
    ANSWERS = "answers"
    BROKERS = "brokers"
    RECORDS = "records"


@dataclass(slots=True)
class Look:
    """What one look at the cluster has found."""

    topics: Mapping[str, Topic]  # those of the five that exist, by name
    # input partition -> the group's offset and its metadata
    committed: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    waits: dict[Wait, str] = field(default_factory=dict)  # what is missing, in a sentence
    # (input partition, first offset that an open transaction holds back) -> a sentence about it
    held: Mapping[tuple[int, int], str] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)  # input partition -> the end of the records that can be read


class KeptAdmin:
    """An admin client for many questions, kept until one fails: a new one for each would open two connections."""

    def __init__(self, settings: Settings, runtime: Runtime = REAL) -> None:
        self.settings, self._runtime = settings, runtime
        self.admin: Any = None

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Give the client to a `with` block; after an error in it the next block gets a new one."""
        try:
            if self.admin is None:
                timeouts = {"request_timeout_ms": _TIMEOUT_MS, "bootstrap_timeout_ms": _TIMEOUT_MS}
                config = client.connection(self.settings) | timeouts
                self.admin = self._runtime.make_client(client.KafkaAdminClient, config)
            yield self.admin
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        admin, self.admin = self.admin, None
        if admin is not None:
            admin.close()


def look(kept: KeptAdmin, transactional_ids: Iterable[str]) -> Look:
    """Look at topics, group and transactions. `transactional_ids`: those of the tasks that are not open.

    Raises a StreamError if that fails, also for a missing right, which says nothing about waiting.
    """
    settings = kept.settings
    with errors.translated("asking Kafka"), kept.open() as admin:
        seen = Look(as_they_are(admin, topic_names(settings)))
        _look_for_leaders(settings, seen)
        _look_for_group(admin, settings, seen)
        for transactional_id in transactional_ids:
            _look_for_transactions(admin, settings, transactional_id, seen)
        source = settings.topics.input
        if source in seen.topics and Wait.LEADERS not in seen.waits:
            places = [TopicPartition(source, number) for number in range(seen.topics[source].partitions)]
            _look_for_open_transactions(admin, settings, places, seen)
    if seen.waits:
        kept.close()  # the next one asks the bootstrap servers, too, and learns which addresses cannot be reached
    return seen


def _look_for_leaders(settings: Settings, seen: Look) -> None:
    missing = [f"{name}-{number}" for name, topic in seen.topics.items() for number in topic.leaderless]
    if missing:
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        seen.waits[Wait.LEADERS] = (
            f"no broker leads {', '.join(missing[:_LISTED])}{more}: start the brokers that hold these partitions "
            f"(kafka-topics.sh {_bootstrap(settings)} --describe --unavailable-partitions)"
        )


def _look_for_group(admin: Any, settings: Settings, seen: Look) -> None:
    group = settings.kafka.group_id
    try:
        offsets = admin.list_group_offsets(group)[group]
    except KafkaError as error:
        if not _is_wait(error):
            raise
        seen.waits[Wait.GROUP] = _no_coordinator(
            settings, error, f"group {group}", "__consumer_offsets", "offsets.topic.replication.factor"
        )
    else:
        topic = settings.topics.input
        commits = {place.partition: commit for place, commit in offsets.items() if place.topic == topic}
        seen.committed = {
            partition: (int(commit.offset), str(commit.metadata)) for partition, commit in commits.items()
        }


def _look_for_transactions(admin: Any, settings: Settings, transactional_id: str, seen: Look) -> None:
    try:
        admin.describe_transactions([transactional_id])
    except KafkaError as error:
        if _is_wait(error):
            seen.waits[Wait.TRANSACTIONS] = _no_coordinator(
                settings, error, f"transactional id {transactional_id}", "__transaction_state",
                "transaction.state.log.replication.factor",
            )  # fmt: skip


def _look_for_open_transactions(admin: Any, settings: Settings, places: Sequence[TopicPartition], seen: Look) -> None:
    """Find where the committed records end before the written ones."""
    latest = dict.fromkeys(places, OffsetSpec.LATEST)
    try:
        stable = admin.list_partition_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED)
        written = admin.list_partition_offsets(latest)
    except KafkaError as error:
        if not _is_wait(error):
            raise
        outage = errors.unreached(client.client_id(settings))
        seen.waits[Wait.LEADERS] = (
            f"the leaders of {settings.topics.input} do not answer ({outage or error_text(error)})"
        )
        return
    seen.ends = {place.partition: int(stable[place].offset) for place in places}
    open_places = [place for place in places if stable[place].offset < written[place].offset]
    producers: Mapping[TopicPartition, Any] = {}
    with suppress(KafkaError):  # the sentence then lacks the producer
        producers = admin.describe_producers(open_places)
    seen.held = {
        (place.partition, int(stable[place].offset)): _held(
            settings, place, int(stable[place].offset), int(written[place].offset), producers.get(place)
        )
        for place in open_places
    }


def _held(settings: Settings, place: TopicPartition, stable: int, written: int, producers: Any) -> str:
    owner = "a producer"
    for producer in producers.active_producers if producers is not None else ():
        if producer.current_transaction_start_offset == stable:
            last = datetime.fromtimestamp(producer.last_timestamp / 1000, UTC).isoformat(timespec="seconds")
            owner = f"the producer with the id {producer.producer_id} (timestamp of its last record: {last})"
    flags = f"--topic {place.topic} --partition {place.partition}"
    command = f"kafka-transactions.sh {_bootstrap(settings)}"
    return (
        f"an open transaction of {owner} holds partition {place.partition} of {place.topic}: {written - stable} "
        f"offsets from {stable} on wait for its end. Look at that producer: `{command} describe-producers {flags}`. "
        "Kafka aborts it after the producer's transaction.timeout.ms, unless the brokers have lost track of it (`"
        f"{command} find-hanging {flags}` lists it): then end it by `{command} abort {flags} --start-offset {stable}`"
    )


def _no_coordinator(settings: Settings, error: KafkaError, owner: str, topic: str, factor: str) -> str:
    outage = errors.unreached(client.client_id(settings))
    cause = (
        f": {outage}"
        if outage
        else (
            f", whose state is in {topic}. Has each partition of that a leader (kafka-topics.sh {_bootstrap(settings)} "
            f"--describe --topic {topic})? If it does not exist, the cluster has fewer brokers than {factor} (3 by "
            "default) demands: start more, or lower that"
        )
    )
    return f"no coordinator answers for the {owner} ({error_text(error).rstrip(': ')}){cause}"


def _is_wait(error: KafkaError) -> bool:
    """Return whether something is missing that may come by itself, unlike a right."""
    # The coordinator knows of no transaction yet, or the client waits by itself.
    is_other = isinstance(error, TransactionalIdNotFoundError) or errors.is_throttled(error)
    return isinstance(errors.translate(error, ""), TransactionFailed) and not is_other


def _bootstrap(settings: Settings) -> str:
    kafka = settings.kafka
    login = " --command-config FILE_WITH_THE_LOGIN" if kafka.uses_sasl or kafka.uses_tls else ""
    return f"--bootstrap-server {kafka.bootstrap_servers}{login}"
