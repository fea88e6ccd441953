"""Create and check the five topics: partitions, retention, cleanup policy and record sizes, so that nothing is lost.

In: settings. Out: topics that exist (`create_topics`), or their `TopicMetadata` (`check_topics`). A topic that would
lose data is refused with the command that fixes it, at each start and each take-over (topic_rules.py).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from stream_dedup.changelog.partitions import log_end_offsets
from stream_dedup.errors import StreamError, TopicError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.topic_rules import (
    Topic,
    changelog_partitions,
    changelog_retention_ms,
    new_config,
    problems,
    topic_names,
)
from stream_dedup.settings import Settings

T = TypeVar("T")

# Requests in these versions. Up to Kafka 2.4 a member that was replaced could still commit offsets in its transaction
# (KIP-447), and up to 2.7 a topic has no id, so that one that was recreated looks like the one before (KIP-516). The
# last one is a sign of Kafka 3.3, as kafka-python reads it: on 2.8.2 the tests that kill workers lost a batch of 50
# items in one run of two, and what is between was not tried.
_NEEDED = {"TxnOffsetCommit": 3, "OffsetFetch": 7, "Metadata": 10, "DescribeAcls": 3}
# The id that brokers without topic ids (before Kafka 2.8) report.
_NO_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What the worker knows about the topics, by name.

    `partitions`: their number. `limits`: bytes of the largest batch. `compacted`: topics that take no record without a
    key. `ids`: a topic that is deleted and created anew has another id; "": the brokers (before Kafka 2.8) have none.
    `changelog_retention_ms`: the time (ms) for which the changelog retains a block at least.
    """

    partitions: Mapping[str, int]
    limits: Mapping[str, int]
    compacted: frozenset[str] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)
    changelog_retention_ms: int = 0


def check_topics(settings: Settings) -> TopicMetadata:
    """Fetch the topics' metadata and check it.

    Raises TopicError that lists every problem, each with the command that fixes it.
    """
    with _AdminClient(settings) as admin:
        _check_brokers(admin, settings)
        existing = _describe(admin, topic_names(settings))
    found = problems(settings, existing)
    if found:
        raise TopicError("the topics are not ready:\n  " + "\n  ".join(found))
    return TopicMetadata(
        {name: topic.partitions for name, topic in existing.items()},
        {name: topic.limit for name, topic in existing.items()},
        frozenset(name for name, topic in existing.items() if topic.is_compacted),
        {name: topic.id for name, topic in existing.items()},
        changelog_retention_ms(settings, existing[settings.topics.input]),
    )


def topic_ids(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """The present ids of these topics; a topic that does not exist is missing."""
    with _AdminClient(settings) as admin:
        return _existing(admin, list(names), _id)


def topic_ids_and_notes(settings: Settings, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """As `topic_ids`, and what stands beside the group's offsets."""
    group, topic = settings.kafka.group_id, settings.topics.input
    with _AdminClient(settings) as admin:
        ids = _existing(admin, list(names), _id)
        offsets = admin.list_group_offsets(group)[group]
    return ids, [str(committed.metadata) for place, committed in offsets.items() if place.topic == topic]


def has_had_records(settings: Settings, topic: str) -> bool:
    """Whether anything was ever written to the topic, even if it was deleted since."""
    with _AdminClient(settings) as admin:
        counts = _existing(admin, [topic], lambda topic: len(topic["partitions"]))
        numbers = range(counts.get(topic, 0))
        partitions = [TopicPartition(topic, number) for number in numbers]
        ends = log_end_offsets(admin, partitions)
    return any(end > 0 for end in ends.values())


def create_topics(settings: Settings, partitions: int | None = None, replication: int | None = None) -> list[str]:
    """Create the missing ones of the five topics and return their names; existing topics stay unchanged.

    `partitions`: of the input topic, from which the others follow. None: the brokers' default.
    """
    given, *others = topic_names(settings)
    created: list[str] = []

    def create(name: str, count: int | None, config: Mapping[str, str]) -> None:
        spec = {"num_partitions": count or -1, "replication_factor": replication or -1, "configs": config}
        try:
            admin.create_topics({name: spec}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return  # another process created it meanwhile
        created.append(name)

    with _AdminClient(settings) as admin:
        _check_brokers(admin, settings)
        existing = _describe(admin, topic_names(settings))
        if given not in existing:
            create(given, partitions, {})
            existing |= _describe(admin, [given])
        source = existing[given]
        for name in others:
            if name not in existing:
                is_changelog = name == settings.topics.changelog
                count = changelog_partitions(settings, source) if is_changelog else source.partitions
                create(name, count, new_config(settings, name, source))
    return created


def _check_brokers(admin: Any, settings: Settings) -> None:
    """Raise StreamError for brokers that lack what exactly-once processing needs."""
    with suppress(ValueError):  # of the client, for brokers so new that they have requests it does not know
        offered = {key.name: most for key, (_, most) in admin.api_versions().items()}
        for name, needed in _NEEDED.items():
            if offered.get(name, -1) < needed:
                raise StreamError(
                    f"the brokers at {settings.kafka.bootstrap_servers} are too old: Kafka 3.3 or newer is needed "
                    f"({name} in version {needed}; theirs is {offered.get(name, 'missing')}). Update them, or use "
                    "another cluster"
                )


class _AdminClient:
    """An admin client for a `with` block; raises its errors as ours."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None

    def __enter__(self) -> Any:
        try:
            self._client = client.make(KafkaAdminClient, client.connection(self._settings))
        except KafkaError as error:
            failure = client.translate(error, self._action)
            if isinstance(failure, TransactionFailed):  # the worker tries again, a command prints it
                failure = TransactionFailed(str(client.not_reached(error, self._settings)), lasting=failure.lasting)
            raise failure from None
        return self._client

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._client.close()
        if isinstance(error, KafkaError):
            raise client.translate(error, self._action) from error

    @property
    def _action(self) -> str:
        return f"asking Kafka at {self._settings.kafka.bootstrap_servers} for the topics"


def _existing(admin: Any, names: list[str], extract: Callable[[Any], T]) -> dict[str, T]:
    """Topic -> the value that `extract` takes from its description by kafka-python, for each topic that exists."""
    values = {}
    for topic in admin.describe_topics(names):
        if topic["error_code"] == 0:
            values[topic["name"]] = extract(topic)
        elif for_code(topic["error_code"]).__name__ != "UnknownTopicOrPartitionError":
            raise for_code(topic["error_code"])(topic["name"])
    return values


def _id(topic: Any) -> str:
    topic_id = str(topic.get("topic_id") or "")
    return "" if topic_id == _NO_ID else topic_id


def _describe(admin: Any, names: list[str]) -> dict[str, Topic]:
    partitions = _existing(admin, names, lambda topic: (len(topic["partitions"]), _id(topic)))
    if not partitions:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in partitions]
    configs = admin.describe_configs(resources, config_filter="all")["topic"]
    # Every topic has settings. If the broker refuses to show them, the client returns none, without an error.
    refused = [name for name in partitions if not configs.get(name)]
    if refused:
        raise TopicError(
            "the topics' settings cannot be read, so it is unknown whether something would be lost:\n  "
            + "\n  ".join(
                f"{name}: the user needs the right DescribeConfigs; grant it with: kafka-acls.sh --add "
                f"--allow-principal User:NAME --operation DescribeConfigs --topic {name}"
                for name in refused
            )
        )
    return {
        name: Topic(count, {key: entry["value"] for key, entry in configs[name].items()}, topic_id)
        for name, (count, topic_id) in partitions.items()
    }
